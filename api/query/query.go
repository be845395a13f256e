// Package query executes stream statements: it translates each into the verbs of
// the engine, and their answers into the columns, rows, notifications and errors
// of Memgraph. It knows no door: HTTP calls it, and Bolt may.
package query

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/api/statement"
	"github.com/graphmill/graphmill/server"
)

// Engine is what statements ask of the server behind them. Its errors are those
// that api.Engine tells.
type Engine interface {
	CreateStream(ctx context.Context, r server.CreateRequest) (server.StreamInfo, error)
	Streams(ctx context.Context) ([]server.StreamInfo, error)
	Stream(ctx context.Context, name string) (server.StreamInfo, error)
	DeleteStream(ctx context.Context, name string, r server.DeleteRequest) error
	StartStream(ctx context.Context, name string, r server.StartRequest) (server.StartResult, error)
	StopStream(ctx context.Context, name string) (server.StreamInfo, error)
	StartAll(ctx context.Context) ([]server.Changed, error)
	StopAll(ctx context.Context) ([]server.Changed, error)
	PatchStream(ctx context.Context, name string, r server.PatchRequest) (server.PatchResult, error)
	CheckStream(ctx context.Context, name string, r server.CheckRequest) ([]server.CheckBatch, error)
	StreamStatus(ctx context.Context, name string) (graphmill.StreamStatus, error)
	SetStreamOffsets(ctx context.Context, name string, r server.SetOffsetsRequest) (graphmill.OffsetsInfo, error)

	Modules(ctx context.Context) ([]graphmill.Module, error)
	ModuleContent(ctx context.Context, name string, version int) (graphmill.Module, []byte, error)
	PushModule(ctx context.Context, r server.PushRequest) (server.PushResult, error)
	DeleteModule(ctx context.Context, name string) error
	RecheckModules(ctx context.Context, name string) error
}

// Result is the answer to a statement.
type Result struct {
	Columns       []string
	Rows          [][]graphmill.Value // each as long as Columns
	Notifications []Notification
}

// Notification is what a statement tells beside its rows, as Bolt has it.
type Notification struct {
	Severity    string `json:"severity" enum:"INFO,WARNING" doc:"INFO: what was done. WARNING: what to look at."`
	Code        string `json:"code" doc:"A stable word, such as StartStream."`
	Title       string `json:"title" doc:"What happened, in a sentence."`
	Description string `json:"description,omitempty" doc:"What to do about it."`
}

// Severities of notifications, as Memgraph has them.
const (
	SeverityInfo    = "INFO"
	SeverityWarning = "WARNING"
)

// Request is a statement to execute.
type Request struct {
	Statement  string
	Parameters map[string]any // see statement.Parse
	Owner      string         // of streams that it creates; empty: nobody
	Logger     *slog.Logger   // of what is told as internal only; nil: nothing is logged
}

// Run executes one statement. Errors: *statement.Error for what is no statement;
// *graphmill.Error of the engine, with Memgraph's words before its own.
func Run(ctx context.Context, engine Engine, r Request) (Result, error) {
	s, err := statement.Parse(r.Statement, r.Parameters)
	if err != nil {
		return Result{}, err
	}
	e := executor{engine: engine, owner: r.Owner, log: cmp.Or(r.Logger, slog.New(slog.DiscardHandler))}
	result, err := e.run(ctx, s)
	if err != nil {
		return Result{}, err
	}
	if result.Columns == nil {
		result.Columns = []string{}
	}
	return result, nil
}

// executor executes one statement.
type executor struct {
	engine Engine
	owner  string
	log    *slog.Logger
}

func (e *executor) run(ctx context.Context, s statement.Statement) (Result, error) {
	switch s := s.(type) {
	case *statement.Create:
		return e.create(ctx, s)
	case *statement.Alter:
		return e.alter(ctx, s)
	case *statement.Start:
		return e.start(ctx, s)
	case *statement.StartAll:
		changed, err := e.engine.StartAll(ctx)
		return e.all(ctx, changed, starting, "StartAllStreams", "Started all streams."), err
	case *statement.Stop:
		return e.stop(ctx, s)
	case *statement.StopAll:
		changed, err := e.engine.StopAll(ctx)
		return e.all(ctx, changed, stopping, "StopAllStreams", "Stopped all streams."), err
	case *statement.Drop:
		return e.drop(ctx, s.Name)
	case *statement.Show:
		return e.show(ctx)
	case *statement.ShowCreate:
		return e.showCreate(ctx, s.Name)
	case *statement.Check:
		return e.check(ctx, s)
	case *statement.Call:
		return e.call(ctx, s)
	}
	return Result{}, fmt.Errorf("a statement of type %T cannot be executed", s)
}

// note is the result of a statement that has no rows.
func note(code, title string, args ...any) Result {
	return Result{Notifications: []Notification{{Severity: SeverityInfo, Code: code, Title: fmt.Sprintf(title, args...)}}}
}

func (r *Result) warn(code string, warnings ...string) {
	for _, w := range warnings {
		r.Notifications = append(r.Notifications, Notification{Severity: SeverityWarning, Code: code, Title: w})
	}
}

// all tells which streams could not be started or stopped; those that were in that
// state before are no news.
func (e *executor) all(ctx context.Context, changed []server.Changed, what doing, code, title string) Result {
	r := note(code, "%s", title)
	for _, c := range changed {
		if c.Err == nil {
			continue
		}
		n := Notification{Severity: SeverityWarning, Code: code}
		if told := asError(e.failed(ctx, c.Spec.Name, what, c.Err)); told != nil {
			n.Title, n.Description = fmt.Sprintf("Stream %s: %s", c.Spec.Name, told.Text), told.Next
		} else {
			e.log.ErrorContext(ctx, "a stream could not be started or stopped", "stream", c.Spec.Name, "error", c.Err)
			n.Title, n.Description = fmt.Sprintf("Stream %s: internal error", c.Spec.Name), "the server's log tells more"
		}
		r.Notifications = append(r.Notifications, n)
	}
	return r
}
