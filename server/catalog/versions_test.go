package catalog_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/server/catalog"
)

// versions returns the numbers of the versions, newest first, and the active
// one.
func versions(t *testing.T, c *catalog.Bolt) (numbers []int, active int) {
	t.Helper()
	vs, err := c.ModuleVersions(ctx, "m")
	require.NoError(t, err)
	for _, m := range vs {
		numbers = append(numbers, m.Version)
		if m.Active {
			active = m.Version
		}
	}
	return numbers, active
}

func TestAVersionThatWasRolledBackIsNotGoneBackTo(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir)
	back := func(want int) {
		t.Helper()
		m, _, err := c.ActivateModule(ctx, "m", 0)
		require.NoError(t, err)
		require.Equal(t, want, m.Version)
	}
	push(t, c, "good", true, "f")
	push(t, c, "bad", true, "f")
	back(1)
	push(t, c, "worse", true, "f")
	c = reopen(t, c, dir)
	back(1)
	_, _, err := c.ActivateModule(ctx, "m", 0)
	requireCode(t, err, "no_earlier_version")
	_, _, err = c.ActivateModule(ctx, "m", 2)
	require.NoError(t, err)
	_, _, err = c.ActivateModule(ctx, "m", 3)
	require.NoError(t, err)
	back(2)
	require.NoError(t, deletion(c.DeleteModuleVersion(ctx, "m", 3, nil)))
}

func TestAnotherVersionIsMadeActive(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir)
	for _, bytes := range []string{"one", "two", "three"} {
		push(t, c, bytes, true, "f")
	}
	push(t, c, "four", false, "f")
	activate := func(version int) (graphmill.Module, bool) {
		m, changed, err := c.ActivateModule(ctx, "m", version)
		require.NoError(t, err)
		require.True(t, m.Active)
		return m, changed
	}
	for _, want := range []int{2, 1} {
		m, changed := activate(0)
		require.Equal(t, want, m.Version, "the one before")
		require.True(t, changed)
	}
	_, _, err := c.ActivateModule(ctx, "m", 0)
	requireCode(t, err, "no_earlier_version")
	require.ErrorContains(t, err, "before version 1")

	_, changed := activate(4)
	require.True(t, changed, "one that was never active")
	_, changed = activate(4)
	require.False(t, changed)
	c = reopen(t, c, dir)
	_, active := versions(t, c)
	require.Equal(t, 4, active)

	_, _, err = c.ActivateModule(ctx, "m", 5)
	requireCode(t, err, "version_not_found")
	_, _, err = c.ActivateModule(ctx, "absent", 1)
	requireCode(t, err, "module_not_found")
}

func TestAVersionThatLacksAFunctionInUseIsNotMadeActive(t *testing.T) {
	c := open(t, t.TempDir())
	push(t, c, "one", true, "f")
	push(t, c, "two", true, "f", "g")
	for _, name := range []string{"a", "b"} {
		_, err := c.CreateStream(ctx, stream(name, "m.g"))
		require.NoError(t, err)
	}
	_, _, err := c.ActivateModule(ctx, "m", 0)
	requireCode(t, err, "function_in_use")
	require.ErrorContains(t, err, `version 1 of module "m" does not export g, in use by streams "a", "b"`)
	_, active := versions(t, c)
	require.Equal(t, 2, active)

	require.NoError(t, c.DeleteStream(ctx, "a"))
	require.NoError(t, c.DeleteStream(ctx, "b"))
	_, _, err = c.ActivateModule(ctx, "m", 0)
	require.NoError(t, err)
}

