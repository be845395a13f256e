package kafka_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/sources/kafka"
	"github.com/graphmill/graphmill/sources/sourcetest"
)

func TestStartPositionsAreInTheGroupBeforeTheFirstMessage(t *testing.T) {
	b := newBroker(t)
	topic := b.topic(3)
	b.produce(topic, 0, "before")
	cfg := b.config(topic)

	_, o := b.open(cfg)
	id := b.id(topic)
	require.Equal(t, []graphmill.Position{
		{TopicPartition: tp(topic, 0), TopicID: id, Offset: 1},
		{TopicPartition: tp(topic, 1), TopicID: id, Offset: 0},
		{TopicPartition: tp(topic, 2), TopicID: id, Offset: 0},
	}, o.Owned())
	commits := b.commits(cfg.Group, topic)
	require.Len(t, commits, 3)
	require.EqualValues(t, 1, commits[0].At)
	require.Equal(t, "gm1:"+id+":3", commits[0].Metadata)
}

func TestAcknowledgeCommitsThePositionWithItsNote(t *testing.T) {
	b := newBroker(t)
	topic := b.topic(1)
	cfg := b.config(topic)
	s, _ := b.open(cfg)
	b.produce(topic, 0, "0", "1", "2", "3", "4", "5")

	_, at := collect(t, s, 4)
	collect(t, s, 1)
	require.NoError(t, s.Acknowledge(t.Context(), positions(at)))
	commit := b.commits(cfg.Group, topic)[0]
	require.EqualValues(t, 4, commit.At)
	require.Equal(t, "gm1:"+b.id(topic)+":1", commit.Metadata)
}

func TestAcknowledgeLeavesOutPositionsOfAnEarlierTopic(t *testing.T) {
	b := newBroker(t)
	topic := b.topic(1)
	cfg := b.config(topic)
	s, _ := b.open(cfg)
	b.produce(topic, 0, "0", "1", "2")
	_, at := collect(t, s, 3)
	require.NoError(t, s.Acknowledge(t.Context(), positions(at)))

	older := positions(at)[0]
	older.TopicID, older.Offset = "00000000000000000000000000000001", 9
	require.NoError(t, s.Acknowledge(t.Context(), []graphmill.Position{older}))
	require.EqualValues(t, 3, b.commits(cfg.Group, topic)[0].At)
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
	ctx, cancel := context.WithTimeout(t.Context(), sourcetest.Patience)
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
func (b *broker) letFetchesGrow(s sourcetest.Fetcher, topic string) {
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
	}, sourcetest.Patience, 20*time.Millisecond)
}

func TestMessagesTellTheOffsetOfTheirRecord(t *testing.T) {
	b := newBroker(t)
	topic := b.topic(1)
	s, _ := b.open(b.config(topic))
	b.produce(topic, 0, "a", "b", "c")
	got, _ := collect(t, s, 3)
	for i, m := range got {
		require.EqualValues(t, i, m.Offset)
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
			_, err := kafka.New(cfg, &sourcetest.Observer{})
			var e *graphmill.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, graphmill.KindInvalid, e.Kind)
			require.Equal(t, c.field, e.Field)
		})
	}
}
