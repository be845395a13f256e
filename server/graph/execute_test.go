package graph_test

import (
	"context"
	"math"
	"slices"
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

func TestRunIsCoalesced(t *testing.T) {
	s := start(t, boltserver.Hooks{})
	sink := open(t, s, func(c *graph.Config) { c.Database = "movies" })
	done, err := sink.Execute(t.Context(), work(rated(5)...))
	require.NoError(t, err)
	require.Equal(t, graphmill.Executed{Statements: 5, Sent: 1}, done)

	const form = "UNWIND $rows AS __gm CALL (__gm) { MERGE (u:User {id: __gm.`id`}) SET u.rating = __gm.`rating`\n} FINISH"
	tx := s.Committed()[0]
	require.Len(t, tx.Statements, 1)
	require.Equal(t, form, tx.Statements[0].Query)
	require.Len(t, tx.Statements[0].Params["rows"], 5)
	require.Equal(t, map[string]any{"id": int64(4), "rating": 1.5}, tx.Statements[0].Rows()[4])

	// The database has been asked about both forms first, and about its indexes.
	asked := s.Autocommitted()
	require.Len(t, asked, 3)
	require.Equal(t, boltserver.Statement{Query: "EXPLAIN " + rate.Text, Params: map[string]any{}, Database: "movies"}, asked[0].Statements[0])
	require.Equal(t, boltserver.Statement{Query: "EXPLAIN " + form, Params: map[string]any{"rows": []any{}}, Database: "movies"}, asked[1].Statements[0])
	require.Contains(t, asked[2].Statements[0].Query, "SHOW INDEXES")
	require.Less(t, asked[2].ID, tx.ID, "before the transaction begins")

	// It is asked once.
	flights := s.Flights()
	_, err = sink.Execute(t.Context(), work(rated(2)...))
	require.NoError(t, err)
	require.EqualValues(t, 3, s.Flights()-flights)
	require.Equal(t, []graphmill.TextStatus{{Hash: "03356168fe90", Query: rate.Text, Form: "coalesced"}}, sink.Texts("s"))
	require.Empty(t, sink.Texts("another"))
}

func TestRunsKeepTheOrder(t *testing.T) {
	s := start(t, boltserver.Hooks{})
	sink := open(t, s)
	r := rated(6)
	_, err := sink.Execute(t.Context(), work(r[0], r[1], r[2], plainly("MATCH (u) DETACH DELETE u", 3), r[3], plainly("CREATE (:A)", 4), r[4], r[5]))
	require.NoError(t, err)
	tx := s.Committed()[0]
	require.Equal(t, []string{"COALESCED 3", "MATCH (u) DETACH DELETE u", rate.Text, "CREATE (:A)", "COALESCED 2"}, queries(tx))
	require.Equal(t, int64(4), tx.Statements[4].Rows()[0]["id"])
	require.Equal(t, int64(5), tx.Statements[4].Rows()[1]["id"])
}

func TestValuesByPosition(t *testing.T) {
	s := start(t, boltserver.Hooks{})
	sink := open(t, s)
	// The same text with its parameters in different orders, one of them not used.
	one := &graphmill.Query{Text: rate.Text, Names: []string{"unused", "rating", "id"}}
	two := &graphmill.Query{Text: rate.Text, Names: []string{"id", "rating"}}
	_, err := sink.Execute(t.Context(), work(
		graphmill.Statement{Query: one, Values: []any{"x", 1.0, int64(1)}},
		graphmill.Statement{Query: two, Values: []any{int64(2), 2.0}},
		graphmill.Statement{Query: rate, Params: map[string]any{"id": int64(3), "rating": 3.0, "unused": "x"}},
		plainly("CREATE (:A)", 3),
		graphmill.Statement{Query: two, Values: []any{int64(4), 4.0}},
	))
	require.NoError(t, err)
	tx := s.Committed()[0]
	require.Equal(t, []string{"COALESCED 3", "CREATE (:A)", rate.Text}, queries(tx))
	require.Equal(t, []map[string]any{
		{"id": int64(1), "rating": 1.0}, {"id": int64(2), "rating": 2.0}, {"id": int64(3), "rating": 3.0},
	}, tx.Statements[0].Rows())
	require.Equal(t, map[string]any{"id": int64(4), "rating": 4.0}, tx.Statements[2].Params)
}

func TestTextWithoutParametersIsCoalesced(t *testing.T) {
	s := start(t, boltserver.Hooks{})
	sink := open(t, s)
	tick := &graphmill.Query{Text: "MATCH (c:Counter) SET c.n = c.n + 1"}
	st := graphmill.Statement{Query: tick, Params: map[string]any{"unused": int64(1)}}
	_, err := sink.Execute(t.Context(), work(st, st, st))
	require.NoError(t, err)
	require.Equal(t, map[string]any{"rows": []any{map[string]any{}, map[string]any{}, map[string]any{}}}, s.Committed()[0].Statements[0].Params)
}

func TestTextIsExaminedOnlyWhenItComesOften(t *testing.T) {
	s := start(t, boltserver.Hooks{})
	sink := open(t, s)
	for batch, want := range [][]string{{rate.Text, rate.Text}, {rate.Text, rate.Text}, {"COALESCED 2"}} {
		_, err := sink.Execute(t.Context(), work(rated(2)...))
		require.NoError(t, err)
		require.Equal(t, want, queries(s.Committed()[batch]), "batch %d", batch+1)
		if batch < 2 {
			require.Zero(t, explained(s))
			require.Equal(t, "plain", sink.Texts("s")[0].Form)
			require.Contains(t, sink.Texts("s")[0].Why, "not come often enough")
		}
	}
}

func TestTextsThatNeverRepeatAreNotExaminedForEver(t *testing.T) {
	s := start(t, boltserver.Hooks{})
	sink := open(t, s)
	for batch := range 50 {
		q := plainly("CREATE (:N {x: "+strconv.Itoa(batch)+"})", 0)
		_, err := sink.Execute(t.Context(), work(q, q, q))
		require.NoError(t, err)
	}
	require.Equal(t, 64, explained(s), "two for each of 32 texts")
	require.Contains(t, sink.Texts("s")[0].Why, "put what differs into parameters")
	require.Len(t, sink.Texts("s"), 50)

	// Another stream has trials of its own.
	w := work(rated(3)...)
	w.Stream = "t"
	_, err := sink.Execute(t.Context(), w)
	require.NoError(t, err)
	require.Equal(t, 66, explained(s))
}

func TestWhatIsNotCoalesced(t *testing.T) {
	refuse := func(part, code string) boltserver.Hooks {
		return boltserver.Hooks{OnRun: func(st boltserver.Statement) boltserver.Reply {
			if strings.HasPrefix(st.Query, "EXPLAIN ") && strings.Contains(st.Query, part) {
				return boltserver.Fail(code, "no\nsuch thing")
			}
			return boltserver.Reply{}
		}}
	}
	const syntax = "Neo.ClientError.Statement.SyntaxError"
	lacking := rated(3)
	lacking[1].Params = map[string]any{"id": int64(1)}
	for _, tc := range []struct {
		name       string
		hooks      boltserver.Hooks
		off        bool
		statements []graphmill.Statement
		why        string
		explained  int // in two batches
	}{
		{"with COALESCE off", boltserver.Hooks{}, true, rated(3), "COALESCE is off", 0},
		{"statements that never stand side by side", boltserver.Hooks{}, false,
			[]graphmill.Statement{rated(1)[0], plainly("CREATE (:A)", 0), rated(1)[0], plainly("CREATE (:A)", 0), rated(1)[0]}, "never stands twice in a row", 0},
		{"a text of which the tokens speak against it", boltserver.Hooks{}, false,
			slices.Repeat([]graphmill.Statement{plainly("MATCH (__gm) DELETE __gm", 0)}, 3), "uses the name __gm", 0},
		{"a text that the database refuses", refuse("", syntax), false, rated(3), "Neo.ClientError.Statement.SyntaxError: no such thing", 0},
		{"a text of which it refuses the coalesced form", refuse("UNWIND", syntax), false, rated(3), "refuses the coalesced form: Neo.ClientError", 1},
		{"a text that takes too long to plan", refuse("UNWIND", "Neo.ClientError.Transaction.TransactionTimedOutClientConfiguration"), false, rated(3), "TimedOut", 1},
		{"a statement that lacks a parameter", boltserver.Hooks{}, false, lacking, "lacks the parameter rating", 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := start(t, tc.hooks)
			sink := open(t, s)
			for batch := range 2 {
				w := work(tc.statements...)
				w.Coalesce = !tc.off
				done, err := sink.Execute(t.Context(), w)
				require.NoError(t, err)
				require.Equal(t, graphmill.Executed{Statements: len(tc.statements), Sent: len(tc.statements)}, done)
				require.Len(t, s.Committed()[batch].Statements, len(tc.statements))
			}
			require.Equal(t, "plain", sink.Texts("s")[0].Form)
			require.Contains(t, sink.Texts("s")[0].Why, tc.why)
			require.Equal(t, tc.explained, explained(s))
		})
	}
}

