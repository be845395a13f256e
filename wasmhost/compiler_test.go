package wasmhost_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/wasmhost"
	. "github.com/graphmill/graphmill/wasmhost/wasmtest"
)

// slowToCompile is within all limits of counts, and takes a compiler minutes: its
// time for the branches of a function grows with the square of their number.
func slowToCompile() []byte {
	branches := bytes.Repeat(Cat(I32Const(0), []byte{0x04, 0x40}, End), 14_900)
	return Guest(I64Const(0), functions(31, Func{Body: branches})...).Bytes()
}

// largeToCompile is within all limits of counts, and takes a compiler gigabytes:
// each access to memory costs it kilobytes.
func largeToCompile() []byte {
	divisions := bytes.Repeat(Cat(I32Const(1), []byte{0x6d}), 199_000) // i32.div_s
	return Guest(I64Const(0), functions(50, Func{Body: Cat(I32Const(1), divisions, Drop)})...).Bytes()
}

func functions(n int, f Func) []Func {
	list := make([]Func, n)
	for i := range list {
		list[i] = f
	}
	return list
}

// worksStill says that a host goes on after whatever has happened in it.
func worksStill(t *testing.T, h *wasmhost.Host) {
	t.Helper()
	i := instantiate(t, load(t, h, Answer(emptyAnswer).Bytes()), wasmhost.InstanceConfig{})
	_, err := i.Transform(t.Context(), graphmill.SourceKafka, batch(3))
	require.NoError(t, err)
}

func refusedModule(t *testing.T, h *wasmhost.Host, wasm []byte) *graphmill.Error {
	t.Helper()
	_, err := h.Check(t.Context(), wasm)
	var e *graphmill.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, graphmill.KindInvalid, e.Kind)
	return e
}

