package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/sources"
)

// apply executes a job's statements in one transaction and acknowledges its
// positions. It repeats what may heal. errAbandoned means that somebody waits;
// another error ends the lane.
func (r *run) apply(source sources.Source, j *job) (err error) {
	defer r.catch(&err)
	r.observed.beginBatch(j)
	defer r.observed.endBatch()
	if !j.committed {
		executed, err := r.executeBatch(j)
		if err != nil {
			return err
		}
		j.committed, j.executed = true, executed
	}
	if err := r.acknowledge(source, j); err != nil {
		return err
	}
	r.observed.count(j)
	if j.counts {
		r.applied.Add(1)
	}
	r.acknowledged(j.batch.Positions)
	r.logBatch(j)
	j.release()
	return nil
}

// logBatch writes a line for a batch that is done, where anybody wants that.
func (r *run) logBatch(j *job) {
	if !r.st.log.Enabled(r.ctx, slog.LevelDebug) {
		return
	}
	r.st.log.Debug("a batch is done", "closed_by", j.batch.Closed.String(), "module_version", j.module.Version, "messages", len(j.batch.Messages), "bytes", j.batch.Bytes,
		"statements", j.executed.Statements, "sent", j.executed.Sent, "first", positionsText(j.first), "last", positionsText(j.batch.Positions))
}

// executeBatch runs the transaction until it is committed, one attempt after the
// other: the lane never has two transactions. A batch without statements needs
// none.
func (r *run) executeBatch(j *job) (graphmill.Executed, error) {
	if len(j.output.Statements) == 0 {
		r.observed.recovered(sinkSide) // what waited for it may be another server's by now
		return graphmill.Executed{}, nil
	}
	work := graphmill.Work{
		Stream:     r.spec.Name,
		Database:   r.spec.Database,
		Coalesce:   r.spec.Coalesce == graphmill.CoalesceOn,
		Allow:      r.spec.Allow,
		Module:     j.module,
		First:      j.first,
		Last:       j.batch.Positions,
		Statements: j.output.Statements,
	}
	retry := r.newRetry(j)
	for {
		work.Attempt++
		executed, err := r.execute(j.ctx, work)
		if err == nil {
			r.observed.metrics.committed(executed)
			r.observed.recovered(sinkSide)
			return executed, nil
		}
		f, ok := asFault(err)
		if ok && f.Unknown {
			r.unknownCommit(j, f) // also where nobody waits for the batch any more
		}
		if j.ctx.Err() != nil {
			return graphmill.Executed{}, context.Cause(j.ctx)
		}
		if !ok {
			return graphmill.Executed{}, fmt.Errorf("execute a batch: %w", err)
		}
		if err := retry.after(f); err != nil {
			return graphmill.Executed{}, err
		}
		r.observed.retried(retryKindOf(f))
	}
}

// execute makes one attempt. Meanwhile it is told where the database does not
// answer: the limit of the transaction is minutes away.
func (r *run) execute(ctx context.Context, work graphmill.Work) (executed graphmill.Executed, err error) {
	began := time.Now()
	watched, end := context.WithCancel(ctx)
	silent := false
	var watching sync.WaitGroup
	watching.Go(func() {
		var defect error
		defer r.catch(&defect) // it would end the server
		silent = r.watchAnswers(watched, began)
	})
	defer func() {
		end()
		watching.Wait()
		r.observed.metrics.took(stageExecute, time.Since(began))
		f, ok := asFault(err)
		if answered := err == nil || ok && !f.Outage && ctx.Err() == nil; silent && answered {
			r.gate().note(nil)
			r.observed.recovered(sinkSide)
		}
	}()
	return r.st.srv.cfg.Sink.Execute(ctx, work)
}

// watchAnswers looks at the database again and again until ctx ends, and tells
// where it does not answer. It returns whether it has told that.
func (r *run) watchAnswers(ctx context.Context, began time.Time) (silent bool) {
	for sleep(ctx, r.st.srv.cfg.AnswerTimeout) == nil {
		err := r.gate().look(ctx)
		f, ok := asFault(err)
		switch {
		case ctx.Err() != nil:
		case err == nil:
			r.observed.recovered(sinkSide) // it only takes long
		case ok && f.Code == codeUnresponsive:
			f, silent = unresponsive(time.Since(began)), true
			r.observed.waiting(sinkSide, f)
		case ok && f.Class == graphmill.FaultTransient && f.Code != codeExhausted:
			silent = true
			r.observed.waiting(sinkSide, f)
		}
	}
	return silent
}

// unknownCommit counts and tells that nobody knows whether a batch is in the
// graph.
func (r *run) unknownCommit(j *job, f *graphmill.Fault) {
	r.observed.unknownCommit()
	again := "the batch is executed again"
	if j.ctx.Err() != nil {
		again = "the batch was given up and will be read again"
	}
	r.observed.news.warn("a commit may have been done; "+again+", and may be in the graph twice then",
		"reason", f.Code, "text", describe(f), "first", positionsText(j.first))
}

