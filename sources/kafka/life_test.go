package kafka_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/sources/kafka"
	"github.com/graphmill/graphmill/sources/sourcetest"
)

// drain reads and acknowledges until there is no lag, and returns the payloads
// by partition in their order.
func drain(t *testing.T, s *kafka.Source) map[graphmill.TopicPartition][]string {
	t.Helper()
	out := map[graphmill.TopicPartition][]string{}
	ctx, cancel := context.WithTimeout(t.Context(), sourcetest.Patience)
	defer cancel()
	for {
		short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		fetches, err := s.Fetch(short, 100)
		cancel()
		if err != nil {
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		var at []graphmill.Position
		for _, f := range fetches {
			out[f.Next.TopicPartition] = append(out[f.Next.TopicPartition], payloads(f.Messages)...)
			at = append(at, f.Next)
		}
		require.NoError(t, s.Acknowledge(ctx, at))
		lag := int64(0)
		status, err := s.Partitions(ctx)
		require.NoError(t, err, "there is still lag")
		for _, p := range status {
			lag += p.Lag
		}
		if lag == 0 {
			return out
		}
	}
}

// transaction is a producer's transaction that the test ends when it likes.
func (b *broker) transaction() *kgo.Client {
	b.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.addr), kgo.TransactionalID(b.name("tx")), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	require.NoError(b.t, err)
	b.t.Cleanup(cl.Close)
	require.NoError(b.t, cl.BeginTransaction())
	return cl
}

func TestTransactionsOfSeveralProducersAreReadAsTheyEnd(t *testing.T) {
	b := newBroker(t)
	topic := b.topic(2)
	s, _ := b.open(b.config(topic))
	b.letFetchesGrow(s, topic)
	write := func(cl *kgo.Client, partition int32, v string) {
		require.NoError(t, cl.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Partition: partition, Value: []byte(v)}).FirstErr())
	}
	aborted, committed, open := b.transaction(), b.transaction(), b.transaction()
	for i := range 3 {
		for p := range int32(2) {
			write(aborted, p, fmt.Sprintf("aborted-%d", i))
			write(committed, p, fmt.Sprintf("committed-%d", i))
			write(b.cl, p, fmt.Sprintf("plain-%d", i))
		}
	}
	write(open, 0, "open-0")
	write(b.cl, 0, "behind the open one")
	require.NoError(t, aborted.EndTransaction(t.Context(), kgo.TryAbort))
	require.NoError(t, committed.EndTransaction(t.Context(), kgo.TryCommit))

	inOrder := []string{"committed-0", "plain-0", "committed-1", "plain-1", "committed-2", "plain-2"}
	got := drain(t, s)
	require.Equal(t, inOrder, got[tp(topic, 0)], "up to the open transaction")
	require.Equal(t, inOrder, got[tp(topic, 1)])

	require.NoError(t, open.EndTransaction(t.Context(), kgo.TryCommit))
	var last []string
	require.Eventually(t, func() bool {
		last = append(last, drain(t, s)[tp(topic, 0)]...)
		return len(last) == 2
	}, sourcetest.Patience, 50*time.Millisecond)
	require.Equal(t, []string{"open-0", "behind the open one"}, last)
}

func TestBrokerWithoutTopicIDs(t *testing.T) {
	b := newFake(t, kfake.MaxVersions(kversion.V2_7_0()))
	topic := b.topic(1)
	cfg := b.config(topic)
	s, o := b.open(cfg)
	b.produce(topic, 0, "a", "b", "c")
	_, at := collect(t, s, 3)
	require.Empty(t, at[tp(topic, 0)].TopicID)
	require.NoError(t, s.Acknowledge(t.Context(), positions(at)))
	require.Equal(t, "gm1::1", b.commits(cfg.Group, topic)[0].Metadata)
	status, err := s.Partitions(t.Context())
	require.NoError(t, err)
	require.Contains(t, status[0].Notice, "no ids")
	require.Zero(t, status[0].Lag)
	closeSource(t, s)
	require.Empty(t, o.Owned()[0].TopicID)

	// A topic that was created anew shows only where it does not reach.
	require.NoError(t, b.fake.DeleteTopic(topic))
	b.create(topic, 1, nil)
	b.connect()
	b.produce(topic, 0, "x")
	b.commit(cfg.Group, topic, 0, 3, "gm1::1")
	s, _ = b.source(cfg)
	f := fault(t, s.Open(t.Context()))
	require.Equal(t, "position_lost", f.Code)
	require.Contains(t, f.Text, "the broker has 0 to 1")
}

