package pulsar_test

import (
	"context"
	"testing"
	"time"

	client "github.com/apache/pulsar-client-go/pulsar"
	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/integration/pulsarserver"
	"github.com/graphmill/graphmill/sources/pulsar"
	"github.com/graphmill/graphmill/sources/sourcetest"
)

func texted(payload string) graphmill.Message { return graphmill.Message{Payload: []byte(payload)} }

// TestTheBrokerRunsAhead has a broker send what comes later before what it has given
// to somebody else in between. Nothing behind the gap is handed out until it has come.
func TestTheBrokerRunsAhead(t *testing.T) {
	s := startFake(t, pulsarserver.Options{NoAutoCreate: true, FailoverDelay: 200 * time.Millisecond})
	b := brokerOf(t, s)
	topic := b.Name()
	b.Create(topic, 1)
	partition := topic + "-partition-0"
	cfg := b.config(sourcetest.Stream{Name: b.Name(), Topics: []string{topic}, Start: graphmill.Start{Earliest: true}})
	src, err := pulsar.New(cfg, &sourcetest.Observer{})
	require.NoError(t, err)
	defer func() { require.NoError(t, src.Close(context.Background())) }()
	require.NoError(t, src.Open(t.Context()))
	b.produce(partition, texted("a"))
	got, at := sourcetest.Collect(t, src, 1)
	require.NoError(t, src.Acknowledge(t.Context(), sourcetest.Positions(at)))
	require.Equal(t, []string{"a"}, sourcetest.Payloads(got))
	s.RunAhead(partition, cfg.Subscription, 1)
	b.produce(partition, texted("b"))
	b.produce(partition, texted("c"))
	got, _ = sourcetest.Collect(t, src, 2)
	require.Equal(t, []string{"b", "c"}, sourcetest.Payloads(got))
}

// TestTheBrokerRunsAheadForANewcomer has the broker send to a consumer that it has told
// nothing yet, when the one before it leaves.
func TestTheBrokerRunsAheadForANewcomer(t *testing.T) {
	s := startFake(t, pulsarserver.Options{NoAutoCreate: true, FailoverDelay: time.Second})
	b := brokerOf(t, s)
	topic := b.Name()
	b.Create(topic, 1)
	partition := topic + "-partition-0"
	cfg := b.config(sourcetest.Stream{Name: b.Name(), Topics: []string{topic}, Start: graphmill.Start{Earliest: true}})
	cfg.AdminURL = ""
	first, err := b.client().Subscribe(client.ConsumerOptions{ // by its name, too
		Topic: partition, SubscriptionName: cfg.Subscription, Name: "a", Type: client.Failover, SubscriptionInitialPosition: client.SubscriptionPositionEarliest,
	})
	require.NoError(t, err)
	for _, text := range []string{"a", "b"} {
		b.produce(partition, texted(text))
		_, err := first.Receive(t.Context())
		require.NoError(t, err)
	}
	src, err := pulsar.New(cfg, &sourcetest.Observer{})
	require.NoError(t, err)
	defer func() { require.NoError(t, src.Close(context.Background())) }()
	require.NoError(t, src.Open(t.Context()))
	first.Close()
	s.RunAhead(partition, cfg.Subscription, 0)
	b.produce(partition, texted("c"))
	got, _ := sourcetest.Collect(t, src, 3)
	require.Equal(t, []string{"a", "b", "c"}, sourcetest.Payloads(got))
}

// TestGapsAreWaitedForInVain reads entries between which others have been acknowledged
// one by one: they are missing for good.
func TestGapsAreWaitedForInVain(t *testing.T) {
	b := brokerOf(t, startServer(t))
	topic := b.Name()
	b.Create(topic, 1)
	partition := topic + "-partition-0"
	cfg := b.config(sourcetest.Stream{Name: b.Name(), Topics: []string{topic}, Start: graphmill.Start{Earliest: true}})
	other, err := b.client().Subscribe(client.ConsumerOptions{
		Topic: partition, SubscriptionName: cfg.Subscription, Type: client.Failover, SubscriptionInitialPosition: client.SubscriptionPositionEarliest, AckWithResponse: true,
	})
	require.NoError(t, err)
	var want []string
	for _, text := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"} {
		b.produce(partition, texted(text))
		m, err := other.Receive(t.Context())
		require.NoError(t, err)
		if len(want)%2 == 0 && text != "k" || text == "j" {
			want = append(want, text)
			continue
		}
		want = append(want, "")
		require.NoError(t, other.Ack(m))
	}
	other.Close()
	var left []string
	for _, text := range want {
		if text != "" {
			left = append(left, text)
		}
	}
	src, err := pulsar.New(cfg, &sourcetest.Observer{})
	require.NoError(t, err)
	defer func() { require.NoError(t, src.Close(context.Background())) }()
	require.NoError(t, src.Open(t.Context()))
	got, _ := sourcetest.Collect(t, src, len(left))
	require.Equal(t, left, sourcetest.Payloads(got))
}
