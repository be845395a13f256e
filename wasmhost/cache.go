package wasmhost

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// diskCache keeps compiled modules from one process to the next. A nil cache
// keeps nothing. Safe for concurrent use, but that one goroutine at a time may
// prepare, discard and first seal entries.
//
// An entry is a folder named by the SHA-256 of the metered module: wazero's own
// files in it, and one of ours (see sealText). wazero trusts the machine code and
// the tables that it finds, so an entry is used only if its checksum is right;
// any other is removed and compiled anew. The checksum is one for this engine: in
// the entry of another one wazero would find nothing, and compile the module at once
// and in this process, without any limit.
//
// While the entries take more than the cache may have, the one that was used last
// the longest ago goes, unless it is held: by a loaded module, which would have to
// be compiled again at the next start, or because it is being looked at.
type diskCache struct {
	dir    string
	engine string // see engineName
	most   int64  // bytes of all entries
	logger *slog.Logger

	mu      sync.Mutex
	entries map[string]*cacheEntry // those that are sealed, by the names of their folders
	size    int64                  // bytes of them
	held    map[string]int         // how often, by name
	over    bool                   // what is held alone is more than the bound, which has been told
}

// cacheEntry is what is known of a sealed entry.
type cacheEntry struct {
	size    int64
	used    time.Time
	modules []string // SHA-256 of the uploads that it was made of, hexadecimal
	dropped bool     // to be removed once nobody holds it
}

// unusedAfter is how long an entry is kept that no process has loaded.
const unusedAfter = 30 * 24 * time.Hour

// DefaultCacheSize bounds the cache of compiled modules, in bytes.
const DefaultCacheSize = 2 << 30

// Prefixes of folders that are no entries.
const (
	probePrefix     = "engine-"
	temporaryPrefix = "graphmill-compile-"
)

// openDiskCache makes the folder where needed, and removes what has not been
// used for long, what is over the bound, and what a process has left unfinished
// that was killed. It returns nil where nothing can be written to any disk.
func openDiskCache(ctx context.Context, dir string, most int64, logger *slog.Logger) (*diskCache, error) {
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
	c := &diskCache{
		dir: dir, engine: name, most: cmp.Or(most, DefaultCacheSize), logger: logger,
		entries: map[string]*cacheEntry{}, held: map[string]int{},
	}
	return c, c.list()
}

// list finds the entries of the processes before.
func (c *diskCache) list() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	folders, err := os.ReadDir(c.dir)
	if err != nil {
		return err
	}
	for _, f := range folders {
		name := f.Name()
		sum, err := hex.DecodeString(name)
		isEntry := err == nil && len(sum) == sha256.Size
		if !f.IsDir() || !isEntry && !strings.HasPrefix(name, probePrefix) && !strings.HasPrefix(name, temporaryPrefix) {
			continue // not ours
		}
		info, infoErr := f.Info()
		text, sealErr := os.ReadFile(filepath.Join(c.dir, name, sealFile))
		size, sizeErr := c.measure(name)
		switch {
		case !isEntry || errors.Is(sealErr, fs.ErrNotExist):
			c.removeLocked(name, "a process has left it unfinished")
		case errors.Join(infoErr, sealErr, sizeErr) != nil:
			c.removeLocked(name, "it cannot be read")
		case time.Since(info.ModTime()) > unusedAfter:
			c.removeLocked(name, "it has not been used for 30 days")
		default:
			_, modules := parseSeal(text)
			c.put(name, &cacheEntry{size: size, used: info.ModTime(), modules: modules})
		}
	}
	c.trim()
	return nil
}

// hold names the entry of a module, and keeps it from being removed for the sake of
// room until letGo, whether it exists or not.
func (c *diskCache) hold(metered []byte) (entry string) {
	if c == nil {
		return ""
	}
	hash := sha256.Sum256(metered)
	entry = hex.EncodeToString(hash[:])
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held[entry]++
	return entry
}

// letGo ends what hold began.
func (c *diskCache) letGo(entry string) {
	if c == nil || entry == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held[entry]--; c.held[entry] > 0 {
		return
	}
	delete(c.held, entry)
	if e := c.entries[entry]; e != nil && e.dropped {
		c.removeLocked(entry, droppedReason)
	}
	c.trim()
}

func (c *diskCache) folder(entry string) string { return filepath.Join(c.dir, entry) }

// find returns the folder of an entry that can be used, or "".
func (c *diskCache) find(entry string) string {
	if c == nil || !c.isSound(entry) {
		return ""
	}
	return c.folder(entry)
}

// prepare makes the folder of an entry, in which nothing is. It returns "" where
// nothing can be kept.
func (c *diskCache) prepare(entry string) string {
	if c == nil {
		return ""
	}
	dir := c.folder(entry)
	if _, err := os.Lstat(dir); err == nil && !c.remove(entry, "it is damaged or incomplete, or of another engine") {
		return ""
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		c.logger.Warn("compiled modules cannot be kept", "error", err)
		return ""
	}
	return dir
}

