package server_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/integration/boltserver"
	"github.com/graphmill/graphmill/server"
	wt "github.com/graphmill/graphmill/wasmhost/wasmtest"
)

// scarce is a machine that kills whatever compiles a module while memory is scarce.
// Else modules are compiled in the server.
type scarce struct {
	t    *testing.T
	file string
}

func newScarce(t *testing.T) scarce { return scarce{t, filepath.Join(t.TempDir(), "scarce")} }

func (m scarce) begins() { require.NoError(m.t, os.WriteFile(m.file, nil, 0o600)) }
func (m scarce) ends()   { require.NoError(m.t, os.Remove(m.file)) }

func (m scarce) configure(c *server.Config) {
	c.Compiler = []string{"/bin/sh", "-c", "[ -e " + m.file + ` ] && kill -KILL $$; echo '{"outcome":"done"}'`}
}

// compiledEntries counts the modules in the cache.
func compiledEntries(t *testing.T, dir string) int {
	entries, err := os.ReadDir(filepath.Join(dir, "cache", "wasm"))
	require.NoError(t, err)
	return len(entries)
}

const notCompiled = "not_compiled"

func TestAPushWhoseCompilerIsKilledSaysNothingAboutTheModule(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	memory := newScarce(t)
	s := w.open(memory.configure)
	memory.begins()
	_, err := s.PushModule(t.Context(), server.PushRequest{Name: "obedient", ContentType: server.ContentTypeWasm, Bytes: obedient})
	require.Equal(t, graphmill.KindUnavailable, requireCode(t, err, notCompiled).Kind)
	modules, err := s.Modules(t.Context())
	require.NoError(t, err)
	require.Empty(t, modules)
	memory.ends()
	w.push(s)
}

func TestAStreamWaitsWhileItsModuleCannotBeCompiled(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	memory := newScarce(t)
	s := w.open(memory.configure)
	w.push(s)
	w.create(s, nil)
	w.start(s)
	w.close(s)
	require.NoError(t, os.RemoveAll(filepath.Join(w.dir, "cache")))

	memory.begins()
	s = w.open(memory.configure)
	status := w.awaitState(s, graphmill.StateWaiting)
	require.Equal(t, notCompiled, status.Reason.Code)
	require.Contains(t, status.Reason.Text, `version 1 of module "obedient"`)
	require.Contains(t, status.Reason.Text, "ended from outside (signal: killed)")
	promptly(t, "STOP", func() {
		_, err := s.StopStream(t.Context(), "s")
		require.NoError(t, err)
	})
	w.close(s)
	s = w.open(func(c *server.Config) { memory.configure(c); c.StartTimeout = 1 })
	w.start(s)
	w.awaitState(s, graphmill.StateWaiting)
	memory.ends()
	w.produce("a")
	w.awaitAcknowledged(s, 1)
	require.Equal(t, graphmill.StateRunning, w.status(s).State)
}

// TestAStreamWaitsWhileTheNextVersionCannotBeCompiled rolls to a version that was
// compiled once and is in the cache no more.
func TestAStreamWaitsWhileTheNextVersionCannotBeCompiled(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	memory := newScarce(t)
	s := w.open(func(c *server.Config) { memory.configure(c); c.CacheSize = 1 })
	w.push(s)
	w.pushUnused(s, obedientTwo)
	w.create(s, nil)
	w.start(s)
	require.Equal(t, 1, compiledEntries(t, w.dir), "what is used alone")

	memory.begins()
	_, err := s.RollbackModule(t.Context(), "obedient", 2)
	require.NoError(t, err)
	w.produce("a")
	require.Equal(t, notCompiled, w.awaitState(s, graphmill.StateWaiting).Reason.Code)
	require.Empty(t, w.applied())
	memory.ends()
	w.awaitAcknowledged(s, 1)
	status := w.awaitState(s, graphmill.StateRunning)
	require.Equal(t, 2, status.Module.Version)
	require.Equal(t, []string{"a"}, w.applied())

	// STOP does not sit it out.
	memory.begins()
	_, err = s.RollbackModule(t.Context(), "obedient", 1)
	require.NoError(t, err)
	w.produce("b")
	w.awaitState(s, graphmill.StateWaiting)
	promptly(t, "STOP", func() {
		_, err := s.StopStream(t.Context(), "s")
		require.NoError(t, err)
	})
	require.EqualValues(t, 1, w.committed())
}

func TestAReadyModuleIsCompiledOnceThatCanBeDone(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	memory := newScarce(t)
	plugins := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(plugins, "obedient.wasm"), obedient, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(plugins, "other.wasm"), obedientTwo, 0o600))
	memory.begins()
	s := w.open(func(c *server.Config) { memory.configure(c); c.PluginsDir = plugins })
	modules, err := s.Modules(t.Context())
	require.NoError(t, err)
	require.Empty(t, modules)
	_, err = s.ModuleVersions(t.Context(), "obedient")
	require.Equal(t, graphmill.KindUnavailable, requireCode(t, err, notCompiled).Kind)
	memory.ends()
	require.Eventually(t, func() bool {
		modules, err := s.Modules(t.Context())
		return err == nil && len(modules) == 2
	}, patience, 10*time.Millisecond)
	w.create(s, nil)
	w.start(s)
}

func TestWhatWasCompiledGoesWithItsVersion(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	plugins := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(plugins, "ready.wasm"), vigilantVersion(9), 0o600))
	s := w.open(func(c *server.Config) { c.PluginsDir = plugins })
	_, err := s.ModuleVersions(t.Context(), "ready")
	require.NoError(t, err)
	require.Equal(t, 1, compiledEntries(t, w.dir))

	for _, bytes := range [][]byte{obedient, obedientTwo, vigilantVersion(9), obedient} {
		w.pushAs(s, "obedient", bytes)
	}
	w.create(s, nil)
	w.start(s)
	require.Equal(t, 3, compiledEntries(t, w.dir))
	require.NoError(t, s.DeleteModuleVersion(t.Context(), "obedient", 1))
	require.Equal(t, 3, compiledEntries(t, w.dir), "version 4 has the same bytes")
	require.NoError(t, s.DeleteModuleVersion(t.Context(), "obedient", 2))
	require.Equal(t, 2, compiledEntries(t, w.dir))

	// A push that the catalog refuses leaves nothing either.
	w.create(s, func(spec *graphmill.StreamSpec) { spec.Name, spec.Transform = "looping", "obedient.loop" })
	_, err = s.PushModule(t.Context(), server.PushRequest{Name: "obedient", ContentType: server.ContentTypeWasm, Bytes: wt.Guest(wt.I64Const(0)).Bytes()})
	requireCode(t, err, "function_in_use")
	require.Equal(t, 2, compiledEntries(t, w.dir))
	require.NoError(t, s.DeleteStream(t.Context(), "looping", server.DeleteRequest{}))

	_, err = s.StopStream(t.Context(), "s")
	require.NoError(t, err)
	require.NoError(t, s.DeleteStream(t.Context(), "s", server.DeleteRequest{}))
	require.NoError(t, s.DeleteModule(t.Context(), "obedient"))
	require.Equal(t, 1, compiledEntries(t, w.dir), "the ready one's")
}
