//go:build e2e

package graph_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/integration/stack"
	"github.com/graphmill/graphmill/server/graph"
	"github.com/neo4j/neo4j-go-driver/v5/neo4j"
	"github.com/stretchr/testify/require"
)

// database is a real Neo4j and what a test needs to look into it.
type database struct {
	*stack.Neo4j
	driver neo4j.DriverWithContext
	sink   *graph.Sink
}

// TestNeo4j runs everything against one server, since starting one takes long.
func TestNeo4j(t *testing.T) {
	n, err := stack.StartNeo4j(t.Context(), stack.Neo4jConfig{Log: os.Stderr, TLS: true, Settings: map[string]string{
		"db.memory.transaction.max": "32m",
	}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, n.Close()) })
	driver, err := neo4j.NewDriverWithContext(n.URI(), neo4j.BasicAuth(n.User(), n.Password(), ""))
	require.NoError(t, err)
	t.Cleanup(func() { driver.Close(context.Background()) })
	db := &database{Neo4j: n, driver: driver}
	db.sink = openURI(t, n.URI(), db.login)

	t.Run("CoalescedFormGivesTheSameGraph", db.testSameGraph)
	t.Run("MixedTextsGiveTheSameGraph", db.testSameGraphOfMixes)
	t.Run("TextIndexes", db.testTextIndexes)
	t.Run("ForbiddenTextsWouldRun", db.testForbiddenWouldRun)
	t.Run("ForbiddenTextsDoNotRun", db.testForbidden)
	t.Run("TextsThatLookForbiddenRun", db.testPermitted)
	t.Run("AllowedTextsRun", db.testAllowed)
	t.Run("Metadata", db.testMetadata)
	t.Run("Faults", db.testFaults)
	t.Run("Deadlock", db.testDeadlock)
	t.Run("Case20TwoLanesInOppositeOrder", db.testRivals)
	t.Run("Case31Cancelled", db.testCancelled)
	t.Run("Timeout", db.testTimeout)
	t.Run("Terminated", db.testTerminated)
	t.Run("Case32SetUp", db.testSetUp)
	t.Run("KnownAuthority", db.testKnownAuthority)
	t.Run("Case32WrongPasswordOfManyLocksNoAccount", db.testAccountIsNotLocked)
	if whole() {
		t.Run("FloodOfTexts", func(t *testing.T) { flood(t, 100_000) })
	}
	t.Run("ServerIsKilled", db.testServerIsKilled) // the last: it comes back with other connections
}

// whole reports whether tests run at full size (make e2e-full).
func whole() bool { return os.Getenv("GRAPHMILL_E2E_FULL") != "" }

func (db *database) login(c *graph.Config) { c.User, c.Password = db.User(), db.Password() }

func (db *database) session(t *testing.T) neo4j.SessionWithContext {
	session := db.driver.NewSession(t.Context(), neo4j.SessionConfig{})
	t.Cleanup(func() { session.Close(context.Background()) })
	return session
}

// ask runs a statement and returns its rows.
func (db *database) ask(t *testing.T, query string, params map[string]any) [][]any {
	t.Helper()
	session := db.driver.NewSession(t.Context(), neo4j.SessionConfig{})
	defer session.Close(t.Context())
	result, err := session.Run(t.Context(), query, params)
	require.NoError(t, err, query)
	records, err := result.Collect(t.Context())
	require.NoError(t, err, query)
	var rows [][]any
	for _, r := range records {
		rows = append(rows, r.Values)
	}
	return rows
}

// wipe empties the graph and runs the statements given.
func (db *database) wipe(t *testing.T, setUp ...string) {
	t.Helper()
	db.ask(t, "MATCH (n) DETACH DELETE n", nil)
	for _, q := range setUp {
		db.ask(t, q, nil)
	}
}

