package graphmill

// WholeBatch as the message of a statement or a failure means the batch as a
// whole.
const WholeBatch = -1

// Query is one query text of a transformation's answer. Statements of the same
// text share one *Query.
type Query struct {
	Text string

	// Names are the parameter names of statements that carry their values by
	// position. Nil: the statements carry maps.
	Names []string
}

// Statement is one (query, parameters) pair that a transformation returned.
// See Value for the Go types of parameters.
type Statement struct {
	Query *Query

	// Exactly one of the two is used: Values where Query.Names is not nil (the
	// lengths are equal), Params else. Params nil: no parameters.
	Values []any
	Params map[string]any

	// Message is the index in the batch of the message that it came from, or
	// WholeBatch.
	Message int
}

// Parameters returns the parameters as a map, made anew where the statement
// carries them by position. It is never nil.
func (s *Statement) Parameters() map[string]any {
	if s.Query.Names == nil {
		if s.Params == nil {
			return map[string]any{}
		}
		return s.Params
	}
	m := make(map[string]any, len(s.Values))
	for i, name := range s.Query.Names {
		m[name] = s.Values[i]
	}
	return m
}

// Failure is a transformation's own report that it could not handle a message.
type Failure struct {
	Message int    `json:"message"` // index in the batch, or WholeBatch
	Text    string `json:"text"`
	Retry   bool   `json:"retry,omitempty"`   // worth trying again
	Aborted bool   `json:"aborted,omitempty"` // it stopped here: nothing of this answer counts
}

// Output is the answer of a transformation to one batch: statements in the
// order in which they are to be executed, and failures. A message with neither
// was dropped on purpose.
type Output struct {
	Statements []Statement
	Failures   []Failure
}
