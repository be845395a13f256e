package graphmill

// Header is one header of a message. Order and duplicates are kept.
type Header struct {
	Key   string
	Value []byte // nil: null, which is not the same as empty
}

// Message is one record of a source.
//
// The byte slices may share memory with the source's own buffers: they are
// read only, and valid for as long as the message is referenced.
type Message struct {
	Topic     string
	Partition int32 // -1: none
	Offset    int64 // Kafka; -1 for Pulsar

	// ID is the source's own id as text: Pulsar's ledger:entry:partition:index.
	// Empty for Kafka, whose id is topic, partition and offset.
	ID string

	// Of Pulsar, zero else: where it stands, and how many messages follow it in its
	// entry, which the broker delivers and takes back as a whole.
	MessageID MessageID
	EntryRest int32

	Payload []byte // nil: null (a tombstone)
	Key     []byte // nil: null
	Headers []Header

	Timestamp  int64 // milliseconds since the Unix epoch
	BrokerTime int64 // broker's own time, milliseconds since the epoch; -1: not known

	// Redeliveries counts earlier deliveries, as far as the broker tells.
	Redeliveries uint32
}

// TopicPartition names the partition that the message came from.
func (m *Message) TopicPartition() TopicPartition { return TopicPartition{m.Topic, m.Partition} }

// Position is that of the message itself: what is read next where all before it is
// done.
func (m *Message) Position() Position {
	return Position{TopicPartition: m.TopicPartition(), Offset: m.Offset, MessageID: m.MessageID}
}

// Size is the payload, key and headers in bytes: what counts against
// BATCH_BYTES.
func (m *Message) Size() int64 {
	n := len(m.Payload) + len(m.Key)
	for i := range m.Headers {
		n += len(m.Headers[i].Key) + len(m.Headers[i].Value)
	}
	return int64(n)
}

// SourceKind says where messages come from.
type SourceKind uint8

// The kinds of source, with the numbers of the transformation ABI.
const (
	SourceKafka  SourceKind = 0
	SourcePulsar SourceKind = 1
	SourceManual SourceKind = 2 // given by hand: a dry run, a file
)
