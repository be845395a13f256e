package wasmhost

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/wasmhost/frame"
)

// InstanceConfig says what an instance is for and how far it may go. Zero limits
// mean the host's.
type InstanceConfig struct {
	Function string            // the transformation
	Stream   string            // the name of the stream, which the guest is told
	Settings map[string]string // for graphmill_configure

	MemoryLimit   int64         // bytes of linear memory, rounded down to pages of 64 KiB
	TimeLimit     time.Duration // for one call, and for the set-up
	ResponseLimit int64         // bytes of a response frame

	// Log is told what the guest writes, from the goroutine that uses or closes
	// the instance. Nil: the host's logger is.
	Log func(level slog.Level, text string)
}

// Instance is one running copy of a module, for one lane of a stream.
//
// It is for one goroutine at a time. It must not be given a message twice: what
// has to be transformed again goes to a fresh instance, because modules may
// remember. After an error it is unusable, and must be closed.
type Instance struct {
	loaded *loaded
	born   time.Time // origin of the guest's monotonic clock

	stream        string
	memoryLimit   int64
	timeLimit     time.Duration
	responseLimit int64

	memory  *guestMemory
	guest   api.Module
	alloc   api.Function
	fn      api.Function
	log     logWriter
	limits  callLimits
	encoder frame.Encoder
	decoder *frame.Decoder
	stack   [2]uint64    // parameters and result of a call
	size    atomic.Int64 // of the linear memory
	inGuest atomic.Int64 // nanoseconds spent in the transformation

	// use holds a token while the instance is used, so that Close cannot pull the
	// memory from under a call. What follows belongs to whoever has put it there.
	use    chan struct{}
	broken error // why it is unusable
	closed bool
}

// Instantiate makes an instance, and runs _initialize and graphmill_configure
// within the time limit. If they fail, the error is a *graphmill.Fault of class
// set_up with the guest's own text. Limits over the host's, and a function that
// the module does not have, are a *graphmill.Error.
func (m *Module) Instantiate(ctx context.Context, cfg InstanceConfig) (*Instance, error) {
	if !slices.Contains(m.contract.transformations, cfg.Function) {
		return nil, graphmill.NotFound("transformation_not_found", "the module has no transformation %s, it has %q", quoted(cfg.Function), m.contract.transformations)
	}
	_, finish, err := m.host.begin(ctx) // closing ends calls by itself
	if err != nil {
		return nil, err
	}
	defer finish()
	if !m.retainOpen() {
		return nil, errors.New("instantiate a module: it has been closed")
	}
	i, err := m.loaded.instantiate(ctx, cfg)
	if err == nil {
		err = i.configure(ctx, cfg.Settings)
	}
	if err != nil {
		if i == nil {
			return nil, joined(err, m.loaded.release(context.WithoutCancel(ctx)))
		}
		return nil, joined(err, i.Close(context.WithoutCancel(ctx)))
	}
	return i, nil
}

// joined returns err as it is unless there is another one.
func joined(err, other error) error {
	if other == nil {
		return err
	}
	return errors.Join(err, other)
}

// limitsOf returns the limits of an instance with this configuration.
func (h *Host) limitsOf(cfg InstanceConfig) (InstanceConfig, error) {
	orDefault(&cfg.MemoryLimit, h.limits.Memory)
	orDefault(&cfg.TimeLimit, h.limits.Time)
	switch {
	case cfg.MemoryLimit < pageSize || cfg.MemoryLimit > h.limits.MaxMemory:
		return cfg, graphmill.Invalid("memory_limit", "%d is outside of %d to %d", cfg.MemoryLimit, pageSize, h.limits.MaxMemory)
	case cfg.TimeLimit < time.Millisecond || cfg.TimeLimit > h.limits.MaxTime:
		return cfg, graphmill.Invalid("time_limit_ms", "%d is outside of 1 to %d", cfg.TimeLimit.Milliseconds(), h.limits.MaxTime.Milliseconds())
	}
	cfg.MemoryLimit -= cfg.MemoryLimit % pageSize
	if cfg.ResponseLimit == 0 {
		cfg.ResponseLimit = cfg.MemoryLimit / 2
		if h.limits.Response > 0 {
			cfg.ResponseLimit = min(h.limits.Response, cfg.MemoryLimit)
		}
	}
	if cfg.ResponseLimit < frame.ResponseHeaderSize || cfg.ResponseLimit > h.limits.MaxMemory {
		return cfg, graphmill.Invalid("response_limit", "%d is outside of %d to %d", cfg.ResponseLimit, frame.ResponseHeaderSize, h.limits.MaxMemory)
	}
	return cfg, nil
}

