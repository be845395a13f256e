package wasmhost

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/tetratelabs/wazero"
)

// cached takes a metered module from the cache, nil where it is not there. That
// needs no turn: a module that others have compiled does not wait for one that is
// being compiled, which may take as long as CompileTime.
func (h *Host) cached(ctx context.Context, metered []byte) *engine {
	folder := h.cache.find(metered)
	if folder == "" {
		return nil
	}
	e, err := newEngine(ctx, metered, folder)
	if err != nil {
		return nil // with the turn it is looked into
	}
	h.cache.seal(folder)
	return e
}

// turn waits for a turn of those that are taken one at a time. It is to be
// released.
func turn(ctx context.Context, turns chan struct{}) (release func(), err error) {
	select {
	case turns <- struct{}{}:
		return func() { <-turns }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for another module to be compiled: %w", ctx.Err())
	}
}

// compile compiles a metered module, or takes it from the cache. The caller has
// the turn.
func (h *Host) compile(ctx context.Context, metered []byte) (*engine, error) {
	limited, cancel := context.WithTimeout(ctx, h.limits.CompileTime)
	defer cancel()

	folder := h.cache.entry(metered)
	e, err := h.compileIn(limited, metered, folder)
	if err == nil {
		h.cache.seal(folder)
		return e, nil
	}
	h.cache.discard(folder)
	return nil, h.notCompiled(ctx, limited, err)
}

// compileIn compiles a module with its machine code kept in a folder of the
// cache; "": it is not kept.
func (h *Host) compileIn(ctx context.Context, metered []byte, folder string) (*engine, error) {
	if len(h.compiler) > 0 && (folder == "" || !h.cache.sound(folder)) {
		e, err := h.compileOutside(ctx, metered, folder)
		if !errors.Is(err, errNoCompiler) {
			return e, err
		}
		h.logger.Warn("a module is compiled within the server, where its limits of time and memory are weaker", "error", err)
	}
	e, err := newEngine(ctx, metered, folder)
	if err != nil && isCacheError(err) {
		h.cache.remove(folder, err.Error())
		e, err = newEngine(ctx, metered, "")
	}
	return e, err
}

// compileOutside has another process compile the module, and takes the machine
// code from the folder. Where the cache has none to offer, a temporary one does.
func (h *Host) compileOutside(ctx context.Context, metered []byte, folder string) (*engine, error) {
	if folder == "" {
		temporary, err := os.MkdirTemp("", "graphmill-compile-")
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errNoCompiler, err)
		}
		defer os.RemoveAll(temporary)
		folder = temporary
	}
	if err := makeEngineFolder(folder); err != nil {
		return nil, fmt.Errorf("%w: %w", errNoCompiler, err)
	}
	if err := h.runCompiler(ctx, metered, folder); err != nil {
		return nil, err
	}
	if err := checkMachineCode(folder); err != nil {
		return nil, fmt.Errorf("%w: %w", errNoCompiler, err)
	}
	e, err := newEngine(ctx, metered, folder)
	if err != nil && isCacheError(err) {
		return nil, fmt.Errorf("%w: %w", errNoCompiler, err)
	}
	return e, err
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
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("compile a module: %w", ctx.Err())
	case limited.Err() != nil, errors.Is(err, errCompileTime):
		return rejected("over_limit", "", "compiling the module took longer than the limit of %s", h.limits.CompileTime)
	case errors.Is(err, errCompileMemory):
		return rejected("over_limit", "", "compiling the module takes more than the limit of %s of memory", sizeText(h.limits.CompileMemory))
	case errors.Is(err, errCompileSize):
		return rejected("over_limit", "", "the machine code of the module is larger than the limit of %s", sizeText(h.limits.CompileMemory/machineCodeShare))
	}
	if broken, ok := errors.AsType[*enginePanic](err); ok {
		h.logger.Error("the WebAssembly engine failed on a module", "panic", broken.value, "stack", string(broken.stack))
	}
	return rejected("module_rejected", "", "the module is not valid: %s", clip(err.Error(), 500))
}

// isCacheError says whether compiling failed for the sake of the disk cache.
func isCacheError(err error) bool {
	var pathError *fs.PathError
	return errors.As(err, &pathError) || strings.Contains(err.Error(), "compilationcache:")
}
