package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/sources"
	"github.com/graphmill/graphmill/sources/kafka"
)

// run is one life of a stream, from START to its end. Its goroutine opens the
// source and then is the lane's (see lane).
type run struct {
	st   *stream
	spec graphmill.StreamSpec
	ref  graphmill.TransformationRef

	ctx    context.Context // of everything that the run does
	cancel context.CancelFunc

	opened   chan struct{} // closed when the start positions are settled
	done     chan struct{} // closed when the run is over and its end is stored
	draining chan struct{} // closed: finish the batches under way, take no others
	halting  chan struct{} // closed: finish the batch being executed only
	endOnce  [2]sync.Once  // of draining and halting

	moduleChanged atomic.Bool // the module has another active version

	lane *lane

	mu          sync.Mutex // guards what follows
	source      sources.Source
	isOpened    bool
	waits       [2]*graphmill.Reason // by waiter
	lastLogged  string
	end         *graphmill.Fault
	module      *graphmill.ModuleVersion
	batch       *graphmill.BatchStatus
	lastFailure *graphmill.FailureStatus
	owned       map[graphmill.TopicPartition]bool
	acked       map[graphmill.TopicPartition]graphmill.Position // acknowledged
	saved       time.Time                                       // when they were stored in the catalog
	counters    graphmill.Counters
}

// waiter says which side of a stream waits.
type waiter int

const (
	sourceSide waiter = iota
	sinkSide
)

func newRun(st *stream, spec graphmill.StreamSpec) *run {
	ctx, cancel := context.WithCancel(context.Background())
	r := &run{
		st:       st,
		spec:     spec,
		ctx:      ctx,
		cancel:   cancel,
		opened:   make(chan struct{}),
		done:     make(chan struct{}),
		draining: make(chan struct{}),
		halting:  make(chan struct{}),
		owned:    map[graphmill.TopicPartition]bool{},
		acked:    map[graphmill.TopicPartition]graphmill.Position{},
		saved:    time.Now(),
		counters: graphmill.Counters{BatchesClosed: map[string]int64{}},
	}
	r.lane = newLane(r)
	return r
}

// main is the run's goroutine.
func (r *run) main() {
	defer close(r.done)
	defer r.cancel()
	err := r.live()
	r.savePositions()
	fault := r.conclude(err)
	r.st.ended(r, fault)
	r.logState()
}

// live does everything from opening the source to closing it.
func (r *run) live() (err error) {
	if r.ref, err = graphmill.ParseTransformationRef(r.spec.Transform); err != nil {
		return err
	}
	if err := r.lane.loadTransformation(r.ctx); err != nil {
		return err
	}
	defer r.lane.unload()
	source, err := r.openSource()
	if err != nil {
		return err
	}
	defer func() {
		// Leaving the group takes a round trip or two; an unreachable broker
		// must not hold up STOP.
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if cerr := source.Close(ctx); cerr != nil {
			r.st.log.Warn("the source was not closed cleanly; the broker notices when the session times out", "error", cerr)
		}
	}()
	if err := r.awaitSink(); err != nil {
		return err
	}
	r.mu.Lock()
	r.isOpened = true
	r.mu.Unlock()
	close(r.opened)
	r.logState()
	return r.lane.loop(r.ctx, source)
}

// openSource joins the group and settles the start positions.
func (r *run) openSource() (sources.Source, error) {
	known, err := r.st.srv.catalog.Positions(r.ctx, r.spec.Name)
	if err != nil {
		return nil, err
	}
	cfg, err := r.st.srv.kafkaConfig(r.spec)
	if err != nil {
		return nil, err
	}
	cfg.Known = known
	source, err := kafka.New(cfg, r)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	r.source = source
	r.mu.Unlock()
	ctx, cancel := r.untilAskedToEnd()
	defer cancel()
	if err := source.Open(ctx); err != nil {
		closeCtx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		return nil, errors.Join(err, source.Close(closeCtx))
	}
	return source, nil
}

