package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// moduleFiles keeps module bytes as files named by their SHA-256.
type moduleFiles struct{ dir string }

func (f moduleFiles) path(sum string) string { return filepath.Join(f.dir, sum+".wasm") }

// write stores bytes durably: temporary file, fsync, rename, fsync of the
// folder. A file that is there already is written anew, in case it is damaged;
// so is the folder, which somebody may have removed.
func (f moduleFiles) write(sum string, bytes []byte) error {
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(f.dir, ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name()) // fails once it is renamed
	_, err = tmp.Write(bytes)
	if err == nil {
		err = tmp.Sync()
	}
	if err = errors.Join(err, tmp.Close()); err != nil {
		return err
	}
	if err := os.Rename(tmp.Name(), f.path(sum)); err != nil {
		return err
	}
	return syncDir(f.dir)
}

// largestModule is more than any limit of uploads allows, in bytes.
const largestModule = 1 << 30

// errDamaged says that a file does not hold the bytes that its name says.
var errDamaged = errors.New("the file is damaged")

// read returns the bytes and makes sure that they are the ones meant.
func (f moduleFiles) read(sum string) ([]byte, error) {
	info, err := os.Stat(f.path(sum))
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > largestModule { // reading it would not end, or fill the memory
		return nil, errDamaged
	}
	bytes, err := os.ReadFile(f.path(sum))
	if err != nil {
		return nil, err
	}
	if have := sha256.Sum256(bytes); hex.EncodeToString(have[:]) != sum {
		return nil, errDamaged
	}
	return bytes, nil
}

// hasSize says whether there is a file of the size that can be looked at.
func (f moduleFiles) hasSize(sum string, size int64) bool {
	info, err := os.Stat(f.path(sum))
	return err == nil && info.Mode().IsRegular() && info.Size() == size
}

// sweep removes files that no version refers to, and temporary ones: left by a
// crash between two steps of a write. They hold nothing that was promised.
func (f moduleFiles) sweep(wanted map[string]bool) error {
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	var errs []error
	for _, e := range entries {
		sum, isModule := strings.CutSuffix(e.Name(), ".wasm")
		if isModule && wanted[sum] || !isModule && !strings.HasPrefix(e.Name(), ".new-") {
			continue
		}
		if err := os.Remove(filepath.Join(f.dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
