package query

import (
	"context"
	"errors"
	"fmt"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/server"
)

// doing is what a statement was about when it failed.
type doing int

const (
	creating doing = iota
	altering
	starting
	startingLimited
	stopping
	dropping
	checking
	showing
	settingOffset
)

// Codes of the engine for which Memgraph has words.
const (
	codeNotFound       = "stream_not_found"
	codeExists         = "stream_exists"
	codeAlreadyRunning = "already_running"
	codeAlreadyStopped = "already_stopped"
	codeStreamRunning  = "stream_running"
	codeUnreachable    = "broker_unreachable"
	codeTopicAbsent    = "topic_absent"
	codeCheckTimeout   = "check_timeout"
	codeStartTimeout   = "start_timeout"
)

// failed tells an error of the engine in the words that Memgraph has for it, and
// clients look for, with the engine's own behind them. Kind, code and next step
// stay.
func (e *executor) failed(ctx context.Context, name string, what doing, err error) error {
	if err == nil {
		return nil
	}
	told := asError(err)
	if told == nil {
		return err
	}
	consumer := consumerOf(e.sourceOf(ctx, name, what, told.Code)) + " consumer " + name
	words := ""
	switch told.Code {
	case codeNotFound:
		words = fmt.Sprintf("Couldn't find stream '%s'", name)
	case codeExists:
		words = fmt.Sprintf("Stream already exists with name '%s'", name)
	case codeAlreadyRunning, codeStreamRunning:
		words = consumer + " is already running"
	case codeAlreadyStopped:
		words = consumer + " is already stopped"
	}
	if words != "" {
		if what == settingOffset && told.Code != codeNotFound {
			words = fmt.Sprintf("Could not set offset of consumer: %s. Error: %s", name, words)
		}
		told.Text, told.Field = words, ""
		return told
	}
	reason := told.Error()
	told.Err, told.Field = nil, ""
	switch what {
	case creating:
		switch told.Code {
		case codeUnreachable:
			reason = "Local: Broker transport failure: " + reason
		case codeTopicAbsent:
			told.Text = consumer + " cannot find topic: " + reason
			return told
		}
		told.Text = "Failed to initialize " + consumer + " : " + reason
	case startingLimited:
		if told.Code == codeStartTimeout {
			reason = "Timeout reached; " + reason
		}
		told.Text = "Starting " + consumer + " failed: " + reason
	case checking:
		if told.Code == codeCheckTimeout {
			reason = "timeout reached; " + reason
		}
		told.Text = consumer + " check failed: " + reason
	case settingOffset:
		told.Text = fmt.Sprintf("Could not set offset of consumer: %s. Error: %s", name, reason)
	default:
		told.Text = reason
	}
	return told
}

// asError returns a copy of the error as the engine tells it; nil for what is
// none of its: a defect, a caller that has gone.
func asError(err error) *graphmill.Error {
	var (
		e *graphmill.Error
		f *graphmill.Fault
	)
	switch {
	case errors.As(err, &e):
		if e.Kind == graphmill.KindInternal {
			return nil
		}
		told := *e
		return &told
	case errors.As(err, &f):
		kind := graphmill.KindConflict
		if f.Class == graphmill.FaultTransient {
			kind = graphmill.KindUnavailable
		}
		return &graphmill.Error{Kind: kind, Code: f.Code, Text: f.Text, Next: f.Next, Err: f.Err}
	}
	return nil
}

func nextOf(err error) string {
	if e := asError(err); e != nil {
		return e.Next
	}
	return ""
}

// sourceOf returns what a stream reads, as far as that is known.
func (e *executor) sourceOf(ctx context.Context, name string, what doing, code string) string {
	if what == creating || code == codeNotFound {
		return graphmill.SourceNameKafka
	}
	info, err := e.engine.Stream(ctx, name)
	if err != nil {
		return graphmill.SourceNameKafka
	}
	return info.Spec.Source
}

func consumerOf(source string) string {
	if source == graphmill.SourceNameKafka {
		return "Kafka"
	}
	return "Pulsar"
}

// tooFew is the error of a CHECK that has not seen as many batches as it was asked
// for: Memgraph's has all rows or none.
func tooFew(name string, n int, req server.CheckRequest) error {
	return &graphmill.Error{
		Kind: graphmill.KindTimeout, Code: codeCheckTimeout,
		Text: fmt.Sprintf("%d of %d batches came within %v", n, req.BatchLimit, req.Timeout),
		Next: fmt.Sprintf("ask for fewer (CHECK STREAM %s BATCH_LIMIT %d), wait longer with TIMEOUT, or read old messages too with FROM earliest", name, max(n, 1)),
	}
}

func failureText(messages []graphmill.Message, f graphmill.Failure) string {
	if f.Message < 0 || f.Message >= len(messages) {
		return "The transformation could not handle the batch: " + f.Text
	}
	m := &messages[f.Message]
	return fmt.Sprintf("The transformation could not handle message %s@%d: %s", m.TopicPartition(), m.Offset, f.Text)
}
