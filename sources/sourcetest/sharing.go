package sourcetest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/sources"
	"github.com/graphmill/graphmill/sources/patience"
)

// producer produces numbered messages into the partitions of a topic in turn,
// until it is stopped.
type producer struct {
	end  context.CancelFunc
	done sync.WaitGroup
	n    int // how many; to be read when it has stopped
}

func (x *trial) producer(topic string, n int) *producer {
	ctx, cancel := context.WithCancel(x.t.Context())
	p := &producer{end: cancel}
	p.done.Go(func() {
		for ctx.Err() == nil {
			x.produce(topic, int32(p.n%n), fmt.Sprint(p.n))
			p.n++
			_ = patience.Pause(ctx, time.Millisecond)
		}
	})
	return p
}

func (p *producer) stop() int {
	p.end()
	p.done.Wait()
	return p.n
}

// readAll waits until the members have done n numbered messages between them, and
// returns how often one was done again.
func (x *trial) readAll(n int, members ...*Member) (repeated int) {
	x.t.Helper()
	total := map[string]int{}
	missing := func() (m []string) {
		clear(total)
		for _, one := range members {
			for payload, times := range one.Seen() {
				total[payload] += times
			}
		}
		for i := range n {
			if total[fmt.Sprint(i)] == 0 {
				m = append(m, fmt.Sprint(i))
			}
		}
		return m
	}
	deadline := time.Now().Add(Patience)
	for len(missing()) > 0 && time.Now().Before(deadline) {
		require.NoError(x.t, patience.Pause(x.t.Context(), 20*time.Millisecond))
	}
	require.Empty(x.t, missing(), "lost, of %d", n)
	for _, times := range total {
		repeated += times - 1
	}
	return repeated
}

// owned is how many partitions a member has.
func owned(m *Member) int { return len(m.Observer.Owned()) }

func movesPartitions(x *trial) {
	const n = 4
	topic := x.topic(n)
	s := x.stream(topic)
	one := x.join(s)
	p := x.producer(topic, n)
	two := Join(x.t, func(o *Observer) sources.Source {
		o.WhenAssigned = func(at []graphmill.Position) {
			for _, tp := range partitions(at) {
				for _, had := range partitions(one.Observer.Owned()) {
					if x.can.HandsOver && tp == had {
						x.t.Errorf("%s is given to the second source before the first has let go of it", tp)
					}
				}
			}
		}
		return x.sourceFor(s, o)
	})
	x.eventually("each has some", func() bool { return owned(one) > 0 && owned(two) > 0 && owned(one)+owned(two) == n })
	x.eventually("both read", func() bool { return len(two.Seen()) > 20 })
	two.Stop()
	x.close(two.Source)
	x.eventually("the one that is left has all", func() bool { return owned(one) == n })
	before := len(one.Seen())
	x.eventually("it reads on", func() bool { return len(one.Seen()) > before+20 })
	repeated := x.readAll(p.stop(), one, two)
	one.Stop()
	x.t.Logf("%d messages, %d of them done again", p.n, repeated)
	require.NotEmpty(x.t, one.Observer.Revocations())
	if x.can.HandsOver {
		require.Zero(x.t, one.Observer.Losses()+two.Observer.Losses(), "the partitions were handed over, not lost")
	}
}

func leavesOutRevoked(x *trial) {
	topic := x.topic(2)
	s := x.stream(topic)
	one, o := x.open(s)
	x.produce(topic, 0, "0")
	x.produce(topic, 1, "1")
	_, at := Collect(x.t, one, 2)
	two, other := x.open(s)
	x.eventually("a partition has moved", func() bool {
		return len(other.Owned()) > 0 && len(o.Owned())+len(other.Owned()) == 2
	})
	moved := other.Owned()[0].TopicPartition
	require.Contains(x.t, o.Revocations(), moved)

	payload, _ := x.fetchOne(two, topic, int(moved.Partition))
	require.Equal(x.t, fmt.Sprint(moved.Partition), payload, "it was not acknowledged, so it comes again")
	x.produce(topic, moved.Partition, "later")
	payload, later := x.fetchOne(two, topic, int(moved.Partition))
	require.Equal(x.t, "later", payload)
	x.acknowledge(two, later)
	stored := x.b.Acknowledged(s)
	x.acknowledge(one, at[moved])
	require.Equal(x.t, stored, x.b.Acknowledged(s), "left out in silence")

	kept := partitions(o.Owned())
	require.NotContains(x.t, kept, moved)
	x.produce(topic, moved.Partition, "of the other")
	got := x.rest(one, kept...)
	require.NotContains(x.t, got, moved, "the first source reads nothing of it any more")
	x.close(two)
	x.eventually("it comes back", func() bool { return len(o.Owned()) == 2 })
	require.Equal(x.t, []string{"of the other"}, x.rest(one, moved)[moved], "and goes on behind what the other has acknowledged")
}

