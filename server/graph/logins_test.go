package graph_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/integration/boltserver"
	"github.com/graphmill/graphmill/server/graph"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// crowd lets n streams execute a batch at once and returns what becomes of each.
func crowd(t *testing.T, sink *graph.Sink, n int) []error {
	t.Helper()
	sink.Lanes(n)
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			w := work(plainly("CREATE (:A)", 0))
			w.Stream = strconv.Itoa(i)
			if i%2 == 0 {
				_, errs[i] = sink.Execute(t.Context(), w)
			} else {
				errs[i] = sink.Verify(t.Context(), "database"+strconv.Itoa(i%7))
			}
		})
	}
	wg.Wait()
	return errs
}

// refusals refuse all logins, and keep when.
type refusals struct {
	mu sync.Mutex
	at []time.Time
}

func (r *refusals) hooks() boltserver.Hooks {
	return boltserver.Hooks{OnLogon: func(string) *boltserver.Failure {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.at = append(r.at, time.Now())
		return &boltserver.Failure{Code: "Neo.ClientError.Security.Unauthorized", Message: "no"}
	}}
}

// requireNoLock makes sure that no three were within the five seconds in which they
// lock an account. A busy machine takes longer than that for what these tests do.
func (r *refusals) requireNoLock(t *testing.T) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := 2; i < len(r.at); i++ {
		require.Greater(t, r.at[i].Sub(r.at[i-2]), 5*time.Second, "three lock the account")
	}
}

func TestCase32WrongPasswordOfManyLocksNoAccount(t *testing.T) {
	for _, scheme := range []string{"bolt://", "neo4j://"} {
		t.Run(scheme, func(t *testing.T) {
			var refused refusals
			s := start(t, refused.hooks())
			sink := openURI(t, scheme+s.Address(), func(c *graph.Config) { c.User, c.Password = "neo4j", "wrong" })
			for range 2 {
				for _, err := range crowd(t, sink, 200) {
					require.Equal(t, "auth", faultOf(t, err).Code)
				}
			}
			refused.requireNoLock(t)
		})
	}
}

func TestPasswordThatIsWrongAfterARestart(t *testing.T) {
	s := boltserver.Start(t, boltserver.Options{})
	sink := open(t, s, func(c *graph.Config) { c.User, c.Password = "neo4j", "x" })
	for _, err := range crowd(t, sink, 50) {
		require.NoError(t, err)
	}
	var refused refusals
	s.SetHooks(refused.hooks())
	s.Stop()
	require.NoError(t, s.Listen())
	// What was idle finds out first that its connection is dead.
	require.Equal(t, "database_unreachable", faultOf(t, sink.Verify(t.Context(), "")).Code)
	for _, err := range crowd(t, sink, 200) {
		require.Contains(t, []string{"auth", "database_unreachable"}, faultOf(t, err).Code)
	}
	for _, err := range crowd(t, sink, 200) {
		require.Equal(t, "auth", faultOf(t, err).Code)
	}
	refused.requireNoLock(t)
}

// TestPasswordThatWasChangedLocksNoAccount: that the database has answered a moment
// ago, by connections that there are, says nothing about new ones.
func TestPasswordThatWasChangedLocksNoAccount(t *testing.T) {
	const lanes = 50
	open := func(*boltserver.Server) {}
	for _, tc := range []struct {
		name, scheme string
		change       func(*boltserver.Server)
		files        bool // the password is read anew, and is another wrong one each time
	}{
		{"while connections are open", "bolt://", open, false},
		{"while connections are open, of a cluster", "neo4j://", open, false},
		{"and its file is wrong", "bolt://", open, true},
		{"and its file is wrong, of a cluster", "neo4j://", open, true},
		{"and all connections were lost", "bolt://", func(s *boltserver.Server) { s.CutConnections() }, false},
		{"and the database was started anew", "bolt://", func(s *boltserver.Server) { s.Stop(); require.NoError(t, s.Listen()) }, false},
		{"and connections are lost meanwhile", "bolt://", func(s *boltserver.Server) { go s.CutConnections() }, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := start(t, boltserver.Hooks{})
			reads := 0
			sink := openURI(t, tc.scheme+s.Address(), func(c *graph.Config) {
				c.User, c.Password = "neo4j", "x"
				if tc.files {
					c.ReadPassword = func() (string, error) { reads++; return strconv.Itoa(reads), nil }
				}
			})
			for _, err := range crowd(t, sink, 4) { // there are connections for a few
				require.NoError(t, err)
			}
			var refused refusals
			s.SetHooks(refused.hooks())
			tc.change(s)
			for range 2 {
				for _, err := range crowd(t, sink, lanes) {
					if err != nil {
						require.Contains(t, []string{"auth", "database_unreachable"}, faultOf(t, err).Code)
					}
				}
			}
			refused.requireNoLock(t)
		})
	}
}