func TestTextThatCouldUseATypedIndexIsNotCoalesced(t *testing.T) {
	indexes := [][]any{
		{"TEXT", []string{"User"}, []string{"name"}},
		{"TEXT", []string{"User"}, []string{"email"}}, {"RANGE", []string{"User"}, []string{"email"}},
		{"POINT", []string{"Place"}, []string{"at"}},
		{"LOOKUP", nil, nil},
	}
	for _, tc := range []struct{ name, text, why string }{
		{"label and property of a TEXT index", "MATCH (u:User {name: $x}) SET u.y = 1", "TEXT index on name"},
		{"in backticks", "MATCH (u:`User` {`name`: $x}) SET u.y = 1", "TEXT index on name"},
		{"of a POINT index", "MATCH (p:Place) WHERE point.distance(p.at, $x) < 5 SET p.y = 1", "POINT index on at"},
		{"a label that is worked out", "MATCH (u:$($x) {name: $x}) SET u.y = 1", "TEXT index on name"},
		{"a RANGE index stands beside it", "MATCH (u:User {email: $x}) SET u.y = 1", ""},
		{"another label", "MATCH (u:Movie {name: $x}) SET u.y = 1", ""},
		{"another property", "MATCH (u:User {id: $x}) SET u.y = 1", ""},
		{"the property's name in a string only", "MATCH (u:User {id: $x}) SET u.y = 'name'", ""},
		{"no parameters", "MATCH (u:User {name: 'a'}) SET u.y = 1", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := start(t, boltserver.Hooks{OnRun: func(st boltserver.Statement) boltserver.Reply {
				if strings.HasPrefix(st.Query, "SHOW INDEXES") {
					return boltserver.Reply{Fields: []string{"type", "labelsOrTypes", "properties"}, Rows: indexes}
				}
				return boltserver.Reply{}
			}})
			sink := open(t, s)
			st := graphmill.Statement{Query: &graphmill.Query{Text: tc.text}, Params: map[string]any{"x": "a"}}
			done, err := sink.Execute(t.Context(), work(st, st, st))
			require.NoError(t, err)
			if tc.why == "" {
				require.Equal(t, 1, done.Sent)
				return
			}
			require.Equal(t, 3, done.Sent)
			require.Contains(t, sink.Texts("s")[0].Why, tc.why)
		})
	}
}

