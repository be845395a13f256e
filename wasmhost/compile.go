package wasmhost

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tetratelabs/wazero"

	"github.com/graphmill/graphmill"
)

// CodeNotCompiled is the code of an error of KindUnavailable: a module could not be
// compiled this time, for a reason that is not in the module. It may be later.
const CodeNotCompiled = "not_compiled"

// candidate is a module that keeps the ABI and is to be compiled.
type candidate struct {
	sum      [sha256.Size]byte // of its bytes as they came
	contract *contract
	metered  []byte
}

// cached takes a module from the cache, nil where it is not there. That needs no
// turn: a module that others have compiled does not wait for one that is being
// compiled, which may take as long as CompileTime.
func (h *Host) cached(ctx context.Context, c *candidate) *engine {
	if h.cache == nil {
		return nil
	}
	entry := h.cache.hold(c.metered)
	if folder := h.cache.find(entry); folder != "" {
		if e, err := newEngine(ctx, c.metered, folder); err == nil {
			h.cache.seal(entry, folder, c.sum)
			e.entry = entry
			return e
		} // else it is looked into with the turn
	}
	h.cache.letGo(entry)
	return nil
}

// turn waits for a turn of those that are taken one at a time. It is to be
// released.
func (h *Host) turn(ctx context.Context, turns chan struct{}) (release func(), err error) {
	select {
	case turns <- struct{}{}:
		return func() { <-turns }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for another module to be compiled: %w", h.ended(ctx))
	}
}

// compile compiles a module, or takes it from the cache. The caller has the turn.
func (h *Host) compile(ctx context.Context, c *candidate) (*engine, error) {
	limited, cancel := context.WithTimeout(ctx, h.limits.CompileTime)
	defer cancel()

	entry := h.cache.hold(c.metered)
	e, err := h.compileInto(limited, c.metered, entry)
	if err != nil {
		h.cache.discard(entry)
		h.cache.letGo(entry)
		return nil, h.notCompiled(ctx, limited, err)
	}
	h.cache.seal(entry, e.folder, c.sum)
	e.entry = entry
	return e, nil
}

// compileInto compiles a module with its machine code kept in an entry of the cache,
// where that can be. With a Compiler a process does it, and this one only loads.
func (h *Host) compileInto(ctx context.Context, metered []byte, entry string) (*engine, error) {
	if folder := h.cache.find(entry); folder != "" {
		e, err := newEngine(ctx, metered, folder)
		if err == nil || ctx.Err() != nil {
			return e, err
		}
		h.cache.remove(entry, err.Error())
	}
	if len(h.compiler) > 0 {
		e, err := h.compileOutside(ctx, metered, entry)
		if !errors.Is(err, errNoCompiler) {
			return e, err
		}
		h.logger.Warn("a module is compiled within the server, where its limits of time and memory are weaker", "error", err)
	}
	folder := h.cache.prepare(entry)
	e, err := newEngine(ctx, metered, folder)
	if err != nil && folder != "" && ctx.Err() == nil {
		// The disk may be to blame, and what it says is not to be told apart.
		h.cache.discard(entry)
		e, err = newEngine(ctx, metered, "")
	}
	return e, err
}

// compileOutside has another process compile the module, and loads the machine code
// that it wrote to the cache, or to a temporary folder where the cache takes none.
// What cannot be loaded is compiled once more.
func (h *Host) compileOutside(ctx context.Context, metered []byte, entry string) (*engine, error) {
	const attempts = 2
	var err error
	for range attempts {
		folder := h.cache.prepare(entry)
		if folder == "" {
			temporary, err := h.cache.temporary()
			if err != nil {
				return nil, cannotStart(err)
			}
			defer os.RemoveAll(temporary)
			folder = temporary
		}
		if err := makeEngineFolder(folder); err != nil {
			return nil, cannotKeep(err.Error())
		}
		if err := h.runCompiler(ctx, metered, folder); err != nil {
			return nil, err
		}
		if err := checkMachineCode(folder); err != nil {
			return nil, fmt.Errorf("%w: %w", errNoCompiler, err)
		}
		var e *engine
		if e, err = newEngine(ctx, metered, folder); err == nil {
			return e, nil
		}
		if ctx.Err() != nil {
			return nil, err
		}
		h.logger.Warn("the machine code of a module cannot be loaded", "error", err)
		h.cache.discard(entry)
	}
	return nil, cannotKeep(clip(err.Error(), 500))
}

// makeEngineFolder makes the folder in which this version of the engine looks for
// machine code. wazero names it.
func makeEngineFolder(folder string) error {
	c, err := wazero.NewCompilationCacheWithDir(folder)
	if err != nil {
		return err
	}
	return c.Close(context.Background())
}

// checkMachineCode finds out whether another process has put machine code where
// this one's engine will look for it: it would compile the module itself, without
// a word, where it finds none.
func checkMachineCode(folder string) error {
	versions, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	if len(versions) != 1 {
		return errors.New("the program that compiled it holds another version of the engine")
	}
	files, err := os.ReadDir(filepath.Join(folder, versions[0].Name()))
	if err == nil && len(files) == 0 {
		err = errors.New("the machine code is missing")
	}
	return err
}

// notCompiled tells why a module could not be compiled: ctx is the caller's,
// limited the one with the limit of time.
func (h *Host) notCompiled(ctx, limited context.Context, err error) error {
	away, isAway := errors.AsType[*compilerAway](err)
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("compile a module: %w", h.ended(ctx))
	case isAway:
		h.logger.Warn("a module could not be compiled, for a reason that is not in it", "reason", away.text)
		return &graphmill.Error{Kind: graphmill.KindUnavailable, Code: CodeNotCompiled,
			Text: "the module could not be compiled this time: " + away.text, Next: away.next}
	case limited.Err() != nil, errors.Is(err, errCompileTime):
		return rejected("over_limit", compileLess+"time", "compiling the module took longer than the limit of %s", h.limits.CompileTime)
	case errors.Is(err, errCompileMemory):
		return rejected("over_limit", compileLess+"memory", "compiling the module takes more than the limit of %s of memory", sizeText(h.limits.CompileMemory))
	case errors.Is(err, errCompileSize):
		return rejected("over_limit", compileLess+"memory", "the machine code of the module is larger than the limit of %s", sizeText(h.limits.CompileMemory/machineCodeShare))
	}
	if broken, ok := errors.AsType[*enginePanic](err); ok {
		h.logger.Error("the WebAssembly engine failed on a module", "panic", broken.value, "stack", string(broken.stack))
	}
	return rejected("module_rejected", "build it again: a file that is damaged or edited by hand fails like this, and one of a toolchain whose WebAssembly is newer than 2.0",
		"the module is not valid: %s", clip(err.Error(), 500))
}

// compileLess is the next step where compiling takes too much, up to what that is.
const compileLess = "build the module with optimisation for size, or smaller functions, or raise the server's --limit-compile-"
