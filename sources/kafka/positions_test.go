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

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/sources/kafka"
	"github.com/graphmill/graphmill/sources/sourcetest"
)

// fill4 writes "0" to "3" a minute apart to a partition, the first at the time.
func (b *broker) fill4(topic string, partition int32, at time.Time) {
	b.t.Helper()
	for i := range 4 {
		r := &kgo.Record{Topic: topic, Partition: partition, Value: []byte(fmt.Sprint(i)), Timestamp: at.Add(time.Duration(i) * time.Minute)}
		require.NoError(b.t, b.cl.ProduceSync(b.t.Context(), r).FirstErr())
	}
}

func target(t *testing.T, s string) graphmill.OffsetTarget {
	t.Helper()
	to, err := graphmill.ParseOffsetTarget("set", s)
	require.NoError(t, err)
	return to
}

func refused(t *testing.T, err error) *graphmill.Error {
	t.Helper()
	var e *graphmill.Error
	require.ErrorAs(t, err, &e)
	return e
}

func TestOffsetsTellWhereStartWouldBegin(t *testing.T) {
	b := newBroker(t)
	topic, other := b.topic(3), b.topic(1)
	for p := range int32(3) {
		b.produce(topic, p, "0", "1", "2", "3", "4")
	}
	b.deleteRecords(topic, 1, 2)
	cfg := b.config(topic, other)
	cfg.Start.Earliest = true
	b.commit(cfg.Group, topic, 0, 4, "gm1:"+b.id(topic)+":2")
	cfg.Known = []graphmill.Position{{TopicPartition: tp(topic, 0), Offset: 1}, {TopicPartition: tp(topic, 1), TopicID: b.id(topic), Offset: 3}}

	info, err := kafka.Offsets(t.Context(), cfg)
	require.NoError(t, err)
	id := b.id(topic)
	want := []graphmill.PartitionOffsets{
		{TopicPartition: tp(topic, 0), TopicID: id, Offset: 4, Origin: "group", First: 0, End: 5, Lag: 1},
		{TopicPartition: tp(topic, 1), TopicID: id, Offset: 3, Origin: "catalog", First: 2, End: 5, Lag: 2},
		{TopicPartition: tp(topic, 2), TopicID: id, Offset: 0, Origin: "new_partition", First: 0, End: 5, Lag: 5},
		{TopicPartition: tp(other, 0), TopicID: b.id(other), Offset: 0, Origin: "start_from", First: 0, End: 0, Lag: 0},
	}
	require.ElementsMatch(t, want, info.Partitions)
	require.Equal(t, cfg.Group, info.Group)
	require.Empty(t, info.Members)
	require.NotNil(t, info.Members)
	require.Len(t, b.commits(cfg.Group, topic), 1, "nothing has been settled")

	b.deleteRecords(topic, 0, 5)
	info, err = kafka.Offsets(t.Context(), cfg)
	require.NoError(t, err)
	for _, p := range info.Partitions {
		if p.TopicPartition == tp(topic, 0) {
			require.Equal(t, "position_lost", p.Problem.Code)
			require.Contains(t, p.Problem.NextStep, "graphmill stream start s --accept lost=earliest")
			require.EqualValues(t, 4, p.Offset)
			require.EqualValues(t, -1, p.Lag)
			continue
		}
		require.Nil(t, p.Problem)
	}
}

func TestOffsetsTellWhoIsInTheGroup(t *testing.T) {
	b := newBroker(t)
	topic := b.topic(1)
	cfg := b.config(topic)
	cfg.ClientID = "somebody"
	b.open(cfg)
	info, err := kafka.Offsets(t.Context(), cfg)
	require.NoError(t, err)
	require.Equal(t, []graphmill.GroupMember{{ClientID: "somebody", Host: "127.0.0.1"}}, info.Members)
}

func TestOffsetsOfTheNewerGroupProtocolTellItsMembers(t *testing.T) {
	b := newBroker(t)
	topic := b.topic(1)
	cfg := b.config(topic)
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.addr), kgo.ClientID("newer"), kgo.ConsumerGroup(cfg.Group), kgo.ConsumeTopics(topic),
		kgo.ServerSideBalancer(), kgo.DisableAutoCommit())
	require.NoError(t, err)
	defer cl.Close()
	require.Eventually(t, func() bool {
		info, err := kafka.Offsets(t.Context(), cfg)
		return err == nil && len(info.Members) == 1 && info.Members[0].ClientID == "newer"
	}, sourcetest.Patience, 50*time.Millisecond)
	_, err = kafka.SetOffsets(t.Context(), cfg, target(t, "earliest"), nil)
	require.Equal(t, "group_active", refused(t, err).Code)
}

