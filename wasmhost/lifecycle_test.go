package wasmhost_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/wasmhost"
	. "github.com/graphmill/graphmill/wasmhost/wasmtest"
)

func TestInstanceLimits(t *testing.T) {
	m := load(t, newHost(t, wasmhost.Config{}), Answer(emptyAnswer).Bytes())
	for name, c := range map[string]struct {
		cfg   wasmhost.InstanceConfig
		field string
	}{
		"memory over the most":    {wasmhost.InstanceConfig{MemoryLimit: 256<<20 + 1}, "memory_limit"},
		"memory below a page":     {wasmhost.InstanceConfig{MemoryLimit: 1000}, "memory_limit"},
		"negative memory":         {wasmhost.InstanceConfig{MemoryLimit: -1}, "memory_limit"},
		"time over the most":      {wasmhost.InstanceConfig{TimeLimit: time.Hour}, "time_limit_ms"},
		"negative time":           {wasmhost.InstanceConfig{TimeLimit: -1}, "time_limit_ms"},
		"response over the most":  {wasmhost.InstanceConfig{ResponseLimit: 1 << 40}, "response_limit"},
		"response below a header": {wasmhost.InstanceConfig{ResponseLimit: 27}, "response_limit"},
		"module starts with more": {wasmhost.InstanceConfig{MemoryLimit: 1<<20 - 1}, "memory_limit"},
	} {
		t.Run(name, func(t *testing.T) {
			c.cfg.Function = "transform"
			_, err := m.Instantiate(t.Context(), c.cfg)
			var e *graphmill.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, graphmill.KindInvalid, e.Kind)
			require.Equal(t, c.field, e.Field)
		})
	}
	_, err := m.Instantiate(t.Context(), wasmhost.InstanceConfig{Function: "graphmill_alloc"})
	require.Equal(t, graphmill.KindNotFound, graphmill.KindOf(err))
	require.ErrorContains(t, err, `no transformation "graphmill_alloc", it has ["transform"]`)
}

func TestClosedInstance(t *testing.T) {
	m := load(t, newHost(t, wasmhost.Config{}), Answer(emptyAnswer).Bytes())
	i := instantiate(t, m, wasmhost.InstanceConfig{})
	require.NoError(t, i.Close(t.Context()))
	require.NoError(t, i.Close(t.Context()))
	_, err := i.Transform(t.Context(), graphmill.SourceKafka, batch(1))
	require.ErrorContains(t, err, "closed")
}

// TestCloseDuringACall closes from another goroutine while the guest runs: that
// must wait for the call, whose memory would be gone otherwise.
func TestCloseDuringACall(t *testing.T) {
	m := load(t, newHost(t, wasmhost.Config{}), Guest(Cat(Forever(), I64Const(0))).Bytes())
	i := instantiate(t, m, wasmhost.InstanceConfig{TimeLimit: 4 * soon})
	ended := make(chan error)
	go func() {
		_, err := i.Transform(t.Context(), graphmill.SourceKafka, batch(1))
		ended <- err
	}()
	closed := make(chan error)
	go func() { closed <- i.Close(context.Background()) }()
	<-ended
	require.NoError(t, <-closed)
}

