package catalog

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"go.etcd.io/bbolt"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/server/secret"
)

// Sealer makes secrets unreadable in the store; *secret.Keys is one. about binds
// a value to its place. first tells whether nothing is sealed yet: only then a key
// may be made.
type Sealer interface {
	Seal(plain, about string, first func() bool) (sealed string, err error)
	Open(sealed, about string) (plain string, err error)
	Renew()                       // looks for the keys anew
	SealsAnew(sealed string) bool // whether Seal has another key by now
}

// Locked are the secrets of a stored definition that no key opens. In the
// definition they stand as they are stored, and so they are stored again, until
// they are set anew or their key is back.
type Locked struct {
	Settings []string // "credentials.sasl.password", sorted
	Err      error    // why: of KindConflict, secret_key
}

// secretMaps are the parts of a definition that hold secrets.
func secretMaps(spec *graphmill.StreamSpec) map[string]*map[string]string {
	return map[string]*map[string]string{"credentials": &spec.Credentials, "configs": &spec.Configs}
}

// isSecret says whether a value of one of the parts is to be sealed. References to
// secrets are none. What only looks sealed is, too, or it would be opened.
func isSecret(field, name, value string) bool {
	if secret.IsSealed(value) {
		return true
	}
	_, isRef := graphmill.SecretRef(value)
	return !isRef && (field == "credentials" || graphmill.SecretConfig(name, value))
}

// sealSecrets seals the secrets of a definition that is to be stored in the place
// of another (nil: there is none), and returns those that stay locked. The maps of
// the caller's definition are left alone.
func sealSecrets(spec *graphmill.StreamSpec, stored *graphmill.StreamSpec, seal Sealer, nothingSealed func() bool) (locked []string, err error) {
	toSeal := map[string][]string{}
	for field, entries := range secretMaps(spec) {
		*entries = maps.Clone(*entries)
		for name, value := range *entries {
			switch {
			case !isSecret(field, name, value):
			case stored != nil && secret.IsSealed(value) && (*secretMaps(stored)[field])[name] == value:
				locked = append(locked, field+"."+name)
			default:
				toSeal[field] = append(toSeal[field], name)
			}
		}
	}
	first := func() bool { return len(locked) == 0 && nothingSealed() }
	for field, names := range toSeal {
		entries := *secretMaps(spec)[field]
		for _, name := range names {
			if entries[name], err = seal.Seal(entries[name], place(spec, field, name), first); err != nil {
				return nil, fmt.Errorf("seal %s of stream %q for the catalog: %w", name, spec.Name, err)
			}
		}
	}
	slices.Sort(locked)
	return locked, nil
}

// sealAnew seals with the present key what was sealed with an earlier one, so that
// the earlier one can be given up. What no key opens stays as it is.
func (c *Bolt) sealAnew() error {
	return c.update(func(tx *bbolt.Tx) error {
		for name, v := range entriesOf(tx.Bucket(streamsBucket)) {
			stored, err := sealedStream([]byte(name), v)
			if err != nil || !c.isSealedBefore(stored.Spec) {
				continue
			}
			s, err := c.decodeStream([]byte(name), v)
			if err != nil {
				continue // it is told as broken
			}
			if _, err := c.putStream(tx, s, &stored); err != nil {
				return err
			}
		}
		return nil
	})
}

func (c *Bolt) isSealedBefore(spec graphmill.StreamSpec) bool {
	for _, entries := range secretMaps(&spec) {
		for _, value := range *entries {
			if secret.IsSealed(value) && c.seal.SealsAnew(value) {
				return true
			}
		}
	}
	return false
}

// entriesOf copies a bucket, which must not be changed while it is walked through.
func entriesOf(b *bbolt.Bucket) map[string][]byte {
	entries := map[string][]byte{}
	_ = b.ForEach(func(k, v []byte) error {
		entries[string(k)] = bytes.Clone(v)
		return nil
	})
	return entries
}

// openSecrets gives a stored definition its secrets back, but for those that are
// locked; nil: none is.
func openSecrets(spec *graphmill.StreamSpec, seal Sealer) *Locked {
	var locked Locked
	for field, entries := range secretMaps(spec) {
		for _, name := range slices.Sorted(maps.Keys(*entries)) {
			value := (*entries)[name]
			if !secret.IsSealed(value) {
				continue
			}
			plain, err := seal.Open(value, place(spec, field, name))
			if err != nil {
				locked.Settings, locked.Err = append(locked.Settings, field+"."+name), err
				continue
			}
			(*entries)[name] = plain
		}
	}
	if locked.Err == nil {
		return nil
	}
	slices.Sort(locked.Settings)
	return &locked
}

// withoutLocked is a definition as it can be validated: the text of a sealed value
// follows other rules than the value.
func withoutLocked(spec graphmill.StreamSpec, locked *Locked) graphmill.StreamSpec {
	if locked == nil {
		return spec
	}
	for field, entries := range secretMaps(&spec) {
		*entries = maps.Clone(*entries)
		maps.DeleteFunc(*entries, func(name, _ string) bool { return slices.Contains(locked.Settings, field+"."+name) })
	}
	return spec
}

// anySealed says whether a stored stream other than the one named may hold a sealed
// value. It looks at the bytes, since an entry that cannot be read may hold one too.
func anySealed(tx *bbolt.Tx, but string) bool {
	found := false
	_ = tx.Bucket(streamsBucket).ForEach(func(k, v []byte) error {
		found = found || string(k) != but && bytes.Contains(v, []byte(secret.Prefix))
		return nil
	})
	return found
}

// place binds a sealed value to its stream and setting.
func place(spec *graphmill.StreamSpec, field, name string) string {
	return fmt.Sprintf("stream %q %s %q", spec.Name, field, name)
}
