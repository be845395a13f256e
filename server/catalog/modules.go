package catalog

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"go.etcd.io/bbolt"

	"github.com/graphmill/graphmill"
)

// moduleEntry is what is stored of one module.
type moduleEntry struct {
	Active   int                `json:"active"`
	Versions []graphmill.Module `json:"versions"` // oldest first

	// Last is the highest number that was ever given, where its version has been
	// removed: what a batch has recorded must not come to mean other bytes.
	Last int `json:"last,omitempty"`

	// Replaced is, per version that was made active in place of an earlier one,
	// which one that was, unless it is the one before in number: a version that
	// was rolled back is not gone back to.
	Replaced map[int]int `json:"replaced,omitempty"`
}

// activate makes a version the active one.
func (e *moduleEntry) activate(version int) {
	if e.Active > 0 && e.Active < version-1 {
		if e.Replaced == nil {
			e.Replaced = map[int]int{}
		}
		e.Replaced[version] = e.Active
	} else if e.Active == version-1 {
		delete(e.Replaced, version)
	}
	e.Active = version
}

func decodeModule(k, v []byte) (moduleEntry, error) {
	var e moduleEntry
	if err := strictJSON(v, &e); err != nil {
		return e, err
	}
	if len(e.Versions) == 0 {
		return e, errors.New("the entry has no version")
	}
	activeThere, highest := false, 0
	for i := range e.Versions {
		m := &e.Versions[i]
		if m.Name != string(k) {
			return e, fmt.Errorf("the entry is of a module named %q", m.Name)
		}
		if sum, err := hex.DecodeString(m.SHA256); err != nil || len(sum) != sha256.Size {
			return e, fmt.Errorf("version %d has no SHA-256", m.Version)
		}
		if m.Version <= highest {
			return e, fmt.Errorf("version %d follows version %d", m.Version, highest)
		}
		highest = m.Version
		m.Active = m.Version == e.Active
		activeThere = activeThere || m.Active
	}
	if !activeThere {
		return e, fmt.Errorf("the active version %d is not there", e.Active)
	}
	return e, nil
}

// next returns the number of the next version.
func (e moduleEntry) next() int {
	highest := e.Last
	if len(e.Versions) > 0 {
		highest = max(highest, e.Versions[len(e.Versions)-1].Version)
	}
	return highest + 1
}

// newestFirst returns the versions in the order in which they are shown.
func (e moduleEntry) newestFirst() []graphmill.Module {
	vs := slices.Clone(e.Versions)
	slices.Reverse(vs)
	return vs
}

// Modules implements Catalog.
func (c *Bolt) Modules(context.Context) ([]graphmill.Module, []Broken, error) {
	var modules []graphmill.Module
	var broken []Broken
	err := c.view(func(tx *bbolt.Tx) error {
		return tx.Bucket(modulesBucket).ForEach(func(k, v []byte) error {
			e, err := decodeModule(k, v)
			if err != nil {
				broken = append(broken, Broken{Kind: "module", Name: string(k), Err: err})
				return nil
			}
			modules = append(modules, e.newestFirst()...)
			return nil
		})
	})
	return modules, broken, err
}

// ModuleVersions implements Catalog.
func (c *Bolt) ModuleVersions(_ context.Context, name string) ([]graphmill.Module, error) {
	var versions []graphmill.Module
	err := c.view(func(tx *bbolt.Tx) error {
		e, err := getModule(tx, name)
		versions = e.newestFirst()
		return err
	})
	return versions, err
}

func moduleNotFound(name string) error {
	return graphmill.NotFound("module_not_found", "there is no module %q", name)
}

func getModule(tx *bbolt.Tx, name string) (moduleEntry, error) {
	v := tx.Bucket(modulesBucket).Get([]byte(name))
	if v == nil {
		return moduleEntry{}, moduleNotFound(name)
	}
	e, err := decodeModule([]byte(name), v)
	if err != nil {
		return moduleEntry{}, &graphmill.Error{Kind: graphmill.KindConflict, Code: "entry_broken",
			Text: fmt.Sprintf("the catalog's entry of module %q cannot be read", name), Err: err,
			Next: "remove the module and push it again"}
	}
	return e, nil
}

// PutModule implements Catalog.
func (c *Bolt) PutModule(_ context.Context, m graphmill.Module, bytes []byte, activate bool) (graphmill.Module, bool, error) {
	sum := sha256.Sum256(bytes)
	m.SHA256 = hex.EncodeToString(sum[:])
	m.Size = int64(len(bytes))

	c.fileMu.Lock()
	defer c.fileMu.Unlock()
	if err := c.files.write(m.SHA256, bytes); err != nil {
		return m, false, c.wrap("write", fmt.Errorf("store the bytes of module %q: %w", m.Name, err))
	}
	created := false
	err := c.update(func(tx *bbolt.Tx) error {
		e, err := getModule(tx, m.Name)
		if err != nil && graphmill.KindOf(err) != graphmill.KindNotFound {
			return err
		}
		first := len(e.Versions) == 0
		if !first && e.Versions[len(e.Versions)-1].SHA256 == m.SHA256 {
			m = e.Versions[len(e.Versions)-1]
		} else {
			created = true
			m.Version, e.Last = e.next(), 0
			e.Versions = append(e.Versions, m)
		}
		m.Active = e.Active == m.Version
		if activate || first {
			err := mayReplace(tx, m, "this file", "push one that exports it, or keep the present version active with --no-activate")
			if err != nil {
				return err
			}
			e.activate(m.Version)
			m.Active = true
		}
		return putJSON(tx.Bucket(modulesBucket), m.Name, e)
	})
	if err != nil {
		created = false
		c.sweepLocked()
	}
	return m, created, err
}