func TestCancelledContext(t *testing.T) {
	m := load(t, newHost(t, wasmhost.Config{}), Answer(emptyAnswer).Bytes())
	i := instantiate(t, m, wasmhost.InstanceConfig{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := i.Transform(ctx, graphmill.SourceKafka, batch(1))
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, "instance_unusable", fault(t, i, 1).Code)

	_, err = m.Instantiate(ctx, wasmhost.InstanceConfig{Function: "transform"})
	require.ErrorIs(t, err, context.Canceled)
}

func TestModuleIsClosedWithItsLastUser(t *testing.T) {
	h := newHost(t, wasmhost.Config{})
	wasm := Answer(emptyAnswer).Bytes()
	first, err := h.Load(t.Context(), wasm)
	require.NoError(t, err)
	second := load(t, h, wasm)
	require.Equal(t, []string{"transform"}, second.Transformations())

	i := instantiate(t, first, wasmhost.InstanceConfig{})
	require.NoError(t, first.Close(t.Context()))
	require.NoError(t, first.Close(t.Context()), "closing twice gives back one reference")
	require.NoError(t, second.Close(t.Context()))
	_, err = first.Instantiate(t.Context(), wasmhost.InstanceConfig{Function: "transform"})
	require.ErrorContains(t, err, "closed")

	_, err = i.Transform(t.Context(), graphmill.SourceKafka, batch(1))
	require.NoError(t, err, "an instance outlives the handle that it was made from")
}

func TestClosedHost(t *testing.T) {
	h := newHost(t, wasmhost.Config{})
	m := load(t, h, Guest(Cat(Forever(), I64Const(0))).Bytes())
	i := instantiate(t, m, wasmhost.InstanceConfig{TimeLimit: time.Minute})
	ended := make(chan error)
	go func() {
		_, err := i.Transform(t.Context(), graphmill.SourceKafka, batch(1))
		ended <- err
	}()
	closed := make(chan error)
	go func() { closed <- h.Close(context.Background()) }()

	require.Error(t, <-ended, "the host ends calls long before their limit")
	require.NoError(t, <-closed)
	require.NoError(t, h.Close(t.Context()))
	for _, refuse := range []func() error{
		func() error { _, err := h.Load(t.Context(), nil); return err },
		func() error { _, err := h.Check(t.Context(), nil); return err },
		func() error {
			_, err := m.Instantiate(t.Context(), wasmhost.InstanceConfig{Function: "transform"})
			return err
		},
	} {
		require.Equal(t, graphmill.KindUnavailable, graphmill.KindOf(refuse()))
	}
}

// TestClosingWhileAModuleIsCompiled ends what a process compiles, and does not wait
// longer than it may for what this one does.
func TestClosingWhileAModuleIsCompiled(t *testing.T) {
	for name, compiler := range map[string][]string{"in a process": compiler, "in this one": nil} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			h := newHost(t, wasmhost.Config{CacheDir: dir, Compiler: compiler})
			refused := make(chan error)
			go func() {
				_, err := h.Check(t.Context(), slowToCompile())
				refused <- err
			}()
			require.Eventually(t, func() bool { return len(compilersOf(t, dir)) > 0 }, time.Minute, time.Millisecond)
			ctx, cancel := context.WithCancel(t.Context())
			if compiler == nil {
				cancel()
				require.ErrorIs(t, h.Close(ctx), context.Canceled)
			} else {
				require.NoError(t, h.Close(ctx))
				cancel()
			}
			require.Equal(t, graphmill.KindUnavailable, graphmill.KindOf(<-refused))
			require.NoError(t, h.Close(t.Context()))
		})
	}
}

func TestClosingDuringACallThatDoesNotEnd(t *testing.T) {
	chatty := Guest(Cat(I32Const(1), I32Const(0), I32Const(5), Call(0), I64Const(0)))
	chatty.Imports = []Import{{Module: "graphmill", Name: "log", Params: []byte{I32, I32, I32}}}
	m := load(t, newHost(t, wasmhost.Config{}), chatty.Bytes())
	logged, release := make(chan struct{}, 1), make(chan struct{})
	i := instantiate(t, m, wasmhost.InstanceConfig{Log: func(slog.Level, string) {
		logged <- struct{}{}
		<-release
	}})
	ended := make(chan error)
	go func() {
		_, err := i.Transform(t.Context(), graphmill.SourceKafka, batch(1))
		ended <- err
	}()
	<-logged
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, i.Close(ctx), context.Canceled)
	close(release)
	require.ErrorContains(t, <-ended, "breaks the transformation ABI", "it went on")
}

// TestManyAtOnce loads, instantiates, calls and closes from several goroutines.
func TestManyAtOnce(t *testing.T) {
	h := newHost(t, wasmhost.Config{CacheDir: t.TempDir()})
	modules := [][]byte{Answer(emptyAnswer).Bytes(), Guest(Unreachable).Bytes(), []byte("no module")}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for n := range 6 {
				m, err := h.Load(t.Context(), modules[(g+n)%len(modules)])
				if (g+n)%len(modules) == 2 {
					var e *graphmill.Error
					if !errors.As(err, &e) || e.Code != "not_wasm" {
						t.Errorf("no module: %v", err)
					}
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				i, err := m.Instantiate(t.Context(), wasmhost.InstanceConfig{Function: "transform", MemoryLimit: int64(1+g) << 20})
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := i.Transform(t.Context(), graphmill.SourceKafka, batch(10)); (err == nil) != ((g+n)%len(modules) == 0) {
					t.Errorf("module %d: %v", (g+n)%len(modules), err)
				}
				if err := errors.Join(i.Close(t.Context()), m.Close(t.Context())); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

func TestCacheFolderIsPrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	require.NoError(t, os.Mkdir(dir, 0o755))
	newHost(t, wasmhost.Config{CacheDir: dir})
	info, err := os.Stat(dir)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o700), info.Mode().Perm())
}

