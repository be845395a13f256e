package graph_test

import (
	"context"
	"math"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/integration/boltserver"
	"github.com/graphmill/graphmill/server/graph"
	"github.com/stretchr/testify/require"
)

func TestBatchIsOneTransaction(t *testing.T) {
	s := start(t, boltserver.Hooks{})
	sink := open(t, s, func(c *graph.Config) { c.TransactionTimeout = 7 * time.Second; c.UserAgent = "mill/1" })
	w := work(plainly("CREATE (:A)", 0), plainly("CREATE (:B)", 1), plainly("CREATE (:C)", 1))
	w.Database = "movies"
	require.NoError(t, sink.Verify(t.Context(), "movies")) // so that the connection stands
	flights := s.Flights()

	done, err := sink.Execute(t.Context(), w)
	require.NoError(t, err)
	require.Equal(t, graphmill.Executed{Statements: 3, Sent: 3}, done)
	require.EqualValues(t, 5, s.Flights()-flights, "one a statement, and BEGIN and COMMIT")

	committed := s.Committed()
	require.Len(t, committed, 1)
	tx := committed[0]
	require.Equal(t, []string{"CREATE (:A)", "CREATE (:B)", "CREATE (:C)"}, queries(tx))
	require.Equal(t, "movies", tx.Database)
	require.Equal(t, 7*time.Second, tx.Timeout)
	require.False(t, tx.ReadOnly)
	require.Equal(t, map[string]any{"app": "graphmill", "stream": "s", "positions": "ratings/2:100-102"}, tx.Metadata)
	require.Equal(t, []string{"mill/1"}, s.UserAgents())
	require.Zero(t, explained(s))
}

func TestNoStatementsTakeNoTransaction(t *testing.T) {
	s := start(t, boltserver.Hooks{})
	sink := open(t, s)
	done, err := sink.Execute(t.Context(), work())
	require.NoError(t, err)
	require.Zero(t, done)
	require.Zero(t, s.Flights())
}

func TestBadRowOfARunIsNamed(t *testing.T) {
	s := start(t, boltserver.Hooks{OnRun: func(st boltserver.Statement) boltserver.Reply {
		for _, row := range st.Rows() {
			if row["id"] == int64(7) {
				return boltserver.Fail("Neo.ClientError.Schema.ConstraintValidationFailed", "Node(2) already exists")
			}
		}
		return boltserver.Reply{}
	}})
	sink := open(t, s)
	_, err := sink.Execute(t.Context(), work(rated(10)...))
	f := faultOf(t, err)
	require.Equal(t, graphmill.FaultMessage, f.Class)
	require.Equal(t, 7, f.Message)
	require.Contains(t, f.Text, "Neo.ClientError.Schema.ConstraintValidationFailed: Node(2) already exists")
	require.Contains(t, f.Text, "MERGE (u:User")
	require.Empty(t, s.Committed())
	require.Len(t, s.RolledBack(), 2)
	require.Len(t, s.RolledBack()[1].Statements, 7)
}

func TestFailuresNameTheStatement(t *testing.T) {
	failing := boltserver.Failure{Code: "Neo.ClientError.Statement.TypeError", Message: "no"}
	for name, reply := range map[string]boltserver.Reply{
		"at RUN":  {Failure: &failing},
		"at PULL": {LateFailure: &failing},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, boltserver.Hooks{OnRun: func(st boltserver.Statement) boltserver.Reply {
				if st.Query == "CREATE (:B)" {
					return reply
				}
				return boltserver.Reply{}
			}})
			sink := open(t, s)
			_, err := sink.Execute(t.Context(), work(plainly("CREATE (:A)", 3), plainly("CREATE (:B)", 5), plainly("CREATE (:C)", 6)))
			require.Equal(t, 5, faultOf(t, err).Message)
			require.Len(t, s.RolledBack(), 1)

			// The connection is good for the next one.
			_, err = sink.Execute(t.Context(), work(plainly("CREATE (:A)", 3)))
			require.NoError(t, err)
		})
	}
}

