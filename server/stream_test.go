package server_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/integration/boltserver"
	"github.com/graphmill/graphmill/server"
)

func TestMessagesBecomeOneTransactionAndAreAcknowledgedAfterIt(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	s := w.open(nil)
	w.push(s)
	w.create(s, nil)
	w.produce("a", "b", "c")

	release := make(chan struct{})
	w.bolt.SetHooks(onCommit(boltserver.Reply{Wait: release}))
	w.start(s)
	w.awaitExecuting(s)
	require.EqualValues(t, 0, w.committed(), "nothing is acknowledged before its COMMIT; the start position is settled")
	close(release)

	st := w.awaitAcknowledged(s, 3)
	require.Equal(t, []string{"a", "b", "c"}, w.applied())
	require.Len(t, w.bolt.Committed(), 1)
	require.EqualValues(t, 3, w.committed())
	require.EqualValues(t, 3, st.Counters.Messages)
	require.EqualValues(t, 3, st.Counters.Statements)
	require.Zero(t, st.Partitions[0].Lag)
	require.Equal(t, "obedient", st.Module.Name)
}

func TestCase9ABatchOfDroppedMessagesMovesThePosition(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	s := w.open(nil)
	w.push(s)
	w.create(s, nil)
	w.produce("drop", "drop", "drop")
	w.start(s)
	st := w.awaitAcknowledged(s, 3)
	require.EqualValues(t, 3, st.Counters.Dropped)
	require.Zero(t, st.Partitions[0].Lag)
	require.Empty(t, w.bolt.Committed(), "no statement needs no transaction")
}

func TestCase25ABadMessageStopsTheStreamAtItsBatch(t *testing.T) {
	for payload, code := range map[string]string{"fail": "transformation", "panic": "trap"} {
		t.Run(payload, func(t *testing.T) {
			w := newWorld(t, 1, boltserver.Options{})
			s := w.open(nil)
			w.push(s)
			w.create(s, func(spec *graphmill.StreamSpec) { spec.BatchSize, spec.TimeLimitMS = 2, 300 })
			w.produce("a", "b", "c", payload, "d", "e")
			w.start(s)

			st := w.awaitState(s, graphmill.StateFailed)
			require.Equal(t, "message", st.Reason.Code)
			require.Contains(t, st.Reason.Text, "topic/0@2", "the reason names the batch")
			require.Contains(t, st.Reason.NextStep, "graphmill stream start s")
			require.Equal(t, code, st.LastFailure.Code)
			require.EqualValues(t, 3, *st.LastFailure.Offset, "the message is named")
			require.Equal(t, graphmill.StateRunning, st.Desired)
			require.Equal(t, []string{"a", "b"}, w.applied(), "the batches before it are applied, its own is not")
			require.EqualValues(t, 2, w.committed())

			_, err := s.StartStream(t.Context(), "s", server.StartRequest{})
			require.NoError(t, err)
			w.awaitState(s, graphmill.StateFailed)
			require.Equal(t, []string{"a", "b"}, w.applied(), "START meets the same message again")

			w.close(s)
			s = w.open(nil)
			require.Equal(t, graphmill.StateFailed, w.status(s).State, "a failed stream is not resumed")
			require.Equal(t, "message", w.status(s).Reason.Code)
		})
	}
}

func TestAStatementThatTheDatabaseRefusesStopsTheStream(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{Hooks: onStore(func() boltserver.Reply {
		return boltserver.Fail("Neo.ClientError.Schema.ConstraintValidationFailed", "Node(2) already exists")
	})})
	s := w.open(nil)
	w.push(s)
	w.create(s, nil)
	w.produce("a")
	w.start(s)
	st := w.awaitState(s, graphmill.StateFailed)
	require.Equal(t, "message", st.Reason.Code)
	require.Contains(t, st.Reason.Text, "Node(2) already exists")
	require.EqualValues(t, 0, w.committed())
	require.Zero(t, st.Counters.Retries)
}

