package sourcetest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
)

// Fetcher is a source, or what else fetches like one.
type Fetcher interface {
	Fetch(ctx context.Context, max int) ([]graphmill.Fetch, error)
}

// Collect fetches until there are n messages, and returns them and the last
// position of each partition.
func Collect(t *testing.T, f Fetcher, n int) ([]graphmill.Message, map[graphmill.TopicPartition]graphmill.Position) {
	t.Helper()
	got, at := collect(t, f, n)
	require.Len(t, got, n)
	return got, at
}

// collect is Collect, and may return more messages, of a unit that comes as a
// whole.
func collect(t *testing.T, f Fetcher, n int) ([]graphmill.Message, map[graphmill.TopicPartition]graphmill.Position) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	var got []graphmill.Message
	at := map[graphmill.TopicPartition]graphmill.Position{}
	for len(got) < n {
		fetches, err := f.Fetch(ctx, n-len(got))
		require.NoError(t, err, "after %d messages of %d: %q", len(got), n, Payloads(got))
		for _, one := range fetches {
			for i := range one.Messages {
				require.Equal(t, one.Next.TopicPartition, one.Messages[i].TopicPartition(), "a fetch is of one partition")
			}
			got = append(got, one.Messages...)
			at[one.Next.TopicPartition] = one.Next
		}
	}
	return got, at
}

// Nothing checks that nothing comes for a while.
func Nothing(t *testing.T, f Fetcher, d time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	fetches, err := f.Fetch(ctx, 100)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Empty(t, fetches)
}

// Payloads returns the payloads of messages, as text.
func Payloads(ms []graphmill.Message) []string {
	out := make([]string, 0, len(ms))
	for i := range ms {
		out = append(out, string(ms[i].Payload))
	}
	return out
}

// Positions returns the positions of a map, sorted.
func Positions(at map[graphmill.TopicPartition]graphmill.Position) []graphmill.Position {
	out := make([]graphmill.Position, 0, len(at))
	for _, p := range at {
		out = append(out, p)
	}
	graphmill.SortPositions(out)
	return out
}
