// Package sources holds the contract between a stream and what it reads from.
// The subpackages adapt one broker each; sourcetest holds them to the contract.
package sources

import (
	"context"

	"github.com/graphmill/graphmill"
)

// FromCommitted makes what reads beside a stream begin where the stream would.
const FromCommitted = "committed"

// Source reads one stream's topics and takes its acknowledgements.
//
// Open, Fetch and Close are for one goroutine; Acknowledge and Partitions may
// be called beside Fetch. Errors are *graphmill.Fault, but for the context's.
type Source interface {
	// Open connects, joins the group and settles the start position of every
	// partition that it is given: what has no position gets one that is stored
	// before anything is fetched. It returns once that is done, and every other
	// partition of the topics has a position too, whoever has it: nothing
	// produced after Open returned is missed. It may return with no partition at
	// all, where others of the group hold them. Outages are told to the Observer
	// and waited out until ctx ends; a fault of class set_up ends it.
	Open(ctx context.Context) error

	// Fetch waits until there is something, then returns at most max messages, in
	// order within each partition; more only where it begins an entry of Pulsar's,
	// which it returns as a whole. It returns the context's error when ctx
	// ends; that loses nothing. Outages are told to the Observer and waited
	// out; a *graphmill.Fault means that the source cannot go on.
	Fetch(ctx context.Context, max int) ([]graphmill.Fetch, error)

	// Acknowledge stores positions and returns when the broker has confirmed
	// them. Partitions that are no longer owned are left out in silence: their
	// new owner repeats the messages. An outage is a transient fault; calling
	// again with the same positions is right.
	Acknowledge(ctx context.Context, positions []graphmill.Position) error

	// Partitions tells position, end and lag of the partitions owned here,
	// sorted by topic and partition.
	Partitions(ctx context.Context) ([]graphmill.PartitionStatus, error)

	// Close leaves the group, so that others get the partitions at once. What
	// was not acknowledged will be read again. Closing twice does nothing.
	Close(ctx context.Context) error
}

// Observer is told what happens to a source between calls. Its methods are
// called from the source's own goroutines, one at a time.
type Observer interface {
	// Waiting says that the source cannot go on for now, and keeps trying.
	// Called again when the reason changes.
	Waiting(f *graphmill.Fault)

	// Recovered says that what Waiting told is over.
	Recovered()

	// Absent gives a position for a topic that does not exist and has none: what
	// it will hold is later than the stream's start, so it is read from there,
	// also by a source that is made after it was created and is given these.
	Absent(positions []graphmill.Position)

	// Assigned gives the settled positions from which new partitions will be
	// read, before anything of them is fetched. It may be empty.
	Assigned(positions []graphmill.Position)

	// Revoked says that partitions are no longer owned, or will not be once it
	// returns. The source fetches nothing more of them. It should return when
	// the stream has finished with them, and must when ctx ends: lost is true
	// where they are gone already, so that nothing of them may be acknowledged.
	Revoked(ctx context.Context, partitions []graphmill.TopicPartition, lost bool)
}
