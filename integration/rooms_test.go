package integration_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	pathpkg "path"
	"path/filepath"
	"slices"
	"strconv"
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
	forTests bool     // every test may know it
}

var rooms = []room{
	{dir: "."},
	{dir: "sources"},
	{dir: "sources/sourcetest", mayKnow: []string{"sources"}, forTests: true},
	{dir: "batching"},
	{dir: "wasmhost"},
	{dir: "server/secret"},
	{dir: "server/events"},
	{dir: "server/catalog", mayKnow: []string{"server/secret"}},
	{dir: "server/graph"},
	{dir: "server/ledger"},
	{dir: "server", mayKnow: []string{"sources", "batching", "wasmhost", "server/catalog", "server/events", "server/graph", "server/ledger", "server/secret"}},
	{dir: "api/statement"},
	{dir: "api/query", mayKnow: []string{"api/statement", "server"}}, // and no door: see docs/decisions/0021
	{dir: "api", mayKnow: []string{"api/query", "api/statement", "server", "server/events", "server/secret"}},
	{dir: "cmd", mayKnow: []string{"api", "api/query", "api/statement", "server", "server/catalog", "server/graph", "server/ledger", "server/secret", "sources", "batching", "wasmhost", "sdk/scaffold"}},
	{dir: "sdk/scaffold", mayKnow: []string{"wasmhost"}},        // its tests run what it writes
	{dir: "sdk", mayKnow: []string{"wasmhost"}, forTests: true}, // without sdk/go, a module of its own
	{dir: "integration", everyone: true, forTests: true},
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

// source is a Go file of the program: its directory, and what of this repository
// it imports, as directories.
type source struct {
	file, dir string
	test      bool
	imports   []string
}

func TestImportsRunDownwards(t *testing.T) {
	sources := readSources(t, "..")
	require.NotEmpty(t, sources)
	for _, f := range sources {
		r, ok := roomOf(f.dir)
		if !ok {
			t.Errorf("%s stands in no room: move it into one, or add a room to the table in integration/rooms_test.go and to CONTRIBUTING.md", f.file)
			continue
		}
		for _, imported := range f.imports {
			other, ok := roomOf(imported)
			if !ok || r.knows(other) {
				continue
			}
			if f.test && other.forTests {
				continue
			}
			t.Errorf("%s imports %s: the room %s may know %s; declare an interface where it is needed, and put the two together further up", f.file, imported, r.dir, strings.Join(append([]string{"the root package"}, r.mayKnow...), ", "))
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

// readSources reads the imports of all Go files of the module at root, whatever
// system or build tag they are for. It reads the files itself, and asks no
// "go list", so that the test's cached result is void once a file changes.
func readSources(t *testing.T, root string) []source {
	t.Helper()
	var sources []source
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() {
			if path != root && (name == "testdata" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || isModule(path)) {
				return fs.SkipDir
			}
			return nil
		}
		if filepath.Ext(name) != ".go" {
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		f := source{file: rel, dir: pathpkg.Dir(rel), test: strings.HasSuffix(name, "_test.go")}
		for _, i := range parsed.Imports {
			imported, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				return err
			}
			if dir, ours := directory(imported); ours {
				f.imports = append(f.imports, dir)
			}
		}
		sources = append(sources, f)
		return nil
	})
	require.NoError(t, err)
	return sources
}

func isModule(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil
}

// directory returns the directory of a package of this repository, "." for the
// root.
func directory(importPath string) (string, bool) {
	if importPath == module {
		return ".", true
	}
	return strings.CutPrefix(importPath, module+"/")
}

func readModule(t *testing.T, path string) *modfile.File {
	t.Helper()
	b, err := os.ReadFile(filepath.FromSlash(path))
	require.NoError(t, err)
	f, err := modfile.Parse(path, b, nil)
	require.NoError(t, err)
	return f
}
