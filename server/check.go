package server

import (
	"context"
	"fmt"
	"time"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/batching"
	"github.com/graphmill/graphmill/sources/kafka"
)

// Bounds of a CheckRequest.
const (
	MaxCheckBatches = 1000
	MaxCheckTimeout = 10 * time.Minute
)

// CheckStream reads what the stream would read and tells which statements it
// would execute. It reads outside the stream's group, commits nothing and
// executes nothing, whether the stream runs or not. When the time is over it
// returns the batches that it has, and an error of KindTimeout where there is
// none.
func (s *Server) CheckStream(ctx context.Context, name string, r CheckRequest) ([]CheckBatch, error) {
	if r.BatchLimit < 1 || r.BatchLimit > MaxCheckBatches {
		return nil, graphmill.Invalid("batch_limit", "%d is outside of 1 to %d", r.BatchLimit, MaxCheckBatches)
	}
	if r.Timeout < time.Millisecond || r.Timeout > MaxCheckTimeout {
		return nil, graphmill.Invalid("timeout_ms", "%d is outside of 1 to %d", r.Timeout.Milliseconds(), MaxCheckTimeout.Milliseconds())
	}
	if r.From != "committed" {
		if _, err := graphmill.ParseStart("from", r.From); err != nil {
			return nil, graphmill.Invalid("from", "%q is neither committed, earliest, latest nor a time such as 2026-01-31T12:00:00Z", r.From)
		}
	}
	st, err := s.stream(name)
	if err != nil {
		return nil, err
	}
	spec := st.record().Spec
	ref, err := graphmill.ParseTransformationRef(spec.Transform)
	if err != nil {
		return nil, err
	}
	t, err := s.loadTransformation(ctx, ref)
	if err != nil {
		return nil, err
	}
	defer t.close(ctx)
	cfg, err := s.kafkaConfig(spec)
	if err != nil {
		return nil, err
	}
	if cfg.Known, err = s.catalog.Positions(ctx, name); err != nil {
		return nil, err
	}
	reader, err := kafka.NewReader(cfg, r.From)
	if err != nil {
		return nil, err
	}
	defer reader.Close()

	limited, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	batches, err := check(limited, spec, t, reader, r.BatchLimit)
	switch {
	case err == nil:
		return batches, nil
	case ctx.Err() != nil:
		return nil, fmt.Errorf("check stream %q: %w", name, ctx.Err())
	case limited.Err() != nil && len(batches) > 0:
		return batches, nil
	case limited.Err() != nil:
		return nil, &graphmill.Error{Kind: graphmill.KindTimeout, Code: "check_timeout",
			Text: fmt.Sprintf("no message of stream %q came within %v, reading from %q", name, r.Timeout, r.From),
			Next: `wait for new messages with a longer timeout, or look at old ones with from "earliest"`}
	}
	if f, ok := asFault(err); ok && f.Class != graphmill.FaultMessage {
		return nil, &graphmill.Error{Kind: graphmill.KindUnavailable, Code: f.Code, Text: f.Text, Next: f.Next, Err: f.Err}
	}
	return nil, transformationFailed(err)
}

// check collects and transforms batches with an instance of its own.
func check(ctx context.Context, spec graphmill.StreamSpec, t *transformation, reader batching.Fetcher, limit int) ([]CheckBatch, error) {
	instance, err := t.wasm.Instantiate(ctx, instanceConfig(spec, t.ref.Function))
	if err != nil {
		return nil, transformationFailed(err)
	}
	defer instance.Close(context.WithoutCancel(ctx))
	batcher := batching.New(batching.Policy{Size: spec.BatchSize, Bytes: spec.BatchBytes, Interval: spec.BatchInterval()}, reader)
	var batches []CheckBatch
	for len(batches) < limit {
		b, err := batcher.Next(ctx)
		if err != nil {
			return batches, err
		}
		if len(b.Messages) > 0 {
			out, err := instance.Transform(ctx, graphmill.SourceKafka, b.Messages)
			if err != nil {
				return batches, err
			}
			batches = append(batches, CheckBatch{Messages: b.Messages, Output: out})
		}
		batcher.Completed()
	}
	return batches, nil
}
