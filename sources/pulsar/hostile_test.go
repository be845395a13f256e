package pulsar_test

import (
	"bytes"
	"compress/zlib"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"net"
	"strings"
	"testing"
	"time"

	client "github.com/apache/pulsar-client-go/pulsar"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/sources/pulsar"
	"github.com/graphmill/graphmill/sources/sourcetest"
)

// A rawProducer sends what no client would: it writes the protocol by hand.
type rawProducer struct {
	t    *testing.T
	conn net.Conn
	sent uint64
}

// Numbers of the protocol (PulsarApi.proto).
const (
	typeConnect, typeProducer, typeSend    = 2, 5, 6
	fieldConnect, fieldProducer, fieldSend = 2, 5, 6
)

// Fields of a message's metadata.
const (
	metaKey          = 6
	metaCompression  = 8
	metaUncompressed = 9
	metaBatch        = 11
	metaUUID         = 26
	metaChunks       = 27
	metaTotal        = 28
	metaChunk        = 29
)

func (b *broker) raw(topic string) *rawProducer {
	b.t.Helper()
	// A broker takes a topic over when a client asks who has it.
	asking, err := b.client().CreateProducer(client.ProducerOptions{Topic: topic, SendTimeout: -1})
	require.NoError(b.t, err)
	asking.Close()
	conn, err := net.Dial("tcp", strings.TrimPrefix(b.URL(), "pulsar://"))
	require.NoError(b.t, err)
	b.t.Cleanup(func() { _ = conn.Close() })
	p := &rawProducer{t: b.t, conn: conn}
	p.write(typeConnect, fieldConnect, fields{}.text(1, "raw").number(4, 19), nil)
	p.read()
	p.write(typeProducer, fieldProducer, fields{}.text(1, topic).number(2, 1).number(3, 1), nil)
	p.read()
	return p
}

// send appends an entry.
func (p *rawProducer) send(metadata fields, payload []byte) {
	p.t.Helper()
	p.sent++
	all := fields{}.text(1, "raw").number(2, p.sent).number(3, uint64(time.Now().UnixMilli()))
	all = append(all, metadata...)
	body := binary.BigEndian.AppendUint32(nil, uint32(len(all)))
	body = append(append(body, all...), payload...)
	head := binary.BigEndian.AppendUint16(nil, 0x0e01)
	head = binary.BigEndian.AppendUint32(head, crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)))
	p.write(typeSend, fieldSend, fields{}.number(1, 1).number(2, p.sent), append(head, body...))
	p.read()
}

func (p *rawProducer) write(kind uint64, field protowire.Number, body fields, rest []byte) {
	p.t.Helper()
	command := fields{}.number(1, kind).message(field, body)
	frame := binary.BigEndian.AppendUint32(nil, uint32(4+len(command)+len(rest)))
	frame = binary.BigEndian.AppendUint32(frame, uint32(len(command)))
	_, err := p.conn.Write(append(append(frame, command...), rest...))
	require.NoError(p.t, err)
}

// read waits for an answer.
func (p *rawProducer) read() {
	p.t.Helper()
	require.NoError(p.t, p.conn.SetReadDeadline(time.Now().Add(sourcetest.Patience)))
	var size [4]byte
	_, err := io.ReadFull(p.conn, size[:])
	require.NoError(p.t, err)
	_, err = io.CopyN(io.Discard, p.conn, int64(binary.BigEndian.Uint32(size[:])))
	require.NoError(p.t, err)
}

// fields is a message of protobuf.
type fields []byte

func (f fields) number(n protowire.Number, v uint64) fields {
	return protowire.AppendVarint(protowire.AppendTag(f, n, protowire.VarintType), v)
}

func (f fields) text(n protowire.Number, s string) fields { return f.message(n, []byte(s)) }

func (f fields) message(n protowire.Number, b []byte) fields {
	return protowire.AppendBytes(protowire.AppendTag(f, n, protowire.BytesType), b)
}

// negative is a negative number as protobuf's int32 writes it.
func negative(n int32) uint64 { return uint64(int64(n)) }

// single is a message of a batch that claims to have a payload of so many bytes.
func single(claimed uint64, payload string) []byte {
	meta := fields{}.number(3, claimed)
	b := binary.BigEndian.AppendUint32(nil, uint32(len(meta)))
	return append(append(b, meta...), payload...)
}

