package batching_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/batching"
)

const interval = 100 * time.Millisecond

// result is what one call of Next came to, and when.
type result struct {
	batch graphmill.Batch
	err   error
	at    time.Duration
}

// bench runs a batcher over a feed in virtual time.
type bench struct {
	t     *testing.T
	feed  *feed
	b     *batching.Batcher
	start time.Time
}

func newBench(t *testing.T, p batching.Policy) *bench {
	f := newFeed()
	return &bench{t: t, feed: f, b: batching.New(p, f), start: time.Now()}
}

func (b *bench) since() time.Duration { return time.Since(b.start) }

// next calls Next beside the test. The result can be read once it is there.
func (b *bench) next(ctx context.Context) <-chan result {
	c := make(chan result, 1)
	go func() {
		batch, err := b.b.Next(ctx)
		c <- result{batch, err, b.since()}
	}()
	synctest.Wait()
	return c
}

// get calls Next and waits.
func (b *bench) get() result {
	b.t.Helper()
	return <-b.next(b.t.Context())
}

// wait lets virtual time pass.
func (b *bench) wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (b *bench) none(c <-chan result) {
	b.t.Helper()
	select {
	case r := <-c:
		b.t.Fatalf("a batch at %v that must not be there yet: %d messages, closed by %v, error %v", r.at, len(r.batch.Messages), r.batch.Closed, r.err)
	default:
	}
}

func offsets(b graphmill.Batch) []int64 {
	out := make([]int64, 0, len(b.Messages))
	for _, m := range b.Messages {
		out = append(out, m.Offset)
	}
	return out
}

func policy(size int, bytes int64) batching.Policy {
	return batching.Policy{Size: size, Bytes: bytes, Interval: interval}
}

func TestBatchIsClosedBySizeAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, policy(3, 1000))
		b.feed.push(messages(0, 10, 7, 1))
		first := b.get()
		require.NoError(t, first.err)
		require.Equal(t, graphmill.ClosedBySize, first.batch.Closed)
		require.Equal(t, []int64{10, 11, 12}, offsets(first.batch))
		require.Equal(t, []graphmill.Position{position(0, 13)}, first.batch.Positions, "the position of a cut is the last message's offset + 1")
		require.EqualValues(t, 3, first.batch.Bytes)
		require.Zero(t, first.at)
	})
}

func TestBatchAsksTheSourceForNoMoreThanItCanHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, policy(5, 1000))
		c := b.next(t.Context())
		b.feed.push(messages(0, 0, 2, 1))
		synctest.Wait()
		b.feed.push(messages(0, 2, 9, 1))
		require.Len(t, (<-c).batch.Messages, 5)
		require.Equal(t, []int{5, 3}, b.feed.max)
	})
}

func TestALimitMakesBatchesSmallerForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, policy(6, 1000))
		c := b.next(t.Context())
		b.feed.push(messages(0, 0, 4, 1))
		synctest.Wait()
		b.b.Limit(2) // four are collected already
		b.feed.push(messages(0, 4, 9, 1))
		require.Len(t, (<-c).batch.Messages, 5, "what is collected stays, and the next message closes it")
		b.b.Completed()
		require.Equal(t, []int64{5, 6}, offsets(b.get().batch))
		b.b.Limit(100)
		b.b.Completed()
		require.Equal(t, []int64{7, 8, 9, 10, 11, 12}, offsets(b.get().batch), "never more than the policy says")
		b.b.Completed()
		b.b.Limit(1)
		b.b.Limit(0)
		b.feed.push(messages(0, 13, 6, 1))
		require.Len(t, b.get().batch.Messages, 6)
	})
}

