package graph_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/integration/boltserver"
	"github.com/graphmill/graphmill/server/graph"
	"github.com/stretchr/testify/require"
)

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

	// A batch of one tells nothing about how the text is sent.
	_, err = sink.Execute(t.Context(), work(rated(1)...))
	require.NoError(t, err)
	alone := []graphmill.TextStatus{{Hash: "03356168fe90", Query: rate.Text, Form: "coalesced", Why: "in the last batch it stood alone"}}
	require.Equal(t, alone, sink.Texts("s"))
	_, err = sink.Execute(t.Context(), work(rated(1)...))
	require.NoError(t, err)
	require.Equal(t, alone, sink.Texts("s"), "nor does the second")
	_, err = sink.Execute(t.Context(), work(rated(3)...))
	require.NoError(t, err)
	require.Empty(t, sink.Texts("s")[0].Why)
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
		{"with COALESCE off", boltserver.Hooks{}, true, rated(3), "COALESCE is off", 2},
		{"statements that never stand side by side", boltserver.Hooks{}, false,
			[]graphmill.Statement{rated(1)[0], plainly("CREATE (:A)", 0), rated(1)[0], plainly("CREATE (:A)", 0), rated(1)[0]}, "never stands twice in a row", 2},
		{"a text of which the tokens speak against it", boltserver.Hooks{}, false,
			slices.Repeat([]graphmill.Statement{plainly("MATCH (__gm) DELETE __gm", 0)}, 3), "uses the name __gm", 1},
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