// TestDamagedCache damages every file of the cache in turn, in several ways.
func TestDamagedCache(t *testing.T) {
	wasm := Answer(emptyAnswer).Bytes()
	for name, damage := range map[string]func([]byte) []byte{
		"cut":     func(b []byte) []byte { return b[:len(b)/2] },
		"emptied": func([]byte) []byte { return nil },
		"one bit": func(b []byte) []byte { b[len(b)/2] ^= 1; return b },
		"zeros":   func(b []byte) []byte { return make([]byte, len(b)) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			use := func() string {
				var log bytes.Buffer
				h, err := wasmhost.New(t.Context(), wasmhost.Config{CacheDir: dir, Logger: slog.New(slog.NewTextHandler(&log, nil))})
				require.NoError(t, err)
				m, err := h.Load(t.Context(), wasm)
				require.NoError(t, err)
				i, err := m.Instantiate(t.Context(), wasmhost.InstanceConfig{Function: "transform"})
				require.NoError(t, err)
				_, err = i.Transform(t.Context(), graphmill.SourceKafka, batch(1))
				require.NoError(t, err)
				require.NoError(t, h.Close(t.Context()))
				return log.String()
			}
			require.Empty(t, use())
			files := regularFiles(t, dir)
			require.Len(t, files, 2, "machine code and checksum")
			require.Empty(t, use(), "a sound entry is used in silence")
			require.Equal(t, files, regularFiles(t, dir))
			for _, file := range files {
				b, err := os.ReadFile(file)
				require.NoError(t, err)
				require.NoError(t, os.WriteFile(file, damage(b), 0o600))
				require.Contains(t, use(), "damaged or incomplete")
				require.Empty(t, use(), "the entry is whole again")
			}
		})
	}
}

// TestCacheOfAnotherEngine has an entry that another version of the engine has made.
// This one would find nothing of its own there and compile the module itself, where
// only a process with limits may.
func TestCacheOfAnotherEngine(t *testing.T) {
	dir := t.TempDir()
	worksStill(t, newHost(t, wasmhost.Config{CacheDir: dir}))
	files := regularFiles(t, dir)
	require.Len(t, files, 2)
	sum, code := files[0], files[1]
	entry := filepath.Dir(sum)
	require.NoError(t, os.Rename(filepath.Dir(code), filepath.Join(entry, "wazero-v0.0.1-amd64-linux")))
	content, err := os.ReadFile(filepath.Join(entry, "wazero-v0.0.1-amd64-linux", filepath.Base(code)))
	require.NoError(t, err)
	hash := sha256.New()
	hash.Write([]byte("wazero-v0.0.1-amd64-linux/" + filepath.Base(code) + "\x00"))
	hash.Write(content)
	require.NoError(t, os.WriteFile(sum, []byte(hex.EncodeToString(hash.Sum(nil))), 0o600))

	var log bytes.Buffer
	cfg := wasmhost.Config{CacheDir: dir, Compiler: []string{"/nonexistent"}, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	worksStill(t, newHost(t, cfg))
	require.Contains(t, log.String(), "another engine")
	require.Contains(t, log.String(), "compiled within the server", "a process was asked first")
}

func TestUnusedCacheEntriesGo(t *testing.T) {
	dir := t.TempDir()
	h := newHost(t, wasmhost.Config{CacheDir: dir})
	load(t, h, Answer(emptyAnswer).Bytes())
	load(t, h, Guest(Unreachable).Bytes())
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 2)
	old := time.Now().Add(-31 * 24 * time.Hour)
	require.NoError(t, os.Chtimes(filepath.Join(dir, entries[0].Name()), old, old))

	newHost(t, wasmhost.Config{CacheDir: dir})
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 1)
	require.Equal(t, entries[1].Name(), left[0].Name())
}

func regularFiles(t *testing.T, dir string) []string {
	var files []string
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			files = append(files, path)
		}
		return err
	}))
	return files
}
