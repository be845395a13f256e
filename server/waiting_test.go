package server_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/integration/boltserver"
	"github.com/graphmill/graphmill/server"
)

// joined lets another server take its share of the two partitions of a stream, and
// waits until it has it.
func (w *world) joined(one *server.Server) (two *server.Server) {
	w.t.Helper()
	two = w.open(func(c *server.Config) { c.DataDir, c.StartTimeout = w.t.TempDir(), time.Millisecond })
	w.push(two)
	w.create(two, nil)
	w.start(two)
	w.await(one, "it has one partition left", func(st graphmill.StreamStatus) bool { return len(st.Partitions) == 1 })
	return two
}

// TestAStreamDoesNotWaitForADatabaseThatItNeedsNoMore: what waited for the database
// is another server's, and what is left makes no statements.
func TestAStreamDoesNotWaitForADatabaseThatItNeedsNoMore(t *testing.T) {
	for name, stored := range map[string]int32{"the statements are of the first partition": 0, "the statements are of the second partition": 1} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 2, boltserver.Options{})
			one := w.open(nil)
			w.push(one)
			w.create(one, func(spec *graphmill.StreamSpec) { spec.BatchSize, spec.BatchIntervalMS = 2, 60_000 })
			w.start(one)
			var away atomic.Bool
			away.Store(true)
			w.bolt.SetHooks(boltserver.Hooks{OnRun: func(boltserver.Statement) boltserver.Reply {
				if away.Load() {
					return boltserver.Reply{Cut: boltserver.CutBefore}
				}
				return boltserver.Reply{}
			}})
			w.produceRecords(
				&kgo.Record{Topic: "topic", Partition: stored, Value: []byte("a")},
				&kgo.Record{Topic: "topic", Partition: 1 - stored, Value: []byte("drop")})
			w.awaitState(one, graphmill.StateWaiting)
			w.joined(one)
			left := w.status(one).Partitions[0].Partition
			away.Store(false)
			w.await(one, "it waits no more", func(st graphmill.StreamStatus) bool {
				return st.State == graphmill.StateRunning && lag(st) == 0
			})
			t.Logf("the statements are of partition %d, and partition %d is left", stored, left)
		})
	}
}

// TestAStreamDoesNotWaitForAModuleThatItNeedsNoMore: the message that was to be
// transformed is another server's.
func TestAStreamDoesNotWaitForAModuleThatItNeedsNoMore(t *testing.T) {
	for name, partition := range map[string]int32{"a message of the first partition": 0, "a message of the second partition": 1} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 2, boltserver.Options{})
			memory := newScarce(t)
			one := w.open(func(c *server.Config) { memory.configure(c); c.CacheSize = 1 })
			w.push(one)
			w.pushUnused(one, obedientTwo)
			w.create(one, nil)
			w.start(one)
			memory.begins()
			_, err := one.RollbackModule(t.Context(), "obedient", 2)
			require.NoError(t, err)
			w.produceRecords(&kgo.Record{Topic: "topic", Partition: partition, Value: []byte("a")})
			require.Equal(t, notCompiled, w.awaitState(one, graphmill.StateWaiting).Reason.Code)
			w.joined(one)
			if w.status(one).Partitions[0].Partition == partition {
				memory.ends() // it is still this server's
			}
			w.await(one, "it waits no more", func(st graphmill.StreamStatus) bool {
				return st.State == graphmill.StateRunning && lag(st) == 0
			})
		})
	}
}
