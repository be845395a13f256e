package wasmhost

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
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
	folder   string // where the machine code is kept
	entry    string // of the disk cache, which is held; empty: none is

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

// newEngine compiles a module. With a folder the machine code is kept in it, or
// taken from there.
func newEngine(ctx context.Context, metered []byte, folder string) (e *engine, err error) {
	config := wazero.NewRuntimeConfig().WithCoreFeatures(features).WithDebugInfoEnabled(false)
	e = &engine{folder: folder}
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

// Unwrap returns the error that the engine panicked with, if it was one.
func (p *enginePanic) Unwrap() error {
	err, _ := p.value.(error)
	return err
}

// recovered turns a panic of the engine into an error: a strange module must
// not end the server.
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = &enginePanic{value: p, stack: debug.Stack()}
	}
}