func TestCompilerProcess(t *testing.T) {
	dir := t.TempDir()
	var log bytes.Buffer
	cfg := wasmhost.Config{CacheDir: dir, Compiler: compiler, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	worksStill(t, newHost(t, cfg))
	files := regularFiles(t, dir)
	require.Len(t, files, 2)

	cfg.Compiler = []string{"/nonexistent"}
	worksStill(t, newHost(t, cfg))
	require.Equal(t, files, regularFiles(t, dir))
	require.Empty(t, log.String(), "a module that is in the cache needs no process")

	cfg.CacheDir, cfg.Compiler = "", compiler
	t.Setenv("TMPDIR", t.TempDir())
	worksStill(t, newHost(t, cfg))
	require.Empty(t, log.String(), "without a cache the machine code comes through a temporary folder")
	left, err := os.ReadDir(os.Getenv("TMPDIR"))
	require.NoError(t, err)
	require.Empty(t, left)

	t.Chdir(t.TempDir())
	cfg.CacheDir = "here"
	worksStill(t, newHost(t, cfg))
	require.Empty(t, log.String(), "a folder may be named from where the server works")
	require.Len(t, regularFiles(t, "here"), 2)

	notValid := Guest(I32Const(0)).Bytes()
	e := refusedModule(t, newHost(t, cfg), notValid)
	require.Equal(t, "module_rejected", e.Code)
	require.Contains(t, e.Text, "the module is not valid: ")
	require.Equal(t, refusedModule(t, newHost(t, wasmhost.Config{}), notValid).Text, e.Text, "the words do not depend on where it is compiled")
}

func TestCompilerProcessOutOfTime(t *testing.T) {
	dir := t.TempDir()
	h := newHost(t, wasmhost.Config{CacheDir: dir, Compiler: compiler, Limits: wasmhost.Limits{CompileTime: 200 * time.Millisecond}})
	began := time.Now()
	e := refusedModule(t, h, slowToCompile())
	require.Equal(t, "over_limit", e.Code)
	require.Equal(t, "compiling the module took longer than the limit of 200ms", e.Text)
	require.Less(t, time.Since(began), time.Minute)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

// raceDetector is set where the race detector is built in, which takes memory of
// its own and dies in its own words.
var raceDetector bool

// TestOthersLoadWhileOneIsCompiled has a module that takes the compiler long,
// while one that is in the cache is loaded.
func TestOthersLoadWhileOneIsCompiled(t *testing.T) {
	dir := t.TempDir()
	first := newHost(t, wasmhost.Config{CacheDir: dir})
	worksStill(t, first)

	h := newHost(t, wasmhost.Config{CacheDir: dir, Compiler: compiler, Limits: wasmhost.Limits{CompileTime: time.Minute}})
	ctx, cancel := contextWithCancel(t)
	refused := make(chan error)
	go func() {
		_, err := h.Check(ctx, slowToCompile())
		refused <- err
	}()
	require.Eventually(t, func() bool { return len(compilersOf(t, dir)) > 0 }, time.Minute, time.Millisecond)
	worksStill(t, h)
	select {
	case err := <-refused:
		t.Fatal("it should still be compiled: ", err)
	default:
	}
	cancel()
	require.ErrorContains(t, <-refused, "compile a module: context canceled")
}

// compilersOf lists the entries of a cache that are being compiled.
func compilersOf(t *testing.T, dir string) []string {
	unsealed, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	var list []string
	for _, d := range unsealed {
		if _, err := os.Stat(filepath.Join(d, "checksum")); err != nil {
			list = append(list, d)
		}
	}
	return list
}

// TestCompilerProcessFails has processes that end in every other way.
func TestCompilerProcessFails(t *testing.T) {
	shell := func(script string) []string { return []string{"/bin/sh", "-c", script} }
	for name, c := range map[string]struct {
		command []string
		code    string // empty: the server compiles the module itself
		text    string // of the error, or of the log
	}{
		"crashes":                    {shell("kill -SEGV $$"), "module_rejected", "the process that compiled it failed: signal: segmentation fault"},
		"is killed":                  {shell("kill -KILL $$"), "not_compiled", "the process that compiled it was ended from outside (signal: killed)"},
		"is terminated":              {shell("kill -TERM $$"), "not_compiled", "ended from outside (signal: terminated)"},
		"exits":                      {shell("echo broken >&2; exit 3"), "module_rejected", "exit status 3"},
		"uses its processor time up": {shell("kill -XCPU $$"), "over_limit", "took longer than the limit"},
		"has no memory":              {shell("echo 'fatal error: runtime: out of memory' >&2; exit 2"), "over_limit", "more than the limit of 1024 MiB of memory"},
		"writes without end":         {shell("exec yes"), "over_limit", "took longer than the limit"},
		"complains without end":      {shell("exec yes >&2"), "over_limit", "took longer than the limit"},
		"writes too much":            {shell(`echo '{"outcome":"size"}'`), "over_limit", "the machine code of the module is larger than the limit of 256 MiB"},
		"finds the engine broken":    {shell(`echo '{"outcome":"panic","text":"index out of range","stack":"main.go:1"}'`), "module_rejected", "the WebAssembly engine failed: index out of range"},
		"is not there":               {[]string{"/nonexistent"}, "", "no such file"},
		"answers nothing":            {shell("cat >/dev/null & exit 0"), "", "it answered"},
		"answers what is no JSON":    {shell("echo done"), "", "it answered"},
		"answers another outcome":    {shell(`echo '{"outcome":"?"}'`), "", "it answered"},
		"cannot write":               {shell(`echo '{"outcome":"folder","text":"no space left on device"}'`), "not_compiled", "no space left on device"},
		"is refused memory":          {shell(`echo '{"outcome":"memory"}'`), "over_limit", "more than the limit of 1024 MiB of memory"},
		"compiles nothing":           {shell(`echo '{"outcome":"done"}'`), "", "the machine code is missing"},
		"is of another version":      {shell(`mkdir wazero-v9; echo '{"outcome":"done"}'`), "", "another version of the engine"},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			h := newHost(t, wasmhost.Config{
				CacheDir: t.TempDir(), Compiler: c.command, Logger: slog.New(slog.NewTextHandler(&log, nil)),
				Limits: wasmhost.Limits{CompileTime: 3 * time.Second}, // a busy machine is no process without end
			})
			_, err := h.Check(t.Context(), Answer(emptyAnswer).Bytes())
			if c.code == "" {
				require.NoError(t, err)
				require.Contains(t, log.String(), "compiled within the server")
				require.Contains(t, log.String(), c.text)
				return
			}
			var e *graphmill.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, c.code, e.Code)
			require.Contains(t, e.Text, c.text)
			kind := graphmill.KindInvalid
			if c.code == wasmhost.CodeNotCompiled {
				kind = graphmill.KindUnavailable
				require.NotEmpty(t, e.Next)
			}
			require.Equal(t, kind, e.Kind)
		})
	}
}

// wrapped is the compiler's command line, with lines of a shell before and after. The
// process works in the folder for the machine code.
func wrapped(before, after string) []string {
	return []string{"/bin/sh", "-c", before + "\n" + compiler[0] + " " + compiler[1] + "\nended=$?\n" + after + "\nexit $ended"}
}

