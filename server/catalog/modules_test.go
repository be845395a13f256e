package catalog_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/server/catalog"
	"github.com/graphmill/graphmill/server/secret"
)

func module(name string, functions ...string) graphmill.Module {
	return graphmill.Module{Name: name, ContentType: "application/wasm", Transformations: functions}
}

func push(t *testing.T, c *catalog.Bolt, bytes string, activate bool, functions ...string) (graphmill.Module, bool) {
	t.Helper()
	m, created, err := c.PutModule(ctx, module("m", functions...), []byte(bytes), activate)
	require.NoError(t, err)
	return m, created
}

func moduleFiles(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "modules", "*"))
	require.NoError(t, err)
	return files
}

func TestModuleVersionsCountUp(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir)
	one, created := push(t, c, "one", true, "f")
	require.True(t, created)
	require.Equal(t, 1, one.Version)
	require.True(t, one.Active)

	again, created := push(t, c, "one", true, "f")
	require.False(t, created)
	require.Equal(t, one, again)

	two, created := push(t, c, "two", false, "f")
	require.True(t, created)
	require.Equal(t, 2, two.Version)
	require.False(t, two.Active, "it was not to be activated")

	two, created = push(t, c, "two", true, "f")
	require.False(t, created)
	require.True(t, two.Active, "the same bytes activate what is there")

	c = reopen(t, c, dir)
	versions, err := c.ModuleVersions(ctx, "m")
	require.NoError(t, err)
	one.Active = false
	require.Equal(t, []graphmill.Module{two, one}, versions)
	bytes, err := c.ModuleBytes(ctx, two.SHA256)
	require.NoError(t, err)
	require.Equal(t, "two", string(bytes))
}

func TestAModuleInUseIsKept(t *testing.T) {
	c := open(t, t.TempDir())
	push(t, c, "one", true, "f", "g")
	_, err := c.CreateStream(ctx, stream("s", "m.f"))
	require.NoError(t, err)

	requireCode(t, deletion(c.DeleteModule(ctx, "m", nil)), "module_in_use")
	_, _, err = c.PutModule(ctx, module("m", "g"), []byte("two"), true)
	requireCode(t, err, "function_in_use")
	versions, err := c.ModuleVersions(ctx, "m")
	require.NoError(t, err)
	require.Len(t, versions, 1, "what was refused is not stored")

	kept, _ := push(t, c, "two", false, "g")
	require.False(t, kept.Active)
	readOnly := module("m", "g")
	requireCode(t, deletion(c.DeleteModule(ctx, "m", &readOnly)), "function_in_use")
	readOnly = module("m", "f")
	require.NoError(t, deletion(c.DeleteModule(ctx, "m", &readOnly)), "the ready module of that name serves the stream")
}

// deletion is the error of a deletion.
func deletion[T any](_ T, err error) error { return err }

func TestADeletionReturnsWhatItHasRemoved(t *testing.T) {
	c := open(t, t.TempDir())
	one, _ := push(t, c, "one", true, "f")
	two, _ := push(t, c, "two", true, "f")
	three, _ := push(t, c, "three", true, "f")
	one.Active, two.Active = false, false
	removed, err := c.DeleteModuleVersion(ctx, "m", 2, nil)
	require.NoError(t, err)
	require.Equal(t, two, removed)
	all, err := c.DeleteModule(ctx, "m", nil)
	require.NoError(t, err)
	require.Equal(t, []graphmill.Module{one, three}, all)
}

