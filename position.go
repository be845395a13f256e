package graphmill

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
)

// TopicPartition names one partition of one topic.
type TopicPartition struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"` // -1: none, of a topic of Pulsar that is not partitioned
}

// String returns topic/partition, the form that flags and messages use; the topic
// alone where it is not partitioned.
func (tp TopicPartition) String() string {
	if tp.Partition < 0 {
		return tp.Topic
	}
	return fmt.Sprintf("%s/%d", tp.Topic, tp.Partition)
}

// Position is how far a stream has come in one partition.
type Position struct {
	TopicPartition

	// TopicID tells a topic from one of the same name that was made after it
	// was deleted: the broker's UUID as 32 lower-case hexadecimal digits. Empty
	// where the broker has none (Kafka before 2.8, older Redpanda).
	TopicID string `json:"topic_id,omitempty"`

	// Offset is the next offset to read: one more than the last one that is
	// done, past control records. -1 for Pulsar.
	Offset int64 `json:"offset"`

	// MessageID is the next message to read, of Pulsar: all before it are done.
	// Behind the last message of an entry it is the next entry's first one, whether
	// that exists or not.
	MessageID MessageID `json:"message_id,omitzero"`
}

// Pass moves the position behind a message of its partition.
func (p *Position) Pass(m *Message) {
	switch {
	case p.Offset >= 0 || m.Offset >= 0:
		p.Offset = m.Offset + 1
	case m.EntryRest > 0:
		p.MessageID = m.MessageID
		p.MessageID.Index++
	default:
		p.MessageID = MessageID{Ledger: m.MessageID.Ledger, Entry: m.MessageID.Entry + 1}
	}
}

// At is the position in its partition, as text: an offset, or a message id.
func (p Position) At() string {
	if p.Offset >= 0 {
		return strconv.FormatInt(p.Offset, 10)
	}
	return p.MessageID.String()
}

// String returns topic/partition@position.
func (p Position) String() string { return p.TopicPartition.String() + "@" + p.At() }

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
	Messages []Message // in order, all of Next's partition; entries of Pulsar are whole
}
