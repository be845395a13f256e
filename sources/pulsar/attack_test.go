package pulsar_test

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/integration/pulsarserver"
	"github.com/graphmill/graphmill/sources/pulsar"
	"github.com/graphmill/graphmill/sources/sourcetest"
)

// fromBeginning is the config of a stream of a new topic with so many partitions.
func (b *broker) fromBeginning(partitions int) (cfg pulsar.Config, topic string) {
	b.t.Helper()
	topic = b.Name()
	b.Create(topic, partitions)
	return b.config(sourcetest.Stream{Name: b.Name(), Topics: []string{topic}, Start: graphmill.Start{Earliest: true}}), topic
}

func quick(t *testing.T) pulsar.ClientSettings {
	settings, _, err := pulsar.ParseConfigs(map[string]string{"operationTimeoutMs": "1000"}, nil, nil)
	require.NoError(t, err)
	return settings
}

// TestAcknowledgementsThatNobodyAnswers has several of them under way when the source
// is closed: what is behind the client's Close in its queue is never looked at.
func TestAcknowledgementsThatNobodyAnswers(t *testing.T) {
	s := startFake(t, pulsarserver.Options{NoAutoCreate: true})
	b := brokerOf(t, s)
	cfg, topic := b.fromBeginning(1)
	cfg.Client = quick(t)
	for range 20 {
		b.produce(topic+"-partition-0", texted("a"))
	}
	src, _ := b.open(cfg)
	_, at := sourcetest.Collect(t, src, 20)
	s.SetHooks(pulsarserver.Hooks{OnCommand: func(c pulsarserver.Command) pulsarserver.Reply { return pulsarserver.Reply{Ignore: c.Type == "ACK"} }})
	var asking sync.WaitGroup
	for range 20 {
		asking.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
			defer cancel()
			if src.Acknowledge(ctx, sourcetest.Positions(at)) == nil {
				t.Error("nobody has answered")
			}
		})
	}
	asking.Wait()
	require.NoError(t, src.Close(t.Context()))
}

// TestAcknowledgementsThatTheBrokerRefuses are tried again, and then hold.
func TestAcknowledgementsThatTheBrokerRefuses(t *testing.T) {
	s := startFake(t, pulsarserver.Options{NoAutoCreate: true})
	b := brokerOf(t, s)
	cfg, topic := b.fromBeginning(1)
	b.produce(topic+"-partition-0", texted("a"))
	src, _ := b.open(cfg)
	_, at := sourcetest.Collect(t, src, 1)
	var refuse atomic.Bool
	refuse.Store(true)
	s.SetHooks(pulsarserver.Hooks{OnCommand: func(c pulsarserver.Command) pulsarserver.Reply {
		if c.Type == "ACK" && refuse.Load() {
			return pulsarserver.Fail("PersistenceError", "the disk is full")
		}
		return pulsarserver.Reply{}
	}})
	err := src.Acknowledge(t.Context(), sourcetest.Positions(at))
	var f *graphmill.Fault
	require.ErrorAs(t, err, &f)
	require.Equal(t, graphmill.FaultTransient, f.Class)
	refuse.Store(false)
	require.NoError(t, src.Acknowledge(t.Context(), sourcetest.Positions(at)))
	state, _ := s.Subscription(topic+"-partition-0", cfg.Subscription)
	require.Zero(t, state.Backlog)
}

// TestALargeEntryIsDoneInParts has nine hundred messages in one entry, and batches of
// ten.
func TestALargeEntryIsDoneInParts(t *testing.T) {
	b := brokerOf(t, startServer(t))
	cfg, topic := b.fromBeginning(1)
	var unit []graphmill.Message
	for i := range 900 {
		unit = append(unit, texted(fmt.Sprint(i)))
	}
	b.produce(topic+"-partition-0", unit...)
	b.produce(topic+"-partition-0", texted("behind"))
	src, _ := b.open(cfg)
	f, err := src.Fetch(t.Context(), 10)
	require.NoError(t, err)
	require.Len(t, f, 1)
	require.Len(t, f[0].Messages, 900)
	half := graphmill.Position{TopicPartition: graphmill.TopicPartition{Topic: topic}, Offset: -1}
	half.Pass(&f[0].Messages[9])
	before := b.Acknowledged(sourcetest.Stream{Name: cfg.Stream, Topics: cfg.Topics})
	require.NoError(t, src.Acknowledge(t.Context(), []graphmill.Position{half}))
	require.Equal(t, before, b.Acknowledged(sourcetest.Stream{Name: cfg.Stream, Topics: cfg.Topics}))
	require.NoError(t, src.Close(t.Context()))
	cfg.Known = []graphmill.Position{half}
	src, _ = b.open(cfg)
	got, at := sourcetest.Collect(t, src, 891)
	require.Equal(t, "10", string(got[0].Payload))
	require.Equal(t, "behind", string(got[890].Payload))
	require.NoError(t, src.Acknowledge(t.Context(), sourcetest.Positions(at)))
}

