package integration_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/modfile"
)

const (
	module  = "github.com/graphmill/graphmill"
	sdkRoot = module + "/sdk/go"
)

// room is a directory of the program with what is below it, unless a longer
// entry claims that, and the rooms that it may know. Imports run downwards:
//
//	cmd -> api -> server -> {wasmhost, batching, sources} -> root
//
// Rooms that stand beside each other speak in the root's words, and server puts
// them together. CONTRIBUTING.md says what each room is for.
type room struct {
	dir      string
	mayKnow  []string // besides itself and the root
	everyone bool     // may know every room
}

var rooms = []room{
	{dir: "."},
	{dir: "sources"},
	{dir: "batching"},
	{dir: "wasmhost"},
	{dir: "server/catalog"},
	{dir: "server/graph"},
	{dir: "server/ledger"},
	{dir: "server", mayKnow: []string{"sources", "batching", "wasmhost", "server/catalog", "server/graph", "server/ledger"}},
	{dir: "api", mayKnow: []string{"server"}},
	{dir: "cmd", mayKnow: []string{"api", "server", "server/catalog", "server/graph", "server/ledger", "sources", "batching", "wasmhost"}},
	{dir: "integration", everyone: true},
}

// roomOf returns the room of a directory of the program.
func roomOf(dir string) (room, bool) {
	best, found := room{}, false
	for _, r := range rooms {
		inside := dir == r.dir || strings.HasPrefix(dir, r.dir+"/")
		if inside && (!found || len(r.dir) > len(best.dir)) {
			best, found = r, true
		}
	}
	return best, found
}

func (r room) knows(other room) bool {
	return r.everyone || other.dir == r.dir || other.dir == "." || slices.Contains(r.mayKnow, other.dir)
}

type listed struct {
	ImportPath                         string
	Imports, TestImports, XTestImports []string
}

func TestImportsRunDownwards(t *testing.T) {
	packages := listPackages(t)
	require.NotEmpty(t, packages)
	for _, p := range packages {
		dir := directory(p.ImportPath)
		r, ok := roomOf(dir)
		if !ok {
			t.Errorf("%s stands in no room: move it into one, or add a room to the table in integration/rooms_test.go and to CONTRIBUTING.md", dir)
			continue
		}
		for _, imported := range ours(p.Imports) {
			if other, ok := roomOf(imported); ok && !r.knows(other) {
				t.Errorf("%s imports %s: the room %q may know only %v and the root package; declare an interface where it is needed, and put the two together further up", dir, imported, r.dir, r.mayKnow)
			}
		}
		// Tests may use the fakes and servers of integration besides.
		for _, imported := range ours(slices.Concat(p.TestImports, p.XTestImports)) {
			if other, ok := roomOf(imported); ok && other.dir != "integration" && !r.knows(other) {
				t.Errorf("a test of %s imports %s: the room %q may know only %v, the root package and integration", dir, imported, r.dir, r.mayKnow)
			}
		}
	}
}

// The guest SDK is compiled into other people's plugins: what it requires, they
// require.
func TestGuestModulesRequireNothingOfTheHost(t *testing.T) {
	sdk := readModule(t, "../sdk/go/go.mod")
	require.Equal(t, sdkRoot, sdk.Module.Mod.Path)
	require.Empty(t, sdk.Require, "sdk/go/go.mod")

	plugins := readModule(t, "../plugins/go.mod")
	for _, r := range plugins.Require {
		require.Equal(t, sdkRoot, r.Mod.Path, "plugins/go.mod may require the SDK only")
	}
}

// listPackages lists the packages of the program's module, with the files of
// the end-to-end tests. A package that does not compile is no matter of this
// test (-e): its imports count all the same.
func listPackages(t *testing.T) []listed {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-e", "-tags", "e2e", "-json=ImportPath,Imports,TestImports,XTestImports", "./...")
	cmd.Dir = ".."
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "go list: %s", stderr.String())
	var packages []listed
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		err := d.Decode(&p)
		if errors.Is(err, io.EOF) {
			return packages
		}
		require.NoError(t, err)
		packages = append(packages, p)
	}
}

// ours returns the directories of the imports that belong to this repository.
func ours(imports []string) []string {
	var dirs []string
	for _, i := range imports {
		if i == module || strings.HasPrefix(i, module+"/") {
			dirs = append(dirs, directory(i))
		}
	}
	return dirs
}

// directory returns the directory of a package, "." for the root.
func directory(importPath string) string {
	if importPath == module {
		return "."
	}
	return strings.TrimPrefix(importPath, module+"/")
}

func readModule(t *testing.T, path string) *modfile.File {
	t.Helper()
	b, err := os.ReadFile(filepath.FromSlash(path))
	require.NoError(t, err)
	f, err := modfile.Parse(path, b, nil)
	require.NoError(t, err)
	return f
}
