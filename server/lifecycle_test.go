package server_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/integration/boltserver"
	"github.com/graphmill/graphmill/server"
)

// prompt bounds what must not wait for anything else: below the timeouts that these
// tests and servers have, far above what a busy machine needs.
const prompt = 30 * time.Second

// promptly runs f and fails the test where that takes long.
func promptly(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(prompt):
		require.FailNow(t, what+" takes too long")
	}
}

// begun starts a command in the background and returns where its error comes.
func begun(f func() error) <-chan error {
	result := make(chan error, 1)
	go func() { result <- f() }()
	return result
}

func start(s *server.Server) func() error {
	return func() error {
		_, err := s.StartStream(context.Background(), "s", server.StartRequest{})
		return err
	}
}

func stop(s *server.Server) func() error {
	return func() error {
		_, err := s.StopStream(context.Background(), "s")
		return err
	}
}

// waitingForTopic is a world with a stream that START waits for, without end.
func waitingForTopic(t *testing.T) (*world, *server.Server, <-chan error) {
	w := newWorld(t, 1, boltserver.Options{})
	s := w.open(func(c *server.Config) { c.StartTimeout, c.DrainTimeout = time.Hour, time.Hour })
	w.push(s)
	spec := graphmill.StreamSpec{Name: "s", Topics: []string{"absent"}, Transform: "obedient"}
	_, err := s.CreateStream(t.Context(), server.CreateRequest{Spec: spec, Check: false})
	require.NoError(t, err)
	started := begun(start(s))
	w.awaitState(s, graphmill.StateWaiting)
	return w, s, started
}

// hanging is a world with a stream whose first batch hangs in its COMMIT.
func hanging(t *testing.T, change func(*server.Config)) (w *world, s *server.Server, release func()) {
	w = newWorld(t, 1, boltserver.Options{})
	held := make(chan struct{})
	w.bolt.SetHooks(onCommit(boltserver.Reply{Wait: held}))
	s = w.open(change)
	w.push(s)
	w.create(s, func(spec *graphmill.StreamSpec) { spec.BatchSize = 2 })
	w.produce("a", "b")
	w.start(s)
	w.awaitExecuting(s)
	return w, s, sync.OnceFunc(func() { close(held) })
}

func (w *world) awaitExecuting(s *server.Server) graphmill.StreamStatus {
	w.t.Helper()
	return w.await(s, "a batch is being executed", func(st graphmill.StreamStatus) bool { return st.CurrentBatch != nil })
}

func TestNobodyWaitsBehindAStartThatWaits(t *testing.T) {
	t.Run("a second START", func(t *testing.T) {
		_, s, _ := waitingForTopic(t)
		promptly(t, "START", func() { requireCode(t, start(s)(), "already_running") })
		require.NoError(t, stop(s)())
	})
	t.Run("STOP", func(t *testing.T) {
		w, s, started := waitingForTopic(t)
		promptly(t, "STOP", func() { require.NoError(t, stop(s)()) })
		requireCode(t, <-started, "stopped_meanwhile")
		st := w.status(s)
		require.Equal(t, graphmill.StateStopped, st.State)
		require.Equal(t, graphmill.StateStopped, st.Desired)
	})
	t.Run("DROP", func(t *testing.T) {
		_, s, started := waitingForTopic(t)
		promptly(t, "DROP", func() { require.NoError(t, s.DeleteStream(t.Context(), "s", server.DeleteRequest{})) })
		requireCode(t, <-started, "stopped_meanwhile")
	})
	t.Run("the end of the server", func(t *testing.T) {
		w, s, started := waitingForTopic(t)
		promptly(t, "Close", func() { require.NoError(t, s.Close(context.Background())) })
		e := requireCode(t, <-started, "shutting_down")
		require.Equal(t, graphmill.KindUnavailable, e.Kind)
		s = w.open(nil)
		require.Equal(t, graphmill.StateRunning, w.status(s).Desired, "it is resumed")
	})
}

