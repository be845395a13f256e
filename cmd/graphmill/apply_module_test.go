package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAModuleFileThatIsSwappedAfterTheComparisonIsNotPushed(t *testing.T) {
	c := newCLI(t)
	server := c.dev(t)
	module, err := os.ReadFile(moviesFile)
	require.NoError(t, err)
	other := append(module[:len(module):len(module)], "\x00\x04\x03abc"...)
	file := filepath.Join(c.dir, "movies.module")
	var swapped []byte
	address := server.between(t, func(w http.ResponseWriter, r *http.Request, pass http.HandlerFunc) {
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/modules/movies") {
			_ = os.WriteFile(file, swapped, 0o600) // it has been compared
		}
		pass(w, r)
	})
	sum, _, err := sumOf(strings.NewReader(string(module)))
	require.NoError(t, err)
	sameSize := append([]byte{}, module...)
	sameSize[len(sameSize)-1] ^= 1
	for name, x := range map[string]struct {
		definition string
		swapped    []byte
	}{
		"pinned":                   {", sha256: " + sum, other},
		"not pinned":               {"", other},
		"of the same size":         {"", sameSize},
		"a shorter one":            {"", module[:len(module)-1]},
		"empty":                    {"", []byte{}},
		"a beginning with no more": {", sha256: " + sum, module[:8]},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, os.WriteFile(file, module, 0o600))
			swapped = x.swapped
			c.write(t, "m.yaml", fmt.Sprintf("modules: [{name: movies, file: movies.module%s}]\n", x.definition))
			r := c.run(t, "", "apply", "-f", "m.yaml", "--server", address)
			require.Equal(t, exitFailed, r.status)
			require.Contains(t, r.err, "error: m.yaml:1: module movies: movies.module has changed since it was compared, and is not pushed\nnext:  apply again\n")
			require.NotContains(t, c.must(t, "module", "list"), "movies")
		})
	}
	swapped = module
	require.NoError(t, os.WriteFile(file, module, 0o600))
	require.Equal(t, exitDone, c.run(t, "", "apply", "-f", "m.yaml", "--server", address).status)
	require.Contains(t, c.must(t, "module", "list"), "movies")
	server.stop(t)
}
