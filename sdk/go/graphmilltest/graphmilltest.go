// Package graphmilltest runs transformations in ordinary Go tests, without
// WebAssembly: it makes messages, calls the exported function, and gives back what it
// answered as plain Go values.
//
//	func TestUser(t *testing.T) {
//		result := graphmilltest.Run(t, transform, graphmilltest.Text(`{"id": 7, "name": "Ada"}`))
//		want := map[string]any{"id": int64(7), "name": "Ada"}
//		if got := result.Statements[0].Params; !reflect.DeepEqual(got, want) {
//			t.Errorf("got %v, want %v", got, want)
//		}
//	}
//
// What a handler logs goes to standard error. A panic of a handler is a panic of the
// test. Settings are tested by calling the function that [graphmill.Configure] is
// given.
package graphmilltest

import (
	"testing"

	graphmill "github.com/graphmill/graphmill/sdk/go"
)

// Message is a message to run a transformation on. The zero value of a field is what
// a test most often wants; a nil payload is a tombstone.
type Message struct {
	Payload   []byte
	Key       []byte
	Topic     string
	Partition int32
	Offset    int64
	Timestamp int64 // milliseconds since the epoch
	Headers   []Header

	ID           string // as Pulsar's messages have one
	BrokerTime   int64  // milliseconds since the epoch; 0 stands for not known
	Redeliveries uint32
}

// Header is a header of a message; a nil value is null.
type Header struct {
	Key   string
	Value []byte
}

// Text makes a message of a payload.
func Text(payload string) Message { return Message{Payload: []byte(payload)} }

// Tombstone makes a message without a payload.
func Tombstone(key string) Message { return Message{Key: []byte(key)} }

// Result is the answer of a transformation to a batch.
type Result struct {
	Statements []Statement // in the order in which they are run
	Failures   []Failure
}

// WholeBatch as the message of a statement or a failure means the batch as a whole.
const WholeBatch = -1

// Statement is a query and its parameters.
type Statement struct {
	Query string

	// Params are the parameters by name, also where they were given by position. It
	// is never nil. Values are nil, bool, int64, float64, string, []byte, []any,
	// map[string]any, time.Time, and graphmill's Date, LocalTime, Time,
	// LocalDateTime, ZonedDateTime, Duration, Point2D and Point3D.
	Params map[string]any

	Message int // index of the message that it comes from, or WholeBatch
}

// Failure is a message that could not be handled.
type Failure struct {
	Message int // its index, or WholeBatch
	Text    string
	Retry   bool // worth trying again
	Aborted bool // the handler stopped there
}

// Run calls a transformation with messages as one batch: the function that a plugin
// exports. The stream is named "test", and the messages are given by hand
// (graphmill.SourceManual). An answer that Graphmill would not take ends the test.
func Run(t testing.TB, transform func(graphmill.Request) graphmill.Response, messages ...Message) Result {
	t.Helper()
	response := transform(graphmill.Request(encode("test", graphmill.SourceManual, messages)))
	result, err := decode(response.Frame(), len(messages))
	if err != nil {
		t.Fatalf("the answer of the transformation is not as the ABI wants it: %v", err)
	}
	return result
}
