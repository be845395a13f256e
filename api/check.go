package api

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/server"
)

// CheckRequest is the body of a check; all of it may be left out.
type CheckRequest struct {
	BatchLimit int    `json:"batch_limit,omitempty" minimum:"1" maximum:"1000" doc:"Batches to show; 1 by default."`
	TimeoutMS  int64  `json:"timeout_ms,omitempty" minimum:"1" maximum:"600000" doc:"Milliseconds to wait for them; 30000 by default."`
	From       string `json:"from,omitempty" doc:"Where to read from: committed (the default: where a start would begin), earliest, latest, or a time in RFC 3339."`
}

// Checked is the answer to a check.
type Checked struct {
	Batches []CheckedBatch `json:"batches" doc:"The batches."`
}

// CheckedBatch is one batch of a check.
type CheckedBatch struct {
	Statements  []Statement `json:"statements" doc:"The statements that would be executed, in order. None has been."`
	RawMessages []Message   `json:"raw_messages" doc:"The messages of the batch."`
	Failures    []Failure   `json:"failures" doc:"Messages that the transformation could not handle, or of which a statement is not allowed."`
}

type (
	checkInput struct {
		Name string `path:"name" doc:"The name of the stream."`
		Body *CheckRequest
	}
	checkOutput struct{ Body Checked }
)

func (s *service) registerCheck() {
	register(s, huma.Operation{
		OperationID: "checkStream", Method: http.MethodPost, Path: prefix + "/streams/{name}:check", Tags: []string{"Streams"},
		Summary: "Show what a stream would execute",
		Description: "Reads live messages with a consumer of its own, outside of the stream's group, and passes them through the transformation. " +
			"Nothing is executed and no position moves, whether the stream runs or not.",
	}, s.checkStream)
}

func (s *service) checkStream(ctx context.Context, in *checkInput) (*checkOutput, error) {
	if err := graphmill.ValidateName("name", in.Name); err != nil {
		return nil, err
	}
	var req CheckRequest
	if in.Body != nil {
		req = *in.Body
	}
	batches, err := s.engine.CheckStream(ctx, in.Name, server.CheckRequest{
		BatchLimit: cmp.Or(req.BatchLimit, server.DefaultCheckBatches),
		Timeout:    cmp.Or(time.Duration(req.TimeoutMS)*time.Millisecond, server.DefaultCheckTimeout),
		From:       cmp.Or(req.From, server.DefaultCheckFrom),
	})
	if err != nil {
		return nil, err
	}
	out := &checkOutput{Body: Checked{Batches: make([]CheckedBatch, 0, len(batches))}}
	for _, b := range batches {
		statements, failures, err := NewStatements(b.Messages, b.Output)
		if err != nil {
			return nil, err
		}
		raw := make([]Message, 0, len(b.Messages))
		for i := range b.Messages {
			raw = append(raw, NewMessage(&b.Messages[i]))
		}
		out.Body.Batches = append(out.Body.Batches, CheckedBatch{Statements: statements, RawMessages: raw, Failures: failures})
	}
	return out, nil
}
