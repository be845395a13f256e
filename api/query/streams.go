package query

import (
	"context"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/api/statement"
	"github.com/graphmill/graphmill/server"
)

func (e *executor) create(ctx context.Context, s *statement.Create) (Result, error) {
	info, err := e.engine.CreateStream(ctx, server.CreateRequest{Spec: s.Spec, Check: true, Owner: e.owner})
	r := note("CreateStream", "Created stream %s.", s.Spec.Name)
	r.warn("CreateStream", info.Warnings...)
	if err != nil {
		return Result{}, tell(subject{name: s.Spec.Name, source: s.Spec.Source, transform: s.Spec.Transform}, creating, err)
	}
	return r, nil
}

func (e *executor) alter(ctx context.Context, s *statement.Alter) (Result, error) {
	changed, err := e.engine.PatchStream(ctx, s.Name, server.PatchRequest{Patch: s.Patch, From: s.From, Check: true})
	r := note("AlterStream", "Altered stream %s.", s.Name)
	r.warn("AlterStream", changed.Warnings...)
	return r, e.failed(ctx, s.Name, altering, err)
}

func (e *executor) start(ctx context.Context, s *statement.Start) (Result, error) {
	var req server.StartRequest
	if s.BatchLimit != nil {
		limit, err := atLeastOne(s.BatchLimit, "BATCH_LIMIT", "Batch limit has to be greater than or equal to 1")
		if err == nil {
			_, err = atLeastOne(s.TimeoutMS, "TIMEOUT", "Timeout has to be greater than or equal to 1 milliseconds")
		}
		if err != nil {
			return Result{}, e.failed(ctx, s.Name, startingLimited, err)
		}
		req = server.StartRequest{BatchLimit: limit, Timeout: s.Timeout(0), AtOnce: true}
	}
	_, err := e.engine.StartStream(ctx, s.Name, req)
	if req.BatchLimit > 0 {
		return Result{}, e.failed(ctx, s.Name, startingLimited, err) // Memgraph sends no notification of it
	}
	return note("StartStream", "Started stream %s.", s.Name), e.failed(ctx, s.Name, starting, err)
}

// stop counts a stream that has failed as stopped, as Memgraph does. It is desired
// stopped then all the same, so that a restart of the server does not try it again.
func (e *executor) stop(ctx context.Context, s *statement.Stop) (Result, error) {
	info, err := e.engine.StopStream(ctx, s.Name)
	if err == nil && info.HadFailed {
		err = &graphmill.Error{Kind: graphmill.KindConflict, Code: codeAlreadyStopped, Next: "it had failed, and stays stopped now; CALL mg.stream_status tells why it failed"}
	}
	if err != nil {
		return Result{}, e.failed(ctx, s.Name, stopping, err)
	}
	return note("StopStream", "Stopped stream %s.", s.Name), nil
}

func (e *executor) drop(ctx context.Context, name string) (Result, error) {
	before, err := e.engine.Stream(ctx, name)
	if err == nil {
		err = e.engine.DeleteStream(ctx, name, server.DeleteRequest{})
	}
	if err != nil {
		return Result{}, e.failed(ctx, name, dropping, err)
	}
	r := note("DropStream", "Dropped stream %s.", name)
	if kept := before.Kept(); kept != "" {
		r.warn("DropStream", kept)
	}
	return r, nil
}

// atLeastOne returns a limit, 0 where none is given; otherwise is the text of the
// error.
func atLeastOne(n *int64, keyword, otherwise string) (int, error) {
	switch {
	case n == nil:
		return 0, nil
	case *n < 1:
		return 0, graphmill.Invalid("", "%s", otherwise)
	case int64(int(*n)) != *n:
		return 0, graphmill.Invalid(keyword, "%d is too much", *n)
	}
	return int(*n), nil
}

func (e *executor) show(ctx context.Context) (Result, error) {
	r := Result{Columns: []string{"name", "type", "batch_interval", "batch_size", "transformation_name", "owner", "is running"}}
	streams, err := e.engine.Streams(ctx)
	if err != nil {
		return Result{}, err
	}
	for _, s := range streams {
		var owner graphmill.Value
		if s.Owner != "" {
			owner = s.Owner
		}
		r.Rows = append(r.Rows, []graphmill.Value{s.Spec.Name, s.Spec.Source, s.Spec.BatchIntervalMS, int64(s.Spec.BatchSize), s.Spec.Transform, owner, s.Running()})
	}
	return r, nil
}

func (e *executor) showCreate(ctx context.Context, name string) (Result, error) {
	info, err := e.stream(ctx, name)
	if err != nil {
		return Result{}, e.failed(ctx, name, showing, err)
	}
	text := statement.Print(&statement.Create{Spec: info.Spec.Redacted()})
	return Result{Columns: []string{"name", "statement"}, Rows: [][]graphmill.Value{{name, text}}}, nil
}

// stream returns a stream of which the definition can be read.
func (e *executor) stream(ctx context.Context, name string) (server.StreamInfo, error) {
	info, err := e.engine.Stream(ctx, name)
	if err == nil && info.State == graphmill.StateBroken && info.Reason != nil {
		err = &graphmill.Error{Kind: graphmill.KindConflict, Code: info.Reason.Code, Text: info.Reason.Text, Next: info.Reason.NextStep}
	}
	return info, err
}