// untilAskedToEnd is the context of steps before the first batch: any stop ends
// them.
func (r *run) untilAskedToEnd() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(r.ctx)
	go func() {
		defer cancel()
		select {
		case <-r.draining:
		case <-r.halting:
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// awaitSink returns once the database can be used. Outages are waited out.
func (r *run) awaitSink() error {
	ctx, cancel := r.untilAskedToEnd()
	defer cancel()
	pause := outagePauses()
	for {
		err := r.st.srv.cfg.Sink.Verify(ctx, r.spec.Database)
		if err == nil {
			r.recovered(sinkSide)
			return nil
		}
		f, ok := asFault(err)
		if !ok || f.Class != graphmill.FaultTransient {
			return err
		}
		r.waiting(sinkSide, f)
		if err := sleep(ctx, pause.next()); err != nil {
			return err
		}
	}
}

// conclude tells a fault from an end that was asked for.
func (r *run) conclude(err error) *graphmill.Fault {
	if err == nil || r.askedToEnd() {
		// What went wrong while ending leaves its batch unacknowledged; START
		// meets it again and tells.
		if err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, errAbandoned) {
			r.st.log.Warn("the stream stopped before its last batch was done; it will be read again", "error", err)
		}
		return nil
	}
	f, ok := asFault(err)
	if !ok {
		f = setupFault(err)
	}
	r.mu.Lock()
	r.end = f
	if r.lastFailure == nil {
		r.lastFailure = &graphmill.FailureStatus{At: now(), Code: f.Code, Text: describe(f)}
	}
	r.mu.Unlock()
	return f
}

// setupFault is the fault of an error that is none: a module that cannot be
// loaded, a catalog that cannot be read.
func setupFault(err error) *graphmill.Fault {
	var e *graphmill.Error
	if errors.As(err, &e) {
		return &graphmill.Fault{Class: graphmill.FaultSetup, Code: e.Code, Text: e.Text, Next: e.Next, Message: graphmill.WholeBatch, Err: e.Err}
	}
	return &graphmill.Fault{Class: graphmill.FaultSetup, Code: "internal", Text: "the stream cannot run", Message: graphmill.WholeBatch, Err: err}
}

// fault returns what ended the run; nil where it was asked to end.
func (r *run) fault() *graphmill.Fault {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.end
}

// reasonOf makes a fault the reason of the state failed.
func (r *run) reasonOf(f *graphmill.Fault) *graphmill.Reason {
	code := f.Code
	if f.Class == graphmill.FaultMessage {
		code = "message"
	}
	reason := &graphmill.Reason{Code: code, Text: describe(f), Since: now(), NextStep: f.Next}
	again := "graphmill stream start " + r.spec.Name
	switch {
	case reason.NextStep == "":
		reason.NextStep = "mend the cause, then: " + again
	case !strings.Contains(reason.NextStep, again):
		reason.NextStep += "; then: " + again
	}
	return reason
}

// describe is a fault's text with its cause.
func describe(f *graphmill.Fault) string {
	if f.Err == nil {
		return f.Text
	}
	return fmt.Sprintf("%s: %v", f.Text, f.Err)
}

// drain asks the run to finish the batches under way and to end.
func (r *run) drain() {
	r.endOnce[0].Do(func() { close(r.draining) })
	r.lane.drain()
	r.logState()
}

// halt asks the run to finish only the batch that is being executed.
func (r *run) halt() {
	r.endOnce[1].Do(func() { close(r.halting) })
	r.lane.kick()
	r.logState()
}

func (r *run) askedToEnd() bool { return isClosed(r.draining) || isClosed(r.halting) }

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

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
		r.st.log.Warn("the drain timeout is over; the batch under way is cancelled and will be read again", "timeout", limit)
	}
	r.cancel()
	<-r.done
}

// state returns what the run is doing.
func (r *run) state() (graphmill.State, *graphmill.Reason) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stateLocked()
}

func (r *run) stateLocked() (graphmill.State, *graphmill.Reason) {
	switch {
	case r.askedToEnd():
		return graphmill.StateDraining, nil
	case r.waits[sourceSide] != nil:
		return graphmill.StateWaiting, r.waits[sourceSide]
	case r.waits[sinkSide] != nil:
		return graphmill.StateWaiting, r.waits[sinkSide]
	case !r.isOpened:
		return graphmill.StateStarting, nil
	}
	return graphmill.StateRunning, nil
}

