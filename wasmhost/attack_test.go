package wasmhost_test

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/wasmhost"
	. "github.com/graphmill/graphmill/wasmhost/wasmtest"
)

// TestCase22AttacksLeaveTheRestAlone has guests that do their worst for a
// while. Meanwhile the collector of the process runs, another instance works, and
// the memory of the process stays within what the guest may have.
func TestCase22AttacksLeaveTheRestAlone(t *testing.T) {
	const memoryLimit = 8 << 20
	table := func(body ...[]byte) Module {
		m := Guest(Cat(Cat(body...), I64Const(0)))
		m.Table = Cat([]byte{FuncRef, 0}, U32(100_000)) // no most size
		m.Elements = [][]byte{
			Cat([]byte{1, 0}, U32(90_000), make([]byte, 90_000)),
		}
		return m
	}
	importing := func(im Import, body ...[]byte) Module {
		return Module{
			Imports: []Import{im},
			Funcs:   []Func{Marker(), Alloc(BufferAt), Transform(Cat(body...), I64Const(0))},
			Memory:  []byte{0, 16},
		}
	}
	withData := func(m Module) Module { m.Passive = []string{strings.Repeat("x", 500_000)}; return m }
	grow := Cat(I32Const(1), MemoryGrow, Drop)
	straight := Guest(Cat(bytes.Repeat(Cat(I32Const(0), I32Const(3<<20), I32Const(3<<20), []byte{0xfc, 10, 0, 0}), 4_000), I64Const(0)))
	straight.Memory = []byte{0, 7 << 4}
	limits := map[string]time.Duration{"deadline": 200 * time.Millisecond, "trap": time.Minute} // the latter end by themselves

	for name, c := range map[string]struct {
		module Module
		code   string
	}{
		"empty loop":                {Guest(Cat(Forever(), I64Const(0))), "deadline"},
		"recursion without loops":   {Guest(Cat(I32Const(60), Call(3), I64Const(0)), fib()), "deadline"},
		"recursion without end":     {Guest(Cat(Call(3), I64Const(0)), Func{Body: Cat(Call(3), I32Const(0), Drop)}), "trap"},
		"memory.fill":               {Guest(Cat(Forever(I32Const(0), I32Const(7), I32Const(1<<20), MemoryFill), I64Const(0))), "deadline"},
		"memory.copy":               {Guest(Cat(Forever(I32Const(0), I32Const(1<<19), I32Const(1<<19), []byte{0xfc, 10, 0, 0}), I64Const(0))), "deadline"},
		"memory.copy without loops": {straight, "deadline"},
		"memory.init":               {withData(Guest(Cat(Forever(I32Const(0), I32Const(0), I32Const(500_000), []byte{0xfc, 8, 0, 0}), I64Const(0)))), "deadline"},
		"memory.grow":               {Guest(Cat(Forever(grow), I64Const(0))), "deadline"},
		"memory grown and touched": {Guest(Cat(Forever(grow, I32Const(0), I32Const(1),
			MemorySize, I32Const(16), []byte{0x74}, MemoryFill), I64Const(0))), "deadline"},
		"table.fill":  {table(Forever(I32Const(0), []byte{0xd0, FuncRef}, I32Const(100_000), []byte{0xfc, 17, 0})), "deadline"},
		"table.copy":  {table(Forever(I32Const(0), I32Const(50_000), I32Const(50_000), []byte{0xfc, 14, 0, 0})), "deadline"},
		"table.init":  {table(Forever(I32Const(0), I32Const(0), I32Const(90_000), []byte{0xfc, 12, 0, 0})), "deadline"},
		"table.grow":  {table(Forever([]byte{0xd0, FuncRef}, I32Const(1<<30), []byte{0xfc, 15, 0}, Drop)), "deadline"},
		"log flood":   {importing(Import{Module: "graphmill", Name: "log", Params: []byte{I32, I32, I32}}, Forever(I32Const(3), I32Const(0), I32Const(1<<20), Call(0))), "deadline"},
		"random data": {importing(Import{Module: "wasi_snapshot_preview1", Name: "random_get", Params: []byte{I32, I32}, Results: []byte{I32}}, Forever(I32Const(0), I32Const(1<<20), Call(0), Drop)), "deadline"},
		"output flood": {importing(Import{Module: "wasi_snapshot_preview1", Name: "fd_write", Params: []byte{I32, I32, I32, I32}, Results: []byte{I32}},
			I32Const(64), I32Const(1<<19), I32Store(4), // one vector of 512 KiB at 0, without a newline
			Forever(I32Const(2), I32Const(64), I32Const(1), I32Const(0), Call(0), Drop)), "deadline"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, wasmhost.Config{})
			honest := instantiate(t, load(t, h, Answer(emptyAnswer).Bytes()), wasmhost.InstanceConfig{})
			lines := 0
			i := instantiate(t, load(t, h, c.module.Bytes()), wasmhost.InstanceConfig{
				TimeLimit: limits[c.code], MemoryLimit: memoryLimit, Log: logCounter(&lines),
			})
			var over atomic.Bool
			ended := make(chan error, 1)
			var longest time.Duration
			collections := 0
			peak := peakMemory(t, func() {
				go func() {
					_, err := i.Transform(t.Context(), graphmill.SourceKafka, batch(1))
					over.Store(true)
					ended <- err
				}()
				for !over.Load() {
					began := time.Now()
					runtime.GC()
					longest = max(longest, time.Since(began))
					collections++
					_, err := honest.Transform(t.Context(), graphmill.SourceKafka, batch(10))
					require.NoError(t, err)
				}
			})
			var f *graphmill.Fault
			require.ErrorAs(t, <-ended, &f)
			require.Equal(t, c.code, f.Code, f.Text)
			if !raceDetector { // which keeps memory of its own for every byte of the stack
				// wazero's stack grows to 50 MB before it overflows, and is copied as it grows.
				require.Less(t, peak, int64(memoryLimit+160<<20), "memory of the process")
			}
			require.Less(t, longest, time.Minute, "the longest of %d collections", collections)
			require.LessOrEqual(t, i.Memory(), int64(memoryLimit))
			require.LessOrEqual(t, lines, 10*wasmhost.DefaultLimits().LogLines)
			t.Logf("peak %.1f MiB more, %d collections, the longest %s", float64(peak)/(1<<20), collections, longest)

			_, err := i.Transform(t.Context(), graphmill.SourceKafka, batch(1))
			require.Error(t, err, "an instance that failed is not called again")
			require.NoError(t, i.Close(t.Context()))
			_, err = i.Transform(t.Context(), graphmill.SourceKafka, batch(1))
			require.ErrorContains(t, err, "closed")
		})
	}
}

