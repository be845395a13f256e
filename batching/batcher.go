package batching

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/graphmill/graphmill"
)

// maxOut is how many batches may be out at once: the one that is executed and
// the one that is transformed meanwhile.
const maxOut = 2

// Batcher collects what a Fetcher gives into batches. Next is for one
// goroutine; the other methods may be called from any.
//
// A batch belongs to the caller once Next has returned it: the batcher keeps
// no reference to it and never uses its memory again.
type Batcher struct {
	fetcher Fetcher

	// progress holds a token when Completed or Stop has changed something that
	// Next may be waiting for.
	progress chan struct{}

	mu      sync.Mutex
	policy  Policy
	size    int // Policy.Size as it was given
	current collection
	behind  []graphmill.Fetch // fetched, but behind the border of the last batch
	out     int               // batches handed out and not completed
	stopped bool

	// The interval runs while nothing is out; deadline is its end, and the
	// timer interrupts a fetch that is still waiting then.
	running  bool
	deadline time.Time
	timer    *time.Timer

	flight *flight // the call of Fetch under way, or nil
}

// flight is one call of Fetch.
type flight struct {
	cancel  context.CancelFunc
	landed  chan struct{}                         // closed once its result has been taken in
	dropped map[graphmill.TopicPartition]struct{} // revoked meanwhile: to be left out of the result
}

// New makes a batcher over f. Fields of p that are out of range are an error
// of the program; they are raised to 1.
func New(p Policy, f Fetcher) *Batcher {
	p.Size = max(p.Size, 1)
	p.Bytes = max(p.Bytes, 1)
	p.Interval = max(p.Interval, 1)
	return &Batcher{policy: p, size: p.Size, fetcher: f, progress: make(chan struct{}, 1)}
}

// Next returns the next batch. It waits while two batches are out already.
//
// A batch is never empty, but it may hold positions without messages, where
// control records were all that came within an interval: it is to be
// acknowledged and not to be transformed.
//
// Next returns the context's error when ctx ends, an error of the fetcher as
// it is, and io.EOF after Stop once the last batch has been handed out. No
// error loses what has been collected: the next call goes on with it.
func (b *Batcher) Next(ctx context.Context) (graphmill.Batch, error) {
	for {
		b.mu.Lock()
		batch, verdict := b.decide(time.Now())
		switch verdict {
		case handOut:
			b.mu.Unlock()
			return batch, nil
		case atEnd:
			b.mu.Unlock()
			return graphmill.Batch{}, io.EOF
		case waitForRoom:
			b.mu.Unlock()
			select {
			case <-b.progress:
			case <-ctx.Done():
				return graphmill.Batch{}, ctx.Err()
			}
			continue
		}
		if err := ctx.Err(); err != nil {
			b.mu.Unlock()
			return graphmill.Batch{}, err
		}
		fetchCtx, f := b.takeOff(ctx)
		room := max(1, b.policy.Size-len(b.current.messages)) // Limit may have made it small meanwhile
		b.mu.Unlock()

		fetches, err := b.fetcher.Fetch(fetchCtx, room)
		interrupted := fetchCtx.Err() != nil && ctx.Err() == nil
		b.land(f, fetches)
		if err != nil && !(interrupted && errors.Is(err, context.Canceled)) {
			return graphmill.Batch{}, err
		}
	}
}

// verdict is what Next does after a look at what has been collected.
type verdict uint8

const (
	fetchMore verdict = iota
	handOut
	waitForRoom
	atEnd
)

// decide applies the rules to the state as it is at now. The lock is held.
func (b *Batcher) decide(now time.Time) (graphmill.Batch, verdict) {
	if b.stopped {
		b.haltClock()
		if b.current.empty() {
			return graphmill.Batch{}, atEnd
		}
		return b.close(graphmill.ClosedByStop), handOut
	}
	if b.out >= maxOut {
		return graphmill.Batch{}, waitForRoom
	}
	if reason, full := b.fill(); full {
		return b.close(reason), handOut
	}
	switch {
	case b.out > 0:
		// Closed by size or bytes only.
	case !b.running:
		b.startClock(now)
	case !now.Before(b.deadline):
		if !b.current.empty() {
			return b.close(graphmill.ClosedByInterval), handOut
		}
		b.startClock(now)
	}
	return graphmill.Batch{}, fetchMore
}