// retry decides what becomes of a batch whose transaction has failed.
type retry struct {
	r          *run
	j          *job
	conflicts  int
	unfamiliar int
	rivalry    *pauses
	outage     *pauses
}

// unfamiliarTries is how often a batch is executed in all that the database
// refuses by an error which nobody knows, before its messages are to blame.
const unfamiliarTries = 3

func (r *run) newRetry(j *job) *retry {
	return &retry{r: r, j: j, rivalry: conflictPauses(r.st.srv.cfg.RetryInterval), outage: outagePauses()}
}

// after returns when the same statements are to be tried again. An error says
// that they are not.
func (t *retry) after(f *graphmill.Fault) error {
	switch {
	case f.Class == graphmill.FaultTooBig && len(t.j.batch.Messages) > 1:
		return &tooBig{f}
	case f.Class == graphmill.FaultTooBig:
		return t.r.lane.blame(t.j, tooBigAlone(f))
	case f.Class == graphmill.FaultMessage && f.Unfamiliar && t.unfamiliar+1 < unfamiliarTries:
		t.unfamiliar++
		return t.r.pause(t.j, t.r.preparing, t.outage.next())
	case f.Class != graphmill.FaultTransient:
		return t.r.lane.blame(t.j, f)
	case f.Outage:
		return t.afterOutage(f)
	}
	t.r.observed.recovered(sinkSide) // it answers
	if t.conflicts++; t.conflicts > t.r.st.srv.cfg.ConflictRetries {
		return t.r.lane.blame(t.j, exhausted(f, t.conflicts))
	}
	return t.r.pause(t.j, t.r.preparing, t.rivalry.next())
}

// retryKindOf says what an attempt after f is, for the metrics.
func retryKindOf(f *graphmill.Fault) retryKind {
	switch {
	case f.Outage:
		return retryOutage
	case f.Class == graphmill.FaultMessage:
		return retryUnfamiliar
	}
	return retryConflict
}

// afterOutage waits until the database can be reached again. It pauses first,
// and longer each time: what answers may fail again at the same statement.
func (t *retry) afterOutage(f *graphmill.Fault) error {
	r, j := t.r, t.j
	r.observed.waiting(sinkSide, f)
	if err := r.pause(j, r.working, t.outage.next()); err != nil {
		return err
	}
	ctx, stop := within(j.idle, r.working)
	defer stop()
	err := r.gate().await(ctx, func(f *graphmill.Fault) { r.observed.waiting(sinkSide, f) })
	switch {
	case err == nil:
		return nil // the next attempt tells whether it has recovered
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return r.lane.blame(j, err)
}

// pause waits between attempts, until somebody waits for the job or the run is
// past other.
func (r *run) pause(j *job, other context.Context, d time.Duration) error {
	r.observed.retryIn(d)
	ctx, stop := within(j.idle, other)
	defer stop()
	return sleep(ctx, d)
}

// within returns a context that ends with ctx, and as abandoned with other.
func within(ctx, other context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(other, func() { cancel(errAbandoned) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// errUnacknowledged says that the batch is in the graph, but its positions are
// not stored.
var errUnacknowledged = errors.New("the batch was committed but could not be acknowledged; it will be executed once more")

// acknowledge stores the batch's positions with the broker, however long it is
// away.
func (r *run) acknowledge(source sources.Source, j *job) error {
	pause := outagePauses()
	for {
		err := r.tryAcknowledge(source, j)
		if err == nil {
			r.observed.recovered(commitsSide)
			return nil
		}
		f, ok := asFault(err)
		switch {
		case errors.Is(err, errAbandoned), j.ctx.Err() != nil:
			return errors.Join(errUnacknowledged, err)
		case !ok:
			return fmt.Errorf("acknowledge a batch: %w", err)
		case f.Class != graphmill.FaultTransient:
			return f
		}
		r.observed.waiting(commitsSide, f)
		if err := r.pause(j, r.working, pause.next()); err != nil {
			return errors.Join(errUnacknowledged, err)
		}
		r.observed.metrics.retries[retryAcknowledge].Inc()
	}
}

// tryAcknowledge asks the broker once. While it is known to be away, that is not
// sat out when somebody waits.
func (r *run) tryAcknowledge(source sources.Source, j *job) error {
	ctx := j.ctx
	if r.observed.commitsAway() {
		var stop func()
		ctx, stop = within(j.idle, r.working)
		defer stop()
	}
	began := time.Now()
	err := source.Acknowledge(ctx, j.batch.Positions)
	r.observed.metrics.took(stageAcknowledge, time.Since(began))
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
