package server

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/wasmhost"
)

// RunTransformation calls a transformation once on given messages, in an
// instance of its own. A transformation that fails as a whole is an error of
// KindInvalid with code transformation_failed; module and function that are not
// there are of KindNotFound.
func (s *Server) RunTransformation(ctx context.Context, r RunRequest) (RunResult, error) {
	t, err := s.loadTransformation(ctx, graphmill.TransformationRef{Module: r.Module, Function: r.Function})
	if err != nil {
		return RunResult{}, err
	}
	defer t.close(ctx)
	return Run(ctx, t.wasm, r)
}

// Run calls a transformation of a loaded module once, in an instance of its
// own. Errors are those of RunTransformation.
func Run(ctx context.Context, wasm *wasmhost.Module, r RunRequest) (RunResult, error) {
	var lines runLog
	began := time.Now()
	instance, err := wasm.Instantiate(ctx, wasmhost.InstanceConfig{
		Function: r.Function,
		Settings: r.Settings,
		Log:      lines.add,
	})
	if err != nil {
		return RunResult{}, transformationFailed(err, nil)
	}
	out, err := instance.Transform(ctx, graphmill.SourceManual, r.Messages)
	took := time.Since(began)
	_ = instance.Close(context.WithoutCancel(ctx)) // it lets go of memory, and logs how much was dropped
	if err != nil {
		return RunResult{}, transformationFailed(err, func(i int) string { return fmt.Sprintf("message %d", i) })
	}
	return RunResult{Output: out, Log: lines, Duration: took, Memory: instance.Memory()}, nil
}

// maxRunLog bounds the log lines that one dry run hands back.
const maxRunLog = 1000

// runLog collects what a guest logs during one dry run.
type runLog []LogLine

func (l *runLog) add(level slog.Level, text string) {
	if len(*l) < maxRunLog {
		*l = append(*l, LogLine{Level: strings.ToLower(level.String()), Text: text})
	}
}

// transformationFailed makes a guest's fault an answer to whoever asked for the
// run: it is their module and their messages. name names a message.
func transformationFailed(err error, name func(i int) string) error {
	f, ok := asFault(err)
	if !ok {
		return err
	}
	e := &graphmill.Error{Kind: graphmill.KindInvalid, Code: "transformation_failed", Text: f.Text, Next: f.Next, Err: f.Err}
	if f.Message != graphmill.WholeBatch && name != nil {
		e.Text = fmt.Sprintf("at %s: %s", name(f.Message), f.Text)
	}
	return e
}