// instantiate makes an instance and runs _initialize. The instance takes over
// one reference to the module; where none is returned, the caller keeps it.
func (l *loaded) instantiate(ctx context.Context, cfg InstanceConfig) (*Instance, error) {
	cfg, err := l.host.limitsOf(cfg)
	if err != nil {
		return nil, err
	}
	if l.contract.memory > cfg.MemoryLimit {
		return nil, graphmill.Invalid("memory_limit", "the module starts with %d bytes of memory, the limit is %d", l.contract.memory, cfg.MemoryLimit)
	}
	memory, err := reserveMemory(cfg.MemoryLimit)
	if err != nil {
		return nil, err
	}
	i := &Instance{
		loaded: l, born: time.Now(), stream: cfg.Stream, memory: memory, use: make(chan struct{}, 1),
		memoryLimit: cfg.MemoryLimit, timeLimit: cfg.TimeLimit, responseLimit: cfg.ResponseLimit,
		log: logWriter{emit: cfg.Log, perSecond: l.host.limits.LogLines},
		decoder: frame.NewDecoder(frame.Limits{
			Statements:     l.host.limits.Statements,
			QueryTexts:     l.host.limits.QueryTexts,
			QueryTextBytes: l.host.limits.QueryTextBytes,
			Decoded:        l.host.limits.Decoded,
		}),
	}
	if i.log.emit == nil {
		logger := l.host.logger.With("stream", cfg.Stream, "function", cfg.Function)
		i.log.emit = func(level slog.Level, text string) { logger.Log(context.Background(), level, text) }
	}
	l.host.mu.Lock()
	l.host.instances[i] = struct{}{}
	l.host.mu.Unlock()
	if err := i.start(ctx, cfg.Function); err != nil {
		i.broken = err
		return i, err
	}
	return i, nil
}

// start brings the guest to life.
func (i *Instance) start(ctx context.Context, function string) error {
	err := i.within(ctx, func(ctx context.Context) (err error) {
		e := i.loaded.engine
		config := wazero.NewModuleConfig().WithName("").WithStartFunctions()
		i.guest, err = e.runtime.InstantiateModule(experimental.WithMemoryAllocator(ctx, i.memory), e.compiled, config)
		if err != nil || !i.loaded.contract.initialize {
			return err
		}
		return i.guest.ExportedFunction(exportInitialize).CallWithStack(ctx, nil)
	})
	if err != nil {
		return i.setupError(err, "start the module", codeInitialize)
	}
	i.alloc = i.guest.ExportedFunction(exportAlloc)
	i.fn = i.guest.ExportedFunction(function)
	return nil
}

// configure hands the settings to the guest.
func (i *Instance) configure(ctx context.Context, settings map[string]string) error {
	if !i.loaded.contract.configure {
		return nil
	}
	var refusal string
	encoded := frame.AppendSettings(nil, settings)
	err := i.within(ctx, func(ctx context.Context) error {
		address, buffer, err := i.buffer(ctx, len(encoded))
		if err != nil {
			return err
		}
		copy(buffer, encoded)
		i.stack = [2]uint64{uint64(address), uint64(len(encoded))}
		if err := i.guest.ExportedFunction(exportConfigure).CallWithStack(ctx, i.stack[:]); err != nil || i.stack[0] == 0 {
			return err
		}
		text, err := i.returned(i.stack[0], exportConfigure)
		if refusal = clean(string(text)); refusal == "" {
			refusal = "the module refuses its settings and does not say why"
		}
		return err
	})
	if err == nil && refusal == "" {
		return nil
	}
	if err == nil {
		err = &graphmill.Fault{Class: graphmill.FaultSetup, Code: codeConfigure, Text: refusal, Next: "correct SETTINGS of the stream", Message: graphmill.WholeBatch}
	} else {
		err = i.setupError(err, "configure the module", codeConfigure)
	}
	i.broken = err
	return err
}