// TestAllGoOnAfterRefusals is of a password that is mended after logins have been
// refused: those that are held back by then are let in a few seconds later.
func TestAllGoOnAfterRefusals(t *testing.T) {
	t.Parallel()
	var refused refusals
	s := start(t, refused.hooks())
	sink := open(t, s, func(c *graph.Config) { c.User, c.Password = "neo4j", "x" })
	for range 3 {
		require.Equal(t, "auth", faultOf(t, sink.Verify(t.Context(), "")).Code)
	}
	refused.requireNoLock(t)
	s.SetHooks(boltserver.Hooks{})
	require.Eventually(t, func() bool { return sink.Verify(t.Context(), "") == nil }, time.Minute, 50*time.Millisecond)
	for _, err := range crowd(t, sink, 50) {
		require.NoError(t, err)
	}
}

// TestMendedPasswordIsTriedAtOnce is of somebody who starts a stream by hand
// right after having set the right password in the database.
func TestMendedPasswordIsTriedAtOnce(t *testing.T) {
	var right atomic.Bool
	s := start(t, boltserver.Hooks{OnLogon: func(string) *boltserver.Failure {
		if right.Load() {
			return nil
		}
		return &boltserver.Failure{Code: "Neo.ClientError.Security.Unauthorized", Message: "no"}
	}})
	sink := open(t, s, func(c *graph.Config) { c.User, c.Password = "neo4j", "x" })
	require.Equal(t, "auth", faultOf(t, sink.Verify(t.Context(), "")).Code)
	right.Store(true)
	require.NoError(t, sink.Verify(t.Context(), ""))
	require.NoError(t, sink.Verify(t.Context(), "other"))
}

// TestPasswordThatWasExchangedIsReadAnew is of somebody who mends the file of the
// password, and starts the stream.
func TestPasswordThatWasExchangedIsReadAnew(t *testing.T) {
	s := boltserver.Start(t, boltserver.Options{User: "neo4j", Password: "right"})
	for _, scheme := range []string{"bolt://", "neo4j://"} {
		t.Run(scheme, func(t *testing.T) {
			file, reads := "", 0
			sink := openURI(t, scheme+s.Address(), func(c *graph.Config) {
				c.User, c.Password = "neo4j", "wrong"
				c.ReadPassword = func() (string, error) {
					reads++
					return file, nil
				}
			})
			require.Equal(t, "auth", faultOf(t, sink.Verify(t.Context(), "")).Code)
			require.Zero(t, reads, "nobody has asked since")
			file = "right"
			require.NoError(t, sink.Verify(t.Context(), ""))
			require.Equal(t, 1, reads)
			file = "not yet that of the database"
			for _, err := range crowd(t, sink, 20) {
				require.NoError(t, err)
			}
			require.Equal(t, 1, reads, "whoever is let in does not look")
		})
	}
	t.Run("a file that is gone", func(t *testing.T) {
		sink := openURI(t, "bolt://"+s.Address(), func(c *graph.Config) {
			c.User, c.Password = "neo4j", "wrong"
			c.ReadPassword = func() (string, error) { return "", errors.New("the file is gone") }
		})
		for range 2 {
			require.Equal(t, "auth", faultOf(t, sink.Verify(t.Context(), "")).Code)
		}
	})
}

