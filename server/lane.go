package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/batching"
	"github.com/graphmill/graphmill/sources"
	"github.com/graphmill/graphmill/wasmhost"
)

// errAbandoned ends the execution of a batch because somebody waits for the
// lane: its partitions are revoked, or it shall end. Unless a commit was under
// way nothing was applied.
var errAbandoned = errors.New("the batch was given up")

// lane is one ordered pipeline: fetch, batch, transform, execute, acknowledge.
// While batch n is executed, batch n+1 may be collected and transformed, never
// more; nothing of n+1 is executed before n has been acknowledged.
//
// One goroutine owns a lane and changes its state (loop). Everybody else leaves
// word and kicks it; whatever it waits for, a kick brings it back to the top of
// the loop at once. A second goroutine, one at a time, executes a job.
type lane struct {
	r *run

	// Owned by the loop's goroutine.
	source    sources.Source
	batcher   *batching.Batcher
	loaded    *transformation
	instance  *wasmhost.Instance
	queue     []*job  // to be executed next, in order
	executing *job    // being executed; nil: none
	taken     int     // batches with messages that were handed out and not dropped
	collected bool    // the batcher has nothing more
	broken    error   // why not, if that is not what was asked for
	size      int     // messages of a batch for now, since one was too big; 0: as the definition says
	good      int     // full batches of that size that were applied
	compiling *pauses // between attempts to compile the module's version; nil: none has failed

	collecting time.Time // when the lane began to wait for the batch that is being collected; zero: none is

	wake chan struct{} // one kick is kept

	mu          sync.Mutex         // guards what follows
	active      bool               // the loop takes revocations
	kicked      bool               // since the loop last looked
	interrupt   context.CancelFunc // ends what the loop is waiting for
	revocations []*revocation
	next        map[graphmill.TopicPartition]graphmill.Position // where the next batch begins
	stopBatcher func()
}

func newLane(r *run) *lane {
	return &lane{
		r:    r,
		wake: make(chan struct{}, 1),
		next: map[graphmill.TopicPartition]graphmill.Position{},
	}
}

// kick makes the loop look at what has changed.
func (l *lane) kick() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kickLocked()
}

func (l *lane) kickLocked() {
	l.kicked = true
	if l.interrupt != nil {
		l.interrupt()
	}
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// drain closes the batch that is being collected; the loop ends after it. It
// kicks nobody: what is being prepared is to be finished.
func (l *lane) drain() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopBatcher != nil {
		l.stopBatcher()
	}
}

// assigned notes where partitions begin, before anything of them is fetched.
func (l *lane) assigned(positions []graphmill.Position) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range positions {
		l.next[p.TopicPartition] = p
	}
}

// loop runs the lane until the run is asked to end (nil), or cannot go on.
func (l *lane) loop(source sources.Source) error {
	l.source = source
	l.batcher = batching.New(batching.Policy{
		Size:     l.r.spec.BatchSize,
		Bytes:    l.r.spec.BatchBytes,
		Interval: l.r.spec.BatchInterval(),
	}, timedFetcher{source, l.r.observed.metrics})
	l.activate()
	defer l.deactivate()
	for {
		for _, rev := range l.takeRevocations() {
			l.serve(rev)
		}
		if err := l.reap(); err != nil {
			return err
		}
		if l.r.preparing.Err() != nil {
			l.queue = nil
			if l.executing == nil {
				return nil
			}
			l.await()
			continue
		}
		if over, err := l.step(); over || err != nil {
			return err
		}
	}
}

// step does the next thing there is to do. over says that there is nothing more.
func (l *lane) step() (over bool, err error) {
	if i := slices.IndexFunc(l.queue, func(j *job) bool { return !j.transformed }); i >= 0 {
		l.transform(l.queue[i])
		return false, nil
	}
	switch {
	case len(l.queue) == 0 && !l.collected && !l.full():
		l.collect()
		return false, nil
	case l.executing != nil:
		l.await()
		return false, nil
	case len(l.queue) == 0:
		return true, l.broken
	}
	return false, l.execute(l.queue[0])
}

