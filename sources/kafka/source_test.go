package kafka_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/sources/kafka"
)

func TestNothingProducedAfterOpenIsMissed(t *testing.T) {
	b := newBroker(t)
	topic := b.topic(3)
	b.produce(topic, 0, "before")
	cfg := b.config(topic)

	s, o := b.open(cfg)
	for p := range int32(3) {
		b.produce(topic, p, fmt.Sprintf("after-%d", p))
	}
	id := b.id(topic)
	require.Equal(t, []graphmill.Position{
		{TopicPartition: tp(topic, 0), TopicID: id, Offset: 1},
		{TopicPartition: tp(topic, 1), TopicID: id, Offset: 0},
		{TopicPartition: tp(topic, 2), TopicID: id, Offset: 0},
	}, o.owns())
	commits := b.commits(cfg.Group, topic)
	require.Len(t, commits, 3, "the positions are in the group before the first message")
	require.EqualValues(t, 1, commits[0].At)
	require.Equal(t, "gm1:"+id+":3", commits[0].Metadata)

	got, _ := collect(t, s, 3)
	require.ElementsMatch(t, []string{"after-0", "after-1", "after-2"}, payloads(got))
	require.Equal(t, -1, int(got[0].BrokerTime))
}

func TestSourceThatEndsBeforeItsFirstCommitGoesOnWhereItBegan(t *testing.T) {
	b := newBroker(t)
	topic := b.topic(1)
	b.produce(topic, 0, "before")
	cfg := b.config(topic)

	s, _ := b.open(cfg)
	b.produce(topic, 0, "a", "b")
	collect(t, s, 2) // and nothing acknowledged
	closeSource(t, s)
	b.produce(topic, 0, "c")

	s, _ = b.open(cfg)
	got, _ := collect(t, s, 3)
	require.Equal(t, []string{"a", "b", "c"}, payloads(got))
}

func TestAcknowledgeCommitsTheBatchAndNoMore(t *testing.T) {
	b := newBroker(t)
	topic := b.topic(1)
	cfg := b.config(topic)
	s, _ := b.open(cfg)
	b.produce(topic, 0, "0", "1", "2", "3", "4", "5")

	got, at := collect(t, s, 4)
	require.Equal(t, []string{"0", "1", "2", "3"}, payloads(got))
	collect(t, s, 1)
	require.NoError(t, s.Acknowledge(t.Context(), positions(at)))
	commit := b.commits(cfg.Group, topic)[0]
	require.EqualValues(t, 4, commit.At)
	require.Equal(t, "gm1:"+b.id(topic)+":1", commit.Metadata)
	closeSource(t, s)

	s, _ = b.open(cfg)
	got, _ = collect(t, s, 2)
	require.Equal(t, []string{"4", "5"}, payloads(got))
}

func TestAcknowledgeLeavesOutWhatIsNotOwnedOrNotNew(t *testing.T) {
	b := newBroker(t)
	topic := b.topic(1)
	cfg := b.config(topic)
	s, _ := b.open(cfg)
	b.produce(topic, 0, "0", "1", "2")
	_, at := collect(t, s, 3)
	last := positions(at)[0]
	require.NoError(t, s.Acknowledge(t.Context(), positions(at)))

	back, foreign, older := last, last, last
	back.Offset = 1
	foreign.Partition = 7
	older.TopicID, older.Offset = "00000000000000000000000000000001", 9
	require.NoError(t, s.Acknowledge(t.Context(), []graphmill.Position{back, foreign, older}))
	commits := b.commits(cfg.Group, topic)
	require.Len(t, commits, 1)
	require.EqualValues(t, 3, commits[0].At)
}

func TestPositionsPassControlRecordsAndAbortedTransactions(t *testing.T) {
	b := newBroker(t)
	topic := b.topic(1)
	cfg := b.config(topic)
	s, _ := b.open(cfg)
	b.letFetchesGrow(s, topic)

	b.transact(topic, 0, kgo.TryAbort, "aborted")
	b.transact(topic, 0, kgo.TryCommit, "committed")
	got, at := collect(t, s, 1)
	require.Equal(t, []string{"committed"}, payloads(got))

	// The marker of the commit may come by itself.
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for at[tp(topic, 0)].Offset < 5 {
		fetches, err := s.Fetch(ctx, 10)
		require.NoError(t, err)
		for _, f := range fetches {
			require.Empty(t, f.Messages)
			at[f.Next.TopicPartition] = f.Next
		}
	}
	require.NoError(t, s.Acknowledge(t.Context(), positions(at)))
	status, err := s.Partitions(t.Context())
	require.NoError(t, err)
	require.Equal(t, []graphmill.PartitionStatus{{TopicPartition: tp(topic, 0), TopicID: b.id(topic), Acknowledged: 5, End: 5, Lag: 0}}, status)
	require.EqualValues(t, 5, b.commits(cfg.Group, topic)[0].At)
}

