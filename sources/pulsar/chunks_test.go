package pulsar_test

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/klauspost/compress/snappy"
	"github.com/pierrec/lz4/v4"
	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/integration/pulsarserver"
	"github.com/graphmill/graphmill/sources/pulsar"
	"github.com/graphmill/graphmill/sources/sourcetest"
)

const metaPublished, metaOrigin = 3, 5

// chunkOf is the metadata of a chunk.
func chunkOf(uuid string, number, of int) fields {
	return fields{}.text(metaUUID, uuid).number(metaChunks, uint64(of)).number(metaChunk, uint64(number))
}

// TestChunksBecomeMessages sends chunks of a message m as producers may, and in the
// middle of them the message "else". All that was sent is acknowledged at the end.
func TestChunksBecomeMessages(t *testing.T) {
	type entry struct {
		metadata fields
		payload  string
	}
	other := entry{payload: "else"}
	c := func(number int, payload string) entry { return entry{chunkOf("m", number, 3), payload} }
	packed := string(deflated([]byte("onetwothree")))
	p := func(number int, payload string) entry {
		return entry{chunkOf("m", number, 3).number(metaCompression, 2).number(metaUncompressed, 11), payload}
	}
	tests := map[string]struct {
		sent []entry
		want []string
	}{
		"others between them":              {[]entry{c(0, "one"), other, c(1, "two"), c(2, "three")}, []string{"else", "onetwothree"}},
		"compressed as a whole":            {[]entry{p(0, packed[:3]), other, p(1, packed[3:9]), p(2, packed[9:])}, []string{"else", "onetwothree"}},
		"sent again from the beginning on": {[]entry{c(0, "one"), c(1, "two"), other, c(0, "one"), c(1, "two"), c(2, "three")}, []string{"else", "onetwothree"}},
		"another one by the same name":     {[]entry{c(0, "o"), c(1, "t"), other, c(0, "one"), c(1, "two"), c(2, "three")}, []string{"else", "onetwothree"}},
		"one of them twice":                {[]entry{c(0, "one"), c(1, "two"), other, c(1, "two"), c(2, "three")}, []string{"else", "onetwothree"}},
		"one without a payload":            {[]entry{c(0, "one"), other, c(1, ""), c(2, "three")}, []string{"else", "onethree"}},
		"all without a payload":            {[]entry{c(0, ""), other, c(1, ""), c(2, "")}, []string{"else", ""}},
		"two messages in turn": {[]entry{c(0, "one"), {chunkOf("n", 0, 2), "ei"}, other, c(1, "two"), {chunkOf("n", 1, 2), "ns"}, c(2, "three")},
			[]string{"else", "eins", "onetwothree"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := brokerOf(t, startServer(t))
			cfg, topic := b.fromBeginning(1)
			send := func(metadata fields, payload string) { // the broker does without one that does not answer its pings
				b.raw(topic+"-partition-0").send(metadata, []byte(payload))
			}
			src, _ := b.open(cfg)
			for i, e := range test.sent {
				if i == 2 { // the client's queue and ours are empty again
					require.NoError(t, src.Close(t.Context()))
					src, _ = b.open(cfg)
				}
				send(append(fields{}.text(metaKey, "a2V5").number(metaKeyIsBase64, 1).number(12, 5), e.metadata...), e.payload)
			}
			got, at := sourcetest.Collect(t, src, len(test.want))
			require.Equal(t, test.want, sourcetest.Payloads(got))
			for _, m := range got {
				require.Equal(t, "key", string(m.Key))
				require.EqualValues(t, 5, m.Timestamp)
			}
			require.EqualValues(t, len(test.sent)-1, got[len(got)-1].MessageID.Entry, "of the last chunk")
			b.acknowledge(src, at)
			require.NoError(t, src.Close(t.Context()))
			send(nil, "the last")
			src, _ = b.open(cfg)
			got, _ = sourcetest.Collect(t, src, 1)
			require.Equal(t, []string{"the last"}, sourcetest.Payloads(got), "all chunks are acknowledged")

			r, err := pulsar.NewReader(cfg, "earliest")
			require.NoError(t, err)
			defer r.Close()
			got, _ = sourcetest.Collect(t, r, len(test.want)+1)
			require.Equal(t, append(test.want, "the last"), sourcetest.Payloads(got), "CHECK reads the same")
		})
	}
}

