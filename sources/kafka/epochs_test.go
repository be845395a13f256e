package kafka_test

import (
	"context"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/sources/kafka"
	"github.com/graphmill/graphmill/sources/sourcetest"
)

// elect gives a partition of a kfake the next leader epoch, with the log that
// it has: an orderly election.
func (b *broker) elect(topic string, partition int32) {
	b.t.Helper()
	require.NoError(b.t, b.fake.MoveTopicPartition(topic, partition, b.fake.LeaderFor(topic, partition)))
	b.connect() // a client that knows the leader
}

func TestCommitsCarryTheLeaderEpochOfTheMessageBeforeThem(t *testing.T) {
	b := newFake(t)
	topic := b.topic(1)
	cfg := b.config(topic)
	s, _ := b.open(cfg)
	require.EqualValues(t, 0, b.commits(cfg.Group, topic)[0].LeaderEpoch, "settled before the first message")
	b.produce(topic, 0, "0", "1")
	b.elect(topic, 0)
	b.elect(topic, 0)
	b.produce(topic, 0, "2", "3")
	_, at := collect(t, s, 4)

	for _, c := range []struct {
		offset int64
		epoch  int32
	}{{1, 0}, {2, 0}, {3, 2}, {4, 2}} {
		p := positions(at)
		p[0].Offset = c.offset
		require.NoError(t, s.Acknowledge(t.Context(), p))
		commit := b.commits(cfg.Group, topic)[0]
		require.Equal(t, c.offset, commit.At)
		require.Equal(t, c.epoch, commit.LeaderEpoch, "of the message before offset %d", c.offset)
	}
}

func TestOrderlyElectionsLoseNothingAndTellNothing(t *testing.T) {
	b := newFake(t, kfake.NumBrokers(3))
	topic := b.topic(1)
	cfg := b.config(topic)
	s, o := b.open(cfg)
	for i := range 4 {
		b.produce(topic, 0, "a", "b")
		_, at := collect(t, s, 2)
		require.NoError(t, s.Acknowledge(t.Context(), positions(at)))
		require.NoError(t, b.fake.MoveTopicPartition(topic, 0, int32(i%3)))
		b.connect()
	}
	closeSource(t, s)
	_, o2 := b.open(cfg)
	require.EqualValues(t, 8, o2.Owned()[0].Offset)
	waits, _ := o.Told()
	require.Zero(t, waits, o.Waits())
}

// A kfake that is started again from an earlier copy of its data is a leader
// that lacks messages; the next epoch makes the election.
func TestMessagesThatAnElectionHasLostAreToldThoughTheOffsetIsThere(t *testing.T) {
	t.Parallel()
	r := newRestartable(t)
	topic := r.topic(1)
	cfg := r.config(topic)
	r.produce(topic, 0, "0", "1", "2")
	r.stop()
	backup := t.TempDir()
	require.NoError(t, os.CopyFS(backup+"/copy", os.DirFS(r.dir)))
	r.start()
	r.connect()
	r.produce(topic, 0, "3", "4")
	r.stop()
	r.dir = backup + "/copy"
	r.start()
	r.connect()
	r.elect(topic, 0)
	r.produce(topic, 0, "other-3", "other-4", "other-5")

	stand := func(group string) {
		var os kadm.Offsets
		os.Add(kadm.Offset{Topic: topic, At: 5, LeaderEpoch: 0, Metadata: "gm1:" + r.id(topic) + ":1"})
		res, err := r.adm.CommitOffsets(t.Context(), group, os)
		require.NoError(t, err)
		require.NoError(t, res.Error())
	}
	stand(cfg.Group)

	s, _ := r.source(cfg)
	f := fault(t, s.Open(t.Context()))
	require.Equal(t, "position_lost", f.Code)
	require.Contains(t, f.Text, "has lost the messages from offset 3 on")
	require.Contains(t, f.Next, "graphmill stream offsets s --set 3 --partition "+topic+"/0")
	require.Contains(t, f.Next, "graphmill stream start s --accept lost=earliest")
	closeSource(t, s)
	info, err := kafka.Offsets(t.Context(), cfg)
	require.NoError(t, err)
	require.Equal(t, "position_lost", info.Partitions[0].Problem.Code)

	t.Run("the next step of the fault", func(t *testing.T) {
		_, err := kafka.SetOffsets(t.Context(), cfg, target(t, "3"), nil)
		require.NoError(t, err)
		s, _ := r.open(cfg)
		got, _ := collect(t, s, 3)
		require.Equal(t, []string{"other-3", "other-4", "other-5"}, payloads(got))
		closeSource(t, s)
	})
	t.Run("accepted", func(t *testing.T) {
		cfg := r.config(topic)
		stand(cfg.Group)
		cfg.AcceptLost = "latest"
		s, o := r.open(cfg)
		require.EqualValues(t, 6, o.Owned()[0].Offset)
		closeSource(t, s)
		cfg.AcceptLost = ""
		_, o = r.open(cfg)
		require.EqualValues(t, 6, o.Owned()[0].Offset, "and it is settled")
	})
}

func TestMessagesThatAnElectionLosesWhileReadingEndTheStream(t *testing.T) {
	b := newFake(t)
	topic := b.topic(1)
	cfg := b.config(topic)
	s, _ := b.open(cfg)
	b.produce(topic, 0, "0", "1", "2", "3", "4")
	_, at := collect(t, s, 5)
	// What a leader would say whose log has messages of its own from 3 on.
	b.fake.ControlKey(int16(kmsg.OffsetForLeaderEpoch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.fake.KeepControl()
		resp := req.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
		for _, rt := range req.(*kmsg.OffsetForLeaderEpochRequest).Topics {
			st := kmsg.NewOffsetForLeaderEpochResponseTopic()
			st.Topic = rt.Topic
			for _, rp := range rt.Partitions {
				sp := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
				sp.Partition, sp.LeaderEpoch, sp.EndOffset = rp.Partition, rp.LeaderEpoch, 3
				st.Partitions = append(st.Partitions, sp)
			}
			resp.Topics = append(resp.Topics, st)
		}
		return resp, nil, true
	})
	b.elect(topic, 0)
	b.produce(topic, 0, "5")
	ctx, cancel := context.WithTimeout(t.Context(), sourcetest.Patience)
	defer cancel()
	_, err := s.Fetch(ctx, 10)
	f := fault(t, err)
	require.Equal(t, "position_lost", f.Code)
	require.Contains(t, f.Text, "offset 3")
	require.Equal(t, graphmill.FaultSetup, f.Class)
	require.NoError(t, s.Acknowledge(t.Context(), positions(at)), "what was read is done all the same")
}
