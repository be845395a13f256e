package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/batching"
	"github.com/graphmill/graphmill/sources"
	"github.com/graphmill/graphmill/wasmhost"
)

// errAbandoned ends the execution of a batch that was not applied because
// somebody waits for the lane: its partitions are revoked, or it shall end.
var errAbandoned = errors.New("the batch was given up")

// lane is one ordered pipeline: fetch, batch, transform, execute, acknowledge.
// While batch n is executed, batch n+1 may be collected and transformed, never
// more; nothing of n+1 is executed before n has been acknowledged.
//
// One goroutine owns a lane and changes its state (loop). Everybody else leaves
// word and kicks it. A second goroutine, one at a time, executes a job.
type lane struct {
	r *run

	// Owned by the loop's goroutine.
	source    sources.Source
	batcher   *batching.Batcher
	loaded    *transformation
	instance  *wasmhost.Instance
	queue     []*job // to be executed next, in order
	executing *job   // being executed; nil: none
	drained   bool   // the batcher has nothing more

	wake chan struct{} // one kick is kept

	mu          sync.Mutex // guards what follows
	active      bool       // the loop takes revocations
	kicked      bool
	interrupt   context.CancelFunc // ends the Next under way
	revocations []*revocation
	next        map[graphmill.TopicPartition]graphmill.Position // where the next batch begins
	stopBatcher func()
}

// revocation is word that partitions go away.
type revocation struct {
	ctx        context.Context // ends when the source waits no longer
	partitions []graphmill.TopicPartition
	lost       bool
	done       chan struct{} // closed when the lane has finished with them
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

// drain closes the batch that is being collected; the loop ends after it.
func (l *lane) drain() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopBatcher != nil {
		l.stopBatcher()
	}
	l.kickLocked()
}

// assigned notes where partitions begin, before anything of them is fetched.
func (l *lane) assigned(positions []graphmill.Position) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range positions {
		l.next[p.TopicPartition] = p
	}
}

// revoked returns when the lane has finished with the partitions, or when ctx
// ends. Whatever it still holds of them then is dropped before it fetches again.
func (l *lane) revoked(ctx context.Context, partitions []graphmill.TopicPartition, lost bool) {
	rev := &revocation{ctx: ctx, partitions: partitions, lost: lost, done: make(chan struct{})}
	l.mu.Lock()
	for _, tp := range partitions {
		delete(l.next, tp)
	}
	if !l.active {
		l.mu.Unlock()
		return
	}
	l.revocations = append(l.revocations, rev)
	l.kickLocked()
	l.mu.Unlock()
	select {
	case <-rev.done:
	case <-ctx.Done():
	}
}

// loop runs the lane until the run is asked to end (nil), or cannot go on.
func (l *lane) loop(ctx context.Context, source sources.Source) error {
	l.source = source
	l.batcher = batching.New(batching.Policy{
		Size:     l.r.spec.BatchSize,
		Bytes:    l.r.spec.BatchBytes,
		Interval: l.r.spec.BatchInterval(),
	}, source)
	l.activate()
	defer l.deactivate()
	for {
		for _, rev := range l.takeRevocations() {
			l.serve(rev)
		}
		if err := l.reap(); err != nil {
			return err
		}
		switch {
		case isClosed(l.r.halting):
			l.queue = nil
			if l.executing == nil {
				return nil
			}
			l.await()
		case len(l.queue) == 0 && !l.drained:
			if err := l.collect(ctx); err != nil {
				return err
			}
		case l.executing != nil:
			l.await()
		case len(l.queue) == 0:
			return nil
		default:
			if err := l.execute(ctx); err != nil {
				return err
			}
		}
	}
}

// activate lets revocations and drain reach the loop.
func (l *lane) activate() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.active = true
	l.stopBatcher = l.batcher.Stop
	if isClosed(l.r.draining) { // before there was a batcher
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

func (l *lane) takeRevocations() []*revocation {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kicked = false
	revs := l.revocations
	l.revocations = nil
	return revs
}

// collect waits for the next batch and transforms it.
func (l *lane) collect(ctx context.Context) error {
	ctx, done := l.interruptible(ctx)
	batch, err := l.batcher.Next(ctx)
	interrupted := ctx.Err() != nil
	done()
	switch {
	case err == nil:
		j := &job{batch: batch}
		j.first = l.advance(batch.Positions)
		l.queue = append(l.queue, j)
		return l.transform(l.r.ctx, j)
	case errors.Is(err, io.EOF):
		l.drained = true
		return nil
	case interrupted:
		return l.r.ctx.Err()
	}
	return fmt.Errorf("fetch: %w", err)
}

// interruptible returns a context that the next kick ends, or one since the
// loop last looked.
func (l *lane) interruptible(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
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
	return j.err
}

// execute starts the execution of the first job of the queue. None is under
// way.
func (l *lane) execute(ctx context.Context) error {
	j := l.queue[0]
	if !j.transformed {
		if err := l.transform(ctx, j); err != nil {
			return err
		}
	}
	if j.refused != nil {
		return j.refused
	}
	l.queue = l.queue[1:]
	l.executing = j
	jctx := j.begun(ctx)
	go func() {
		defer close(j.done)
		defer j.cancel(nil)
		if j.err = l.r.apply(jctx, l.source, j); j.err != nil {
			l.kick() // the loop may be waiting for messages
			return
		}
		l.batcher.Completed()
	}()
	return nil
}

// serve lets go of revoked partitions: what has been collected or prepared is
// dropped, and a batch that is being executed is finished first, unless the
// partitions are lost already or the source waits no longer.
func (l *lane) serve(rev *revocation) {
	defer close(rev.done)
	l.batcher.Drop(rev.partitions)
	if j := l.executing; j != nil && j.touches(rev.partitions) {
		j.hurryUp()
		if rev.lost {
			j.cancel(errAbandoned)
		}
		select {
		case <-j.done:
		case <-rev.ctx.Done():
			j.cancel(errAbandoned)
			<-j.done
		}
		if errors.Is(j.err, errAbandoned) {
			l.executing = nil
			l.queue = append([]*job{j}, l.queue...)
		}
	}
	kept := l.queue[:0]
	for _, j := range l.queue {
		if j.touches(rev.partitions) {
			j.without(rev.partitions)
			l.discardInstance() // it has seen the messages that are left
			if j.empty() {
				l.batcher.Completed()
				continue
			}
		}
		kept = append(kept, j)
	}
	l.queue = kept
}
