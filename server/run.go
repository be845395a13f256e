package server

import (
	"context"
	"errors"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/sources"
)

const (
	// closeTimeout is how long leaving the group may take: a round trip or two.
	// An unreachable broker must not hold up STOP; it notices when the session
	// times out.
	closeTimeout = 5 * time.Second

	// saveInterval is how often acknowledged positions are stored in the
	// catalog.
	saveInterval = 5 * time.Second
)

// run is one life of a stream, from START to its end. Its goroutine opens the
// source and then is the lane's (see lane).
//
// A run with a limit ends by itself, after so many batches. Else it ends in one
// of three ways. drain: the batches under way are finished, no others are taken.
// halt: only the batch being executed is finished. cancel: nothing is; what was
// under way stays unacknowledged and is read again.
type run struct {
	st   *stream
	spec graphmill.StreamSpec
	ref  graphmill.TransformationRef
	kind graphmill.SourceKind

	limit   int          // batches with messages that it is to apply; 0: no limit
	applied atomic.Int64 // those that are applied and acknowledged

	unacknowledged atomic.Bool // it has ended with a batch that is committed and could not be acknowledged

	accepted StartRequest // what it was started with

	// Each of these is within the one before.
	ctx          context.Context // of everything
	cancel       context.CancelFunc
	preparing    context.Context // of what is done for batches that are not being executed yet: until halt
	endPreparing context.CancelFunc
	working      context.Context // of what is not sat out while ending: until drain or halt
	endWorking   context.CancelFunc

	opened chan struct{} // closed when the start positions are settled
	done   chan struct{} // closed when the run is over and its end is stored

	moduleChanged atomic.Bool // the module may have another active version

	lane     *lane
	observed *observed
	held     holdings
	ends     ends

	saving sync.Mutex // one writes positions to the catalog at a time

	mu     sync.Mutex // guards what follows
	source sources.Source
	fault  *graphmill.Fault // by which it has ended
	saved  time.Time        // when positions were stored in the catalog
}

func newRun(st *stream, spec graphmill.StreamSpec, req StartRequest) *run {
	r := &run{
		st:       st,
		spec:     spec,
		kind:     kindOf(spec),
		limit:    req.BatchLimit,
		accepted: req,
		opened:   make(chan struct{}),
		done:     make(chan struct{}),
		observed: newObserved(st),
		ends:     ends{valid: endsValid * st.srv.cfg.LagInterval},
		held:     newHoldings(),
		saved:    time.Now(),
	}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	r.preparing, r.endPreparing = context.WithCancel(r.ctx)
	r.working, r.endWorking = context.WithCancel(r.preparing)
	r.lane = newLane(r)
	return r
}

// unsettled is what START accepted, for the run that goes on for one which has not
// come to the positions that this is about.
func (r *run) unsettled() StartRequest {
	if r.observed.isOpened() {
		return StartRequest{}
	}
	return StartRequest{AcceptRecreated: r.accepted.AcceptRecreated, AcceptLost: r.accepted.AcceptLost}
}

// main is the run's goroutine.
func (r *run) main() {
	defer close(r.done)
	defer r.cancel()
	err := r.live()
	r.savePositions()
	r.st.ended(r, r.conclude(err))
}

// live does everything from loading the module to leaving the group.
func (r *run) live() (err error) {
	defer r.catch(&err)
	if r.ref, err = graphmill.ParseTransformationRef(r.spec.Transform); err != nil {
		return err
	}
	defer r.lane.unload()
	if err := r.lane.load(r.working); err != nil {
		return err
	}
	source, err := r.openSource()
	if err != nil {
		return err
	}
	defer r.closeSource(source)
	if err := r.awaitSink(); err != nil {
		return err
	}
	r.observed.setOpened()
	close(r.opened)
	r.st.srv.kickEnds()
	return r.lane.loop(source)
}

// catch turns a panic into the end of this stream. A message that brings out a
// defect would otherwise end the server, and again after each restart, for all
// streams. To be deferred.
func (r *run) catch(err *error) {
	if p := recover(); p != nil {
		r.st.log.Error("a defect in graphmill ended the stream; please report it", "panic", p, "stack", string(debug.Stack()))
		*err = internalFault("a defect in graphmill ended the stream; the server's log tells where", nil)
	}
}

// openSource joins the group and settles the start positions.
func (r *run) openSource() (sources.Source, error) {
	known, err := r.st.srv.catalog.Positions(r.ctx, r.spec.Name)
	if err != nil {
		return nil, err
	}
	source, err := r.st.srv.broker(r.spec).source(known, r.accepted, r)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	r.source = source
	r.mu.Unlock()
	if err := source.Open(r.working); err != nil {
		r.closeSource(source)
		return nil, err
	}
	return source, nil
}

func (r *run) closeSource(source sources.Source) {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := source.Close(ctx); err != nil {
		r.st.news.warn("the source was not closed cleanly; the broker notices when the session times out", "error", err)
	}
}