func TestIndexesThatCannotBeListed(t *testing.T) {
	s := start(t, boltserver.Hooks{OnRun: func(st boltserver.Statement) boltserver.Reply {
		if strings.HasPrefix(st.Query, "SHOW INDEXES") {
			return boltserver.Fail("Neo.ClientError.Security.Forbidden", "no")
		}
		return boltserver.Reply{}
	}})
	done, err := open(t, s).Execute(t.Context(), work(rated(3)...))
	require.NoError(t, err)
	require.Equal(t, 1, done.Sent)
}

func TestLossOfTheServerIsNoVerdict(t *testing.T) {
	for _, tc := range []struct {
		name string
		part string // of the statement at which the connection is lost
	}{
		{"while the text is explained", "EXPLAIN MERGE"},
		{"while the coalesced form is explained", "EXPLAIN UNWIND"},
		{"while the indexes are listed", "SHOW INDEXES"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := start(t, boltserver.Hooks{OnRun: func(st boltserver.Statement) boltserver.Reply {
				if strings.HasPrefix(st.Query, tc.part) {
					return boltserver.Reply{Cut: boltserver.CutBefore}
				}
				return boltserver.Reply{}
			}})
			sink := open(t, s)
			_, err := sink.Execute(t.Context(), work(rated(3)...))
			f := faultOf(t, err)
			require.Equal(t, graphmill.FaultTransient, f.Class)
			require.True(t, f.Outage)
			require.Empty(t, s.Committed())

			s.SetHooks(boltserver.Hooks{})
			done, err := sink.Execute(t.Context(), work(rated(3)...))
			require.NoError(t, err)
			require.Equal(t, 1, done.Sent)
		})
	}
}

