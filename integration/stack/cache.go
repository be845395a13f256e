package stack

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// cacheDir returns the directory for what is kept between runs, and makes it.
func cacheDir() (string, error) {
	user, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the cache directory of the user (set HOME or XDG_CACHE_HOME): %w", err)
	}
	dir := filepath.Join(user, "graphmill", "stack")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make the cache directory: %w", err)
	}
	return dir, nil
}

// cacheKey is a short name for all that a cached thing was made of.
func cacheKey(parts ...[]byte) string {
	h := sha256.New()
	for _, p := range parts {
		_, _ = fmt.Fprintf(h, "%d:", len(p)) // a border, so that ("ab", "c") is not ("a", "bc")
		h.Write(p)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// lockCache lets one process at a time fill the cache: test programs of several
// packages may start at once. The lock ends with the process, however it ends.
func lockCache(ctx context.Context, dir string) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open the lock of the cache: %w", err)
	}
	poll := time.NewTicker(100 * time.Millisecond)
	defer poll.Stop()
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			removeUnfinished(dir)
			return func() { _ = f.Close() }, nil // closing the file gives the lock back
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			_ = f.Close()
			return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
		}
		select {
		case <-ctx.Done():
			_ = f.Close()
			return nil, fmt.Errorf("wait for another program to fill the cache: %w", ctx.Err())
		case <-poll.C:
		}
	}
}

// workPrefix begins the names of directories in which the cache is being filled.
const workPrefix = "work-"

// removeUnfinished deletes what a process that was killed while it filled the
// cache has left. The caller holds the lock, so nobody else is at work.
func removeUnfinished(dir string) {
	left, _ := filepath.Glob(filepath.Join(dir, workPrefix+"*")) // the pattern is well-formed
	for _, d := range left {
		_ = os.RemoveAll(d)
	}
}

// writeFileAtomic replaces a file whole, so that a reader sees the old or the
// new one, never a part.
func writeFileAtomic(path string, content []byte, mode os.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // gone already where the rename took place
	if _, err := f.Write(content); err != nil {
		_ = f.Close()
		return err
	}
	if err := f.Chmod(mode); err != nil {
		_ = f.Close()
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
