package query

import (
	"cmp"
	"context"
	"fmt"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/api/statement"
	"github.com/graphmill/graphmill/server"
)

// check has the rows of Memgraph's CHECK, all that are asked for or none: the stream
// must be stopped, and counts as running meanwhile.
func (e *executor) check(ctx context.Context, s *statement.Check) (Result, error) {
	limit, err := atLeastOne(s.BatchLimit, "BATCH_LIMIT", "Batch limit has to be positive!")
	if err == nil {
		_, err = atLeastOne(s.TimeoutMS, "TIMEOUT", "Timeout has to be positive!")
	}
	if err != nil {
		return Result{}, e.failed(ctx, s.Name, checking, err)
	}
	batches, err := e.engine.CheckStream(ctx, s.Name, server.CheckRequest{
		BatchLimit: cmp.Or(limit, server.DefaultCheckBatches),
		Timeout:    s.Timeout(server.DefaultCheckTimeout),
		From:       cmp.Or(s.From, server.DefaultCheckFrom),
		Alone:      true,
		All:        true,
	})
	if err != nil {
		return Result{}, e.failed(ctx, s.Name, checking, err)
	}
	r := note("CheckStream", "Checked stream %s.", s.Name)
	r.Columns = []string{"queries", "raw messages"}
	for _, b := range batches {
		r.Rows = append(r.Rows, checkRow(b))
	}
	r.warn("CheckStream", failureTexts(batches)...)
	return r, nil
}

func checkRow(b server.CheckBatch) []graphmill.Value {
	queries := make([]any, len(b.Output.Statements))
	for i := range b.Output.Statements {
		s := &b.Output.Statements[i]
		var params any
		if p := s.Parameters(); len(p) > 0 {
			params = p
		}
		queries[i] = map[string]any{"query": s.Query.Text, "parameters": params}
	}
	raw := make([]any, len(b.Messages))
	for i := range b.Messages {
		raw[i] = string(b.Messages[i].Payload)
	}
	return []graphmill.Value{queries, raw}
}

// maxNotes bounds how many failures of messages a CHECK tells.
const maxNotes = 20

// failureTexts tells which messages of a batch the transformation could not handle,
// or would not be allowed to.
func failureTexts(batches []server.CheckBatch) []string {
	var texts []string
	left := 0
	for _, b := range batches {
		for _, f := range b.Output.Failures {
			if len(texts) == maxNotes {
				left++
				continue
			}
			texts = append(texts, failureText(b.Messages, f))
		}
	}
	if left > 0 {
		texts = append(texts, fmt.Sprintf("%d more messages failed", left))
	}
	return texts
}

func failureText(messages []graphmill.Message, f graphmill.Failure) string {
	if f.Message < 0 || f.Message >= len(messages) {
		return "The transformation could not handle the batch: " + f.Text
	}
	m := &messages[f.Message]
	return fmt.Sprintf("The transformation could not handle message %s: %s", m.Position(), f.Text)
}
