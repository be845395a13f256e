package secret

import (
	"crypto/rand"
	"encoding/base64"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestARenewalIsNotUndoneByAReadingThatBeganBefore is of a reading that has the old
// text of the file, and is overtaken by one that has the new.
func TestARenewalIsNotUndoneByAReadingThatBeganBefore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	exchange := func() {
		raw := make([]byte, keyBytes)
		_, _ = rand.Read(raw)
		require.NoError(t, os.WriteFile(path, []byte(base64.StdEncoding.EncodeToString(raw)), 0o600))
	}
	exchange()
	keys := NewKeys(path, false)
	read, release := make(chan struct{}), make(chan struct{})
	var held atomic.Bool
	keys.readFile = func(path string, most int64) ([]byte, fs.FileInfo, error) {
		text, info, err := ReadFile(path, most)
		if held.CompareAndSwap(false, true) {
			close(read)
			<-release
		}
		return text, info, err
	}
	before, renewed := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(before)
		keys.Renew()
	}()
	<-read
	exchange()
	go func() {
		defer close(renewed)
		keys.Renew()
	}()
	select {
	case <-renewed: // it has not waited for the other
	case <-time.After(100 * time.Millisecond):
	}
	close(release)
	<-before
	<-renewed
	sealed, err := keys.Seal("pl4nted", "here", func() bool { return true })
	require.NoError(t, err)
	_, err = NewKeys(path, false).Open(sealed, "here")
	require.NoError(t, err, "it is sealed with the key that the file holds")
}