// TestMachineCodeThatCannotBeLoaded has machine code that the engine refuses, after a
// process has said that it is done. Nothing of it may be compiled in the server.
func TestMachineCodeThatCannotBeLoaded(t *testing.T) {
	const spoil = `for f in wazero-*/*; do printf x >"$f"; done`
	wasm := Answer(emptyAnswer).Bytes()
	for _, dir := range []string{"", t.TempDir()} {
		var log bytes.Buffer
		cfg := wasmhost.Config{CacheDir: dir, Logger: slog.New(slog.NewTextHandler(&log, nil))}
		cfg.Compiler = wrapped("", spoil)
		h := newHost(t, cfg)
		_, err := h.Check(t.Context(), wasm)
		var e *graphmill.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, wasmhost.CodeNotCompiled, e.Code)
		require.NotContains(t, log.String(), "within the server")

		log.Reset()
		once := filepath.Join(t.TempDir(), "once")
		cfg.Compiler = wrapped("", "if [ ! -e "+once+" ]; then : >"+once+"; "+spoil+"; fi")
		worksStill(t, newHost(t, cfg))
		require.NotContains(t, log.String(), "within the server", "another process is asked once more")
		require.Contains(t, log.String(), "cannot be loaded")
	}
}

// TestCompilerProcessKilledFromOutside kills a process that compiles, as the kernel
// does where the machine has no memory left.
func TestCompilerProcessKilledFromOutside(t *testing.T) {
	dir, pid := t.TempDir(), filepath.Join(t.TempDir(), "pid")
	h := newHost(t, wasmhost.Config{CacheDir: dir, Compiler: []string{"/bin/sh", "-c", "echo $$ >" + pid + ".new; mv " + pid + ".new " + pid + "; exec " + compiler[0] + " " + compiler[1]}})
	ended := make(chan error)
	go func() {
		_, err := h.Check(t.Context(), slowToCompile())
		ended <- err
	}()
	var process int
	require.Eventually(t, func() bool {
		text, err := os.ReadFile(pid)
		if err != nil {
			return false
		}
		process, err = strconv.Atoi(strings.TrimSpace(string(text)))
		return err == nil
	}, time.Minute, time.Millisecond)
	if runtime.GOOS == "linux" {
		require.Eventually(t, func() bool {
			score, err := os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", process))
			return err == nil && string(score) == "1000\n"
		}, time.Minute, time.Millisecond, "the kernel takes it rather than the server")
	}
	require.NoError(t, syscall.Kill(process, syscall.SIGKILL))
	err := <-ended
	var e *graphmill.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, graphmill.KindUnavailable, e.Kind, "it says nothing about the module")
	require.Equal(t, wasmhost.CodeNotCompiled, e.Code)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
	worksStill(t, h)
}

// TestCompilerProcessThatGetsNoThread is of a machine that has no room for processes:
// Go's runtime ends itself by this text (newosproc in its os_linux.go).
func TestCompilerProcessThatGetsNoThread(t *testing.T) {
	h := newHost(t, wasmhost.Config{CacheDir: t.TempDir(), Compiler: []string{"/bin/sh", "-c",
		"echo 'runtime: failed to create new OS thread (have 2 already; errno=11)' >&2; exit 2"}})
	_, err := h.Check(t.Context(), Answer(emptyAnswer).Bytes())
	require.Equal(t, graphmill.KindUnavailable, graphmill.KindOf(err), "%v", err)
}

// TestCompilerProcessEndsWithTheServer closes the input of a process that has
// minutes to do, as the kernel does when the server dies.
func TestCompilerProcessEndsWithTheServer(t *testing.T) {
	cmd := exec.Command(compiler[0], compiler[1:]...)
	cmd.Env = []string{}
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	module := slowToCompile()
	request, err := json.Marshal(map[string]any{"folder": t.TempDir(), "size": len(module), "memory": 1 << 30, "time": time.Hour})
	require.NoError(t, err)
	_, err = in.Write(append(append(request, '\n'), module...))
	require.NoError(t, err)
	require.NoError(t, in.Close())
	ended := make(chan error)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		require.ErrorContains(t, err, "exit status 1")
	case <-time.After(time.Minute):
		_ = cmd.Process.Kill()
		t.Fatal("the process goes on without its server: ", <-ended)
	}
}

// TestRunCompilerWithoutARequest is the hidden command typed by a person.
func TestRunCompilerWithoutARequest(t *testing.T) {
	for _, in := range []string{"", "no JSON\n", `{"folder":""`, "{}\n", `{"size":-1,"memory":1,"time":1}` + "\n", `{"size":1000000000000,"memory":1,"time":1}` + "\n"} {
		require.ErrorContains(t, wasmhost.RunCompiler(strings.NewReader(in), io.Discard), "read what is to be compiled")
	}
}
