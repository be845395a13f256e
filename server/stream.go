package server

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/server/catalog"
)

// stream is a stored stream in this process: its definition, and the run that
// is under way, if any.
//
// What is asked for is stored before it is done, so that a restart goes on with
// it: a STOP that was cut short is not undone.
type stream struct {
	srv     *Server
	log     *slog.Logger
	news    *news
	metrics *streamMetrics

	// command is held by one START, STOP, DROP, PATCH or setting of positions at a
	// time, and not while a START waits for its positions.
	command chan struct{}

	// storing is held while the record is changed, in the catalog and here: by a
	// command, or by a run that has failed.
	storing sync.Mutex

	rest atRest

	// telling makes the states that are told those which the stream was in, in this
	// order: each change is told before the next is made. It is taken before mu.
	telling sync.Mutex

	// mu guards what follows, for moments only.
	mu      sync.Mutex
	rec     catalog.Stream
	locked  *graphmill.Reason // why it cannot run, where secrets of rec are locked
	run     *run              // under way, until its end is stored; nil: none
	between bool              // a run has ended, and another is to go on for it with a changed definition
	checked bool              // a check that wants the stream alone is under way; it holds command
	last    *observed         // of the run that ended last
	dropped bool
}

func newStream(srv *Server, rec catalog.Stream) *stream {
	name := rec.Spec.Name
	log := srv.log.With("stream", name)
	st := &stream{
		srv: srv, log: log, news: newNews(name, srv.events, log), metrics: srv.metrics.of(name),
		command: make(chan struct{}, 1),
	}
	st.setRecord(rec)
	if rec.Locked == nil {
		st.news.state, st.news.reason = st.stateLocked() // as it has been
	}
	return st
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

// active says whether a run is under way, or will be in a moment.
func (st *stream) active() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.run != nil || st.between
}

// begin takes the command lock and makes sure that the stream is still there.
// A command whose caller has gone is not begun.
func (st *stream) begin(ctx context.Context) (unlock func(), err error) {
	select {
	case st.command <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for another command on stream %q: %w", st.name(), ctx.Err())
	}
	return st.begun(ctx)
}

// beginAtOnce is begin for a command that does not wait for another.
func (st *stream) beginAtOnce(ctx context.Context) (unlock func(), err error) {
	select {
	case st.command <- struct{}{}:
		return st.begun(ctx)
	default:
		return nil, st.occupied()
	}
}

// begun goes on with a command that has the lock, and gives it back where there is
// nothing to do any more.
func (st *stream) begun(ctx context.Context) (unlock func(), err error) {
	unlock = func() { <-st.command }
	st.mu.Lock()
	dropped := st.dropped
	st.mu.Unlock()
	switch {
	case dropped:
		err = streamNotFound(st.name())
	case ctx.Err() != nil:
		err = ctx.Err()
	default:
		return unlock, nil
	}
	unlock()
	return nil, err
}

// occupied is why a command that does not wait is refused.
func (st *stream) occupied() error {
	st.mu.Lock()
	defer st.mu.Unlock()
	name := st.rec.Spec.Name
	if st.checked || st.run != nil {
		e := alreadyRunning(name)
		if st.checked {
			e.Text += ": it is being checked"
		}
		return e
	}
	return graphmill.Conflict("stream_busy", "another command on stream %q is under way", name)
}

func alreadyRunning(name string) *graphmill.Error {
	return graphmill.Conflict(codeAlreadyRunning, "stream %q is already running", name)
}

func streamNotFound(name string) *graphmill.Error {
	return graphmill.NotFound("stream_not_found", "there is no stream %q", name)
}

// update changes the record, in the catalog first.
func (st *stream) update(change func(*catalog.Stream)) error {
	st.storing.Lock()
	defer st.storing.Unlock()
	rec := st.record()
	change(&rec)
	// A command that has got as far as this is not given up half-way.
	rec, err := st.srv.catalog.UpdateStream(context.Background(), rec)
	if err != nil {
		return err
	}
	st.setRecord(rec)
	return nil
}

func (st *stream) setRecord(rec catalog.Stream) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.rec = rec
	was := st.locked
	st.locked = nil
	if rec.Locked != nil {
		st.locked = lockedReason(rec.Spec.Name, rec.Locked)
		if was != nil {
			st.locked.Since = was.Since
		}
	}
}

// tell tells the state that the stream is in, where that is another one than was
// told last. Neither mu nor a lock of the run is held.
func (st *stream) tell() {
	st.telling.Lock()
	defer st.telling.Unlock()
	st.tellLocked()
}

