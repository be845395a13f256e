package secret

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/graphmill/graphmill"
)

// maxFile bounds certificates, keys and keystores, in bytes.
const maxFile = 1 << 20

// File returns the content of a file of the folder, by a path within it or by an
// absolute path that leads into it. Nothing outside can be named, by no link
// either: who may create streams must not read the server's disk by it.
//
// Errors, which hold nothing of the content: KindConflict (file_not_allowed,
// file_unreadable).
func (r References) File(path string) ([]byte, error) {
	refused := func(text string) error {
		return &graphmill.Error{Kind: graphmill.KindConflict, Code: "file_not_allowed", Text: text,
			Next: "put the file below the folder of --secrets-dir, or give its content itself (*.pem in place of *.location, secret:NAME)"}
	}
	if r.Dir == "" {
		return nil, refused("a definition names files below --secrets-dir only, and none is given")
	}
	within := path
	if filepath.IsAbs(path) {
		dir, err := filepath.Abs(r.Dir)
		if err != nil {
			return nil, fmt.Errorf("find the folder of the secrets: %w", err)
		}
		if within, err = filepath.Rel(dir, path); err != nil {
			return nil, refused("a definition names files below --secrets-dir only")
		}
	}
	if !filepath.IsLocal(within) {
		return nil, refused("a definition names files below --secrets-dir only")
	}
	content, err := r.readFile(within, maxFile)
	if err != nil {
		return nil, &graphmill.Error{Kind: graphmill.KindConflict, Code: "file_unreadable",
			Text: fmt.Sprintf("the file %q below --secrets-dir cannot be read: %v", within, cause(err))}
	}
	return content, nil
}

// readFile reads a file of the folder, of at most so many bytes.
func (r References) readFile(within string, most int64) ([]byte, error) {
	root, err := os.OpenRoot(r.Dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := root.OpenFile(within, openFlags, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAll(f, most)
}
