package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestNewPluginIsBuiltByMakeAndRunsOnItsMessages(t *testing.T) {
	sdk, err := filepath.Abs("../../sdk/go")
	require.NoError(t, err)
	c := newCLI(t)
	out := c.must(t, "new", "go", "people-plugin", "--sdk", sdk)
	require.Contains(t, out, "wrote the plugin people-plugin:\n  people-plugin/main.go\n")
	_, next, _ := strings.Cut(out, "next:\n")
	require.Equal(t, "  cd people-plugin\n  make\n  "+program+" run people-plugin.wasm --messages messages.jsonl\n"+
		"  "+program+" module push people-plugin people-plugin.wasm\nREADME.md there goes on to a stream.\n", next)

	// The steps as they are printed, up to the one that needs a server.
	steps, _, _ := strings.Cut(next, "  "+program+" module push")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	follow := exec.CommandContext(ctx, "sh", "-ec", steps)
	follow.Dir = c.dir
	follow.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off", "GOPROXY=off", "HOME="+t.TempDir(), "GOCACHE="+goCache(t))
	text, err := follow.CombinedOutput()
	require.Error(t, err, "the last message fails on purpose, and so does the last step: %s", text)
	out = string(text)
	require.True(t, strings.HasSuffix(out, "error: 1 of 3 messages failed\n"), out)
	require.Contains(t, out, "3 messages, 2 statements, 1 failure")
	require.Contains(t, out, `{"city":"London","name":"Ada","userId":7}`)
	require.Contains(t, out, `failed: field "userId" is missing`)
}

func TestNewFindsTheSDKOfTheCloneAroundIt(t *testing.T) {
	c := newCLI(t)
	r := c.run(t, "", "new", "go", "mine")
	require.Equal(t, exitFailed, r.status)
	require.Contains(t, r.err, "error: the SDK for Go is not found in or above "+c.dir)
	require.Contains(t, r.err, "next:  name the directory sdk/go of a clone of Graphmill: --sdk DIR")
	require.NoDirExists(t, filepath.Join(c.dir, "mine"))

	require.NoError(t, os.MkdirAll(filepath.Join(c.dir, "sdk", "go"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(c.dir, "sdk", "go", "go.mod"), []byte("module github.com/graphmill/graphmill/sdk/go\n\ngo 1.24\n"), 0o600))
	c.must(t, "new", "go", "mine")
	mod, err := readFile(filepath.Join(c.dir, "mine", "go.mod"))
	require.NoError(t, err)
	require.Contains(t, string(mod), "=> ../sdk/go\n")
}

func TestNewRefusesWhatItCannotWrite(t *testing.T) {
	c := newCLI(t)
	require.NoError(t, os.WriteFile(filepath.Join(c.dir, "notes.txt"), nil, 0o600))
	for _, test := range []struct {
		about  string
		args   []string
		status int
		want   string
	}{
		{"no directory", []string{"new", "go"}, exitUsage, "takes LANGUAGE and DIR"},
		{"an unknown language", []string{"new", "cobol", "p"}, exitUsage, `in "cobol", only in: go`},
		{"a mistyped language", []string{"new", "og", "p", "--sdk", "."}, exitUsage, `did you mean "go"?`},
		{"a directory that is not empty", []string{"new", "go", ".", "--sdk", "."}, exitFailed, "is not empty: it holds notes.txt"},
		{"a wrong SDK", []string{"new", "go", "p", "--sdk", "."}, exitFailed, "the SDK for Go is not in "},
	} {
		t.Run(test.about, func(t *testing.T) {
			r := c.run(t, "", test.args...)
			require.Equal(t, test.status, r.status, r.err)
			require.Contains(t, r.err, test.want)
			require.Contains(t, r.err, "next:  ")
			require.Empty(t, r.out)
			require.NoDirExists(t, filepath.Join(c.dir, "p"))
		})
	}
}

func TestDirectoryToChangeIntoIsOneWordOfTheShell(t *testing.T) {
	for dir, want := range map[string]string{
		"people-plugin": "people-plugin",
		"../größe/p_1":  "../größe/p_1",
		"my plugin":     `'my plugin'`,
		"it's $HOME":    `'it'\''s $HOME'`,
		"~x":            `'~x'`,
	} {
		require.Equal(t, want, shellWord(dir))
	}
}

func TestNewPrintsAPathThatWorksFromThePlugin(t *testing.T) {
	wd, err := os.Getwd()
	require.NoError(t, err)
	for _, test := range []struct{ about, program, dir, want string }{
		{"found in the PATH", "graphmill", "people", "graphmill"},
		{"an absolute path", "/opt/graphmill", "people", "/opt/graphmill"},
		{"a path of a clone", "bin/graphmill", "people", "../bin/graphmill"},
		{"in the working directory", "./graphmill", "a/b", "../../graphmill"},
		{"a plugin elsewhere", "bin/graphmill", filepath.Dir(wd), filepath.Base(wd) + "/bin/graphmill"},
	} {
		require.Equal(t, test.want, calledFrom(test.program, test.dir), test.about)
	}
}

// goCache is the Go command's cache, which a home of its own would hide.
func goCache(t *testing.T) string {
	t.Helper()
	text, err := exec.Command("go", "env", "GOCACHE").Output()
	require.NoError(t, err)
	return strings.TrimSpace(string(text))
}
