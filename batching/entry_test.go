package batching_test

import (
	"errors"
	"io"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/batching"
)

// entry is a fetch of one entry of Pulsar's with n messages of a byte each.
func entry(partition int32, id int64, n int) graphmill.Fetch {
	tp := graphmill.TopicPartition{Topic: "t", Partition: partition}
	f := graphmill.Fetch{Next: graphmill.Position{TopicPartition: tp, Offset: -1, MessageID: graphmill.MessageID{Ledger: 1, Entry: id + 1}}}
	for i := range n {
		f.Messages = append(f.Messages, graphmill.Message{
			Topic: tp.Topic, Partition: tp.Partition, Offset: -1, Payload: []byte{1},
			MessageID: graphmill.MessageID{Ledger: 1, Entry: id, Index: int32(i)}, EntryRest: int32(n - 1 - i),
		})
	}
	return f
}

func TestABatchEndsWhereAnEntryDoes(t *testing.T) {
	for _, c := range []struct {
		name    string
		policy  batching.Policy
		entries []int    // messages of each
		want    []string // the positions behind the batches
	}{
		{"by size", policy(10, 1000), []int{4, 4, 4, 4, 4}, []string{"t/0@1:2:0", "t/0@1:4:0"}},
		{"by bytes", policy(100, 10), []int{4, 4, 4, 4, 4}, []string{"t/0@1:2:0", "t/0@1:4:0"}},
		{"an entry fits exactly", policy(8, 1000), []int{4, 4, 4, 4}, []string{"t/0@1:2:0", "t/0@1:4:0"}},
		{"an entry is larger than a batch: it is cut, and the rest begins the next one", policy(10, 1000), []int{4, 25, 3, 9}, []string{"t/0@1:1:0", "t/0@1:1:10", "t/0@1:1:20", "t/0@1:3:0"}},
		{"no batches on the broker's side", policy(3, 1000), []int{1, 1, 1, 1, 1, 1}, []string{"t/0@1:3:0", "t/0@1:6:0"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, c.policy)
				b.feed.whole = true
				for i, n := range c.entries {
					b.feed.push(entry(0, int64(i), n))
				}
				var got []string
				for range c.want {
					r := b.get()
					require.NoError(t, r.err)
					require.NotEqual(t, graphmill.ClosedByInterval, r.batch.Closed)
					require.Len(t, r.batch.Positions, 1)
					got = append(got, r.batch.Positions[0].String())
					b.b.Completed()
				}
				require.Equal(t, c.want, got)
				b.b.Stop()
			})
		})
	}
}

// Whatever entries come from three partitions: each message once and in order, and
// where a batch ends within an entry it holds nothing but a part of that entry.
func TestOnlyAnEntryThatFillsABatchIsCut(t *testing.T) {
	for seed := range uint64(100) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 19))
			b := newBench(t, batching.Policy{Size: 1 + rng.IntN(20), Bytes: 1 + rng.Int64N(30), Interval: time.Millisecond})
			b.feed.whole = true
			want := map[int32][]graphmill.MessageID{}
			for i := range int64(40) {
				f := entry(int32(rng.IntN(3)), i, 1+rng.IntN(12))
				for _, m := range f.Messages {
					want[m.Partition] = append(want[m.Partition], m.MessageID)
				}
				b.feed.push(f)
			}
			go func() {
				time.Sleep(2 * time.Second) // two thousand intervals
				b.b.Stop()
			}()

			got := map[int32][]graphmill.MessageID{}
			for {
				batch, err := b.b.Next(t.Context())
				if errors.Is(err, io.EOF) {
					break
				}
				require.NoError(t, err)
				last := map[int32]graphmill.Message{}
				for _, m := range batch.Messages {
					got[m.Partition] = append(got[m.Partition], m.MessageID)
					last[m.Partition] = m
				}
				for _, p := range batch.Positions {
					m := last[p.Partition]
					if m.EntryRest == 0 {
						require.Equal(t, graphmill.MessageID{Ledger: 1, Entry: m.MessageID.Entry + 1}, p.MessageID)
						continue
					}
					require.Equal(t, m.MessageID.Index+1, p.MessageID.Index)
					for _, other := range batch.Messages {
						require.True(t, other.MessageID.SameEntry(m.MessageID))
					}
				}
				b.b.Completed()
			}
			require.Equal(t, want, got)
		})
	}
}
