package server_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/integration/boltserver"
	"github.com/graphmill/graphmill/server"
)

func TestCase10DroppedMessagesDoNotWaitForTheInterval(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	s := w.open(nil)
	w.push(s)
	w.create(s, func(spec *graphmill.StreamSpec) { spec.BatchSize, spec.BatchIntervalMS = 1, 600_000 })
	var payloads []string
	for range 40 {
		payloads = append(payloads, "drop")
	}
	w.produce(append(payloads, "a")...)
	w.start(s)
	promptly(t, "a topic of dropped messages", func() { w.awaitAcknowledged(s, 41) })
	require.Equal(t, []string{"a"}, w.applied())
}

func TestCase11ABatchWithoutMessagesIsCountedAndAcknowledged(t *testing.T) {
	// An aborted transaction: positions move, and there is nothing to transform.
	w := newWorld(t, 1, boltserver.Options{})
	s := w.open(nil)
	w.push(s)
	w.create(s, nil)
	w.start(s)
	// A kfake whose fetch is cut by the total of bytes leaves out which
	// transactions were aborted: a large message first lets fetches grow.
	w.produce("drop" + strings.Repeat(" ", 100_000))
	w.awaitAcknowledged(s, 1)
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.addrs...), kgo.TransactionalID("t"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	require.NoError(t, err)
	defer cl.Close()
	require.NoError(t, cl.BeginTransaction())
	require.NoError(t, cl.ProduceSync(t.Context(), &kgo.Record{Topic: "topic", Value: []byte("aborted")}).FirstErr())
	require.NoError(t, cl.EndTransaction(t.Context(), kgo.TryAbort))

	st := w.awaitAcknowledged(s, 3)
	require.Zero(t, st.Partitions[0].Lag)
	require.EqualValues(t, 1, st.Counters.Messages)
	require.EqualValues(t, 1, st.Counters.Dropped)
	require.Zero(t, st.Counters.Statements)
	require.Len(t, w.log.with(greeting), 1, "a batch without messages is not transformed")
	require.Empty(t, w.bolt.Committed())
	w.produce("drop", "a")
	st = w.awaitAcknowledged(s, 5)
	require.EqualValues(t, 3, st.Counters.Messages)
	require.EqualValues(t, 2, st.Counters.Dropped)
	require.Equal(t, []string{"a"}, w.applied())
}

// lockTable stands in for the locks of a database: a statement locks the node of
// its payload until its transaction ends, and a circle is a deadlock. A database
// name stands for a transaction: each lane has one of its own.
type lockTable struct {
	mu        sync.Mutex
	changed   *sync.Cond
	owner     map[string]string // of a node
	waits     map[string]string // node that a transaction waits for
	deadlocks int
}

func newLockTable() *lockTable {
	l := &lockTable{owner: map[string]string{}, waits: map[string]string{}}
	l.changed = sync.NewCond(&l.mu)
	return l
}

// lock waits for the node, or tells that it would wait for ever. The first
// transactions wait until both have a lock.
func (l *lockTable) lock(tx, node string) boltserver.Reply {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.deadlocks == 0 && l.holds(tx) && len(l.owner) < 2 {
		l.changed.Wait()
	}
	for l.owner[node] != "" && l.owner[node] != tx {
		if l.owner[l.waits[l.owner[node]]] == tx {
			l.deadlocks++
			l.releaseLocked(tx)
			return boltserver.Fail("Neo.TransientError.Transaction.DeadlockDetected", "a deadlock")
		}
		l.waits[tx] = node
		l.changed.Wait()
	}
	delete(l.waits, tx)
	l.owner[node] = tx
	l.changed.Broadcast()
	return boltserver.Reply{}
}

func (l *lockTable) holds(tx string) bool {
	for _, owner := range l.owner {
		if owner == tx {
			return true
		}
	}
	return false
}

func (l *lockTable) release(tx string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.releaseLocked(tx)
}

func (l *lockTable) releaseLocked(tx string) {
	for node, owner := range l.owner {
		if owner == tx {
			delete(l.owner, node)
		}
	}
	delete(l.waits, tx)
	l.changed.Broadcast()
}

func TestCase20TwoLanesThatMergeInOppositeOrderAreBothApplied(t *testing.T) {
	w := newWorld(t, 2, boltserver.Options{})
	locks := newLockTable()
	w.bolt.SetHooks(boltserver.Hooks{
		OnRun: func(st boltserver.Statement) boltserver.Reply {
			if st.Params["payload"] == nil {
				return boltserver.Reply{}
			}
			return locks.lock(st.Database, fmt.Sprint(st.Params["payload"]))
		},
		OnCommit: func(tx boltserver.Transaction) boltserver.Reply {
			locks.release(tx.Database)
			return boltserver.Reply{}
		},
	})
	s := w.open(nil)
	w.push(s)
	w.seedTopic("one", "x", "y")
	w.seedTopic("two", "y", "x")
	for _, name := range []string{"one", "two"} {
		_, err := s.CreateStream(t.Context(), server.CreateRequest{Spec: graphmill.StreamSpec{
			Name: name, Topics: []string{name}, Transform: "obedient", StartFrom: graphmill.StartEarliest,
			Database: name, BatchSize: 2, BatchIntervalMS: 60_000, Coalesce: graphmill.CoalesceOff,
		}, Check: true})
		require.NoError(t, err)
		_, err = s.StartStream(t.Context(), name, server.StartRequest{})
		require.NoError(t, err)
	}
	done := func(name string) bool {
		st, err := s.StreamStatus(t.Context(), name)
		require.NoError(t, err)
		require.NotEqual(t, graphmill.StateFailed, st.State)
		return st.Counters.Messages == 2
	}
	require.Eventually(t, func() bool { return done("one") && done("two") }, patience, 5*time.Millisecond)
	require.Positive(t, locks.deadlocks)
	require.ElementsMatch(t, []string{"x", "x", "y", "y"}, w.applied(), "each once")
}

func TestCase25ATrapEndsItsInstanceAndGoodMessagesFollow(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	s := w.open(nil)
	w.push(s)
	w.create(s, func(spec *graphmill.StreamSpec) { spec.BatchSize = 1 })
	w.produce("a", "panic", "b", "c")
	w.start(s)
	st := w.awaitState(s, graphmill.StateFailed)
	require.EqualValues(t, 1, *st.LastFailure.Offset)
	_, err := w.setOffsets(s, "2", nil)
	require.NoError(t, err)
	w.start(s)
	w.awaitAcknowledged(s, 4)
	require.Equal(t, []string{"a", "b", "c"}, w.applied())
}
