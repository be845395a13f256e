package sourcetest

import (
	"context"
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/sources/patience"
)

func repeatsAfterClose(x *trial) {
	topic := x.topic(2)
	s := x.stream(topic)
	src, _ := x.open(s)
	want := map[graphmill.TopicPartition][]string{
		part(topic, 0): {"0", "1", "2"},
		part(topic, 1): {"a", "b", "c", "d"},
	}
	x.batch(topic, 0, want[part(topic, 0)]...)
	x.produce(topic, 1, want[part(topic, 1)]...)
	for range 3 {
		require.Equal(x.t, want, x.rest(src, all(topic, 2)...))
		x.close(src)
		src, _ = x.open(s)
	}
}

func repeatsAfterACrash(x *trial) {
	topic := x.topic(2)
	s := x.stream(topic)
	s.Crashes = true
	src, _ := x.open(s)
	x.produce(topic, 0, "0", "1", "2", "3")
	x.produce(topic, 1, "a")
	first, at := x.fetchOne(src, topic, 0)
	require.Equal(x.t, "0", first)
	x.rest(src, all(topic, 2)...) // fetched, and not acknowledged
	x.acknowledge(src, at)
	x.b.Crash(src)

	src, o := x.open(s)
	x.eventually("what the dead one had is taken over", func() bool { return len(o.Owned()) == 2 })
	require.Equal(x.t, map[graphmill.TopicPartition][]string{
		part(topic, 0): {"1", "2", "3"},
		part(topic, 1): {"a"},
	}, x.rest(src, all(topic, 2)...))
}

// fetchOne fetches until there is a message of a partition, in which each is a
// unit of its own. It returns the payload and the position behind it. Of other
// partitions all that comes is dropped.
func (x *trial) fetchOne(f Fetcher, topic string, p int) (string, graphmill.Position) {
	x.t.Helper()
	for {
		got, at := Collect(x.t, f, 1)
		if tp := got[0].TopicPartition(); tp == part(topic, p) {
			return string(got[0].Payload), at[tp]
		}
	}
}

func goesOnWhereItBegan(x *trial) {
	topic := x.topic(1)
	x.produce(topic, 0, "before")
	tp := part(topic, 0)

	s := x.stream(topic)
	src, _ := x.open(s)
	x.produce(topic, 0, "a", "b")
	Collect(x.t, src, 2)
	x.close(src)
	x.produce(topic, 0, "c")
	src, _ = x.open(s)
	require.Equal(x.t, []string{"a", "b", "c"}, x.rest(src, tp)[tp], "latest is settled once")

	s = x.stream(topic)
	s.Start.Earliest = true
	src, _ = x.open(s)
	x.close(src)
	s.Start = graphmill.Start{}
	src, _ = x.open(s)
	require.Equal(x.t, []string{"before", "a", "b", "c"}, x.rest(src, tp)[tp], "so is earliest, whatever the stream says later")
}

func goesOnBehind(x *trial) {
	topic := x.topic(2)
	s := x.stream(topic)
	src, _ := x.open(s)
	behind := map[string]graphmill.Position{}
	want := map[graphmill.TopicPartition][]string{}
	for p, tp := range all(topic, 2) {
		for i := range 6 {
			want[tp] = append(want[tp], fmt.Sprintf("%d-%d", p, i))
		}
		x.produce(topic, int32(p), want[tp]...)
	}
	for range 12 {
		got, at := Collect(x.t, src, 1)
		behind[string(got[0].Payload)] = at[got[0].TopicPartition()]
	}
	x.acknowledge(src, behind["0-0"])
	x.acknowledge(src, behind["0-2"], behind["1-4"])
	x.close(src)

	src, _ = x.open(s)
	require.Equal(x.t, map[graphmill.TopicPartition][]string{
		part(topic, 0): want[part(topic, 0)][3:],
		part(topic, 1): want[part(topic, 1)][5:],
	}, x.rest(src, all(topic, 2)...))
}

func goesOnAtEachBorderKnown(x *trial) { x.eachBorder(true) }
func goesOnAtEachBorder(x *trial)      { x.eachBorder(false) }

// eachBorder reads two units with a source for each message, which acknowledges
// that one and is closed.
func (x *trial) eachBorder(known bool) {
	units := [][]string{{"0", "1", "2", "3"}, {"4", "5"}}
	topic := x.topic(1)
	s := x.stream(topic)
	src, o := x.open(s)
	at := o.Owned()[0]
	var messages []string
	var beginning []int // of the unit that each message is in
	for _, unit := range units {
		for range unit {
			beginning = append(beginning, len(messages))
		}
		x.batch(topic, 0, unit...)
		messages = append(messages, unit...)
	}
	for done := range messages {
		got, _ := collect(x.t, src, 1)
		first := done // the message that should come first
		if x.can.WholeBatches && !known && string(got[0].Payload) != messages[done] {
			first = beginning[done]
		}
		for len(got) <= done-first {
			more, _ := collect(x.t, src, 1)
			got = append(got, more...)
		}
		require.Equal(x.t, messages[first:first+len(got)], Payloads(got), "%d are done", done)
		at.Pass(&got[done-first])
		x.acknowledge(src, at)
		x.close(src)
		if known {
			s.Known = []graphmill.Position{at}
		}
		src, _ = x.open(s)
	}
	require.Empty(x.t, x.rest(src, part(topic, 0)))
}

