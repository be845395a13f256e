package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/graphmill/graphmill"
)

// maxModuleBytes is the largest file that is read as a module: the highest limit
// that any server can have. What is over the server's own, the server tells.
const maxModuleBytes = 1 << 30

// openModule opens a file that is to be a module, or standard input. It is not
// empty.
func (a *app) openModule(ctx context.Context, file string) (io.ReadCloser, int64, error) {
	if file == "-" {
		return readModule("standard input", a.input(ctx))
	}
	f, size, err := openFile(file)
	if err != nil || f != nil {
		return f, size, err
	}
	return readModule(file, pipe(ctx, file))
}

// openFile opens a file that the command line names. The file is nil where only
// reading it tells how large it is, as of a pipe.
func openFile(file string) (*os.File, int64, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, 0, cannotRead(file, err)
	}
	if info.IsDir() {
		e := graphmill.Invalid("", "%s is a folder", file)
		e.Next = "name the module in it"
		if found, _ := filepath.Glob(filepath.Join(file, "*.wasm")); len(found) > 0 {
			e.Next += ", such as " + found[0]
		}
		return nil, 0, e
	}
	if !info.Mode().IsRegular() || info.Size() == 0 {
		return nil, 0, nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, 0, cannotRead(file, err)
	}
	return f, info.Size(), nil
}

// readModule reads what has no size beforehand.
func readModule(file string, r io.Reader) (io.ReadCloser, int64, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxModuleBytes+1))
	switch {
	case err != nil:
		return nil, 0, cannotRead(file, err)
	case len(b) == 0:
		return nil, 0, graphmill.Invalid("", "%s is empty", file)
	case len(b) > maxModuleBytes:
		return nil, 0, graphmill.Invalid("", "%s has more than %s, and is no module", file, sizeText(maxModuleBytes))
	}
	return io.NopCloser(bytes.NewReader(b)), int64(len(b)), nil
}

// cannotRead names the file once.
func cannotRead(file string, err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	return fmt.Errorf("read %s: %w", file, err)
}
