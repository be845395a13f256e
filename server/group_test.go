package server_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/integration/boltserver"
	"github.com/graphmill/graphmill/server"
)

func TestStreamsOfOneGroupAndTopicDoNotRunTogether(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	s := w.open(nil)
	w.push(s)
	w.create(s, nil)
	info, err := s.CreateStream(t.Context(), server.CreateRequest{Spec: graphmill.StreamSpec{Name: "twin", Topics: []string{"topic"}, Transform: "obedient", ConsumerGroup: "graphmill.s"}, Check: true})
	require.NoError(t, err)
	require.Len(t, info.Warnings, 1)
	require.Contains(t, info.Warnings[0], `"graphmill.s"`)
	w.start(s)
	_, err = s.StartStream(t.Context(), "twin", server.StartRequest{})
	requireCode(t, err, "group_shared")
}

func TestCase7TwoServersShareAStreamAndLoseNothing(t *testing.T) {
	w := newWorld(t, 4, boltserver.Options{})
	one := w.open(nil)
	w.push(one)
	w.create(one, func(spec *graphmill.StreamSpec) { spec.BatchSize = 10 })
	w.start(one)
	produce := func(name string) {
		var records []*kgo.Record
		for i := range 400 {
			records = append(records, &kgo.Record{Topic: "topic", Partition: int32(i % 4), Value: []byte(name + strings.Repeat("x", i))})
		}
		w.produceRecords(records...)
	}
	produce("first")
	defer w.readStatus(one)() // partitions come and go under its eyes
	two := w.open(func(c *server.Config) { c.DataDir = t.TempDir() })
	w.push(two)
	w.create(two, func(spec *graphmill.StreamSpec) { spec.BatchSize = 10 })
	w.start(two)
	produce("second")
	w.await(two, "it has partitions", func(st graphmill.StreamStatus) bool { return len(st.Partitions) > 0 })
	_, err := one.StopStream(t.Context(), "s")
	require.NoError(t, err)
	produce("third")
	w.await(two, "everything is done", func(st graphmill.StreamStatus) bool {
		for _, p := range st.Partitions {
			if p.Lag != 0 {
				return false
			}
		}
		return len(st.Partitions) == 4
	})
	times := map[string]int{}
	for _, p := range w.applied() {
		times[p]++
	}
	require.Len(t, times, 1200)
	for p, n := range times {
		require.Equal(t, 1, n, "%.10s... was applied %d times", p, n)
	}
}

// both produces one message to each of two partitions.
func (w *world) both(payload string) {
	w.t.Helper()
	w.produceRecords(
		&kgo.Record{Topic: "topic", Partition: 0, Value: []byte(payload + "0")},
		&kgo.Record{Topic: "topic", Partition: 1, Value: []byte(payload + "1")})
}

// unhurried lets a rebalance wait for a member longer than a test does: one that is
// waited for is seen.
func unhurried(spec *graphmill.StreamSpec) {
	spec.Configs = map[string]string{"max.poll.interval.ms": "3600000"}
}

// twoOwners is a world whose one server has both partitions in hand when another
// one asks for its share. In each batch is a message of each partition.
func twoOwners(t *testing.T, hooks boltserver.Hooks) (w *world, one, two *server.Server) {
	w = newWorld(t, 2, boltserver.Options{})
	spec := func(spec *graphmill.StreamSpec) {
		unhurried(spec)
		spec.BatchSize, spec.BatchIntervalMS = 2, 60_000
	}
	one = w.open(func(c *server.Config) { c.ConflictRetries = 1_000_000 })
	w.pushAs(one, "obedient", vigilantVersion(1)) // what is transformed again is seen by a fresh instance
	w.create(one, spec)
	w.start(one)
	w.bolt.SetHooks(hooks)
	w.both("a")
	w.awaitExecuting(one)
	w.both("b")
	w.awaitLog(greeting, 2) // prepared
	two = w.open(func(c *server.Config) { c.DataDir = t.TempDir() })
	w.push(two)
	w.create(two, unhurried)
	w.start(two)
	return w, one, two
}

func TestARevocationWaitsForTheTransactionUnderWay(t *testing.T) {
	held := make(chan struct{})
	w, one, two := twoOwners(t, onCommit(boltserver.Reply{Wait: held}))
	w.awaitLog("partitions revoked", 1)
	require.Empty(t, w.status(two).Partitions, "not before the transaction has ended")
	close(held)
	w.await(two, "it has its share and has done it", func(st graphmill.StreamStatus) bool { return len(st.Partitions) == 1 && lag(st) == 0 })
	w.both("c")
	w.await(one, "its share goes on", func(st graphmill.StreamStatus) bool { return st.State == graphmill.StateRunning && lag(st) == 1 })
	_, err := one.StopStream(t.Context(), "s")
	require.NoError(t, err)
	w.await(two, "all is done", func(st graphmill.StreamStatus) bool { return len(st.Partitions) == 2 && lag(st) == 0 })
	require.ElementsMatch(t, []string{"a0", "a1", "b0", "b1", "c0", "c1"}, w.applied(),
		"what was under way is done once, by the old owner; what was prepared once, by the new one")
}

func TestARevocationDoesNotWaitForRetries(t *testing.T) {
	var conflicts atomic.Bool
	conflicts.Store(true)
	w, one, two := twoOwners(t, onStore(func() boltserver.Reply {
		if conflicts.Load() {
			return boltserver.Fail("Neo.TransientError.Transaction.DeadlockDetected", "a deadlock")
		}
		return boltserver.Reply{}
	}))
	require.Eventually(t, func() bool { return len(w.status(two).Partitions) == 1 }, patience, 10*time.Millisecond)
	conflicts.Store(false)
	for _, s := range []*server.Server{one, two} {
		w.await(s, "its share is done", func(st graphmill.StreamStatus) bool { return st.State == graphmill.StateRunning && lag(st) == 0 })
	}
	_, err := one.StopStream(t.Context(), "s")
	require.NoError(t, err)
	w.await(two, "all is done", func(st graphmill.StreamStatus) bool { return len(st.Partitions) == 2 && lag(st) == 0 })
	require.ElementsMatch(t, []string{"a0", "a1", "b0", "b1"}, w.applied())
}

func TestPartitionsThatAreLostAreReadAgain(t *testing.T) {
	w, s, release := hanging(t, nil)
	w.produce("c")
	w.kafka.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Heartbeat}, Err: kerr.UnknownMemberID})
	w.awaitLog("lost=true", 1)
	w.awaitLog("partitions assigned", 2)
	release()
	st := w.awaitAcknowledged(s, 3)
	require.Equal(t, graphmill.StateRunning, st.State)
	require.Equal(t, []string{"a", "b", "c"}, w.applied(), "the transaction of the lost partition was cancelled")
	require.EqualValues(t, 3, w.committed())
}
