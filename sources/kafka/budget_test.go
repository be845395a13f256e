package kafka_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/graphmill/graphmill/sources/kafka"
	"github.com/graphmill/graphmill/sources/sourcetest"
)

// What the client has fetched and not handed out stays within the bounds,
// decompressed, however well the data compress and however small messages are.
func TestBuffersAreBounded(t *testing.T) {
	noise := func() []byte {
		v := make([]byte, 1000)
		for i := range v {
			v[i] = byte(rand.IntN(256))
		}
		return v
	}
	same := func(v []byte) func() []byte { return func() []byte { return v } }
	for _, c := range []struct {
		name     string
		brokers  int
		value    func() []byte
		count    int
		messages int
		bytes    int64
		batch    int // messages of one record batch, which may exceed the bounds
	}{
		{"data that do not compress", 1, noise, 6_000, 50_000, 1 << 20, 100},
		{"data that compress a thousandfold", 1, same(bytes.Repeat([]byte("x"), 1000)), 15_000, 50_000, 1 << 20, 100},
		{"tiny messages", 1, same([]byte("x")), 40_000, 2000, 32 << 20, 500},
		{"partitions on three brokers", 3, noise, 6_000, 900, 1 << 20, 50},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBrokers(t, c.brokers)
			topic := b.topic(4)
			b.fill(topic, 4, c.value, c.count, c.batch)

			cfg := b.config(topic)
			cfg.Start.Earliest = true
			cfg.MaxBufferedMessages, cfg.MaxBufferedBytes = c.messages, c.bytes
			s, _ := b.open(cfg)
			read, mostMessages, mostBytes := 0, int64(0), int64(0)
			ctx, cancel := context.WithTimeout(t.Context(), sourcetest.Patience)
			defer cancel()
			for read < c.count {
				fetches, err := s.Fetch(ctx, 50)
				require.NoError(t, err)
				messages, bytes := kafka.Buffered(s)
				for _, f := range fetches {
					read += len(f.Messages)
					messages += int64(len(f.Messages))
					for i := range f.Messages {
						bytes += f.Messages[i].Size()
					}
				}
				mostMessages, mostBytes = max(mostMessages, messages), max(mostBytes, bytes)
			}
			require.Equal(t, c.count, read)
			t.Logf("at most %d messages, %d bytes", mostMessages, mostBytes)
			batchBytes := int64(c.batch * len(c.value()))
			require.LessOrEqual(t, mostBytes, c.bytes+int64(c.brokers)*batchBytes)
			require.LessOrEqual(t, mostMessages, int64(c.messages+c.brokers*c.batch))
			require.Positive(t, mostMessages)
		})
	}
}

// fill writes count messages in record batches of the given size.
func (b *broker) fill(topic string, partitions int32, value func() []byte, count, batch int) {
	b.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.addr), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(kgo.ZstdCompression()), kgo.ProducerLinger(0))
	require.NoError(b.t, err)
	defer cl.Close()
	for at := 0; at < count; at += batch {
		records := make([]*kgo.Record, 0, batch)
		for range min(batch, count-at) {
			records = append(records, &kgo.Record{Topic: topic, Partition: int32(at/batch) % partitions, Value: value()})
		}
		require.NoError(b.t, cl.ProduceSync(b.t.Context(), records...).FirstErr())
	}
}
