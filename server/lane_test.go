package server_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
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
	wt "github.com/graphmill/graphmill/wasmhost/wasmtest"
)

// awaitLog waits until a line that holds what has been logged n times.
func (w *world) awaitLog(what string, n int) {
	w.t.Helper()
	require.Eventually(w.t, func() bool { return len(w.log.with(what)) >= n }, patience, 5*time.Millisecond, "waited in vain for %q to be logged", what)
}

// pushAs uploads bytes under a name.
func (w *world) pushAs(s *server.Server, name string, bytes []byte) server.PushResult {
	w.t.Helper()
	r, err := s.PushModule(w.t.Context(), server.PushRequest{Name: name, ContentType: server.ContentTypeWasm, Bytes: bytes})
	require.NoError(w.t, err)
	return r
}

// pushUnused uploads a further version of the module of the stream, which is not
// active.
func (w *world) pushUnused(s *server.Server, bytes []byte) {
	w.t.Helper()
	_, err := s.PushModule(w.t.Context(), server.PushRequest{Name: "obedient", ContentType: server.ContentTypeWasm, Bytes: bytes, NoActivate: true})
	require.NoError(w.t, err)
}

func TestABatchThatWouldBeDroppedIsNotWaitedFor(t *testing.T) {
	// The transformation is in the middle of a batch and will be for ten minutes.
	for name, end := range map[string]func(*server.Server) error{
		"DROP":                  func(s *server.Server) error { return s.DeleteStream(context.Background(), "s", server.DeleteRequest{}) },
		"the end of the server": func(s *server.Server) error { return s.Close(context.Background()) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, boltserver.Options{})
			s := w.open(func(c *server.Config) { c.DrainTimeout = time.Hour })
			w.push(s)
			w.create(s, func(spec *graphmill.StreamSpec) { spec.TimeLimitMS = 600_000 })
			w.produce("loop")
			w.start(s)
			w.awaitLog(greeting, 1)
			promptly(t, name, func() { require.NoError(t, end(s)) })
		})
	}
}

func TestARevocationDoesNotWaitForATransformation(t *testing.T) {
	w := newWorld(t, 2, boltserver.Options{})
	slow := func(spec *graphmill.StreamSpec) {
		unhurried(spec)
		spec.BatchSize, spec.TimeLimitMS = 1, 600_000
	}
	one := w.open(nil)
	w.push(one)
	w.create(one, slow)
	w.produce("loop")
	w.start(one)
	w.awaitLog(greeting, 1)
	two := w.open(func(c *server.Config) { c.DataDir = t.TempDir() })
	w.push(two)
	w.create(two, slow)
	w.start(two)
	require.Eventually(t, func() bool { return len(w.status(two).Partitions) == 1 }, patience, 10*time.Millisecond,
		"the group waits for the member that transforms")
	require.Len(t, w.status(one).Partitions, 1)
	promptly(t, "Close", func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = one.Close(ctx)
		_ = two.Close(ctx)
	})
}

func TestARevocationDoesNotWaitForAnOutage(t *testing.T) {
	w := newWorld(t, 2, boltserver.Options{})
	one := w.open(nil)
	w.push(one)
	w.create(one, unhurried)
	w.start(one)
	asked := silence(w)
	w.produceRecords(&kgo.Record{Topic: "topic", Partition: 0, Value: []byte("a")}, &kgo.Record{Topic: "topic", Partition: 1, Value: []byte("b")})
	<-asked
	two := w.open(func(c *server.Config) { c.DataDir, c.StartTimeout = t.TempDir(), 10*time.Millisecond })
	w.push(two)
	w.create(two, unhurried)
	w.start(two)
	require.Eventually(t, func() bool { return len(w.status(two).Partitions) == 1 }, patience, 10*time.Millisecond)
	w.bolt.SetHooks(boltserver.Hooks{})
	w.bolt.CutConnections()
	w.await(one, "its partition is done", func(st graphmill.StreamStatus) bool { return lag(st) == 0 && st.State == graphmill.StateRunning })
	w.await(two, "its partition is done", func(st graphmill.StreamStatus) bool { return lag(st) == 0 && st.State == graphmill.StateRunning })
	require.ElementsMatch(t, []string{"a", "b"}, w.applied(), "what was given up was done by its new owner alone")
}

