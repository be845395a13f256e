package graphmill

import (
	"iter"
	"time"
)

// Message is one record of a source. It is a small value that refers to the
// batch: pass it as it is, and do not keep it beyond the call.
//
// Byte slices share the memory of the batch: they are valid until the exported
// function returns and must not be changed. Nil means null, which is not the
// same as empty.
type Message struct {
	batch *Batch
	index uint32
	at    int // where its record stands in the frame
}

// Form says what the bytes of a payload or a key are.
type Form uint32

// The forms of version 1 of the ABI.
const (
	FormRaw     Form = 0 // the bytes of the broker
	FormMsgpack Form = 1 // one MessagePack value, decoded by Graphmill
)

// Payload is the body of the message, in Kafka's words the value. Nil is null:
// a tombstone.
func (m Message) Payload() []byte { return m.batch.part(m.at) }

// PayloadForm says what Payload is made of.
func (m Message) PayloadForm() Form { return Form(m.topicField(8)) }

// Key is the key of the message, nil where it has none.
func (m Message) Key() []byte { return m.batch.part(m.at + 8) }

// KeyForm says what Key is made of.
func (m Message) KeyForm() Form { return Form(m.topicField(12)) }

// Topic is the name of the topic.
func (m Message) Topic() string {
	i, at := m.topicEntry()
	return m.batch.names.topic(i, m.batch.part(at))
}

// Partition is the partition of the topic, -1 where there is none.
func (m Message) Partition() int32 { return int32(m.uint32(20)) }

// Offset is Kafka's offset in the partition; -1 for Pulsar.
func (m Message) Offset() int64 { return m.int64(24) }

// Timestamp is the time of the message in milliseconds since the epoch: Kafka's
// record time, Pulsar's event time, else its publish time.
func (m Message) Timestamp() int64 { return m.int64(32) }

// Time is Timestamp as a time in UTC.
func (m Message) Time() time.Time { return time.UnixMilli(m.Timestamp()).UTC() }

// BrokerTime is the broker's own time in milliseconds since the epoch: Pulsar's
// publish time, Kafka's log append time where the topic keeps it, else -1.
func (m Message) BrokerTime() int64 { return m.int64(56) }

// ID is the source's own id as text, for Pulsar ledger:entry:partition:batch.
// It is empty for Kafka, whose id is topic, partition and offset.
func (m Message) ID() string { return string(m.batch.part(m.at + 48)) }

// Redeliveries counts earlier deliveries of the message, as far as the broker
// tells.
func (m Message) Redeliveries() uint32 { return m.uint32(64) }

// Index is the number of the message in its batch, from 0.
func (m Message) Index() int { return int(m.index) }

// Stream is the name of the stream.
func (m Message) Stream() string { return m.batch.Stream() }

// Source is where the message comes from.
func (m Message) Source() Source { return m.batch.Source() }

// HeaderCount is the number of headers, duplicates counted.
func (m Message) HeaderCount() int { return int(m.uint32(44)) }

// Headers goes through the headers in order, with duplicates. For Pulsar they
// are the properties. A nil value is null.
func (m Message) Headers() iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for i := range m.HeaderCount() {
			at := m.headerEntry(i)
			if !yield(m.batch.names.headerKey(m.batch.part(at)), m.batch.part(at+8)) {
				return
			}
		}
	}
}

// Header returns the value of the header named key, and whether there is one.
// Of several the last one counts. A header may be there and null: (nil, true).
func (m Message) Header(key string) (value []byte, ok bool) {
	for i := m.HeaderCount() - 1; i >= 0; i-- {
		at := m.headerEntry(i)
		if string(m.batch.part(at)) == key {
			return m.batch.part(at + 8), true
		}
	}
	return nil, false
}

// headerEntry returns where the entry of header i of the message stands.
func (m Message) headerEntry(i int) int {
	entry := int(m.uint32(40)) + i
	if entry >= int(m.batch.headerCount) {
		panic("graphmill: the request names a header that is not in the frame")
	}
	return m.batch.headers + entry*headerEntrySize
}

// topicEntry returns the number of the topic and where its entry stands.
func (m Message) topicEntry() (i uint32, at int) {
	i = m.uint32(16)
	if i >= m.batch.topicCount {
		panic("graphmill: the request names a topic that is not in the frame")
	}
	return i, m.batch.topics + int(i)*topicSize
}

func (m Message) topicField(at int) uint32 {
	_, entry := m.topicEntry()
	return m.batch.word32(entry + at)
}

func (m Message) uint32(at int) uint32 { return m.batch.word32(m.at + at) }
func (m Message) int64(at int) int64   { return int64(m.batch.word64(m.at + at)) }