// fib is function 3 of a guest: it takes a number from the stack of calls to the
// depth of 60, and calls itself twice at each. Without loops it takes years.
func fib() Func {
	return Func{Params: []byte{I32}, Body: Cat(
		LocalGet(0), []byte{0x04, 0x40},
		LocalGet(0), I32Const(-1), I32Add, Call(3), LocalGet(0), I32Const(-1), I32Add, Call(3),
		End)}
}

// logCounter counts the lines of a log.
func logCounter(lines *int) func(slog.Level, string) { return func(slog.Level, string) { *lines++ } }

// TestExitsAtEveryPlace has a module end itself wherever it is called, with and
// without success. WASI's proc_exit closes a module in wazero, after which its
// memory would be gone under the host's hands.
func TestExitsAtEveryPlace(t *testing.T) {
	for _, status := range []int32{0, 1} {
		exit := Cat(I32Const(status), Call(0))
		for name, c := range map[string]struct {
			change func(*Module)
			setup  string // the fault's code, where the instance does not come up
		}{
			"start function": {func(m *Module) { m.Funcs = append(m.Funcs, Func{Body: exit}); m.Start = 4 }, "module_initialize"},
			"_initialize":    {func(m *Module) { m.Funcs = append(m.Funcs, Func{Export: "_initialize", Body: exit}) }, "module_initialize"},
			"graphmill_configure": {func(m *Module) {
				m.Funcs = append(m.Funcs, Func{Export: "graphmill_configure", Params: []byte{I32, I32}, Results: []byte{I64}, Body: Cat(exit, I64Const(0))})
			}, "module_configure"},
			"graphmill_alloc": {func(m *Module) { m.Funcs[1].Body = Cat(exit, I32Const(8)) }, ""},
			"transformation":  {func(m *Module) { m.Funcs[2].Body = Cat(exit, I64Const(0)) }, ""},
		} {
			t.Run(name, func(t *testing.T) {
				m := Module{
					Imports: []Import{{Module: "wasi_snapshot_preview1", Name: "proc_exit", Params: []byte{I32}}},
					Funcs:   []Func{Marker(), Alloc(BufferAt), Transform(I64Const(0))},
					Memory:  []byte{0, 16},
				}
				c.change(&m)
				h := newHost(t, wasmhost.Config{})
				i, err := load(t, h, m.Bytes()).Instantiate(t.Context(), wasmhost.InstanceConfig{Function: "transform"})
				var f *graphmill.Fault
				if c.setup != "" {
					require.ErrorAs(t, err, &f)
					require.Equal(t, c.setup, f.Code)
				} else {
					require.NoError(t, err)
					f = fault(t, i, 1)
					require.Equal(t, "instance_unusable", fault(t, i, 1).Code)
					require.NoError(t, i.Close(t.Context()))
				}
				require.Contains(t, f.Text, "the module ended itself with exit status "+string(rune('0'+status)))
				runtime.GC()
				worksStill(t, h)
			})
		}
	}
}