// awaitSink returns once the database can be used. Outages are waited out.
func (r *run) awaitSink() error {
	err := r.gate().await(r.working, func(f *graphmill.Fault) { r.observed.waiting(sinkSide, f) })
	if err != nil {
		return err
	}
	r.observed.recovered(sinkSide)
	return nil
}

func (r *run) gate() *gate { return r.st.srv.gates.of(r.spec.Database) }

// conclude tells a fault from an end that was asked for.
func (r *run) conclude(err error) *graphmill.Fault {
	if err == nil {
		return nil
	}
	if r.askedToEnd() {
		// What went wrong while ending leaves its batch unacknowledged; START
		// meets it again and tells.
		cancelled := errors.Is(err, context.Canceled) || errors.Is(err, errAbandoned)
		unacknowledged := errors.Is(err, errUnacknowledged)
		r.unacknowledged.Store(unacknowledged)
		if !cancelled || unacknowledged {
			r.st.news.warn("the stream stopped before its last batch was done; it will be read again", "error", err)
		}
		return nil
	}
	f, ok := asFault(err)
	if !ok {
		f = setupFault(err)
	}
	r.observed.failedAtLast(f)
	r.mu.Lock()
	r.fault = f
	r.mu.Unlock()
	return f
}

// endedBy returns the fault that ended the run; nil where it was asked to end.
func (r *run) endedBy() *graphmill.Fault {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.fault
}

// drain asks the run to finish the batches under way and to end.
func (r *run) drain() {
	r.ask(r.endWorking)
	r.lane.drain()
}

// halt asks the run to finish only the batch that is being executed.
func (r *run) halt() {
	r.ask(r.endPreparing)
	r.lane.kick()
}

// ask asks for the end, and tells that it was asked for before anything that comes
// of it.
func (r *run) ask(end func()) {
	r.st.telling.Lock()
	defer r.st.telling.Unlock()
	end()
	r.st.tellLocked()
}

func (r *run) askedToEnd() bool { return r.working.Err() != nil }

// wait returns when the run is over. What is not done by the limit, or when
// hurry is closed, is cancelled: it stays unacknowledged.
func (r *run) wait(hurry <-chan struct{}, limit time.Duration) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-r.done:
		return
	case <-hurry:
	case <-timer.C:
		r.st.news.warn("the drain timeout is over; the batch under way is cancelled and will be read again", "timeout", limit)
	}
	r.cancel()
	<-r.done
}

// state returns what the run is doing.
func (r *run) state() (graphmill.State, *graphmill.Reason) {
	if r.askedToEnd() {
		return graphmill.StateDraining, nil
	}
	return r.observed.state()
}

// Waiting implements sources.Observer.
func (r *run) Waiting(f *graphmill.Fault) { r.observed.waiting(sourceSide, f) }

// Recovered implements sources.Observer.
func (r *run) Recovered() { r.observed.recovered(sourceSide) }

// Absent implements sources.Observer. The catalog remembers it beyond this run.
func (r *run) Absent(positions []graphmill.Position) {
	r.saving.Lock()
	defer r.saving.Unlock()
	if err := r.st.srv.catalog.MergePositions(context.Background(), r.spec.Name, positions); err != nil {
		r.st.news.warn("the catalog could not store that a topic is absent; if it is created while the stream is stopped, reading begins at START_FROM", "error", err)
	}
}

// Assigned implements sources.Observer.
func (r *run) Assigned(positions []graphmill.Position) {
	r.held.assigned(positions)
	r.lane.assigned(positions)
	// All that is read from now on is later than these: should the group lose its
	// commits, a partition that is not among them is a new one.
	r.savePositions()
	r.st.log.Info("partitions assigned", "partitions", positionsText(positions))
}

// Revoked implements sources.Observer.
func (r *run) Revoked(ctx context.Context, partitions []graphmill.TopicPartition, lost bool) {
	r.st.log.Info("partitions revoked", "partitions", partitionsText(partitions), "lost", lost)
	r.lane.revoked(ctx, partitions, lost)
	r.held.revoked(partitions)
}

// acknowledged notes positions that the broker has confirmed, and stores them
// every few seconds: they are a fallback for when the group's own have expired. Of
// one inside an entry Pulsar keeps nothing, so that the catalog has to before the next
// batch is committed.
func (r *run) acknowledged(positions []graphmill.Position) {
	r.held.acknowledged(positions)
	r.mu.Lock()
	due := time.Since(r.saved) > saveInterval
	r.mu.Unlock()
	if due || slices.ContainsFunc(positions, isInsideEntry) {
		r.savePositions()
	}
}

// isInsideEntry tells whether messages of the position's entry are done, and others
// are not.
func isInsideEntry(at graphmill.Position) bool { return at.MessageID.Index > 0 }

func (r *run) savePositions() {
	r.saving.Lock() // no older ones after newer ones
	defer r.saving.Unlock()
	r.mu.Lock()
	r.saved = time.Now()
	r.mu.Unlock()
	positions := r.held.known()
	if len(positions) == 0 {
		return
	}
	if err := r.st.srv.catalog.MergePositions(context.Background(), r.spec.Name, positions); err != nil {
		r.st.news.warn("the positions could not be stored in the catalog; the broker has them", "error", err)
	}
}