func TestConflictsAreRetried(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	var failures atomic.Int32
	w.bolt.SetHooks(onStore(func() boltserver.Reply {
		if failures.Add(1) <= 3 {
			return boltserver.Fail("Neo.TransientError.Transaction.DeadlockDetected", "a deadlock")
		}
		return boltserver.Reply{}
	}))
	s := w.open(nil)
	w.push(s)
	w.create(s, nil)
	w.produce("a")
	w.start(s)
	st := w.awaitAcknowledged(s, 1)
	require.Equal(t, []string{"a"}, w.applied())
	require.EqualValues(t, 3, st.Counters.Retries)
	require.Equal(t, graphmill.StateRunning, st.State)
}

func TestConflictsWithoutEndFailTheStream(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{Hooks: onStore(func() boltserver.Reply {
		return boltserver.Fail("Neo.TransientError.Transaction.DeadlockDetected", "a deadlock")
	})})
	s := w.open(func(c *server.Config) { c.ConflictRetries = 2 })
	w.push(s)
	w.create(s, nil)
	w.produce("a")
	w.start(s)
	st := w.awaitState(s, graphmill.StateFailed)
	require.Equal(t, "conflicts", st.Reason.Code)
	require.Contains(t, st.Reason.NextStep, "--stream-transaction-conflict-retries")
	require.EqualValues(t, 2, st.Counters.Retries)
	require.Empty(t, w.applied())
}

func TestADatabaseThatComesLate(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	w.bolt.Stop()
	s := w.open(func(c *server.Config) { c.StartTimeout = 50 * time.Millisecond })
	w.push(s)
	w.create(s, nil)
	w.start(s)
	st := w.awaitState(s, graphmill.StateWaiting)
	require.Equal(t, "database_unreachable", st.Reason.Code)
	w.produce("a")
	require.NoError(t, w.bolt.Listen())
	w.awaitAcknowledged(s, 1)
	require.Equal(t, []string{"a"}, w.applied())
}

func TestADatabaseThatGoesAwayAndComesBack(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	s := w.open(nil)
	w.push(s)
	w.create(s, nil)
	w.produce("a")
	w.start(s)
	w.awaitAcknowledged(s, 1)
	w.bolt.Stop()
	w.produce("b")
	w.awaitState(s, graphmill.StateWaiting)
	w.produce("c")
	require.NoError(t, w.bolt.Listen())
	w.awaitAcknowledged(s, 3)
	require.Equal(t, []string{"a", "b", "c"}, w.applied())
	w.awaitState(s, graphmill.StateRunning)
}

func TestACommitOfUnknownOutcomeIsRepeatedNotLost(t *testing.T) {
	for name, cut := range map[string]boltserver.Cut{"it was done": boltserver.CutAfter, "it was not": boltserver.CutBefore} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, boltserver.Options{})
			var commits atomic.Int32
			w.bolt.SetHooks(boltserver.Hooks{OnCommit: func(boltserver.Transaction) boltserver.Reply {
				if commits.Add(1) == 1 {
					return boltserver.Reply{Cut: cut}
				}
				return boltserver.Reply{}
			}})
			s := w.open(nil)
			w.push(s)
			w.create(s, nil)
			w.produce("a")
			w.start(s)
			st := w.awaitAcknowledged(s, 1)
			require.EqualValues(t, 1, st.Counters.UnknownCommits)
			measured, ok := value(scrape(t, s), "graphmill_unknown_commits_total", "stream=s")
			require.True(t, ok)
			require.EqualValues(t, 1, measured)
			require.Len(t, w.log.with("a commit may have been done"), 1)
			want := []string{"a"}
			if cut == boltserver.CutAfter {
				want = []string{"a", "a"}
			}
			require.Equal(t, want, w.applied())
		})
	}
}

func TestAWrongPasswordFailsTheStreamAtOnce(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{User: "neo4j", Password: "right"})
	s := w.open(func(c *server.Config) { c.Sink = w.connect("neo4j", "wrong-secret") })
	w.push(s)
	w.create(s, nil)
	_, err := s.StartStream(t.Context(), "s", server.StartRequest{})
	e := requireCode(t, err, "auth")
	require.NotContains(t, e.Error(), "wrong-secret")
	st := w.awaitState(s, graphmill.StateFailed)
	require.Equal(t, "auth", st.Reason.Code)
	require.LessOrEqual(t, w.bolt.Logons(), int64(1), "attempts lock the account")
}