func acknowledgesOnce(x *trial) {
	topic := x.topic(1)
	s := x.stream(topic)
	src, _ := x.open(s)
	x.produce(topic, 0, "0", "1", "2")
	var behind []graphmill.Position
	for range 3 {
		_, at := x.fetchOne(src, topic, 0)
		behind = append(behind, at)
	}
	begun := x.b.Acknowledged(s)
	x.acknowledge(src, behind[1])
	stored := x.b.Acknowledged(s)
	require.NotEqual(x.t, begun, stored)

	foreign, absent := behind[2], behind[2]
	foreign.Partition = 7
	absent.Topic += "-absent"
	for what, at := range map[string][]graphmill.Position{
		"the same again":                  {behind[1]},
		"an earlier one":                  {behind[0]},
		"both":                            {behind[0], behind[1]},
		"of a partition that is not ours": {foreign},
		"of a topic that is not ours":     {absent},
		"nothing":                         nil,
	} {
		x.acknowledge(src, at...)
		require.Equal(x.t, stored, x.b.Acknowledged(s), what)
	}
	x.acknowledge(src, foreign, behind[2])
	require.NotEqual(x.t, stored, x.b.Acknowledged(s), "the rest counts")
	x.close(src)
	src, _ = x.open(s)
	require.Empty(x.t, x.rest(src, part(topic, 0)))
}

func storesNothingByItself(x *trial) {
	topic := x.topic(1)
	s := x.stream(topic)
	src, _ := x.open(s)
	begun := x.b.Acknowledged(s)
	for _, payload := range []string{"0", "1", "2"} {
		x.produce(topic, 0, payload)
		Collect(x.t, src, 1)
	}
	_, err := src.Partitions(x.t.Context())
	require.NoError(x.t, err)
	require.NoError(x.t, patience.Pause(x.t.Context(), 300*time.Millisecond)) // for what comes by itself
	require.Equal(x.t, begun, x.b.Acknowledged(s))
	x.close(src)
	require.Equal(x.t, begun, x.b.Acknowledged(s))
}

func worksBesideFetch(x *trial) {
	topic := x.topic(1)
	s := x.stream(topic)
	src, _ := x.open(s)
	x.produce(topic, 0, "0")
	_, at := x.fetchOne(src, topic, 0)
	begun := x.b.Acknowledged(s)

	ctx, cancel := context.WithTimeout(x.t.Context(), Patience)
	defer cancel()
	fetched := make(chan error, 1)
	var got []graphmill.Fetch
	go func() {
		var err error
		got, err = src.Fetch(ctx, 10)
		fetched <- err
	}()
	x.acknowledge(src, at)
	require.NotEqual(x.t, begun, x.b.Acknowledged(s))
	status, err := src.Partitions(ctx)
	require.NoError(x.t, err)
	require.Len(x.t, status, 1)
	select {
	case err := <-fetched:
		x.t.Fatalf("Fetch has returned %v, %v, and there was nothing", got, err)
	default:
	}
	x.produce(topic, 0, "1")
	require.NoError(x.t, x.done(fetched))
	require.Equal(x.t, []string{"1"}, Payloads(got[0].Messages))
}

func tellsTheLag(x *trial) {
	topics := []string{x.topic(2), x.topic(1)}
	s := x.stream(topics...)
	src, o := x.open(s)
	lags := func() map[graphmill.TopicPartition]int64 {
		status, err := src.Partitions(x.t.Context())
		require.NoError(x.t, err)
		var tps []graphmill.TopicPartition
		out := map[graphmill.TopicPartition]int64{}
		for _, p := range status {
			tps = append(tps, p.TopicPartition)
			out[p.TopicPartition] = p.Lag
		}
		require.Equal(x.t, partitions(o.Owned()), tps, "what is owned, by topic and partition")
		return out
	}
	full := part(topics[0], 1)
	none := func() bool {
		for _, lag := range lags() {
			if lag != 0 {
				return false
			}
		}
		return true
	}
	if x.can.NoLag {
		for tp, lag := range lags() {
			require.EqualValues(x.t, -1, lag, tp)
		}
		return
	}
	x.eventually("there is no lag", none)
	x.produce(full.Topic, full.Partition, "0", "1", "2")
	x.eventually("there is lag", func() bool { return lags()[full] > 0 })
	_, at := Collect(x.t, src, 3)
	for tp, lag := range lags() {
		require.Equal(x.t, tp == full, lag > 0, "what is only fetched counts as not read: %s has %d", tp, lag)
	}
	x.acknowledge(src, Positions(at)...)
	x.eventually("there is no lag", none)
}
