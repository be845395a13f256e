package pulsar_test

import (
	"context"
	"fmt"
	"sync/atomic"
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

// TestAReadThatWasUnderWay has a broker send an entry by itself before it sends all
// that is not acknowledged, in which that one comes again. Nothing that comes before
// it is left out until then.
func TestAReadThatWasUnderWay(t *testing.T) {
	tests := map[string]struct {
		done  int // messages of the first entry; 4: all
		early int // entries behind the first that is not acknowledged
		first []string
		again int // the first message that comes then
	}{
		"behind an entry done in half":    {done: 1, early: 1},
		"two behind one done in half":     {done: 3, early: 2},
		"behind an entry that is to come": {done: 4, early: 1},
		"with nothing done":               {done: 0, early: 1},
		"what is to come":                 {done: 4, early: 0, first: []string{"4", "5"}, again: 4},
		"what is done in half":            {done: 2, early: 0, first: []string{"2", "3"}, again: 0}, // half of an entry is known as done only until it goes away
	}
	for name, test := range tests {
		for _, admin := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, admin REST %t", name, admin), func(t *testing.T) {
				t.Parallel()
				s := startFake(t, pulsarserver.Options{NoAutoCreate: true})
				b := brokerOf(t, s)
				cfg, topic := b.fromBeginning(1)
				if !admin {
					cfg.AdminURL = ""
				}
				partition := topic + "-partition-0"
				messages := []string{"0", "1", "2", "3", "4", "5", "6"}
				src, o := b.open(cfg)
				at := o.Owned()[0]
				b.produce(partition, texted("0"), texted("1"), texted("2"), texted("3"))
				b.produce(partition, texted("4"), texted("5"))
				b.produce(partition, texted("6"))
				got, _ := sourcetest.Collect(t, src, len(messages))
				for i := range test.done {
					at.Pass(&got[i])
				}
				b.acknowledge(src, map[graphmill.TopicPartition]graphmill.Position{at.TopicPartition: at})
				require.NoError(t, src.Close(t.Context()))

				var sent atomic.Int64
				rest, send := context.WithCancel(t.Context())
				defer send()
				s.SetHooks(pulsarserver.Hooks{OnDeliver: func(pulsarserver.Delivery) pulsarserver.Cut {
					if sent.Add(1) > 1 {
						<-rest.Done()
					}
					return pulsarserver.CutNever
				}})
				s.ReadBeforeTurn(partition, cfg.Subscription, test.early)
				cfg.Known = []graphmill.Position{at}
				src, o = b.open(cfg)
				require.Eventually(t, func() bool { return sent.Load() > 1 }, sourcetest.Patience, time.Millisecond)
				if test.first != nil {
					got, _ = sourcetest.Collect(t, src, len(test.first))
					require.Equal(t, test.first, sourcetest.Payloads(got))
				} else {
					ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
					early, err := src.Fetch(ctx, 1)
					cancel()
					require.ErrorIs(t, err, context.DeadlineExceeded, "%v", early)
				}
				send()
				again := test.done
				if test.first != nil {
					again = test.again
				}
				got, _ = sourcetest.Collect(t, src, len(messages)-again)
				require.Equal(t, messages[again:], sourcetest.Payloads(got))
				if test.first != nil {
					require.Positive(t, o.Losses(), "what has been handed out is not done")
				} else {
					require.Zero(t, o.Losses())
				}
			})
		}
	}
}
