package pulsar

import (
	"encoding/binary"
	"errors"

	"google.golang.org/protobuf/encoding/protowire"
)

// Fields of MessageMetadata and of SingleMessageMetadata (PulsarApi.proto), whose Go
// types are internal to the client library.
const (
	metaProducer     = 1
	metaSequence     = 2
	metaPublished    = 3
	metaProperties   = 4
	metaOrigin       = 5
	metaKey          = 6
	metaCompression  = 8
	metaUncompressed = 9
	metaMessages     = 11
	metaEventTime    = 12
	metaKeys         = 13
	metaKeyIsBase64  = 17
	metaOrderingKey  = 18
	metaUUID         = 26
	metaChunks       = 27
	metaTotal        = 28
	metaChunk        = 29

	singleKey         = 2
	singlePayload     = 3
	singleEventTime   = 5
	singleKeyIsBase64 = 6
	singleOrderingKey = 7
)

// entryMeta is what is to be known of an entry's metadata before the client looks.
type entryMeta struct {
	batched      bool
	messages     int32
	compression  uint64
	uncompressed uint32
	total        int32 // bytes of a message in chunks, as they are sent
	uuid         string
	origin       []byte // the name of a cluster
	chunks       int32
	chunk        int32
	properties   bool
	encrypted    bool

	// Of the message, where it is alone.
	key, orderingKey []byte
	keyIsBase64      bool
	eventTime        uint64
}

// readEntryMeta reads metadata. Fields of another kind than theirs are left out, as
// the client does.
func readEntryMeta(b []byte) (m entryMeta, err error) {
	var needed [metaPublished + 1]bool
	for len(b) > 0 {
		field, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return m, errMeta
		}
		b = b[n:]
		if n = protowire.ConsumeFieldValue(field, kind, b); n < 0 {
			return m, errMeta
		}
		value := b[:n]
		b = b[n:]
		switch kind {
		case protowire.VarintType:
			v, _ := protowire.ConsumeVarint(value)
			m.number(field, v)
		case protowire.BytesType:
			v, _ := protowire.ConsumeBytes(value)
			m.text(field, v)
		default:
			continue
		}
		if field <= metaPublished && (kind == protowire.BytesType) == (field == metaProducer) {
			needed[field] = true
		}
	}
	if !needed[metaProducer] || !needed[metaSequence] || !needed[metaPublished] {
		return m, errMeta
	}
	return m, nil
}

var errMeta = errors.New("its metadata are broken")

func (m *entryMeta) number(field protowire.Number, v uint64) {
	switch field {
	case metaCompression:
		m.compression = v
	case metaUncompressed:
		m.uncompressed = uint32(v)
	case metaMessages:
		m.batched, m.messages = true, int32(v)
	case metaEventTime:
		m.eventTime = v
	case metaKeyIsBase64:
		m.keyIsBase64 = v != 0
	case metaChunks:
		m.chunks = int32(v)
	case metaTotal:
		m.total = int32(v)
	case metaChunk:
		m.chunk = int32(v)
	}
}

func (m *entryMeta) text(field protowire.Number, v []byte) {
	switch field {
	case metaProperties:
		m.properties = true
	case metaOrigin:
		m.origin = v
	case metaKey:
		m.key = v
	case metaOrderingKey:
		m.orderingKey = v
	case metaKeys:
		m.encrypted = true
	case metaUUID:
		m.uuid = string(v)
	}
}

// asSingle is a message without a payload as one of a batch.
func (m *entryMeta) asSingle() []byte {
	var b []byte
	if m.key != nil {
		b = appendText(b, singleKey, string(m.key))
	}
	b = appendNumber(b, singlePayload, 0)
	b = appendNumber(b, singleEventTime, m.eventTime)
	if m.keyIsBase64 {
		b = appendNumber(b, singleKeyIsBase64, 1)
	}
	if m.orderingKey != nil {
		b = appendText(b, singleOrderingKey, string(m.orderingKey))
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)
}

func appendNumber(b []byte, field protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), v)
}

func appendText(b []byte, field protowire.Number, v string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), v)
}
