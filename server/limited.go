package server

import (
	"context"
	"fmt"
	"time"

	"github.com/graphmill/graphmill"
)

// DefaultLimitedStartTimeout is how long a limited start may take where its
// request does not say: Memgraph's default.
const DefaultLimitedStartTimeout = 30 * time.Second

// Bounds of a limited start.
const (
	maxStartBatches = 1_000_000_000
	maxStartTimeout = 24 * time.Hour
)

func (r StartRequest) validate() error {
	switch {
	case r.AcceptLost != "" && r.AcceptLost != graphmill.StartEarliest && r.AcceptLost != graphmill.StartLatest:
		return graphmill.Invalid("accept", "lost=%s is neither lost=earliest nor lost=latest", r.AcceptLost)
	case r.BatchLimit < 0 || r.BatchLimit > maxStartBatches:
		return graphmill.Invalid("batch_limit", "%d is outside of 1 to %d", r.BatchLimit, maxStartBatches)
	case r.Timeout != 0 && r.BatchLimit == 0:
		e := graphmill.Invalid("timeout_ms", "a timeout has a meaning with a batch limit only")
		e.Next = "give a batch limit, too; without one the stream runs until it is stopped"
		return e
	case r.Timeout != 0 && (r.Timeout < time.Millisecond || r.Timeout > maxStartTimeout):
		return graphmill.Invalid("timeout_ms", "%d is outside of 1 to %d", r.Timeout.Milliseconds(), maxStartTimeout.Milliseconds())
	}
	return nil
}

// startLimited runs the stream for a number of batches. Such a run is not what
// is desired of the stream, so a restart of the server does not resume it, and
// one that fails leaves the stream stopped.
func (st *stream) startLimited(ctx context.Context, req StartRequest) (StartResult, error) {
	r, err := st.startRun(ctx, req)
	if err != nil {
		return StartResult{}, err
	}
	limit := req.Timeout
	if limit == 0 {
		limit = DefaultLimitedStartTimeout
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	timedOut, waitedFor := false, (*graphmill.Reason)(nil)
	select {
	case <-r.done:
	case <-timer.C:
		timedOut = true
		_, waitedFor = r.state()
		r.halt()
	case <-ctx.Done():
		r.halt()
	}
	r.wait(nil, st.srv.cfg.DrainTimeout)
	result := r.result()
	result.StreamInfo = st.info()
	if result.Batches >= int64(req.BatchLimit) {
		return result, nil
	}
	committed := result.committed()
	if r.unacknowledged.Load() {
		committed += "; one more batch is in the graph, could not be acknowledged, and will be executed once more"
	}
	return result, st.whyNotAll(ctx, r, req.BatchLimit, committed, timedOut, limit, waitedFor)
}

// whyNotAll is the answer of a limited start that has not come to its limit.
func (st *stream) whyNotAll(ctx context.Context, r *run, wanted int, committed string, timedOut bool, limit time.Duration, waitedFor *graphmill.Reason) error {
	if f := r.endedBy(); f != nil {
		e := Refusal(f)
		e.Text = fmt.Sprintf("%s; %s", e.Text, committed)
		e.Next = reasonOf(r.spec.Name, f).NextStep
		return e
	}
	switch {
	case timedOut:
		e := &graphmill.Error{Kind: graphmill.KindTimeout, Code: "start_timeout",
			Text: fmt.Sprintf("stream %q was to apply %s within %v; %s", r.spec.Name, count(wanted, "batch"), limit, committed),
			Next: "the rest is read by the next start; to wait for more messages, give a longer timeout"}
		if waitedFor != nil {
			e.Text += "; it was waiting: " + waitedFor.Text
			e.Next = waitedFor.NextStep
		}
		return e
	case ctx.Err() != nil:
		return fmt.Errorf("the start of stream %q was given up; %s: %w", r.spec.Name, committed, ctx.Err())
	}
	if st.srv.Ready(ctx) != nil {
		return &graphmill.Error{Kind: graphmill.KindUnavailable, Code: "shutting_down", Text: "the server is shutting down; " + committed}
	}
	return graphmill.Conflict("stopped_meanwhile", "stream %q was stopped or dropped before it had applied %s; %s", r.spec.Name, count(wanted, "batch"), committed)
}

// result is what a run has done so far.
func (r *run) result() StartResult {
	counters := r.observed.counted()
	return StartResult{
		Batches:    r.applied.Load(),
		Messages:   counters.Messages,
		Statements: counters.Statements,
		Positions:  r.held.moved(),
	}
}

// committed says what was committed.
func (r StartResult) committed() string {
	if r.Batches == 0 && r.Messages == 0 {
		return "committed: nothing"
	}
	return fmt.Sprintf("committed: %s of %s, up to %s", count(int(r.Batches), "batch"), count(int(r.Messages), "message"), positionsText(r.Positions))
}

// count writes a number with its noun: 1 batch, 2 batches.
func count(n int, noun string) string {
	switch {
	case n == 1:
		return "1 " + noun
	case noun == "batch":
		return fmt.Sprintf("%d batches", n)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
