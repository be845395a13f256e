package frametest

import (
	"fmt"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/wasmhost/frame"
)

// Request is what a request frame holds.
type Request struct {
	Cursor   uint32
	Stream   string
	Source   graphmill.SourceKind
	Messages []graphmill.Message
}

// DecodeRequest reads a request frame as a guest does: by the offsets, counts
// and the stride in its header. It fails where a part lies outside, or where a
// table does not begin at a multiple of 8.
func DecodeRequest(f []byte) (req Request, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the frame is not as it should be: %v", p)
		}
	}()
	if magic := le.Uint32(f); magic != frame.RequestMagic {
		return Request{}, fmt.Errorf("magic %#08x", magic)
	}
	count, records, stride := le.Uint32(f[8:]), le.Uint32(f[12:]), le.Uint32(f[16:])
	topicCount, topics := le.Uint32(f[20:]), le.Uint32(f[24:])
	headerCount, headers := le.Uint32(f[28:]), le.Uint32(f[32:])
	for name, at := range map[string]uint32{"messages": records, "topics": topics, "headers": headers, "stride": stride} {
		if at%8 != 0 {
			return Request{}, fmt.Errorf("%s: %d is no multiple of 8", name, at)
		}
	}
	req.Cursor = le.Uint32(f[frame.CursorOffset:])
	req.Stream = string(bytesAt(f, f[36:]))
	req.Source = graphmill.SourceKind(le.Uint32(f[44:]))
	for i := range count {
		r := f[records+i*stride:][:frame.MessageSize]
		topic := le.Uint32(r[16:])
		if topic >= topicCount {
			return Request{}, fmt.Errorf("message %d: topic %d of %d", i, topic, topicCount)
		}
		m := graphmill.Message{
			Payload:      bytesAt(f, r[0:]),
			Key:          bytesAt(f, r[8:]),
			Topic:        string(bytesAt(f, f[topics+topic*frame.TopicSize:])),
			Partition:    int32(le.Uint32(r[20:])),
			Offset:       int64(le.Uint64(r[24:])),
			Timestamp:    int64(le.Uint64(r[32:])),
			ID:           string(bytesAt(f, r[48:])),
			BrokerTime:   int64(le.Uint64(r[56:])),
			Redeliveries: le.Uint32(r[64:]),
		}
		first, n := le.Uint32(r[40:]), le.Uint32(r[44:])
		if first+n > headerCount {
			return Request{}, fmt.Errorf("message %d: headers %d to %d of %d", i, first, first+n, headerCount)
		}
		for h := first; h < first+n; h++ {
			entry := f[headers+h*frame.HeaderEntrySize:]
			m.Headers = append(m.Headers, graphmill.Header{Key: string(bytesAt(f, entry)), Value: bytesAt(f, entry[8:])})
		}
		req.Messages = append(req.Messages, m)
	}
	return req, nil
}

// bytesAt follows the offset and the length that stand at ref; nil for null.
func bytesAt(f, ref []byte) []byte {
	off, n := le.Uint32(ref), le.Uint32(ref[4:])
	if n == frame.Null {
		return nil
	}
	return f[off : off+n : off+n]
}