// TestMeterCannotBeReached is about a guest that imports or touches what the
// rewriting adds; see also the meter's own tests.
func TestMeterCannotBeReached(t *testing.T) {
	h := newHost(t, wasmhost.Config{})
	for _, name := range []string{"yield", "other", ""} {
		m := Guest(I64Const(0))
		m.Imports = []Import{{Module: "graphmill_meter", Name: name, Results: []byte{I64}}}
		require.Equal(t, "unknown_import", refusedModule(t, h, m.Bytes()).Code)
	}
	for i := range uint32(3) {
		m := Guest(Cat(GlobalGet(1+i), Drop, I64Const(0)))
		m.Globals = [][]byte{Cat([]byte{I64, 1}, I64Const(0), End)}
		require.Contains(t, refusedModule(t, h, m.Bytes()).Text, "there is no global")
		m.Funcs[2].Body = I64Const(0)
		m.Exports = [][]byte{Cat(Name("fuel"), []byte{3}, U32(1+i))}
		require.Contains(t, refusedModule(t, h, m.Bytes()).Text, "there is no global")
	}
}

// TestLargeFilesAreRefusedAtOnce has files of the largest size that hold nothing,
// in as many pieces as there can be.
func TestLargeFilesAreRefusedAtOnce(t *testing.T) {
	h := newHost(t, wasmhost.Config{})
	sound := Guest(I64Const(0)).Bytes()
	room := int(h.Limits().ModuleBytes) - len(sound)
	for name, c := range map[string]struct {
		piece []byte
		text  string
	}{
		"custom sections without a name": {[]byte{0, 0}, "a custom section of 0 bytes does not hold its name"},
		"custom sections, empty name":    {[]byte{0, 1, 0}, "more than 10000 custom sections"},
		"custom sections, cut name":      {[]byte{0, 1, 9}, "does not hold its name"},
		"custom sections, no UTF-8":      {[]byte{0, 2, 1, 0xff}, "not valid UTF-8"},
		"sections that are not known":    {[]byte{99, 0}, "section 99 is not known"},
		"type sections":                  {[]byte{1, 1, 0}, "at the wrong place"},
		"nothing":                        {[]byte{0}, "custom section of 0 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			wasm := append(append([]byte(nil), sound...), repeatBytes(c.piece, room)...)
			began := time.Now()
			var e *graphmill.Error
			peak := peakMemory(t, func() { e = refusedModule(t, h, wasm) })
			require.Contains(t, e.Text, c.text)
			require.Less(t, time.Since(began), time.Minute) // milliseconds, on a machine that has nothing else to do; hours, piece by piece
			require.Less(t, peak, int64(64<<20))
		})
	}
}

