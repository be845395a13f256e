package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/wasmhost"
)

// keptModules is how many compiled modules are kept for run and verify: an
// author compiles the same plugin again and again, and each takes megabytes.
const keptModules = 16

// withHost gives f a host of its own for modules. What it compiles is kept in
// the user's cache, where that can be had.
func (a *app) withHost(ctx context.Context, limits wasmhost.Limits, f func(*wasmhost.Host) error) error {
	cache := lockModuleCache()
	defer cache.unlock()
	host, err := wasmhost.New(ctx, wasmhost.Config{CacheDir: cache.dir, Limits: limits, Compiler: a.compiler})
	if err != nil && cache.dir != "" {
		host, err = wasmhost.New(ctx, wasmhost.Config{Limits: limits, Compiler: a.compiler}) // slower, no worse
	}
	if graphmill.KindOf(err) == graphmill.KindInvalid {
		return asFlag(err)
	}
	if err != nil {
		return fmt.Errorf("start the WebAssembly runtime: %w", err)
	}
	return errors.Join(f(host), host.Close(context.WithoutCancel(ctx)))
}

// moduleCache is the folder of compiled modules while this process has it to
// itself, which the host asks for. The zero value is none.
type moduleCache struct {
	dir  string // empty: nothing is kept
	lock *os.File
}

// lockModuleCache takes the user's cache of compiled modules. There is none
// where another process has it, where the user has no cache folder, or where the
// folder is not the user's own: it holds machine code that will be run, and who
// calls this with sudo may still have the HOME of someone else.
func lockModuleCache() moduleCache {
	user, err := os.UserCacheDir()
	if err != nil || !ownFolder(user) && !(isAbsent(user) && ownFolder(filepath.Dir(user))) {
		return moduleCache{} // before anything is made in it
	}
	dir := filepath.Join(user, "graphmill", "modules")
	if err := os.MkdirAll(dir, 0o700); err != nil || !ownFolder(dir) || !ownFolder(filepath.Dir(dir)) {
		return moduleCache{}
	}
	lock, err := os.OpenFile(filepath.Join(filepath.Dir(dir), "modules.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return moduleCache{}
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = lock.Close()
		return moduleCache{}
	}
	prune(dir, keptModules)
	return moduleCache{dir: dir, lock: lock}
}

// unlock leaves the cache to the next process.
func (c moduleCache) unlock() {
	if c.lock != nil {
		_ = c.lock.Close()
	}
}

func isAbsent(path string) bool {
	_, err := os.Lstat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// ownFolder tells whether only this user can put anything into a folder.
func ownFolder(dir string) bool {
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() || info.Mode().Perm()&0o022 != 0 {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}

// prune removes all but the entries that were used last. An entry that cannot
// be removed stays.
func prune(dir string, keep int) {
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) <= keep {
		return
	}
	used := func(e fs.DirEntry) time.Time {
		if info, err := e.Info(); err == nil {
			return info.ModTime()
		}
		return time.Time{}
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(used(b).UnixNano(), used(a).UnixNano()) })
	for _, e := range entries[keep:] {
		_ = os.RemoveAll(filepath.Join(dir, e.Name()))
	}
}
