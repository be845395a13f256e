package stack

import (
	"fmt"
	"regexp"
	"strings"
)

// EnvVar is a variable of the environment.
type EnvVar struct{ Name, Value string }

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// WriteEnv writes variables to a file that a POSIX shell reads with "." and
// that exports them. Only the owner may read the file: it holds passwords. It
// is replaced whole.
func WriteEnv(path string, vars []EnvVar) error {
	var b strings.Builder
	for _, v := range vars {
		if !envName.MatchString(v.Name) {
			return fmt.Errorf("write %s: %q cannot be the name of a variable", path, v.Name)
		}
		if strings.ContainsRune(v.Value, 0) {
			return fmt.Errorf("write %s: the value of %s holds a zero byte", path, v.Name)
		}
		fmt.Fprintf(&b, "export %s='%s'\n", v.Name, strings.ReplaceAll(v.Value, `'`, `'\''`))
	}
	if err := writeFileAtomic(path, []byte(b.String()), 0o600); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
