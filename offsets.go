package graphmill

import "encoding/json"

// OffsetOrigin says why a partition begins where it does.
type OffsetOrigin string

// The origins, in the order in which they are asked for.
const (
	OriginGroup        OffsetOrigin = "group"         // the group's commit
	OriginCatalog      OffsetOrigin = "catalog"       // the last acknowledged position; the group has none
	OriginNewPartition OffsetOrigin = "new_partition" // added since the stream's first start: its beginning
	OriginStartFrom    OffsetOrigin = "start_from"    // START_FROM, since no position is known
	OriginAccepted     OffsetOrigin = "accepted"      // START was told to go on without the position that is gone
)

// OffsetsInfo tells where a stream that is stopped would go on.
type OffsetsInfo struct {
	Group      string             `json:"group"`      // the consumer group; of Pulsar the subscription
	Members    []GroupMember      `json:"members"`    // of the group now: positions cannot be set while there are any
	Partitions []PartitionOffsets `json:"partitions"` // sorted by topic and partition
}

// GroupMember is a member of a consumer group as the broker knows it.
type GroupMember struct {
	ClientID string `json:"client_id"`
	Host     string `json:"host"`
}

// PartitionOffsets is where START would begin in one partition. What is -1 here
// is null in JSON.
type PartitionOffsets struct {
	TopicPartition
	TopicID string       `json:"topic_id,omitempty"`
	Offset  int64        `json:"offset" nullable:"true"` // the next to read; -1: not known now
	Origin  OffsetOrigin `json:"origin"`
	First   int64        `json:"first" nullable:"true"` // the first offset that the broker still has; -1: not known now
	End     int64        `json:"end" nullable:"true"`   // behind the last committed message; -1: not known now
	Lag     int64        `json:"lag" nullable:"true"`   // end - offset, at least 0; control records count; -1: not known now

	// Of Pulsar; see PartitionStatus.
	MessageID     MessageID `json:"message_id,omitzero"` // the next to read
	LastMessageID MessageID `json:"last_message_id,omitzero"`
	LagFrom       string    `json:"lag_from,omitempty"`

	// Problem is the reason by which START would fail here, "position_lost" or
	// "topic_recreated"; Offset is the position that is known then. Nil: none.
	Problem *OffsetProblem `json:"problem,omitempty"`
}

// partitionOffsetsJSON is PartitionOffsets as it is written.
type partitionOffsetsJSON struct {
	TopicPartition
	TopicID string       `json:"topic_id,omitempty"`
	Offset  *int64       `json:"offset"`
	Origin  OffsetOrigin `json:"origin"`
	First   *int64       `json:"first"`
	End     *int64       `json:"end"`
	Lag     *int64       `json:"lag"`

	MessageID     MessageID `json:"message_id,omitzero"`
	LastMessageID MessageID `json:"last_message_id,omitzero"`
	LagFrom       string    `json:"lag_from,omitempty"`

	Problem *OffsetProblem `json:"problem,omitempty"`
}

// MarshalJSON implements json.Marshaler.
func (p PartitionOffsets) MarshalJSON() ([]byte, error) {
	return json.Marshal(partitionOffsetsJSON{p.TopicPartition, p.TopicID, orNull(p.Offset), p.Origin, orNull(p.First), orNull(p.End), orNull(p.Lag), p.MessageID, p.LastMessageID, p.LagFrom, p.Problem})
}

// UnmarshalJSON implements json.Unmarshaler.
func (p *PartitionOffsets) UnmarshalJSON(doc []byte) error {
	var j partitionOffsetsJSON
	if err := json.Unmarshal(doc, &j); err != nil {
		return err
	}
	*p = PartitionOffsets{j.TopicPartition, j.TopicID, orUnknown(j.Offset), j.Origin, orUnknown(j.First), orUnknown(j.End), orUnknown(j.Lag), j.MessageID, j.LastMessageID, j.LagFrom, j.Problem}
	return nil
}

// OffsetProblem is why a stream cannot go on from a position.
type OffsetProblem struct {
	Code     string `json:"code"`
	Text     string `json:"text"`
	NextStep string `json:"next_step,omitempty"`
}
