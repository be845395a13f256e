package server_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/integration/boltserver"
	"github.com/graphmill/graphmill/server"
	wt "github.com/graphmill/graphmill/wasmhost/wasmtest"
)

const outOfMemory = "Neo.TransientError.General.MemoryPoolOutOfMemoryError"

// atMost makes the database refuse transactions of more than n rows.
func atMost(n *atomic.Int32) boltserver.Hooks {
	return boltserver.Hooks{OnCommit: func(tx boltserver.Transaction) boltserver.Reply {
		if rowsOf(tx) > int(n.Load()) {
			return boltserver.Fail(outOfMemory, "the limit of the transaction")
		}
		return boltserver.Reply{}
	}}
}

func rowsOf(tx boltserver.Transaction) (rows int) {
	for _, st := range tx.Statements {
		rows += len(st.Rows())
	}
	return rows
}

// rows returns how many rows each transaction had.
func (w *world) rows() (rows []int) {
	for _, tx := range w.bolt.Committed() {
		rows = append(rows, rowsOf(tx))
	}
	return rows
}

// numbered makes payloads p0, p1, ...
func numbered(n int) []string {
	payloads := make([]string, n)
	for i := range payloads {
		payloads[i] = fmt.Sprintf("p%d", i)
	}
	return payloads
}

func TestABatchTooBigForATransactionIsHalvedAndTheSizeRemembered(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	var most atomic.Int32
	most.Store(2)
	w.bolt.SetHooks(atMost(&most))
	s := w.open(nil)
	w.push(s)
	w.create(s, func(spec *graphmill.StreamSpec) { spec.BatchSize, spec.BatchIntervalMS = 8, 300 })
	w.produce(numbered(16)...)
	w.start(s)
	st := w.awaitAcknowledged(s, 16)
	require.Equal(t, numbered(16), w.applied(), "in order, nothing lost or doubled")
	require.Equal(t, []int{2, 2, 2, 2, 2, 2, 2, 2}, w.rows(), "the batch behind it is not tried as a whole")
	require.EqualValues(t, 2, st.Counters.Splits)
	require.Zero(t, st.Counters.Failures)
	require.Equal(t, graphmill.StateRunning, st.State)
	require.Equal(t, 2, st.BatchSize)
	require.LessOrEqual(t, len(w.log.with(greeting)), 6, "the statements that there were are kept")
	require.Len(t, w.log.with("was too big and is cut in two"), 2)

	most.Store(1000)
	w.produce(numbered(200)...)
	st = w.awaitAcknowledged(s, 216)
	require.Zero(t, st.BatchSize, "after a while the batches are as big as they were to be")
	require.Contains(t, w.rows(), 4)
	require.Contains(t, w.rows(), 8)
	require.Equal(t, append(numbered(16), numbered(200)...), w.applied())
}

func TestAMessageTooBigAloneIsToBlame(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	w.bolt.SetHooks(boltserver.Hooks{OnCommit: func(tx boltserver.Transaction) boltserver.Reply {
		for _, st := range tx.Statements {
			for _, row := range st.Rows() {
				if row["payload"] == "huge" {
					return boltserver.Fail(outOfMemory, "the limit of the transaction")
				}
			}
		}
		return boltserver.Reply{}
	}})
	s := w.open(nil)
	w.push(s)
	w.create(s, func(spec *graphmill.StreamSpec) { spec.BatchSize, spec.BatchIntervalMS = 8, 60_000 })
	w.produce("a", "b", "c", "d", "e", "huge", "g", "h")
	w.start(s)
	st := w.awaitState(s, graphmill.StateFailed)
	require.Equal(t, "message", st.Reason.Code)
	require.Contains(t, st.Reason.Text, "topic/0@5")
	require.NotContains(t, st.Reason.NextStep, "BATCH_SIZE")
	require.Equal(t, "too_big", st.LastFailure.Code)
	require.EqualValues(t, 5, *st.LastFailure.Offset)
	require.Equal(t, []string{"a", "b", "c", "d", "e"}, w.applied(), "those before it are applied")
	require.EqualValues(t, 5, w.committed(), "and acknowledged")
	require.EqualValues(t, 1, st.Counters.Failures)
}

