package graphmill

import (
	"encoding/json"
	"time"
)

// State is a state of a stream: what is wanted of it, or what it is doing.
type State string

// StateStopped and StateRunning are the two desired states; all are observed.
const (
	StateStopped  State = "stopped"
	StateStarting State = "starting"
	StateRunning  State = "running"
	StateDraining State = "draining" // stopping: the batches under way are being finished
	StateWaiting  State = "waiting"  // broker, topic or database is away; goes on by itself
	StateFailed   State = "failed"   // goes on only when somebody says START
	StateBroken   State = "broken"   // the catalog's entry of it cannot be read
)

// Reason says why a stream is waiting or has failed.
type Reason struct {
	Code     string    `json:"code"` // stable, snake_case: "broker_unreachable", "message", "auth"
	Text     string    `json:"text"`
	Since    time.Time `json:"since"`
	NextStep string    `json:"next_step,omitempty"` // a sentence or a command
}

// ModuleVersion names the exact bytes that a stream transforms with.
type ModuleVersion struct {
	Name    string `json:"name"`
	Version int    `json:"version"`
	SHA256  string `json:"sha256"`
}

// BatchStatus is the batch that is being executed.
type BatchStatus struct {
	First       []Position `json:"first"` // where it begins, per partition
	Last        []Position `json:"last"`  // the positions once it is done
	Messages    int        `json:"messages"`
	Statements  int        `json:"statements"`
	Attempt     int        `json:"attempt"` // 1, 2, ...
	Since       time.Time  `json:"since"`   // when it was first handed to the database
	NextRetryAt *time.Time `json:"next_retry_at,omitempty"`
}

// PartitionStatus is how far a stream is in one partition. What is -1 here is
// null in JSON.
type PartitionStatus struct {
	TopicPartition
	TopicID      string `json:"topic_id,omitempty"`
	Acknowledged int64  `json:"acknowledged" nullable:"true"` // next offset to read after what is acknowledged; -1: none known
	End          int64  `json:"end" nullable:"true"`          // the broker's end offset; -1: not known now
	Lag          int64  `json:"lag" nullable:"true"`          // end - acknowledged; control records count; -1: not known now

	// Of Pulsar, which counts no offsets: there Acknowledged and End are -1, and Lag
	// counts entries, of which one may hold a batch of the producer.
	MessageID     MessageID `json:"message_id,omitzero"`      // next message to read after what is acknowledged
	LastMessageID MessageID `json:"last_message_id,omitzero"` // the broker's last one
	LagFrom       string    `json:"lag_from,omitempty"`       // who tells the lag: LagFromClient, LagFromAdmin

	Lane   int    `json:"lane" nullable:"true"` // the lane that reads it, from 0; -1: nothing reads it here
	Notice string `json:"notice,omitempty"`     // what limits the care that is taken of it, for people; empty: nothing

	MessagesPerSecond10s float64 `json:"messages_per_second_10s"` // acknowledged here, on average over the last 10 seconds
}

// Who tells the lag of a Pulsar stream.
const (
	LagFromClient = "client" // comparing ids: 0 where all is read, else an estimate or not known
	LagFromAdmin  = "admin"  // the broker's own backlog of the subscription
)

// partitionJSON is a PartitionStatus as it is written.
type partitionJSON struct {
	TopicPartition
	TopicID      string `json:"topic_id,omitempty"`
	Acknowledged *int64 `json:"acknowledged"`
	End          *int64 `json:"end"`
	Lag          *int64 `json:"lag"`

	MessageID     MessageID `json:"message_id,omitzero"`
	LastMessageID MessageID `json:"last_message_id,omitzero"`
	LagFrom       string    `json:"lag_from,omitempty"`

	Lane   *int64 `json:"lane"`
	Notice string `json:"notice,omitempty"`

	MessagesPerSecond10s float64 `json:"messages_per_second_10s"`
}