func TestAVersionIsRemovedWithItsBytes(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir)
	push(t, c, "one", true, "f")
	push(t, c, "two", true, "f")
	push(t, c, "one", true, "f") // the first one's bytes again
	requireCode(t, deletion(c.DeleteModuleVersion(ctx, "m", 3, nil)), "version_active")
	requireCode(t, deletion(c.DeleteModuleVersion(ctx, "m", 7, nil)), "version_not_found")
	requireCode(t, deletion(c.DeleteModuleVersion(ctx, "x", 1, nil)), "module_not_found")

	require.NoError(t, deletion(c.DeleteModuleVersion(ctx, "m", 1, nil)))
	require.Len(t, moduleFiles(t, dir), 2, "version 3 has its bytes")
	require.NoError(t, deletion(c.DeleteModuleVersion(ctx, "m", 2, nil)))
	require.Len(t, moduleFiles(t, dir), 1)
	numbers, active := versions(t, c)
	require.Equal(t, []int{3}, numbers)
	require.Equal(t, 3, active)

	// The last one is the module.
	_, err := c.CreateStream(ctx, stream("s", "m.f"))
	require.NoError(t, err)
	requireCode(t, deletion(c.DeleteModuleVersion(ctx, "m", 3, nil)), "module_in_use")
	require.NoError(t, c.DeleteStream(ctx, "s"))
	require.NoError(t, deletion(c.DeleteModuleVersion(ctx, "m", 3, nil)))
	require.Empty(t, moduleFiles(t, dir))
	_, err = c.ModuleVersions(ctx, "m")
	requireCode(t, err, "module_not_found")
}

func TestTheNumberOfARemovedVersionIsNotGivenAgain(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir)
	push(t, c, "one", true, "f")
	push(t, c, "two", false, "f")
	push(t, c, "three", false, "f")
	require.NoError(t, deletion(c.DeleteModuleVersion(ctx, "m", 3, nil)))
	require.NoError(t, deletion(c.DeleteModuleVersion(ctx, "m", 2, nil)))
	c = reopen(t, c, dir)
	m, created := push(t, c, "other", true, "f")
	require.True(t, created)
	require.Equal(t, 4, m.Version)
	m, _ = push(t, c, "another", true, "f")
	require.Equal(t, 5, m.Version)
}

func TestABrokenModuleIsRemovedAndPushedAgainWhileAStreamUsesIt(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir)
	push(t, c, "one", true, "f")
	_, err := c.CreateStream(ctx, stream("s", "m.f"))
	require.NoError(t, err)
	require.NoError(t, c.Close())
	for name, entry := range map[string]string{
		"no JSON":       `{"active":`,
		"out of order":  `{"active":1,"versions":[{"name":"m","version":1,"sha256":"` + sum + `"},{"name":"m","version":1,"sha256":"` + sum + `"}]}`,
		"later version": `{"active":1,"colour":"blue"}`,
	} {
		put(t, dir, "modules", "m", entry)
		c = open(t, dir)
		_, _, err = c.ActivateModule(ctx, "m", 1)
		requireCode(t, err, "entry_broken")
		requireCode(t, deletion(c.DeleteModuleVersion(ctx, "m", 1, nil)), "entry_broken")
		_, _, err = c.PutModule(ctx, module("m", "f"), []byte("two"), true)
		requireCode(t, err, "entry_broken")
		require.NoError(t, deletion(c.DeleteModule(ctx, "m", nil)), name)
		push(t, c, "one", true, "f")
		require.Len(t, moduleFiles(t, dir), 1, name)
		require.NoError(t, c.Close())
	}
}

const sum = "0000000000000000000000000000000000000000000000000000000000000000"

func TestLostBytesAreToldOnOpening(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir)
	one, _ := push(t, c, "one", true, "f")
	two, _ := push(t, c, "two!", true, "f")
	lost := func() []graphmill.Module {
		lost, err := c.LostModules(ctx)
		require.NoError(t, err)
		return lost
	}
	require.Empty(t, lost())
	require.NoError(t, os.WriteFile(filepath.Join(dir, "modules", two.SHA256+".wasm"), []byte("two"), 0o600))
	require.Equal(t, []graphmill.Module{two}, lost(), "cut short")

	require.NoError(t, os.RemoveAll(filepath.Join(dir, "modules")))
	one.Active = false
	require.Equal(t, []graphmill.Module{two, one}, lost())
	push(t, c, "two!", true, "f")
	require.Equal(t, []graphmill.Module{one}, lost(), "a push makes the folder anew")

	require.NoError(t, os.RemoveAll(filepath.Join(dir, "modules")))
	require.NoError(t, deletion(c.DeleteModule(ctx, "m", nil)), "there is nothing left to remove")
	c = reopen(t, c, dir)
	require.Empty(t, lost())
}
