package graphmill

import (
	"errors"
	"iter"
)

// Source is where the messages of a batch come from.
type Source uint32

// The sources of version 1 of the ABI.
const (
	SourceKafka  Source = 0
	SourcePulsar Source = 1
	SourceManual Source = 2 // given by hand: a dry run, a test
)

// Batch is the messages of one call, in order: within a partition as they stand
// in the topic.
type Batch struct {
	frame []byte

	// Of the request header.
	count           uint32
	records, stride int
	topicCount      uint32
	topics          int
	headerCount     uint32
	headers         int

	names    nameCache // strings of earlier batches, handed out again
	response *response // where the answer goes
}

// open takes a request frame and checks its header. What the header points to
// is the host's own work; a frame damaged there stops at a bounds check.
func (b *Batch) open(frame []byte) error {
	b.frame = frame
	if len(frame) < requestHeaderSize || le.Uint32(frame) != requestMagic {
		return errors.New("the request is not a frame of version 1 of the transformation ABI")
	}
	b.count = le.Uint32(frame[8:])
	b.records = int(le.Uint32(frame[12:]))
	b.stride = int(le.Uint32(frame[16:]))
	b.topicCount = le.Uint32(frame[20:])
	b.topics = int(le.Uint32(frame[24:]))
	b.headerCount = le.Uint32(frame[28:])
	b.headers = int(le.Uint32(frame[32:]))
	if b.stride < messageSize || !b.holds(b.records, b.count, b.stride) {
		return errors.New("the request's message records do not lie within the frame")
	}
	if !b.holds(b.topics, b.topicCount, topicSize) {
		return errors.New("the request's topics do not lie within the frame")
	}
	if !b.holds(b.headers, b.headerCount, headerEntrySize) {
		return errors.New("the request's header entries do not lie within the frame")
	}
	return nil
}

// holds tells whether a table lies within the frame.
func (b *Batch) holds(at int, count uint32, size int) bool {
	return int64(at)+int64(count)*int64(size) <= int64(len(b.frame))
}

// Len is the number of messages.
func (b *Batch) Len() int { return int(b.count) }

// Message returns message i, from 0, as the one now in hand: after a panic, or
// when the time limit ends the call, it is the one suspected first. It panics
// if there is no message i.
func (b *Batch) Message(i int) Message {
	if uint(i) >= uint(b.count) {
		panic("graphmill: Batch.Message: no message of this number in the batch")
	}
	b.setCursor(uint32(i))
	return Message{batch: b, index: uint32(i), at: b.records + i*b.stride}
}

// All goes through the messages in order, each as the one in hand. See
// [Batch.Message].
func (b *Batch) All() iter.Seq2[int, Message] {
	return func(yield func(int, Message) bool) {
		for i := range int(b.count) {
			if !yield(i, b.Message(i)) {
				return
			}
		}
	}
}

// Stream is the name of the stream.
func (b *Batch) Stream() string { return b.names.stream(b.part(36)) }

// Source is where the messages come from.
func (b *Batch) Source() Source { return Source(le.Uint32(b.frame[44:])) }

// part returns the bytes that the (offset, length) pair at refers to; nil where
// the length means null.
func (b *Batch) part(at int) []byte {
	if length := b.word32(at + 4); length != null {
		start := int(b.word32(at))
		return b.frame[start : start+int(length) : start+int(length)]
	}
	return nil
}