func TestBatchIsClosedByBytes(t *testing.T) {
	for _, c := range []struct {
		name  string
		sizes []int
		want  [][]int64
	}{
		{"the message that would overflow is left over", []int{4, 4, 4}, [][]int64{{0, 1}, {2}}},
		{"a batch that is full to the byte is closed at once", []int{5, 5, 1}, [][]int64{{0, 1}, {2}}},
		{"a message bigger than a batch goes alone", []int{1, 50, 1}, [][]int64{{0}, {1}, {2}}},
		{"a bigger message that comes first goes alone", []int{50, 1, 1}, [][]int64{{0}, {1, 2}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, policy(100, 10))
				b.feed.whole = true
				all := graphmill.Fetch{Next: position(0, int64(len(c.sizes)))}
				for i, size := range c.sizes {
					all.Messages = append(all.Messages, messages(0, int64(i), 1, size).Messages...)
				}
				b.feed.push(all)
				for i, want := range c.want {
					r := b.get()
					require.NoError(t, r.err)
					require.Equal(t, want, offsets(r.batch))
					require.Equal(t, want[len(want)-1]+1, r.batch.Positions[0].Offset)
					if i < len(c.want)-1 {
						require.Equal(t, graphmill.ClosedByBytes, r.batch.Closed)
						require.Zero(t, r.at)
					}
					b.b.Completed()
				}
			})
		})
	}
}

func TestBatchThatIsFullToTheByteDoesNotWaitForTheNextMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, policy(100, 10))
		b.feed.push(messages(0, 0, 2, 5))
		r := b.get()
		require.Equal(t, graphmill.ClosedByBytes, r.batch.Closed)
		require.Zero(t, r.at)
	})
}

func TestHeadersAndKeysCountAsBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, policy(100, 10))
		f := messages(0, 0, 2, 2)
		for i := range f.Messages {
			f.Messages[i].Key = []byte("kk")
			f.Messages[i].Headers = []graphmill.Header{{Key: "h", Value: []byte("v")}}
		}
		b.feed.push(f)
		r := b.get()
		require.Equal(t, []int64{0}, offsets(r.batch))
		require.EqualValues(t, 6, r.batch.Bytes)
	})
}

func TestIntervalStartsWithTheFirstNextNotWithTheFirstMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, policy(10, 1000))
		c := b.next(t.Context())
		b.wait(90 * time.Millisecond)
		b.feed.push(messages(0, 0, 1, 1))
		r := <-c
		require.Equal(t, interval, r.at)
		require.Equal(t, graphmill.ClosedByInterval, r.batch.Closed)
	})
}

func TestIntervalStartsAnewWhenItEndedWithNoMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, policy(10, 1000))
		c := b.next(t.Context())
		b.wait(130 * time.Millisecond)
		b.none(c)
		b.feed.push(messages(0, 0, 1, 1))
		r := <-c
		require.Equal(t, 2*interval, r.at)
		require.Len(t, r.batch.Messages, 1)
	})
}

func TestIntervalStartsWhenTheBatchBeforeIsCompleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, policy(2, 1000))
		b.feed.push(messages(0, 0, 3, 1))
		require.Len(t, b.get().batch.Messages, 2)
		c := b.next(t.Context())
		b.wait(350 * time.Millisecond)
		b.none(c) // one message has been there for three intervals and a half
		b.b.Completed()
		b.wait(interval - time.Nanosecond)
		b.none(c)
		r := <-c
		require.Equal(t, 450*time.Millisecond, r.at)
		require.Equal(t, []int64{2}, offsets(r.batch))
		require.Equal(t, graphmill.ClosedByInterval, r.batch.Closed)
	})
}

func TestWhileABatchIsOutTheNextIsClosedBySizeOrBytes(t *testing.T) {
	for _, c := range []struct {
		name   string
		policy batching.Policy
		more   graphmill.Fetch
		want   graphmill.CloseReason
	}{
		{"by size", policy(2, 1000), messages(0, 3, 1, 1), graphmill.ClosedBySize},
		{"by bytes", policy(2, 2), messages(0, 3, 1, 2), graphmill.ClosedByBytes},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, c.policy)
				b.feed.push(messages(0, 0, 3, 1))
				require.Len(t, b.get().batch.Messages, 2)
				ahead := b.next(t.Context())
				b.wait(10 * interval)
				b.none(ahead)
				b.feed.push(c.more)
				r := <-ahead
				require.Equal(t, c.want, r.batch.Closed)
				require.Equal(t, 10*interval, r.at)
			})
		})
	}
}

func TestAtMostOneBatchIsClosedAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, policy(2, 1000))
		b.feed.push(messages(0, 0, 20, 1))
		b.get()
		b.get()
		third := b.next(t.Context())
		b.wait(10 * interval)
		b.none(third)
		require.Equal(t, []int{2, 2}, b.feed.max, "nothing is fetched for a third")
		b.b.Completed()
		r := <-third
		require.Equal(t, []int64{4, 5}, offsets(r.batch))
		require.Equal(t, 10*interval, r.at)
	})
}

func TestOneOfTwoBatchesOutCompletedDoesNotStartTheInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, policy(2, 1000))
		b.feed.push(messages(0, 0, 5, 1))
		b.get()
		b.get()
		b.b.Completed()
		c := b.next(t.Context())
		b.wait(10 * interval)
		b.none(c)
		b.b.Completed()
		r := <-c
		require.Equal(t, 11*interval, r.at)
		require.Equal(t, []int64{4}, offsets(r.batch))
	})
}

// A transformation that drops every message still completes its batch, and the
// next message waits for one interval, not for one a dropped message.
func TestCase9BatchesOfDroppedMessagesGoOnWithoutExtraWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, batching.Policy{Size: 10, Bytes: 1000, Interval: 5 * time.Second})
		b.feed.push(messages(0, 0, 100, 1))
		for i := range 10 {
			r := b.get()
			require.Equal(t, graphmill.ClosedBySize, r.batch.Closed)
			require.EqualValues(t, (i+1)*10, r.batch.Positions[0].Offset)
			b.b.Completed() // nothing came of it: no transaction, acknowledged at once
		}
		require.Zero(t, b.since())
		b.feed.push(messages(0, 100, 1, 1))
		require.Equal(t, 5*time.Second, b.get().at)
	})
}

// Every message is filtered out, and messages come one by one. Each waits until
// its interval ends and no longer, whatever became of those before it.
func TestCase10DroppedMessagesThatTrickleInWaitForOneIntervalAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, batching.Policy{Size: 1000, Bytes: 1000, Interval: 5 * time.Second})
		go func() { // message i comes after i seconds
			for i := range int64(60) {
				b.feed.push(messages(0, i, 1, 1))
				time.Sleep(time.Second)
			}
		}()
		var next int64
		for next < 60 {
			r := b.get()
			require.Equal(t, graphmill.ClosedByInterval, r.batch.Closed)
			for _, m := range r.batch.Messages {
				require.Equal(t, next, m.Offset)
				require.LessOrEqual(t, r.at-time.Duration(m.Offset)*time.Second, 5*time.Second, "message %d", m.Offset)
				next++
			}
			require.Equal(t, next, r.batch.Positions[0].Offset, "the position moves with what is dropped")
			b.b.Completed()
		}
		require.Equal(t, time.Minute, b.since(), "twelve intervals for sixty messages")
	})
}

// What is left of a topic that is filtered out whole does not wait for messages
// that would fill its batch.
func TestCase9TheLastDroppedMessagesMoveThePositionToTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, policy(10, 1000))
		b.feed.push(messages(0, 0, 7, 1), messages(1, 0, 8, 1), control(1, 12))
		at := map[graphmill.TopicPartition]int64{}
		for range 2 {
			for _, p := range b.get().batch.Positions {
				at[p.TopicPartition] = p.Offset
			}
			b.b.Completed()
		}
		require.Equal(t, map[graphmill.TopicPartition]int64{position(0, 0).TopicPartition: 7, position(1, 0).TopicPartition: 12}, at)
		require.Equal(t, interval, b.since())
	})
}