func TestAnAbsentDatabaseFailsTheStream(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{Databases: []string{"neo4j"}})
	s := w.open(nil)
	w.push(s)
	w.create(s, func(spec *graphmill.StreamSpec) { spec.Database = "absent" })
	_, err := s.StartStream(t.Context(), "s", server.StartRequest{})
	requireCode(t, err, "database_not_found")
	w.awaitState(s, graphmill.StateFailed)
}

func TestWhatWasRunningIsResumed(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	s := w.open(nil)
	w.push(s)
	w.create(s, nil)
	w.start(s)
	w.produce("a")
	w.awaitAcknowledged(s, 1)
	w.close(s)
	w.produce("b")
	s = w.open(nil)
	w.awaitAcknowledged(s, 2)
	require.Equal(t, []string{"a", "b"}, w.applied())

	_, err := s.StopStream(t.Context(), "s")
	require.NoError(t, err)
	w.close(s)
	s = w.open(nil)
	require.Equal(t, graphmill.StateStopped, w.status(s).State, "stopped, and stays so")
}

func TestNothingProducedAfterStartIsMissed(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	w.produce("before")
	s := w.open(nil)
	w.push(s)
	w.create(s, func(spec *graphmill.StreamSpec) { spec.StartFrom = graphmill.StartLatest })
	w.start(s)
	w.produce("after")
	w.awaitAcknowledged(s, 2)
	require.Equal(t, []string{"after"}, w.applied())
}

func TestStopFinishesTheBatchesUnderWay(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	release := make(chan struct{})
	w.bolt.SetHooks(onCommit(boltserver.Reply{Wait: release}))
	s := w.open(nil)
	w.push(s)
	w.create(s, func(spec *graphmill.StreamSpec) { spec.BatchSize = 2 })
	w.start(s)
	w.produce("a", "b")
	w.awaitExecuting(s)
	stopped := make(chan error, 1)
	go func() {
		_, err := s.StopStream(context.Background(), "s")
		stopped <- err
	}()
	w.awaitState(s, graphmill.StateDraining)
	select {
	case err := <-stopped:
		require.FailNow(t, "STOP answered before the batch was done", "%v", err)
	default:
	}
	close(release)
	require.NoError(t, <-stopped)
	require.Subset(t, w.applied(), []string{"a", "b"})
	require.EqualValues(t, len(w.applied()), w.committed(), "what is applied is acknowledged")
	require.Equal(t, graphmill.StateStopped, w.status(s).State)
}

func TestStopDoesNotSitOutAnOutage(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	s := w.open(func(c *server.Config) { c.DrainTimeout = time.Hour })
	w.push(s)
	w.create(s, nil)
	w.start(s)
	w.bolt.Stop()
	w.produce("a")
	w.awaitState(s, graphmill.StateWaiting)
	_, err := s.StopStream(t.Context(), "s")
	require.NoError(t, err)
	require.EqualValues(t, 0, w.committed())

	require.NoError(t, w.bolt.Listen())
	w.start(s)
	w.awaitAcknowledged(s, 1)
	require.Equal(t, []string{"a"}, w.applied(), "START meets what STOP left")
}

func TestTheDrainTimeoutEndsABatchThatHangs(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{Hooks: boltserver.Hooks{
		OnCommit: func(boltserver.Transaction) boltserver.Reply { return boltserver.Reply{Wait: make(chan struct{})} },
	}})
	s := w.open(func(c *server.Config) { c.DrainTimeout = 50 * time.Millisecond })
	w.push(s)
	w.create(s, nil)
	w.produce("a")
	w.start(s)
	w.awaitExecuting(s)
	_, err := s.StopStream(t.Context(), "s")
	require.NoError(t, err)
	require.Equal(t, graphmill.StateStopped, w.status(s).State)
	require.EqualValues(t, 0, w.committed(), "it is unacknowledged")
}

