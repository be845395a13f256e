package setting

import "github.com/graphmill/graphmill"

// Vault is where the values lie that a definition names and does not hold.
// Its errors are meant for people, and hold no secret.
type Vault interface {
	// Value returns what a value of the form secret:NAME stands for.
	Value(name string) (string, error)
	// File returns the content of the file that a setting names.
	File(path string) ([]byte, error)
}

// NoVault is a place without secrets and files.
type NoVault struct{}

// Value implements Vault.
func (NoVault) Value(string) (string, error) {
	return "", graphmill.Invalid("", "there is nothing here that secret:NAME could name")
}

// File implements Vault.
func (NoVault) File(string) ([]byte, error) {
	return nil, graphmill.Invalid("", "no files can be named here")
}

// AboutEntry makes an error of the vault one about an entry of a field.
func AboutEntry(field, name string, err error) *graphmill.Error {
	out := &graphmill.Error{Kind: graphmill.KindOf(err), Code: "invalid", Field: field, Text: name, Err: err}
	if e, ok := err.(*graphmill.Error); ok {
		out.Code, out.Text, out.Next, out.Err = e.Code, name+": "+e.Text, e.Next, e.Err
	}
	return out
}

// Secret is a text that no format prints: of a pointer within something else
// they print the address. The zero value is an empty one.
type Secret struct{ held *string }

// Hide makes a secret of a text.
func Hide(text string) Secret { return Secret{&text} }

// Reveal returns the text.
func (s Secret) Reveal() string {
	if s.held == nil {
		return ""
	}
	return *s.held
}

// Empty says whether there is no text.
func (s Secret) Empty() bool { return s.Reveal() == "" }
