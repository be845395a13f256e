package server_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/integration/boltserver"
	"github.com/graphmill/graphmill/server"
)

func TestNothingSitsOutADatabaseThatDoesNotAnswer(t *testing.T) {
	for name, end := range map[string]func(*server.Server) error{
		"STOP":                  func(s *server.Server) error { return stop(s)() },
		"DROP":                  func(s *server.Server) error { return s.DeleteStream(context.Background(), "s", server.DeleteRequest{}) },
		"the end of the server": func(s *server.Server) error { return s.Close(context.Background()) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, boltserver.Options{})
			s := w.open(func(c *server.Config) { c.DrainTimeout = time.Hour })
			w.push(s)
			w.create(s, nil)
			w.start(s)
			asked := silence(w)
			w.produce("a")
			<-asked
			promptly(t, name, func() { require.NoError(t, end(s)) })
			require.EqualValues(t, 0, w.committed())
		})
	}
}

func TestStopDoesNotSitOutABrokerThatTakesNoAcknowledgement(t *testing.T) {
	w, s, release := hanging(t, func(c *server.Config) { c.DrainTimeout = time.Hour })
	fault := w.kafka.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.CoordinatorLoadInProgress, Count: -1})
	release()
	st := w.awaitState(s, graphmill.StateWaiting)
	require.Contains(t, st.Reason.Code, "broker_")
	require.EqualValues(t, 0, st.Counters.Messages)
	promptly(t, "STOP", func() { require.NoError(t, stop(s)()) })
	require.NotEmpty(t, w.log.with("will be executed once more"), "the log tells what that means")
	require.Equal(t, []string{"a", "b"}, w.applied())

	fault.Remove()
	w.start(s)
	w.awaitAcknowledged(s, 2)
	require.Equal(t, []string{"a", "b", "a", "b"}, w.applied(), "at least once")
}

func TestStopAcknowledgesAlthoughATopicIsAbsent(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	held := make(chan struct{})
	w.bolt.SetHooks(onCommit(boltserver.Reply{Wait: held}))
	s := w.open(nil)
	w.push(s)
	spec := graphmill.StreamSpec{Name: "s", Topics: []string{"topic", "absent"}, Transform: "obedient", StartFrom: graphmill.StartEarliest, BatchIntervalMS: 20}
	_, err := s.CreateStream(t.Context(), server.CreateRequest{Spec: spec, Check: false})
	require.NoError(t, err)
	w.produce("a")
	w.start(s)
	w.awaitExecuting(s)
	require.Equal(t, "topic_absent", w.awaitState(s, graphmill.StateWaiting).Reason.Code)
	stopped := begun(stop(s))
	w.awaitState(s, graphmill.StateDraining)
	close(held)
	require.NoError(t, <-stopped)
	require.EqualValues(t, 1, w.committed())
	require.Empty(t, w.log.with("will be executed once more"))
}

func TestAConflictBehindAnOutageIsNoOutage(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	var conflicts atomic.Bool
	var tries atomic.Int32
	w.bolt.SetHooks(onStore(func() boltserver.Reply {
		switch {
		case tries.Add(1) == 1:
			return boltserver.Reply{Cut: boltserver.CutBefore}
		case conflicts.Load():
			return boltserver.Fail("Neo.TransientError.Transaction.DeadlockDetected", "a deadlock")
		}
		return boltserver.Reply{}
	}))
	conflicts.Store(true)
	s := w.open(func(c *server.Config) { c.ConflictRetries = 1_000_000 })
	w.push(s)
	w.create(s, nil)
	w.produce("a")
	w.start(s)
	w.await(s, "it is retried", func(st graphmill.StreamStatus) bool { return st.Counters.Retries > 3 })
	require.Equal(t, graphmill.StateRunning, w.status(s).State, "the database answers")
	conflicts.Store(false)
	w.awaitAcknowledged(s, 1)
}

// crowd is a world with many streams.
func crowd(t *testing.T, n int, database func(i int) string, change func(*server.Config)) (*world, *server.Server, []string) {
	w := newWorld(t, 1, boltserver.Options{})
	s := w.open(change)
	w.push(s)
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("s%d", i)
		spec := graphmill.StreamSpec{Name: names[i], Topics: []string{"topic"}, Transform: "obedient", StartFrom: graphmill.StartEarliest, BatchIntervalMS: 20, Database: database(i)}
		_, err := s.CreateStream(t.Context(), server.CreateRequest{Spec: spec, Check: false})
		require.NoError(t, err)
	}
	return w, s, names
}

