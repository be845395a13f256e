package catalog

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	"go.etcd.io/bbolt"

	"github.com/graphmill/graphmill"
)

// ActivateModule implements Catalog.
func (c *Bolt) ActivateModule(_ context.Context, name string, version int) (graphmill.Module, bool, error) {
	var m graphmill.Module
	changed := false
	err := c.update(func(tx *bbolt.Tx) error {
		e, err := getModule(tx, name)
		if err != nil {
			return err
		}
		i, err := e.find(name, cmp.Or(version, e.before()))
		if err != nil {
			return err
		}
		m = e.Versions[i]
		changed = !m.Active
		m.Active = true
		if !changed {
			return nil
		}
		err = mayReplace(tx, m, fmt.Sprintf("version %d of module %q", m.Version, name), "choose a version that exports it: graphmill module show "+name)
		if err != nil {
			return err
		}
		e.activate(m.Version)
		return putJSON(tx.Bucket(modulesBucket), name, e)
	})
	if err != nil {
		return graphmill.Module{}, false, err
	}
	return m, changed, nil
}

// DeleteModuleVersion implements Catalog.
func (c *Bolt) DeleteModuleVersion(_ context.Context, name string, version int, readOnly *graphmill.Module) (graphmill.Module, error) {
	c.fileMu.Lock()
	defer c.fileMu.Unlock()
	var removed graphmill.Module
	err := c.update(func(tx *bbolt.Tx) error {
		e, err := getModule(tx, name)
		if err != nil {
			return err
		}
		i, err := e.find(name, version)
		if err != nil {
			return err
		}
		removed = e.Versions[i]
		switch {
		case len(e.Versions) == 1:
			_, err := deleteModule(tx, name, readOnly)
			return err
		case e.Versions[i].Active:
			return &graphmill.Error{Kind: graphmill.KindConflict, Code: "version_active",
				Text: fmt.Sprintf("version %d of module %q is the active one", version, name),
				Next: fmt.Sprintf("make another one active first: graphmill module rollback %s VERSION", name)}
		}
		e.Last = e.next() - 1
		e.Versions = slices.Delete(e.Versions, i, i+1)
		delete(e.Replaced, version)
		return putJSON(tx.Bucket(modulesBucket), name, e)
	})
	if err != nil {
		return graphmill.Module{}, err
	}
	c.sweepLocked()
	return removed, nil
}

// before returns the number of the version that was active before the active one
// replaced it, or the next earlier one where that has been removed; 0 if there is
// none. It is lower than the active one, so that going back ends.
func (e moduleEntry) before() int {
	replaced, ok := e.Replaced[e.Active]
	if !ok {
		replaced = e.Active - 1
	}
	before := 0
	for _, m := range e.Versions {
		if m.Version <= replaced {
			before = m.Version
		}
	}
	return before
}

// find returns the place of a version.
func (e moduleEntry) find(name string, version int) (int, error) {
	if version == 0 {
		return 0, &graphmill.Error{Kind: graphmill.KindConflict, Code: "no_earlier_version",
			Text: fmt.Sprintf("module %q has no version before version %d, the active one", name, e.Active),
			Next: "name the version to make active; there are: " + e.numbers()}
	}
	i := slices.IndexFunc(e.Versions, func(m graphmill.Module) bool { return m.Version == version })
	if i < 0 {
		err := graphmill.NotFound("version_not_found", "module %q has no version %d", name, version)
		err.Next = "there are: " + e.numbers()
		return 0, err
	}
	return i, nil
}

// numbers lists the versions, newest first.
func (e moduleEntry) numbers() string {
	var numbers []string
	for _, m := range e.newestFirst() {
		numbers = append(numbers, strconv.Itoa(m.Version))
	}
	return someOf(numbers)
}