// silence makes the database cut what is under way and never answer again, as
// behind a firewall that drops packets. It returns where each question that it
// leaves without an answer is told.
func silence(w *world) <-chan struct{} {
	asked := make(chan struct{}, 100)
	w.bolt.SetHooks(boltserver.Hooks{
		OnRun: func(boltserver.Statement) boltserver.Reply {
			asked <- struct{}{}
			return boltserver.Reply{Wait: make(chan struct{})}
		},
		OnBegin:  func(boltserver.Transaction) boltserver.Reply { return boltserver.Reply{Cut: boltserver.CutBefore} },
		OnCommit: func(boltserver.Transaction) boltserver.Reply { return boltserver.Reply{Cut: boltserver.CutBefore} },
	})
	return asked
}

func TestStatementsInAnyOrderAreCountedRight(t *testing.T) {
	const query = "CREATE (:Node)"
	for _, c := range []struct {
		name     string
		messages []uint32 // of the statements, in their order
		dropped  int64    // of three messages
	}{
		{"message by message", []uint32{0, 0, 1, 2}, 0},
		{"query by query", []uint32{0, 1, 0, 1, 0, 1}, 1},
		{"backwards", []uint32{2, 0}, 1},
		{"of the batch as a whole", []uint32{0xffffffff}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			response := make([]byte, 28+16*(1+len(c.messages)))
			for i, v := range []uint32{0x31524d47, 1, 28, uint32(len(c.messages)), 44, 0, 0, uint32(len(response)), uint32(len(query)), 0, 0} {
				binary.LittleEndian.PutUint32(response[4*i:], v)
			}
			for i, m := range c.messages {
				binary.LittleEndian.PutUint32(response[44+16*i+4:], m)
			}
			w := newWorld(t, 1, boltserver.Options{})
			s := w.open(nil)
			w.pushAs(s, "fixed", wt.Answer(append(response, query...)).Bytes())
			w.create(s, func(spec *graphmill.StreamSpec) {
				spec.Transform, spec.BatchSize, spec.BatchIntervalMS = "fixed", 3, 60_000
			})
			w.produce("a", "b", "c")
			w.start(s)
			st := w.awaitAcknowledged(s, 3)
			require.EqualValues(t, c.dropped, st.Counters.Dropped)
			require.EqualValues(t, len(c.messages), st.Counters.Statements)
			require.Equal(t, map[string]int64{"size": 1}, st.Counters.BatchesClosed)
		})
	}
}

func TestAFailureWorthAnotherTryIsTriedThreeTimes(t *testing.T) {
	for _, c := range []struct {
		name     string
		payloads []string
		tries    int
	}{
		{"all are worth it", []string{"flaky", "a"}, 3},
		{"one is not", []string{"flaky", "fail"}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, 1, boltserver.Options{})
			s := w.open(nil)
			w.push(s)
			w.create(s, func(spec *graphmill.StreamSpec) { spec.BatchSize, spec.BatchIntervalMS = 2, 60_000 })
			w.produce(c.payloads...)
			w.start(s)
			st := w.awaitState(s, graphmill.StateFailed)
			require.Equal(t, "message", st.Reason.Code)
			require.Contains(t, st.Reason.Text, "told to be flaky")
			require.EqualValues(t, 1, st.Counters.Failures, "one batch has failed")
			require.Len(t, w.log.with(greeting), c.tries)
			require.Empty(t, w.applied())
		})
	}
}

