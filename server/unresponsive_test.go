package server_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/integration/boltserver"
	"github.com/graphmill/graphmill/server"
)

// impatient looks at the database soon, though not on a busy machine that is fine.
func impatient(c *server.Config) { c.AnswerTimeout = 1500 * time.Millisecond }

func databaseUp(t *testing.T, s *server.Server) float64 {
	t.Helper()
	up, ok := value(scrape(t, s), "graphmill_database_up", "database=")
	require.True(t, ok)
	return up
}

func unresponsive(st graphmill.StreamStatus) bool {
	return st.State == graphmill.StateWaiting && st.Reason.Code == "database_unresponsive"
}

// TestADatabaseThatFreezesIsSeenSoon: connections stay open and nothing answers,
// while the limit of a transaction is minutes.
func TestADatabaseThatFreezesIsSeenSoon(t *testing.T) {
	for name, freeze := range map[string]func(w *world, frozen func() <-chan struct{}){
		"before the batch": func(w *world, frozen func() <-chan struct{}) { frozen(); w.produce("b") },
		"in its COMMIT": func(w *world, frozen func() <-chan struct{}) {
			w.bolt.SetHooks(boltserver.Hooks{OnCommit: func(boltserver.Transaction) boltserver.Reply {
				return boltserver.Reply{Wait: frozen()}
			}})
			w.produce("b")
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, boltserver.Options{})
			s := w.open(impatient)
			w.push(s)
			w.create(s, nil)
			w.start(s)
			w.produce("a")
			w.awaitAcknowledged(s, 1)
			require.Equal(t, 1.0, databaseUp(t, s))

			thaw, thawed := make(chan func(), 1), make(chan struct{})
			freeze(w, func() <-chan struct{} { thaw <- w.bolt.Freeze(); return thawed })
			st := w.await(s, "it is seen", unresponsive)
			require.Regexp(t, `the database has not answered for [0-9.]+m?s`, st.Reason.Text)
			require.Contains(t, st.Reason.NextStep, "--transaction-timeout")
			require.NotNil(t, st.CurrentBatch, "it is still being executed")
			require.Zero(t, databaseUp(t, s))
			since := st.Reason.Since
			w.await(s, "the time is told anew", func(now graphmill.StreamStatus) bool { return now.Reason.Text != st.Reason.Text })
			require.Equal(t, since, w.status(s).Reason.Since)
			require.Len(t, w.log.with("stream waiting"), 1, "one line for it")

			(<-thaw)()
			close(thawed)
			st = w.awaitAcknowledged(s, 2)
			require.Equal(t, []string{"a", "b"}, w.applied(), "nothing was given up")
			require.Zero(t, st.Counters.Retries+st.Counters.UnknownCommits)
			w.awaitState(s, graphmill.StateRunning)
			require.Equal(t, 1.0, databaseUp(t, s))
		})
	}
}

// TestADatabaseThatIsFrozenStaysSoWhenACommitIsGivenUp: nothing has been heard of it.
func TestADatabaseThatIsFrozenStaysSoWhenACommitIsGivenUp(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	s := w.open(func(c *server.Config) { impatient(c); c.DrainTimeout = 50 * time.Millisecond })
	w.push(s)
	w.create(s, nil)
	w.start(s)
	w.bolt.SetHooks(boltserver.Hooks{OnCommit: func(boltserver.Transaction) boltserver.Reply {
		w.bolt.Freeze()
		return boltserver.Reply{Wait: make(chan struct{})}
	}})
	w.produce("a")
	w.await(s, "it is seen", unresponsive)
	require.NoError(t, stop(s)())
	require.EqualValues(t, 1, w.status(s).Counters.UnknownCommits)
	require.Zero(t, databaseUp(t, s))
}

// TestATransactionThatTakesLongIsNoOutage: the database answers others meanwhile.
func TestATransactionThatTakesLongIsNoOutage(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	held := make(chan struct{})
	var looks atomic.Int32
	w.bolt.SetHooks(boltserver.Hooks{
		OnCommit: func(boltserver.Transaction) boltserver.Reply { return boltserver.Reply{Wait: held} },
		OnRun: func(st boltserver.Statement) boltserver.Reply {
			if strings.HasPrefix(st.Query, "RETURN 1") {
				looks.Add(1)
			}
			return boltserver.Reply{}
		},
	})
	s := w.open(func(c *server.Config) { c.AnswerTimeout = 2 * time.Second })
	w.push(s)
	w.create(s, nil)
	w.start(s)
	before := looks.Load()
	w.produce("a")
	require.Eventually(t, func() bool { return looks.Load() > before+1 }, patience, 10*time.Millisecond)
	require.Equal(t, graphmill.StateRunning, w.status(s).State)
	require.Equal(t, 1.0, databaseUp(t, s))
	close(held)
	w.awaitAcknowledged(s, 1)
	require.Empty(t, w.log.with("stream waiting"))
}

// TestManyStreamsSeeADatabaseThatFreezes: they look in turn, and all hear of it.
func TestManyStreamsSeeADatabaseThatFreezes(t *testing.T) {
	w, s, names := crowd(t, 20, func(int) string { return "" }, impatient)
	for _, err := range all(names, func(name string) error {
		_, err := s.StartStream(context.Background(), name, server.StartRequest{})
		return err
	}) {
		require.NoError(t, err)
	}
	thaw := w.bolt.Freeze()
	defer thaw()
	w.produce("a")
	require.Eventually(t, func() bool {
		for _, name := range names {
			if st, err := s.StreamStatus(t.Context(), name); err != nil || !unresponsive(st) {
				return false
			}
		}
		return true
	}, patience, 10*time.Millisecond)
	thaw()
	require.Eventually(t, func() bool { return len(w.applied()) == len(names) }, patience, 10*time.Millisecond)
	require.Eventually(t, func() bool { return databaseUp(t, s) == 1 }, patience, 10*time.Millisecond)
}
