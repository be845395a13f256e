package frame

import (
	"math"

	"github.com/graphmill/graphmill"
)

// Encoder writes request frames. Its scratch space is kept from one frame to
// the next. The zero value is ready. Not safe for concurrent use.
//
// A frame is written in two steps, so that the caller can ask the guest for a
// buffer of exactly its size: Plan, then Encode.
type Encoder struct {
	stream   string
	source   graphmill.SourceKind
	messages []graphmill.Message

	topics  []string          // distinct, in order of appearance
	topicOf []uint32          // message -> index in topics
	index   map[string]uint32 // topic -> index in topics

	headers int // header entries of all messages
	size    int
}

// Plan takes a batch and returns the size of its frame in bytes, a multiple of
// 8. The messages must not change until Encode has returned. A batch that needs
// 4 GiB or more is an *Error with OverLimit.
func (e *Encoder) Plan(stream string, source graphmill.SourceKind, messages []graphmill.Message) (int, error) {
	e.stream, e.source, e.messages = stream, source, messages
	e.topics, e.topicOf, e.headers = e.topics[:0], e.topicOf[:0], 0
	clear(e.index)

	size := int64(RequestHeaderSize) + int64(len(stream)) + int64(len(messages))*MessageSize
	for i := range messages {
		m := &messages[i]
		e.topicOf = append(e.topicOf, e.intern(m.Topic))
		e.headers += len(m.Headers)
		size += m.Size() + int64(len(m.ID)) + int64(len(m.Headers))*HeaderEntrySize
	}
	for _, t := range e.topics {
		size += TopicSize + int64(len(t))
	}
	size = (size + 7) &^ 7
	if size > math.MaxUint32 {
		return 0, overLimit("request", "%d messages need %d bytes, a frame ends at 4 GiB", len(messages), size)
	}
	e.size = int(size)
	return e.size, nil
}

// intern returns the index of a topic. Batches hold few topics, mostly in runs.
func (e *Encoder) intern(topic string) uint32 {
	if n := len(e.topicOf); n > 0 && e.topics[e.topicOf[n-1]] == topic {
		return e.topicOf[n-1]
	}
	if i, ok := e.index[topic]; ok {
		return i
	}
	if e.index == nil {
		e.index = make(map[string]uint32)
	}
	i := uint32(len(e.topics))
	e.index[topic] = i
	e.topics = append(e.topics, topic)
	return i
}

// Encode writes the frame that Plan measured into dst, whose length must be at
// least the size. It writes every byte of the frame, and forgets the batch.
func (e *Encoder) Encode(dst []byte) {
	records := RequestHeaderSize
	topics := records + len(e.messages)*MessageSize
	headers := topics + len(e.topics)*TopicSize
	w := writer{frame: dst[:e.size], at: headers + e.headers*HeaderEntrySize, header: headers}

	h := w.frame[:RequestHeaderSize]
	le.PutUint32(h[0:], RequestMagic)
	le.PutUint32(h[CursorOffset:], Null)
	le.PutUint32(h[8:], uint32(len(e.messages)))
	le.PutUint32(h[12:], uint32(records))
	le.PutUint32(h[16:], MessageSize)
	le.PutUint32(h[20:], uint32(len(e.topics)))
	le.PutUint32(h[24:], uint32(topics))
	le.PutUint32(h[28:], uint32(e.headers))
	le.PutUint32(h[32:], uint32(headers))
	w.text(h[36:], e.stream)
	le.PutUint32(h[44:], uint32(e.source))

	for i, t := range e.topics {
		entry := w.frame[topics+i*TopicSize:][:TopicSize]
		w.text(entry, t)
		le.PutUint64(entry[8:], 0) // payload and key are raw bytes
	}
	for i := range e.messages {
		w.message(w.frame[records+i*MessageSize:][:MessageSize], &e.messages[i], e.topicOf[i], headers)
	}
	clear(w.frame[w.at:]) // up to 7 bytes behind the last part
	e.messages = nil
	e.stream = ""
}

// writer fills a frame: parts one after the other, header entries beside them.
type writer struct {
	frame  []byte
	at     int // where the next part goes
	header int // where the next header entry goes
}

func (w *writer) message(r []byte, m *graphmill.Message, topic uint32, headers int) {
	w.bytes(r[0:], m.Payload)
	w.bytes(r[8:], m.Key)
	le.PutUint32(r[16:], topic)
	le.PutUint32(r[20:], uint32(m.Partition))
	le.PutUint64(r[24:], uint64(m.Offset))
	le.PutUint64(r[32:], uint64(m.Timestamp))
	le.PutUint32(r[40:], uint32((w.header-headers)/HeaderEntrySize))
	le.PutUint32(r[44:], uint32(len(m.Headers)))
	for i := range m.Headers {
		entry := w.frame[w.header:][:HeaderEntrySize]
		w.text(entry, m.Headers[i].Key)
		w.bytes(entry[8:], m.Headers[i].Value)
		w.header += HeaderEntrySize
	}
	w.text(r[48:], m.ID)
	le.PutUint64(r[56:], uint64(m.BrokerTime))
	le.PutUint32(r[64:], m.Redeliveries)
	le.PutUint32(r[68:], 0)
}

// text writes s as the next part and (offset, length) to ref.
func (w *writer) text(ref []byte, s string) {
	le.PutUint32(ref, uint32(w.at))
	le.PutUint32(ref[4:], uint32(len(s)))
	w.at += copy(w.frame[w.at:], s)
}

// bytes is text for what may be null.
func (w *writer) bytes(ref []byte, b []byte) {
	le.PutUint32(ref, uint32(w.at))
	if b == nil {
		le.PutUint32(ref[4:], Null)
		return
	}
	le.PutUint32(ref[4:], uint32(len(b)))
	w.at += copy(w.frame[w.at:], b)
}
