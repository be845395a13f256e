package graph_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/integration/boltserver"
	"github.com/graphmill/graphmill/server/graph"
	"github.com/stretchr/testify/require"
)

var _ graphmill.Sink = (*graph.Sink)(nil)

func TestOpenRefuses(t *testing.T) {
	for _, tc := range []struct {
		name, field, text string
		cfg               graph.Config
	}{
		{"nothing", "graph_uri", `the scheme "" is not known; bolt, bolt+s, bolt+ssc, neo4j, neo4j+s, neo4j+ssc are`, graph.Config{}},
		{"another scheme", "graph_uri", `the scheme "http" is not known`, graph.Config{URI: "http://localhost:7474"}},
		{"no scheme", "graph_uri", `the scheme "localhost" is not known`, graph.Config{URI: "localhost:7687"}},
		{"no host", "graph_uri", "a host is missing, as in bolt://localhost:7687", graph.Config{URI: "bolt://"}},
		{"no URI", "graph_uri", "cannot be read", graph.Config{URI: "bolt://very-secret:x y@host:port"}},
		{"a password in it", "graph_uri", "must not stand in it", graph.Config{URI: "bolt://neo4j:very-secret@localhost"}},
		{"a path", "graph_uri", "a path has no meaning", graph.Config{URI: "bolt://localhost/movies"}},
		{"a query", "graph_uri", "with neo4j:// only", graph.Config{URI: "bolt://localhost?policy=eu"}},
		{"a query that the driver refuses", "graph_uri", "Illegal key 'address'", graph.Config{URI: "neo4j://localhost?address=x"}},
		{"a password without a user", "graph_user", "no user", graph.Config{URI: "bolt://localhost", Password: "very-secret"}},
		{"connections", "graph_max_connections", "-1 is below 1", graph.Config{URI: "bolt://localhost", MaxConnections: -1}},
		{"time to connect", "connect_timeout", "-1s is below 0", graph.Config{URI: "bolt://localhost", ConnectTimeout: -time.Second}},
		{"time of a transaction", "transaction_timeout", "-1s is below 0", graph.Config{URI: "bolt://localhost", TransactionTimeout: -time.Second}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := graph.Open(tc.cfg)
			require.Equal(t, graphmill.KindInvalid, graphmill.KindOf(err))
			var e *graphmill.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, tc.field, e.Field)
			require.Contains(t, err.Error(), tc.text)
			require.NotContains(t, err.Error(), "very-secret")
		})
	}
}

func TestOpenNeedsNoDatabase(t *testing.T) {
	for _, uri := range []string{"bolt://nowhere.invalid", "bolt://nowhere.invalid:7688/", "neo4j://nowhere.invalid?policy=eu", "bolt+s://[::1]:7687"} {
		openURI(t, uri)
	}
}

// buffer takes what several goroutines write.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func TestLogHoldsNoPassword(t *testing.T) {
	var log buffer
	s := boltserver.Start(t, boltserver.Options{User: "neo4j", Password: "very-secret"})
	sink := open(t, s, func(c *graph.Config) {
		c.User, c.Password = "neo4j", "very-secret"
		c.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	_, err := sink.Execute(t.Context(), work(rated(3)...))
	require.NoError(t, err)
	require.Contains(t, log.String(), "database driver: ")
	require.Contains(t, log.String(), "server=Neo4j/5.26.0")
	require.NotContains(t, log.String(), "very-secret")
}

// holding returns hooks that hold every CREATE until release is closed, and a
// channel that tells of each.
func holding(release chan struct{}) (boltserver.Hooks, chan struct{}) {
	entered := make(chan struct{}, 100)
	return boltserver.Hooks{OnRun: func(st boltserver.Statement) boltserver.Reply {
		if !strings.HasPrefix(st.Query, "CREATE") {
			return boltserver.Reply{}
		}
		entered <- struct{}{}
		return boltserver.Reply{Wait: release}
	}}, entered
}

func TestCase32ConnectionsInUse(t *testing.T) {
	release := make(chan struct{})
	hooks, entered := holding(release)
	s := start(t, hooks)
	sink := open(t, s, func(c *graph.Config) { c.MaxConnections, c.ConnectTimeout = 1, 2*time.Second })
	done := make(chan error)
	go func() {
		_, err := sink.Execute(t.Context(), work(plainly("CREATE (:A)", 0)))
		done <- err
	}()
	<-entered

	f := faultOf(t, sink.Verify(t.Context(), ""))
	require.Equal(t, "connections_exhausted", f.Code)
	require.Equal(t, graphmill.FaultTransient, f.Class)
	require.True(t, f.Outage)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, sink.Verify(ctx, ""), context.DeadlineExceeded)

	close(release)
	require.NoError(t, <-done)
	require.NoError(t, sink.Verify(t.Context(), ""))
}