func TestStatementsOfTheBatchAsAWholeAreMadeAnewOfItsHalves(t *testing.T) {
	const query = "CREATE (:Node)"
	response := make([]byte, 28+32)
	for i, v := range []uint32{0x31524d47, 1, 28, 1, 44, 0, 0, 60, uint32(len(query)), 0, 0, 0, 0xffffffff, 0, 0} {
		binary.LittleEndian.PutUint32(response[4*i:], v)
	}
	w := newWorld(t, 1, boltserver.Options{})
	var commits atomic.Int32
	w.bolt.SetHooks(boltserver.Hooks{OnCommit: func(boltserver.Transaction) boltserver.Reply {
		if commits.Add(1) == 1 {
			return boltserver.Fail(outOfMemory, "the limit of the transaction")
		}
		return boltserver.Reply{}
	}})
	s := w.open(nil)
	w.pushAs(s, "whole", wt.Answer(append(response, query...)).Bytes())
	w.create(s, func(spec *graphmill.StreamSpec) {
		spec.Transform, spec.BatchSize, spec.BatchIntervalMS = "whole", 4, 60_000
	})
	w.produce("a", "b", "c", "d")
	w.start(s)
	st := w.awaitAcknowledged(s, 4)
	require.Equal(t, []int{1, 1}, w.rows(), "one statement of each half")
	require.EqualValues(t, 2, st.Counters.Statements)
	require.EqualValues(t, 1, st.Counters.Batches, "two halves are one batch")
	require.EqualValues(t, 4, st.Counters.Messages)
}

// narrow is the obedient module with an input buffer of so many bytes at most.
func narrow(bytes int32) []byte {
	m := obedientModule("CREATE (:Message {payload: $payload, offset: $offset})")
	lessThan, times := []byte{0x49}, []byte{0x6c}
	m.Funcs[1].Body = wt.Cat(wt.I32Const(requestAt), wt.LocalGet(0), wt.I32Const(bytes), lessThan, times)
	return m.Bytes()
}

func TestABatchForWhichTheTransformationHasNoRoomIsHalved(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	s := w.open(nil)
	w.pushAs(s, "obedient", narrow(400))
	w.create(s, func(spec *graphmill.StreamSpec) { spec.BatchSize, spec.BatchIntervalMS = 16, 60_000 })
	w.produce(numbered(16)...)
	w.start(s)
	st := w.awaitAcknowledged(s, 16)
	require.Equal(t, numbered(16), w.applied())
	require.EqualValues(t, 2, st.Counters.Splits, "16 are 8 are 4")
	splits, ok := value(scrape(t, s), "graphmill_batches_split_total", "stream=s")
	require.True(t, ok)
	require.EqualValues(t, 2, splits)
	require.Zero(t, st.Counters.Failures)
}

func TestABatchThatIsSlowTogetherIsHalved(t *testing.T) {
	// A message that hoards, or loops, is found: those before it are applied.
	for payload, code := range map[string]string{"hoard": "out_of_memory", "loop": "deadline"} {
		t.Run(payload, func(t *testing.T) {
			w := newWorld(t, 1, boltserver.Options{})
			s := w.open(nil)
			w.push(s)
			w.create(s, func(spec *graphmill.StreamSpec) {
				spec.BatchSize, spec.BatchIntervalMS, spec.TimeLimitMS = 4, 60_000, 200
			})
			w.produce("a", "b", payload, "d")
			w.start(s)
			st := w.awaitState(s, graphmill.StateFailed)
			require.Equal(t, code, st.LastFailure.Code)
			require.EqualValues(t, 2, *st.LastFailure.Offset)
			require.Equal(t, []string{"a", "b"}, w.applied())
			require.EqualValues(t, 2, w.committed())
		})
	}
}