// graph returns all nodes and relationships as texts, sorted.
func (db *database) graph(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, query := range []string{
		"MATCH (n) RETURN labels(n), properties(n)",
		"MATCH (a)-[r]->(b) RETURN labels(a), properties(a), type(r), properties(r), labels(b), properties(b)",
	} {
		for _, row := range db.ask(t, query, nil) {
			for i, v := range row {
				if labels, ok := v.([]any); ok { // their order means nothing
					slices.SortFunc(labels, func(a, b any) int { return strings.Compare(a.(string), b.(string)) })
					row[i] = labels
				}
			}
			all = append(all, fmt.Sprintf("%#v", row))
		}
	}
	slices.Sort(all)
	return all
}

// outcome is what a batch has left behind.
type outcome struct {
	graph []string
	fault string // class, code and the database's own code
	done  graphmill.Executed
}

func (db *database) outcome(t *testing.T, w graphmill.Work) outcome {
	t.Helper()
	done, err := db.sink.Execute(t.Context(), w)
	o := outcome{graph: db.graph(t), done: done}
	if err != nil {
		f := faultOf(t, err)
		text, _, _ := strings.Cut(f.Text, ": ")
		o.fault = fmt.Sprintf("%s %s %s message %d", f.Class, f.Code, text, f.Message)
	}
	return o
}

// rows makes statements of one text, one for each map of parameters.
func rows(text string, params ...map[string]any) []graphmill.Statement {
	q := &graphmill.Query{Text: text}
	var list []graphmill.Statement
	for i, p := range params {
		list = append(list, graphmill.Statement{Query: q, Params: p, Message: i})
	}
	return list
}

// count makes maps {name: 1}, {name: 2}, ...
func count(n int, name string) []map[string]any {
	var list []map[string]any
	for i := range n {
		list = append(list, map[string]any{name: int64(i + 1)})
	}
	return list
}

func pairs(name1, name2 string, values ...any) []map[string]any {
	var list []map[string]any
	for i := 0; i < len(values); i += 2 {
		list = append(list, map[string]any{name1: values[i], name2: values[i+1]})
	}
	return list
}

