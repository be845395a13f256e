package kafka_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/sources/kafka"
)

// commitLog watches the commits that arrive at a kfake: within a group they
// must never go back, which is what a commit for a partition that has been
// given to somebody else would do.
type commitLog struct {
	mu   sync.Mutex
	at   map[graphmill.TopicPartition]int64
	back []string
}

func (b *broker) watchCommits() *commitLog {
	l := &commitLog{at: map[graphmill.TopicPartition]int64{}}
	b.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Observe: true, Count: -1, When: func(req kmsg.Request) bool {
		commit := req.(*kmsg.OffsetCommitRequest)
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, t := range commit.Topics {
			for _, p := range t.Partitions {
				key := graphmill.TopicPartition{Topic: fmt.Sprintf("%s%x", t.Topic, t.TopicID), Partition: p.Partition}
				if p.Offset < l.at[key] {
					l.back = append(l.back, fmt.Sprintf("partition %d: %d after %d, by %s", p.Partition, p.Offset, l.at[key], commit.MemberID))
				}
				l.at[key] = max(l.at[key], p.Offset)
			}
		}
		return false
	}})
	return l
}

func (l *commitLog) wentBack() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.back
}

// kill ends a member as the end of its process would.
func (m *member) kill() {
	m.cancel()
	kafka.Kill(m.s)
	<-m.done
}

func (b *broker) lag(group, topic string, partitions int32) int64 {
	b.t.Helper()
	ends, err := b.adm.ListEndOffsets(b.t.Context(), topic)
	require.NoError(b.t, err)
	commits := b.commits(group, topic)
	var lag int64
	for p := range partitions {
		end, _ := ends.Lookup(topic, p)
		lag += end.Offset - max(commits[p].At, 0)
	}
	return lag
}

func TestCase7NothingIsLostWhileMembersJoinLeaveAndAreKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for a session to time out")
	}
	t.Parallel()
	b := newFake(t)
	topic := b.topic(6)
	cfg := b.config(topic)
	// A round ends without the dead one long before the session of a member that
	// waits in it would: kfake drops such a member then and never answers its
	// JoinGroup, where Kafka keeps it. On a real broker sessions do end in rounds:
	// TestKafkaThreeServersShareAStreamThroughRestartsKillsAndFreezes.
	cfg.SessionTimeout, cfg.RebalanceTimeout = 12*time.Second, 4*time.Second
	log := b.watchCommits()

	one := b.join(cfg)
	producing, stopProducing := context.WithCancel(t.Context())
	var produced int
	var producer sync.WaitGroup
	producer.Go(func() {
		for i := 0; producing.Err() == nil; i++ {
			b.produce(topic, int32(i%6), fmt.Sprint(i))
			produced = i + 1
			if pauseFor(producing, time.Millisecond) != nil {
				return
			}
		}
	})
	owns := func(m *member, least int) func() bool { return func() bool { return len(m.o.owns()) >= least } }
	two := b.join(cfg)
	three := b.join(cfg)
	require.Eventually(t, owns(three, 2), time.Minute, 20*time.Millisecond, "three share")
	two.kill()
	four := b.join(cfg)
	require.Eventually(t, func() bool {
		return len(one.o.owns())+len(three.o.owns())+len(four.o.owns()) == 6
	}, time.Minute, 20*time.Millisecond, "what the dead one had is taken over")
	one.stop()
	closeSource(t, one.s)
	require.Eventually(t, func() bool { return len(three.o.owns())+len(four.o.owns()) == 6 }, time.Minute, 20*time.Millisecond)
	stopProducing()
	producer.Wait()
	require.Eventually(t, func() bool { return b.lag(cfg.Group, topic, 6) == 0 }, time.Minute, 50*time.Millisecond)
	three.stop()
	four.stop()

	repeated := 0
	total := map[string]int{}
	for _, m := range []*member{one, two, three, four} {
		for k, n := range m.seen() {
			total[k] += n
		}
	}
	for i := range produced {
		n := total[fmt.Sprint(i)]
		require.NotZero(t, n, "message %d of %d was lost", i, produced)
		repeated += n - 1
	}
	t.Logf("%d messages, %d repeated", produced, repeated)
	require.LessOrEqual(t, repeated, 10, "no more than the batch of the member that was killed")
	require.Empty(t, log.wentBack())
	require.Zero(t, one.o.lost+three.o.lost+four.o.lost)
}