// fill moves what lies behind into the current collection, as far as it has
// room, and tells whether that closes it.
func (b *Batcher) fill() (graphmill.CloseReason, bool) {
	for len(b.behind) > 0 {
		reason, full := b.current.take(&b.behind[0], b.policy)
		if len(b.behind[0].Messages) == 0 {
			b.behind[0] = graphmill.Fetch{}
			b.behind = b.behind[1:]
		}
		if full {
			return reason, true
		}
	}
	b.behind = nil
	return 0, false
}

// close ends the current collection and counts it as out.
func (b *Batcher) close(reason graphmill.CloseReason) graphmill.Batch {
	b.haltClock()
	b.out++
	return b.current.batch(reason)
}

// Limit makes batches smaller than Policy.Size, from the one that is being
// collected on; what that holds already stays. 0 lifts the limit.
func (b *Batcher) Limit(size int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.policy.Size = b.size
	if size > 0 {
		b.policy.Size = min(size, b.size)
	}
}

// Completed says that the oldest batch that is out has been committed and
// acknowledged. Once nothing is out any more, the interval begins.
func (b *Batcher) Completed() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.out == 0 {
		return
	}
	b.out--
	if b.out == 0 && !b.stopped {
		b.startClock(time.Now())
	}
	b.signal()
}

// Stop ends collecting: what has been collected, if anything, is handed out as
// the last batch, then Next returns io.EOF. What was fetched beyond that is
// dropped: it is not acknowledged and will be read again.
func (b *Batcher) Stop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stopped = true
	b.behind = nil
	b.interrupt()
	b.signal()
}

// Drop forgets messages and positions of partitions that are not owned any
// more, so that no later batch holds them; batches that are out are the
// caller's. It waits for a fetch under way, which it interrupts, so that
// nothing of these partitions can come in after it has returned; what comes of
// them later belongs to a new assignment. It must not be called from within
// Fetch.
func (b *Batcher) Drop(partitions []graphmill.TopicPartition) {
	if len(partitions) == 0 {
		return
	}
	gone := make(map[graphmill.TopicPartition]struct{}, len(partitions))
	for _, tp := range partitions {
		gone[tp] = struct{}{}
	}
	b.mu.Lock()
	b.current.drop(gone)
	b.behind = without(b.behind, gone)
	f := b.flight
	if f != nil {
		if f.dropped == nil {
			f.dropped = make(map[graphmill.TopicPartition]struct{}, len(gone))
		}
		for tp := range gone {
			f.dropped[tp] = struct{}{}
		}
		b.interrupt()
	}
	b.mu.Unlock()
	if f != nil {
		<-f.landed
	}
}

// takeOff marks a fetch as under way. The lock is held.
func (b *Batcher) takeOff(ctx context.Context) (context.Context, *flight) {
	fetchCtx, cancel := context.WithCancel(ctx)
	b.flight = &flight{cancel: cancel, landed: make(chan struct{})}
	return fetchCtx, b.flight
}

// land takes in the result of a fetch.
func (b *Batcher) land(f *flight, fetches []graphmill.Fetch) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.flight = nil
	f.cancel()
	if !b.stopped {
		b.behind = append(b.behind, without(fetches, f.dropped)...)
	}
	close(f.landed)
}

// interrupt ends a fetch that is waiting. The lock is held.
func (b *Batcher) interrupt() {
	if b.flight != nil {
		b.flight.cancel()
	}
}

// startClock begins an interval at now. The lock is held.
func (b *Batcher) startClock(now time.Time) {
	b.running = true
	b.deadline = now.Add(b.policy.Interval)
	if b.timer == nil {
		b.timer = time.AfterFunc(b.policy.Interval, b.intervalEnded)
		return
	}
	b.timer.Reset(b.policy.Interval)
}

// haltClock ends the interval without a successor. The lock is held.
func (b *Batcher) haltClock() {
	b.running = false
	if b.timer != nil {
		b.timer.Stop()
	}
}

// intervalEnded makes Next look at the clock again. A timer that was stopped
// or set anew too late to prevent this does no harm: the deadline decides.
func (b *Batcher) intervalEnded() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.running && !time.Now().Before(b.deadline) {
		b.interrupt()
	}
}

func (b *Batcher) signal() {
	select {
	case b.progress <- struct{}{}:
	default:
	}
}

// without returns fetches less those of gone partitions. It may reuse fetches.
func without(fetches []graphmill.Fetch, gone map[graphmill.TopicPartition]struct{}) []graphmill.Fetch {
	if len(gone) == 0 {
		return fetches
	}
	kept := fetches[:0]
	for _, f := range fetches {
		if _, is := gone[f.Next.TopicPartition]; !is {
			kept = append(kept, f)
		}
	}
	clear(fetches[len(kept):])
	return kept
}
