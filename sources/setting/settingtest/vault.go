package settingtest

import "github.com/graphmill/graphmill"

// Vault holds secrets and files in memory, by their names.
type Vault map[string]string

// Value implements setting.Vault.
func (v Vault) Value(name string) (string, error) {
	if s, ok := v[name]; ok {
		return s, nil
	}
	return "", &graphmill.Error{Kind: graphmill.KindConflict, Code: "secret_not_found", Text: "there is no secret " + name}
}

// File implements setting.Vault.
func (v Vault) File(path string) ([]byte, error) {
	s, err := v.Value(path)
	return []byte(s), err
}
