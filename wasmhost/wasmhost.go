// Package wasmhost runs transformation modules: it checks what is uploaded,
// makes it stoppable, compiles it once, and calls it with batches of messages.
//
// A Host holds the modules of a server. Host.Check decides about an upload,
// Host.Load returns a compiled Module, Module.Instantiate an Instance of it for
// one lane of one stream, and Instance.Transform carries one batch in and its
// statements out. sdk/ABI.md is the contract with the module.
//
// Modules are strangers. They are bounded before a compiler sees them (package
// meter), they reach nothing of the machine but clocks, random numbers and the
// log, their memory and time are limited, and nothing that they return is
// believed (package frame). What they can cost at most is their limits.
package wasmhost

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/graphmill/graphmill"
)

// Config is what New needs.
type Config struct {
	// CacheDir keeps compiled modules, so that a restart does not compile them
	// again. It holds machine code that will be run: it is made with mode 0700,
	// and must be this process's own. Empty: nothing is kept.
	CacheDir string

	// CacheSize is what the cache may take of the disk, in bytes: what was used last
	// the longest ago goes, unless it is loaded. 0: DefaultCacheSize.
	CacheSize int64

	Limits Limits

	// Compiler is the command (program and arguments) of a process that compiles a
	// module that is not in the cache, by calling RunCompiler: so what a hostile
	// module costs the compiler is not the server's memory, and a crash not the
	// server's end. Nil: modules are compiled in this process, within CompileTime.
	Compiler []string

	// Logger is told what goes wrong with the cache, and the log lines of
	// instances that have no log of their own. Nil: nobody is.
	Logger *slog.Logger
}

// Host runs the modules of a server. Safe for concurrent use.
type Host struct {
	limits Limits
	logger *slog.Logger
	cache  *diskCache

	compiler  []string
	compiling chan struct{} // held while compiling: one module at a time
	reading   chan struct{} // held while stored bytes are looked up in the cache

	// closing ends running calls at their next look at the clock, and life all other
	// operations.
	closing atomic.Bool
	life    context.Context
	end     context.CancelFunc

	mu        sync.Mutex
	underWay  int           // operations; none begins once closing is set
	idle      chan struct{} // closed once closing is set and none is under way
	loaded    map[[sha256.Size]byte]*loaded
	instances map[*Instance]struct{}
}

// New makes a host. A CacheDir that cannot be used is an error.
func New(ctx context.Context, cfg Config) (*Host, error) {
	limits, err := cfg.Limits.withDefaults()
	if err != nil {
		return nil, err
	}
	logger := cfg.Logger
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	if cfg.CacheSize < 0 {
		return nil, graphmill.Invalid("cache_size", "%d is no size", cfg.CacheSize)
	}
	cache, err := openDiskCache(ctx, cfg.CacheDir, cfg.CacheSize, logger)
	if err != nil {
		return nil, fmt.Errorf("open the cache of compiled modules: %w", err)
	}
	life, end := context.WithCancel(context.Background())
	return &Host{
		limits:    limits,
		logger:    logger,
		cache:     cache,
		compiler:  slices.Clone(cfg.Compiler),
		compiling: make(chan struct{}, 1),
		reading:   make(chan struct{}, 1),
		life:      life,
		end:       end,
		idle:      make(chan struct{}),
		loaded:    make(map[[sha256.Size]byte]*loaded),
		instances: make(map[*Instance]struct{}),
	}, nil
}

// Limits returns the limits in force.
func (h *Host) Limits() Limits { return h.limits }

// Forget removes what was compiled of an upload from the cache, by the SHA-256 of
// its bytes: at once, or where it is in use, once it is not. It may be compiled anew.
func (h *Host) Forget(sum [sha256.Size]byte) { h.cache.forget(sum) }

// Close ends calls and compilations that are running, closes all instances and
// modules, and waits for both. Where ctx ends before that, what is in use stays as it
// is, and the error is the context's. What is asked of the host afterwards is an
// error. Closing twice does nothing.
func (h *Host) Close(ctx context.Context) error {
	h.mu.Lock()
	if !h.closing.Swap(true) && h.underWay == 0 {
		close(h.idle)
	}
	h.mu.Unlock()
	h.end()
	select {
	case <-h.idle:
	case <-ctx.Done():
		if !isClosed(h.idle) {
			return fmt.Errorf("close the host of modules, while one is being compiled or started: %w", ctx.Err())
		}
	}

	h.mu.Lock()
	instances := slices.Collect(maps.Keys(h.instances))
	h.mu.Unlock()
	var errs []error
	for _, i := range instances {
		errs = append(errs, i.Close(ctx))
	}

	h.mu.Lock()
	if len(h.instances) > 0 { // modules must not be closed under them
		h.mu.Unlock()
		return errors.Join(errs...)
	}
	modules := slices.Collect(maps.Values(h.loaded))
	clear(h.loaded)
	h.mu.Unlock()
	for _, l := range modules {
		errs = append(errs, l.free(ctx))
	}
	return errors.Join(errs...)
}

// begin registers an operation, whose context then ends with the host too. The
// caller calls finish when it is over.
func (h *Host) begin(ctx context.Context) (bound context.Context, finish func(), err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closing.Load() {
		return nil, nil, errHostClosed()
	}
	h.underWay++
	bound, cancel := context.WithCancel(ctx)
	unbind := context.AfterFunc(h.life, cancel)
	return bound, func() {
		unbind()
		cancel()
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.underWay--; h.underWay == 0 && h.closing.Load() {
			close(h.idle)
		}
	}, nil
}

// ended is why the context of an operation has ended.
func (h *Host) ended(ctx context.Context) error {
	if h.closing.Load() {
		return errHostClosed()
	}
	return ctx.Err()
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func errHostClosed() error {
	return &graphmill.Error{Kind: graphmill.KindUnavailable, Code: "shutting_down", Text: "the server is shutting down"}
}