// all does something with each of the streams at once.
func all(names []string, do func(name string) error) []error {
	errs := make([]error, len(names))
	var wg sync.WaitGroup
	for i, name := range names {
		wg.Go(func() { errs[i] = do(name) })
	}
	wg.Wait()
	return errs
}

func TestManyStreamsDoNotLockTheAccountWithAWrongPassword(t *testing.T) {
	w, s, names := crowd(t, 30, func(i int) string { return fmt.Sprintf("database%d", i%10) }, nil)
	w.close(s)
	var mu sync.Mutex
	var attempts []time.Time
	w.bolt.SetHooks(boltserver.Hooks{OnLogon: func(string) *boltserver.Failure {
		mu.Lock()
		defer mu.Unlock()
		attempts = append(attempts, time.Now())
		return &boltserver.Failure{Code: "Neo.ClientError.Security.Unauthorized", Message: "wrong"}
	}})
	wrong := w.connect("neo4j", "wrong-secret")
	s = w.open(func(c *server.Config) { c.Sink = wrong })
	for _, err := range all(names, func(name string) error {
		_, err := s.StartStream(context.Background(), name, server.StartRequest{})
		return err
	}) {
		requireCode(t, err, "auth")
	}
	mu.Lock()
	defer mu.Unlock()
	for i := 2; i < len(attempts); i++ { // a busy machine may take longer than 5 s
		require.Greater(t, attempts[i].Sub(attempts[i-2]), 5*time.Second, "three wrong attempts within 5 s lock the account")
	}
}

func TestManyStreamsWaitOnOneProbeOfTheDatabase(t *testing.T) {
	w, s, names := crowd(t, 30, func(int) string { return "" }, func(c *server.Config) { c.StartTimeout = time.Millisecond })
	var down atomic.Bool
	var probes atomic.Int32
	down.Store(true)
	w.bolt.SetHooks(boltserver.Hooks{OnRun: func(st boltserver.Statement) boltserver.Reply {
		if !down.Load() {
			return boltserver.Reply{}
		}
		probes.Add(1)
		return boltserver.Fail("Neo.TransientError.General.DatabaseUnavailable", "it is starting")
	}})
	for _, err := range all(names, func(name string) error {
		_, err := s.StartStream(context.Background(), name, server.StartRequest{})
		return err
	}) {
		require.NoError(t, err)
	}
	waiting := func() (n int) {
		infos, err := s.Streams(t.Context())
		require.NoError(t, err)
		for _, info := range infos {
			if info.State == graphmill.StateWaiting && info.Reason.Code == "database_unreachable" {
				n++
			}
		}
		return n
	}
	require.Eventually(t, func() bool { return waiting() == len(names) }, patience, 10*time.Millisecond)
	before := probes.Load()
	select { // the longer it lasts the fewer there are
	case <-time.After(time.Second):
	case <-t.Context().Done():
	}
	require.LessOrEqual(t, probes.Load()-before, int32(12), "one asks for all")

	w.produce("a")
	down.Store(false)
	require.Eventually(t, func() bool { return len(w.applied()) == len(names) }, patience, 10*time.Millisecond, "all go on")
	promptly(t, "the status of all, and Close", func() {
		for _, name := range names {
			_, err := s.StreamStatus(t.Context(), name)
			require.NoError(t, err)
		}
		require.NoError(t, s.Close(t.Context()))
	})
}

func TestStatusAnswersWhileTheBrokerDoesNot(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	s := w.open(nil)
	w.push(s)
	w.create(s, nil)
	w.produce("a")
	w.start(s)
	w.awaitAcknowledged(s, 1)
	w.kafka.ControlKey(int16(kmsg.ListOffsets), func(kmsg.Request) (kmsg.Response, error, bool) {
		w.kafka.KeepControl()
		return nil, nil, true // and no answer ever
	})
	promptly(t, "a status", func() {
		st := w.status(s)
		require.Len(t, st.Partitions, 1)
		require.EqualValues(t, 1, st.Partitions[0].Acknowledged)
		require.EqualValues(t, -1, st.Partitions[0].End)
		require.EqualValues(t, -1, st.Partitions[0].Lag)
	})
}

func TestAStreamThatCannotBeResumedShowsWhereItStands(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	s := w.open(nil)
	w.push(s)
	w.create(s, nil)
	w.produce("a")
	w.start(s)
	w.awaitAcknowledged(s, 1)
	w.close(s)
	w.kafka.Close()
	s = w.open(nil)
	st := w.awaitState(s, graphmill.StateWaiting)
	require.Len(t, st.Partitions, 1)
	require.EqualValues(t, 1, st.Partitions[0].Acknowledged)
	require.EqualValues(t, -1, st.Partitions[0].Lag)
}