// TestEntriesThatTheClientFallsOver reads entries that any producer can send, and
// that would bring the client, and the server with it, down. The stream ends where
// such an entry stands, and nothing behind it is handed out.
func TestEntriesThatTheClientFallsOver(t *testing.T) {
	batch := func(n uint64) fields { return fields{}.number(metaBatch, n) }
	tests := map[string]struct {
		metadata fields
		payload  []byte
	}{
		"a batch that ends within a size":           {batch(1), []byte("abc")},
		"a batch of one message more than there is": {batch(2), append(single(1, "x"), 0)},
		"a message of a batch with a negative size": {batch(1), single(negative(-5), "x")},
		"metadata of 4 GB in a batch":               {batch(1), []byte{0xff, 0xff, 0xff, 0xff, 1}},
		"a batch of two billion messages":           {batch(math.MaxInt32), single(1, "x")},
		"a batch of a negative number of messages":  {batch(negative(-1)), single(1, "x")},
		"a big message in two billion chunks": {
			fields{}.text(metaUUID, "u").number(metaChunks, math.MaxInt32).number(metaTotal, 1).number(metaChunk, 0), []byte("x"),
		},
		"a chunk and a batch in one": {
			fields{}.text(metaUUID, "u").number(metaChunks, 2).number(metaChunk, 0).number(metaBatch, 1), []byte("abc"),
		},
		"a batch that is packed and ends within a size": {batch(1).number(metaCompression, 2).number(metaUncompressed, 3), deflated([]byte("abc"))},
		"a message that is 4 GB when it is unpacked, it says": {
			fields{}.number(metaCompression, 1).number(metaUncompressed, math.MaxUint32), []byte("x"),
		},
		"a message that is larger when it is unpacked than it says": {
			fields{}.number(metaCompression, 3).number(metaUncompressed, 10), bomb(t),
		},
		"a message that cannot be unpacked":          {fields{}.number(metaCompression, 4).number(metaUncompressed, 10), []byte("x")},
		"a message that is packed in an unknown way": {fields{}.number(metaCompression, 9).number(metaUncompressed, 10), []byte("x")},
		"a chunk of a negative number": {
			fields{}.text(metaUUID, "u").number(metaChunks, 2).number(metaTotal, 1).number(metaChunk, negative(-7)), []byte("x"),
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := brokerOf(t, startServer(t))
			topic := b.Name()
			b.Create(topic, 1)
			cfg := b.config(sourcetest.Stream{Name: b.Name(), Topics: []string{topic}, Start: graphmill.Start{Earliest: true}})
			partition := topic + "-partition-0"
			b.produce(partition, graphmill.Message{Payload: []byte("before")})
			b.raw(partition).send(test.metadata, test.payload)
			b.produce(partition, graphmill.Message{Payload: []byte("behind")})
			src, err := pulsar.New(cfg, &sourcetest.Observer{})
			require.NoError(t, err)
			defer func() { require.NoError(t, src.Close(context.Background())) }()
			ctx, cancel := context.WithTimeout(t.Context(), sourcetest.Patience)
			defer cancel()
			require.NoError(t, src.Open(ctx))
			got, _ := sourcetest.Collect(t, src, 1)
			require.Equal(t, []string{"before"}, sourcetest.Payloads(got))
			more, err := src.Fetch(ctx, 10)
			require.Empty(t, more)
			var f *graphmill.Fault
			require.ErrorAs(t, err, &f)
			require.Equal(t, "entry_unreadable", f.Code)
			require.Equal(t, graphmill.FaultSetup, f.Class)
		})
	}
}

// TestNothingBeforeAnEntryThatCannotBeRead has nobody to ask whose the partition is,
// and a broker that tells it before the client listens.
func TestNothingBeforeAnEntryThatCannotBeRead(t *testing.T) {
	b := brokerOf(t, startServer(t))
	topic := b.Name()
	b.Create(topic, 1)
	cfg := b.config(sourcetest.Stream{Name: b.Name(), Topics: []string{topic}, Start: graphmill.Start{Earliest: true}})
	cfg.AdminURL = ""
	b.raw(topic+"-partition-0").send(fields{}.number(metaBatch, 1), []byte("abc"))
	src, err := pulsar.New(cfg, &sourcetest.Observer{})
	require.NoError(t, err)
	defer func() { require.NoError(t, src.Close(context.Background())) }()
	ctx, cancel := context.WithTimeout(t.Context(), sourcetest.Patience)
	defer cancel()
	require.NoError(t, src.Open(ctx))
	_, err = src.Fetch(ctx, 10)
	var f *graphmill.Fault
	require.ErrorAs(t, err, &f)
	require.Equal(t, "entry_unreadable", f.Code)
}

func deflated(b []byte) []byte {
	var out bytes.Buffer
	w := zlib.NewWriter(&out)
	_, _ = w.Write(b)
	_ = w.Close()
	return out.Bytes()
}