// finishesWithinRevoked looks at a source while it waits for its stream to finish.
func finishesWithinRevoked(x *trial) {
	if !x.can.HandsOver {
		x.t.Skip("this broker gives partitions away without waiting for who had them")
	}
	topic := x.topic(2)
	s := x.stream(topic)
	src, o := x.source(s)
	type revocation struct {
		tps  []graphmill.TopicPartition
		lost bool
	}
	entered, finished := make(chan revocation, 1), make(chan struct{})
	o.WhenRevoked = func(ctx context.Context, tps []graphmill.TopicPartition, lost bool) {
		select {
		case entered <- revocation{tps, lost}:
		default:
		}
		select {
		case <-finished:
		case <-ctx.Done():
		}
	}
	require.NoError(x.t, src.Open(x.t.Context()))
	x.produce(topic, 0, "0")
	x.produce(topic, 1, "1")
	_, at := Collect(x.t, src, 2)
	other, _ := x.source(s)
	opened := x.begin(other)
	var r revocation
	select {
	case r = <-entered:
	case <-time.After(Patience):
		x.t.Fatal("nothing is revoked")
	}
	require.False(x.t, r.lost)
	require.Len(x.t, r.tps, 1)
	moved := r.tps[0]

	begun := x.b.Acknowledged(s)
	x.acknowledge(src, at[moved])
	require.NotEqual(x.t, begun, x.b.Acknowledged(s), "what was finished is stored before the partition is given up")
	x.produce(topic, moved.Partition, "late")
	Nothing(x.t, src, 300*time.Millisecond)
	close(finished)
	require.NoError(x.t, x.done(opened))
	require.Equal(x.t, []string{"late"}, x.rest(other, moved)[moved], "the other goes on exactly there")
}

func losesNothingInRounds(x *trial) {
	const n = 6
	topic := x.topic(n)
	s := x.stream(topic)
	s.Crashes = true
	one := x.join(s)
	p := x.producer(topic, n)
	two := x.join(s)
	three := x.join(s)
	x.eventually("three share", func() bool { return owned(three) > 0 && owned(one)+owned(two)+owned(three) == n })
	two.Crash(x.b.Crash)
	four := x.join(s)
	x.eventually("what the dead one had is taken over", func() bool { return owned(one)+owned(three)+owned(four) == n })
	one.Stop()
	x.close(one.Source)
	x.eventually("what the one that left had too", func() bool { return owned(three)+owned(four) == n })
	repeated := x.readAll(p.stop(), one, two, three, four)
	three.Stop()
	four.Stop()
	x.t.Logf("%d messages, %d of them done again", p.n, repeated)
}

func standsBy(x *trial) {
	topic := x.topic(1)
	s := x.stream(topic)
	reads, idle := x.join(s), x.join(s)
	x.produce(topic, 0, "0", "1", "2")
	x.readAll(3, reads, idle)
	x.eventually("one has the partition", func() bool { return owned(reads)+owned(idle) == 1 })
	if owned(idle) == 1 {
		reads, idle = idle, reads
	}
	status, err := idle.Source.Partitions(x.t.Context())
	require.NoError(x.t, err)
	require.Empty(x.t, status)

	reads.Stop()
	x.close(reads.Source)
	x.eventually("the other takes over", func() bool { return owned(idle) == 1 })
	x.produce(topic, 0, "3", "4")
	require.Zero(x.t, x.readAll(5, reads, idle), "it goes on where the first one was")
}
