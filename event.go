package graphmill

import "time"

// EventType says what kind of news an event is.
type EventType string

// The types of event.
const (
	EventState   EventType = "state"   // a stream is in another state, or in the same for another reason
	EventBatches EventType = "batches" // what a stream has done since its last event of this type
	EventFailure EventType = "failure" // a batch has failed, or the stream could not go on
	EventModule  EventType = "module"  // a stream transforms with another version from here on
	EventWarning EventType = "warning" // something that a person should know, and nothing has failed
	EventLagged  EventType = "lagged"  // the reader was too slow, or came back too late: events are missing here
)

// EventTypes lists what may be asked for. EventLagged comes unasked.
var EventTypes = []EventType{EventState, EventBatches, EventFailure, EventModule, EventWarning}

// Event is one piece of news about a stream. Exactly one of the pointers is set,
// the one that the type names; a warning has a text.
//
// No secret stands in an event. Texts are those of the status and the log.
type Event struct {
	// ID is where a reader may go on from. Events of one server have growing
	// ones, and those of a server that has been restarted differ from all before.
	// Empty: an event of type lagged, which only its reader is told.
	ID     string    `json:"id,omitempty"`
	At     time.Time `json:"at"`
	Type   EventType `json:"type"`
	Stream string    `json:"stream,omitempty"`

	State   *StateChange   `json:"state,omitempty"`
	Batches *BatchesDone   `json:"batches,omitempty"`
	Failure *FailureStatus `json:"failure,omitempty"`
	Module  *ModuleVersion `json:"module,omitempty"`
	Lagged  *Lagged        `json:"lagged,omitempty"`
	Text    string         `json:"text,omitempty"`
}

// StateChange is the state that a stream is in from here on.
type StateChange struct {
	State  State   `json:"state"`
	Reason *Reason `json:"reason,omitempty"` // of waiting and failed
}

// BatchesDone sums up batches that have been acknowledged. There is one a second
// at most for a stream, however many batches it does.
type BatchesDone struct {
	Since          time.Time  `json:"since"` // when the first of them was done
	Batches        int64      `json:"batches"`
	Messages       int64      `json:"messages"`
	Bytes          int64      `json:"bytes"`
	Statements     int64      `json:"statements"`
	StatementsSent int64      `json:"statements_sent"`
	Dropped        int64      `json:"dropped"`
	Positions      []Position `json:"positions"` // acknowledged by them, per partition
}

// Lagged says how many events are missing.
type Lagged struct {
	Lost int64 `json:"lost"` // -1: not known, the server has been restarted or remembers less
}