func (db *database) testSameGraph(t *testing.T) {
	some := pairs("k", "v", "a", int64(1), "b", int64(2), "a", int64(3), "c", int64(4), "b", int64(5), "a", int64(6))
	for _, tc := range []struct {
		name   string
		setUp  []string
		text   string
		params []map[string]any
		plain  bool // the coalesced form is refused
		fails  string
	}{
		// Each row has to see what the rows before it wrote.
		{"counter", nil, "MERGE (c:C {k: $k}) SET c.n = coalesce(c.n, 0) + $v", some, false, ""},
		{"list that grows", nil, "MERGE (c:C {k: $k}) SET c.l = coalesce(c.l, []) + $v", some, false, ""},
		{"chain", []string{"CREATE (:N {i: 0})"}, "MATCH (p:N {i: $i - 1}) CREATE (p)-[:NEXT]->(:N {i: $i})", count(300, "i"), false, ""},
		{"shift of a range", []string{"CREATE (:R {pos: 1}), (:R {pos: 2})"}, "MATCH (n:R) WHERE n.pos >= $p SET n.pos = n.pos + 1 WITH count(*) AS c CREATE (:R {pos: $p})", pairs("p", "x", int64(1), nil, int64(2), nil, int64(1), nil), false, ""},
		{"delete and create under a constraint", []string{"CREATE (:U {id: 1})"}, "OPTIONAL MATCH (u:U {id: 1}) DELETE u WITH count(*) AS c CREATE (:U {id: 1, v: $v})", count(5, "v"), false, ""},
		{"greatest and one", nil, "OPTIONAL MATCH (n:M) WITH coalesce(max(n.i), 0) AS m CREATE (:M {i: m + 1, v: $v})", count(20, "v"), false, ""},
		{"head of a list", []string{"CREATE (:Head)"}, "MATCH (h:Head) OPTIONAL MATCH (h)-[r:FIRST]->(x) DELETE r CREATE (h)-[:FIRST]->(n:E {v: $v}) FOREACH (y IN CASE WHEN x IS NULL THEN [] ELSE [x] END | CREATE (n)-[:NEXT]->(y))", count(10, "v"), false, ""},
		{"chain of renamings", []string{"CREATE (:X {name: 'a'})"}, "MATCH (n:X {name: $k}) SET n.name = $v", pairs("k", "v", "a", "b", "b", "c", "c", "d", "x", "y"), false, ""},
		{"swaps", []string{"UNWIND range(1, 4) AS i CREATE (:S {k: i, v: i * 10})"}, "MATCH (a:S {k: $a}), (b:S {k: $b}) WITH a, b, a.v AS x, b.v AS y SET a.v = y, b.v = x", pairs("a", "b", int64(1), int64(2), int64(2), int64(3), int64(3), int64(4), int64(4), int64(1)), false, ""},
		{"wipe and create", []string{"CREATE (:W {v: 0})"}, "OPTIONAL MATCH (n:W) DETACH DELETE n WITH count(*) AS c CREATE (:W {v: $v, c: c})", count(5, "v"), false, ""},
		{"take the first", []string{"UNWIND range(1, 9) AS i CREATE (:L {i: i})"}, "MATCH (n:L) WITH n ORDER BY n.i LIMIT 1 SET n.taken = $v REMOVE n:L", count(4, "v"), false, ""},
		{"count of all", nil, "MATCH (n:A) WITH count(n) AS c CREATE (:A {c: c, v: $v})", count(6, "v"), false, ""},
		{"create where missing", nil, "OPTIONAL MATCH (n:F {k: $k}) FOREACH (_ IN CASE WHEN n IS NULL THEN [1] ELSE [] END | CREATE (:F {k: $k, v: $v}))", some, false, ""},
		{"count in a subquery expression", nil, "CREATE (:Q {n: COUNT { MATCH (x:Q) }, v: $v})", count(6, "v"), false, ""},
		{"scan, set and create", []string{"CREATE (:Y {v: 0})"}, "MATCH (y:Y) SET y.v = y.v + 1 WITH count(y) AS c CREATE (:Y {v: c})", count(5, "v"), false, ""},
		{"merge of a relationship", nil, "MERGE (u:P {id: $k}) MERGE (m:P {id: $v}) MERGE (u)-[r:RATED]->(m) ON CREATE SET r.n = 1 ON MATCH SET r.n = r.n + 1", append(some, some...), false, ""},

		// What a row makes of nothing.
		{"star and count without a key", nil, "MATCH (:Nope {v: $v}) WITH *, count(*) AS c CREATE (:Z {c: c, v: $v})", count(3, "v"), true, ""},
		{"star and count with a key", nil, "MATCH (n:Nope {v: $v}) WITH *, count(*) AS c CREATE (:Z {c: c, v: $v})", count(3, "v"), true, ""},
		{"star alone, then count", nil, "MATCH (:Nope {v: $v}) WITH * WITH count(*) AS c CREATE (:Z {c: c, v: $v})", count(3, "v"), false, ""},
		{"distinct star of nothing", nil, "MATCH (:Nope {v: $v}) WITH DISTINCT * CREATE (:Z {v: $v})", count(3, "v"), false, ""},
		{"distinct star of several rows", []string{"UNWIND range(1, 3) AS i CREATE (:T {v: 1})"}, "MATCH (:T {v: $v}) WITH DISTINCT * CREATE (:Z {v: $v})", count(3, "v"), false, ""},
		{"grouped by a parameter", nil, "MATCH (:Nope) WITH $v AS v, count(*) AS c CREATE (:Z {c: c, v: v})", count(3, "v"), false, ""},
		{"grouped by a parameter, used within the count", []string{"CREATE (:T)"}, "MATCH (t:T) WITH $v AS v, count(t) + $v AS c CREATE (:Z {c: c, v: v})", count(3, "v"), false, ""},
		{"aggregate of a parameter", nil, "MATCH (:Nope) WITH sum($v) AS c, collect($v) AS l CREATE (:Z {c: c, l: l})", count(3, "v"), false, ""},
		{"aggregate in a map with a parameter", nil, "MATCH (:Nope) WITH {c: count(*), v: $v} AS m CREATE (:Z {c: m.c, v: m.v})", count(3, "v"), true, ""},
		{"return distinct star within a count", []string{"UNWIND range(1, 3) AS i CREATE (:T {i: i})"}, "CREATE (:Z {n: COUNT { MATCH (t:T) WHERE t.i >= $v RETURN DISTINCT * }})", count(3, "v"), false, ""},
		{"no match", nil, "MATCH (n:Nope {v: $v}) CREATE (:Z)", count(3, "v"), false, ""},
		{"distinct", nil, "UNWIND [1, 1, 2] AS x WITH DISTINCT x, $v AS v CREATE (:Z {x: x, v: v})", count(3, "v"), false, ""},

		// Forms of texts.
		{"ends with RETURN", nil, "MERGE (c:C {k: $k}) RETURN c", some, false, ""},
		{"ends with RETURN *", nil, "MERGE (c:C {k: $k}) RETURN *", some, true, ""},
		{"ends with RETURN and LIMIT 0", nil, "MERGE (c:C {k: $k}) RETURN c LIMIT 0", some, false, ""},
		{"several rows a statement", []string{"UNWIND range(1, 3) AS i CREATE (:T {i: i})"}, "MATCH (t:T) SET t.v = coalesce(t.v, 0) + $v RETURN t", count(3, "v"), false, ""},
		{"semicolon, comments, strings", nil, "CREATE (:C {k: $k, s: '$k // no', `t$k`: \"/* $v */\"}) // $k }\n/* $v */ ;", some, false, ""},
		{"comment at the end", nil, "CREATE (:C {k: $k}) // }", some, false, ""},
		{"option", nil, "CYPHER 5 runtime = slotted CREATE (:C {k: $k})", some, false, ""},
		{"odd names", nil, "CREATE (:C {a: $`a b`, b: $0, c: $größe, d: $ match})", []map[string]any{{"a b": int64(1), "0": int64(2), "größe": int64(3), "match": int64(4)}, {"a b": "x", "0": nil, "größe": 1.5, "match": true}, {"a b": int64(1), "0": int64(2), "größe": int64(3), "match": int64(4)}}, false, ""},
		{"labels and types that are worked out", nil, "CREATE (a:$($k) {v: $v})-[:$($k)]->(b:B) SET b:$($k)", some, false, ""},
		{"map", nil, "CREATE (n:C) SET n = $m SET n += $m", []map[string]any{{"m": map[string]any{"a": int64(1)}}, {"m": map[string]any{"b": []any{"x", "y"}}}, {"m": map[string]any{}}}, false, ""},
		{"entries of maps and lists", nil, "CREATE (:C {a: $m.a.b, b: $m['c'][0], c: size($m.c)})", []map[string]any{{"m": map[string]any{"a": map[string]any{"b": int64(1)}, "c": []any{int64(5)}}}, {"m": map[string]any{"c": []any{}}}, {"m": map[string]any{"c": []any{int64(7)}}}}, false, ""},
		{"list that is unwound", nil, "UNWIND $l AS x CREATE (:C {x: x, n: size($l)})", []map[string]any{{"l": []any{int64(1), int64(2)}}, {"l": []any{}}, {"l": []any{"a"}}}, false, ""},
		{"own subquery", []string{"UNWIND range(1, 3) AS i CREATE (:T {i: i})"}, "MATCH (t:T) CALL (t) { SET t.v = coalesce(t.v, 0) + $v }", count(3, "v"), false, ""},
		{"own subquery of nothing", nil, "CALL () { CREATE (:V {v: $v}) }", count(3, "v"), false, ""},
		{"own subquery of everything", nil, "WITH $v AS v CALL (*) { CREATE (:V {v: v, w: $v}) }", count(3, "v"), false, ""},
		{"own subquery that returns everything", []string{"UNWIND range(1, 3) AS i CREATE (:T {i: i})"}, "MATCH (t:T) CALL (t) { MATCH (m:T) WHERE m.i > $v RETURN * } SET t.n = coalesce(t.n, 0) + 1", count(3, "v"), true, ""},
		{"subqueries within each other", []string{"CREATE (:T)"}, "MATCH (t:T) CALL (t) { CALL (t) { SET t.v = $v } }", count(3, "v"), false, ""},
		{"union", nil, "CREATE (:V {v: $v}) RETURN 1 AS x UNION CREATE (:W {v: $v}) RETURN 2 AS x", count(3, "v"), false, ""},
		{"exists", []string{"UNWIND range(1, 3) AS i CREATE (:T {i: i})-[:R]->(:O {i: i})"}, "MATCH (t:T) WHERE EXISTS { (t)-[:R]->(:O {i: $v}) } SET t.seen = $v", count(3, "v"), false, ""},
		{"comprehension", nil, "CREATE (:C {l: [x IN range(1, $v) WHERE x <> $v | x + $v]})", count(3, "v"), false, ""},
		{"no parameters", nil, "MERGE (c:C) SET c.n = coalesce(c.n, 0) + 1", []map[string]any{nil, nil, nil, nil}, false, ""},
		{"null", nil, "MERGE (c:C {k: 1}) SET c.v = $v", []map[string]any{{"v": int64(1)}, {"v": nil}, {"v": int64(2)}, {"v": nil}}, false, ""},
		{"procedure", nil, "CREATE (n:C) WITH n CALL db.createLabel('Made') RETURN n.x AS x, $v AS v", count(3, "v"), false, ""},

		// Texts that are executed one by one.
		{"LIMIT of a parameter", []string{"UNWIND range(1, 9) AS i CREATE (:L {i: i})"}, "MATCH (n:L) WITH n ORDER BY n.i LIMIT $v SET n.v = $v", count(3, "v"), true, ""},
		{"properties by parameter", nil, "CREATE (n:X $m)", []map[string]any{{"m": map[string]any{"a": int64(1)}}, {"m": map[string]any{"a": int64(2)}}, {"m": map[string]any{"a": int64(3)}}}, true, ""},
		{"RETURN without a name", nil, "MERGE (c:C {k: $k}) RETURN c.k", some, true, ""},
		{"old subquery with a parameter", []string{"CREATE (:T)"}, "MATCH (t:T) CALL { WITH t SET t.v = $v }", count(3, "v"), true, ""},
		{"parameter in an aggregating expression", nil, "MATCH (n:A) WITH count(n) + $v AS c CREATE (:A {c: c})", count(3, "v"), true, ""},

		// Errors are the same, and name the same statement.
		{"null key", nil, "MERGE (n:C {k: $v})", []map[string]any{{"v": int64(1)}, {"v": int64(2)}, {"v": nil}, {"v": int64(3)}}, false, "SemanticError message 2"},
		{"division by zero", nil, "CREATE (:C {k: 1 / $v})", []map[string]any{{"v": int64(1)}, {"v": int64(0)}, {"v": int64(2)}}, false, "ArithmeticError message 1"},
		{"unique", nil, "CREATE (:U {id: $v})", []map[string]any{{"v": int64(1)}, {"v": int64(2)}, {"v": int64(1)}}, false, "ConstraintValidationFailed message 2"},
		{"map as a property", nil, "CREATE (:C {k: $v})", []map[string]any{{"v": int64(1)}, {"v": map[string]any{"a": int64(1)}}, {"v": int64(2)}}, false, "TypeError message 1"},
		{"date that is none", nil, "CREATE (:C {k: date($v)})", []map[string]any{{"v": "2026-01-31"}, {"v": "x"}, {"v": "2026-01-31"}}, false, "SyntaxError message 1"},
		{"wrong type of a parameter", nil, "CREATE (:C {k: size($v)})", []map[string]any{{"v": "ab"}, {"v": "abc"}, {"v": int64(1)}}, false, "SyntaxError message 2"},
		{"missing parameter", nil, "CREATE (:C {k: $v})", []map[string]any{{"v": "ab"}, {}, {"v": int64(1)}}, true, "ParameterMissing message 1"},
		{"syntax", nil, "CREATE (:C {k: $v", count(3, "v"), true, "SyntaxError message 0"},
		{"too long for an index", nil, "CREATE (:U {id: $v})", []map[string]any{{"v": int64(1)}, {"v": strings.Repeat("x", 40_000)}, {"v": int64(2)}}, false, "ExecutionFailed message 1"},
		{"deletes a node that is connected", []string{"CREATE (:T)-[:R]->(:O)"}, "MATCH (t:T) DELETE t SET t.v = $v", count(3, "v"), false, "message"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			setUp := append([]string{"CREATE CONSTRAINT u IF NOT EXISTS FOR (u:U) REQUIRE u.id IS UNIQUE"}, tc.setUp...)
			w := work(rows(tc.text, tc.params...)...)
			w.Stream = tc.name
			var got [2]outcome
			for i, coalesce := range []bool{false, true} {
				db.wipe(t, setUp...)
				w.Coalesce = coalesce
				got[i] = db.outcome(t, w)
				if coalesce {
					status := db.sink.Texts(tc.name)[0]
					require.Equal(t, map[bool]string{true: "plain", false: "coalesced"}[tc.plain], status.Form, status.Why)
					if status.Why != "" {
						t.Log("one by one: " + status.Why)
					}
				}
			}
			require.Equal(t, got[0].graph, got[1].graph)
			require.Equal(t, got[0].fault, got[1].fault)
			require.Contains(t, got[1].fault, tc.fails)
			if tc.fails == "" {
				require.Empty(t, got[1].fault)
			}
			if got[1].fault != "" {
				t.Log(got[1].fault)
				return
			}
			want := 1
			if tc.plain {
				want = len(tc.params)
			}
			require.Equal(t, want, got[1].done.Sent)
		})
	}
}

