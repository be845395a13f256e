//go:build unix

package main

import (
	"errors"
	"io/fs"
	"os"
	"os/user"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// mayWrite tells why the user who asks may not write a file.
func mayWrite(file string) error { return unix.Access(file, unix.W_OK) }

// ownedByUs tells whose something is.
func ownedByUs(info fs.FileInfo) (owner string, mine bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || int(st.Uid) == os.Geteuid() {
		return "", true
	}
	owner = strconv.Itoa(int(st.Uid))
	if u, err := user.LookupId(owner); err == nil {
		owner = u.Username
	}
	return owner, false
}

// ourName is the name of the user who asks, or the number.
func ourName() string {
	id := strconv.Itoa(os.Geteuid())
	if u, err := user.LookupId(id); err == nil {
		return u.Username
	}
	return id
}

// freeSpace returns the bytes that may be written to the disk of a folder.
func freeSpace(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * int64(st.Bsize), nil
}

// isLocked tells whether another process holds the lock of a catalog. It takes
// the lock for a moment, shared, and changes nothing.
func isLocked(file string) (bool, error) {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }() // lets go of the lock, too
	err = unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return true, nil
	}
	return false, err
}