func TestCommandsInTheWrongState(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	s := w.open(nil)
	_, err := s.StartStream(t.Context(), "s", server.StartRequest{})
	requireCode(t, err, "stream_not_found")
	w.create(s, nil)
	_, err = s.StartStream(t.Context(), "s", server.StartRequest{})
	e := requireCode(t, err, "module_not_found")
	require.Contains(t, e.Next, "module push")
	require.Equal(t, graphmill.StateStopped, w.status(s).Desired)
	w.push(s)
	_, err = s.StopStream(t.Context(), "s")
	requireCode(t, err, "already_stopped")
	w.start(s)
	_, err = s.StartStream(t.Context(), "s", server.StartRequest{})
	requireCode(t, err, "already_running")
	requireCode(t, s.DeleteModule(t.Context(), "obedient"), "module_in_use")
	require.NoError(t, s.DeleteStream(t.Context(), "s", server.DeleteRequest{}), "a running stream can be dropped")
	requireCode(t, s.DeleteStream(t.Context(), "s", server.DeleteRequest{}), "stream_not_found")
	require.NoError(t, s.DeleteModule(t.Context(), "obedient"))
}

func TestOfManyStartsAtOnceOneIsMade(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	s := w.open(nil)
	w.push(s)
	w.create(s, nil)
	var started atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, err := s.StartStream(context.Background(), "s", server.StartRequest{}); err == nil {
				started.Add(1)
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 1, started.Load())
}

func TestCreateLooksForBrokerAndTopic(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	s := w.open(func(c *server.Config) { c.CreateTimeout = brief })
	spec := graphmill.StreamSpec{Name: "s", Topics: []string{"topic", "absent"}, Transform: "obedient"}
	_, err := s.CreateStream(t.Context(), server.CreateRequest{Spec: spec, Check: true})
	e := requireCode(t, err, "topic_absent")
	require.Equal(t, graphmill.KindNotFound, e.Kind, "the caller names what is not there")
	require.Contains(t, e.Text, "absent")
	require.Contains(t, e.Next, "--no-check")

	spec.BootstrapServers = []string{"127.0.0.1:1"}
	_, err = s.CreateStream(t.Context(), server.CreateRequest{Spec: spec, Check: true})
	requireCode(t, err, "broker_unreachable")
	info, err := s.CreateStream(t.Context(), server.CreateRequest{Spec: spec, Check: false})
	require.NoError(t, err)
	require.Len(t, info.Warnings, 1, "the module is not there yet")
	require.Contains(t, info.Warnings[0], `no module "obedient"`)
	_, err = s.CreateStream(t.Context(), server.CreateRequest{Spec: spec, Check: false})
	requireCode(t, err, "stream_exists")
}

func TestCase34ATopicThatComesLaterIsWaitedForAndReadFromItsBeginning(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	s := w.open(func(c *server.Config) { c.StartTimeout = 50 * time.Millisecond })
	w.push(s)
	_, err := s.CreateStream(t.Context(), server.CreateRequest{Spec: graphmill.StreamSpec{Name: "s", Topics: []string{"later"}, Transform: "obedient", BatchIntervalMS: 20}, Check: false})
	require.NoError(t, err)
	w.start(s)
	st := w.awaitState(s, graphmill.StateWaiting)
	require.Equal(t, "topic_absent", st.Reason.Code)
	_, err = w.admin.CreateTopic(t.Context(), 1, 1, nil, "later")
	require.NoError(t, err)
	w.produceRecords(&kgo.Record{Topic: "later", Value: []byte("a")})
	w.awaitAcknowledged(s, 1)
	require.Equal(t, []string{"a"}, w.applied(), "a topic that was absent at START is read from its beginning")
}

func TestAStreamThatIsNotThereNamesTheOneThatWasMeant(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	srv := w.open(nil)
	w.create(srv, func(spec *graphmill.StreamSpec) { spec.Name = "ratings" })
	_, err := srv.Stream(t.Context(), "rattings")
	var e *graphmill.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, "stream_not_found", e.Code)
	require.Contains(t, e.Next, `did you mean "ratings"?`)
	_, err = srv.Stream(t.Context(), "something-else")
	require.ErrorAs(t, err, &e)
	require.NotContains(t, e.Next, "mean")
}
