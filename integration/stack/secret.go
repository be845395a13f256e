package stack

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// keepSecret returns the secret that an earlier start has left in a file of the
// server's directory, or leaves the fresh one there.
func (s *Server) keepSecret(name, fresh string) (string, error) {
	b, err := os.ReadFile(s.path(name))
	if errors.Is(err, os.ErrNotExist) {
		b = []byte(fresh + "\n")
		err = writeFileAtomic(s.path(name), b, 0o600)
	}
	if err != nil {
		return "", fmt.Errorf("keep the secret of %s: %w", s.program.name, err)
	}
	return strings.TrimSpace(string(b)), nil
}
