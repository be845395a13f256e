package server

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/graphmill/graphmill"
)

// codeNotAllowed is the reason code of a statement that the stream's ALLOW does
// not permit. What mends it is not what mends other faults of messages.
const codeNotAllowed = "not_allowed"

// codeInternal is the reason code of a defect or a failing disk.
const codeInternal = "internal"

// codeUnresponsive is the reason code of a database that takes connections and
// questions, and answers none.
const codeUnresponsive = "database_unresponsive"

// codeExhausted is the sink's, of one whose connections are all in use.
const codeExhausted = "connections_exhausted"

func unresponsive(silent time.Duration) *graphmill.Fault {
	return &graphmill.Fault{
		Class: graphmill.FaultTransient, Code: codeUnresponsive, Outage: true, Message: graphmill.WholeBatch,
		Text: fmt.Sprintf("the database has not answered for %s", silent.Round(time.Second/10)),
		Next: "see whether it hangs: its log, its process, its disk, the network; the stream goes on by itself once it answers, and a batch under way is given up behind --transaction-timeout",
	}
}

// asFault finds the fault in an error's chain.
func asFault(err error) (*graphmill.Fault, bool) {
	var f *graphmill.Fault
	ok := errors.As(err, &f)
	return f, ok
}

// describe is a fault's text with its cause.
func describe(f *graphmill.Fault) string {
	if f.Err == nil {
		return f.Text
	}
	return fmt.Sprintf("%s: %v", f.Text, f.Err)
}

// setupFault is the fault of an error that is none: a module that cannot be
// loaded, a catalog that cannot be read.
func setupFault(err error) *graphmill.Fault {
	var e *graphmill.Error
	if !errors.As(err, &e) || e.Kind == graphmill.KindInternal {
		return internalFault("the stream cannot run", err)
	}
	return &graphmill.Fault{Class: graphmill.FaultSetup, Code: e.Code, Text: e.Text, Next: e.Next, Message: graphmill.WholeBatch, Err: e.Err}
}

func internalFault(text string, err error) *graphmill.Fault {
	return &graphmill.Fault{Class: graphmill.FaultSetup, Code: codeInternal, Text: text, Message: graphmill.WholeBatch, Err: err}
}

// Refusal makes a fault the answer to a command: what may pass later is
// unavailable, and what somebody has to mend first a conflict.
func Refusal(f *graphmill.Fault) *graphmill.Error {
	kind := graphmill.KindConflict
	switch {
	case f.Code == codeInternal:
		kind = graphmill.KindInternal
	case f.Class == graphmill.FaultTransient:
		kind = graphmill.KindUnavailable
	}
	return &graphmill.Error{Kind: kind, Code: f.Code, Text: f.Text, Next: f.Next, Err: f.Err}
}

// nextOf returns the next step that an error knows, or "".
func nextOf(err error) string {
	var e *graphmill.Error
	if errors.As(err, &e) {
		return e.Next
	}
	return ""
}

// reasonOf makes a fault the reason of the state failed.
func reasonOf(stream string, f *graphmill.Fault) *graphmill.Reason {
	code := f.Code
	if f.Class == graphmill.FaultMessage && f.Code != codeNotAllowed {
		code = "message"
	}
	reason := &graphmill.Reason{Code: code, Text: describe(f), Since: now(), NextStep: nextStep(stream, f)}
	again := "graphmill stream start " + stream
	reason.NextStep = strings.TrimSuffix(reason.NextStep, ", then START the stream") // the command says it
	switch {
	case reason.NextStep == "":
		reason.NextStep = "mend the cause, then: " + again
	case !strings.Contains(reason.NextStep, again):
		reason.NextStep += "; then: " + again
	}
	return reason
}

// nextStep is a fault's next step, as a command where one mends it.
func nextStep(stream string, f *graphmill.Fault) string {
	edit := "graphmill stream edit " + stream
	switch {
	case strings.Contains(f.Next, edit):
		return f.Next
	case f.Code == "module_configure":
		return "correct SETTINGS: " + edit + " --setting NAME=VALUE (or --unset setting.NAME); or, where another version of the module took them: graphmill module rollback MODULE"
	case f.Code == codeOutOfMemory:
		return "give the transformation more memory: " + edit + " --memory-limit SIZE"
	case f.Code == codeDeadline:
		return "give the transformation more time: " + edit + " --time-limit DURATION"
	}
	return f.Next
}

// exhausted is the fault of conflicts that do not end. It is of the set-up: the
// messages are not to blame.
func exhausted(f *graphmill.Fault, attempts int) *graphmill.Fault {
	return &graphmill.Fault{
		Class: graphmill.FaultSetup, Code: "conflicts", Message: graphmill.WholeBatch,
		Text: fmt.Sprintf("the database refused the batch %d times because of conflicting transactions", attempts),
		Next: "look for long transactions on the same nodes, or raise --stream-transaction-conflict-retries",
		Err:  f,
	}
}

// tooBigAlone is the fault of a message that is too big for a transaction of its
// own.
func tooBigAlone(f *graphmill.Fault) *graphmill.Fault {
	return &graphmill.Fault{
		Class: graphmill.FaultMessage, Code: f.Code, Message: 0, Err: f.Err,
		Text: "what came of this message alone is too big for one transaction: " + f.Text,
		Next: "give transactions of the database more memory or time, or let the transformation make less of the message",
	}
}

// reported is the fault of a transformation's own report.
func reported(f graphmill.Failure) *graphmill.Fault {
	return &graphmill.Fault{
		Class: graphmill.FaultMessage, Code: "transformation", Message: f.Message,
		Text: fmt.Sprintf("the transformation reports: %s", f.Text),
	}
}