func TestOffsetsAreSet(t *testing.T) {
	at := time.Now().Add(-time.Hour).Truncate(time.Millisecond)
	for _, c := range []struct {
		name, to string
		only     bool // partition 1
		want     []int64
	}{
		{"earliest", "earliest", false, []int64{1, 0}},
		{"latest", "latest", false, []int64{4, 4}},
		{"a time", at.Add(90 * time.Second).Format(time.RFC3339Nano), false, []int64{2, 2}},
		{"a time before the first message", at.Add(-time.Hour).Format(time.RFC3339Nano), false, []int64{1, 0}},
		{"a time after the last message", at.Add(24 * time.Hour).Format(time.RFC3339Nano), false, []int64{4, 4}},
		{"an offset", "3", false, []int64{3, 3}},
		{"the end as an offset", "4", false, []int64{4, 4}},
		{"one partition", "0", true, []int64{-1, 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBroker(t)
			topic := b.topic(2)
			b.fill4(topic, 0, at)
			b.fill4(topic, 1, at)
			b.deleteRecords(topic, 0, 1)
			cfg := b.config(topic)
			cfg.Start.Earliest = true
			b.commit(cfg.Group, topic, 1, 2, "gm1:"+b.id(topic)+":1:more")

			var only *graphmill.TopicPartition
			if c.only {
				one := tp(topic, 1)
				only = &one
			}
			set, err := kafka.SetOffsets(t.Context(), cfg, target(t, c.to), only)
			require.NoError(t, err)
			commits := b.commits(cfg.Group, topic)
			var want []graphmill.Position
			for p, at := range c.want {
				if at >= 0 {
					want = append(want, graphmill.Position{TopicPartition: tp(topic, int32(p)), TopicID: b.id(topic), Offset: at})
					require.Equal(t, at, commits[int32(p)].At)
				}
			}
			require.Equal(t, want, set)
			require.Equal(t, "gm1:"+b.id(topic)+":1:more", commits[1].Metadata, "what was noted is kept")
			require.Len(t, commits, len(want))

			_, o := b.open(cfg)
			require.Equal(t, c.want[1], o.Owned()[1].Offset, "START begins there")
		})
	}
}

func TestOffsetsThatCannotBeSet(t *testing.T) {
	b := newBroker(t)
	topic, foreign := b.topic(2), b.topic(1)
	b.produce(topic, 0, "0", "1", "2")
	b.produce(topic, 1, "0", "1", "2", "3")
	b.deleteRecords(topic, 0, 1)
	cfg := b.config(topic)
	for _, c := range []struct {
		name, to    string
		only        *graphmill.TopicPartition
		field, says string
	}{
		{"before what one has", "0", nil, "set", topic + "/0 has the offsets 1 to 3, 0 is not among them"},
		{"behind what one has", "4", nil, "set", topic + "/0 has the offsets 1 to 3"},
		{"far behind", "9223372036854775807", nil, "set", "is not among them"},
		{"a message id", "12:5:0", nil, "set", "this stream reads Kafka"},
		{"a partition that does not exist", "earliest", &graphmill.TopicPartition{Topic: topic, Partition: 2}, "partition", topic + "/2 does not exist: topic \"" + topic + "\" has the partitions 0 to 1"},
		{"a negative partition", "earliest", &graphmill.TopicPartition{Topic: topic, Partition: -1}, "partition", "has the partitions 0 to 1"},
		{"a topic of another stream", "earliest", &graphmill.TopicPartition{Topic: foreign}, "partition", "is not of this stream, which reads " + topic},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := kafka.SetOffsets(t.Context(), cfg, target(t, c.to), c.only)
			e := refused(t, err)
			require.Equal(t, graphmill.KindInvalid, e.Kind)
			require.Equal(t, c.field, e.Field)
			require.Contains(t, e.Text, c.says)
			require.Empty(t, b.commits(cfg.Group, topic))
		})
	}
}

