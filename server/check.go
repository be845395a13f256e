package server

import (
	"context"
	"fmt"
	"time"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/batching"
	"github.com/graphmill/graphmill/sources"
)

// Bounds of a CheckRequest.
const (
	maxCheckBatches = 1000
	maxCheckTimeout = 10 * time.Minute
)

// maxCheckBytes is how much of messages and statements a check holds. Once it
// has as much it returns what it has; the first batch is returned whatever its
// size, which the stream's own options bound.
const maxCheckBytes = 64 << 20

// Defaults of a check, which are those of Memgraph's CHECK.
const (
	DefaultCheckBatches = 1
	DefaultCheckTimeout = 30 * time.Second
	DefaultCheckFrom    = sources.FromCommitted
)

// CheckStream reads what the stream would read and tells which statements it
// would execute. It reads outside the stream's group, commits nothing and
// executes nothing, whether the stream runs or not. A statement that ALLOW does
// not permit is told as a failure of its message, as far as its text shows it.
// Fewer batches than asked for are returned when the time is over, or when they
// are large together (64 MiB), unless all are wanted.
//
// Errors: KindTimeout (check_timeout) where no message came, or fewer batches than all
// that are wanted; KindTooLarge (check_too_large) where they are too large together; KindInvalid
// (transformation_failed) where the transformation fails as a whole;
// KindUnavailable while the broker or a topic is not there; KindConflict where
// the stream could not start either, and already_running where the check wants the
// stream alone.
func (s *Server) CheckStream(ctx context.Context, name string, r CheckRequest) ([]CheckBatch, error) {
	if err := r.validate(); err != nil {
		return nil, err
	}
	st, err := s.stream(name)
	if err != nil {
		return nil, err
	}
	ctx, stop := within(ctx, s.life)
	defer stop()
	if r.Alone {
		release, err := st.alone(ctx)
		if err != nil {
			return nil, err
		}
		defer release()
	}
	spec, err := st.definition(ctx)
	if err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	batches, err := s.check(limited, spec, r)
	switch {
	case err == nil && r.All && len(batches) < r.BatchLimit:
		return nil, &graphmill.Error{Kind: graphmill.KindTooLarge, Code: "check_too_large",
			Text: fmt.Sprintf("the first %d of %d batches hold %d MiB already, the most that a check tells", len(batches), r.BatchLimit, maxCheckBytes>>20),
			Next: fmt.Sprintf("ask for %s at most", count(len(batches), "batch"))}
	case err == nil:
		return batches, nil
	case s.life.Err() != nil:
		return nil, s.Ready(ctx)
	case ctx.Err() != nil:
		return nil, fmt.Errorf("check stream %q: %w", name, ctx.Err())
	case limited.Err() != nil && len(batches) > 0 && !r.All:
		return batches, nil
	}
	if f, ok := asFault(err); ok {
		return nil, Refusal(f)
	}
	if limited.Err() != nil && len(batches) > 0 {
		return nil, &graphmill.Error{Kind: graphmill.KindTimeout, Code: "check_timeout",
			Text: fmt.Sprintf("%d of %d batches of stream %q came within %v, reading from %q", len(batches), r.BatchLimit, name, r.Timeout, r.From),
			Next: "ask for fewer batches, or wait for new messages with a longer timeout"}
	}
	if limited.Err() != nil {
		return nil, s.nothingCame(ctx, spec, r)
	}
	return nil, err
}

// explainPatience is how long the explanation of an empty check may take.
const explainPatience = 3 * time.Second

// nothingCame is the error of a check that saw no message, with the reason as far
// as the broker tells it.
func (s *Server) nothingCame(ctx context.Context, spec graphmill.StreamSpec, r CheckRequest) error {
	e := &graphmill.Error{
		Kind: graphmill.KindTimeout, Code: "check_timeout",
		Text: fmt.Sprintf("no message of stream %q came within %v, reading from %q", spec.Name, r.Timeout, r.From),
		Next: fmt.Sprintf("wait for new messages with a longer --timeout, or look at old ones: graphmill stream check %s --from earliest", spec.Name),
	}
	if r.From != sources.FromCommitted {
		return e
	}
	ctx, cancel := context.WithTimeout(ctx, explainPatience)
	defer cancel()
	info, err := s.offsets(ctx, spec)
	if err != nil {
		return e
	}
	settled, lag := true, int64(0)
	for _, p := range info.Partitions {
		settled = settled && p.Origin != graphmill.OriginStartFrom
		lag += max(p.Lag, 0)
	}
	switch {
	case !settled && kindOf(spec) == graphmill.SourcePulsar:
		e.Text += fmt.Sprintf(": no position of the subscription %q is known here, and only an admin URL could tell it, so start_from (%s) counts", info.Group, spec.StartFrom)
	case lag == 0 && kindOf(spec) == graphmill.SourcePulsar:
		e.Text += fmt.Sprintf(": the subscription %q has read everything that there is", info.Group)
	case !settled && spec.StartFrom == graphmill.StartLatest:
		e.Text += fmt.Sprintf(": the group %q has no position yet, and a new group begins at latest, so only what comes from now on is seen", info.Group)
	case !settled:
		e.Text += fmt.Sprintf(": the group %q has no position yet, and begins at %s", info.Group, spec.StartFrom)
	case lag == 0:
		e.Text += fmt.Sprintf(": the group %q has read everything that there is", info.Group)
	}
	return e
}