// A stream that does not finish in time loses the right to acknowledge; the
// group does not wait for it any longer.
func TestCase7RevocationWaitsForHalfOfTheRebalanceTimeoutAndNoLonger(t *testing.T) {
	t.Parallel()
	b := newFake(t)
	topic := b.topic(2)
	cfg := b.config(topic)
	cfg.Start.Earliest = true
	cfg.RebalanceTimeout = 3 * time.Second
	b.produce(topic, 0, "0")
	b.produce(topic, 1, "1")
	s, o := b.source(cfg)
	waited := make(chan time.Duration, 1)
	o.whenRevoked = func(ctx context.Context, _ []graphmill.TopicPartition, _ bool) {
		began := time.Now()
		<-ctx.Done() // a batch that takes for ever
		select {
		case waited <- time.Since(began):
		default:
		}
	}
	require.NoError(t, s.Open(t.Context()))
	_, at := collect(t, s, 2)
	two := b.join(cfg)
	require.InDelta(t, 1500*time.Millisecond, <-waited, float64(500*time.Millisecond))
	require.Eventually(t, func() bool { return len(two.o.owns()) == 1 }, 10*time.Second, 20*time.Millisecond)
	moved := two.o.owns()[0].TopicPartition
	require.Eventually(t, func() bool { return b.commits(cfg.Group, topic)[moved.Partition].At == 1 }, 10*time.Second, 20*time.Millisecond, "the new owner has read it")

	late := at[moved]
	late.Offset = 7 // one that would show
	require.NoError(t, s.Acknowledge(t.Context(), []graphmill.Position{late}), "left out in silence")
	require.EqualValues(t, 1, b.commits(cfg.Group, topic)[moved.Partition].At)
	require.Zero(t, o.lost)
}

// A server that is suspended does not know that its session is over: what it
// then sends is in the name of a member that the group has forgotten.
func TestCase7MemberThatWasFrozenPastItsSessionCommitsNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for a session to time out")
	}
	t.Parallel()
	b := newFake(t)
	topic := b.topic(1)
	cfg := b.config(topic)
	cfg.SessionTimeout = 6 * time.Second
	frozen, o := b.open(cfg)
	b.produce(topic, 0, "0", "1", "2")
	_, at := collect(t, frozen, 2)
	id := b.fake.GroupInfo(cfg.Group).Members[0].MemberID

	// From its next heartbeat on nothing goes out of it or comes in.
	caught, thaw := make(chan struct{}), make(chan struct{})
	b.fake.ControlKey(int16(kmsg.Heartbeat), func(req kmsg.Request) (kmsg.Response, error, bool) {
		if req.(*kmsg.HeartbeatRequest).MemberID != id {
			b.fake.KeepControl()
			return nil, nil, false
		}
		b.fake.SleepControl(func() { close(caught); <-thaw })
		return nil, nil, false
	})
	<-caught
	acknowledged := make(chan error, 1)
	go func() { acknowledged <- frozen.Acknowledge(t.Context(), positions(at)) }()
	two := b.join(cfg)
	require.Eventually(t, func() bool { return b.lag(cfg.Group, topic, 1) == 0 }, 30*time.Second, 50*time.Millisecond, "the other one has taken over and read")
	require.Equal(t, map[string]int{"0": 1, "1": 1, "2": 1}, two.seen())
	select {
	case err := <-acknowledged:
		t.Fatal("it was not frozen:", err)
	default:
	}
	require.False(t, o.isLost())

	close(thaw)
	require.NoError(t, done(t, acknowledged), "left out in silence")
	require.EqualValues(t, 3, b.commits(cfg.Group, topic)[0].At, "the new owner's commit stands")
	require.True(t, o.isLost())
}

func TestCommitsThatTheGroupRefusesAreMadeAfterItsRound(t *testing.T) {
	for _, answer := range []*kerr.Error{kerr.UnknownMemberID, kerr.IllegalGeneration, kerr.RebalanceInProgress, kerr.NotCoordinator, kerr.CoordinatorNotAvailable, kerr.CoordinatorLoadInProgress} {
		t.Run(answer.Message, func(t *testing.T) {
			t.Parallel()
			b := newFake(t)
			topic := b.topic(1)
			cfg := b.config(topic)
			s, _ := b.open(cfg)
			b.produce(topic, 0, "0")
			_, at := collect(t, s, 1)
			h := b.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: answer, Count: 2})
			require.NoError(t, s.Acknowledge(t.Context(), positions(at)))
			require.EqualValues(t, 2, h.Hits())
			require.EqualValues(t, 1, b.commits(cfg.Group, topic)[0].At)
			b.produce(topic, 0, "1")
			got, _ := collect(t, s, 1)
			require.Equal(t, []string{"1"}, payloads(got), "it is still a member, or again")
		})
	}
}

func TestTwoSourcesOfOneGroupWithDifferentTopics(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	left, right := b.topic(2), b.topic(3)
	cfg := b.config(left)
	one := b.join(cfg)
	cfg.Topics = []string{right}
	two := b.join(cfg)
	for i := range 30 {
		b.produce(left, int32(i%2), fmt.Sprintf("l%d", i))
		b.produce(right, int32(i%3), fmt.Sprintf("r%d", i))
	}
	require.Eventually(t, func() bool { return len(one.seen()) == 30 && len(two.seen()) == 30 }, 20*time.Second, 20*time.Millisecond)
	for k := range one.seen() {
		require.Equal(t, byte('l'), k[0])
	}
	require.Len(t, one.o.owns(), 2)
	require.Len(t, two.o.owns(), 3)
}