func TestAFailureIsToldOnceItsTurnHasCome(t *testing.T) {
	w, s, release := hanging(t, nil)
	w.produce("c", "fail")
	w.awaitLog(greeting, 2)
	st := w.status(s)
	require.Nil(t, st.LastFailure, "the batch before is under way")
	require.Zero(t, st.Counters.Failures)
	release()
	st = w.awaitState(s, graphmill.StateFailed)
	require.EqualValues(t, 1, st.Counters.Failures)
	require.EqualValues(t, 3, *st.LastFailure.Offset)
	require.Equal(t, []string{"a", "b"}, w.applied())
}

func TestANewVersionIsUsedBehindTheBatchUnderWay(t *testing.T) {
	w, s, release := hanging(t, nil)
	w.produce("c", "d") // prepared by the first version
	w.awaitLog(greeting, 2)
	require.True(t, w.pushAs(s, "obedient", obedientTwo).Created)
	release()
	st := w.awaitAcknowledged(s, 4)
	require.Equal(t, 2, st.Module.Version)
	require.Equal(t, []string{"a", "b", "c", "d"}, w.applied(), "nothing lost or doubled")
	committed := w.bolt.Committed()
	require.Len(t, committed, 2)
	require.NotContains(t, committed[0].Statements[0].Query, ":Two")
	require.Contains(t, committed[1].Statements[0].Query, ":Two")
}

func TestTheSameBytesAgainChangeNothing(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	s := w.open(nil)
	w.push(s)
	w.create(s, nil)
	w.start(s)
	w.produce("a")
	w.awaitAcknowledged(s, 1)
	w.push(s)
	w.produce("b")
	st := w.awaitAcknowledged(s, 2)
	require.Equal(t, 1, st.Module.Version)
	require.Empty(t, w.log.with("new version"))
}

func TestNewVersionsUnderLoad(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	s := w.open(nil)
	w.push(s)
	w.create(s, func(spec *graphmill.StreamSpec) { spec.BatchSize = 7 })
	w.start(s)
	var want []string
	for i := range 20 {
		var payloads []string
		for k := range 25 {
			payloads = append(payloads, fmt.Sprintf("%d %d", i, k))
		}
		w.produce(payloads...)
		want = append(want, payloads...)
		w.pushAs(s, "obedient", [][]byte{obedient, obedientTwo}[i%2])
	}
	w.awaitAcknowledged(s, int64(len(want)))
	require.Equal(t, want, w.applied())
}

// panicking is a sink with a defect.
type panicking struct {
	graphmill.Sink
	verify  bool        // in Verify; else in Execute
	healthy atomic.Bool // the defect does not show
}

func (p *panicking) Verify(ctx context.Context, database string) error {
	if p.verify && !p.healthy.Load() {
		panic("a defect in Verify")
	}
	return p.Sink.Verify(ctx, database)
}

func (p *panicking) Execute(ctx context.Context, work graphmill.Work) (graphmill.Executed, error) {
	if !p.verify && !p.healthy.Load() {
		panic("a defect in Execute")
	}
	return p.Sink.Execute(ctx, work)
}

func TestADefectEndsItsStreamOnly(t *testing.T) {
	for _, verify := range []bool{true, false} {
		t.Run(fmt.Sprintf("in Verify %v", verify), func(t *testing.T) {
			w := newWorld(t, 1, boltserver.Options{})
			sink := &panicking{Sink: w.sink, verify: verify}
			s := w.open(func(c *server.Config) { c.Sink = sink })
			w.push(s)
			w.create(s, nil)
			w.produce("a")
			if err := start(s)(); err != nil {
				require.Equal(t, graphmill.KindInternal, graphmill.KindOf(err), "%v", err)
			}
			st := w.awaitState(s, graphmill.StateFailed)
			require.Equal(t, "internal", st.Reason.Code)
			require.NotContains(t, st.Reason.Text, "goroutine")
			require.NotEmpty(t, w.log.with("a defect in"), "the log tells what happened, and where")
			require.EqualValues(t, 0, w.committed())

			sink.healthy.Store(true)
			w.start(s)
			w.awaitAcknowledged(s, 1)
			require.Equal(t, []string{"a"}, w.applied())
		})
	}
}

