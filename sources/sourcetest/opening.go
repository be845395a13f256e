package sourcetest

import (
	"context"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
)

func opensWithinItsContext(x *trial) {
	for _, s := range []Stream{x.stream(x.topic(1)), x.stream(x.b.Name())} {
		src, _ := x.source(s)
		ended, end := context.WithCancel(x.t.Context())
		end()
		require.ErrorIs(x.t, src.Open(ended), context.Canceled)
		x.close(src)
	}
	src, _ := x.source(x.stream(x.b.Name()))
	ctx, cancel := context.WithTimeout(x.t.Context(), 100*time.Millisecond)
	defer cancel()
	require.ErrorIs(x.t, src.Open(ctx), context.DeadlineExceeded, "no topic")
	x.close(src)
}

func refusesWhenClosed(x *trial) {
	s := x.stream(x.topic(1))
	refuses := func(err error) {
		x.t.Helper()
		var f *graphmill.Fault
		require.ErrorAs(x.t, err, &f)
		require.Equal(x.t, graphmill.FaultSetup, f.Class)
	}
	for _, opened := range []bool{false, true} {
		src, _ := x.source(s)
		if opened {
			require.NoError(x.t, src.Open(x.t.Context()))
		} else {
			_, err := src.Fetch(x.t.Context(), 1)
			refuses(err)
		}
		x.close(src)
		x.close(src)
		refuses(src.Open(x.t.Context()))
		_, err := src.Fetch(x.t.Context(), 1)
		refuses(err)
		refuses(src.Acknowledge(x.t.Context(), nil))
		_, err = src.Partitions(x.t.Context())
		require.NoError(x.t, err)
	}
}

// closedWithin is how long a source that was closed may hold its partitions: less
// than brokers wait for one that has gone without a word.
const closedWithin = 20 * time.Second

func closesAtOnce(x *trial) {
	topic := x.topic(2)
	s := x.stream(topic)
	src, _ := x.open(s)
	began := time.Now()
	x.close(src)
	_, o := x.open(s)
	x.eventually("the next one has the partitions", func() bool { return len(o.Owned()) == 2 })
	require.Less(x.t, time.Since(began), closedWithin)
}