// bomb is a few kilobytes that are 256 MiB when they are unpacked.
func bomb(t *testing.T) []byte {
	var out bytes.Buffer
	w, err := zstd.NewWriter(&out, zstd.WithEncoderConcurrency(1))
	require.NoError(t, err)
	block := make([]byte, 1<<20)
	for range 1 << 8 {
		_, err := w.Write(block)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return out.Bytes()
}

// TestChunksThatDoNotAgree sends chunks of one name that tell different numbers of
// chunks, and of a negative size. They are no message; others go on.
func TestChunksThatDoNotAgree(t *testing.T) {
	b := brokerOf(t, startServer(t))
	topic := b.Name()
	b.Create(topic, 1)
	cfg := b.config(sourcetest.Stream{Name: b.Name(), Topics: []string{topic}, Start: graphmill.Start{Earliest: true}})
	raw := b.raw(topic + "-partition-0")
	for chunk, of := range []uint64{2, 3, 3} {
		raw.send(fields{}.text(metaUUID, "u").number(metaChunks, of).number(metaTotal, negative(-1)).number(metaChunk, uint64(chunk)), []byte("x"))
	}
	b.produce(topic+"-partition-0", graphmill.Message{Payload: []byte("behind")})
	src, err := pulsar.New(cfg, &sourcetest.Observer{})
	require.NoError(t, err)
	defer func() { require.NoError(t, src.Close(context.Background())) }()
	require.NoError(t, src.Open(t.Context()))
	got, _ := sourcetest.Collect(t, src, 1)
	require.Equal(t, []string{"behind"}, sourcetest.Payloads(got))
}

// TestPackedMessagesAreRead reads what producers have packed in each way.
func TestPackedMessagesAreRead(t *testing.T) {
	b := brokerOf(t, startServer(t))
	topic := b.Name()
	b.Create(topic, 1)
	cfg := b.config(sourcetest.Stream{Name: b.Name(), Topics: []string{topic}, Start: graphmill.Start{Earliest: true}})
	var want []string
	for _, kind := range []client.CompressionType{client.NoCompression, client.LZ4, client.ZLib, client.ZSTD, client.SNAPPY} {
		for _, alone := range []bool{false, true} {
			p, err := b.client().CreateProducer(client.ProducerOptions{
				Topic: topic + "-partition-0", SendTimeout: -1, CompressionType: kind, DisableBatching: alone, BatchingMaxPublishDelay: time.Hour,
			})
			require.NoError(t, err)
			for range 3 {
				text := fmt.Sprint(kind, alone, len(want), strings.Repeat("-x-", len(want)*100))
				want = append(want, text)
				p.SendAsync(t.Context(), &client.ProducerMessage{Payload: []byte(text), Key: "k", Properties: map[string]string{"a": "b"}},
					func(_ client.MessageID, _ *client.ProducerMessage, err error) { require.NoError(t, err) })
			}
			require.NoError(t, p.FlushWithCtx(t.Context()))
			p.Close()
		}
	}
	src, err := pulsar.New(cfg, &sourcetest.Observer{})
	require.NoError(t, err)
	defer func() { require.NoError(t, src.Close(context.Background())) }()
	require.NoError(t, src.Open(t.Context()))
	got, _ := sourcetest.Collect(t, src, len(want))
	require.Equal(t, want, sourcetest.Payloads(got))
	for _, m := range got {
		require.Equal(t, "k", string(m.Key))
		require.Equal(t, []graphmill.Header{{Key: "a", Value: []byte("b")}}, m.Headers)
	}
}

// TestEmptyMessagesAreRead sends messages without a payload, as deletions of a key
// are, by producers that make no batches.
func TestEmptyMessagesAreRead(t *testing.T) {
	b := brokerOf(t, startServer(t))
	topic := b.Name()
	b.Create(topic, 1)
	cfg := b.config(sourcetest.Stream{Name: b.Name(), Topics: []string{topic}, Start: graphmill.Start{Earliest: true}})
	p, err := b.client().CreateProducer(client.ProducerOptions{Topic: topic + "-partition-0", SendTimeout: -1, DisableBatching: true})
	require.NoError(t, err)
	defer p.Close()
	_, err = p.Send(t.Context(), &client.ProducerMessage{Key: "k", Payload: []byte{}, EventTime: time.UnixMilli(5)})
	require.NoError(t, err)
	b.raw(topic+"-partition-0").send(fields{}.text(metaKey, "l"), nil)
	b.produce(topic+"-partition-0", graphmill.Message{Payload: []byte("behind")})
	src, err := pulsar.New(cfg, &sourcetest.Observer{})
	require.NoError(t, err)
	defer func() { require.NoError(t, src.Close(context.Background())) }()
	require.NoError(t, src.Open(t.Context()))
	got, _ := sourcetest.Collect(t, src, 3)
	require.Equal(t, []string{"", "", "behind"}, sourcetest.Payloads(got))
	require.Equal(t, "k", string(got[0].Key))
	require.EqualValues(t, 5, got[0].Timestamp)
	require.Equal(t, "l", string(got[1].Key))
}