// wouldRefuse returns a failure for each message of which a statement would be
// refused before it is sent, where the sink knows that of the text alone.
func (s *Server) wouldRefuse(spec graphmill.StreamSpec, out graphmill.Output) []graphmill.Failure {
	judge, ok := s.cfg.Sink.(interface {
		NotAllowed(w graphmill.Work) []*graphmill.Fault
	})
	if !ok {
		return nil
	}
	failed := map[int]bool{}
	for _, f := range out.Failures {
		failed[f.Message] = true
	}
	var failures []graphmill.Failure
	for _, f := range judge.NotAllowed(graphmill.Work{Stream: spec.Name, Database: spec.Database, Allow: spec.Allow, Statements: out.Statements}) {
		if !failed[f.Message] { // one failure a message
			failures = append(failures, graphmill.Failure{Message: f.Message, Text: describe(f) + "; " + f.Next})
		}
	}
	return failures
}

// alone keeps other commands from the stream while a check is under way. It waits
// for those that are; a stream that runs, or is being checked so, refuses it.
func (st *stream) alone(ctx context.Context) (release func(), err error) {
	st.mu.Lock()
	refused := st.run != nil || st.checked
	st.mu.Unlock()
	if refused {
		return nil, st.occupied()
	}
	unlock, err := st.begin(ctx)
	if err != nil {
		return nil, err
	}
	if st.active() {
		unlock()
		return nil, alreadyRunning(st.name())
	}
	st.setChecked(true)
	return func() {
		st.setChecked(false)
		unlock()
	}, nil
}

func (st *stream) setChecked(checked bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.checked = checked
}

func (r CheckRequest) validate() error {
	if r.BatchLimit < 1 || r.BatchLimit > maxCheckBatches {
		return graphmill.Invalid("batch_limit", "%d is outside of 1 to %d", r.BatchLimit, maxCheckBatches)
	}
	if r.Timeout < time.Millisecond || r.Timeout > maxCheckTimeout {
		return graphmill.Invalid("timeout_ms", "%d is outside of 1 to %d", r.Timeout.Milliseconds(), maxCheckTimeout.Milliseconds())
	}
	if r.From == sources.FromCommitted {
		return nil
	}
	if _, err := graphmill.ParseStart("from", r.From); err != nil {
		e := graphmill.Invalid("from", "%q is neither committed, earliest, latest nor a time such as 2026-01-31T12:00:00Z", r.From)
		e.Next = nextOf(err)
		return e
	}
	return nil
}

// check reads and transforms, with a reader and an instance of its own. With an
// error it returns the batches from before.
func (s *Server) check(ctx context.Context, spec graphmill.StreamSpec, r CheckRequest) ([]CheckBatch, error) {
	ref, err := graphmill.ParseTransformationRef(spec.Transform)
	if err != nil {
		return nil, err
	}
	t, err := s.loadTransformation(ctx, ref)
	if err != nil {
		return nil, err
	}
	defer t.close(ctx)
	instance, err := t.wasm.Instantiate(ctx, instanceConfig(spec, ref.Function))
	if err != nil {
		return nil, transformationFailed(err, nil)
	}
	defer instance.Close(context.WithoutCancel(ctx))

	known, err := s.catalog.Positions(ctx, spec.Name)
	if err != nil {
		return nil, err
	}
	reader, err := s.broker(spec).reader(known, r.From)
	if err != nil {
		return nil, err
	}
	defer reader.Close()

	batcher := batching.New(batching.Policy{Size: spec.BatchSize, Bytes: spec.BatchBytes, Interval: spec.BatchInterval()}, reader)
	var batches []CheckBatch
	var held int64
	for len(batches) < r.BatchLimit && held < maxCheckBytes {
		b, err := batcher.Next(ctx)
		if err != nil {
			return batches, err
		}
		if len(b.Messages) > 0 {
			out, err := instance.Transform(ctx, kindOf(spec), b.Messages)
			if err != nil {
				return batches, transformationFailed(err, func(i int) string {
					return "message " + b.Messages[i].Position().String()
				})
			}
			out.Failures = append(out.Failures, s.wouldRefuse(spec, out)...)
			batches = append(batches, CheckBatch{Messages: b.Messages, Output: out})
			held += sizeOf(b, out)
		}
		batcher.Completed()
	}
	return batches, nil
}

// sizeOf is about what a batch and its statements hold in memory, in bytes.
func sizeOf(b graphmill.Batch, out graphmill.Output) int64 {
	const each = 128 // of a message or a statement beside what it carries
	n := b.Bytes + each*int64(len(b.Messages)+len(out.Statements))
	for i := range out.Statements {
		st := &out.Statements[i]
		n += sizeOfValue(st.Values) + sizeOfValue(st.Params)
	}
	return n
}

func sizeOfValue(v graphmill.Value) int64 {
	const word = 16 // of an interface or a string
	n := int64(word)
	switch v := v.(type) {
	case string:
		n += int64(len(v))
	case []byte:
		n += int64(len(v))
	case []any:
		for _, e := range v {
			n += sizeOfValue(e)
		}
	case map[string]any:
		for k, e := range v {
			n += word + int64(len(k)) + sizeOfValue(e)
		}
	}
	return n
}
