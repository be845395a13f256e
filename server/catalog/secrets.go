package catalog

import (
	"fmt"
	"maps"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/server/secret"
)

// Sealer makes secrets unreadable in the store; *secret.Keys is one. about binds
// a value to its place.
type Sealer interface {
	Seal(plain, about string) (sealed string, err error)
	Open(sealed, about string) (plain string, err error)
}

// sealSecrets seals the secrets of a definition that is to be stored. References
// to secrets are none. The maps of the caller's definition are left alone.
func sealSecrets(spec *graphmill.StreamSpec, seal Sealer) (err error) {
	spec.Credentials, err = sealEntries(spec, "credentials", spec.Credentials, seal, func(string, string) bool { return true })
	if err != nil {
		return err
	}
	spec.Configs, err = sealEntries(spec, "configs", spec.Configs, seal, graphmill.SecretConfig)
	return err
}

func sealEntries(spec *graphmill.StreamSpec, field string, entries map[string]string, seal Sealer, isSecret func(name, value string) bool) (map[string]string, error) {
	entries = maps.Clone(entries)
	for name, value := range entries {
		_, isRef := graphmill.SecretRef(value)
		// What only looks sealed is sealed, too, or it would be opened.
		if !secret.IsSealed(value) && (isRef || !isSecret(name, value)) {
			continue
		}
		var err error
		if entries[name], err = seal.Seal(value, place(spec, field, name)); err != nil {
			return nil, fmt.Errorf("seal %s of stream %q for the catalog: %w", name, spec.Name, err)
		}
	}
	return entries, nil
}

// openSecrets gives a stored definition its secrets back.
func openSecrets(spec *graphmill.StreamSpec, seal Sealer) error {
	for field, entries := range map[string]map[string]string{"credentials": spec.Credentials, "configs": spec.Configs} {
		for name, value := range entries {
			if !secret.IsSealed(value) {
				continue
			}
			plain, err := seal.Open(value, place(spec, field, name))
			if err != nil {
				return fmt.Errorf("%s %s: %w", field, name, err)
			}
			entries[name] = plain
		}
	}
	return nil
}

// place binds a sealed value to its stream and setting.
func place(spec *graphmill.StreamSpec, field, name string) string {
	return fmt.Sprintf("stream %q %s %q", spec.Name, field, name)
}