func TestHalvesOfABatchOverSeveralPartitionsAreAcknowledgedRight(t *testing.T) {
	w := newWorld(t, 3, boltserver.Options{})
	var most atomic.Int32
	most.Store(3)
	w.bolt.SetHooks(atMost(&most))
	s := w.open(nil)
	w.push(s)
	w.create(s, func(spec *graphmill.StreamSpec) { spec.BatchSize, spec.BatchIntervalMS = 30, 300 })
	var records []*kgo.Record
	for i := range 30 {
		records = append(records, &kgo.Record{Topic: "topic", Partition: int32(i % 3), Value: fmt.Appendf(nil, "p%d", i)})
	}
	w.produceRecords(records...)
	w.start(s)
	st := w.await(s, "all is done", func(st graphmill.StreamStatus) bool { return lag(st) == 0 && st.CurrentBatch == nil })
	require.ElementsMatch(t, numbered(30), w.applied())
	require.EqualValues(t, 30, st.Counters.Messages)
	for _, p := range st.Partitions {
		require.EqualValues(t, 10, p.Acknowledged)
	}
}

func TestStopFinishesABatchThatIsBeingHalved(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	held, tried := make(chan struct{}), make(chan struct{}, 100)
	w.bolt.SetHooks(boltserver.Hooks{OnCommit: func(tx boltserver.Transaction) boltserver.Reply {
		tried <- struct{}{}
		if rowsOf(tx) > 2 {
			return boltserver.Reply{Wait: held, Failure: &boltserver.Failure{Code: outOfMemory, Message: "the limit of the transaction"}}
		}
		return boltserver.Reply{}
	}})
	s := w.open(nil)
	w.push(s)
	w.create(s, func(spec *graphmill.StreamSpec) { spec.BatchSize, spec.BatchIntervalMS = 4, 60_000 })
	w.produce("a", "b", "c", "d")
	w.start(s)
	<-tried
	stopped := begun(stop(s))
	w.awaitState(s, graphmill.StateDraining)
	close(held)
	require.NoError(t, <-stopped)
	require.Equal(t, []string{"a", "b", "c", "d"}, w.applied())
	require.EqualValues(t, 4, w.committed())
}

func TestALimitedStartCountsABatchThatWasHalvedOnce(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	var most atomic.Int32
	most.Store(1)
	w.bolt.SetHooks(atMost(&most))
	s := w.open(nil)
	w.push(s)
	w.create(s, func(spec *graphmill.StreamSpec) { spec.BatchSize, spec.BatchIntervalMS = 4, 60_000 })
	w.produce(numbered(8)...)
	result, err := s.StartStream(t.Context(), "s", server.StartRequest{BatchLimit: 1, Timeout: patience})
	require.NoError(t, err)
	require.EqualValues(t, 1, result.Batches)
	require.EqualValues(t, 4, result.Messages)
	require.Equal(t, numbered(4), w.applied())
}

func TestAnUnfamiliarErrorIsTriedThreeTimes(t *testing.T) {
	for name, c := range map[string]struct {
		heals    int32
		attempts int32
	}{"it heals": {heals: 3, attempts: 3}, "it does not": {heals: 100, attempts: 3}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, boltserver.Options{})
			sink := &unfamiliar{Sink: w.sink, heals: c.heals}
			s := w.open(func(cfg *server.Config) { cfg.Sink = sink })
			w.push(s)
			w.create(s, nil)
			w.produce("a")
			w.start(s)
			if c.heals > c.attempts {
				st := w.awaitState(s, graphmill.StateFailed)
				require.Equal(t, "message", st.Reason.Code)
				require.EqualValues(t, 1, st.Counters.Failures)
			} else {
				st := w.awaitAcknowledged(s, 1)
				require.Zero(t, st.Counters.Failures)
			}
			require.Equal(t, c.attempts, sink.attempts.Load())
		})
	}
}

// unfamiliar is a sink whose database answers with an error that nobody knows,
// before the attempt of that number.
type unfamiliar struct {
	graphmill.Sink
	heals    int32
	attempts atomic.Int32
}

func (u *unfamiliar) Execute(ctx context.Context, work graphmill.Work) (graphmill.Executed, error) {
	if u.attempts.Add(1) < u.heals {
		return graphmill.Executed{}, &graphmill.Fault{Class: graphmill.FaultMessage, Code: "message", Unfamiliar: true, Message: 0, Text: "Neo.Strange.Thing"}
	}
	return u.Sink.Execute(ctx, work)
}