// tellLocked is tell with telling held.
func (st *stream) tellLocked() {
	st.mu.Lock()
	state, reason := st.stateLocked()
	st.mu.Unlock()
	st.news.changed(state, reason)
}

// stop sets the desired state to stopped and ends the run after the batches
// under way, within the drain timeout. Once begun it goes on to its end when the
// caller goes away: half a stop would be neither state. hadFailed says that there was
// no run to end.
func (st *stream) stop(ctx context.Context) (hadFailed bool, err error) {
	unlock, err := st.begin(ctx)
	if err != nil {
		return false, err
	}
	defer unlock()
	rec, r := st.record(), st.current()
	if r == nil && rec.Desired == graphmill.StateStopped {
		return false, graphmill.Conflict(codeAlreadyStopped, "stream %q is already stopped", rec.Spec.Name)
	}
	notStored := st.update(func(rec *catalog.Stream) {
		rec.Desired = graphmill.StateStopped
		rec.Failed = nil
	})
	if r != nil {
		r.drain()
		r.wait(nil, st.srv.cfg.DrainTimeout)
	} else {
		st.tell() // it had failed
	}
	if notStored != nil {
		st.log.Error("the stop of the stream could not be stored", "error", notStored)
		return r == nil, &graphmill.Error{Kind: graphmill.KindUnavailable, Code: "not_stored",
			Text: fmt.Sprintf("stream %q is stopped, but that could not be stored, and a restart of the server would start it again", rec.Spec.Name),
			Next: "see whether the disk of the data directory is full (the server's log tells), and stop it once more"}
	}
	return r == nil, nil
}

// halt ends the run after the batch that is being executed and leaves the
// desired state as it is: the server is shutting down, so no START comes any
// more. It returns when commands that were under way are done, too.
func (st *stream) halt(ctx context.Context) {
	st.haltRun(ctx.Done()) // a STOP or a DROP may be waiting for it
	st.command <- struct{}{}
	defer func() { <-st.command }()
	st.haltRun(ctx.Done()) // of a START that was under way
}

func (st *stream) haltRun(hurry <-chan struct{}) {
	if r := st.current(); r != nil {
		r.halt()
		r.wait(hurry, st.srv.cfg.DrainTimeout)
	}
}

// drop ends the run after the batch that is being executed and removes the
// stream. Where that cannot be stored, or the subscription cannot be ended that
// shall be, the stream goes on.
func (st *stream) drop(ctx context.Context, r DeleteRequest) error {
	unlock, err := st.begin(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if r.Unsubscribe {
		if err := st.srv.canUnsubscribe(st); err != nil {
			return err
		}
	}
	old := st.current()
	st.setBetween(old != nil)
	defer st.setBetween(false)
	st.haltRun(nil)
	if r.Unsubscribe {
		err = st.unsubscribe(ctx)
	}
	if err == nil {
		err = st.srv.forget(st)
	}
	if err != nil {
		st.goOn(ctx, old)
		return err
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	st.dropped = true
	return nil
}

// usesModule says whether the stream's transformation is of the module.
func (st *stream) usesModule(name string) bool {
	_, ok := st.moduleUse(name)
	return ok
}

// moduleUse tells how the stream uses a module, if it does.
func (st *stream) moduleUse(name string) (ModuleUse, bool) {
	info := st.info()
	ref, err := graphmill.ParseTransformationRef(info.Spec.Transform)
	if err != nil || ref.Module != name {
		return ModuleUse{}, false
	}
	use := ModuleUse{Stream: info.Spec.Name, Function: ref.Function, State: info.State}
	if r := st.current(); r != nil {
		use.Version = r.observed.moduleVersion()
	}
	return use, true
}

// moduleChanged lets the run take the module's active version behind the batch
// that is being executed.
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
		Spec:      shown(st.rec),
		CreatedAt: st.rec.CreatedAt,
		Desired:   st.rec.Desired,
		State:     state,
		Reason:    reason,
		Owner:     st.rec.Owner,
		Busy:      st.checked,
		Brokers:   st.srv.reads(st.rec.Spec).addresses,
	}
}

// stateLocked returns what the stream is doing. st.mu is held.
func (st *stream) stateLocked() (graphmill.State, *graphmill.Reason) {
	switch {
	case st.run != nil:
		return st.run.state()
	case st.between:
		return graphmill.StateDraining, nil
	case st.locked != nil:
		if st.rec.Desired == graphmill.StateRunning {
			return graphmill.StateFailed, st.locked
		}
		return graphmill.StateStopped, st.locked
	case st.rec.Failed != nil:
		return graphmill.StateFailed, st.rec.Failed
	}
	return graphmill.StateStopped, nil
}