// ModuleBytes implements Catalog.
func (c *Bolt) ModuleBytes(_ context.Context, sha256 string) ([]byte, error) {
	bytes, err := c.files.read(sha256)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, graphmill.Conflict("module_bytes_lost", "its bytes (SHA-256 %.12s) are not in the data directory any more", sha256)
	case errors.Is(err, errDamaged):
		return nil, graphmill.Conflict("module_bytes_damaged", "its bytes (SHA-256 %.12s) have been changed in the data directory", sha256)
	}
	return bytes, c.wrap("read", err)
}

// LostModules implements Catalog.
func (c *Bolt) LostModules(ctx context.Context) ([]graphmill.Module, error) {
	modules, _, err := c.Modules(ctx)
	return slices.DeleteFunc(modules, func(m graphmill.Module) bool { return c.files.hasSize(m.SHA256, m.Size) }), err
}

// DeleteModule implements Catalog.
func (c *Bolt) DeleteModule(_ context.Context, name string, readOnly *graphmill.Module) ([]graphmill.Module, error) {
	c.fileMu.Lock()
	defer c.fileMu.Unlock()
	var removed []graphmill.Module
	err := c.update(func(tx *bbolt.Tx) (err error) {
		removed, err = deleteModule(tx, name, readOnly)
		return err
	})
	if err != nil {
		return nil, err
	}
	c.sweepLocked()
	return removed, nil
}

// deleteModule removes an entry that no stream uses, or one that cannot be read:
// streams cannot use that either, until the module is pushed again.
func deleteModule(tx *bbolt.Tx, name string, readOnly *graphmill.Module) (removed []graphmill.Module, err error) {
	e, err := getModule(tx, name)
	switch {
	case graphmill.KindOf(err) == graphmill.KindNotFound:
		return nil, err
	case err != nil:
	case readOnly != nil:
		err := mayReplace(tx, *readOnly, "the ready module of that name", "drop what uses it first: graphmill stream drop NAME")
		if err != nil {
			return nil, err
		}
	default:
		if users := usersOf(tx, name); len(users) > 0 {
			return nil, &graphmill.Error{Kind: graphmill.KindConflict, Code: "module_in_use",
				Text: fmt.Sprintf("module %q is used by %s", name, streamNames(users)),
				Next: "drop what uses it first: graphmill stream drop NAME"}
		}
	}
	return e.Versions, tx.Bucket(modulesBucket).Delete([]byte(name))
}

// usersOf returns the streams whose transformation is of the module. Entries
// that cannot be read use nothing.
func usersOf(tx *bbolt.Tx, module string) []Stream {
	var users []Stream
	_ = tx.Bucket(streamsBucket).ForEach(func(k, v []byte) error {
		s, err := sealedStream(k, v)
		if err != nil {
			return nil
		}
		if ref, err := graphmill.ParseTransformationRef(s.Spec.Transform); err == nil && ref.Module == module {
			users = append(users, s)
		}
		return nil
	})
	return users
}

// mayReplace refuses to let streams use a version that lacks a function of
// theirs. Every stream counts, whatever its state. version names it for people.
func mayReplace(tx *bbolt.Tx, m graphmill.Module, version, next string) error {
	var users []Stream
	var missing []string
	for _, s := range usersOf(tx, m.Name) {
		ref, err := graphmill.ParseTransformationRef(s.Spec.Transform)
		if err != nil || slices.Contains(m.Transformations, ref.Function) {
			continue
		}
		users = append(users, s)
		if !slices.Contains(missing, ref.Function) {
			missing = append(missing, ref.Function)
		}
	}
	if len(users) == 0 {
		return nil
	}
	return &graphmill.Error{Kind: graphmill.KindConflict, Code: "function_in_use",
		Text: fmt.Sprintf("%s does not export %s, in use by %s", version, someOf(missing), streamNames(users)),
		Next: next}
}

// streamNames names streams for people.
func streamNames(streams []Stream) string {
	names := make([]string, len(streams))
	for i, s := range streams {
		names[i] = fmt.Sprintf("%q", s.Spec.Name)
	}
	if len(names) == 1 {
		return "stream " + names[0]
	}
	return "streams " + someOf(names)
}

// someOf lists the first of many names.
func someOf(names []string) string {
	const most = 10
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

// sweepLocked removes files that nothing refers to. What cannot be removed is logged,
// and met again by the next sweep: it takes room and does no other harm. fileMu is
// held.
func (c *Bolt) sweepLocked() {
	wanted, complete, err := c.moduleSums()
	if err == nil && complete {
		err = c.files.sweep(wanted)
	}
	if err != nil {
		c.log.Warn("files that no module refers to are left in the data directory; they are removed with the next module, or at the next start",
			"folder", c.files.dir, "error", err)
	}
}

// moduleSums returns the hashes that entries refer to. It is not complete
// where an entry cannot be read.
func (c *Bolt) moduleSums() (wanted map[string]bool, complete bool, err error) {
	modules, broken, err := c.Modules(context.Background())
	wanted = make(map[string]bool, len(modules))
	for _, m := range modules {
		wanted[m.SHA256] = true
	}
	for _, b := range broken {
		if b.Kind == "module" {
			return wanted, false, err
		}
	}
	return wanted, true, err
}