func TestVerdictsAreForgotten(t *testing.T) {
	first := boltserver.Start(t, boltserver.Options{})
	sink := open(t, first)
	run := func() {
		t.Helper()
		done, err := sink.Execute(t.Context(), work(rated(3)...))
		require.NoError(t, err)
		require.Equal(t, 1, done.Sent)
	}
	run()
	require.Equal(t, 2, explained(first))

	t.Run("when the server has been away", func(t *testing.T) {
		first.Stop()
		_, err := sink.Execute(t.Context(), work(rated(3)...))
		require.True(t, faultOf(t, err).Outage)
		require.NoError(t, first.Listen())
		run()
		require.Equal(t, 4, explained(first))
	})
	t.Run("when another version answers", func(t *testing.T) {
		entered, release := make(chan struct{}), make(chan struct{})
		first.SetHooks(boltserver.Hooks{OnRun: func(st boltserver.Statement) boltserver.Reply {
			if st.Query == "CREATE (:Held)" {
				close(entered)
				return boltserver.Reply{Wait: release}
			}
			return boltserver.Reply{}
		}})
		done := make(chan error)
		go func() {
			_, err := sink.Execute(t.Context(), work(plainly("CREATE (:Held)", 0)))
			done <- err
		}()
		<-entered // the one connection is in use
		first.SetAgent("Neo4j/2026.07.1")
		require.NoError(t, sink.Verify(t.Context(), ""))
		run()
		require.Equal(t, 6, explained(first))
		close(release)
		require.NoError(t, <-done)
	})
}

func TestFormThatFailsWhereTheTextPasses(t *testing.T) {
	coalescedFails := func(code string) boltserver.Hooks {
		return boltserver.Hooks{OnRun: func(st boltserver.Statement) boltserver.Reply {
			if strings.HasPrefix(st.Query, "UNWIND") {
				return boltserver.Fail(code, "no")
			}
			return boltserver.Reply{}
		}}
	}
	t.Run("by its syntax: never again", func(t *testing.T) {
		s := start(t, coalescedFails("Neo.ClientError.Statement.SyntaxError"))
		sink := open(t, s)
		for batch := range 2 {
			done, err := sink.Execute(t.Context(), work(append(rated(3), plainly("CREATE (:A)", 3))...))
			require.NoError(t, err)
			require.Equal(t, graphmill.Executed{Statements: 4, Sent: 4}, done)
			require.Equal(t, []string{rate.Text, rate.Text, rate.Text, "CREATE (:A)"}, queries(s.Committed()[batch]))
		}
		require.Len(t, s.RolledBack(), 1)
		texts := sink.Texts("s")
		require.Equal(t, "plain", texts[0].Form)
		require.Contains(t, texts[0].Why, "the coalesced form failed where the text passed")
	})
	t.Run("by its data, which may have healed: it is coalesced again", func(t *testing.T) {
		s := start(t, coalescedFails("Neo.ClientError.Schema.ConstraintValidationFailed"))
		sink := open(t, s)
		for range 2 {
			_, err := sink.Execute(t.Context(), work(rated(3)...))
			require.NoError(t, err)
		}
		require.Len(t, s.RolledBack(), 2)
		require.Equal(t, "coalesced", sink.Texts("s")[0].Form)
	})
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
			begun := time.Now()
			_, err := sink.Execute(ctx, work(plainly("CREATE (:A)", 0)))
			require.ErrorIs(t, err, context.Canceled)
			require.Less(t, time.Since(begun), 5*time.Second)
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

func TestLongRunsAreSplit(t *testing.T) {
	t.Run("by rows", func(t *testing.T) {
		s := start(t, boltserver.Hooks{})
		done, err := open(t, s).Execute(t.Context(), work(rated(20_001)...))
		require.NoError(t, err)
		require.Equal(t, graphmill.Executed{Statements: 20_001, Sent: 3}, done)
		require.Equal(t, []string{"COALESCED 10000", "COALESCED 10000", rate.Text}, queries(s.Committed()[0]))
		require.Equal(t, int64(10_000), s.Committed()[0].Statements[1].Rows()[0]["id"])
	})
	t.Run("by bytes", func(t *testing.T) {
		s := start(t, boltserver.Hooks{})
		large := rated(5)
		for i := range large {
			large[i].Params["rating"] = strings.Repeat("x", 6<<20)
		}
		done, err := open(t, s).Execute(t.Context(), work(large...))
		require.NoError(t, err)
		require.Equal(t, 3, done.Sent)
		require.Equal(t, []string{"COALESCED 2", "COALESCED 2", rate.Text}, queries(s.Committed()[0]))
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