func TestTopicIDThatAppearsAfterAnUpgradeIsAdopted(t *testing.T) {
	for _, running := range []bool{false, true} {
		t.Run(fmt.Sprintf("while it is read %v", running), func(t *testing.T) {
			t.Parallel()
			port, dir := freePort(t), t.TempDir()
			b := newFake(t, kfake.Ports(port), kfake.DataDir(dir), kfake.MaxVersions(kversion.V2_7_0()))
			topic := b.topic(1)
			cfg := b.config(topic)
			s, _ := b.open(cfg)
			b.produce(topic, 0, "a")
			_, at := collect(t, s, 1)
			require.NoError(t, s.Acknowledge(t.Context(), positions(at)))
			if !running {
				closeSource(t, s)
			}
			b.fake.Close()
			c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(port), kfake.DataDir(dir))
			require.NoError(t, err)
			t.Cleanup(c.Close)
			b.fake = c
			b.connect()
			id := b.id(topic)
			require.NotEmpty(t, id)
			cfg.Known = positions(at) // of the catalog, without an id
			if !running {
				s, _ = b.open(cfg)
				require.Equal(t, "gm1:"+id+":1", b.commits(cfg.Group, topic)[0].Metadata, "at once")
			}
			require.Eventually(t, func() bool {
				status, err := s.Partitions(t.Context())
				return err == nil && len(status) == 1 && status[0].TopicID == id && status[0].Notice == ""
			}, sourcetest.Patience, 50*time.Millisecond)
			b.produce(topic, 0, "b")
			got, at := collect(t, s, 1)
			require.Equal(t, []string{"b"}, payloads(got))
			require.NoError(t, s.Acknowledge(t.Context(), positions(at)))
			require.Equal(t, "gm1:"+id+":1", b.commits(cfg.Group, topic)[0].Metadata)
		})
	}
}

func TestGapsOfACompactedTopicArePassedOver(t *testing.T) {
	b := newFake(t)
	topic := b.name("t")
	b.create(topic, 1, map[string]string{"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0", "delete.retention.ms": "0"})
	put := func(key, value string) {
		r := &kgo.Record{Topic: topic, Key: []byte(key), Value: []byte(value)}
		if value == "" {
			r.Value = nil
		}
		require.NoError(t, b.cl.ProduceSync(t.Context(), r).FirstErr())
	}
	cfg := b.config(topic)
	cfg.Start.Earliest = true
	put("first", "stays") // a kfake whose first records go begins later, which a broker does not
	for i := range 5 {
		put("k", fmt.Sprint(i))
	}
	put("other", "x")
	put("gone", "y")
	put("gone", "")
	put("last", "z")
	b.fake.Compact()
	b.fake.Compact() // the second removes the tombstone

	// A position that fell into a gap is valid.
	b.commit(cfg.Group, topic, 0, 2, "")
	s, _ := b.open(cfg)
	got := drain(t, s)[tp(topic, 0)]
	require.Equal(t, "4", got[0], "what was overwritten is gone")
	require.Equal(t, "z", got[len(got)-1])
	require.NotContains(t, got, "3")
	require.EqualValues(t, 10, b.commits(cfg.Group, topic)[0].At)
}

func TestPartitionsThatAreAddedWhileReadingBeginAtTheirStart(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	topic := b.topic(1)
	cfg := b.config(topic)
	s, o := b.open(cfg)
	_, err := b.adm.CreatePartitions(t.Context(), 2, topic)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		td, err := b.adm.ListTopics(t.Context(), topic)
		return err == nil && len(td[topic].Partitions) == 3
	}, sourcetest.Patience, 20*time.Millisecond)
	b.connect()
	b.produce(topic, 1, "new-1")
	b.produce(topic, 2, "new-2")
	got, _ := collect(t, s, 2)
	require.ElementsMatch(t, []string{"new-1", "new-2"}, payloads(got))
	require.Len(t, o.Owned(), 3)
	require.Equal(t, "gm1:"+b.id(topic)+":1", b.commits(cfg.Group, topic)[2].Metadata)
}

func TestPositionsOfTheCatalogStandInForAGroupThatHasExpired(t *testing.T) {
	b := newBroker(t)
	topic := b.topic(2)
	cfg := b.config(topic)
	s, _ := b.open(cfg)
	b.produce(topic, 0, "0", "1", "2")
	b.produce(topic, 1, "0")
	_, at := collect(t, s, 4)
	require.NoError(t, s.Acknowledge(t.Context(), positions(at)))
	closeSource(t, s)
	b.produce(topic, 0, "3")
	b.produce(topic, 1, "1")
	require.Eventually(t, func() bool {
		_, err := b.adm.DeleteGroup(t.Context(), cfg.Group)
		return err == nil
	}, sourcetest.Patience, 50*time.Millisecond)
	require.Empty(t, b.commits(cfg.Group, topic))

	cfg.Known = positions(at)
	s, _ = b.open(cfg)
	got, _ := collect(t, s, 2)
	require.ElementsMatch(t, []string{"3", "1"}, payloads(got))
	require.Equal(t, "gm1:"+b.id(topic)+":0", b.commits(cfg.Group, topic)[0].Metadata, "it is in the group again")
}

