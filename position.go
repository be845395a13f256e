package graphmill

import (
	"cmp"
	"fmt"
	"slices"
)

// TopicPartition names one partition of one topic.
type TopicPartition struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
}

// String returns topic/partition, the form that flags and messages use.
func (tp TopicPartition) String() string { return fmt.Sprintf("%s/%d", tp.Topic, tp.Partition) }

// Position is how far a stream has come in one partition.
type Position struct {
	TopicPartition

	// TopicID tells a topic from one of the same name that was made after it
	// was deleted: the broker's UUID as 32 lower-case hexadecimal digits. Empty
	// where the broker has none (Kafka before 2.8, older Redpanda).
	TopicID string `json:"topic_id,omitempty"`

	// Offset is the next offset to read: one more than the last one that is
	// done, past control records.
	Offset int64 `json:"offset"`
}

// SortPositions orders by topic, then partition, in place.
func SortPositions(ps []Position) {
	slices.SortFunc(ps, func(a, b Position) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
}

// Fetch is what a source hands over of one partition at once.
type Fetch struct {
	// Next is the position after everything here. It may lie beyond the last
	// message's offset + 1: control records, aborted transactions and the gaps
	// of a compacted topic are passed over. A fetch without messages only moves
	// the position.
	Next     Position
	Messages []Message // in order of offset, all of Next's partition
}
