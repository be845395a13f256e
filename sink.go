package graphmill

import "context"

// Work is one batch's statements, to be executed in one transaction.
type Work struct {
	Stream   string
	Database string   // empty: the sink's own default
	Coalesce bool     // runs of equal texts may be sent as one statement
	Allow    []string // StreamSpec.Allow: what statements may do beside reading and writing data

	// Module is the version that made the statements. A sink records it with the
	// batch.
	Module ModuleVersion

	// Attempt counts the executions of these statements, from 1. 0: it is not
	// said.
	Attempt int

	First      []Position // where the batch begins, per partition
	Last       []Position // the positions once it is done
	Statements []Statement
}

// Executed tells what a sink did for a Work.
type Executed struct {
	Statements int // statements of the work that were executed
	Sent       int // statements that were sent, after coalescing
}

// Sink is where statements go. Safe for concurrent use. Errors are *Fault, but
// for the context's.
type Sink interface {
	// Execute runs all statements in order in one transaction and commits it.
	// On error nothing was applied, unless the fault says Unknown. It tries
	// once: repeating is the caller's business.
	Execute(ctx context.Context, w Work) (Executed, error)

	// Verify reaches the database once and tells why it cannot be used.
	Verify(ctx context.Context, database string) error

	// Texts tells how the query texts of a stream are executed, as far as they
	// are remembered.
	Texts(stream string) []TextStatus

	// Lanes tells how many lanes there are now, of all running streams: as many
	// calls of Execute may come at once. A sink keeps that many connections
	// within reach, and a margin for Verify. It does not block.
	Lanes(n int)

	// Close ends all connections.
	Close(ctx context.Context) error
}