// MarshalJSON implements json.Marshaler: a sum over lags must not count -1.
func (p PartitionStatus) MarshalJSON() ([]byte, error) {
	return json.Marshal(partitionJSON{p.TopicPartition, p.TopicID, orNull(p.Acknowledged), orNull(p.End), orNull(p.Lag), p.MessageID, p.LastMessageID, p.LagFrom, orNull(int64(p.Lane)), p.Notice, p.MessagesPerSecond10s})
}

// UnmarshalJSON implements json.Unmarshaler.
func (p *PartitionStatus) UnmarshalJSON(doc []byte) error {
	var j partitionJSON
	if err := json.Unmarshal(doc, &j); err != nil {
		return err
	}
	*p = PartitionStatus{j.TopicPartition, j.TopicID, orUnknown(j.Acknowledged), orUnknown(j.End), orUnknown(j.Lag), j.MessageID, j.LastMessageID, j.LagFrom, int(orUnknown(j.Lane)), j.Notice, j.MessagesPerSecond10s}
	return nil
}

// orNull is a number as JSON has it where -1 means that it is not known.
func orNull(n int64) *int64 {
	if n < 0 {
		return nil
	}
	return &n
}

// orUnknown is orNull backwards.
func orUnknown(n *int64) int64 {
	if n == nil {
		return -1
	}
	return *n
}

// TextStatus tells how a query text is executed.
type TextStatus struct {
	Hash  string `json:"hash"`  // first 12 hexadecimal digits of the text's SHA-256
	Query string `json:"query"` // the text, cut at 200 bytes
	Form  string `json:"form"`  // "coalesced" or "plain"
	Why   string `json:"why,omitempty"`
}

// FailureStatus is the last failure of a stream.
type FailureStatus struct {
	At        time.Time       `json:"at"`
	Code      string          `json:"code"`
	Text      string          `json:"text"`
	Positions []Position      `json:"positions,omitempty"` // where the failed batch begins
	Message   *TopicPartition `json:"message,omitempty"`   // the message to look at first, where known
	Offset    *int64          `json:"offset,omitempty"`
	MessageID *MessageID      `json:"message_id,omitempty"` // of Pulsar, in place of the offset
}

// Counters of a stream since its last start in this process.
type Counters struct {
	Since          *time.Time       `json:"since,omitempty"` // when counting began; absent: never started in this process
	Messages       int64            `json:"messages"`        // acknowledged
	Batches        int64            `json:"batches"`         // acknowledged
	BatchesClosed  map[string]int64 `json:"batches_closed"`  // by CloseReason
	Statements     int64            `json:"statements"`      // executed and committed
	StatementsSent int64            `json:"statements_sent"` // round trips' worth after coalescing
	Dropped        int64            `json:"dropped"`         // messages for which the transformation returned nothing
	Retries        int64            `json:"retries"`         // attempts to execute a batch after its first
	UnknownCommits int64            `json:"unknown_commits"` // commits whose outcome was not known: their batches were executed again
	Splits         int64            `json:"splits"`          // batches that were cut in two, being too big
	Failures       int64            `json:"failures"`        // failed batches
}

// Rates tell how fast a stream is, in acknowledged messages a second, on average
// over the last 10 seconds and over the last minute.
type Rates struct {
	MessagesPerSecond10s float64 `json:"messages_per_second_10s"`
	MessagesPerSecond1m  float64 `json:"messages_per_second_1m"`
}

// StreamStatus answers "why is nothing happening?".
type StreamStatus struct {
	Name         string            `json:"name"`
	Desired      State             `json:"desired"`
	State        State             `json:"state"`
	Standby      bool              `json:"standby,omitempty"` // running, but no partition is assigned here
	Reason       *Reason           `json:"reason,omitempty"`
	Module       *ModuleVersion    `json:"module,omitempty"`
	CurrentBatch *BatchStatus      `json:"current_batch,omitempty"`
	BatchSize    int               `json:"batch_size,omitempty"` // messages that close a batch for now, where that is less than the definition says: a batch was too big
	Partitions   []PartitionStatus `json:"partitions"`
	Texts        []TextStatus      `json:"texts"`
	LastFailure  *FailureStatus    `json:"last_failure,omitempty"`
	Counters     Counters          `json:"counters"`
	Rates        Rates             `json:"rates"`
}
