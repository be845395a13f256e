// Package statement reads and writes the stream statements: Memgraph's, and ours
// beside them. It turns a text into a Statement in the words of package graphmill
// and knows nothing of the engine that executes it.
//
// The rules are those of Memgraph's statements, where they are not widened on
// purpose; docs/statements.md lists both.
package statement

import (
	"encoding/json"
	"math"
	"time"

	"github.com/graphmill/graphmill"
)

// DefaultConsumerGroup is the consumer group of a stream that a CREATE statement
// gives none, as in Memgraph. Streams that are created otherwise have one of
// their own.
const DefaultConsumerGroup = "mg_consumer"

// A Statement is one of *Create, *Alter, *Start, *StartAll, *Stop, *StopAll,
// *Drop, *Show, *ShowCreate, *Check and *Call. Its parameters have been put in.
type Statement interface{ statement() }

// Create is CREATE KAFKA STREAM. What the statement does not say is the zero
// value, except for the consumer group: DefaultConsumerGroup.
type Create struct{ Spec graphmill.StreamSpec }

// Alter is ALTER STREAM name SET options FROM start.
type Alter struct {
	Name  string
	Patch json.RawMessage // see graphmill.StreamSpec.Patched; NULL of the statement is null
	From  string          // as in Check: where reading begins in topics that are new
}

// Start is START STREAM name.
type Start struct {
	Name string
	Limits
}

// Limits are BATCH_LIMIT and TIMEOUT as they stand in the statement; nil where
// they do not. Neither is negative.
type Limits struct {
	BatchLimit *int64 // batches
	TimeoutMS  *int64 // milliseconds
}

// StartAll is START ALL STREAMS.
type StartAll struct{}

// Stop is STOP STREAM name.
type Stop struct{ Name string }

// StopAll is STOP ALL STREAMS.
type StopAll struct{}

// Drop is DROP STREAM name.
type Drop struct{ Name string }

// Show is SHOW STREAMS.
type Show struct{}

// ShowCreate is SHOW CREATE STREAM name.
type ShowCreate struct{ Name string }

// Check is CHECK STREAM name.
type Check struct {
	Name string
	Limits
	From string // committed, earliest, latest or a time in RFC 3339; empty: not given
}

// Call is CALL procedure(arguments) YIELD ....
type Call struct {
	Procedure string  // with its dots
	Arguments []any   // as in params of Parse
	Yield     []Yield // nil: all results, as with YIELD *
}

// Yield is one result of a procedure that a CALL asks for.
type Yield struct {
	Name string
	As   string // the column; Name where the statement gives none
}

func (*Create) statement()     {}
func (*Alter) statement()      {}
func (*Start) statement()      {}
func (*StartAll) statement()   {}
func (*Stop) statement()       {}
func (*StopAll) statement()    {}
func (*Drop) statement()       {}
func (*Show) statement()       {}
func (*ShowCreate) statement() {}
func (*Check) statement()      {}
func (*Call) statement()       {}

// Timeout returns TIMEOUT as a duration, or otherwise where it is not given. What
// is longer than a Duration can be is the longest.
func (l Limits) Timeout(otherwise time.Duration) time.Duration {
	if l.TimeoutMS == nil {
		return otherwise
	}
	const most = int64(math.MaxInt64 / time.Millisecond)
	return time.Duration(min(*l.TimeoutMS, most)) * time.Millisecond
}
