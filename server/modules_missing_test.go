package server_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/integration/boltserver"
	"github.com/graphmill/graphmill/server"
)

// Whoever names a module that is not there learns where it comes from: one that is
// shipped from its build, others from a push.
func TestAModuleThatIsNotThereSaysWhereItComesFrom(t *testing.T) {
	sources, err := filepath.Glob("../plugins/*/main.go")
	require.NoError(t, err)
	require.NotEmpty(t, sources)
	w := newWorld(t, 1, boltserver.Options{})
	folder := filepath.Join(t.TempDir(), "plugins")
	require.NoError(t, os.Mkdir(folder, 0o700))
	s := w.open(func(cfg *server.Config) { cfg.PluginsDir = folder })
	for _, source := range sources {
		name := filepath.Base(filepath.Dir(source))
		_, err := s.ModuleVersions(t.Context(), name)
		e := requireCode(t, err, "module_not_found")
		require.Contains(t, e.Next, filepath.Join(folder, name+".wasm")+" is not there: make build plugins", name)
	}
	_, err = s.ModuleVersions(t.Context(), "mine")
	require.Equal(t, "push it: graphmill module push mine FILE", requireCode(t, err, "module_not_found").Next)
	w.push(s)
	_, err = s.ModuleVersions(t.Context(), "mine")
	require.Contains(t, requireCode(t, err, "module_not_found").Next, "; there are: obedient")

	info, err := s.CreateStream(t.Context(), server.CreateRequest{Spec: graphmill.StreamSpec{Name: "s", Topics: []string{"topic"}, Transform: "cypher.event"}, Check: true})
	require.NoError(t, err)
	require.Len(t, info.Warnings, 1)
	require.Contains(t, info.Warnings[0], "make build plugins")
}
