package pulsar

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzSafe gives entries as a producer may send them: what the client gets of them has
// a checksum and metadata that hold, and is left as it is at a second look, but for
// chunks, of which messages have been made.
func FuzzSafe(f *testing.F) {
	meta := appendNumber(appendNumber(appendText(nil, metaProducer, "p"), metaSequence, 1), metaPublished, 2)
	alone := openedEntry{head: meta, payload: []byte("payload")}
	batch := openedEntry{head: appendNumber(meta, metaMessages, 1), payload: []byte{0, 0, 0, 2, singlePayload << 3, 1, 'a'}}
	packed := openedEntry{head: appendNumber(appendNumber(meta, metaCompression, compressionLZ4), metaUncompressed, 1), payload: []byte{0x10, 'a'}}
	chunk := openedEntry{head: appendNumber(appendNumber(meta, metaChunks, 2), metaChunk, 1), payload: []byte("half")}
	keyed := openedEntry{head: appendNumber(appendText(meta, metaKey, "AP/+"), metaKeyIsBase64, 1), payload: []byte("payload")}
	keys := openedEntry{head: appendNumber(meta, metaMessages, 1), payload: []byte{0, 0, 0, 10, singlePayload << 3, 1, singleKey<<3 | 2, 4, 'A', 'P', '/', '+', singleKeyIsBase64 << 3, 1, 'a'}}
	for _, e := range []openedEntry{alone, batch, packed, chunk, keyed, keys, {head: meta}} {
		f.Add(e.pack(nil))
		f.Add(e.pack([]byte{magicBroker >> 8, magicBroker & 0xff, 0, 0, 0, 1, 7}))
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, entry []byte) {
		changed := safe(entry)
		if changed == nil {
			return
		}
		_, rest, err := splitFront(changed)
		require.NoError(t, err)
		e, err := openEntry(rest)
		require.NoError(t, err)
		require.False(t, e.changed, "it has a checksum")
		require.LessOrEqual(t, e.meta.chunks, int32(1), "the client puts nothing together")
		if !bytes.HasPrefix(e.meta.origin, []byte(chunkMark)) {
			require.Nil(t, safe(changed))
		}
	})
}
