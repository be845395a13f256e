package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/server/catalog"
)

// stream is a stored stream in this process: its definition, and the run that
// is under way, if any.
type stream struct {
	srv *Server
	log *slog.Logger

	// command is held by one START, STOP or DROP at a time.
	command sync.Mutex

	// mu guards what follows, for moments only.
	mu      sync.Mutex
	rec     catalog.Stream
	run     *run // under way; nil: none
	last    *run // the one that ended last, for counters and its failure
	dropped bool
}

func newStream(srv *Server, rec catalog.Stream) *stream {
	return &stream{srv: srv, rec: rec, log: srv.log.With("stream", rec.Spec.Name)}
}

func (st *stream) name() string { return st.record().Spec.Name }

func (st *stream) record() catalog.Stream {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.rec
}

// current returns the run under way, or nil.
func (st *stream) current() *run {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.run
}

// begin takes the command lock and makes sure that the stream is still there.
func (st *stream) begin() (unlock func(), err error) {
	st.command.Lock()
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.dropped {
		st.command.Unlock()
		return nil, graphmill.NotFound("stream_not_found", "there is no stream %q", st.rec.Spec.Name)
	}
	return st.command.Unlock, nil
}

// store writes a changed record; st.command is held.
func (st *stream) store(ctx context.Context, change func(*catalog.Stream)) error {
	rec := st.record()
	change(&rec)
	rec, err := st.srv.catalog.UpdateStream(ctx, rec)
	if err != nil {
		return err
	}
	st.mu.Lock()
	st.rec = rec
	st.mu.Unlock()
	return nil
}

// start sets the desired state to running and begins a run. It returns when
// the start positions are settled, when the run has failed (with its fault), or
// after the start timeout: the stream is then waiting, and goes on by itself.
func (st *stream) start(ctx context.Context) error {
	unlock, err := st.begin()
	if err != nil {
		return err
	}
	defer unlock()
	if st.current() != nil {
		return graphmill.Conflict("already_running", "stream %q is already running", st.name())
	}
	if err := st.srv.mayStart(ctx, st); err != nil {
		return err
	}
	err = st.store(ctx, func(rec *catalog.Stream) {
		rec.Desired = graphmill.StateRunning
		rec.Failed = nil
	})
	if err != nil {
		return err
	}
	r := st.launch()
	timeout := time.NewTimer(st.srv.cfg.StartTimeout)
	defer timeout.Stop()
	select {
	case <-r.opened:
		return nil
	case <-r.done:
		return startError(r.fault())
	case <-timeout.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the start of stream %q, which goes on: %w", st.name(), ctx.Err())
	}
}

// startError turns the fault that ended a run at once into START's answer.
func startError(f *graphmill.Fault) error {
	if f == nil { // stopped meanwhile
		return nil
	}
	return &graphmill.Error{Kind: graphmill.KindConflict, Code: f.Code, Text: f.Text, Next: f.Next, Err: f.Err}
}

// launch begins a run. st.command is held, or nobody else knows st yet.
func (st *stream) launch() *run {
	st.mu.Lock()
	r := newRun(st, st.rec.Spec)
	st.run = r
	st.mu.Unlock()
	go r.main()
	return r
}

// ended is called once by a run when it is over. A fault is stored, so that a
// restart of the server does not try again what needs a hand.
func (st *stream) ended(r *run, f *graphmill.Fault) {
	st.mu.Lock()
	st.run, st.last = nil, r
	rec := st.rec
	st.mu.Unlock()
	if f == nil {
		return
	}
	rec.Failed = r.reasonOf(f)
	// The command lock may be held by a STOP that waits for this very run: the
	// revision tells whether somebody was faster.
	stored, err := st.srv.catalog.UpdateStream(context.Background(), rec)
	if err != nil {
		st.log.Error("the failure of the stream could not be stored", "error", err)
		stored = rec
	}
	st.mu.Lock()
	st.rec = stored
	st.mu.Unlock()
}

// stop sets the desired state to stopped and ends the run after the batches
// under way, within the drain timeout. It goes on to its end when the caller
// goes away: half a stop would be neither state.
func (st *stream) stop(ctx context.Context) error {
	unlock, err := st.begin()
	if err != nil {
		return err
	}
	defer unlock()
	rec, r := st.record(), st.current()
	if r == nil && rec.Failed == nil {
		return graphmill.Conflict("already_stopped", "stream %q is already stopped", rec.Spec.Name)
	}
	if r != nil {
		// Nothing of the run is stored before it has ended, so that its own
		// record of a failure is not overtaken.
		r.drain()
		r.wait(nil, st.srv.cfg.DrainTimeout)
	}
	return st.store(context.WithoutCancel(ctx), func(rec *catalog.Stream) {
		rec.Desired = graphmill.StateStopped
		rec.Failed = nil
	})
}

// halt ends the run after the batch that is being executed and leaves the
// desired state as it is: the server is shutting down.
func (st *stream) halt(ctx context.Context) {
	st.command.Lock()
	defer st.command.Unlock()
	if r := st.current(); r != nil {
		r.halt()
		r.wait(ctx.Done(), st.srv.cfg.DrainTimeout)
	}
}

// drop ends the run after the batch that is being executed and removes the
// stream.
func (st *stream) drop(ctx context.Context) error {
	unlock, err := st.begin()
	if err != nil {
		return err
	}
	defer unlock()
	if r := st.current(); r != nil {
		r.halt()
		r.wait(nil, st.srv.cfg.DrainTimeout)
	}
	if err := st.srv.catalog.DeleteStream(context.WithoutCancel(ctx), st.name()); err != nil {
		return err
	}
	st.mu.Lock()
	st.dropped = true
	st.mu.Unlock()
	return nil
}

// usesModule says whether the stream's transformation is of the module.
func (st *stream) usesModule(name string) bool {
	rec := st.record()
	ref, err := graphmill.ParseTransformationRef(rec.Spec.Transform)
	return err == nil && ref.Module == name
}

// moduleChanged lets the run take the module's active version at the next
// batch.
func (st *stream) moduleChanged() {
	if r := st.current(); r != nil {
		r.moduleChanged.Store(true)
	}
}

// info is the stream as lists show it.
func (st *stream) info() StreamInfo {
	st.mu.Lock()
	defer st.mu.Unlock()
	state, reason := st.stateLocked()
	return StreamInfo{
		Spec:      st.rec.Spec,
		CreatedAt: st.rec.CreatedAt,
		Desired:   st.rec.Desired,
		State:     state,
		Reason:    reason,
	}
}

// stateLocked returns what the stream is doing. st.mu is held.
func (st *stream) stateLocked() (graphmill.State, *graphmill.Reason) {
	switch {
	case st.run != nil:
		return st.run.state()
	case st.rec.Failed != nil:
		return graphmill.StateFailed, st.rec.Failed
	}
	return graphmill.StateStopped, nil
}

// asFault finds the fault in an error's chain.
func asFault(err error) (*graphmill.Fault, bool) {
	var f *graphmill.Fault
	ok := errors.As(err, &f)
	return f, ok
}

func now() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }
