package wasmhost_test

import (
	"bytes"
	"crypto/sha256"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill/wasmhost"
	. "github.com/graphmill/graphmill/wasmhost/wasmtest"
)

// numbered are modules that differ in what they answer, all of one size.
func numbered(n int) []byte { return Guest(I64Const(int64(n))).Bytes() }

// entriesOf lists the entries of a cache.
func entriesOf(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// sizeOfEntry is what an entry of numbered takes of the disk: two files of one block
// each.
const sizeOfEntry = 2 * 4096

// cacheOf is a host with a cache, and what it logs.
func cacheOf(t *testing.T, dir string, size int64) (*wasmhost.Host, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	return newHost(t, wasmhost.Config{CacheDir: dir, CacheSize: size, Logger: slog.New(slog.NewTextHandler(&log, nil))}), &log
}

// compiles loads modules, and returns how many of them were not in the cache.
func compiles(t *testing.T, h *wasmhost.Host, dir string, modules ...int) (missing int) {
	t.Helper()
	for _, n := range modules {
		before := entriesOf(t, dir)
		m, err := h.Load(t.Context(), numbered(n))
		require.NoError(t, err)
		for _, name := range entriesOf(t, dir) {
			if !slices.Contains(before, name) {
				missing++
			}
		}
		require.NoError(t, m.Close(t.Context()))
	}
	return missing
}

func TestTheCacheKeepsWithinItsSize(t *testing.T) {
	dir := t.TempDir()
	h, log := cacheOf(t, dir, 3*sizeOfEntry)
	require.Equal(t, 3, compiles(t, h, dir, 1, 2, 3))
	require.Empty(t, log.String())
	require.Zero(t, compiles(t, h, dir, 1))
	require.Equal(t, 1, compiles(t, h, dir, 4))
	require.Len(t, entriesOf(t, dir), 3)
	require.Contains(t, log.String(), "used last the longest ago")
	require.Zero(t, compiles(t, h, dir, 3, 1, 4), "2 was used last the longest ago")

	h, log = cacheOf(t, dir, sizeOfEntry)
	require.Len(t, entriesOf(t, dir), 1, "a lower bound is kept from the start")
	require.Zero(t, compiles(t, h, dir, 4))
	require.Equal(t, 2, strings.Count(log.String(), "removing a compiled module"))
}

func TestWhatIsLoadedStaysInTheCache(t *testing.T) {
	dir := t.TempDir()
	h, log := cacheOf(t, dir, sizeOfEntry)
	first, err := h.Load(t.Context(), numbered(1))
	require.NoError(t, err)
	second, err := h.Load(t.Context(), numbered(2))
	require.NoError(t, err)
	require.Len(t, entriesOf(t, dir), 2, "a restart would have to compile them")
	require.Equal(t, 1, compiles(t, h, dir, 3))
	require.Len(t, entriesOf(t, dir), 2)
	require.Equal(t, 1, strings.Count(log.String(), "--module-cache-size"), "told once")

	require.NoError(t, first.Close(t.Context()))
	require.Len(t, entriesOf(t, dir), 1, "the bound is kept again as soon as it can be")
	require.NoError(t, second.Close(t.Context()))
	require.Len(t, entriesOf(t, dir), 1)
	require.Zero(t, compiles(t, h, dir, 2))
}

func TestAnUploadThatIsRefusedLeavesNothingInTheCache(t *testing.T) {
	for name, wasm := range map[string][]byte{
		"not valid":      Guest(I32Const(0)).Bytes(),
		"does not start": Guest(I64Const(0), Func{Export: "_initialize", Body: Unreachable}).Bytes(),
		"not even close": {0},
	} {
		for _, command := range [][]string{nil, compiler} {
			t.Run(name, func(t *testing.T) {
				dir := t.TempDir()
				h := newHost(t, wasmhost.Config{CacheDir: dir, Compiler: command})
				refusedModule(t, h, wasm)
				require.Empty(t, entriesOf(t, dir))
			})
		}
	}
}

func TestAForgottenModuleLeavesTheCache(t *testing.T) {
	dir := t.TempDir()
	h, _ := cacheOf(t, dir, 0)
	compiles(t, h, dir, 1, 2)
	h.Forget(sha256.Sum256([]byte("never seen")))
	require.Len(t, entriesOf(t, dir), 2)
	h.Forget(sha256.Sum256(numbered(1)))
	require.Len(t, entriesOf(t, dir), 1)
	require.Zero(t, compiles(t, h, dir, 2))

	inUse, err := h.Load(t.Context(), numbered(2))
	require.NoError(t, err)
	h.Forget(sha256.Sum256(numbered(2)))
	require.Len(t, entriesOf(t, dir), 1, "it is in use")
	require.NoError(t, inUse.Close(t.Context()))
	require.Empty(t, entriesOf(t, dir))

	// What is wanted again stays.
	inUse, err = h.Load(t.Context(), numbered(2))
	require.NoError(t, err)
	h.Forget(sha256.Sum256(numbered(2)))
	require.NoError(t, inUse.Close(t.Context()))
	require.Equal(t, 1, compiles(t, h, dir, 2))

	inUse, err = h.Load(t.Context(), numbered(2))
	require.NoError(t, err)
	h.Forget(sha256.Sum256(numbered(2)))
	_, err = h.Check(t.Context(), numbered(2))
	require.NoError(t, err)
	require.NoError(t, inUse.Close(t.Context()))
	require.Zero(t, compiles(t, h, dir, 2), "it was uploaded again while it was in use")

	// Which uploads an entry is of is known after a restart too.
	h, _ = cacheOf(t, dir, 0)
	h.Forget(sha256.Sum256(numbered(2)))
	require.Empty(t, entriesOf(t, dir))
}

// TestAnEntryOfSeveralUploads has uploads that differ in a section that is not
// compiled.
func TestAnEntryOfSeveralUploads(t *testing.T) {
	dir := t.TempDir()
	h, log := cacheOf(t, dir, 0)
	uploads := [][]byte{numbered(1), append(numbered(1), Section(0, Name("producers"), []byte{0})...)}
	for _, wasm := range uploads {
		_, err := h.Check(t.Context(), wasm)
		require.NoError(t, err)
	}
	require.Len(t, entriesOf(t, dir), 1)
	h, _ = cacheOf(t, dir, 0)
	h.Forget(sha256.Sum256(uploads[0]))
	require.Len(t, entriesOf(t, dir), 1)
	require.Zero(t, compiles(t, h, dir, 1), "sound")
	require.Empty(t, log.String())
	h.Forget(sha256.Sum256(uploads[0]))
	require.Len(t, entriesOf(t, dir), 1, "the other one")
	h.Forget(sha256.Sum256(uploads[1]))
	require.Empty(t, entriesOf(t, dir))
}

func TestWhatAKilledProcessHasLeftInTheCacheGoes(t *testing.T) {
	dir := t.TempDir()
	h, _ := cacheOf(t, dir, 0)
	compiles(t, h, dir, 1)
	require.NoError(t, h.Close(t.Context()))
	kept := entriesOf(t, dir)
	for _, left := range []string{"engine-1", "graphmill-compile-2", strings.Repeat("0a", 32)} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, left, "wazero-v9"), 0o700))
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, "notes"), 0o700))
	_, log := cacheOf(t, dir, 0)
	require.ElementsMatch(t, append(kept, "notes"), entriesOf(t, dir))
	require.Equal(t, 3, strings.Count(log.String(), "unfinished"))
}

func TestWhatAKilledProcessHasLeftAmongTemporaryFilesGoes(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	dir, old := os.TempDir(), time.Now().Add(-25*time.Hour)
	for _, left := range []string{"graphmill-compile-old", "graphmill-compile-new", "others-old"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, left), 0o700))
		if strings.HasSuffix(left, "old") {
			require.NoError(t, os.Chtimes(filepath.Join(dir, left), old, old))
		}
	}
	worksStill(t, newHost(t, wasmhost.Config{Compiler: compiler}))
	require.ElementsMatch(t, []string{"graphmill-compile-new", "others-old"}, entriesOf(t, dir), "others may work in a new one")
}