func TestTheEndOfTheServerDoesNotWaitBehindACommand(t *testing.T) {
	for name, command := range map[string]func(*server.Server) error{
		"STOP": func(s *server.Server) error { return stop(s)() },
		"DROP": func(s *server.Server) error { return s.DeleteStream(context.Background(), "s", server.DeleteRequest{}) },
	} {
		t.Run(name, func(t *testing.T) {
			w, s, _ := hanging(t, func(c *server.Config) { c.DrainTimeout = time.Hour })
			result := begun(func() error { return command(s) })
			w.awaitState(s, graphmill.StateDraining)
			ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
			defer cancel()
			promptly(t, "Close", func() { require.NoError(t, s.Close(ctx)) })
			require.NoError(t, <-result, "%s was under way and is done before the catalog is closed", name)
			require.EqualValues(t, 0, w.committed(), "what was cancelled is unacknowledged")
		})
	}
}

func TestACommandWhoseClientHasGoneIsNotBegun(t *testing.T) {
	w, s, release := hanging(t, func(c *server.Config) { c.DrainTimeout = time.Hour })
	stopped := begun(stop(s))
	w.awaitState(s, graphmill.StateDraining)
	ctx, cancel := context.WithCancel(t.Context())
	started := begun(func() error {
		_, err := s.StartStream(ctx, "s", server.StartRequest{})
		return err
	})
	dropped := begun(func() error { return s.DeleteStream(ctx, "s", server.DeleteRequest{}) })
	cancel()
	promptly(t, "a START that nobody waits for", func() { require.ErrorIs(t, <-started, context.Canceled) })
	promptly(t, "a DROP that nobody waits for", func() { require.ErrorIs(t, <-dropped, context.Canceled) })
	release()
	require.NoError(t, <-stopped)
	st := w.status(s)
	require.Equal(t, graphmill.StateStopped, st.State)
	require.Equal(t, graphmill.StateStopped, st.Desired)
}

func TestAStopGoesOnWhenItsClientHasGone(t *testing.T) {
	w, s, release := hanging(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	stopped := begun(func() error {
		_, err := s.StopStream(ctx, "s")
		return err
	})
	w.awaitState(s, graphmill.StateDraining)
	cancel()
	release()
	<-stopped
	w.awaitState(s, graphmill.StateStopped)
	require.Equal(t, graphmill.StateStopped, w.status(s).Desired)
	require.EqualValues(t, 2, w.committed())
}

// requireNoDefect lets commands refuse for what others have made of the stream
// meanwhile, and for nothing else.
func requireNoDefect(t *testing.T, err error) {
	if err == nil {
		return
	}
	var e *graphmill.Error
	if assert.ErrorAs(t, err, &e) {
		assert.Contains(t, []string{"already_running", "already_stopped", "stopped_meanwhile", "transformation"}, e.Code, "%v", err)
	}
}

func TestAFailureAndACommandAtTheSameMoment(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	s := w.open(nil)
	w.push(s)
	w.create(s, nil)
	w.produce("fail")
	for range 40 {
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() { requireNoDefect(t, start(s)()) })
			wg.Go(func() { requireNoDefect(t, stop(s)()) })
		}
		wg.Wait()
	}
	if err := stop(s)(); err != nil {
		requireCode(t, err, "already_stopped")
	}
	st := w.status(s)
	require.Equal(t, graphmill.StateStopped, st.State)
	require.Equal(t, graphmill.StateStopped, st.Desired)
	w.start(s)
	w.awaitState(s, graphmill.StateFailed)
	require.Empty(t, w.log.with("could not be stored"))
	w.close(s)
	s = w.open(nil)
	require.Equal(t, graphmill.StateFailed, w.status(s).State)
}

func TestAStreamThatFailsIsNeverSeenStopped(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	s := w.open(nil)
	w.push(s)
	w.create(s, nil)
	w.produce("fail")
	for range 10 {
		w.start(s)
		for state := graphmill.StateRunning; state != graphmill.StateFailed; {
			info, err := s.Stream(t.Context(), "s")
			require.NoError(t, err)
			require.NotEqual(t, graphmill.StateStopped, info.State, "it is desired %s", info.Desired)
			state = info.State
		}
		require.NoError(t, stop(s)(), "what is seen failed can be stopped at once")
	}
}

