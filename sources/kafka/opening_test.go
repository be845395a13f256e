package kafka_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/graphmill/graphmill/sources/kafka"
)

// idle joins the group of cfg, takes all partitions of its topic, and settles
// none of them.
func (b *broker) idle(cfg kafka.Config, partitions int) *kgo.Client {
	b.t.Helper()
	assigned := make(chan int, 10)
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.addr), kgo.ConsumerGroup(cfg.Group), kgo.ConsumeTopics(cfg.Topics...),
		kgo.Balancers(kgo.CooperativeStickyBalancer()), kgo.DisableAutoCommit(), kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd()),
		kgo.HeartbeatInterval(time.Second),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, added map[string][]int32) {
			assigned <- len(added[cfg.Topics[0]])
		}))
	require.NoError(b.t, err)
	b.t.Cleanup(cl.Close)
	require.Equal(b.t, partitions, <-assigned)
	return cl
}

// beforeAnswer does something before the broker answers the next request of a kind.
func (b *broker) beforeAnswer(key kmsg.Key, do func()) {
	met := false
	b.fake.ControlKey(int16(key), func(kmsg.Request) (kmsg.Response, error, bool) {
		if met { // a sleeping control is handed the next request, too
			return nil, nil, false
		}
		met = true
		b.fake.SleepControl(do)
		return nil, nil, false
	})
}

// Open's answer is about all that the stream reads, and not only about what this
// member has of it.
func TestOpenWaitsForTheOtherMembersToSettle(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	topic := b.topic(4)
	cfg := b.config(topic)
	other := b.idle(cfg, 4)
	s, _ := b.source(cfg)
	opened := begin(t, s)
	select {
	case err := <-opened:
		t.Fatalf("the other member has settled nothing, but Open has returned (%v)", err)
	case <-time.After(time.Second):
	}
	at := map[int32]kgo.EpochOffset{}
	for p := range int32(4) {
		at[p] = kgo.EpochOffset{Epoch: -1, Offset: 0}
	}
	other.CommitOffsetsSync(t.Context(), map[string]map[int32]kgo.EpochOffset{topic: at}, func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, _ *kmsg.OffsetCommitResponse, err error) {
		require.NoError(t, err)
	})
	require.NoError(t, done(t, opened))
}

func TestWhatComesAfterOpenIsReadThoughAnotherMemberHasDiedBeforeItSettled(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for a member that settles nothing")
	}
	t.Parallel()
	b := newBroker(t)
	topic := b.topic(4)
	for p := range int32(4) {
		b.produce(topic, p, "before")
	}
	cfg := b.config(topic)
	other := b.idle(cfg, 4)
	s, _ := b.open(cfg)
	want := make([]string, 0, 4)
	for p := range int32(4) {
		require.Equal(t, fmt.Sprintf("gm1:%s:4", b.id(topic)), b.commits(cfg.Group, topic)[p].Metadata)
		want = append(want, fmt.Sprintf("after-%d", p))
		b.produce(topic, p, want[p])
	}
	other.Close()
	got, _ := collect(t, s, 4)
	require.ElementsMatch(t, want, payloads(got))
}

// Another member commits for a partition while this one looks where it begins,
// and what comes after that must be read.
func TestPositionThatAnotherMemberHasSettledMeanwhileCounts(t *testing.T) {
	t.Parallel()
	b := newFake(t)
	topic := b.topic(1)
	td, err := b.adm.ListTopics(t.Context(), topic)
	require.NoError(t, err)
	cfg := b.config(topic)
	b.beforeAnswer(kmsg.ListOffsets, func() {
		// Any member may; this takes the name of the one that there is.
		group := b.fake.GroupInfo(cfg.Group)
		req := kmsg.NewPtrOffsetCommitRequest()
		req.Group, req.Generation, req.MemberID = cfg.Group, group.Epoch, group.Members[0].MemberID
		part := kmsg.NewOffsetCommitRequestTopicPartition()
		part.Metadata = kmsg.StringPtr(fmt.Sprintf("gm1:%x:1", [16]byte(td[topic].ID)))
		asked := kmsg.NewOffsetCommitRequestTopic()
		asked.Topic, asked.TopicID = topic, td[topic].ID
		asked.Partitions = append(asked.Partitions, part)
		req.Topics = append(req.Topics, asked)
		resp, err := req.RequestWith(t.Context(), b.cl)
		if err != nil {
			t.Error(err)
		} else if err := kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode); err != nil {
			t.Error(err)
		}
		if err := b.cl.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: []byte("meanwhile")}).FirstErr(); err != nil {
			t.Error(err)
		}
	})
	s, _ := b.open(cfg)
	b.produce(topic, 0, "after")
	got, _ := collect(t, s, 1)
	require.Equal(t, "meanwhile", payloads(got)[0])
}

// The group's members have been told of a topic with one partition.
func TestPartitionThatIsAddedWhileTheGroupFormsIsReadFromOpenOn(t *testing.T) {
	t.Parallel()
	b := newFake(t)
	topic := b.topic(1)
	cfg := b.config(topic)
	b.beforeAnswer(kmsg.OffsetFetch, func() {
		if _, err := b.adm.CreatePartitions(t.Context(), 1, topic); err != nil {
			t.Error(err)
		}
	})
	s, _ := b.open(cfg)
	b.connect()
	b.produce(topic, 1, "first")
	got, _ := collect(t, s, 1)
	require.Equal(t, []string{"first"}, payloads(got))
}

// Another topic that has no leader does not keep a stream from reading that has
// positions in it.
func TestOpenDoesNotWaitForATopicInWhichReadingHasBegun(t *testing.T) {
	t.Parallel()
	b := newFake(t)
	here, there := b.topic(1), b.topic(1)
	cfg := b.config(here, there)
	s, _ := b.open(cfg)
	closeSource(t, s)
	b.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Topic: there, Err: kerr.LeaderNotAvailable, Count: -1})
	s, _ = b.open(cfg)
	b.produce(here, 0, "a")
	got, _ := collect(t, s, 1)
	require.Equal(t, []string{"a"}, payloads(got))
}
