package kafka_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/sources/kafka"
)

func (b *broker) producer() *kafka.Producer {
	b.t.Helper()
	p, err := kafka.NewProducer([]string{b.addr}, kafka.ClientSettings{})
	require.NoError(b.t, err)
	b.t.Cleanup(p.Close)
	return p
}

func TestProducerWritesWhatItIsGiven(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	topic := b.name("t")
	p := b.producer()
	require.NoError(t, p.EnsureTopic(t.Context(), topic, 3))
	require.NoError(t, p.EnsureTopic(t.Context(), topic, 5), "it stays as it is")
	td, err := b.adm.ListTopics(t.Context(), topic)
	require.NoError(t, err)
	require.Len(t, td[topic].Partitions, 3)

	const n = 25_000 // more than may be unsent at once
	for i := range n {
		key := []byte(fmt.Sprint(i % 100))
		require.NoError(t, p.Send(t.Context(), topic, key, fmt.Append(nil, i), []graphmill.Header{{Key: "h", Value: key}}))
	}
	require.NoError(t, p.Send(t.Context(), topic, nil, nil, nil))
	sent, err := p.Flush(t.Context())
	require.NoError(t, err)
	require.Equal(t, n+1, sent)

	got, _ := collect(t, b.reader(b.config(topic), "earliest"), n+1)
	last := map[string]int{}
	nulls := 0
	for _, m := range got {
		if m.Payload == nil {
			require.Nil(t, m.Key)
			nulls++
			continue
		}
		require.Equal(t, []graphmill.Header{{Key: "h", Value: m.Key}}, m.Headers)
		var i int
		_, err := fmt.Sscan(string(m.Payload), &i)
		require.NoError(t, err)
		if before, ok := last[string(m.Key)]; ok {
			require.Greater(t, i, before, "messages of one key keep their order")
		}
		last[string(m.Key)] = i
	}
	require.Equal(t, 1, nulls)
	require.Len(t, last, 100)
}

func TestProducerSaysWhyItCannotWrite(t *testing.T) {
	t.Parallel()
	b := newFake(t)
	t.Run("an unknown topic", func(t *testing.T) {
		f := fault(t, b.producer().Send(t.Context(), "absent", nil, []byte("x"), nil))
		require.Equal(t, "topic_absent", f.Code)
	})
	t.Run("no broker", func(t *testing.T) {
		p, err := kafka.NewProducer([]string{"127.0.0.1:1"}, kafka.ClientSettings{})
		require.NoError(t, err)
		defer p.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		f := fault(t, p.Send(ctx, "t", nil, []byte("x"), nil))
		require.Equal(t, "broker_unreachable", f.Code)
		require.Contains(t, f.Text, "127.0.0.1:1")
	})
	t.Run("an address that is none", func(t *testing.T) {
		_, err := kafka.NewProducer([]string{"host:port"}, kafka.ClientSettings{})
		require.Equal(t, graphmill.KindInvalid, graphmill.KindOf(err))
	})
	t.Run("a name that cannot be a topic", func(t *testing.T) {
		b.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.CreateTopics}, Err: kerr.InvalidTopicException}) // kfake takes every name
		f := fault(t, b.producer().EnsureTopic(t.Context(), "no/topic", 1))
		require.Equal(t, "topic_invalid", f.Code)
	})
	t.Run("a message that is too large", func(t *testing.T) {
		p := b.producer()
		topic := b.topic(1)
		require.NoError(t, p.Send(t.Context(), topic, nil, make([]byte, 2<<20), nil))
		sent, err := p.Flush(t.Context())
		require.Zero(t, sent)
		require.Equal(t, "message_too_large", fault(t, err).Code)
		require.Error(t, p.Send(t.Context(), topic, nil, []byte("x"), nil), "the first error stays")
	})
	t.Run("a topic that may not be written", func(t *testing.T) {
		p := b.producer()
		topic := b.topic(1)
		h := b.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: topic, Err: kerr.TopicAuthorizationFailed, Count: -1})
		defer h.Remove()
		require.NoError(t, p.Send(t.Context(), topic, nil, []byte("x"), nil))
		_, err := p.Flush(t.Context())
		require.Equal(t, "forbidden", fault(t, err).Code)
	})
}