// seal records the checksum of an entry whose module has been compiled, which
// upload it was made of, and that it is in use. folder is where the machine code is,
// which may be elsewhere.
func (c *diskCache) seal(entry, folder string, upload [sha256.Size]byte) {
	if c == nil || folder != c.folder(entry) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	dir, module := c.folder(entry), hex.EncodeToString(upload[:])
	e := c.entries[entry]
	if e == nil || !slices.Contains(e.modules, module) {
		sealed := &cacheEntry{modules: []string{module}}
		if e != nil {
			sealed.modules = append(sealed.modules, e.modules...)
		}
		if err := c.write(entry, sealed); err != nil {
			c.removeLocked(entry, err.Error())
			return
		}
		e = sealed
	}
	e.used, e.dropped = time.Now(), false
	if err := os.Chtimes(dir, e.used, e.used); err != nil {
		c.logger.Warn("the use of a compiled module cannot be recorded", "entry", dir, "error", err)
	}
	c.trim()
}

// forget removes what was compiled of an upload, where it was made of no other one:
// at once, or once it is no longer in use.
func (c *diskCache) forget(upload [sha256.Size]byte) {
	if c == nil {
		return
	}
	module := hex.EncodeToString(upload[:])
	c.mu.Lock()
	defer c.mu.Unlock()
	for entry, e := range c.entries {
		i := slices.Index(e.modules, module)
		switch {
		case i < 0:
		case len(e.modules) > 1:
			others := &cacheEntry{used: e.used, modules: slices.Delete(slices.Clone(e.modules), i, i+1)}
			if err := c.write(entry, others); err != nil {
				c.removeLocked(entry, err.Error())
			}
		case c.held[entry] > 0:
			e.dropped = true
		default:
			c.removeLocked(entry, droppedReason)
		}
	}
}

// want keeps an entry in use that was to be removed with its last use: its upload is
// there again.
func (c *diskCache) want(entry string) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.entries[entry]; e != nil {
		e.dropped = false
	}
}

const droppedReason = "its module is there no more"

// discard removes an entry whose module could not be compiled.
func (c *diskCache) discard(entry string) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(entry)
	_ = os.RemoveAll(c.folder(entry)) // else it is incomplete, which the next one to ask notices
}

// remove removes an entry, and says whether it is gone.
func (c *diskCache) remove(entry, why string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.removeLocked(entry, why)
}

func (c *diskCache) removeLocked(entry, why string) bool {
	dir := c.folder(entry)
	c.logger.Info("removing a compiled module from the cache", "entry", dir, "reason", why)
	c.drop(entry)
	err := os.RemoveAll(dir)
	if err != nil {
		c.logger.Warn("a compiled module cannot be removed from the cache", "entry", dir, "error", err)
	}
	return err == nil
}

// trim removes entries while there are too many. mu is held.
func (c *diskCache) trim() {
	if c.size <= c.most {
		c.over = false
		return
	}
	var idle []string
	for entry := range c.entries {
		if c.held[entry] == 0 {
			idle = append(idle, entry)
		}
	}
	slices.SortFunc(idle, func(a, b string) int { return c.entries[a].used.Compare(c.entries[b].used) })
	for _, entry := range idle {
		if c.size <= c.most {
			return
		}
		c.removeLocked(entry, fmt.Sprintf("the cache has more than %d bytes, and it was used last the longest ago", c.most))
	}
	if c.size > c.most && !c.over {
		c.over = true
		c.logger.Warn("the modules in use take more of the disk, compiled, than the cache may have: a restart compiles some of them again",
			"bytes", c.size, "bound", c.most, "next_step", "raise the bound (--module-cache-size)")
	}
}

// put and drop keep the sum of the sizes right. mu is held.
func (c *diskCache) put(entry string, e *cacheEntry) {
	c.drop(entry)
	c.entries[entry] = e
	c.size += e.size
}

func (c *diskCache) drop(entry string) {
	if e := c.entries[entry]; e != nil {
		c.size -= e.size
		delete(c.entries, entry)
	}
}

// temporary makes a folder for machine code that is not kept, which the caller
// removes. What killed processes have left there goes: in the cache when that is
// opened, beside it after a day, since others may work there.
func (c *diskCache) temporary() (string, error) {
	if c != nil {
		if dir, err := os.MkdirTemp(c.dir, temporaryPrefix); err == nil {
			return dir, nil
		}
	}
	left, err := filepath.Glob(filepath.Join(os.TempDir(), temporaryPrefix+"*"))
	if err != nil {
		return "", err
	}
	for _, dir := range left {
		if info, err := os.Lstat(dir); err == nil && info.IsDir() && time.Since(info.ModTime()) > 24*time.Hour {
			_ = os.RemoveAll(dir) // it may be somebody else's
		}
	}
	return os.MkdirTemp("", temporaryPrefix)
}
