package wasmhost_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill/wasmhost"
	. "github.com/graphmill/graphmill/wasmhost/wasmtest"
)

// The kernel bounds the process of a compiler on Linux alone.

func TestCompilerProcessOutOfMemory(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector dies of it in its own words")
	}
	wasm := largeToCompile()
	h := newHost(t, wasmhost.Config{Compiler: compiler, Limits: wasmhost.Limits{CompileMemory: 512 << 20}})
	peak := peakMemory(t, func() {
		e := refusedModule(t, h, wasm)
		require.Equal(t, "over_limit", e.Code)
		require.Equal(t, "compiling the module takes more than the limit of 512 MiB of memory", e.Text)
	})
	require.Less(t, peak, int64(300<<20), "the server's own memory: 4.3 GiB when it compiles this itself")
	worksStill(t, h)
}

// TestCompilerProcessTellsThatItsProcessorTimeIsOver gives a process three seconds of
// it, for what takes longer.
func TestCompilerProcessTellsThatItsProcessorTimeIsOver(t *testing.T) {
	branches := bytes.Repeat(Cat(I32Const(0), []byte{0x04, 0x40}, End), 60_000)
	guest := Guest(I64Const(0))
	guest.Funcs = append([]Func{{Body: branches}}, guest.Funcs...) // the deadline is looked at between two functions
	module := guest.Bytes()
	request, err := json.Marshal(map[string]any{"folder": t.TempDir(), "size": len(module), "memory": 1 << 30, "time": 900 * time.Millisecond})
	require.NoError(t, err)
	cmd := exec.Command(compiler[0], compiler[1:]...)
	cmd.Env = []string{}
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	var out bytes.Buffer
	cmd.Stdout = &out
	require.NoError(t, cmd.Start())
	_, err = in.Write(append(append(request, '\n'), module...))
	require.NoError(t, err)
	require.NoError(t, cmd.Wait())
	require.JSONEq(t, `{"outcome":"time"}`, out.String())
	used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	require.Greater(t, used, 2300*time.Millisecond, "the kernel's clock, and not the deadline")
	require.Less(t, used, 6*time.Second, "long before it is killed")
}

// TestCompilerProcessIsBare looks at what the process gets of the server.
func TestCompilerProcessIsBare(t *testing.T) {
	t.Setenv("GRAPHMILL_SECRET_TEST", "planted")
	secret, err := os.Create(filepath.Join(t.TempDir(), "planted"))
	require.NoError(t, err)
	defer secret.Close()
	var log bytes.Buffer
	h := newHost(t, wasmhost.Config{
		Compiler: []string{"/bin/sh", "-c", "{ env; ls -l /proc/self/fd; } >&2; exit 7"},
		CacheDir: t.TempDir(), Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	refusedModule(t, h, Answer(emptyAnswer).Bytes())
	require.Contains(t, log.String(), "pipe:", "the open files are shown")
	require.Contains(t, log.String(), "GOTRACEBACK", "the environment is shown")
	require.NotContains(t, log.String(), "planted")
	require.NotContains(t, log.String(), "PATH=/usr")
}