// logState writes one line for each change of state, and of its reason.
func (r *run) logState() {
	r.st.mu.Lock()
	state, reason := r.st.stateLocked()
	r.st.mu.Unlock()
	line := string(state)
	var attrs []any
	if reason != nil {
		line += " " + reason.Code
		attrs = []any{"reason", reason.Code, "text", reason.Text, "next_step", reason.NextStep}
	}
	r.mu.Lock()
	known := r.lastLogged == line
	r.lastLogged = line
	r.mu.Unlock()
	if known {
		return
	}
	attrs = append([]any{"state", string(state)}, attrs...)
	if state == graphmill.StateFailed {
		r.st.log.Error("stream", attrs...)
		return
	}
	r.st.log.Info("stream", attrs...)
}

// waiting notes that one side of the stream is away.
func (r *run) waiting(side waiter, f *graphmill.Fault) {
	r.mu.Lock()
	since := now()
	if old := r.waits[side]; old != nil && old.Code == f.Code {
		since = old.Since
	}
	r.waits[side] = &graphmill.Reason{
		Code: f.Code, Text: describe(f), Since: since,
		NextStep: cmp.Or(f.Next, "it goes on by itself"),
	}
	r.mu.Unlock()
	r.logState()
}

func (r *run) recovered(side waiter) {
	r.mu.Lock()
	was := r.waits[side]
	r.waits[side] = nil
	r.mu.Unlock()
	if was != nil {
		r.logState()
	}
}

// Waiting implements sources.Observer.
func (r *run) Waiting(f *graphmill.Fault) { r.waiting(sourceSide, f) }

// Recovered implements sources.Observer.
func (r *run) Recovered() { r.recovered(sourceSide) }

// Assigned implements sources.Observer.
func (r *run) Assigned(positions []graphmill.Position) {
	r.mu.Lock()
	for _, p := range positions {
		r.owned[p.TopicPartition] = true
		r.acked[p.TopicPartition] = p
	}
	r.mu.Unlock()
	r.lane.assigned(positions)
	r.st.log.Info("partitions assigned", "partitions", positionsText(positions))
}

// Revoked implements sources.Observer.
func (r *run) Revoked(ctx context.Context, partitions []graphmill.TopicPartition, lost bool) {
	r.st.log.Info("partitions revoked", "partitions", fmt.Sprint(partitions), "lost", lost)
	r.lane.revoked(ctx, partitions, lost)
	r.mu.Lock()
	for _, tp := range partitions {
		delete(r.owned, tp)
	}
	r.mu.Unlock()
}

// acknowledged notes positions that the broker has confirmed, and stores them
// every few seconds: they are a fallback for when the group's own have expired.
func (r *run) acknowledged(positions []graphmill.Position) {
	r.mu.Lock()
	for _, p := range positions {
		r.acked[p.TopicPartition] = p
	}
	due := time.Since(r.saved) > 5*time.Second
	r.mu.Unlock()
	if due {
		r.savePositions()
	}
}

func (r *run) savePositions() {
	r.mu.Lock()
	r.saved = time.Now()
	positions := make([]graphmill.Position, 0, len(r.acked))
	for _, p := range r.acked {
		positions = append(positions, p)
	}
	r.mu.Unlock()
	if len(positions) == 0 {
		return
	}
	if err := r.st.srv.catalog.MergePositions(context.Background(), r.spec.Name, positions); err != nil {
		r.st.log.Warn("the positions could not be stored in the catalog; the broker has them", "error", err)
	}
}

// positionsText lists positions as topic/partition@offset.
func positionsText(positions []graphmill.Position) string {
	const most = 20
	parts := make([]string, 0, min(len(positions), most)+1)
	for _, p := range positions[:min(len(positions), most)] {
		parts = append(parts, fmt.Sprintf("%s@%d", p.TopicPartition, p.Offset))
	}
	if len(positions) > most {
		parts = append(parts, fmt.Sprintf("and %d more", len(positions)-most))
	}
	return strings.Join(parts, " ")
}

// ownedPartitions returns the partitions held here, sorted.
func (r *run) ownedPartitions() []graphmill.TopicPartition {
	r.mu.Lock()
	defer r.mu.Unlock()
	tps := make([]graphmill.TopicPartition, 0, len(r.owned))
	for tp := range r.owned {
		tps = append(tps, tp)
	}
	slices.SortFunc(tps, func(a, b graphmill.TopicPartition) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return tps
}