func TestOffsetsOfAGroupWithMembersAreNotSet(t *testing.T) {
	b := newBroker(t)
	topic := b.topic(1)
	cfg := b.config(topic)
	cfg.ClientID = "other-server"
	s, _ := b.open(cfg)
	_, err := kafka.SetOffsets(t.Context(), cfg, target(t, "earliest"), nil)
	e := refused(t, err)
	require.Equal(t, graphmill.KindConflict, e.Kind)
	require.Equal(t, "group_active", e.Code)
	require.Contains(t, e.Text, "other-server at 127.0.0.1")
	closeSource(t, s)
	_, err = kafka.SetOffsets(t.Context(), cfg, target(t, "earliest"), nil)
	require.NoError(t, err)
}

// Somebody may join between the look at the group and the commit.
func TestOffsetsAreNotSetBesideAMemberThatHasJustJoined(t *testing.T) {
	b := newFake(t)
	topic := b.topic(1)
	cfg := b.config(topic)
	cfg.ClientID = "quick"
	b.fake.ControlKey(int16(kmsg.DescribeGroups), func(req kmsg.Request) (kmsg.Response, error, bool) {
		resp := req.ResponseKind().(*kmsg.DescribeGroupsResponse)
		g := kmsg.NewDescribeGroupsResponseGroup()
		g.Group, g.State = cfg.Group, "Empty"
		resp.Groups = append(resp.Groups, g)
		return resp, nil, true
	})
	b.open(cfg)
	_, err := kafka.SetOffsets(t.Context(), cfg, target(t, "earliest"), nil)
	e := refused(t, err)
	require.Equal(t, "group_active", e.Code)
	require.Contains(t, e.Text, "quick at 127.0.0.1", "the broker's own refusal has the members looked up")
}

func TestOffsetsThatTheGroupRefuses(t *testing.T) {
	b := newFake(t)
	topic := b.topic(1)
	for _, answer := range []*kerr.Error{kerr.UnknownMemberID, kerr.IllegalGeneration, kerr.RebalanceInProgress} {
		t.Run(answer.Message, func(t *testing.T) {
			b.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: answer})
			_, err := kafka.SetOffsets(t.Context(), b.config(topic), target(t, "earliest"), nil)
			require.Equal(t, "group_active", refused(t, err).Code)
		})
	}
}

func TestOffsetsWaitForTheCoordinatorAndThenTell(t *testing.T) {
	t.Parallel()
	b := newFake(t)
	topic := b.topic(1)
	cfg := b.config(topic)
	b.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit, kmsg.OffsetFetch}, Err: kerr.CoordinatorNotAvailable, Count: 4})
	_, err := kafka.SetOffsets(t.Context(), cfg, target(t, "earliest"), nil)
	require.NoError(t, err)

	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	cfg.Topics = []string{"absent"}
	_, err = kafka.Offsets(ctx, cfg)
	require.Equal(t, "topic_absent", fault(t, err).Code)
	cfg.Brokers = []string{"127.0.0.1:1"}
	_, err = kafka.SetOffsets(ctx, cfg, target(t, "latest"), nil)
	require.Equal(t, "broker_unreachable", fault(t, err).Code)
}

func TestOffsetsOfTopicThatWasCreatedAnewAreSetInTheNewOne(t *testing.T) {
	b := newBroker(t)
	topic := b.topic(1)
	cfg := b.config(topic)
	old := b.id(topic)
	b.deleteTopic(topic)
	b.create(topic, 2, nil)
	b.produce(topic, 0, "a", "b")
	b.commit(cfg.Group, topic, 0, 1, "gm1:"+old+":1:more")
	info, err := kafka.Offsets(t.Context(), cfg)
	require.NoError(t, err)
	for _, p := range info.Partitions {
		require.Equal(t, "topic_recreated", p.Problem.Code)
	}
	set, err := kafka.SetOffsets(t.Context(), cfg, target(t, "earliest"), nil)
	require.NoError(t, err)
	require.Len(t, set, 2)
	require.Equal(t, "gm1:"+b.id(topic)+":2", b.commits(cfg.Group, topic)[0].Metadata, "nothing of the old one is carried on")
	_, o := b.open(cfg)
	require.EqualValues(t, 0, o.Owned()[0].Offset)
}

