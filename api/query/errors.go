package query

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/api/statement"
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
	codeNotFound         = "stream_not_found"
	codeExists           = "stream_exists"
	codeAlreadyRunning   = "already_running"
	codeAlreadyStopped   = "already_stopped"
	codeStreamRunning    = "stream_running"
	codeUnreachable      = "broker_unreachable"
	codeTopicAbsent      = "topic_absent"
	codeCheckTimeout     = "check_timeout"
	codeStartTimeout     = "start_timeout"
	codeModuleNotFound   = "module_not_found"
	codeFunctionNotFound = "function_not_found"
	codeWrongSource      = "wrong_source" // ours
)

// subject is the stream that an error is about.
type subject struct {
	name      string
	source    string // empty: not known
	transform string
}

// consumer is what Memgraph calls a stream in most errors.
func (s subject) consumer() string { return consumerOf(s.source) + " consumer " + s.name }

func consumerOf(source string) string {
	if source == graphmill.SourceNamePulsar {
		return "Pulsar"
	}
	return "Kafka"
}

// failed tells an error about a stream that there is, or should be; see tell.
func (e *executor) failed(ctx context.Context, name string, what doing, err error) error {
	if err == nil {
		return nil
	}
	about := subject{name: name}
	if info, err := e.engine.Stream(ctx, name); err == nil {
		about.source, about.transform = info.Spec.Source, info.Spec.Transform
	}
	return tell(about, what, err)
}

// tell puts an error of the engine into the words that Memgraph has for it, and
// clients look for, with the engine's own behind them. Kind and code stay; the next
// step too, but where it is another statement. What is none of the engine's errors,
// a defect or a caller that has gone, is returned as it is.
func tell(about subject, what doing, err error) error {
	told := asError(err)
	if told == nil {
		return err
	}
	about.name = cut(about.name)
	told.Next = nextStep(about, what, told)
	told.Text, told.Err, told.Field = reasonOf(told), nil, ""
	told.Text = words(about, what, told)
	return told
}

// nextStep is the engine's, but where it is another statement, or names an option
// that statements do not have.
func nextStep(about subject, what doing, told *graphmill.Error) string {
	name := statement.Name(about.name)
	switch {
	case told.Code == codeNotFound:
		return "SHOW STREAMS tells which there are"
	case told.Code == codeExists:
		return fmt.Sprintf("to change it: ALTER STREAM %s SET ...; to begin anew: DROP STREAM %s", name, name)
	case told.Code == codeStreamRunning:
		return "stop it: STOP STREAM " + name
	case what == checking && told.Code == codeCheckTimeout:
		return fmt.Sprintf("wait longer with TIMEOUT, or look at old messages: CHECK STREAM %s FROM earliest", name)
	case what == settingOffset && told.Field == "set":
		return fmt.Sprintf("give an offset that every partition has, -1 for the beginning or -2 for the end; in one partition: graphmill stream offsets %s --set OFFSET --partition TOPIC/NUMBER", about.name)
	case what == altering && told.Field == "from":
		return "end the statement with FROM and earliest, latest, a time, or committed (where the group or subscription is, else START_FROM)"
	case what == altering:
		return strings.Replace(told.Next, server.Unchecked, "with graphmill stream edit --no-check", 1)
	case what == creating:
		return strings.Replace(told.Next, server.Unchecked, "with graphmill apply, which takes CREATE statements too", 1)
	}
	return told.Next
}

// words are Memgraph's, with the reason that told.Text is behind them where they do
// not say all.
func words(about subject, what doing, told *graphmill.Error) string {
	text := stateWords(about, what, told)
	if text == "" {
		text = phaseWords(about, what, told)
	}
	if what == settingOffset && told.Code != codeNotFound && told.Code != codeWrongSource {
		text = fmt.Sprintf("Could not set offset of consumer: %s. Error: %s", about.name, text)
	}
	return text
}

// stateWords are Memgraph's words about the state of a stream, which say all; empty:
// it has none.
func stateWords(about subject, what doing, told *graphmill.Error) string {
	switch told.Code {
	case codeNotFound:
		return fmt.Sprintf("Couldn't find stream '%s'", about.name)
	case codeExists:
		return fmt.Sprintf("Stream already exists with name '%s'", about.name)
	case codeAlreadyRunning, codeStreamRunning:
		return about.consumer() + " is already running"
	case codeAlreadyStopped:
		return about.consumer() + " is already stopped"
	case codeModuleNotFound, codeFunctionNotFound:
		if what == starting || what == startingLimited || what == checking {
			return fmt.Sprintf("Couldn't find transformation %s for stream '%s': %s", about.transform, about.name, told.Text)
		}
	}
	return ""
}

// phaseWords are Memgraph's words for what failed, with the reason behind them.
func phaseWords(about subject, what doing, told *graphmill.Error) string {
	reason := told.Text
	switch what {
	case creating:
		switch {
		case told.Code == codeTopicAbsent:
			return about.consumer() + " cannot find topic: " + reason
		case told.Code == codeUnreachable && about.source == graphmill.SourceNamePulsar:
			reason = "ConnectError: " + reason
		case told.Code == codeUnreachable:
			reason = "Local: Broker transport failure: " + reason
		}
		return "Failed to initialize " + about.consumer() + " : " + reason
	case startingLimited:
		if told.Code == codeStartTimeout {
			reason = "Timeout reached; " + reason
		}
		return "Starting " + about.consumer() + " failed: " + reason
	case checking:
		if told.Code == codeCheckTimeout {
			reason = "timeout reached; " + reason
		}
		return about.consumer() + " check failed: " + reason
	}
	return reason
}

// fieldWords are the words of statements for fields that are no options.
var fieldWords = map[string]string{"batch_limit": "BATCH_LIMIT", "timeout_ms": "TIMEOUT", "from": "FROM", "set": "offset"}

// reasonOf is an error's text with its cause, and the field as statements call it.
func reasonOf(e *graphmill.Error) string {
	told := *e
	field, entry, hasEntry := strings.Cut(e.Field, ".")
	if word := fieldWords[field]; word != "" {
		field = word
	}
	told.Field = statement.Keyword(field)
	if hasEntry {
		told.Field += "." + entry
	}
	return told.Error()
}

// maxNameShown is how much of a name an error repeats, in characters.
const maxNameShown = 200

func cut(name string) string {
	if r := []rune(name); len(r) > maxNameShown {
		return string(r[:maxNameShown]) + "..."
	}
	return name
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
	case errors.As(err, &f):
		e = server.Refusal(f)
	default:
		return nil
	}
	if e.Kind == graphmill.KindInternal {
		return nil
	}
	told := *e
	return &told
}
