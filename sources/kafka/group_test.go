package kafka_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/sources/kafka"
)

// member is a source with a loop around it that reads and acknowledges as a
// stream does: what a revocation takes away is forgotten before it returns.
type member struct {
	s *kafka.Source
	o *observer

	mu     sync.Mutex
	counts map[string]int // how often each message was acknowledged here
	hold   map[graphmill.TopicPartition][]graphmill.Fetch

	cancel context.CancelFunc
	done   chan struct{}
}

func (b *broker) join(cfg kafka.Config) *member {
	b.t.Helper()
	m := &member{counts: map[string]int{}, hold: map[graphmill.TopicPartition][]graphmill.Fetch{}, done: make(chan struct{})}
	m.s, m.o = b.source(cfg)
	m.o.whenRevoked = func(_ context.Context, tps []graphmill.TopicPartition, _ bool) {
		m.mu.Lock()
		defer m.mu.Unlock()
		for _, tp := range tps {
			delete(m.hold, tp)
		}
	}
	ctx, cancel := context.WithTimeout(b.t.Context(), 20*time.Second)
	defer cancel()
	require.NoError(b.t, m.s.Open(ctx))
	ctx, m.cancel = context.WithCancel(b.t.Context())
	b.t.Cleanup(m.stop)
	go m.run(ctx, b.t)
	return m
}

func (m *member) stop() {
	m.cancel()
	<-m.done
}

func (m *member) run(ctx context.Context, t *testing.T) {
	defer close(m.done)
	for {
		fetches, err := m.s.Fetch(ctx, 10)
		if err != nil {
			return
		}
		// One batch a fetch; held back for a moment, so that a revocation can
		// come between.
		m.mu.Lock()
		for _, f := range fetches {
			m.hold[f.Next.TopicPartition] = append(m.hold[f.Next.TopicPartition], f)
		}
		m.mu.Unlock()
		if err := pauseFor(ctx, time.Millisecond); err != nil {
			return
		}
		m.mu.Lock()
		var at []graphmill.Position
		for tp, fs := range m.hold {
			for _, f := range fs {
				for _, msg := range f.Messages {
					m.counts[string(msg.Payload)]++
				}
			}
			at = append(at, fs[len(fs)-1].Next)
			delete(m.hold, tp)
		}
		m.mu.Unlock()
		if err := m.s.Acknowledge(ctx, at); err != nil && ctx.Err() == nil {
			t.Error("acknowledge:", err)
			return
		}
	}
}

func pauseFor(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (m *member) seen() map[string]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make(map[string]int, len(m.counts))
	for k, v := range m.counts {
		out[k] = v
	}
	return out
}

func TestCase7PartitionsMoveBetweenMembersAndNoMessageIsLost(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	topic := b.topic(4)
	cfg := b.config(topic)
	const each = 500
	var producing sync.WaitGroup
	produce := func(from int) {
		producing.Go(func() {
			for i := range each {
				b.produce(topic, int32(i%4), fmt.Sprint(from+i))
			}
		})
	}

	one := b.join(cfg)
	produce(0)
	two := b.join(cfg)
	require.Eventually(t, func() bool { return len(one.o.owns()) == 2 && len(two.o.owns()) == 2 }, 20*time.Second, 20*time.Millisecond, "each gets half")
	produce(each)
	producing.Wait()
	two.stop()
	closeSource(t, two.s)
	require.Eventually(t, func() bool { return len(one.o.owns()) == 4 }, 20*time.Second, 20*time.Millisecond, "the one left gets all")
	produce(2 * each)
	producing.Wait()

	require.Eventually(t, func() bool {
		status, err := one.s.Partitions(t.Context())
		if err != nil || len(status) != 4 {
			return false
		}
		for _, p := range status {
			if p.Lag != 0 {
				return false
			}
		}
		return true
	}, 20*time.Second, 50*time.Millisecond)
	one.stop()

	total := one.seen()
	for k, n := range two.seen() {
		total[k] += n
	}
	for i := range 3 * each {
		require.NotZero(t, total[fmt.Sprint(i)], "message %d was lost", i)
	}
	require.NotEmpty(t, two.seen())
	require.NotEmpty(t, one.o.revoked)
	require.Zero(t, one.o.lost, "the partitions were handed over, not lost")
	for p, c := range b.commits(cfg.Group, topic) {
		require.Equal(t, "gm1:"+b.id(topic)+":4", c.Metadata, "partition %d", p)
	}
}

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
	o.whenRevoked = func(ctx context.Context, tps []graphmill.TopicPartition, lost bool) {
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
	require.InDelta(t, kafka.DefaultRebalanceTimeout/2, r.limit, float64(2*time.Second))
	require.NoError(t, r.ackErr)
	require.EqualValues(t, 1, r.atCommit, "what was finished is committed before the partition is given up")
	require.Zero(t, r.fetched, "nothing of it is fetched any more")

	require.Eventually(t, func() bool { return len(two.seen()) == 1 }, 20*time.Second, 20*time.Millisecond)
	require.Equal(t, map[string]int{"late": 1}, two.seen(), "the other member goes on exactly there")

	// From now on the partition is somebody else's.
	committed := func() int64 { return b.commits(cfg.Group, topic)[r.tps[0].Partition].At }
	require.Eventually(t, func() bool { return committed() == 2 }, 20*time.Second, 20*time.Millisecond, "by the other member")
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
	require.Eventually(t, func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		return o.lost == 1
	}, 10*time.Second, 20*time.Millisecond)
	got, _ := collect(t, s, 1)
	require.Equal(t, []string{"a"}, payloads(got), "it has joined again and begins at the group's commit")
}

func TestPartitionsGivenUpWhileACommitWaitsAreLeftOut(t *testing.T) {
	b := newBroker(t)
	one, two := b.topic(2), b.topic(1)
	cfg := b.config(one, two)
	s, o := b.open(cfg)
	at := o.owns()
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

func TestCloseLeavesTheGroupAtOnce(t *testing.T) {
	b := newBroker(t)
	topic := b.topic(1)
	cfg := b.config(topic)
	s, _ := b.open(cfg)
	began := time.Now()
	require.NoError(t, s.Close(t.Context()))
	s, o := b.open(cfg)
	require.Less(t, time.Since(began), 3*time.Second, "well within the session of the member that left")
	require.Len(t, o.owns(), 1)
	closeSource(t, s)
}

func TestCloseDuringARevocationEndsIt(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	topic := b.topic(2)
	cfg := b.config(topic)
	s, o := b.source(cfg)
	entered := make(chan struct{})
	var once sync.Once
	o.whenRevoked = func(ctx context.Context, _ []graphmill.TopicPartition, _ bool) {
		once.Do(func() { close(entered) })
		<-ctx.Done()
	}
	require.NoError(t, s.Open(t.Context()))
	b.join(cfg)
	<-entered
	began := time.Now()
	require.NoError(t, s.Close(t.Context()))
	require.Less(t, time.Since(began), 5*time.Second)
}