func TestConnectionIsGoodAfterParametersThatTheDatabaseCannotRead(t *testing.T) {
	s := start(t, boltserver.Hooks{OnRun: func(st boltserver.Statement) boltserver.Reply {
		if st.Query == "CREATE (:Bad)" {
			return boltserver.Reply{Failure: &boltserver.Failure{Code: "Neo.ClientError.Request.Invalid"}, FailPull: true}
		}
		return boltserver.Reply{}
	}})
	sink := open(t, s)
	for name, next := range map[string]func() error{
		"a batch":          func() error { _, err := sink.Execute(t.Context(), work(plainly("CREATE (:A)", 0))); return err },
		"a look":           func() error { return sink.Verify(t.Context(), "") },
		"a text's verdict": func() error { _, err := sink.Execute(t.Context(), work(rated(3)...)); return err },
	} {
		t.Run(name, func(t *testing.T) {
			_, err := sink.Execute(t.Context(), work(plainly("CREATE (:Bad)", 0)))
			require.Equal(t, graphmill.FaultMessage, faultOf(t, err).Class)
			require.NoError(t, next())
		})
	}
	require.EqualValues(t, 1, s.Logons())
}

func TestCommitThatFails(t *testing.T) {
	for _, tc := range []struct {
		name      string
		reply     boltserver.Reply
		class     graphmill.FaultClass
		unknown   bool
		committed int
	}{
		{"by a constraint", boltserver.Fail("Neo.ClientError.Schema.ConstraintValidationFailed", "no"), graphmill.FaultMessage, false, 0},
		{"by a deadlock", boltserver.Fail("Neo.TransientError.Transaction.DeadlockDetected", "no"), graphmill.FaultTransient, false, 0},
		{"while the database goes down", boltserver.Fail("Neo.TransientError.General.DatabaseUnavailable", "no"), graphmill.FaultTransient, true, 0},
		{"by the loss of the connection before it", boltserver.Reply{Cut: boltserver.CutBefore}, graphmill.FaultTransient, true, 0},
		{"by the loss of the connection after it", boltserver.Reply{Cut: boltserver.CutAfter}, graphmill.FaultTransient, true, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := start(t, boltserver.Hooks{OnCommit: func(boltserver.Transaction) boltserver.Reply { return tc.reply }})
			_, err := open(t, s).Execute(t.Context(), work(rated(3)...))
			f := faultOf(t, err)
			require.Equal(t, tc.class, f.Class)
			require.Equal(t, tc.unknown, f.Unknown)
			require.Equal(t, tc.unknown, f.Outage)
			require.Equal(t, graphmill.WholeBatch, f.Message)
			require.Len(t, s.Committed(), tc.committed)
		})
	}
}

func TestLostConnection(t *testing.T) {
	begin := func(c boltserver.Cut) boltserver.Hooks {
		return boltserver.Hooks{OnBegin: func(boltserver.Transaction) boltserver.Reply { return boltserver.Reply{Cut: c} }}
	}
	run := func(r boltserver.Reply) boltserver.Hooks {
		return boltserver.Hooks{OnRun: func(st boltserver.Statement) boltserver.Reply {
			if st.Query == "CREATE (:B)" {
				return r
			}
			return boltserver.Reply{}
		}}
	}
	commit := func(c boltserver.Cut) boltserver.Hooks {
		return boltserver.Hooks{OnCommit: func(boltserver.Transaction) boltserver.Reply { return boltserver.Reply{Cut: c} }}
	}
	for _, tc := range []struct {
		name      string
		hooks     boltserver.Hooks
		unknown   bool
		committed int
	}{
		{"before BEGIN", begin(boltserver.CutBefore), false, 0},
		{"after BEGIN", begin(boltserver.CutAfter), false, 0},
		{"before a statement", run(boltserver.Reply{Cut: boltserver.CutBefore}), false, 0},
		{"after a statement", run(boltserver.Reply{Cut: boltserver.CutAfter}), false, 0},
		{"at the result of a statement", run(boltserver.Reply{CutPull: true}), false, 0},
		{"before COMMIT", commit(boltserver.CutBefore), true, 0},
		{"after COMMIT", commit(boltserver.CutAfter), true, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := start(t, tc.hooks)
			sink := open(t, s)
			w := work(plainly("CREATE (:A)", 0), plainly("CREATE (:B)", 1))
			_, err := sink.Execute(t.Context(), w)
			f := faultOf(t, err)
			require.Equal(t, transient, f.Class)
			require.Equal(t, "database_unreachable", f.Code)
			require.True(t, f.Outage)
			require.Equal(t, tc.unknown, f.Unknown)
			require.Len(t, s.Committed(), tc.committed)

			s.SetHooks(boltserver.Hooks{})
			_, err = sink.Execute(t.Context(), w)
			require.NoError(t, err)
			require.Len(t, s.Committed(), tc.committed+1)
		})
	}
}