func repeatBytes(piece []byte, room int) []byte {
	b := make([]byte, 0, room)
	for len(b)+len(piece) <= room {
		b = append(b, piece...)
	}
	return b
}

// TestCacheThatCannotBeUsed has every other way in which a cache fails than
// damaged files: a module still loads, and runs.
func TestCacheThatCannotBeUsed(t *testing.T) {
	entry := func(t *testing.T, dir string) string {
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Len(t, entries, 1)
		return filepath.Join(dir, entries[0].Name())
	}
	for name, spoil := range map[string]func(t *testing.T, dir string){
		"folder is gone": func(t *testing.T, dir string) { require.NoError(t, os.RemoveAll(dir)) },
		"folder is a file": func(t *testing.T, dir string) {
			require.NoError(t, errors.Join(os.RemoveAll(dir), os.WriteFile(dir, nil, 0o600)))
		},
		"entry is a file": func(t *testing.T, dir string) {
			e := entry(t, dir)
			require.NoError(t, errors.Join(os.RemoveAll(e), os.WriteFile(e, nil, 0o600)))
		},
		"entry is a dead link": func(t *testing.T, dir string) {
			e := entry(t, dir)
			require.NoError(t, errors.Join(os.RemoveAll(e), os.Symlink("/nonexistent/x", e)))
		},
		"entry holds more": func(t *testing.T, dir string) {
			require.NoError(t, os.WriteFile(filepath.Join(entry(t, dir), "x"), nil, 0o600))
		},
		"another version": func(t *testing.T, dir string) { e := entry(t, dir); renameEngineFolder(t, e) },
		"no checksum": func(t *testing.T, dir string) {
			require.NoError(t, os.Remove(filepath.Join(entry(t, dir), "checksum")))
		},
		"code is a folder": func(t *testing.T, dir string) {
			f := codeFile(t, entry(t, dir))
			require.NoError(t, errors.Join(os.Remove(f), os.Mkdir(f, 0o700)))
		},
		"code cannot be read":  func(t *testing.T, dir string) { require.NoError(t, os.Chmod(codeFile(t, entry(t, dir)), 0)) },
		"entry cannot be read": func(t *testing.T, dir string) { require.NoError(t, os.Chmod(entry(t, dir), 0)) },
		"folder cannot be read": func(t *testing.T, dir string) {
			require.NoError(t, os.Chmod(dir, 0))
			t.Cleanup(func() { _ = os.Chmod(dir, 0o700) })
		},
		"folder is read-only": func(t *testing.T, dir string) {
			require.NoError(t, os.Chmod(dir, 0o500))
			t.Cleanup(func() { _ = os.Chmod(dir, 0o700) })
		},
	} {
		for how, command := range map[string][]string{"compiled here": nil, "compiled in a process": compiler} {
			t.Run(name+", "+how, func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "cache")
				worksStill(t, newHost(t, wasmhost.Config{CacheDir: dir}))
				h := newHost(t, wasmhost.Config{CacheDir: dir, Compiler: command})
				spoil(t, dir)
				worksStill(t, h)
			})
		}
	}
}

func codeFile(t *testing.T, entry string) (file string) {
	require.NoError(t, filepath.WalkDir(entry, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && d.Name() != "checksum" {
			file = path
		}
		return err
	}))
	require.NotEmpty(t, file)
	return file
}

func renameEngineFolder(t *testing.T, entry string) {
	old := filepath.Dir(codeFile(t, entry))
	require.NoError(t, os.Rename(old, filepath.Join(entry, "wazero-v0.0.1-amd64-linux")))
}
