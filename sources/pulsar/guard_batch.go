package pulsar

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// secureBatch tells why the client could not take so many messages out of a batch, or
// returns the batch with the keys as bytes that its messages have as base64; nil where
// none has.
func secureBatch(batch []byte, messages int) (changed []byte, err error) {
	const least = 4 + 2 // bytes of a message: the size of its metadata, and the size of its payload in them
	if messages < 1 || messages > len(batch)/least {
		return nil, fmt.Errorf("it tells that %d messages are in it, of %d bytes", messages, len(batch))
	}
	b := batch
	same := 0 // bytes at the beginning of the batch that changed has
	for i := range messages {
		if len(b) < 4 || int64(binary.BigEndian.Uint32(b)) > int64(len(b)-4) {
			return nil, fmt.Errorf("message %d of %d in it is cut off", i, messages)
		}
		begin := len(batch) - len(b)
		head := b[4 : 4+binary.BigEndian.Uint32(b)]
		m, ok := readSingleMeta(head)
		if b = b[4+len(head):]; !ok || m.size < 0 || int64(m.size) > int64(len(b)) {
			return nil, fmt.Errorf("message %d of %d in it has a wrong size", i, messages)
		}
		if key, is := keyOfBase64(m.key, m.keyIsBase64); is {
			head = appendNumber(appendText(head[:len(head):len(head)], singleKey, string(key)), singleKeyIsBase64, 0)
			changed = append(changed, batch[same:begin]...)
			changed = append(binary.BigEndian.AppendUint32(changed, uint32(len(head))), head...)
			same = len(batch) - len(b)
		}
		b = b[m.size:]
	}
	if same > 0 {
		changed = append(changed, batch[same:]...)
	}
	return changed, nil
}

// singleMeta is what is to be known of the metadata of a message in a batch.
type singleMeta struct {
	size        int32 // bytes of its payload
	key         []byte
	keyIsBase64 bool
}

// readSingleMeta reads metadata of a message in a batch; ok is false where they are
// broken, or tell no size.
func readSingleMeta(b []byte) (m singleMeta, ok bool) {
	for len(b) > 0 {
		field, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return m, false
		}
		b = b[n:]
		if n = protowire.ConsumeFieldValue(field, kind, b); n < 0 {
			return m, false
		}
		switch {
		case kind == protowire.VarintType && field == singlePayload:
			v, _ := protowire.ConsumeVarint(b)
			m.size, ok = int32(v), true
		case kind == protowire.VarintType && field == singleKeyIsBase64:
			v, _ := protowire.ConsumeVarint(b)
			m.keyIsBase64 = v != 0
		case kind == protowire.BytesType && field == singleKey:
			m.key, _ = protowire.ConsumeBytes(b)
		}
		b = b[n:]
	}
	return m, ok
}

// keyOfBase64 returns the key that a producer was given as bytes. The protocol has keys
// as text: producers in Java write bytes as base64 and say so, which the client shows to
// nobody. What is no base64 after all stays as it is.
func keyOfBase64(text []byte, is bool) (key []byte, ok bool) {
	if !is || len(text) == 0 {
		return nil, false
	}
	key, err := base64.StdEncoding.AppendDecode(nil, text)
	if err != nil || base64.StdEncoding.EncodedLen(len(key)) != len(text) { // line breaks are passed over
		return nil, false
	}
	return key, true
}
