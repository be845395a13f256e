package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestModuleCacheIsHeldByOneProcessAtATime(t *testing.T) {
	useCache(t)
	first := lockModuleCache()
	require.DirExists(t, first.dir)
	require.Empty(t, lockModuleCache().dir, "the other one compiles without a cache")
	first.unlock()
	second := lockModuleCache()
	require.Equal(t, first.dir, second.dir)
	second.unlock()
}

func TestModuleCacheThatOthersCanWriteIsNotUsed(t *testing.T) {
	user := useCache(t)
	cache := lockModuleCache()
	cache.unlock()
	for _, dir := range []string{cache.dir, filepath.Dir(cache.dir), user} {
		require.NoError(t, os.Chmod(dir, 0o770))
		require.Empty(t, lockModuleCache().dir, dir)
		require.NoError(t, os.Chmod(dir, 0o700))
	}

	elsewhere := t.TempDir()
	require.NoError(t, os.Remove(cache.dir))
	require.NoError(t, os.Symlink(elsewhere, cache.dir))
	require.Empty(t, lockModuleCache().dir, "a link leads out of the user's folder")
}

func TestModuleCacheKeepsWhatWasUsedLast(t *testing.T) {
	useCache(t)
	cache := lockModuleCache()
	for i := range keptModules + 3 {
		entry := filepath.Join(cache.dir, fmt.Sprint(i))
		require.NoError(t, os.Mkdir(entry, 0o700))
		used := time.Now().Add(-time.Duration(i) * time.Minute)
		require.NoError(t, os.Chtimes(entry, used, used))
	}
	cache.unlock()
	lockModuleCache().unlock()
	left, err := os.ReadDir(cache.dir)
	require.NoError(t, err)
	require.Len(t, left, keptModules)
	require.DirExists(t, filepath.Join(cache.dir, "0"))
	require.NoDirExists(t, filepath.Join(cache.dir, fmt.Sprint(keptModules)))
}

func TestRunCompilesAModuleOnce(t *testing.T) {
	c := newCLI(t, "XDG_CACHE_HOME=")
	for range 2 {
		require.Contains(t, c.run(t, `{"payload":"x"}`, "run", moviesFile, "--messages", "-").out, "1 message,")
		c.must(t, "module", "verify", moviesFile)
	}
	var home string
	for _, kv := range c.env {
		if v, ok := strings.CutPrefix(kv, "HOME="); ok {
			home = v
		}
	}
	var kept []string
	require.NoError(t, filepath.WalkDir(home, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == "checksum" {
			kept = append(kept, path)
		}
		return err
	}))
	require.Len(t, kept, 1)
	require.NoError(t, os.WriteFile(kept[0], []byte("torn"), 0o600))
	c.must(t, "module", "verify", moviesFile)
}

// useCache gives this test a home of its own, and returns its cache folder.
func useCache(t *testing.T) string {
	t.Helper()
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CACHE_HOME", "")
	user, err := os.UserCacheDir()
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(user, 0o700))
	return user
}
