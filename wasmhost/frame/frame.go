// Package frame is the wire form between the host and a transformation: the
// request frame that carries a batch into a module's memory, the response frame
// that carries statements and failures out, and the parameter values within.
// sdk/ABI.md describes every byte; the names here are the ones used there.
//
// An Encoder writes requests in place, a Decoder reads responses. Nothing of a
// response is trusted: every count, offset, length and depth is checked, all
// text is checked for UTF-8, and what a response may cost the host in memory is
// bounded by Limits. The decoder returns errors and never panics.
package frame

import (
	"encoding/binary"
	"fmt"

	"github.com/graphmill/graphmill"
)

// The magic numbers that begin the two frames: "GMB1" and "GMR1".
const (
	RequestMagic  = 0x31424d47
	ResponseMagic = 0x31524d47
)

// Null as a length means null, as a message index the batch as a whole, and as
// the cursor that no message has been begun.
const Null = 0xffffffff

// Sizes in bytes.
const (
	RequestHeaderSize = 48
	MessageSize       = 72
	TopicSize         = 16
	HeaderEntrySize   = 16

	ResponseHeaderSize = 28
	QuerySize          = 16
	NameSize           = 8
	StatementSize      = 16
	FailureSize        = 16
)

// CursorOffset is where the cursor stands in a request frame.
const CursorOffset = 4

// Flags of a failure entry.
const (
	FailureRetry   = 1 // worth trying again
	FailureAborted = 2 // the guest stopped at this message, nothing of the response counts
)

// MaxDepth is how deep lists and maps may be nested in parameters, the
// parameters' own map or array counted.
const MaxDepth = 64

var le = binary.LittleEndian

// Error is what is wrong with a response, or with a batch that no request frame
// can hold.
type Error struct {
	Field string // part of the frame: "statement[12].params"
	Text  string

	// OverLimit marks what would be right but for a limit of the host.
	OverLimit bool

	// Message is the index of the message whose statement is wrong, or WholeBatch.
	Message int
}

// Error returns field and text.
func (e *Error) Error() string { return e.Field + ": " + e.Text }

func malformed(field, format string, args ...any) *Error {
	return &Error{Field: field, Text: fmt.Sprintf(format, args...), Message: graphmill.WholeBatch}
}

func overLimit(field, format string, args ...any) *Error {
	e := malformed(field, format, args...)
	e.OverLimit = true
	return e
}
