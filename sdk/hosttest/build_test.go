// Package hosttest_test runs what sdk/go and plugins make of themselves in the
// server's own host: modules that are built by the Go command, as their authors
// build them.
package hosttest_test

import (
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill/wasmhost"
)

// build compiles the main package in dir, which is relative to this one, to a
// module.
func build(t testing.TB, dir string) []byte {
	t.Helper()
	readSources(t, "../go")
	readSources(t, dir)
	out := filepath.Join(t.TempDir(), "module.wasm")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-buildmode=c-shared", "-trimpath", "-ldflags=-s -w", "-o", out, ".")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "GOFLAGS=", "GOWORK=off", "CGO_ENABLED=0")
	text, err := cmd.CombinedOutput()
	require.NoError(t, err, "build %s: %s", dir, text)
	wasm, err := os.ReadFile(out)
	require.NoError(t, err)
	return wasm
}

// readSources opens the Go files in and below dir. The Go command takes notice, and
// does not repeat the result of an earlier test once one of them has changed; what
// the build reads it does not see.
func readSources(t testing.TB, dir string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err == nil && (filepath.Ext(path) == ".go" || filepath.Base(path) == "go.mod") {
			_, err = os.ReadFile(path)
		}
		return err
	}))
}

// load makes a module ready in a host of its own.
func load(t testing.TB, wasm []byte) *wasmhost.Module {
	t.Helper()
	host, err := wasmhost.New(t.Context(), wasmhost.Config{Limits: wasmhost.Limits{CompileTime: 10 * time.Minute}}) // the race detector makes it slow
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, host.Close(context.Background())) })
	module, err := host.Load(t.Context(), wasm)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, module.Close(context.Background())) })
	return module
}

// start makes an instance of a module.
func start(t testing.TB, m *wasmhost.Module, cfg wasmhost.InstanceConfig) *wasmhost.Instance {
	t.Helper()
	i, err := m.Instantiate(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, i.Close(context.Background())) })
	return i
}
