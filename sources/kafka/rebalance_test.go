package kafka_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/sources/sourcetest"
)

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

// A stream that does not finish in time loses the right to acknowledge; the
// group does not wait for it any longer.
func TestCase7RevocationWaitsForHalfOfTheRebalanceTimeoutAndNoLonger(t *testing.T) {
	t.Parallel()
	b := newFake(t)
	topic := b.topic(2)
	cfg := b.config(topic)
	cfg.Start.Earliest = true
	cfg.RebalanceTimeout = 8 * time.Second
	b.produce(topic, 0, "0")
	b.produce(topic, 1, "1")
	s, o := b.source(cfg)
	waited := make(chan time.Duration, 1)
	o.WhenRevoked = func(ctx context.Context, _ []graphmill.TopicPartition, _ bool) {
		deadline, _ := ctx.Deadline()
		limit := time.Until(deadline)
		<-ctx.Done() // a batch that takes for ever
		select {
		case waited <- limit:
		default:
		}
	}
	require.NoError(t, s.Open(t.Context()))
	_, at := collect(t, s, 2)
	two := b.join(cfg)
	limit := <-waited
	require.LessOrEqual(t, limit, cfg.RebalanceTimeout/2)
	require.Greater(t, limit, cfg.RebalanceTimeout/4)
	require.Eventually(t, func() bool { return len(two.Observer.Owned()) == 1 }, sourcetest.Patience, 20*time.Millisecond)
	moved := two.Observer.Owned()[0].TopicPartition
	require.Eventually(t, func() bool { return b.commits(cfg.Group, topic)[moved.Partition].At == 1 }, sourcetest.Patience, 20*time.Millisecond, "the new owner has read it")

	late := at[moved]
	late.Offset = 7 // one that would show
	require.NoError(t, s.Acknowledge(t.Context(), []graphmill.Position{late}), "left out in silence")
	require.EqualValues(t, 1, b.commits(cfg.Group, topic)[moved.Partition].At)
	require.Zero(t, o.Losses())
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
	require.Eventually(t, func() bool { return b.lag(cfg.Group, topic, 1) == 0 }, sourcetest.Patience, 50*time.Millisecond, "the other one has taken over and read")
	require.Equal(t, map[string]int{"0": 1, "1": 1, "2": 1}, two.Seen())
	select {
	case err := <-acknowledged:
		t.Fatal("it was not frozen:", err)
	default:
	}
	require.Zero(t, o.Losses())

	close(thaw)
	require.NoError(t, done(t, acknowledged), "left out in silence")
	require.EqualValues(t, 3, b.commits(cfg.Group, topic)[0].At, "the new owner's commit stands")
	require.Equal(t, 1, o.Losses())
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
	require.Eventually(t, func() bool { return len(one.Seen()) == 30 && len(two.Seen()) == 30 }, sourcetest.Patience, 20*time.Millisecond)
	for k := range one.Seen() {
		require.Equal(t, byte('l'), k[0])
	}
	require.Len(t, one.Observer.Owned(), 2)
	require.Len(t, two.Observer.Owned(), 3)
}