func TestCase31ContextThatEndsOnTheWayToTheDatabase(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer silent.Close()
	hold := make(chan struct{})
	defer close(hold)
	inLogon := boltserver.Hooks{OnLogon: func(string) *boltserver.Failure { <-hold; return nil }}
	for name, uri := range map[string]string{
		"connecting":                "bolt://" + silent.Addr().String(),
		"connecting with TLS":       "bolt+ssc://" + silent.Addr().String(),
		"connecting to a cluster":   "neo4j://" + silent.Addr().String(),
		"logging in":                start(t, inLogon).URI(),
		"logging in to a cluster":   strings.Replace(start(t, inLogon).URI(), "bolt:", "neo4j:", 1),
		"a name that nobody knows":  "bolt://nowhere.invalid",
		"a network without answers": "bolt://192.0.2.1",
	} {
		t.Run(name, func(t *testing.T) {
			sink := openURI(t, uri, func(c *graph.Config) { c.ConnectTimeout = time.Hour })
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 2)
			for _, call := range []func() error{
				func() error { return sink.Verify(ctx, "") },
				func() error { _, err := sink.Execute(ctx, work(rated(3)...)); return err },
			} {
				go func() { done <- call() }()
			}
			select { // one is on its way, the other waits for it
			case <-time.After(50 * time.Millisecond):
			case <-t.Context().Done():
			}
			cancel()
			for range 2 {
				err := promptly(t, done)
				if f, ok := err.(*graphmill.Fault); ok { // the name was looked up before
					require.Equal(t, "database_unreachable", f.Code)
					continue
				}
				require.ErrorIs(t, err, context.Canceled)
			}
		})
	}
}

func TestCancelledContextEndsTheCallAtOnce(t *testing.T) {
	held := make(chan struct{}, 1)
	hold := boltserver.Reply{Wait: make(chan struct{})} // for ever
	for _, tc := range []struct {
		name    string
		hooks   boltserver.Hooks
		unknown bool
	}{
		{"in BEGIN", boltserver.Hooks{OnBegin: func(boltserver.Transaction) boltserver.Reply { held <- struct{}{}; return hold }}, false},
		{"in a statement", boltserver.Hooks{OnRun: func(boltserver.Statement) boltserver.Reply { held <- struct{}{}; return hold }}, false},
		{"in COMMIT", boltserver.Hooks{OnCommit: func(boltserver.Transaction) boltserver.Reply { held <- struct{}{}; return hold }}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := start(t, tc.hooks)
			sink := open(t, s)
			ctx, cancel := context.WithCancel(t.Context())
			go func() { <-held; cancel() }()
			done := make(chan error, 1)
			go func() {
				_, err := sink.Execute(ctx, work(plainly("CREATE (:A)", 0)))
				done <- err
			}()
			err := promptly(t, done)
			require.ErrorIs(t, err, context.Canceled)
			if tc.unknown {
				require.True(t, faultOf(t, err).Unknown)
			}
			eventually(t, func() bool { return s.Connections() == 0 })
			require.Empty(t, s.Committed())
		})
	}
	t.Run("while another examines the text", func(t *testing.T) {
		s := start(t, boltserver.Hooks{OnRun: func(boltserver.Statement) boltserver.Reply { held <- struct{}{}; return hold }})
		sink := open(t, s)
		first, cancelFirst := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			_, err := sink.Execute(first, work(rated(3)...))
			done <- err
		}()
		<-held
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		_, err := sink.Execute(ctx, work(rated(3)...))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		cancelFirst()
		require.ErrorIs(t, <-done, context.Canceled)

		// Nobody is left waiting for the one that was cancelled.
		s.SetHooks(boltserver.Hooks{})
		_, err = sink.Execute(t.Context(), work(rated(3)...))
		require.NoError(t, err)
	})
	t.Run("before anything is done", func(t *testing.T) {
		s := start(t, boltserver.Hooks{})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := open(t, s).Execute(ctx, work(rated(3)...))
		require.ErrorIs(t, err, context.Canceled)
		require.Zero(t, s.Logons())
	})
}