// TestADeletionIsDoneWhereAFileCannotBeRemoved has a folder that is not empty in a
// file's place, which not even root can remove as a file.
func TestADeletionIsDoneWhereAFileCannotBeRemoved(t *testing.T) {
	dir := t.TempDir()
	var log bytes.Buffer
	c, err := catalog.Open(dir, secret.NewKeys(filepath.Join(dir, "secret.key"), true), slog.New(slog.NewTextHandler(&log, nil)))
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	push(t, c, "one", true, "f")
	m, _ := push(t, c, "two", true, "f")
	file := filepath.Join(dir, "modules", "00.wasm")
	stuck := filepath.Join(file, "stuck")
	require.NoError(t, os.MkdirAll(stuck, 0o700))

	require.NoError(t, deletion(c.DeleteModuleVersion(ctx, "m", 1, nil)))
	require.Contains(t, log.String(), file)
	require.Len(t, moduleFiles(t, dir), 2, "what can be removed is")
	require.NoError(t, deletion(c.DeleteModule(ctx, "m", nil)))
	_, err = c.ModuleVersions(ctx, "m")
	requireCode(t, err, "module_not_found")
	_, err = c.ModuleBytes(ctx, m.SHA256)
	requireCode(t, err, "module_bytes_lost")
	c = reopen(t, c, dir) // it does not prevent the next start

	push(t, c, "one", true, "f")
	require.NoError(t, os.Remove(stuck))
	require.NoError(t, deletion(c.DeleteModule(ctx, "m", nil)))
	require.Empty(t, moduleFiles(t, dir), "the next sweep removes it")
}

func TestFilesFollowTheEntries(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir)
	m, _ := push(t, c, "one", true, "f")
	require.Len(t, moduleFiles(t, dir), 1)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "modules", ".new-123"), []byte("torn"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "modules", "00.wasm"), []byte("orphan"), 0o600))
	c = reopen(t, c, dir)
	require.Len(t, moduleFiles(t, dir), 1, "what a crash left behind is removed")
	_, err := c.ModuleBytes(ctx, m.SHA256)
	require.NoError(t, err)

	require.NoError(t, deletion(c.DeleteModule(ctx, "m", nil)))
	require.Empty(t, moduleFiles(t, dir))
	_, err = c.ModuleBytes(ctx, m.SHA256)
	requireCode(t, err, "module_bytes_lost")
}

func TestFilesOfABrokenEntryAreKept(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir)
	push(t, c, "one", true, "f")
	require.NoError(t, c.Close())
	put(t, dir, "modules", "m", `{"active":`)
	c = open(t, dir)
	require.Len(t, moduleFiles(t, dir), 1, "the broken entry may refer to it")
	_, broken, err := c.Modules(ctx)
	require.NoError(t, err)
	require.Len(t, broken, 1)
	_, err = c.ModuleVersions(ctx, "m")
	requireCode(t, err, "entry_broken")
}

func TestDamagedBytesAreNoticed(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir)
	m, _ := push(t, c, "one", true, "f")
	require.NoError(t, os.WriteFile(moduleFiles(t, dir)[0], []byte("two"), 0o600))
	_, err := c.ModuleBytes(ctx, m.SHA256)
	requireCode(t, err, "module_bytes_damaged")
	require.NoError(t, os.Truncate(moduleFiles(t, dir)[0], 1<<40))
	_, err = c.ModuleBytes(ctx, m.SHA256)
	requireCode(t, err, "module_bytes_damaged")
	require.NoError(t, os.Remove(moduleFiles(t, dir)[0]))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "modules", m.SHA256+".wasm"), 0o700))
	_, err = c.ModuleBytes(ctx, m.SHA256)
	requireCode(t, err, "module_bytes_damaged")
	require.NoError(t, os.Remove(moduleFiles(t, dir)[0]))
	push(t, c, "one", true, "f")
	_, err = c.ModuleBytes(ctx, m.SHA256)
	require.NoError(t, err, "pushing it again mends it")
}

func TestALostCatalogTakesNoModulesWithIt(t *testing.T) {
	for name, lose := range map[string]func(path string) error{
		"absent": os.Remove,
		"empty":  func(path string) error { return os.Truncate(path, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			c := open(t, dir)
			push(t, c, "one", true, "f")
			require.NoError(t, c.Close())
			require.NoError(t, lose(filepath.Join(dir, "catalog.db")))
			_, err := openCatalog(dir)
			requireCode(t, err, "catalog_lost")
			require.Len(t, moduleFiles(t, dir), 1)
		})
	}
}