// testSameGraphOfMixes runs texts that get in each other's way, in any order.
func (db *database) testSameGraphOfMixes(t *testing.T) {
	texts := []*graphmill.Query{
		{Text: "MERGE (n:K {k: $k}) SET n.n = coalesce(n.n, 0) + 1"},
		{Text: "MATCH (n:K {k: $k}) DETACH DELETE n"},
		{Text: "MATCH (n:K) WITH count(n) AS c MERGE (m:K {k: $k}) SET m.count = c"},
		{Text: "MATCH (a:K {k: $k}), (b:K) WHERE b.k > $k MERGE (a)-[r:R]->(b) SET r.v = $v"},
		{Text: "MATCH (n:K {k: $k}) SET n.l = coalesce(n.l, []) + $v"},
		{Text: "OPTIONAL MATCH (n:K {k: $k})-[r:R]->() DELETE r WITH count(r) AS c CREATE (:Log {deleted: c, v: $v})"},
		{Text: "MATCH (n:K) WHERE n.k >= $k SET n.k = n.k"},
		{Text: "MATCH (n:K) WITH n ORDER BY n.k LIMIT 1 SET n.first = $v", Names: []string{"v", "k"}},
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	for round := range 25 {
		var list []graphmill.Statement
		for len(list) < 60 {
			q := texts[rnd.IntN(len(texts))]
			for range 1 + rnd.IntN(6) {
				k, v := int64(rnd.IntN(6)), int64(len(list))
				st := graphmill.Statement{Query: q, Message: len(list)}
				if q.Names != nil {
					st.Values = []any{v, k}
				} else {
					st.Params = map[string]any{"k": k, "v": v}
				}
				list = append(list, st)
			}
		}
		w := work(list...)
		w.Stream = "mixes"
		var got [2]outcome
		for i, coalesce := range []bool{false, true} {
			db.wipe(t)
			w.Coalesce = coalesce
			got[i] = db.outcome(t, w)
			require.Empty(t, got[i].fault)
		}
		require.Equal(t, got[0].graph, got[1].graph, "round %d", round)
		require.Less(t, got[1].done.Sent, got[0].done.Sent)
	}
	for _, status := range db.sink.Texts("mixes") {
		require.Equal(t, "coalesced", status.Form, "%s: %s", status.Query, status.Why)
	}
}

// operators returns the names of the plan of a text, from the top down the last
// branch of each: the driver hands out no others.
func (db *database) operators(t *testing.T, text string, params map[string]any) string {
	t.Helper()
	session := db.driver.NewSession(t.Context(), neo4j.SessionConfig{})
	defer session.Close(t.Context())
	result, err := session.Run(t.Context(), "EXPLAIN "+text, params)
	require.NoError(t, err)
	summary, err := result.Consume(t.Context())
	require.NoError(t, err)
	var names []string
	for p := summary.Plan(); p != nil; {
		names = append(names, p.Operator())
		children := p.Children()
		p = nil
		if len(children) > 0 {
			p = children[len(children)-1]
		}
	}
	return strings.Join(names, " ")
}

func (db *database) testTextIndexes(t *testing.T) {
	db.wipe(t)
	db.ask(t, "CREATE TEXT INDEX t1 IF NOT EXISTS FOR (n:Doc) ON (n.title)", nil)
	db.ask(t, "CREATE TEXT INDEX t2 IF NOT EXISTS FOR (n:Doc) ON (n.both)", nil)
	db.ask(t, "CREATE INDEX t3 IF NOT EXISTS FOR (n:Doc) ON (n.both)", nil)
	db.ask(t, "CREATE POINT INDEX t4 IF NOT EXISTS FOR (n:Doc) ON (n.at)", nil)
	db.ask(t, "CALL db.awaitIndexes()", nil)
	defer func() {
		for _, name := range []string{"t1", "t2", "t3", "t4"} {
			db.ask(t, "DROP INDEX "+name, nil)
		}
	}()
	sink := openURI(t, db.URI(), db.login) // one that has not asked for the indexes yet
	for _, tc := range []struct {
		name, text, coalescedText string
		value                     any
		plain                     bool
	}{
		{"text", "MATCH (n:Doc {title: $v}) SET n.x = 1", "UNWIND $rows AS __gm CALL (__gm) { MATCH (n:Doc {title: __gm.`v`}) SET n.x = 1 } FINISH", "a", true},
		{"text beside range", "MATCH (n:Doc {both: $v}) SET n.x = 1", "UNWIND $rows AS __gm CALL (__gm) { MATCH (n:Doc {both: __gm.`v`}) SET n.x = 1 } FINISH", "a", false},
		{"point by equality", "MATCH (n:Doc {at: $v}) SET n.x = 1", "UNWIND $rows AS __gm CALL (__gm) { MATCH (n:Doc {at: __gm.`v`}) SET n.x = 1 } FINISH", neo4j.Point2D{SpatialRefId: 4326, X: 12, Y: 56}, true},
		{"point by distance", "MATCH (n:Doc) WHERE point.distance(n.at, $v) < 10 SET n.x = 1", "UNWIND $rows AS __gm CALL (__gm) { MATCH (n:Doc) WHERE point.distance(n.at, __gm.`v`) < 10 SET n.x = 1 } FINISH", neo4j.Point2D{SpatialRefId: 4326, X: 12, Y: 56}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Log("plain:     " + db.operators(t, tc.text, map[string]any{"v": tc.value}))
			t.Log("coalesced: " + db.operators(t, tc.coalescedText, map[string]any{"rows": []any{}}))
			p := map[string]any{"v": tc.value}
			w := work(rows(tc.text, p, p, p)...)
			done, err := sink.Execute(t.Context(), w)
			require.NoError(t, err)
			require.Equal(t, tc.plain, done.Sent == 3, sink.Texts("s")[0].Why)
		})
	}
}
