package pulsar

import (
	"slices"
	"strconv"
	"strings"

	"github.com/apache/pulsar-client-go/pulsar"

	"github.com/graphmill/graphmill"
)

// incoming is a message that has come out of the client.
type incoming struct {
	tp   graphmill.TopicPartition
	msg  pulsar.Message
	rest int32 // messages that follow in its entry

	// Of the last chunk of a message: the message. Else nil.
	whole *whole
}

// convert appends messages made of the client's. Payloads stay where they are, in the
// client's buffers; all ids are parts of one string, and all headers of one slice.
//
// Of what the broker holds the client leaves out whether a payload or a key is null:
// an empty payload is empty here, an empty key is none. Properties have neither order
// nor duplicates; as headers they are sorted by name.
func convert(to []graphmill.Message, in []incoming) []graphmill.Message {
	const idLength = 24
	properties := 0
	ids := make([]byte, 0, idLength*len(in))
	ends := make([]int, len(in))
	for i := range in {
		properties += len(in[i].msg.Properties())
		ids = appendID(ids, in[i].tp.Partition, in[i].msg.ID())
		ends[i] = len(ids)
	}
	text := string(ids)
	to = slices.Grow(to, len(in))
	headers := make([]graphmill.Header, 0, properties)
	begin := 0
	for i := range in {
		from := len(headers)
		headers = appendHeaders(headers, in[i].msg.Properties())
		m := message(in[i].tp, in[i].msg, in[i].rest)
		if in[i].whole != nil {
			m.Payload = in[i].whole.payload
		}
		m.ID = text[begin:ends[i]]
		if len(headers) > from {
			m.Headers = headers[from:len(headers):len(headers)]
		}
		to = append(to, m)
		begin = ends[i]
	}
	return to
}

// message is all of a message but its id as text and its headers.
func message(tp graphmill.TopicPartition, in pulsar.Message, rest int32) graphmill.Message {
	m := graphmill.Message{
		Topic:        tp.Topic,
		Partition:    tp.Partition,
		Offset:       -1,
		MessageID:    idOf(in.ID()),
		EntryRest:    rest,
		Payload:      in.Payload(),
		Timestamp:    in.EventTime().UnixMilli(),
		BrokerTime:   in.PublishTime().UnixMilli(),
		Redeliveries: in.RedeliveryCount(),
	}
	if m.Payload == nil {
		m.Payload = []byte{}
	}
	if key := in.Key(); key != "" {
		m.Key = []byte(key)
	}
	if m.Timestamp == 0 { // the producer has given no event time
		m.Timestamp = m.BrokerTime
	}
	return m
}

// idOf is an id of the client's as a place. A message that is its whole entry has
// the index 0, whatever the client says.
func idOf(id pulsar.MessageID) graphmill.MessageID {
	return graphmill.MessageID{Ledger: id.LedgerID(), Entry: id.EntryID(), Index: max(0, id.BatchIdx())}
}

// appendID appends an id in the form of the transformation ABI,
// ledger:entry:partition:index. The index of a message that is its whole entry is -1.
func appendID(b []byte, partition int32, id pulsar.MessageID) []byte {
	index := int64(-1)
	if id.BatchSize() > 1 {
		index = int64(id.BatchIdx())
	}
	b = strconv.AppendInt(b, id.LedgerID(), 10)
	b = strconv.AppendInt(append(b, ':'), id.EntryID(), 10)
	b = strconv.AppendInt(append(b, ':'), int64(partition), 10)
	return strconv.AppendInt(append(b, ':'), index, 10)
}

// appendHeaders appends properties, sorted by name.
func appendHeaders(to []graphmill.Header, properties map[string]string) []graphmill.Header {
	from := len(to)
	for name, value := range properties {
		to = append(to, graphmill.Header{Key: name, Value: []byte(value)})
	}
	slices.SortFunc(to[from:], func(a, b graphmill.Header) int { return strings.Compare(a.Key, b.Key) })
	return to
}
