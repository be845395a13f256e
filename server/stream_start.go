package server

import (
	"context"
	"fmt"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/server/catalog"
)

// start sets the desired state to running and begins a run. It returns when
// the start positions are settled, when the run has failed (with its fault), or
// after the start timeout: the stream is then waiting, and goes on by itself.
func (st *stream) start(ctx context.Context, req StartRequest) error {
	r, err := st.startRun(ctx, req)
	if err != nil {
		return err
	}
	return st.awaitOpened(ctx, r)
}

// awaitOpened is start's wait. Where a PATCH puts another run in the place of r,
// it waits for that one.
func (st *stream) awaitOpened(ctx context.Context, r *run) error {
	patient, cancel := context.WithTimeout(ctx, st.srv.cfg.StartTimeout)
	defer cancel()
	for {
		select {
		case <-r.opened:
			return nil
		case <-r.done:
			if r.observed.isOpened() { // what has ended it came after what START is about
				return nil
			}
			switch next := st.successor(patient, r); {
			case next != nil:
				r = next
			case patient.Err() == nil:
				return st.whyNotStarted(ctx, r)
			}
		case <-patient.Done():
			if ctx.Err() == nil {
				return nil
			}
			return fmt.Errorf("wait for the start of stream %q, which goes on: %w", st.name(), ctx.Err())
		}
	}
}

// successor returns the run that goes on for one that was asked to end; nil: none.
func (st *stream) successor(ctx context.Context, r *run) *run {
	if r.endedBy() != nil {
		return nil
	}
	unlock, err := st.begin(ctx) // once the command that ended it is done
	if err != nil {
		return nil
	}
	defer unlock()
	if next := st.current(); next != nil && next.limit == 0 {
		return next
	}
	return nil
}

// startRun begins a run, unless one is under way. With a limit of batches it is
// not what is desired of the stream.
func (st *stream) startRun(ctx context.Context, req StartRequest) (*run, error) {
	begin := st.begin
	if req.AtOnce {
		begin = st.beginAtOnce
	}
	unlock, err := begin(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if st.current() != nil {
		return nil, alreadyRunning(st.name())
	}
	spec, err := st.definition(ctx)
	if err != nil {
		return nil, err
	}
	return st.srv.startAlone(ctx, st, spec, func() (*run, error) {
		err := st.update(func(rec *catalog.Stream) {
			rec.Desired = graphmill.StateRunning
			if req.BatchLimit > 0 {
				rec.Desired = graphmill.StateStopped
			}
			rec.Failed = nil
		})
		if err != nil {
			return nil, err
		}
		return st.launch(req), nil
	})
}

// whyNotStarted is START's answer where the run ended before its positions were
// settled.
func (st *stream) whyNotStarted(ctx context.Context, r *run) error {
	if f := r.endedBy(); f != nil {
		e := Refusal(f)
		e.Next = reasonOf(r.spec.Name, f).NextStep
		return e
	}
	if err := st.srv.Ready(ctx); err != nil {
		return err
	}
	return graphmill.Conflict("stopped_meanwhile", "stream %q was stopped or dropped while it was starting", r.spec.Name)
}

// launch begins a run. The command lock is held, or nobody else knows st yet.
func (st *stream) launch(req StartRequest) *run {
	r := newRun(st, st.record().Spec, req)
	st.srv.lanes(+1)
	st.telling.Lock()
	st.mu.Lock()
	st.run = r
	st.mu.Unlock()
	st.tellLocked()
	st.telling.Unlock()
	go r.main()
	return r
}

// goOn begins another run for one that was ended for a command that was refused.
// The command lock is held.
func (st *stream) goOn(ctx context.Context, old *run) {
	if old != nil && old.limit == 0 && old.endedBy() == nil && st.srv.Ready(ctx) == nil {
		st.launch(old.unsettled())
	}
}

// ended is called once by a run when it is over. A fault is stored, so that a
// restart of the server does not try again what needs a hand; until then the
// run counts as under way, so that no command finds the stream in between.
func (st *stream) ended(r *run, f *graphmill.Fault) {
	if f != nil {
		st.storeFailure(reasonOf(r.spec.Name, f))
	}
	st.srv.lanes(-1)
	st.telling.Lock()
	defer st.telling.Unlock()
	st.mu.Lock()
	st.run, st.last = nil, r.observed
	st.mu.Unlock()
	st.tellLocked()
}

func (st *stream) storeFailure(reason *graphmill.Reason) {
	setFailed := func(rec *catalog.Stream) {
		if rec.Desired == graphmill.StateRunning { // not where a STOP was faster
			rec.Failed = reason
		}
	}
	if err := st.update(setFailed); err != nil {
		st.log.Error("the failure of the stream could not be stored; a restart of the server would start it again", "error", err)
		rec := st.record()
		setFailed(&rec)
		st.setRecord(rec)
	}
}