func TestOneGoesAheadWhileTheDatabaseIsNotKnown(t *testing.T) {
	release := make(chan struct{})
	entered := make(chan struct{}, 100)
	s := start(t, boltserver.Hooks{OnLogon: func(string) *boltserver.Failure {
		entered <- struct{}{}
		<-release
		return nil
	}})
	sink := open(t, s)
	done := make(chan []error)
	go func() { done <- crowd(t, sink, 40) }()
	<-entered
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, sink.Verify(ctx, ""), context.DeadlineExceeded, "it waits, and leaves at once")
	require.Empty(t, entered, "one at a time")
	close(release)
	for _, err := range <-done {
		require.NoError(t, err)
	}
	require.Greater(t, s.Logons(), int64(1))
}

// TestLaneThatWorksLongHoldsUpNobody: it is known to be let in once its
// transaction has begun.
func TestLaneThatWorksLongHoldsUpNobody(t *testing.T) {
	release := make(chan struct{})
	hooks, entered := holding(release)
	sink := open(t, start(t, hooks))
	done := make(chan error)
	go func() {
		_, err := sink.Execute(t.Context(), work(plainly("CREATE (:Slow)", 0)))
		done <- err
	}()
	<-entered
	require.NoError(t, sink.Verify(t.Context(), ""))
	close(release)
	require.NoError(t, <-done)
}

func TestWhoeverWaitedHearsOfTheOutage(t *testing.T) {
	release := make(chan struct{})
	var once sync.Once
	entered := make(chan struct{})
	s := start(t, boltserver.Hooks{OnBegin: func(boltserver.Transaction) boltserver.Reply {
		once.Do(func() { close(entered) })
		return boltserver.Reply{Wait: release, Cut: boltserver.CutBefore}
	}})
	sink := open(t, s)
	first := make(chan error)
	go func() {
		_, err := sink.Execute(t.Context(), work(plainly("CREATE (:A)", 0)))
		first <- err
	}()
	<-entered
	rest := make(chan error)
	for range 20 {
		go func() { rest <- sink.Verify(t.Context(), "") }()
	}
	close(release)
	require.Equal(t, "database_unreachable", faultOf(t, <-first).Code)
	for range 20 {
		if err := <-rest; err != nil { // or it came later, and was answered
			f := faultOf(t, err)
			require.Equal(t, "database_unreachable", f.Code)
			require.True(t, strings.Contains(f.Text, "closed the connection"), f.Text)
		}
	}
}

// TestLaneWhoseConnectionIsSilentHoldsUpNobody: who went ahead hears nothing, as by a
// connection that a firewall has forgotten, and the database answers by others.
func TestLaneWhoseConnectionIsSilentHoldsUpNobody(t *testing.T) {
	release := make(chan struct{})
	entered := make(chan struct{})
	s := start(t, boltserver.Hooks{OnBegin: func(boltserver.Transaction) boltserver.Reply {
		close(entered)
		return boltserver.Reply{Wait: release}
	}})
	sink := open(t, s, func(c *graph.Config) { c.ConnectTimeout = 2 * time.Second })
	first := make(chan error)
	go func() {
		_, err := sink.Execute(t.Context(), work(plainly("CREATE (:A)", 0)))
		first <- err
	}()
	<-entered
	eventually(t, func() bool { return sink.Verify(t.Context(), "") == nil })
	close(release)
	require.NoError(t, <-first)
}

// TestLoginsThatTakeLongAreNoOutage is of a provider of logins that is slow, and of more
// streams than it serves within the time for a connection.
func TestLoginsThatTakeLongAreNoOutage(t *testing.T) {
	t.Parallel()
	s := start(t, boltserver.Hooks{OnLogon: func(string) *boltserver.Failure {
		<-time.After(200 * time.Millisecond)
		return nil
	}})
	sink := open(t, s, func(c *graph.Config) { c.ConnectTimeout = 3 * time.Second })
	require.NoError(t, sink.Verify(t.Context(), ""))
	sink.Lanes(40)
	var lanes sync.WaitGroup
	for range 40 {
		lanes.Go(func() {
			_, err := sink.Execute(t.Context(), work(plainly("CREATE (:A)", 0)))
			for err != nil {
				if f := err.(*graphmill.Fault); !assert.Equal(t, "connections_exhausted", f.Code, f.Text) {
					return
				}
				_, err = sink.Execute(t.Context(), work(plainly("CREATE (:A)", 0)))
			}
		})
	}
	lanes.Wait()
}
