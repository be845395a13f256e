package wasmhost

// How an entry of the disk cache is known to be what this engine has made.

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// sealFile stands in an entry beside wazero's files, and holds its sealText.
const sealFile = "checksum"

// engineName returns what tells the engine of this process from those that cannot
// use its machine code: the path of the file in which it keeps that of one and the
// same module. The path follows from the version of wazero and from what the
// processor offers, which the data directory may have left behind on another machine.
// The file is written to a folder within dir; "": that of temporary files.
func engineName(ctx context.Context, dir string) (name string, err error) {
	probe, err := os.MkdirTemp(dir, probePrefix)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(probe)) }()
	const empty = "\x00asm\x01\x00\x00\x00"
	e, err := newEngine(ctx, []byte(empty), probe)
	if err != nil {
		return "", err
	}
	if err := e.close(ctx); err != nil {
		return "", err
	}
	err = walkFiles(probe, func(path string, _ fs.DirEntry) (err error) {
		name, err = filepath.Rel(probe, path)
		return err
	})
	if err == nil && name == "" {
		err = errors.New("the engine keeps no machine code")
	}
	return name, err
}

// isSound says whether the files of an entry are those that seal saw.
func (c *diskCache) isSound(entry string) bool {
	text, err := os.ReadFile(filepath.Join(c.folder(entry), sealFile))
	if err != nil {
		return false
	}
	_, modules := parseSeal(text)
	want, err := c.sealText(entry, modules)
	return err == nil && want == string(text)
}

// write seals an entry and notes it, with its size. mu is held.
func (c *diskCache) write(entry string, e *cacheEntry) error {
	text, err := c.sealText(entry, e.modules)
	if err == nil {
		err = os.WriteFile(filepath.Join(c.folder(entry), sealFile), []byte(text), 0o600)
	}
	if err == nil {
		e.size, err = c.measure(entry)
	}
	if err == nil {
		c.put(entry, e)
	}
	return err
}

// parseSeal returns the lines of a seal: checksum and modules.
func parseSeal(text []byte) (sum string, modules []string) {
	sum, rest, _ := strings.Cut(string(text), "\n")
	return sum, strings.Fields(rest)
}

// sealText is what stands in the seal of an entry: a checksum, of the name of the
// engine, the modules, and names and contents of all files but the seal; and the
// modules, one a line.
func (c *diskCache) sealText(entry string, modules []string) (string, error) {
	dir := c.folder(entry)
	hash := sha256.New()
	io.WriteString(hash, c.engine+"\x00"+strings.Join(modules, " ")+"\x00")
	err := walkFiles(dir, func(path string, _ fs.DirEntry) error {
		name, err := filepath.Rel(dir, path)
		if err != nil || name == sealFile {
			return err
		}
		io.WriteString(hash, name+"\x00")
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		_, err = io.Copy(hash, f)
		return errors.Join(err, f.Close())
	})
	return strings.Join(append([]string{hex.EncodeToString(hash.Sum(nil))}, modules...), "\n"), err
}

// measure returns how much of the disk an entry takes, in bytes.
func (c *diskCache) measure(entry string) (size int64, err error) {
	const block = 4 << 10
	err = walkFiles(c.folder(entry), func(_ string, d fs.DirEntry) error {
		info, err := d.Info()
		if err == nil {
			size += (info.Size() + block - 1) / block * block
		}
		return err
	})
	return size, err
}

func walkFiles(dir string, visit func(path string, d fs.DirEntry) error) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		return visit(path, d)
	})
}
