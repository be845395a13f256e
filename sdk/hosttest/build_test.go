// Package hosttest_test runs what sdk/go and plugins make of themselves in the
// server's own host: modules that are built by the Go command, as their authors
// build them.
package hosttest_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill/wasmhost"
)

// build compiles the main package in dir, which is relative to this one, to a
// module.
func build(t testing.TB, dir string) []byte {
	t.Helper()
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

// load makes a module ready in a host of its own.
func load(t testing.TB, wasm []byte) *wasmhost.Module {
	t.Helper()
	host, err := wasmhost.New(t.Context(), wasmhost.Config{})
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