func TestAbortedTransactionAloneMovesThePosition(t *testing.T) {
	b := newBroker(t)
	topic := b.topic(1)
	s, _ := b.open(b.config(topic))
	b.letFetchesGrow(s, topic)
	b.transact(topic, 0, kgo.TryAbort, "a", "b")
	fetches, err := s.Fetch(t.Context(), 10)
	require.NoError(t, err)
	require.Len(t, fetches, 1)
	require.Empty(t, fetches[0].Messages)
	require.EqualValues(t, 4, fetches[0].Next.Offset)
}

// letFetchesGrow has one large message read, after which a fetch is not cut
// behind its first record batch. A kfake whose fetch is cut by the total of
// bytes leaves out which transactions were aborted.
func (b *broker) letFetchesGrow(s fetcher, topic string) {
	b.t.Helper()
	b.produce(topic, 0, string(make([]byte, 100_000)))
	collect(b.t, s, 1)
}

func TestLagBehindAnOpenTransactionIsZero(t *testing.T) {
	b := newBroker(t)
	topic := b.topic(1)
	s, _ := b.open(b.config(topic))
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.addr), kgo.TransactionalID(b.name("tx")))
	require.NoError(t, err)
	defer cl.Close()
	require.NoError(t, cl.BeginTransaction())
	require.NoError(t, cl.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: []byte("x")}).FirstErr())

	status, err := s.Partitions(t.Context())
	require.NoError(t, err)
	require.Zero(t, status[0].Lag)

	require.NoError(t, cl.EndTransaction(t.Context(), kgo.TryCommit))
	require.Eventually(t, func() bool {
		status, err := s.Partitions(t.Context())
		return err == nil && status[0].Lag == 2 && status[0].End == 2
	}, 5*time.Second, 20*time.Millisecond)
}

func TestCase12MessagesKeepEverythingThatTheRecordHas(t *testing.T) {
	b := newBroker(t)
	topic := b.name("t")
	b.create(topic, 1, map[string]string{"max.message.bytes": "2000000"})
	s, _ := b.open(b.config(topic))
	when := time.UnixMilli(1_700_000_000_123)
	big := bytes.Repeat([]byte("0123456789"), 90_000)
	binary := []byte{0, 255, 10, 0}
	require.NoError(t, b.cl.ProduceSync(t.Context(),
		&kgo.Record{Topic: topic, Value: nil, Key: nil, Timestamp: when},
		&kgo.Record{Topic: topic, Value: []byte{}, Key: []byte{}, Timestamp: when},
		&kgo.Record{Topic: topic, Value: binary, Key: binary, Timestamp: when, Headers: []kgo.RecordHeader{
			{Key: "b", Value: []byte("1")}, {Key: "a", Value: nil}, {Key: "b", Value: binary}, {Key: "", Value: []byte{}},
		}},
		&kgo.Record{Topic: topic, Value: big, Timestamp: when, Headers: []kgo.RecordHeader{{Key: "last", Value: []byte("h")}}},
	).FirstErr())

	got, _ := collect(t, s, 4)
	require.Nil(t, got[0].Payload, "null is not empty")
	require.Nil(t, got[0].Key)
	require.NotNil(t, got[1].Payload, "empty is not null")
	require.NotNil(t, got[1].Key)
	require.Empty(t, got[1].Payload)
	require.Nil(t, got[1].Headers)
	require.Equal(t, binary, got[2].Payload)
	require.Equal(t, binary, got[2].Key)
	require.Equal(t, []graphmill.Header{{Key: "b", Value: []byte("1")}, {Key: "a"}, {Key: "b", Value: binary}, {Key: "", Value: []byte{}}}, got[2].Headers)
	require.Equal(t, big, got[3].Payload)
	require.Equal(t, []graphmill.Header{{Key: "last", Value: []byte("h")}}, got[3].Headers)
	for i, m := range got {
		require.Equal(t, topic, m.Topic)
		require.EqualValues(t, i, m.Offset)
		require.Equal(t, when.UnixMilli(), m.Timestamp)
		require.EqualValues(t, -1, m.BrokerTime)
		require.Empty(t, m.ID)
	}
}

