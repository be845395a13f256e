package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/sources"
)

// apply executes a job's statements in one transaction and acknowledges its
// positions. It repeats what may heal. errAbandoned means that nothing was
// applied and that somebody waits; another error ends the lane.
func (r *run) apply(ctx context.Context, source sources.Source, j *job) error {
	r.startBatch(j)
	defer r.endBatch()
	if !j.committed {
		executed, err := r.executeBatch(ctx, j)
		if err != nil {
			return err
		}
		j.committed, j.executed = true, executed
	}
	if err := r.acknowledge(ctx, source, j); err != nil {
		return err
	}
	r.count(j)
	r.acknowledged(j.batch.Positions)
	return nil
}

// executeBatch runs the transaction until it is committed. A batch without
// statements needs none.
func (r *run) executeBatch(ctx context.Context, j *job) (graphmill.Executed, error) {
	if len(j.output.Statements) == 0 {
		return graphmill.Executed{}, nil
	}
	work := graphmill.Work{
		Stream:     r.spec.Name,
		Database:   r.spec.Database,
		Coalesce:   r.spec.Coalesce == graphmill.CoalesceOn,
		First:      j.first,
		Last:       j.batch.Positions,
		Statements: j.output.Statements,
	}
	conflicts, pause := 0, conflictPauses(r.st.srv.cfg.RetryInterval)
	for {
		executed, err := r.st.srv.cfg.Sink.Execute(ctx, work)
		if err == nil {
			r.recovered(sinkSide)
			return executed, nil
		}
		f, ok := asFault(err)
		switch {
		case ctx.Err() != nil:
			return executed, context.Cause(ctx)
		case !ok:
			return executed, fmt.Errorf("execute a batch: %w", err)
		case f.Class != graphmill.FaultTransient:
			return executed, r.lane.blame(j, f)
		case f.Outage:
			if err := r.outwait(ctx, j, f); err != nil {
				return executed, err
			}
		default:
			if conflicts++; conflicts > r.st.srv.cfg.ConflictRetries {
				return executed, r.lane.blame(j, exhausted(f, conflicts))
			}
			if err := r.pause(ctx, j, pause.next()); err != nil {
				return executed, err
			}
		}
		r.retried()
	}
}

// exhausted is the fault of conflicts that do not end. It is of the set-up: the
// messages are not to blame.
func exhausted(f *graphmill.Fault, attempts int) *graphmill.Fault {
	return &graphmill.Fault{
		Class: graphmill.FaultSetup, Code: "conflicts", Message: graphmill.WholeBatch,
		Text: fmt.Sprintf("the database refused the batch %d times in a row because of conflicting transactions", attempts),
		Next: "look for long transactions on the same nodes, or raise --stream-transaction-conflict-retries",
		Err:  f,
	}
}

// outwait waits until the database can be reached again.
func (r *run) outwait(ctx context.Context, j *job, f *graphmill.Fault) error {
	pause := outagePauses()
	for {
		r.waiting(sinkSide, f)
		if r.askedToEnd() {
			return errAbandoned // an outage is not sat out while stopping
		}
		if err := r.pause(ctx, j, pause.next()); err != nil {
			return err
		}
		err := r.st.srv.cfg.Sink.Verify(ctx, r.spec.Database)
		if err == nil {
			return nil // the next attempt tells whether it has recovered
		}
		again, ok := asFault(err)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !ok:
			return err
		case again.Class != graphmill.FaultTransient:
			return r.lane.blame(j, again)
		}
		f = again
	}
}

// pause waits between attempts; it is cut short when somebody waits for the
// job, or the run shall end while the database is away.
func (r *run) pause(ctx context.Context, j *job, d time.Duration) error {
	at := time.Now().Add(d)
	r.mu.Lock()
	if r.batch != nil {
		r.batch.NextRetryAt = &at
	}
	waitingForSink := r.waits[sinkSide] != nil
	r.mu.Unlock()
	var ending <-chan struct{}
	if waitingForSink {
		ending = r.draining
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-j.hurry:
		return errAbandoned
	case <-ending:
		return errAbandoned
	case <-r.halting:
		return errAbandoned
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// acknowledge stores the batch's positions with the broker, however long it is
// away. What was committed and not acknowledged is read again.
func (r *run) acknowledge(ctx context.Context, source sources.Source, j *job) error {
	pause := outagePauses()
	for {
		err := source.Acknowledge(ctx, j.batch.Positions)
		if err == nil {
			return nil
		}
		f, ok := asFault(err)
		switch {
		case ctx.Err() != nil:
			return errors.Join(errUnacknowledged, context.Cause(ctx))
		case !ok:
			return fmt.Errorf("acknowledge a batch: %w", err)
		case f.Class != graphmill.FaultTransient:
			return f
		}
		if r.askedToEnd() {
			return errors.Join(errUnacknowledged, err)
		}
		if perr := r.pause(ctx, j, pause.next()); perr != nil {
			return errors.Join(errUnacknowledged, perr)
		}
	}
}

// errUnacknowledged says that the batch is in the graph, but its positions are
// not stored: it will be executed again.
var errUnacknowledged = errors.New("the batch was committed but could not be acknowledged; it will be executed once more")

func (r *run) startBatch(j *job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.batch = &graphmill.BatchStatus{
		First: j.first, Last: j.batch.Positions,
		Messages: len(j.batch.Messages), Statements: len(j.output.Statements), Attempt: 1,
	}
}

func (r *run) endBatch() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.batch = nil
}

func (r *run) retried() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counters.Retries++
	if r.batch != nil {
		r.batch.Attempt++
		r.batch.NextRetryAt = nil
	}
}

// count adds an acknowledged batch to the counters.
func (r *run) count(j *job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := &r.counters
	c.Batches++
	c.BatchesClosed[j.batch.Closed.String()]++
	c.Messages += int64(len(j.batch.Messages))
	c.Statements += int64(j.executed.Statements)
	c.StatementsSent += int64(j.executed.Sent)
	c.Dropped += int64(len(j.batch.Messages) - messagesUsed(j))
}

// messagesUsed counts the messages that became statements. A statement of the
// batch as a whole stands for all of them.
func messagesUsed(j *job) int {
	used, last := 0, graphmill.WholeBatch
	for i := range j.output.Statements {
		switch m := j.output.Statements[i].Message; m {
		case graphmill.WholeBatch:
			return len(j.batch.Messages)
		case last:
		default:
			used, last = used+1, m
		}
	}
	return used
}