// TestChunksThatAreNoMessage end the stream where the chunk stands by which that is
// known, and take no memory for what they tell.
func TestChunksThatAreNoMessage(t *testing.T) {
	zstdBomb := bomb(t)
	plain := make([]byte, 1<<20)
	lz := make([]byte, lz4.CompressBlockBound(len(plain)))
	n, err := lz4.CompressBlock(plain, lz, nil)
	require.NoError(t, err)
	lz = lz[:n]
	packed := func(kind, size uint64) fields {
		return fields{}.number(metaCompression, kind).number(metaUncompressed, size)
	}
	tests := map[string]struct {
		metadata fields
		payload  []byte // of all chunks
		at       int    // the chunk
		why      string
	}{
		"a bomb of LZ4":                       {packed(1, 10), lz, 1, "unpacked"},
		"a bomb of zlib that tells less":      {packed(2, math.MaxUint32), deflated(plain), 0, "4294967295 bytes"},
		"a bomb of zstd":                      {packed(3, 10), zstdBomb, 1, "unpacked"},
		"a bomb of Snappy":                    {packed(4, 10), snappy.Encode(nil, plain), 1, "unpacked"},
		"a message that cannot be unpacked":   {packed(3, 10), []byte("nothing"), 1, "unpacked"},
		"packed in an unknown way":            {packed(9, 10), []byte("nothing"), 1, "nobody here knows (9)"},
		"4 GB unpacked, it says":              {packed(3, math.MaxUint32), []byte("nothing"), 0, "4294967295 bytes"},
		"2 GB in all, it says":                {fields{}.number(metaTotal, math.MaxInt32), []byte("nothing"), 0, "2147483647 bytes"},
		"what only we note stands in a chunk": {fields{}.text(metaOrigin, "graphmill: chunk 0/2/0/0/u"), []byte("nothing"), 0, "not free"},
	}
	if startReal != nil { // it takes the name of a cluster from nobody but other clusters
		delete(tests, "what only we note stands in a chunk")
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := brokerOf(t, startServer(t))
			cfg, topic := b.fromBeginning(1)
			partition := topic + "-partition-0"
			raw := b.raw(partition)
			b.produce(partition, texted("before"))
			half := len(test.payload) / 2
			raw.send(append(chunkOf("u", 0, 2), test.metadata...), test.payload[:half])
			raw.send(append(chunkOf("u", 1, 2), test.metadata...), test.payload[half:])
			b.produce(partition, texted("behind"))
			src, _ := b.open(cfg)
			got, at := sourcetest.Collect(t, src, 1)
			require.Equal(t, []string{"before"}, sourcetest.Payloads(got))
			f := failure(t, src)
			require.Equal(t, "entry_unreadable", f.Code)
			require.Contains(t, f.Text, fmt.Sprintf("entry %d:%d of %s/0", got[0].MessageID.Ledger, 1+test.at, topic))
			require.Contains(t, f.Text, test.why)
			require.Contains(t, f.Next, "offsets --set")
			b.acknowledge(src, at)
			require.NoError(t, src.Close(t.Context()))
			src, _ = b.open(cfg)
			require.Equal(t, f.Text, failure(t, src).Text, "nothing of it is acknowledged")
		})
	}
}

// failure is the fault by which a source that has nothing more to give ends.
func failure(t *testing.T, src *pulsar.Source) *graphmill.Fault {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), sourcetest.Patience)
	defer cancel()
	more, err := src.Fetch(ctx, 10)
	require.Empty(t, more)
	var f *graphmill.Fault
	require.ErrorAs(t, err, &f)
	require.Equal(t, graphmill.FaultSetup, f.Class)
	return f
}

