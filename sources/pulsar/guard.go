package pulsar

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// The client believes what producers write about their messages, and panics where it
// is not so: a batch that ends within a size ends the process, and does so again when
// the process has been started anew. It gives no other way to look at an entry before
// it does than its log: of each command it says that it has received it, with what
// the command carries, before it looks into it.
//
// guard makes it good there. An entry that the client would fall over, or throw away,
// gets a form in which it is handed on as one that nobody here can read (see
// obstacle), so that it ends the stream where it stands. A message without a payload
// that was sent alone, which the client would throw away, too, is made a batch of one.
// Compressed entries are unpacked here, since they can be looked at only then, and
// not again by the client (docs/decisions/0024-entries-are-looked-at-before-the-client-does.md).
// Of each chunk of a message a message is made.

// saysReceived is what the client says of each command.
const saysReceived = "Received command: %s -- payload: %v"

const (
	magicChecksum = 0x0e01
	magicBroker   = 0x0e02 // what the broker has added is in front

	// mostUnpacked bounds what an entry of 5 MB, the most that a broker takes by
	// default, may be when it is unpacked, in bytes.
	mostUnpacked = 128 << 20

	// mostChunks is of one message.
	mostChunks = 1 << 16
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// frame is what a command of the client's carries: one entry.
type frame interface {
	ReadableSlice() []byte
	Clear()
	Write([]byte)
}

// guard looks at what a command carries, if it carries anything, and changes it where
// the client could not read it.
func guard(carried any) {
	f, ok := carried.(frame)
	if !ok {
		return
	}
	if changed := safe(f.ReadableSlice()); changed != nil {
		f.Clear()
		f.Write(changed)
	}
}

// safe returns the form of an entry in which the client can have it; nil, where it can
// as it is.
func safe(entry []byte) []byte {
	front, rest, err := splitFront(entry)
	if err != nil {
		return unreadable(nil, err)
	}
	e, err := openEntry(rest)
	if err == nil && e.meta.encrypted {
		return nil // as if there were nothing in it
	}
	if err == nil {
		err = e.secure()
	}
	switch {
	case err != nil:
		return unreadable(front, err)
	case !e.changed:
		return nil
	}
	return e.pack(front)
}

// splitFront cuts off what the broker has added.
func splitFront(entry []byte) (front, rest []byte, err error) {
	if len(entry) < 6 || binary.BigEndian.Uint16(entry) != magicBroker {
		return nil, entry, nil
	}
	size := int64(binary.BigEndian.Uint32(entry[2:]))
	if size > int64(len(entry)-6) {
		return nil, nil, errors.New("what the broker tells of it is cut off")
	}
	return entry[:6+size], entry[6+size:], nil
}

// unreadable is an entry in place of one that the client must not see: it has
// nothing but a key to it that nobody has, of a name that obstacle knows.
func unreadable(front []byte, why error) []byte {
	key := appendText(appendText(nil, 1, unreadableKey), 2, why.Error())
	e := openedEntry{head: appendText(appendNumber(appendNumber(appendText(nil, metaProducer, "-"), metaSequence, 0), metaPublished, 0), metaKeys, string(key))}
	return e.pack(front)
}

// openedEntry is what stands in an entry behind its checksum.
type openedEntry struct {
	head    []byte // metadata
	meta    entryMeta
	payload []byte
	changed bool
}

func openEntry(b []byte) (e openedEntry, err error) {
	if len(b) < 2 || binary.BigEndian.Uint16(b) != magicChecksum {
		e.changed = true // the checksum may be left out, which the client does not know
	} else {
		if len(b) < 6 || crc32.Checksum(b[6:], castagnoli) != binary.BigEndian.Uint32(b[2:]) {
			return e, errors.New("its checksum is wrong")
		}
		b = b[6:]
	}
	if len(b) < 4 || int64(binary.BigEndian.Uint32(b)) > int64(len(b)-4) {
		return e, errors.New("its metadata are cut off")
	}
	size := binary.BigEndian.Uint32(b)
	e.head, e.payload = b[4:4+size], b[4+size:]
	e.meta, err = readEntryMeta(e.head)
	return e, err
}

// add appends to the metadata. What comes later counts.
func (e *openedEntry) add(field func([]byte) []byte) {
	e.head = field(e.head[:len(e.head):len(e.head)])
	e.changed = true
}

// secure changes the entry into one that the client can read. An error tells why it
// cannot be.
func (e *openedEntry) secure() error {
	m := &e.meta
	if key, ok := keyOfBase64(m.key, m.keyIsBase64); ok {
		m.key, m.keyIsBase64 = key, false
		e.add(func(b []byte) []byte { return appendNumber(appendText(b, metaKey, string(key)), metaKeyIsBase64, 0) })
	}
	switch {
	case bytes.HasPrefix(m.origin, []byte(chunkMark)):
		return errors.New("it is from a cluster of a name that is not free")
	case m.chunks > 1:
		if err := e.secureChunk(); err != nil {
			return err
		}
	case m.compression != compressionNone && m.uncompressed > 0:
		plain, err := unpack(m.compression, e.payload, int(m.uncompressed))
		if err != nil {
			return err
		}
		e.payload = plain
		e.add(func(b []byte) []byte {
			return appendNumber(appendNumber(b, metaCompression, compressionNone), metaUncompressed, 0)
		})
	}
	switch {
	case m.batched:
		changed, err := secureBatch(e.payload, int(m.messages))
		if err != nil {
			return err
		}
		if changed != nil {
			e.payload, e.changed = changed, true
		}
	case len(e.payload) == 0 && !m.properties:
		e.payload = m.asSingle()
		e.add(func(b []byte) []byte { return appendNumber(b, metaMessages, 1) })
	}
	return nil
}

// secureChunk makes a message of a chunk (see assembly).
func (e *openedEntry) secureChunk() error {
	m := &e.meta
	switch {
	case m.batched:
		return errors.New("it is a chunk of a message and a batch in one")
	case m.chunks > mostChunks:
		return fmt.Errorf("it is a chunk of a message that has %d, and %d are the most", m.chunks, mostChunks)
	case m.chunk < 0 || m.chunk >= m.chunks:
		return fmt.Errorf("it is chunk %d of a message that has %d", m.chunk, m.chunks)
	case max(int64(m.uncompressed), int64(m.total)) > mostUnpacked:
		return fmt.Errorf("it is a chunk of a message of %d bytes, and %d are the most", max(int64(m.uncompressed), int64(m.total)), mostUnpacked)
	}
	c := chunk{number: m.chunk, of: m.chunks, compression: m.compression, uncompressed: m.uncompressed, uuid: m.uuid}
	e.add(func(b []byte) []byte {
		b = appendNumber(appendText(b, metaOrigin, c.String()), metaChunks, 1)
		return appendNumber(appendNumber(b, metaCompression, compressionNone), metaUncompressed, 0)
	})
	return nil
}

// pack makes the entry's bytes.
func (e *openedEntry) pack(front []byte) []byte {
	b := make([]byte, 0, len(front)+10+len(e.head)+len(e.payload))
	b = binary.BigEndian.AppendUint16(append(b, front...), magicChecksum)
	b = append(b, 0, 0, 0, 0)
	sum := len(b)
	b = binary.BigEndian.AppendUint32(b, uint32(len(e.head)))
	b = append(append(b, e.head...), e.payload...)
	binary.BigEndian.PutUint32(b[sum-4:], crc32.Checksum(b[sum:], castagnoli))
	return b
}
