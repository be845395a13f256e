package wasmhost

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime/debug"
	"strings"
	"sync"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
)

// engine is wazero with one module compiled in it. Each module has a runtime of
// its own, which costs less than a millisecond: it is closed, and its machine
// code unmapped, when the module is no longer used, and its entry in the disk
// cache is a folder that can be checked and removed as a whole.
type engine struct {
	runtime  wazero.Runtime
	cache    wazero.CompilationCache // nil: none on disk
	compiled wazero.CompiledModule

	closeOnce sync.Once
	closeErr  error
}

// features are those of WebAssembly 2.0, and two whose instructions package meter
// knows: tail calls (a function that calls is metered at its entry, however it
// calls) and arithmetic in constants.
const features = api.CoreFeaturesV2 | experimental.CoreFeaturesTailCall | experimental.CoreFeaturesExtendedConst

// compileWorkers compile one module. wazero looks at the deadline only where
// there are two at least.
const compileWorkers = 2

// compiler waits for the turn to compile, which is to be released.
func (h *Host) compiler(ctx context.Context) (release func(), err error) {
	select {
	case h.compiling <- struct{}{}:
		return func() { <-h.compiling }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for another module to be compiled: %w", ctx.Err())
	}
}

// compile compiles a metered module, or takes it from the cache. The caller has
// the turn.
func (h *Host) compile(ctx context.Context, metered []byte) (*engine, error) {
	limited, cancel := context.WithTimeout(ctx, h.limits.CompileTime)
	defer cancel()

	entry := h.cache.entry(metered)
	e, err := newEngine(limited, metered, entry)
	if err != nil && isCacheError(err) {
		h.cache.remove(entry, err.Error())
		entry = ""
		e, err = newEngine(limited, metered, entry)
	}
	switch {
	case err == nil:
		h.cache.seal(entry)
		return e, nil
	case ctx.Err() != nil:
		return nil, fmt.Errorf("compile a module: %w", ctx.Err())
	case limited.Err() != nil:
		return nil, rejected("over_limit", "", "compiling the module took longer than the limit of %s", h.limits.CompileTime)
	}
	if broken, ok := errors.AsType[*enginePanic](err); ok {
		h.logger.Error("the WebAssembly engine failed on a module", "panic", broken.value, "stack", string(broken.stack))
	}
	return nil, rejected("module_rejected", "", "the module is not valid: %s", clip(err.Error(), 500))
}

// isCacheError says whether compiling failed for the sake of the disk cache.
func isCacheError(err error) bool {
	var pathError *fs.PathError
	return errors.As(err, &pathError) || strings.Contains(err.Error(), "compilationcache:")
}

// newEngine compiles a module. With a folder the machine code is kept in it, or
// taken from there.
func newEngine(ctx context.Context, metered []byte, folder string) (e *engine, err error) {
	config := wazero.NewRuntimeConfig().WithCoreFeatures(features).WithDebugInfoEnabled(false)
	e = &engine{}
	if folder != "" {
		if e.cache, err = wazero.NewCompilationCacheWithDir(folder); err != nil {
			return nil, err
		}
		config = config.WithCompilationCache(e.cache)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.close(context.WithoutCancel(ctx)))
		}
	}()
	defer recovered(&err)
	e.runtime = wazero.NewRuntimeWithConfig(ctx, config)
	if err := provide(ctx, e.runtime); err != nil {
		return nil, err
	}
	e.compiled, err = e.runtime.CompileModule(experimental.WithCompilationWorkers(ctx, compileWorkers), metered)
	return e, err
}

// close frees the machine code. No instance may be left.
func (e *engine) close(ctx context.Context) error {
	e.closeOnce.Do(func() {
		if e.runtime != nil {
			e.closeErr = e.runtime.Close(ctx)
		}
		if e.cache != nil {
			e.closeErr = errors.Join(e.closeErr, e.cache.Close(ctx))
		}
	})
	return e.closeErr
}

// enginePanic is a panic of the engine, which is a defect in it.
type enginePanic struct {
	value any
	stack []byte
}

func (p *enginePanic) Error() string {
	return fmt.Sprintf("the WebAssembly engine failed: %v", p.value)
}

// recovered turns a panic of the engine into an error: a strange module must
// not end the server.
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = &enginePanic{value: p, stack: debug.Stack()}
	}
}
