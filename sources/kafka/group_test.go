package kafka_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/sources/kafka"
	"github.com/graphmill/graphmill/sources/sourcetest"
)

func TestRevokedPartitionMayBeAcknowledgedUntilRevokedReturns(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	topic := b.topic(2)
	cfg := b.config(topic)
	b.produce(topic, 0, "0")
	b.produce(topic, 1, "1")
	cfg.Start.Earliest = true

	s, o := b.source(cfg)
	type revocation struct {
		tps      []graphmill.TopicPartition
		lost     bool
		limit    time.Duration
		ackErr   error
		atCommit int64
		fetched  int
	}
	revoked := make(chan revocation, 1)
	var at map[graphmill.TopicPartition]graphmill.Position
	ready := make(chan struct{})
	o.WhenRevoked = func(ctx context.Context, tps []graphmill.TopicPartition, lost bool) {
		<-ready
		r := revocation{tps: tps, lost: lost}
		deadline, _ := ctx.Deadline()
		r.limit = time.Until(deadline)
		// The stream finishes what it has in hand.
		r.ackErr = s.Acknowledge(ctx, positions(at))
		r.atCommit = b.commits(cfg.Group, topic)[tps[0].Partition].At
		b.produce(topic, tps[0].Partition, "late")
		short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		defer cancel()
		fetches, _ := s.Fetch(short, 10)
		r.fetched = len(fetches)
		select {
		case revoked <- r:
		default:
		}
	}
	require.NoError(t, s.Open(t.Context()))
	_, at = collect(t, s, 2)
	close(ready)

	two := b.join(cfg)
	r := <-revoked
	require.Len(t, r.tps, 1)
	require.False(t, r.lost)
	require.LessOrEqual(t, r.limit, kafka.DefaultRebalanceTimeout/2)
	require.Greater(t, r.limit, kafka.DefaultRebalanceTimeout/3)
	require.NoError(t, r.ackErr)
	require.EqualValues(t, 1, r.atCommit, "what was finished is committed before the partition is given up")
	require.Zero(t, r.fetched, "nothing of it is fetched any more")

	require.Eventually(t, func() bool { return len(two.Seen()) == 1 }, sourcetest.Patience, 20*time.Millisecond)
	require.Equal(t, map[string]int{"late": 1}, two.Seen(), "the other member goes on exactly there")

	// From now on the partition is somebody else's.
	committed := func() int64 { return b.commits(cfg.Group, topic)[r.tps[0].Partition].At }
	require.Eventually(t, func() bool { return committed() == 2 }, sourcetest.Patience, 20*time.Millisecond, "by the other member")
	gone := at[r.tps[0]]
	gone.Offset = 1000
	require.NoError(t, s.Acknowledge(t.Context(), []graphmill.Position{gone}))
	require.EqualValues(t, 2, committed())
}

func TestMemberThatTheGroupHasForgottenLosesItsPartitions(t *testing.T) {
	t.Parallel()
	b := newFake(t)
	topic := b.topic(1)
	cfg := b.config(topic)
	cfg.SessionTimeout = 6 * time.Second
	s, o := b.open(cfg)
	b.produce(topic, 0, "a")
	collect(t, s, 1) // not acknowledged
	b.forget(cfg.Group)
	require.Eventually(t, func() bool { return o.Losses() == 1 }, sourcetest.Patience, 20*time.Millisecond)
	got, _ := collect(t, s, 1)
	require.Equal(t, []string{"a"}, payloads(got), "it has joined again and begins at the group's commit")
}

func TestPartitionsGivenUpWhileACommitWaitsAreLeftOut(t *testing.T) {
	b := newBroker(t)
	one, two := b.topic(2), b.topic(1)
	cfg := b.config(one, two)
	s, o := b.open(cfg)
	at := o.Owned()
	for i := range at {
		at[i].Offset = 5
	}
	kept := tp(one, 1)
	require.NoError(t, kafka.Commit(t.Context(), s, at, func(p graphmill.TopicPartition) bool { return p == kept }))
	require.EqualValues(t, 0, b.commits(cfg.Group, one)[0].At)
	require.EqualValues(t, 5, b.commits(cfg.Group, one)[1].At)
	require.EqualValues(t, 0, b.commits(cfg.Group, two)[0].At)
	require.NoError(t, kafka.Commit(t.Context(), s, at, func(graphmill.TopicPartition) bool { return false }))
}

func TestCloseDuringARevocationEndsIt(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	topic := b.topic(2)
	cfg := b.config(topic)
	cfg.RebalanceTimeout = time.Hour
	s, o := b.source(cfg)
	entered := make(chan struct{})
	var once sync.Once
	o.WhenRevoked = func(ctx context.Context, _ []graphmill.TopicPartition, _ bool) {
		once.Do(func() { close(entered) })
		<-ctx.Done()
	}
	require.NoError(t, s.Open(t.Context()))
	b.join(cfg)
	<-entered
	closed := make(chan error, 1)
	go func() { closed <- s.Close(t.Context()) }()
	require.NoError(t, done(t, closed))
}