func TestAFailureWhileTheStreamStops(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	held := make(chan struct{})
	w.bolt.SetHooks(onCommit(boltserver.Reply{Wait: held, Failure: &boltserver.Failure{Code: "Neo.ClientError.Schema.ConstraintValidationFailed", Message: "no"}}))
	s := w.open(nil)
	w.push(s)
	w.create(s, nil)
	w.produce("a")
	w.start(s)
	w.awaitExecuting(s)
	stopped := begun(stop(s))
	w.awaitState(s, graphmill.StateDraining)
	close(held)
	require.NoError(t, <-stopped)
	st := w.status(s)
	require.Equal(t, graphmill.StateStopped, st.State, "it was to be stopped, and is")
	require.Nil(t, st.Reason)
	require.NotNil(t, st.LastFailure, "but what went wrong is told")
	require.EqualValues(t, 1, st.Counters.Failures)
	require.EqualValues(t, 0, w.committed())
}

func TestOneNameCreatedAndDroppedByMany(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	s := w.open(nil)
	spec := graphmill.StreamSpec{Name: "s", Topics: []string{"topic"}, Transform: "obedient"}
	for range 20 {
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() { _, _ = s.CreateStream(context.Background(), server.CreateRequest{Spec: spec, Check: false}) })
			wg.Go(func() { _ = s.DeleteStream(context.Background(), "s", server.DeleteRequest{}) })
		}
		wg.Wait()
		_ = s.DeleteStream(t.Context(), "s", server.DeleteRequest{})
		_, err := s.CreateStream(t.Context(), server.CreateRequest{Spec: spec, Check: false})
		require.NoError(t, err, "the list and the catalog agree that it is gone")
		require.NoError(t, s.DeleteStream(t.Context(), "s", server.DeleteRequest{}))
	}
}

func TestTwinsStartedAtTheSameMoment(t *testing.T) {
	for name, brokers := range map[string][]string{
		"both at the server's brokers":      nil,
		"one names the server's own broker": {"the server's"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, boltserver.Options{})
			s := w.open(nil)
			w.push(s)
			if brokers != nil {
				brokers = w.addrs
			}
			w.create(s, nil)
			twin := graphmill.StreamSpec{Name: "twin", Topics: []string{"topic"}, Transform: "obedient", ConsumerGroup: "graphmill.s", BootstrapServers: brokers}
			info, err := s.CreateStream(t.Context(), server.CreateRequest{Spec: twin, Check: true})
			require.NoError(t, err)
			require.Len(t, info.Warnings, 1)
			for range 10 {
				errs := make(chan error, 2)
				for _, name := range []string{"s", "twin"} {
					go func() {
						_, err := s.StartStream(context.Background(), name, server.StartRequest{})
						errs <- err
					}()
				}
				one, two := <-errs, <-errs
				if one == nil {
					one, two = two, one
				}
				require.NoError(t, two)
				requireCode(t, one, "group_shared")
				for _, name := range []string{"s", "twin"} {
					_, _ = s.StopStream(t.Context(), name)
				}
			}
		})
	}
}

func TestCommandsAtEveryMoment(t *testing.T) {
	w := newWorld(t, 2, boltserver.Options{})
	s := w.open(nil)
	w.push(s)
	w.create(s, func(spec *graphmill.StreamSpec) { spec.BatchSize = 3 })
	var want []string
	for i := range 60 {
		want = append(want, fmt.Sprintf("message %d", i))
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for _, p := range want {
			w.produce(p)
		}
	})
	for range 25 {
		commands := sync.WaitGroup{}
		for _, command := range []func() error{start(s), stop(s), start(s)} {
			commands.Go(func() { requireNoDefect(t, command()) })
		}
		commands.Wait()
	}
	wg.Wait()
	if err := start(s)(); err != nil {
		requireCode(t, err, "already_running")
	}
	w.await(s, "all is read", func(st graphmill.StreamStatus) bool { return lag(st) == 0 })
	require.Equal(t, want, w.applied(), "in order, nothing lost, and nothing doubled: every stop was in good order")
}

// lag is the sum over all partitions; -1 where one is not known.
func lag(st graphmill.StreamStatus) (sum int64) {
	if len(st.Partitions) == 0 {
		return -1
	}
	for _, p := range st.Partitions {
		if p.Lag < 0 {
			return -1
		}
		sum += p.Lag
	}
	return sum
}