// full says that the lane has as many batches as its run is to apply.
func (l *lane) full() bool { return l.r.limit > 0 && l.taken >= l.r.limit }

// activate lets revocations and drain reach the loop.
func (l *lane) activate() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.active = true
	l.stopBatcher = l.batcher.Stop
	if l.r.askedToEnd() { // before there was a batcher
		l.batcher.Stop()
	}
}

// deactivate ends the loop's business: the job being executed is cancelled and
// waited for, and whoever waits for a revocation goes on.
func (l *lane) deactivate() {
	if l.executing != nil {
		l.executing.cancel(errAbandoned)
		<-l.executing.done
		l.executing = nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.active = false
	l.stopBatcher = nil
	for _, rev := range l.revocations {
		close(rev.done)
	}
	l.revocations = nil
}

// collect waits for the next batch. Where the source cannot go on, the batches
// under way are finished first, as when it has been asked to stop.
func (l *lane) collect() {
	if l.collecting.IsZero() {
		l.collecting = time.Now()
	}
	ctx, done := l.interruptible()
	batch, err := l.batcher.Next(ctx)
	interrupted := ctx.Err() != nil
	done()
	switch {
	case err == nil:
		l.r.observed.metrics.batchClosed(&batch, time.Since(l.collecting))
		l.collecting = time.Time{}
		l.queue = append(l.queue, l.fitting(newJob(batch, l.advance(batch.Positions)))...)
		if len(batch.Messages) > 0 {
			l.taken++
		}
	case errors.Is(err, io.EOF):
		l.collected = true
	case interrupted:
	default:
		l.collected, l.broken = true, fmt.Errorf("fetch: %w", err)
	}
}

// interruptible returns a context for the preparation of batches that the next
// kick ends, or one since the loop last looked.
func (l *lane) interruptible() (context.Context, func()) {
	ctx, cancel := context.WithCancel(l.r.preparing)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.interrupt = cancel
	if l.kicked {
		cancel()
	}
	return ctx, func() {
		l.mu.Lock()
		l.interrupt = nil
		l.mu.Unlock()
		cancel()
	}
}

// advance returns where a batch begins and notes where the next one will.
func (l *lane) advance(positions []graphmill.Position) (first []graphmill.Position) {
	l.mu.Lock()
	defer l.mu.Unlock()
	first = make([]graphmill.Position, 0, len(positions))
	for _, p := range positions {
		if at, ok := l.next[p.TopicPartition]; ok {
			first = append(first, at)
			l.next[p.TopicPartition] = p
		}
	}
	return first
}

// await waits for the end of the job being executed, or a kick.
func (l *lane) await() {
	select {
	case <-l.executing.done:
	case <-l.wake:
	}
}

// reap takes the result of a job that has ended.
func (l *lane) reap() error {
	j := l.executing
	if j == nil || !isClosed(j.done) {
		return nil
	}
	l.executing = nil
	var big *tooBig
	switch {
	case j.err == nil:
		l.grow(j.size)
		l.partApplied(j)
	case errors.As(j.err, &big):
		l.halve(j, big.fault, l.queue)
		return nil
	}
	return j.err
}

// execute starts the execution of the first job of the queue. None is under
// way.
func (l *lane) execute(j *job) error {
	if l.r.moduleChanged.Load() && !j.committed {
		return l.follow() // a new version transforms the job anew
	}
	if j.refused != nil {
		return l.refused(j)
	}
	l.queue = l.queue[1:]
	l.executing = j
	j.begin(l.r.ctx)
	go func() {
		err := l.r.apply(l.source, j)
		if err == nil && j.last {
			l.batcher.Completed()
		}
		j.end(err)
		if err != nil || j.orphaned.Load() {
			l.kick() // the loop may be waiting for messages
		}
	}()
	return nil
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
