package batching_test

import (
	"errors"
	"io"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/batching"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Whatever the source gives and however slow the lane is: the batches together
// are the input in its order, positions only move forward and end where the
// input ends, and no limit is exceeded.
func TestBatchesTogetherAreTheInput(t *testing.T) {
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 17))
			p := batching.Policy{Size: 1 + rng.IntN(20), Bytes: 1 + rng.Int64N(200), Interval: time.Duration(1+rng.IntN(20)) * time.Millisecond}
			b := newBench(t, p)
			b.feed.whole = rng.IntN(2) == 0

			input := randomInput(rng)
			go func() {
				for _, f := range input {
					time.Sleep(time.Duration(rng.IntN(4)) * time.Millisecond)
					b.feed.push(f)
				}
				time.Sleep(time.Second)
				b.b.Stop()
			}()

			got := map[int32][]int64{}
			at := map[int32]int64{}
			lane := rand.New(rand.NewPCG(seed, 18))
			out := 0
			for {
				batch, err := b.b.Next(t.Context())
				if errors.Is(err, io.EOF) {
					break
				}
				require.NoError(t, err)
				checkLimits(t, p, batch)
				for _, m := range batch.Messages {
					got[m.Partition] = append(got[m.Partition], m.Offset)
				}
				for _, pos := range batch.Positions {
					require.Greater(t, pos.Offset, at[pos.Partition], "a position only moves forward")
					at[pos.Partition] = pos.Offset
				}
				for _, m := range batch.Messages {
					require.Greater(t, at[m.Partition], m.Offset)
				}
				out++
				if out == 2 || lane.IntN(2) == 0 {
					time.Sleep(time.Duration(lane.IntN(5)) * time.Millisecond)
					for ; out > 0; out-- {
						b.b.Completed()
					}
				}
			}

			want := map[int32][]int64{}
			end := map[int32]int64{}
			for _, f := range input {
				for _, m := range f.Messages {
					want[m.Partition] = append(want[m.Partition], m.Offset)
				}
				end[f.Next.Partition] = f.Next.Offset
			}
			require.Equal(t, want, got)
			require.Equal(t, end, at)
		})
	}
}

func checkLimits(t *testing.T, p batching.Policy, batch graphmill.Batch) {
	t.Helper()
	require.NotEmpty(t, batch.Positions, "an empty batch is never handed out")
	require.LessOrEqual(t, len(batch.Messages), p.Size)
	var bytes int64
	for i := range batch.Messages {
		bytes += batch.Messages[i].Size()
	}
	require.Equal(t, bytes, batch.Bytes)
	if len(batch.Messages) > 1 {
		require.LessOrEqual(t, bytes, p.Bytes)
	}
}

// randomInput is a run of fetches over three partitions with gaps in the
// offsets, control records, and messages of up to 60 bytes.
func randomInput(rng *rand.Rand) []graphmill.Fetch {
	next := map[int32]int64{}
	var input []graphmill.Fetch
	for range 1 + rng.IntN(60) {
		partition := int32(rng.IntN(3))
		f := graphmill.Fetch{}
		for range rng.IntN(15) {
			next[partition] += int64(rng.IntN(3)) // a gap of compaction
			f.Messages = append(f.Messages, messages(partition, next[partition], 1, rng.IntN(60)).Messages...)
			next[partition]++
		}
		if len(f.Messages) == 0 || rng.IntN(3) == 0 {
			next[partition]++ // a control record
		}
		f.Next = position(partition, next[partition])
		input = append(input, f)
	}
	return input
}
