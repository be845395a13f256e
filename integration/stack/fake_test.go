package stack

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// machine is a machine with the tools that a test gives it: the PATH holds
// nothing else, and cache and temporary files have directories of their own.
type machine struct {
	t    *testing.T
	bin  string
	tmp  string
	jar  string // the one jar that the fake Maven finds
	runs string // each run of the fake Maven adds a byte
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	root := t.TempDir()
	m := &machine{t: t, bin: filepath.Join(root, "bin"), tmp: filepath.Join(root, "tmp"), jar: filepath.Join(root, "a.jar"), runs: filepath.Join(root, "runs")}
	require.NoError(t, os.Mkdir(m.bin, 0o755))
	require.NoError(t, os.Mkdir(m.tmp, 0o755))
	require.NoError(t, os.WriteFile(m.jar, []byte("jar"), 0o644))
	t.Setenv("PATH", m.bin)
	t.Setenv("JAVA_HOME", "")
	t.Setenv("HOME", root)
	t.Setenv("XDG_CACHE_HOME", filepath.Join(root, "cache"))
	t.Setenv("TMPDIR", m.tmp)
	return m
}

// install puts a shell script on the PATH.
func (m *machine) install(name, script string) {
	m.t.Helper()
	require.NoError(m.t, os.WriteFile(filepath.Join(m.bin, name), []byte("#!/bin/sh\n"+script), 0o755))
}

// installJava installs a java that answers -version, formats any directory and
// runs the script as the server: $dir is the server's directory.
func (m *machine) installJava(version, server string) {
	m.install("java", fmt.Sprintf(`
for dir; do
  case $dir in
  -version) echo 'openjdk version "%s" 2025-04-15' >&2; exit 0 ;;
  kafka.tools.StorageTool) exit 0 ;;
  esac
done
%s`, version, server))
}

func (m *machine) installCompiler(version string) {
	m.install("javac", fmt.Sprintf(`
case $1 in -version) echo 'javac %s'; exit 0 ;; esac
while [ "$1" != -d ]; do shift; done
/bin/mkdir "$2"`, version))
}

// installMaven installs a Maven that runs the script and then, unless that has
// ended it, answers with the one jar.
func (m *machine) installMaven(script string) {
	m.install("mvn", fmt.Sprintf(`
printf x >>%q
%s
for a; do
  case $a in -Dmdep.outputFile=*) printf '%%s' %q >"${a#*=}" ;; esac
done`, m.runs, script, m.jar))
}

func (m *machine) mavenRuns() int {
	b, err := os.ReadFile(m.runs)
	if os.IsNotExist(err) {
		return 0
	}
	require.NoError(m.t, err)
	return len(b)
}

// installAll installs tools that work, with the script as the server.
func (m *machine) installAll(server string) {
	m.installJava("17.0.15", server)
	m.installCompiler("17.0.15")
	m.installMaven("")
}

// requireNothingLeft fails if a temporary directory of a server is still there.
func (m *machine) requireNothingLeft() {
	m.t.Helper()
	entries, err := os.ReadDir(m.tmp)
	require.NoError(m.t, err)
	require.Empty(m.t, entries, "files left in the temporary directory")
}

// buffer is a log that a test reads while a server writes to it.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) lines() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Split(strings.TrimSpace(b.b.String()), "\n")
}