// TestManyMessagesAreIncomplete has more of them than the client would keep.
func TestManyMessagesAreIncomplete(t *testing.T) {
	const many = 150
	b := brokerOf(t, startServer(t))
	cfg, topic := b.fromBeginning(1)
	raw := b.raw(topic + "-partition-0")
	var want []string
	for number := range 2 {
		for i := range many {
			raw.send(chunkOf(fmt.Sprint("u", i), number, 2), fmt.Append(nil, i))
			if number == 0 {
				want = append(want, fmt.Sprintf("%d%[1]d", i))
			}
		}
	}
	src, _ := b.open(cfg)
	got, _ := sourcetest.Collect(t, src, many)
	require.Equal(t, want, sourcetest.Payloads(got))
	require.NoError(t, src.Close(t.Context()))

	cfg.Client = settings(t, map[string]string{"maxPendingChunkedMessage": fmt.Sprint(many - 1)})
	src, _ = b.open(cfg)
	f := failure(t, src)
	require.Equal(t, "chunks_incomplete", f.Code)
	require.Contains(t, f.Text, fmt.Sprintf("150 messages in chunks are incomplete in %s/0", topic))
	require.Contains(t, f.Text, fmt.Sprintf("the oldest begins at %d:0", got[0].MessageID.Ledger))
	require.NoError(t, src.Close(t.Context()))
	cfg.Client = settings(t, map[string]string{"maxPendingChunkedMessage": fmt.Sprint(many)})
	src, _ = b.open(cfg)
	got, _ = sourcetest.Collect(t, src, many)
	require.Len(t, got, many, "nothing has been acknowledged")
}

// TestTheRestOfAMessageComesLate has nobody fetch for longer than the rest of a message
// is waited for, while it waits at the broker.
func TestTheRestOfAMessageComesLate(t *testing.T) {
	t.Parallel()
	b := brokerOf(t, startServer(t))
	cfg, topic := b.fromBeginning(1)
	cfg.Client = settings(t, map[string]string{"expireTimeOfIncompleteChunkedMessageMillis": "1000"})
	raw := b.raw(topic + "-partition-0")
	now := fields{}.number(metaPublished, uint64(time.Now().UnixMilli())) // all at once, however long it takes
	raw.send(append(chunkOf("u", 0, 2), now...), []byte("one"))
	raw.send(now, []byte("a"))
	src, _ := b.open(cfg)
	got, at := sourcetest.Collect(t, src, 1)
	require.Equal(t, []string{"a"}, sourcetest.Payloads(got))
	b.acknowledge(src, at)
	raw.send(now, []byte("b"))
	raw.send(append(chunkOf("u", 1, 2), now...), []byte("two"))
	<-time.After(1500 * time.Millisecond) // what must not end the wait
	got, at = sourcetest.Collect(t, src, 2)
	require.Equal(t, []string{"b", "onetwo"}, sourcetest.Payloads(got))
	b.acknowledge(src, at)
}

// TestMessagesInChunksThatAreGivenUp have lost their producers, or their beginnings. The
// broker need not keep them for ever.
func TestMessagesInChunksThatAreGivenUp(t *testing.T) {
	t.Parallel()
	s := startFake(t, pulsarserver.Options{NoAutoCreate: true})
	b := brokerOf(t, s)
	cfg, topic := b.fromBeginning(1)
	cfg.Client = settings(t, map[string]string{"expireTimeOfIncompleteChunkedMessageMillis": "1000"})
	partition := topic + "-partition-0"
	raw := b.raw(partition)
	raw.send(chunkOf("dead", 0, 3), []byte("one"))
	raw.send(chunkOf("dead", 1, 3), []byte("two"))
	raw.send(chunkOf("half", 1, 3), []byte("two"))
	src, _ := b.open(cfg)
	backlog := func() int {
		state, _ := s.Subscription(partition, cfg.Subscription)
		return state.Backlog
	}
	ahead := uint64(time.Now().Add(time.Hour).UnixMilli())
	raw.send(fields{}.number(metaPublished, ahead), []byte("of a clock that is wrong"))
	_, at := sourcetest.Collect(t, src, 1)
	b.acknowledge(src, at)
	require.Equal(t, 3, backlog(), "one clock is not enough")
	require.Eventually(t, func() bool {
		raw.send(nil, []byte("later"))
		_, at := sourcetest.Collect(t, src, 1)
		b.acknowledge(src, at)
		return backlog() == 0
	}, sourcetest.Patience, 100*time.Millisecond)
	require.NoError(t, src.Close(t.Context()))
	raw.send(chunkOf("dead", 2, 3), bytes.Repeat([]byte("x"), 10))
	raw.send(nil, []byte("the last"))
	src, _ = b.open(cfg)
	got, _ := sourcetest.Collect(t, src, 1)
	require.Equal(t, []string{"the last"}, sourcetest.Payloads(got))
}
