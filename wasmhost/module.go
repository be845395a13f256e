package wasmhost

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
)

// Module is a compiled module. Safe for concurrent use.
type Module struct {
	*loaded
	closed atomic.Bool
}

// loaded is a compiled module as all its users share it: handles from Load and
// instances.
type loaded struct {
	host *Host
	hash [sha256.Size]byte
	refs int // guarded by host.mu; at 0 it is closed

	// ready is closed once the rest is set: either err or all the others.
	ready    chan struct{}
	err      error
	contract *contract
	engine   *engine
}

// Load returns the module compiled from these bytes, which the caller must
// close. The same bytes are compiled once, however many ask for them at once.
// Bytes that Check would refuse are refused with the same errors.
func (h *Host) Load(ctx context.Context, wasm []byte) (*Module, error) {
	ctx, finish, err := h.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer finish()
	l, err := h.acquire(ctx, wasm)
	if err != nil {
		return nil, err
	}
	return &Module{loaded: l}, nil
}

// LoadStored is Load for bytes that are kept elsewhere and known by their
// SHA-256. read returns them; it is called only where the module is not loaded
// already, and for one module at a time that is in the cache and one that is to be
// compiled, so that many who load at once do not all hold their bytes.
func (h *Host) LoadStored(ctx context.Context, sum [sha256.Size]byte, read func(context.Context) ([]byte, error)) (*Module, error) {
	ctx, finish, err := h.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer finish()
	l, err := h.share(ctx, sum, func() (*contract, *engine, error) {
		if h.cache != nil {
			c, e, err := h.stored(ctx, sum, read, h.reading, func(ctx context.Context, c *candidate) (*engine, error) {
				return h.cached(ctx, c), nil
			})
			if err != nil || e != nil {
				return c, e, err
			}
		}
		return h.stored(ctx, sum, read, h.compiling, h.compile)
	})
	if err != nil {
		return nil, err
	}
	return &Module{loaded: l}, nil
}

// stored reads and checks stored bytes and makes an engine of them, while it has a
// turn of its own.
func (h *Host) stored(ctx context.Context, sum [sha256.Size]byte, read func(context.Context) ([]byte, error),
	turns chan struct{}, compile func(context.Context, *candidate) (*engine, error)) (*contract, *engine, error) {
	release, err := h.turn(ctx, turns)
	if err != nil {
		return nil, nil, err
	}
	defer release()
	wasm, err := read(ctx)
	if err == nil && sha256.Sum256(wasm) != sum {
		err = errors.New("load a module: the bytes are not those of its SHA-256")
	}
	if err != nil {
		return nil, nil, &unread{err}
	}
	c, err := h.inspect(sum, wasm)
	if err != nil {
		return nil, nil, err
	}
	e, err := compile(ctx, c)
	return c.contract, e, err
}

// Transformations returns the names of the transformations, sorted.
func (m *Module) Transformations() []string { return slices.Clone(m.contract.transformations) }

// Close gives the module back. Instances of it go on. Closing twice does
// nothing.
func (m *Module) Close(ctx context.Context) error {
	if m.closed.Swap(true) {
		return nil
	}
	return m.release(ctx)
}

// acquire returns the loaded module with one reference more.
func (h *Host) acquire(ctx context.Context, wasm []byte) (*loaded, error) {
	if err := h.checkSize(wasm); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(wasm)
	return h.share(ctx, sum, func() (*contract, *engine, error) { return h.prepare(ctx, sum, wasm) })
}

// share returns the loaded module of a hash with one reference more. Where there
// is none, it is made by prepare, once for all who ask at the same time.
func (h *Host) share(ctx context.Context, hash [sha256.Size]byte, prepare func() (*contract, *engine, error)) (*loaded, error) {
	for {
		h.mu.Lock()
		l, exists := h.loaded[hash]
		if !exists {
			l = &loaded{host: h, hash: hash, refs: 1, ready: make(chan struct{})}
			h.loaded[hash] = l
		} else {
			l.refs++
		}
		h.mu.Unlock()

		if !exists {
			h.fill(l, prepare)
			return l, l.err
		}
		select {
		case <-l.ready:
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("load a module: %w", l.host.ended(ctx)), l.release(context.WithoutCancel(ctx)))
		}
		if l.err == nil {
			h.cache.want(l.engine.entry)
			return l, nil
		}
		// It failed for somebody else. If only their patience ended, or they could not
		// read the bytes, it is ours to try.
		var theirs *unread
		if (isContextError(l.err) || errors.As(l.err, &theirs)) && ctx.Err() == nil {
			continue
		}
		return nil, l.err
	}
}

// fill makes a module ready, or takes it out again. That is done also where prepare
// panics: others wait for it.
func (h *Host) fill(l *loaded, prepare func() (*contract, *engine, error)) {
	l.err = errors.New("load a module: a defect ended it")
	defer func() {
		if l.err != nil {
			h.mu.Lock()
			delete(h.loaded, l.hash)
			h.mu.Unlock()
		}
		close(l.ready)
	}()
	l.contract, l.engine, l.err = prepare()
}

// unread is the error of somebody who could not read the bytes of a module. It
// says nothing to those who have them.
type unread struct{ error }

func (u *unread) Unwrap() error { return u.error }

func isContextError(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// prepare checks and compiles a module. What is refused unseen by the compiler
// does not wait for it.
func (h *Host) prepare(ctx context.Context, sum [sha256.Size]byte, wasm []byte) (*contract, *engine, error) {
	c, err := h.inspect(sum, wasm)
	if err != nil {
		return nil, nil, err
	}
	if e := h.cached(ctx, c); e != nil {
		return c.contract, e, nil
	}
	release, err := h.turn(ctx, h.compiling)
	if err != nil {
		return nil, nil, err
	}
	defer release()
	e, err := h.compile(ctx, c)
	return c.contract, e, err
}

// retainOpen takes one more reference, unless this handle has been closed.
func (m *Module) retainOpen() bool {
	m.host.mu.Lock()
	defer m.host.mu.Unlock()
	if m.closed.Load() {
		return false
	}
	m.refs++
	return true
}

// release gives a reference back and closes the module with the last one. It
// waits for a compilation that is under way.
func (l *loaded) release(ctx context.Context) error {
	l.host.mu.Lock()
	l.refs--
	last := l.refs == 0 && l.host.loaded[l.hash] == l
	if last {
		delete(l.host.loaded, l.hash)
	}
	l.host.mu.Unlock()
	if !last {
		return nil
	}
	return l.free(ctx)
}

// free closes the module. Nobody uses it any more.
func (l *loaded) free(ctx context.Context) error {
	err := l.engine.close(ctx)
	l.host.cache.letGo(l.engine.entry)
	return err
}