// refusing is a module that takes no settings.
func refusing() []byte {
	const text = "SETTINGS are not known"
	m := wt.Guest(wt.I64Const(0), wt.Func{
		Export: "graphmill_configure", Params: []byte{wt.I32, wt.I32}, Results: []byte{wt.I64},
		Body: wt.I64Const(wt.DataAt<<32 | int64(len(text))),
	})
	m.Data = text
	return m.Bytes()
}

func TestWhatATransformationCannotBeginWithIsToldByStart(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	s := w.open(nil)
	w.pushAs(s, "refusing", refusing())
	w.create(s, func(spec *graphmill.StreamSpec) { spec.Transform = "refusing" })
	_, err := s.StartStream(t.Context(), "s", server.StartRequest{})
	e := requireCode(t, err, "module_configure")
	require.Equal(t, graphmill.KindConflict, e.Kind)
	require.Contains(t, e.Text, "SETTINGS are not known")
	require.Contains(t, e.Next, "SETTINGS")
	require.Equal(t, graphmill.StateFailed, w.status(s).State)
	require.EqualValues(t, -1, w.committed(), "the group has not been touched")
}

func TestLimitsThatNoInstanceCanHaveAreRefusedAtOnce(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	s := w.open(nil)
	for _, c := range []struct {
		field  string
		change func(*graphmill.StreamSpec)
	}{
		{"memory_limit", func(spec *graphmill.StreamSpec) { spec.MemoryLimit = 1 << 30 }},
		{"memory_limit", func(spec *graphmill.StreamSpec) { spec.MemoryLimit = 1000 }},
		{"time_limit_ms", func(spec *graphmill.StreamSpec) { spec.TimeLimitMS = 600_001 }},
		{"response_limit", func(spec *graphmill.StreamSpec) { spec.ResponseLimit = 1 << 30 }},
		{"response_limit", func(spec *graphmill.StreamSpec) { spec.ResponseLimit = 5 }},
	} {
		spec := graphmill.StreamSpec{Name: "s", Topics: []string{"topic"}, Transform: "obedient"}
		c.change(&spec)
		_, err := s.CreateStream(t.Context(), server.CreateRequest{Spec: spec, Check: false})
		require.Equal(t, c.field, requireCode(t, err, "invalid").Field)
	}
}

// readStatus reads and writes out the status until the test's server is closed.
func (w *world) readStatus(s *server.Server) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		var last bytes.Buffer
		for ctx.Err() == nil {
			if st, err := s.StreamStatus(ctx, "s"); err == nil {
				last.Reset()
				_ = json.NewEncoder(&last).Encode(st)
			}
		}
	}()
	return func() { cancel(); <-done }
}

func TestASourceThatCannotGoOnLetsTheBatchesUnderWayFinish(t *testing.T) {
	w, s, release := hanging(t, nil)
	w.produce("c", "d") // prepared
	w.awaitLog(greeting, 2)
	refused := w.kafka.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.TopicAuthorizationFailed, Count: -1})
	w.produce("e", "f") // collected, and not handed out any more
	require.Eventually(t, func() bool { return refused.Hits() > 0 }, patience, 5*time.Millisecond)
	release()
	st := w.awaitState(s, graphmill.StateFailed)
	require.Equal(t, "forbidden", st.Reason.Code)
	require.Equal(t, []string{"a", "b", "c", "d"}, w.applied())
	require.EqualValues(t, 4, w.committed())
	require.Zero(t, st.Counters.Failures, "no batch has failed")
	require.Equal(t, "forbidden", st.LastFailure.Code)
}