func TestCase11AnEmptyBatchIsNeverHandedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, policy(10, 1000))
		c := b.next(t.Context())
		b.wait(time.Hour)
		b.none(c)
		b.b.Stop()
		require.ErrorIs(t, (<-c).err, io.EOF)
	})
}

func TestPositionsThatMovedWithoutMessagesAreHandedOutWhenTheIntervalEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, policy(10, 1000))
		b.feed.push(control(1, 7), control(0, 3), control(1, 9))
		r := b.get()
		require.Equal(t, interval, r.at)
		require.Empty(t, r.batch.Messages)
		require.Equal(t, []graphmill.Position{position(0, 3), position(1, 9)}, r.batch.Positions)
		require.Equal(t, graphmill.ClosedByInterval, r.batch.Closed)

		b.feed.push(control(0, 4))
		c := b.next(t.Context())
		b.wait(10 * interval)
		b.none(c) // it is out like any other batch
		b.b.Completed()
		require.Equal(t, []graphmill.Position{position(0, 4)}, (<-c).batch.Positions)
	})
}

func TestPositionReachesPastControlRecordsBehindTheLastMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, policy(2, 1000))
		f := messages(0, 0, 2, 1)
		f.Next.Offset = 5
		b.feed.push(f)
		require.Equal(t, []graphmill.Position{position(0, 5)}, b.get().batch.Positions)
	})
}

func TestPositionsAreSortedAndHoldTheTopicID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, policy(4, 1000))
		b.feed.push(messages(2, 0, 1, 1), messages(0, 8, 2, 1), messages(1, 4, 1, 1))
		require.Equal(t, []graphmill.Position{position(0, 10), position(1, 5), position(2, 1)}, b.get().batch.Positions)
	})
}

func TestStopHandsOutWhatHasBeenCollectedThenEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, policy(10, 1000))
		b.feed.push(messages(0, 0, 2, 1))
		c := b.next(t.Context())
		b.wait(interval / 2)
		b.b.Stop()
		r := <-c
		require.NoError(t, r.err)
		require.Equal(t, graphmill.ClosedByStop, r.batch.Closed)
		require.Equal(t, []int64{0, 1}, offsets(r.batch))
		require.Equal(t, interval/2, r.at)
		require.ErrorIs(t, b.get().err, io.EOF)
		require.ErrorIs(t, b.get().err, io.EOF)
	})
}

func TestStopHandsOutThePartialBatchBehindTheOneThatIsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, policy(2, 1000))
		b.feed.push(messages(0, 0, 3, 1))
		b.get()
		c := b.next(t.Context())
		b.b.Stop()
		require.Equal(t, []int64{2}, offsets((<-c).batch))
		require.ErrorIs(t, b.get().err, io.EOF)
	})
}

func TestStopDropsWhatLiesBehindTheBatchThatIsClosedAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, policy(2, 1000))
		b.feed.whole = true
		b.feed.push(messages(0, 0, 9, 1))
		b.get()
		b.get()
		c := b.next(t.Context())
		b.none(c)
		b.b.Stop()
		require.ErrorIs(t, (<-c).err, io.EOF)
	})
}

func TestEndOfTheContextLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, policy(10, 1000))
		b.feed.push(messages(0, 0, 2, 1))
		ctx, cancel := context.WithCancel(t.Context())
		c := b.next(ctx)
		cancel()
		require.ErrorIs(t, (<-c).err, context.Canceled)
		require.Equal(t, []int64{0, 1}, offsets(b.get().batch))
	})
}

func TestEndOfTheContextEndsTheWaitForACompletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, policy(1, 1000))
		b.feed.push(messages(0, 0, 3, 1))
		b.get()
		b.get()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, (<-b.next(ctx)).err, context.DeadlineExceeded)
	})
}

func TestErrorOfTheSourceKeepsWhatHasBeenCollected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("the position is gone")
		b := newBench(t, policy(10, 1000))
		b.feed.push(messages(0, 0, 1, 1))
		c := b.next(t.Context())
		b.feed.push(messages(0, 1, 1, 1))
		b.feed.fail(broken)
		require.ErrorIs(t, (<-c).err, broken)
		r := b.get()
		require.Equal(t, []int64{0, 1}, offsets(r.batch), "also what came along with the error")
	})
}

func TestDropForgetsCollectedAndLeftOverMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, policy(4, 1000))
		b.feed.whole = true
		b.feed.push(messages(0, 0, 3, 1), messages(1, 0, 3, 1), messages(0, 3, 1, 1), control(1, 9))
		r := b.get()
		require.Len(t, r.batch.Messages, 4, "what is out is the caller's")

		b.b.Drop([]graphmill.TopicPartition{tp(1)})
		b.b.Completed()
		r = b.get()
		require.Equal(t, []graphmill.Position{position(0, 4)}, r.batch.Positions)
		require.Equal(t, []int64{3}, offsets(r.batch))
	})
}

func TestDropForgetsPositionsAndBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, policy(10, 10))
		b.feed.push(messages(0, 0, 2, 3), messages(1, 5, 1, 3))
		c := b.next(t.Context())
		b.b.Drop([]graphmill.TopicPartition{tp(0)})
		b.feed.push(messages(1, 6, 2, 3))
		r := <-c
		require.Equal(t, []int64{5, 6, 7}, offsets(r.batch))
		require.EqualValues(t, 9, r.batch.Bytes)
		require.Equal(t, []graphmill.Position{position(1, 8)}, r.batch.Positions)
	})
}

func TestDropOfEverythingHandsNothingOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, policy(10, 1000))
		b.feed.push(messages(0, 0, 2, 1))
		c := b.next(t.Context())
		b.b.Drop([]graphmill.TopicPartition{tp(0)})
		b.wait(10 * interval)
		b.none(c)
		b.b.Stop()
		require.ErrorIs(t, (<-c).err, io.EOF)
	})
}

// A fetch may hold messages of a partition that is revoked before they reach
// the batcher. Drop waits for it, so that what comes afterwards is of the next
// assignment, and is kept.
func TestDropCatchesWhatAFetchUnderWayBrings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, policy(10, 1000))
		b.feed.paused = make(chan struct{})
		b.feed.push(messages(0, 0, 2, 1), messages(1, 0, 2, 1))
		c := b.next(t.Context())

		dropped := make(chan struct{})
		go func() {
			b.b.Drop([]graphmill.TopicPartition{tp(0)})
			close(dropped)
		}()
		synctest.Wait()
		select {
		case <-dropped:
			t.Fatal("Drop has not waited for the fetch under way")
		default:
		}
		b.feed.paused <- struct{}{}
		<-dropped

		b.feed.push(messages(0, 0, 1, 1)) // assigned again, from its settled position
		synctest.Wait()
		b.feed.paused <- struct{}{}
		r := <-c
		require.Equal(t, []graphmill.Position{position(0, 1), position(1, 2)}, r.batch.Positions)
		require.Len(t, r.batch.Messages, 3)
	})
}

func TestCompletedWithNothingOutDoesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, policy(10, 1000))
		c := b.next(t.Context())
		b.wait(interval / 2)
		b.b.Completed()
		b.feed.push(messages(0, 0, 1, 1))
		require.Equal(t, interval, (<-c).at, "the interval has not begun anew")

		b.feed.push(messages(0, 1, 20, 1))
		require.NoError(t, b.get().err)
		third := b.next(t.Context())
		b.wait(10 * interval)
		b.none(third) // it does not count for a later batch either
	})
}

func TestIntervalsBelowAMillisecondAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, batching.Policy{Size: 1000, Bytes: 1000, Interval: 1500 * time.Microsecond})
		c := b.next(t.Context())
		for i := range 14 { // a message every 0.1 ms must not stretch the interval
			b.feed.push(messages(0, int64(i), 1, 1))
			b.wait(100 * time.Microsecond)
		}
		r := <-c
		require.Equal(t, 1500*time.Microsecond, r.at)
		require.Len(t, r.batch.Messages, 14)
	})
}
