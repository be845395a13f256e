package graphmilltest

import (
	"encoding/binary"

	graphmill "github.com/graphmill/graphmill/sdk/go"
)

// The sizes of the request frame's parts: see sdk/ABI.md.
const (
	null        = 0xffffffff
	headerSize  = 48
	recordSize  = 72
	topicSize   = 16
	entrySize   = 16
	requestMark = 0x31424d47
)

var le = binary.LittleEndian

// encode makes a request frame: header, records, topics, header entries, and then
// the bytes that they refer to.
func encode(stream string, source graphmill.Source, messages []Message) []byte {
	topics, topicOf := topicsOf(messages)
	headers := 0
	for i := range messages {
		headers += len(messages[i].Headers)
	}
	e := encoder{records: headerSize}
	e.topics = e.records + len(messages)*recordSize
	e.headers = e.topics + len(topics)*topicSize
	e.frame = make([]byte, e.headers+headers*entrySize)

	e.u32(0, requestMark)
	e.u32(4, null)
	e.u32(8, len(messages))
	e.u32(12, e.records)
	e.u32(16, recordSize)
	e.u32(20, len(topics))
	e.u32(24, e.topics)
	e.u32(28, headers)
	e.u32(32, e.headers)
	e.part(36, []byte(stream))
	e.u32(44, int(source))
	for i, topic := range topics {
		e.part(e.topics+i*topicSize, []byte(topic))
	}
	next := 0
	for i := range messages {
		e.message(e.records+i*recordSize, &messages[i], topicOf[i], next)
		next += len(messages[i].Headers)
	}
	for len(e.frame)%8 != 0 {
		e.frame = append(e.frame, 0)
	}
	return e.frame
}

// topicsOf returns each topic once, and which one a message has.
func topicsOf(messages []Message) (topics []string, of []int) {
	index := map[string]int{}
	for i := range messages {
		topic := messages[i].Topic
		n, ok := index[topic]
		if !ok {
			n = len(topics)
			index[topic] = n
			topics = append(topics, topic)
		}
		of = append(of, n)
	}
	return topics, of
}

type encoder struct {
	frame                    []byte
	records, topics, headers int // where they begin
}

// message writes the record at, whose headers begin with entry next.
func (e *encoder) message(at int, m *Message, topic, next int) {
	e.part(at, m.Payload)
	e.part(at+8, m.Key)
	e.u32(at+16, topic)
	e.u32(at+20, int(m.Partition))
	le.PutUint64(e.frame[at+24:], uint64(m.Offset))
	le.PutUint64(e.frame[at+32:], uint64(m.Timestamp))
	e.u32(at+40, next)
	e.u32(at+44, len(m.Headers))
	for i, h := range m.Headers {
		entry := e.headers + (next+i)*entrySize
		e.part(entry, []byte(h.Key))
		e.part(entry+8, h.Value)
	}
	e.part(at+48, []byte(m.ID))
	brokerTime := m.BrokerTime
	if brokerTime == 0 {
		brokerTime = -1
	}
	le.PutUint64(e.frame[at+56:], uint64(brokerTime))
	e.u32(at+64, int(m.Redeliveries))
}

func (e *encoder) u32(at, v int) { le.PutUint32(e.frame[at:], uint32(v)) }

// part appends bytes and writes where they are; nil is null.
func (e *encoder) part(at int, b []byte) {
	e.u32(at, len(e.frame))
	if b == nil {
		le.PutUint32(e.frame[at+4:], null)
		return
	}
	e.u32(at+4, len(b))
	e.frame = append(e.frame, b...)
}