// setupError explains an error of the set-up, under its own code.
func (i *Instance) setupError(err error, doing, code string) error {
	err = i.explain(err, doing, graphmill.FaultSetup)
	var f *graphmill.Fault
	if errors.As(err, &f) {
		f.Text = doing + ": " + f.Text
		f.Code = code
	}
	return err
}

// buffer asks the guest for a buffer of at least size bytes.
func (i *Instance) buffer(ctx context.Context, size int) (address uint32, b []byte, err error) {
	size = max((size+7)&^7, 8)
	if int64(size) > i.memoryLimit {
		return 0, nil, i.outOfMemory(size)
	}
	i.stack[0] = uint64(size)
	if err := i.alloc.CallWithStack(ctx, i.stack[:1]); err != nil {
		return 0, nil, err
	}
	address = uint32(i.stack[0])
	if address == 0 {
		return 0, nil, i.outOfMemory(size)
	}
	b, ok := i.guest.Memory().Read(address, uint32(size))
	if !ok || address%8 != 0 {
		return 0, nil, &guestFault{code: codeBadResponse, text: fmt.Sprintf(
			"%s(%d) returned %#x; a multiple of 8 with so many bytes of memory behind it is expected", exportAlloc, size, address)}
	}
	return address, b, nil
}

// sizeText writes a size of memory, which is a multiple of 64 KiB.
func sizeText(n int64) string {
	if n%(1<<20) == 0 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d KiB", n>>10)
}

func (i *Instance) outOfMemory(size int) *guestFault {
	return &guestFault{code: codeOutOfMemory, text: fmt.Sprintf("the module has no room for %d bytes in its memory of at most %s", size, sizeText(i.memoryLimit))}
}

// returned follows address << 32 | length into the guest's memory. The bytes are
// the guest's: copy them before anything else.
func (i *Instance) returned(result uint64, function string) ([]byte, error) {
	address, length := uint32(result>>32), uint32(result)
	if int64(length) > i.responseLimit {
		return nil, &guestFault{code: codeOverLimit, text: fmt.Sprintf("%s returned %d bytes, the limit is %d", function, length, i.responseLimit)}
	}
	b, ok := i.guest.Memory().Read(address, length)
	if !ok {
		return nil, &guestFault{code: codeBadResponse, text: fmt.Sprintf("%s returned %d bytes at %#x, outside of its memory of %d", function, length, address, i.guest.Memory().Size())}
	}
	return b, nil
}

// GuestTime returns how long the transformation itself has run in all calls so far:
// the part of Transform that is the guest's own, without encoding the batch and
// reading the answer.
func (i *Instance) GuestTime() time.Duration { return time.Duration(i.inGuest.Load()) }

// Memory returns the size of the linear memory in bytes, after the last call.
// Safe for concurrent use.
func (i *Instance) Memory() int64 { return i.size.Load() }

// Close ends the instance and frees its memory. It waits for a call that is
// under way; where ctx ends first, the instance is as it was, and the error is the
// context's. Closing twice does nothing.
func (i *Instance) Close(ctx context.Context) error {
	select {
	case i.use <- struct{}{}:
	default:
		select {
		case i.use <- struct{}{}:
		case <-ctx.Done():
			return fmt.Errorf("close an instance, which is being called: %w", ctx.Err())
		}
	}
	defer func() { <-i.use }()
	if i.closed {
		return nil
	}
	i.closed = true
	i.log.close()
	var errs []error
	if i.guest != nil {
		errs = append(errs, i.guest.Close(ctx))
	}
	errs = append(errs, i.memory.release())

	h := i.loaded.host
	h.mu.Lock()
	delete(h.instances, i)
	h.mu.Unlock()
	errs = append(errs, i.loaded.release(ctx))
	return errors.Join(errs...)
}