// TestMessagesThatNobodyWouldSend are read as they are.
func TestMessagesThatNobodyWouldSend(t *testing.T) {
	b := brokerOf(t, startServer(t))
	cfg, topic := b.fromBeginning(1)
	odd := "\x00"
	if startReal != nil { // the broker of tests takes no such text
		odd = "\xff\xfe\x00"
	}
	raw := b.raw(topic + "-partition-0")
	many := fields{}
	for i := range 10_000 {
		many = many.message(4, fields{}.text(1, fmt.Sprint(odd, i)).text(2, odd))
	}
	raw.send(many.text(metaKey, odd), []byte("many"))
	raw.send(fields{}.number(12, math.MaxUint64), []byte("last"))
	raw.send(fields{}.number(12, 1<<63), []byte("first"))
	raw.send(fields{}.message(4, fields{}.text(1, "").text(2, "")), []byte("no name"))
	raw.send(fields{}.text(metaKey, strings.Repeat("k", 1<<20)), nil)
	src, _ := b.open(cfg)
	got, _ := sourcetest.Collect(t, src, 5)
	require.Equal(t, []string{"many", "last", "first", "no name", ""}, sourcetest.Payloads(got))
	require.Len(t, got[0].Headers, 10_000)
	require.Equal(t, odd, string(got[0].Headers[0].Value))
	require.Equal(t, odd, string(got[0].Key))
	require.Len(t, got[4].Key, 1<<20)
}

// TestASubscriptionThatAnOperatorMoves is read again from where it is moved to, and
// what is acknowledged then counts.
func TestASubscriptionThatAnOperatorMoves(t *testing.T) {
	b := brokerOf(t, startServer(t))
	cfg, topic := b.fromBeginning(1)
	for i := range 10 {
		b.produce(topic+"-partition-0", texted(fmt.Sprint(i)))
	}
	src, _ := b.open(cfg)
	_, at := sourcetest.Collect(t, src, 10)
	require.NoError(t, src.Acknowledge(t.Context(), sourcetest.Positions(at)))
	require.Less(t, b.admin(http.MethodPost, path(topic)+"-partition-0/subscription/"+cfg.Subscription+"/resetcursor/1", "", nil), 300)
	got, at := sourcetest.Collect(t, src, 10)
	require.Equal(t, "0", string(got[0].Payload))
	require.NoError(t, src.Acknowledge(t.Context(), sourcetest.Positions(at)))
	b.produce(topic+"-partition-0", texted("new"))
	require.NoError(t, src.Close(t.Context()))
	src, _ = b.open(cfg)
	got, _ = sourcetest.Collect(t, src, 1)
	require.Equal(t, []string{"new"}, sourcetest.Payloads(got))
}

// TestASubscriptionThatAnOperatorDeletes is made again, where it was, or at the
// beginning where nobody can be asked.
func TestASubscriptionThatAnOperatorDeletes(t *testing.T) {
	for name, admin := range map[string]bool{"with the admin REST": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			b := brokerOf(t, startServer(t))
			cfg, topic := b.fromBeginning(1)
			if !admin {
				cfg.AdminURL = ""
			}
			for i := range 4 {
				b.produce(topic+"-partition-0", texted(fmt.Sprint(i)))
			}
			src, _ := b.open(cfg)
			_, at := sourcetest.Collect(t, src, 4)
			require.NoError(t, src.Acknowledge(t.Context(), sourcetest.Positions(at)))
			require.Less(t, b.admin(http.MethodDelete, path(topic)+"-partition-0/subscription/"+cfg.Subscription+"?force=true", "", nil), 300)
			b.produce(topic+"-partition-0", texted("new"))
			all := []string{"0", "1", "2", "3", "new"}
			want := all
			if admin {
				want = all[4:]
			}
			got, _ := sourcetest.Collect(t, src, 1)
			if startReal != nil && string(got[0].Payload) == "0" {
				// A real broker ends the connection before it deletes: who is quick meets the
				// subscription once more, and has it made anew at the beginning.
				want = all
			}
			more, _ := sourcetest.Collect(t, src, len(want)-1)
			require.Equal(t, want, sourcetest.Payloads(append(got, more...)))
		})
	}
}

// TestFiveHundredPartitions are opened, read and closed.
func TestFiveHundredPartitions(t *testing.T) {
	b := brokerOf(t, startFake(t, pulsarserver.Options{NoAutoCreate: true}))
	cfg, topic := b.fromBeginning(500)
	for _, p := range []int32{0, 250, 499} {
		b.Produce(topic, p, texted(fmt.Sprint(p)))
	}
	began := time.Now()
	src, o := b.open(cfg)
	t.Log("opened after", time.Since(began))
	got, at := sourcetest.Collect(t, src, 3)
	require.Len(t, got, 3)
	require.NoError(t, src.Acknowledge(t.Context(), sourcetest.Positions(at)))
	require.Len(t, o.Owned(), 500)
	status, err := src.Partitions(t.Context())
	require.NoError(t, err)
	require.Len(t, status, 500)
	require.NoError(t, src.Close(t.Context()))
	t.Log("closed after", time.Since(began))
}

// TestCallsThatMeet calls Open twice, and Close while it opens.
func TestCallsThatMeet(t *testing.T) {
	s := startFake(t, pulsarserver.Options{NoAutoCreate: true})
	b := brokerOf(t, s)
	cfg, _ := b.fromBeginning(3)
	cfg.Client = quick(t)
	for _, frozen := range []bool{false, true} {
		thaw := func() {}
		if frozen {
			thaw = s.Freeze()
		}
		src, err := pulsar.New(cfg, &sourcetest.Observer{})
		require.NoError(t, err)
		var calls sync.WaitGroup
		for range 2 {
			calls.Go(func() { _ = src.Open(t.Context()) })
		}
		calls.Go(func() { _, _ = src.Fetch(t.Context(), 1) })
		calls.Go(func() { _ = src.Close(t.Context()) })
		calls.Wait()
		thaw()
		require.Error(t, src.Open(t.Context()))
	}
}
