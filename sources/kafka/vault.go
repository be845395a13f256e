package kafka

import "github.com/graphmill/graphmill"

// Vault is where the values lie that a definition names and does not hold.
// Its errors are meant for people, and hold no secret.
type Vault interface {
	// Value returns what a value of the form secret:NAME stands for.
	Value(name string) (string, error)
	// File returns the content of the file that an entry *.location names.
	File(path string) ([]byte, error)
}

// noVault is a place without secrets and files.
type noVault struct{}

func (noVault) Value(string) (string, error) {
	return "", graphmill.Invalid("", "there is nothing here that secret:NAME could name")
}

func (noVault) File(string) ([]byte, error) {
	return nil, graphmill.Invalid("", "no files can be named here")
}

// secret is a text that no format prints: of a pointer within something else
// they print the address.
type secret struct{ held *string }

func hide(text string) secret { return secret{&text} }

func (s secret) reveal() string {
	if s.held == nil {
		return ""
	}
	return *s.held
}

func (s secret) empty() bool { return s.reveal() == "" }
