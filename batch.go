package graphmill

// CloseReason says why a batch was closed.
type CloseReason uint8

// The reasons for closing a batch.
const (
	ClosedBySize     CloseReason = iota // BATCH_SIZE messages
	ClosedByBytes                       // BATCH_BYTES
	ClosedByInterval                    // BATCH_INTERVAL
	ClosedByStop                        // the stream stops: what had been collected
	ClosedByLimit                       // START ... BATCH_LIMIT, CHECK
)

// CloseReasons lists every reason, in the order of their numbers.
var CloseReasons = []CloseReason{ClosedBySize, ClosedByBytes, ClosedByInterval, ClosedByStop, ClosedByLimit}

// String returns the reason as metrics and the API spell it.
func (r CloseReason) String() string {
	return [...]string{"size", "bytes", "interval", "stop", "limit"}[r]
}

// Batch is a run of messages handed over together.
type Batch struct {
	Messages []Message

	// Positions says how far the batch reaches in each of its partitions; what
	// is acknowledged once the batch is in the graph. Sorted by topic and
	// partition. A batch without messages may still move positions (control
	// records); such a batch is acknowledged and never transformed.
	Positions []Position

	Bytes  int64 // sum of Message.Size
	Closed CloseReason
}