func TestRecordsAboveTheSizeOfAFetchAreRead(t *testing.T) {
	b := newBroker(t)
	topic := b.name("t")
	b.create(topic, 1, map[string]string{"max.message.bytes": "2000000"})
	cfg := b.config(topic)
	cfg.MaxBufferedBytes = 1000
	s, _ := b.open(cfg)
	big := string(bytes.Repeat([]byte("0123456789"), 90_000))
	b.produce(topic, 0, "small")
	b.produce(topic, 0, big)
	b.produce(topic, 0, big)
	b.produce(topic, 0, "small")
	got, _ := collect(t, s, 4)
	require.Equal(t, []string{"small", big, big, "small"}, payloads(got))
}

func TestAnswersThatBrokersGiveForAWhileLoseNothing(t *testing.T) {
	for _, c := range []struct {
		keys   []kmsg.Key
		answer *kerr.Error
		count  int
	}{
		{[]kmsg.Key{kmsg.Fetch}, kerr.NotLeaderForPartition, 3},
		{[]kmsg.Key{kmsg.Fetch}, kerr.FencedLeaderEpoch, 2},
		{[]kmsg.Key{kmsg.Fetch}, kerr.UnknownLeaderEpoch, 2},
		{[]kmsg.Key{kmsg.Fetch}, kerr.UnknownTopicID, 2},
		{[]kmsg.Key{kmsg.ListOffsets}, kerr.NotLeaderForPartition, 3},
		{[]kmsg.Key{kmsg.ListOffsets}, kerr.LeaderNotAvailable, 3},
		{[]kmsg.Key{kmsg.OffsetForLeaderEpoch}, kerr.NotLeaderForPartition, 2},
		{[]kmsg.Key{kmsg.Metadata}, kerr.LeaderNotAvailable, 2},
		{[]kmsg.Key{kmsg.FindCoordinator}, kerr.CoordinatorNotAvailable, 4},
		{[]kmsg.Key{kmsg.JoinGroup, kmsg.OffsetFetch, kmsg.OffsetCommit}, kerr.CoordinatorNotAvailable, 3},
		{[]kmsg.Key{kmsg.JoinGroup, kmsg.OffsetFetch, kmsg.OffsetCommit}, kerr.NotCoordinator, 3},
		{[]kmsg.Key{kmsg.SyncGroup}, kerr.RebalanceInProgress, 2},
		{[]kmsg.Key{kmsg.Heartbeat}, kerr.RebalanceInProgress, 1},
		{[]kmsg.Key{kmsg.OffsetFetch}, kerr.UnstableOffsetCommit, 2},
	} {
		name := c.answer.Message
		for _, k := range c.keys {
			name += " " + k.Name()
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newFake(t)
			topic := b.topic(1)
			cfg := b.config(topic)
			b.produce(topic, 0, "before")
			b.commit(cfg.Group, topic, 0, 0, "gm1:"+b.id(topic)+":1")
			cfg.SessionTimeout = 6 * time.Second
			b.fake.Fault(kfake.Fault{Keys: c.keys, Err: c.answer, Count: c.count})
			s, _ := b.open(cfg)
			got, _ := collect(t, s, 1)
			require.Equal(t, []string{"before"}, payloads(got))
			h := b.fake.Fault(kfake.Fault{Keys: c.keys, Err: c.answer, Count: c.count})
			b.produce(topic, 0, "after")
			require.Equal(t, []string{"after"}, drain(t, s)[tp(topic, 0)])
			h.Remove()
			require.EqualValues(t, 2, b.commits(cfg.Group, topic)[0].At)
		})
	}
}

func TestBrokerThatTakesNoNoteEndsTheStream(t *testing.T) {
	b := newFake(t)
	topic := b.topic(1)
	cfg := b.config(topic)
	refuse := kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.OffsetMetadataTooLarge, Count: -1}
	h := b.fake.Fault(refuse)
	s, _ := b.source(cfg)
	f := fault(t, s.Open(t.Context()))
	require.Equal(t, "commit_refused", f.Code)
	require.Contains(t, f.Next, "offset.metadata.max.bytes")
	require.ErrorContains(t, f, topic)
	closeSource(t, s)
	h.Remove()

	s, _ = b.open(cfg)
	b.produce(topic, 0, "a")
	_, at := collect(t, s, 1)
	b.fake.Fault(refuse)
	require.Equal(t, "commit_refused", fault(t, s.Acknowledge(t.Context(), positions(at))).Code)
	_, err := kafka.SetOffsets(t.Context(), b.config(topic), target(t, "earliest"), nil)
	require.Equal(t, "commit_refused", fault(t, err).Code)
}

// Notes of later versions have fields that this one carries on. They must leave
// room in what brokers allow.
func TestNotesAreShort(t *testing.T) {
	b := newBroker(t)
	topic := b.topic(1)
	cfg := b.config(topic)
	b.commit(cfg.Group, topic, 0, 0, "gm1:"+b.id(topic)+":1:"+strings.Repeat("x", 1000))
	b.open(cfg)
	require.Less(t, len(b.commits(cfg.Group, topic)[0].Metadata), 1100)
}
