package sourcetest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/sources/patience"
)

func startsLatest(x *trial) {
	topic := x.topic(3)
	x.produce(topic, 0, "before")
	src, o := x.open(x.stream(topic))
	require.Equal(x.t, all(topic, 3), partitions(o.Owned()), "all that there is, told before Open returns")
	want := map[graphmill.TopicPartition][]string{}
	for p, tp := range all(topic, 3) {
		want[tp] = []string{fmt.Sprintf("after-%d", p)}
		x.produce(topic, int32(p), want[tp]...)
	}
	require.Equal(x.t, want, x.rest(src, all(topic, 3)...))
}

func startsEarliest(x *trial) {
	topic := x.topic(2)
	x.produce(topic, 0, "0", "1")
	x.batch(topic, 1, "2", "3", "4")
	s := x.stream(topic)
	s.Start.Earliest = true
	src, _ := x.open(s)
	require.Equal(x.t, map[graphmill.TopicPartition][]string{
		part(topic, 0): {"0", "1"},
		part(topic, 1): {"2", "3", "4"},
	}, x.rest(src, all(topic, 2)...))
}

func startsAtATime(x *trial) {
	topic := x.topic(1)
	x.produce(topic, 0, "before")
	s := x.stream(topic)
	s.Start.Time = x.between()
	x.produce(topic, 0, "after", "later")
	src, _ := x.open(s)
	require.Equal(x.t, []string{"after", "later"}, x.rest(src, part(topic, 0))[part(topic, 0)])
}

// between returns a time after all that has been produced and before all that
// will be, in milliseconds as brokers count.
func (x *trial) between() time.Time {
	x.t.Helper()
	require.NoError(x.t, patience.Pause(x.t.Context(), 5*time.Millisecond))
	at := time.Now().Truncate(time.Millisecond)
	require.NoError(x.t, patience.Pause(x.t.Context(), 5*time.Millisecond))
	return at
}

func keepsOrder(x *trial) {
	const n = 4
	topic := x.topic(n)
	src, _ := x.open(x.stream(topic))
	want := map[graphmill.TopicPartition][]string{}
	for round := range 10 {
		for p, tp := range all(topic, n) {
			var unit []string
			for i := range 1 + (round+p)%5 {
				unit = append(unit, fmt.Sprintf("%d-%d-%d", p, round, i))
			}
			x.batch(topic, int32(p), unit...)
			want[tp] = append(want[tp], unit...)
		}
	}
	require.Equal(x.t, want, x.rest(src, all(topic, n)...))
}

func readsSeveralTopics(x *trial) {
	var topics []string
	var tps []graphmill.TopicPartition
	want := map[graphmill.TopicPartition][]string{}
	for i := range 3 {
		topic := x.topic(i + 1)
		topics = append(topics, topic)
		tps = append(tps, all(topic, i+1)...)
	}
	s := x.stream(topics...)
	src, o := x.open(s)
	require.ElementsMatch(x.t, tps, partitions(o.Owned()))
	for i, tp := range tps {
		want[tp] = []string{fmt.Sprintf("%d-a", i), fmt.Sprintf("%d-b", i)}
		x.produce(tp.Topic, tp.Partition, want[tp]...)
	}
	got, at := Collect(x.t, src, 2*len(tps))
	require.Equal(x.t, want, byPartition(got))
	x.acknowledge(src, Positions(at)...)
	x.close(src)

	src, _ = x.open(s)
	require.Empty(x.t, x.rest(src, tps...), "each topic goes on where it was")
}

// byPartition returns the payloads of each partition, in order.
func byPartition(ms []graphmill.Message) map[graphmill.TopicPartition][]string {
	out := map[graphmill.TopicPartition][]string{}
	for i := range ms {
		tp := ms[i].TopicPartition()
		out[tp] = append(out[tp], string(ms[i].Payload))
	}
	return out
}

func fetchesNoMoreThanAsked(x *trial) {
	const units, size = 5, 5
	topic := x.topic(2)
	src, _ := x.open(x.stream(topic))
	want := map[graphmill.TopicPartition][]string{}
	for p, tp := range all(topic, 2) {
		for u := range units {
			var unit []string
			for i := range size {
				unit = append(unit, fmt.Sprintf("%d-%d", p, u*size+i))
			}
			x.batch(topic, int32(p), unit...)
			want[tp] = append(want[tp], unit...)
		}
	}
	var got []graphmill.Message
	ctx, cancel := context.WithTimeout(x.t.Context(), Patience)
	defer cancel()
	for asked := 1; len(got) < 2*units*size; asked = 1 + asked%7 {
		fetches, err := src.Fetch(ctx, asked)
		require.NoError(x.t, err)
		n := 0
		for _, f := range fetches {
			n += len(f.Messages)
			got = append(got, f.Messages...)
		}
		limit := asked
		if x.can.WholeBatches {
			limit = max(asked, size)
		}
		require.LessOrEqual(x.t, n, limit, "asked for %d", asked)
	}
	require.Equal(x.t, want, byPartition(got))
}

func losesNothingWithTheContext(x *trial) {
	topic := x.topic(1)
	src, _ := x.open(x.stream(topic))
	ended, end := context.WithCancel(x.t.Context())
	end()
	x.produce(topic, 0, "0")
	fetches, err := src.Fetch(ended, 10)
	require.ErrorIs(x.t, err, context.Canceled)
	require.Empty(x.t, fetches)

	// Contexts that end at each moment at which somebody looks, while messages come.
	const units, size = 40, 10
	want := []string{"0"}
	for i := range units * size {
		want = append(want, fmt.Sprint(1+i))
	}
	var producing sync.WaitGroup
	producing.Go(func() {
		for unit := range slices.Chunk(want[1:], size) {
			x.batch(topic, 0, unit...)
		}
	})
	defer producing.Wait()
	ctx, cancel := context.WithTimeout(x.t.Context(), Patience)
	defer cancel()
	var got []graphmill.Message
	for i := 0; len(got) < len(want); i++ {
		short, cancel := context.WithTimeout(ctx, 5*time.Millisecond)
		fetches, err := src.Fetch(&looked{Context: short, end: cancel, nth: int64(i % 10)}, 1)
		if err != nil {
			require.ErrorIs(x.t, err, short.Err())
			require.NoError(x.t, ctx.Err(), "%d messages came of %d", len(got), len(want))
			require.Empty(x.t, fetches)
		}
		cancel()
		for _, f := range fetches {
			got = append(got, f.Messages...)
		}
	}
	require.Equal(x.t, want, Payloads(got))
}

// looked is a context that ends when it is looked at for the nth time, counted
// from 0.
type looked struct {
	context.Context
	end   context.CancelFunc
	nth   int64
	looks atomic.Int64
}

func (l *looked) look() {
	if l.looks.Add(1) > l.nth {
		l.end()
	}
}

func (l *looked) Done() <-chan struct{} {
	l.look()
	return l.Context.Done()
}

func (l *looked) Err() error {
	l.look()
	return l.Context.Err()
}
