package server

import (
	"context"
	"errors"

	"github.com/graphmill/graphmill"
)

// revocation is word that partitions go away.
type revocation struct {
	ctx        context.Context // ends when the source waits no longer
	partitions []graphmill.TopicPartition
	lost       bool
	done       chan struct{} // closed when the lane has finished with them
}

// revoked returns when the lane has finished with the partitions, or when ctx
// ends. Whatever it still holds of them then is dropped before it fetches again.
func (l *lane) revoked(ctx context.Context, partitions []graphmill.TopicPartition, lost bool) {
	rev := &revocation{ctx: ctx, partitions: partitions, lost: lost, done: make(chan struct{})}
	if !l.leaveWord(rev) {
		return
	}
	select {
	case <-rev.done:
	case <-ctx.Done():
	}
}

// leaveWord hands a revocation to the loop, unless that holds nothing.
func (l *lane) leaveWord(rev *revocation) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, tp := range rev.partitions {
		delete(l.next, tp)
	}
	if !l.active {
		return false
	}
	l.revocations = append(l.revocations, rev)
	l.kickLocked()
	return true
}

func (l *lane) takeRevocations() []*revocation {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kicked = false
	revs := l.revocations
	l.revocations = nil
	return revs
}

// serve lets go of revoked partitions: what has been collected or prepared is
// dropped, and a batch that is being executed is finished first, unless the
// partitions are lost already or the source waits no longer.
func (l *lane) serve(rev *revocation) {
	defer close(rev.done)
	l.batcher.Drop(rev.partitions)
	l.finish(rev)
	kept := make([]*job, 0, len(l.queue))
	for _, j := range l.queue {
		if j.touches(rev.partitions) {
			had := len(j.batch.Messages) > 0
			j.without(rev.partitions)
			l.discardInstance() // it has seen the messages that are left
			if had && len(j.batch.Messages) == 0 {
				l.partEmptied(j)
			}
		}
		if j.empty() {
			l.partDropped(j)
			continue
		}
		kept = append(kept, j)
	}
	l.queue = kept
	if len(kept) == 0 && l.executing == nil {
		l.r.observed.recovered(sinkSide) // nothing waits for it any more
		l.r.observed.recovered(commitsSide)
		l.compiled()
	}
}

// finish waits for the job that is being executed, if the revocation concerns
// it. A job that is given up stands first in the queue then.
func (l *lane) finish(rev *revocation) {
	j := l.executing
	if j == nil || !j.touches(rev.partitions) {
		return
	}
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
	var big *tooBig
	if errors.Is(j.err, errAbandoned) || errors.As(j.err, &big) { // without the partitions it may be small enough
		l.executing = nil
		l.queue = append([]*job{j}, l.queue...)
	}
}
