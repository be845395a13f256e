package graphmill

import (
	"errors"
	"fmt"
)

// Kind is the class of an error, which decides how it is answered: the HTTP
// layer maps kinds to statuses in one place.
type Kind string

// The kinds of error.
const (
	KindInvalid     Kind = "invalid"      // what was asked cannot be right; Field names the culprit
	KindNotFound    Kind = "not_found"    // no such module, stream, version
	KindConflict    Kind = "conflict"     // right in itself, not in this state
	KindTooLarge    Kind = "too_large"    // over a limit of the server
	KindUnavailable Kind = "unavailable"  // broker, topic or database is not there; trying later may do
	KindTimeout     Kind = "timeout"      // a time limit ended it
	KindAuth        Kind = "unauthorized" // the caller is not let in
	KindInternal    Kind = "internal"     // a defect or a failing disk: logged whole, told briefly
)

// Error is an error that a user is meant to read.
type Error struct {
	Kind  Kind
	Code  string // stable, snake_case, finer than Kind: "stream_exists"
	Field string // the field, option or flag that is wrong, in snake_case; may be empty
	Text  string // names the thing; no secret in it
	Next  string // what to do next, a sentence or a command; may be empty
	Err   error  // the cause; may be nil
}

// Error returns text and cause.
func (e *Error) Error() string {
	s := e.Text
	if e.Field != "" {
		s = e.Field + ": " + s
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// KindOf returns the kind of the first *Error in the chain, else KindInternal.
// Nil has no kind: the empty string.
func KindOf(err error) Kind {
	if err == nil {
		return ""
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return KindInternal
}

// Invalid makes an error of KindInvalid about field.
func Invalid(field, format string, args ...any) *Error {
	return &Error{Kind: KindInvalid, Code: "invalid", Field: field, Text: fmt.Sprintf(format, args...)}
}

// advise gives an error its next step.
func (e *Error) advise(next string) *Error {
	e.Next = next
	return e
}

// NotFound makes an error of KindNotFound. Code is code.
func NotFound(code, format string, args ...any) *Error {
	return &Error{Kind: KindNotFound, Code: code, Text: fmt.Sprintf(format, args...)}
}

// Conflict makes an error of KindConflict. Code is code.
func Conflict(code, format string, args ...any) *Error {
	return &Error{Kind: KindConflict, Code: code, Text: fmt.Sprintf(format, args...)}
}

// FaultClass says what may heal a failed batch.
type FaultClass string

// The classes of fault.
const (
	// FaultTransient: the same statements again may pass (deadlock, outage).
	FaultTransient FaultClass = "transient"
	// FaultTooBig: fewer messages at once may pass.
	FaultTooBig FaultClass = "too_big"
	// FaultSetup: nothing passes until somebody mends the set-up (password,
	// database, module).
	FaultSetup FaultClass = "set_up"
	// FaultMessage: a message, or the texts made of it, are refused for good.
	FaultMessage FaultClass = "message"
)

// Fault is why a batch, or access to a broker or database, failed. Each room
// that talks to the outside classifies its own errors, in one place; the
// stream's life cycle decides by the class.
type Fault struct {
	Class FaultClass
	Code  string // reason code of a stream's state: "auth", "database_unreachable", "message"
	Text  string // what happened, for people; no secret in it
	Next  string // what to do, a sentence or a command; may be empty

	// Outage marks a transient fault of reach rather than of rivalry: broker or
	// database is away. Outages are waited out without limit, conflicts are
	// retried a limited number of times.
	Outage bool

	// Unknown marks a COMMIT whose outcome is not known: it may have happened.
	Unknown bool

	// Unfamiliar marks a fault of class message that may be none, because its code
	// is not known, or also comes of races and of what is around the database. It
	// is worth two more tries before a message is blamed.
	Unfamiliar bool

	// Message is the index in the batch of the message to look at first, or
	// WholeBatch. A hint only.
	Message int

	Err error // the cause; may be nil
}

// Error returns code, text and cause.
func (f *Fault) Error() string {
	if f.Err != nil {
		return fmt.Sprintf("%s: %s: %v", f.Code, f.Text, f.Err)
	}
	return f.Code + ": " + f.Text
}

// Unwrap returns the cause.
func (f *Fault) Unwrap() error { return f.Err }
