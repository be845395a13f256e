package wasmhost

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"
)

// diskCache keeps compiled modules from one process to the next. A nil cache
// keeps nothing.
//
// An entry is a folder named by the SHA-256 of the metered module: wazero's own
// files in it, and a file with their checksum. wazero trusts the machine code and
// the tables that it finds, so an entry is used only if its checksum is right;
// any other is removed and compiled anew. The checksum is one for this engine: in
// the entry of another one wazero would find nothing, and compile the module at once
// and in this process, without any limit.
type diskCache struct {
	dir    string
	engine string // see engineName
	logger *slog.Logger
}

// checksumFile stands in an entry beside wazero's files.
const checksumFile = "checksum"

// unusedAfter is how long an entry is kept that no process has loaded.
const unusedAfter = 30 * 24 * time.Hour

// openDiskCache makes the folder where needed, and removes what has not been
// used for long. It returns nil where nothing can be written to any disk.
func openDiskCache(ctx context.Context, dir string, logger *slog.Logger) (*diskCache, error) {
	if dir == "" {
		return nil, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, err
	}
	name, err := engineName(ctx, dir)
	if err != nil { // the disk may be full, or not to be written to
		if name, err = engineName(ctx, ""); err != nil {
			logger.Warn("compiled modules cannot be kept", "error", err)
			return nil, nil
		}
	}
	c := &diskCache{dir: dir, engine: name, logger: logger}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && e.IsDir() && time.Since(info.ModTime()) > unusedAfter {
			c.remove(filepath.Join(dir, e.Name()), "it has not been used for 30 days")
		}
	}
	return c, nil
}

// engineName returns what tells the engine of this process from those that cannot
// use its machine code: the path of the file in which it keeps that of one and the
// same module. The path follows from the version of wazero and from what the
// processor offers, which the data directory may have left behind on another machine.
// The file is written to a folder within dir; "": that of temporary files.
func engineName(ctx context.Context, dir string) (name string, err error) {
	probe, err := os.MkdirTemp(dir, "engine-")
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
	err = filepath.WalkDir(probe, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			name, err = filepath.Rel(probe, path)
		}
		return err
	})
	if err == nil && name == "" {
		err = errors.New("the engine keeps no machine code")
	}
	return name, err
}

// folder names the entry of a module.
func (c *diskCache) folder(metered []byte) string {
	hash := sha256.Sum256(metered)
	return filepath.Join(c.dir, hex.EncodeToString(hash[:]))
}

// find returns the folder of a module that has been compiled, or "".
func (c *diskCache) find(metered []byte) string {
	if c == nil {
		return ""
	}
	dir := c.folder(metered)
	if !c.sound(dir) {
		return ""
	}
	return dir
}

// entry returns the folder for a module. What is in it can be trusted; it may
// be empty. It returns "" where nothing can be kept.
func (c *diskCache) entry(metered []byte) string {
	if c == nil {
		return ""
	}
	dir := c.folder(metered)
	if _, err := os.Lstat(dir); err == nil && !c.sound(dir) && !c.remove(dir, "it is damaged or incomplete, or of another engine") {
		return ""
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		c.logger.Warn("compiled modules cannot be kept", "error", err)
		return ""
	}
	return dir
}

// sound says whether the files of an entry are those that seal saw.
func (c *diskCache) sound(dir string) bool {
	want, err := os.ReadFile(filepath.Join(dir, checksumFile))
	if err != nil {
		return false
	}
	got, err := c.checksum(dir)
	return err == nil && got == string(want)
}

// seal records the checksum of an entry whose module has been compiled, and that
// it is in use.
func (c *diskCache) seal(dir string) {
	if c == nil || dir == "" {
		return
	}
	if !c.sound(dir) {
		sum, err := c.checksum(dir)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, checksumFile), []byte(sum), 0o600)
		}
		if err != nil {
			c.remove(dir, err.Error())
			return
		}
	}
	now := time.Now()
	if err := os.Chtimes(dir, now, now); err != nil {
		c.logger.Warn("the use of a compiled module cannot be recorded", "entry", dir, "error", err)
	}
}

// discard removes the folder of a module that could not be compiled.
func (c *diskCache) discard(dir string) {
	if dir != "" {
		_ = os.RemoveAll(dir) // else it is incomplete, which the next one to ask notices
	}
}

// remove removes an entry, and says whether it is gone.
func (c *diskCache) remove(dir, why string) bool {
	c.logger.Info("removing a compiled module from the cache", "entry", dir, "reason", why)
	err := os.RemoveAll(dir)
	if err != nil {
		c.logger.Warn("a compiled module cannot be removed from the cache", "entry", dir, "error", err)
	}
	return err == nil
}

// checksum hashes the name of the engine, and names and contents of all files of an
// entry but the checksum.
func (c *diskCache) checksum(dir string) (string, error) {
	hash := sha256.New()
	io.WriteString(hash, c.engine+"\x00")
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == checksumFile {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
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
	return hex.EncodeToString(hash.Sum(nil)), err
}