func TestBrokerTimeWhereTheTopicKeepsIt(t *testing.T) {
	b := newBroker(t)
	if b.fake != nil {
		t.Skip("kfake does not mark the records; see TestTimesOfARecord")
	}
	topic := b.name("t")
	b.create(topic, 1, map[string]string{"message.timestamp.type": "LogAppendTime"})
	s, _ := b.open(b.config(topic))
	b.produce(topic, 0, "x")
	got, _ := collect(t, s, 1)
	require.Equal(t, got[0].Timestamp, got[0].BrokerTime)
	require.WithinDuration(t, time.Now(), time.UnixMilli(got[0].BrokerTime), time.Minute)
}

func TestFetchGivesNoMoreThanAskedAndKeepsTheRest(t *testing.T) {
	b := newBroker(t)
	topic := b.topic(1)
	s, _ := b.open(b.config(topic))
	var want []string
	for i := range 25 {
		want = append(want, fmt.Sprint(i))
	}
	b.produce(topic, 0, want...)
	var got []string
	for len(got) < 25 {
		fetches, err := s.Fetch(t.Context(), 7)
		require.NoError(t, err)
		n := 0
		for _, f := range fetches {
			require.Equal(t, f.Messages[len(f.Messages)-1].Offset+1, f.Next.Offset)
			n += len(f.Messages)
			got = append(got, payloads(f.Messages)...)
		}
		require.LessOrEqual(t, n, 7)
	}
	require.Equal(t, want, got)
}

func TestEndOfTheContextOfFetchLosesNothing(t *testing.T) {
	b := newBroker(t)
	topic := b.topic(1)
	s, _ := b.open(b.config(topic))
	nothing(t, s, 50*time.Millisecond)
	b.produce(topic, 0, "a")
	got, _ := collect(t, s, 1)
	require.Equal(t, []string{"a"}, payloads(got))
}

func TestSettingsThatCannotBeRight(t *testing.T) {
	good := kafka.Config{Brokers: []string{"localhost:9092"}, Topics: []string{"t"}, Group: "g"}
	for _, c := range []struct {
		name, field string
		change      func(*kafka.Config)
	}{
		{"no broker", "bootstrap_servers", func(c *kafka.Config) { c.Brokers = nil }},
		{"a broker that is no address", "bootstrap_servers", func(c *kafka.Config) { c.Brokers = []string{"host:port"} }},
		{"no topic", "topics", func(c *kafka.Config) { c.Topics = nil }},
		{"no group", "consumer_group", func(c *kafka.Config) { c.Group = "" }},
		{"a session of no time", "session_timeout", func(c *kafka.Config) { c.SessionTimeout = time.Millisecond }},
		{"a negative bound", "max_buffered_bytes", func(c *kafka.Config) { c.MaxBufferedBytes = -1 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := good
			c.change(&cfg)
			_, err := kafka.New(cfg, &observer{})
			var e *graphmill.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, graphmill.KindInvalid, e.Kind)
			require.Equal(t, c.field, e.Field)
		})
	}
}

func TestSourceThatIsNotOpenOrClosedSaysSo(t *testing.T) {
	b := newBroker(t)
	s, _ := b.source(b.config(b.topic(1)))
	_, err := s.Fetch(t.Context(), 1)
	require.ErrorContains(t, err, "not been opened")
	require.NoError(t, s.Close(t.Context()))
	require.NoError(t, s.Close(t.Context()), "closing twice does nothing")
	require.ErrorContains(t, s.Open(t.Context()), "closed")
	_, err = s.Fetch(t.Context(), 1)
	require.ErrorContains(t, err, "closed")
	require.ErrorContains(t, s.Acknowledge(t.Context(), nil), "closed")
	status, err := s.Partitions(t.Context())
	require.NoError(t, err)
	require.Empty(t, status)
}