func TestStartAcceptsATopicThatWasCreatedAnew(t *testing.T) {
	for _, known := range []bool{false, true} {
		t.Run(fmt.Sprintf("position known to the catalog %v", known), func(t *testing.T) {
			b := newBroker(t)
			topic := b.topic(1)
			old := b.id(topic)
			b.deleteTopic(topic)
			b.create(topic, 3, nil)
			for p := range int32(3) {
				b.produce(topic, p, fmt.Sprintf("new-%d", p))
			}
			cfg := b.config(topic)
			if known {
				cfg.Known = []graphmill.Position{{TopicPartition: tp(topic, 0), TopicID: old, Offset: 7}}
			} else {
				b.commit(cfg.Group, topic, 0, 7, "gm1:"+old+":1")
			}
			s, _ := b.source(cfg)
			f := fault(t, s.Open(t.Context()))
			require.Equal(t, "topic_recreated", f.Code)
			require.Contains(t, f.Next, "graphmill stream start s --accept recreated")
			require.Contains(t, f.Next, "graphmill stream offsets s --set")
			closeSource(t, s)

			cfg.AcceptRecreated = true
			s, _ = b.open(cfg)
			got, _ := collect(t, s, 3)
			require.ElementsMatch(t, []string{"new-0", "new-1", "new-2"}, payloads(got), "every partition from its beginning, though START_FROM is latest")
			require.Equal(t, "gm1:"+b.id(topic)+":0", b.commits(cfg.Group, topic)[0].Metadata, "so that other members read theirs from the beginning, too")
			closeSource(t, s)

			cfg.AcceptRecreated = false
			s, _ = b.open(cfg)
			collect(t, s, 3) // it is settled: nothing has been acknowledged
		})
	}
}

func TestStartAcceptsAPositionThatIsLost(t *testing.T) {
	for _, c := range []struct {
		accept string
		want   int64
	}{{"earliest", 3}, {"latest", 5}} {
		t.Run(c.accept, func(t *testing.T) {
			b := newBroker(t)
			topic := b.topic(2)
			for p := range int32(2) {
				b.produce(topic, p, "0", "1", "2", "3", "4")
			}
			b.deleteRecords(topic, 0, 3)
			cfg := b.config(topic)
			b.commit(cfg.Group, topic, 0, 1, "")
			b.commit(cfg.Group, topic, 1, 2, "")
			cfg.AcceptLost = c.accept
			_, o := b.open(cfg)
			require.Equal(t, c.want, o.Owned()[0].Offset)
			require.EqualValues(t, 2, o.Owned()[1].Offset, "a position that is there stays")
			require.Equal(t, c.want, b.commits(cfg.Group, topic)[0].At)
		})
	}
}

func TestWhatStartAcceptsIsOneThingOnly(t *testing.T) {
	b := newBroker(t)
	topic := b.topic(1)
	b.produce(topic, 0, "0")
	for _, c := range []struct {
		name, metadata, code string
		accept               func(*kafka.Config)
	}{
		{"a lost position is not a new topic", "", "position_lost", func(c *kafka.Config) { c.AcceptRecreated = true }},
		{"a new topic is not a lost position", "gm1:00000000000000000000000000000001:1", "topic_recreated", func(c *kafka.Config) { c.AcceptLost = "earliest" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := b.config(topic)
			b.commit(cfg.Group, topic, 0, 9, c.metadata)
			c.accept(&cfg)
			s, _ := b.source(cfg)
			require.Equal(t, c.code, fault(t, s.Open(t.Context())).Code)
		})
	}
}

// What START accepted was the state of that time.
func TestWhatStartAcceptedDoesNotCountAfterARebalance(t *testing.T) {
	t.Parallel()
	b := newFake(t)
	topic := b.topic(1)
	b.produce(topic, 0, "0", "1", "2")
	cfg := b.config(topic)
	cfg.AcceptLost = "latest"
	b.commit(cfg.Group, topic, 0, 9, "")
	s, o := b.open(cfg)
	require.EqualValues(t, 3, o.Owned()[0].Offset)

	joins := b.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.JoinGroup}, Err: kerr.CoordinatorLoadInProgress, Count: -1})
	b.forget(cfg.Group)
	require.Eventually(t, func() bool { return len(o.Owned()) == 0 }, sourcetest.Patience, 20*time.Millisecond)
	b.commit(cfg.Group, topic, 0, 9, "")
	joins.Remove()
	ctx, cancel := context.WithTimeout(t.Context(), sourcetest.Patience)
	defer cancel()
	_, err := s.Fetch(ctx, 1)
	require.Equal(t, "position_lost", fault(t, err).Code)
}