func TestUnsendableValueSendsNothing(t *testing.T) {
	deep := any(int64(1))
	for range 1000 {
		deep = []any{deep}
	}
	for name, v := range map[string]any{
		"a structure":          struct{ A int }{1},
		"within a list":        []any{int64(1), uint64(math.MaxUint64)},
		"within a map":         map[string]any{"a": map[string]any{"b": int32(1)}},
		"nested without end":   deep,
		"a pointer to a value": new(int64),
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, boltserver.Hooks{})
			bad := rated(3)
			bad[2].Params = map[string]any{"id": v, "rating": 1.0}
			_, err := open(t, s).Execute(t.Context(), work(bad...))
			f := faultOf(t, err)
			require.Equal(t, graphmill.FaultMessage, f.Class)
			require.Equal(t, 2, f.Message)
			require.Contains(t, f.Text, "statement 3 (MERGE")
			require.Contains(t, f.Text, "parameter id: ")
			require.Zero(t, s.Logons())
		})
	}
	t.Run("values and names that do not match", func(t *testing.T) {
		s := start(t, boltserver.Hooks{})
		q := &graphmill.Query{Text: rate.Text, Names: []string{"id", "rating"}}
		_, err := open(t, s).Execute(t.Context(), work(graphmill.Statement{Query: q, Values: []any{int64(1)}}))
		require.Contains(t, faultOf(t, err).Text, "1 values for 2 parameters")
	})
}

func TestEachTransactionFollowsTheOneBefore(t *testing.T) {
	s := start(t, boltserver.Hooks{})
	sink := open(t, s)
	run := func(stream string) {
		t.Helper()
		w := work(plainly("CREATE (:A)", 0))
		w.Stream = stream
		_, err := sink.Execute(t.Context(), w)
		require.NoError(t, err)
	}
	run("a")
	run("a")
	run("b")
	c := s.Committed()
	require.Empty(t, c[0].Bookmarks)
	require.Equal(t, []string{"boltserver:" + strconv.FormatInt(c[0].ID, 10)}, c[1].Bookmarks)
	require.Empty(t, c[2].Bookmarks, "of another stream")

	// A bookmark that the database does not know any more does not stand in the
	// way for ever.
	s.SetHooks(boltserver.Hooks{OnBegin: func(tx boltserver.Transaction) boltserver.Reply {
		if len(tx.Bookmarks) > 0 {
			return boltserver.Fail("Neo.TransientError.Transaction.BookmarkTimeout", "not up to date")
		}
		return boltserver.Reply{}
	}})
	_, err := sink.Execute(t.Context(), work(plainly("CREATE (:A)", 0)))
	require.NoError(t, err, "stream s has none")
	w := work(plainly("CREATE (:A)", 0))
	w.Stream = "a"
	_, err = sink.Execute(t.Context(), w)
	require.Equal(t, graphmill.FaultTransient, faultOf(t, err).Class)
	run("a")
}

func TestPositionsInTheMetadataAreBounded(t *testing.T) {
	s := start(t, boltserver.Hooks{})
	w := work(plainly("CREATE (:A)", 0))
	w.First, w.Last = nil, nil
	for i := range 500 {
		at := graphmill.TopicPartition{Topic: "a-topic-with-a-long-name", Partition: int32(i)}
		w.First = append(w.First, graphmill.Position{TopicPartition: at, Offset: 10})
		w.Last = append(w.Last, graphmill.Position{TopicPartition: at, Offset: 20})
	}
	_, err := open(t, s).Execute(t.Context(), w)
	require.NoError(t, err)
	positions := s.Committed()[0].Metadata["positions"].(string)
	require.Less(t, len(positions), 1100)
	require.True(t, strings.HasPrefix(positions, "a-topic-with-a-long-name/0:10-19, a-topic-with-a-long-name/1:10-19, "), positions)
	require.Regexp(t, ` and \d+ more$`, positions)
}

func TestConcurrentBatches(t *testing.T) {
	s := start(t, boltserver.Hooks{})
	sink := open(t, s, func(c *graph.Config) { c.MaxConnections = 4 })
	errs := make(chan error)
	for i := range 16 {
		go func() {
			w := work(rated(3)...)
			w.Stream = strconv.Itoa(i % 3)
			_, err := sink.Execute(t.Context(), w)
			errs <- err
		}()
	}
	for range 16 {
		require.NoError(t, <-errs)
	}
	require.Len(t, s.Committed(), 16)
	require.Equal(t, 2, explained(s), "those that came at once waited for the one that examined the text")
	require.LessOrEqual(t, s.Logons(), int64(4))
}