func TestCloseWaitsForBatches(t *testing.T) {
	release := make(chan struct{})
	hooks, entered := holding(release)
	s := start(t, hooks)
	sink := open(t, s)
	done := make(chan error)
	go func() {
		_, err := sink.Execute(t.Context(), work(plainly("CREATE (:A)", 0)))
		done <- err
	}()
	<-entered
	closed := make(chan error)
	go func() { closed <- sink.Close(t.Context()) }()
	eventually(t, func() bool { return sink.Verify(t.Context(), "") != nil }) // none is begun any more
	close(release)
	require.NoError(t, <-done)
	require.NoError(t, <-closed)
	eventually(t, func() bool { return s.Connections() == 0 })

	_, err := sink.Execute(t.Context(), work(plainly("CREATE (:A)", 0)))
	require.True(t, faultOf(t, err).Outage)
	require.NoError(t, sink.Close(t.Context()), "a second time")
}

func TestCloseCancelsWhatDoesNotEnd(t *testing.T) {
	for name, atCommit := range map[string]bool{"in a statement": false, "in COMMIT": true} {
		t.Run(name, func(t *testing.T) {
			hooks, entered := holding(nil)
			hold := boltserver.Reply{Wait: make(chan struct{})}
			if atCommit {
				hooks.OnCommit = func(boltserver.Transaction) boltserver.Reply { return hold }
			} else {
				run := hooks.OnRun
				hooks.OnRun = func(st boltserver.Statement) boltserver.Reply { run(st); return hold }
			}
			s := start(t, hooks)
			sink := open(t, s)
			done := make(chan error)
			go func() {
				_, err := sink.Execute(t.Context(), work(plainly("CREATE (:A)", 0)))
				done <- err
			}()
			<-entered
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			require.NoError(t, sink.Close(ctx))
			f := faultOf(t, <-done)
			require.Equal(t, graphmill.FaultTransient, f.Class)
			require.Equal(t, atCommit, f.Unknown)
			require.Contains(t, f.Text, "being closed")
		})
	}
}

func TestServerThatHangsIsGivenUp(t *testing.T) {
	s := start(t, boltserver.Hooks{OnRun: func(boltserver.Statement) boltserver.Reply {
		return boltserver.Reply{Wait: make(chan struct{})}
	}})
	sink := open(t, s, func(c *graph.Config) { c.ConnectTimeout = time.Second })
	f := faultOf(t, sink.Verify(t.Context(), ""))
	require.Equal(t, "database_unreachable", f.Code)
	require.Contains(t, f.Text, "it does not answer")
}

func TestRememberedTextsAreCut(t *testing.T) {
	s := start(t, boltserver.Hooks{})
	sink := open(t, s)
	_, err := sink.Execute(t.Context(), work(plainly("CREATE (n {x: '"+strings.Repeat("ä", 500)+"'})", 0)))
	require.NoError(t, err)
	text := sink.Texts("s")[0]
	require.LessOrEqual(t, len(text.Query), 200)
	require.True(t, strings.HasSuffix(text.Query, "ä..."), text.Query)
	require.Len(t, text.Hash, 12)
}
