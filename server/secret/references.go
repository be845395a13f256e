package secret

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"syscall"

	"github.com/graphmill/graphmill"
)

const (
	// variablePrefix begins the variables that references may name.
	variablePrefix = "GRAPHMILL_SECRET_"

	maxSecret = 64 << 10 // bytes
)

// References finds the values of references of the form secret:NAME: the file
// NAME of a folder, else the variable GRAPHMILL_SECRET_NAME. Nothing else of the
// machine can be named. Values are read anew each time, so that a secret that is
// exchanged counts from the next START on. Safe for concurrent use.
type References struct {
	// Dir is the folder; empty: there is none. What it holds may be links to
	// other places of the folder (as Kubernetes makes them), not out of it.
	Dir string
	// Variable returns a variable of the environment; nil: there are none.
	Variable func(name string) (value string, ok bool)
}

// secretName keeps names to what is a file in the folder and a variable alike.
var secretName = regexp.MustCompile(`^[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,199}$`)

// Value returns the secret of that name, without the line's end behind it.
// Errors, which hold nothing of any secret: KindInvalid for what is no name;
// KindConflict (secret_not_found, secret_unreadable).
func (r References) Value(name string) (string, error) {
	if !secretName.MatchString(name) {
		return "", graphmill.Invalid("credentials", "secret:NAME needs a name of letters, digits, '_', '-' and '.'")
	}
	variable := variablePrefix + strings.ToUpper(strings.NewReplacer("-", "_", ".", "_").Replace(name))
	value, err := r.file(name)
	if err == nil {
		return value, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", &graphmill.Error{Kind: graphmill.KindConflict, Code: "secret_unreadable",
			Text: fmt.Sprintf("the secret %q cannot be read from the folder of --secrets-dir: %v", name, cause(err))}
	}
	if r.Variable != nil {
		if value, ok := r.Variable(variable); ok {
			return value, nil
		}
	}
	text := fmt.Sprintf("there is no secret %q: the variable %s is not set, and no --secrets-dir is given", name, variable)
	if r.Dir != "" {
		text = fmt.Sprintf("there is no secret %q: neither is there a file %s in %s, nor is the variable %s set", name, name, r.Dir, variable)
	}
	return "", &graphmill.Error{Kind: graphmill.KindConflict, Code: "secret_not_found", Text: text,
		Next: "put the secret into a file of that name in the folder of --secrets-dir; that needs no restart"}
}

// file reads the secret of the folder.
func (r References) file(name string) (string, error) {
	if r.Dir == "" {
		return "", fs.ErrNotExist
	}
	text, err := r.readFile(name, maxSecret)
	if err != nil {
		return "", err
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r"), nil
}

// openFlags keep a pipe from being waited for: to open one for reading blocks
// until somebody writes. Files are read as ever.
const openFlags = os.O_RDONLY | syscall.O_NONBLOCK

// ReadFile reads a file of at most so many bytes that somebody may exchange at
// any time. What is no file (a folder, a pipe) is refused and never waited for.
func ReadFile(path string, most int64) (content []byte, info fs.FileInfo, err error) {
	f, err := os.OpenFile(path, openFlags, 0)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	if info, err = f.Stat(); err != nil {
		return nil, nil, err
	}
	content, err = readAll(f, most)
	return content, info, err
}

func readAll(f *os.File, most int64) ([]byte, error) {
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New("it is not a file")
	}
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("it has more than %d bytes", most)
	}
	return text, err
}

// cause takes off the path that the error of a file repeats.
func cause(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
