package graph_test

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/integration/boltserver"
	"github.com/stretchr/testify/require"
)

// forbidden are texts that a stream may not send, with what the refusal says.
// allow is the word of ALLOW that permits it; empty: nothing does.
var forbidden = []struct{ text, what, allow string }{
	// Users, rights, databases, servers. In Neo4j these run within a transaction
	// on any database, data beside them.
	{"CREATE USER eve SET PASSWORD 'abcdefgh1'", "CREATE USER EVE", ""},
	{"CREATE OR REPLACE USER eve SET PASSWORD 'abcdefgh1'", "CREATE OR REPLACE", ""},
	{"/* x */ create // y\n user eve set password 'abcdefgh1' change not required", "CREATE USER EVE", ""},
	{"CREATE USER $name SET PASSWORD $password", "CREATE USER", ""},
	{"CREATE USER `eve` SET PASSWORD 'abcdefgh1'", "CREATE USER", ""},
	{"DROP USER nobody IF EXISTS", "DROP USER NOBODY", ""},
	{"ALTER USER nobody IF EXISTS SET STATUS SUSPENDED", "ALTER USER NOBODY", ""},
	{"ALTER CURRENT USER SET PASSWORD FROM 'x' TO 'yyyyyyyy'", "ALTER CURRENT USER", ""},
	{"RENAME USER a IF EXISTS TO b", "RENAME USER A", ""},
	{"CREATE ROLE r", "CREATE ROLE R", ""},
	{"GRANT ROLE a TO b", "GRANT ROLE A", ""},
	{"DENY READ {*} ON GRAPH * TO x", "DENY READ", ""},
	{"REVOKE ROLE a FROM b", "REVOKE ROLE A", ""},
	{"CREATE DATABASE evil", "CREATE DATABASE EVIL", ""},
	{"CREATE COMPOSITE DATABASE evil", "CREATE COMPOSITE DATABASE", ""},
	{"DROP DATABASE neo4j", "DROP DATABASE NEO4J", ""},
	{"STOP DATABASE neo4j", "STOP DATABASE NEO4J", ""},
	{"START DATABASE neo4j", "START DATABASE NEO4J", ""},
	{"ALTER DATABASE neo4j SET ACCESS READ ONLY", "ALTER DATABASE NEO4J", ""},
	{"CREATE ALIAS a FOR DATABASE neo4j", "CREATE ALIAS A", ""},
	{"ENABLE SERVER 'x'", "ENABLE SERVER", ""},
	{"DEALLOCATE DATABASES FROM SERVER 'x'", "DEALLOCATE DATABASES FROM", ""},
	{"DRYRUN REALLOCATE DATABASES", "DRYRUN REALLOCATE DATABASES", ""},
	{"SHOW USERS", "SHOW USERS", ""},
	{"SHOW TRANSACTIONS", "SHOW TRANSACTIONS", ""},
	{"SHOW SETTINGS YIELD name, value RETURN name, value", "SHOW SETTINGS YIELD", ""},
	{"SHOW TRANSACTIONS YIELD transactionId AS t TERMINATE TRANSACTIONS t YIELD message RETURN message", "SHOW TRANSACTIONS YIELD", ""},
	{"TERMINATE TRANSACTIONS 'neo4j-transaction-99999'", "TERMINATE TRANSACTIONS", ""},
	{"USE system CREATE USER eve SET PASSWORD 'abcdefgh1'", "CREATE USER EVE", ""},
	{"EXPLAIN CREATE USER eve SET PASSWORD 'abcdefgh1'", "CREATE USER EVE", ""},
	{"CYPHER 5 PROFILE CREATE USER eve SET PASSWORD 'abcdefgh1'", "CREATE USER EVE", ""},
	{"CYPHER 5 runtime = slotted CREATE USER eve SET PASSWORD 'abcdefgh1'", "CREATE USER EVE", ""},
	{"RETURN 1 AS x; CREATE USER eve SET PASSWORD 'abcdefgh1'", "CREATE USER EVE", ""},
	{";;\n; DROP USER nobody IF EXISTS ;", "DROP USER NOBODY", ""},

	// Transactions, which are Graphmill's.
	{"BEGIN", "BEGIN", ""},
	{"COMMIT", "COMMIT", ""},
	{"ROLLBACK", "ROLLBACK", ""},
	{"CALL () { CREATE (:T) } IN TRANSACTIONS", "IN TRANSACTIONS", ""},
	{"CALL { CREATE (:T) } IN 2 CONCURRENT TRANSACTIONS OF 10 ROWS", "IN TRANSACTIONS", ""},
	{"MATCH (n) CALL (n) { SET n.x = {a: 1}.a } IN $n CONCURRENT TRANSACTIONS", "IN TRANSACTIONS", ""},
	{"USING PERIODIC COMMIT 500 LOAD CSV FROM 'file:///etc/passwd' AS l CREATE (:L)", "USING PERIODIC COMMIT", ""},

	// Other databases.
	{"USE system MATCH (n) RETURN n", "USE system", ""},
	{"USE `other` RETURN 1 AS x", "USE other", ""},
	{"USE other.part RETURN 1 AS x", "USE other.part", ""},
	{"CALL () { USE system MATCH (n) RETURN n } RETURN n", "USE system", ""},
	{"RETURN 1 AS x UNION ALL USE system RETURN 2 AS x", "USE system", ""},
	{"USE graph.byName('system') MATCH (n) RETURN n", "worked out", ""},
	{"CYPHER 5 USE system RETURN 1 AS x", "USE system", ""},

	// Procedures and functions.
	{"CALL dbms.listConfig() YIELD name RETURN name", "dbms.listConfig()", ""},
	{"CALL dbms.listConfig", "dbms.listConfig()", ""},
	{"call `dbms` /* a */ . // b\n `listConfig`() YIELD name RETURN name", "dbms.listConfig()", ""},
	{"OPTIONAL CALL dbms.killConnection('bolt-1')", "dbms.killConnection()", ""},
	{"CALL (*) { CALL dbms.listConfig() YIELD name RETURN name } RETURN name", "dbms.listConfig()", ""},
	{"RETURN COLLECT { CALL dbms.listConfig() YIELD name RETURN name } AS x", "dbms.listConfig()", ""},
	{"RETURN EXISTS { CALL dbms.listConfig() YIELD name RETURN name } AS x", "dbms.listConfig()", ""},
	{"FOREACH (x IN [1] | CALL dbms.killConnection('bolt-1'))", "dbms.killConnection()", ""},
	{"CALL tx.setMetaData({stream: 'innocent'})", "tx.setMetaData()", ""},
	{"CALL db.clearQueryCaches()", "db.clearQueryCaches()", ""},
	{"CALL db.stats.collect('QUERIES')", "db.stats.collect()", ""},
	{"CALL apoc.cypher.runMany('CREATE USER x', {})", "apoc.cypher.runMany()", ""},
	{"CALL apoc.do.when(true, 'MATCH (n) DETACH DELETE n', '', {}) YIELD value RETURN value", "apoc.do.when()", ""},
	{"CALL apoc.periodic.iterate('MATCH (n) RETURN n', 'DELETE n', {})", "apoc.periodic.iterate()", ""},
	{"CALL apoc.export.csv.all('x', {})", "apoc.export.csv.all()", ""},
	// Of parts that compute, read and write only, those that run what they are
	// given, or begin transactions.
	{"MATCH (n) CALL apoc.atomic.update(n, 'x', $e) YIELD newValue RETURN newValue", "apoc.atomic.update()", ""},
	{"CALL apoc.graph.fromCypher($text, {}, 'g', {}) YIELD graph RETURN graph", "apoc.graph.fromCypher()", ""},
	{"CALL apoc.meta.data.of($text) YIELD label RETURN label", "apoc.meta.data.of()", ""},
	{"CALL apoc.meta.graph.of($text) YIELD nodes RETURN nodes", "apoc.meta.graph.of()", ""},
	{"CALL apoc.diff.graphs($text, $text, {}) YIELD difference RETURN difference", "apoc.diff.graphs()", ""},
	{"CALL apoc.search.node({`x`: 'k'}, '=', 1) YIELD node RETURN node", "apoc.search.node()", ""},
	{"MATCH (n:Old) CALL apoc.nodes.delete(n, 10) YIELD value RETURN value", "apoc.nodes.delete()", ""},
	{"CALL APOC.Refactor.rename.label('A', 'B') YIELD total RETURN total", "APOC.Refactor.rename.label()", ""},
	{"CALL apoc.load.jdbcUpdate('jdbc:x', 'DROP TABLE t')", "apoc.load.jdbcUpdate()", ""},
	{"RETURN apoc.cypher.runFirstColumnSingle('RETURN 1', {}) AS x", "apoc.cypher.runFirstColumnSingle()", ""},
	{"CALL mg.create_module_file('evil.py', 'x')", "mg.create_module_file()", ""},

	// What ALLOW permits.
	{"CREATE INDEX hx1 IF NOT EXISTS FOR (n:HX) ON (n.k)", "CREATE INDEX HX1", "schema"},
	{"create /**/ range index hx1 IF NOT EXISTS FOR (n:HX) ON (n.k)", "CREATE RANGE INDEX", "schema"},
	{"CREATE FULLTEXT INDEX hx2 IF NOT EXISTS FOR (n:HX) ON EACH [n.t]", "CREATE FULLTEXT INDEX", "schema"},
	{"CREATE CONSTRAINT hx3 IF NOT EXISTS FOR (n:HY) REQUIRE n.k IS UNIQUE", "CREATE CONSTRAINT HX3", "schema"},
	{"DROP INDEX hx1 IF EXISTS", "DROP INDEX HX1", "schema"},
	{"DROP CONSTRAINT hx3 IF EXISTS", "DROP CONSTRAINT HX3", "schema"},
	{"CALL db.index.vector.createNodeIndex('hx4', 'HZ', 'p', 3, 'cosine')", "db.index.vector.createNodeIndex()", "schema"},
	{"CALL apoc.schema.assert({}, {})", "apoc.schema.assert()", "schema"},
	{"LOAD CSV FROM 'file:///etc/passwd' AS l RETURN l", "LOAD CSV", "load_csv"},
	{"LOAD/**/CSV WITH HEADERS FROM 'file:///etc/passwd' AS l RETURN l", "LOAD CSV", "load_csv"},
	{"load // x\ncsv FROM 'file:///etc/passwd' AS l RETURN l", "LOAD CSV", "load_csv"},
	{"LOAD\u00a0CSV FROM 'file:///etc/passwd' AS l RETURN l", "LOAD CSV", "load_csv"},
	{"RETURN EXISTS { LOAD CSV FROM 'file:///etc/passwd' AS l RETURN l } AS x", "LOAD CSV", "load_csv"},
	{"CALL () { LOAD CSV FROM 'file:///etc/passwd' AS l RETURN l } RETURN l", "LOAD CSV", "load_csv"},
	{"CALL apoc.load.json('http://169.254.169.254/') YIELD value RETURN value", "apoc.load.json()", "load_csv"},
	{"CALL apoc.xml.import('file:///etc/x.xml') YIELD node RETURN node", "apoc.xml.import()", "load_csv"},
	{"RETURN genai.vector.encode('x', 'OpenAI', {}) AS x", "genai.vector.encode()", "load_csv"},

	// Neo4j replaces \uXXXX before it looks for tokens.
	{`L\u004fAD CSV FROM 'file:///etc/passwd' AS l RETURN l`, "LOAD CSV", "load_csv"},
	{`L\uu004fAD CSV FROM 'file:///etc/passwd' AS l RETURN l`, "LOAD CSV", "load_csv"},
	{`LOAD\u0020CSV FROM 'file:///etc/passwd' AS l RETURN l`, "LOAD CSV", "load_csv"},
	{`CALL db\u006ds.listConfig() YIELD name RETURN name`, "dbms.listConfig()", ""},
	{`WITH '\u0027 AS x LOAD CSV FROM "file:///etc/passwd" AS l RETURN l // '`, "LOAD CSV", "load_csv"},
	{`RETURN 1 AS x /\u002a it goes on: *\u002f ; CREATE USER eve SET PASSWORD 'abcdefgh1'`, "CREATE USER EVE", ""},

	// Texts that one database reads in another way than the next.
	{"LOAD // x\rCSV FROM 'file:///etc/passwd' AS l RETURN l", "cannot be told", ""},
	{"LOAD\u0085CSV FROM 'file:///etc/passwd' AS l RETURN l", "cannot be told", ""},
	{"LOAD\u200bCSV FROM 'file:///etc/passwd' AS l RETURN l", "cannot be told", ""},
	{"LO\u200cAD CSV FROM 'file:///etc/passwd' AS l RETURN l", "cannot be told", ""},
	{"LOAD\x00CSV FROM 'file:///etc/passwd' AS l RETURN l", "cannot be told", ""},
	{"RETURN 1 AS `no end", "cannot be told", ""},

	// Memgraph's.
	{"SET PASSWORD TO 'x'", "SET PASSWORD TO", ""},
	{"SET DATABASE SETTING 'log.level' TO 'TRACE'", "SET DATABASE SETTING", ""},
	{"SET GLOBAL TRANSACTION ISOLATION LEVEL READ UNCOMMITTED", "SET GLOBAL TRANSACTION", ""},
	{"STORAGE MODE IN_MEMORY_ANALYTICAL", "STORAGE MODE IN_MEMORY_ANALYTICAL", ""},
	{"CREATE TRIGGER t ON CREATE BEFORE COMMIT EXECUTE CREATE (:X)", "CREATE TRIGGER T", ""},
	{"CREATE KAFKA STREAM s TOPICS t TRANSFORM m.f", "CREATE KAFKA STREAM", ""},
	{"START ALL STREAMS", "START ALL STREAMS", ""},
	{"CREATE SNAPSHOT", "CREATE SNAPSHOT", ""},
	{"DUMP DATABASE", "DUMP DATABASE", ""},
	{"FREE MEMORY", "FREE MEMORY", ""},
	{"REGISTER REPLICA r SYNC TO 'x'", "REGISTER REPLICA R", ""},
	{"DROP GRAPH", "DROP GRAPH", ""},
	{"USE DATABASE other", "USE DATABASE", ""},
	{"LOAD PARQUET FROM 'x' AS row CREATE (:X)", "LOAD PARQUET", "load_csv"},
	{"CREATE EDGE INDEX ON :R(k)", "CREATE EDGE INDEX", "schema"},
	{"CREATE GLOBAL EDGE INDEX ON :(k)", "CREATE GLOBAL EDGE", "schema"},
}

// permitted are texts that look a little like forbidden ones. All run on Neo4j.
var permitted = []string{
	"MATCH (n:Database {user: 'x', show: 1}) SET n.load = 1, n.csv = 2, n.role = 3, n.user = 'drop'",
	"MERGE (user:User {id: 1}) SET user.load = 'LOAD CSV FROM \"x\"', user.create = 'CREATE USER x'",
	"CREATE user = (:User)-[:GRANT]->(:Role), database = (:`CREATE USER`)",
	"CREATE (load:LOAD {csv: 1}) WITH load, load.csv AS csv RETURN load, csv",
	"WITH 1 AS load, 2 AS csv RETURN load, csv",
	"UNWIND [1] AS use WITH use AS call RETURN call",
	"WITH 1 AS call RETURN call ORDER BY call",
	"RETURN DISTINCT 1 AS use",
	"UNWIND [1] AS use CALL { WITH use RETURN use AS x } RETURN x",
	"WITH {use: 1, call: 2, load: 3} AS m RETURN m.use AS use, m {.use, .call} AS x",
	"WITH [1] AS transactions MATCH (n:None) WHERE n.x IN transactions RETURN n",
	"WITH [{a: 1}] AS transactions RETURN {a: 1} IN transactions AS x",
	"MATCH (t:None) CALL (t) { RETURN 1 AS x } WITH t, x WHERE x IN [1] RETURN t AS transactions",
	"CREATE (n:`dbms.listConfig` {`apoc.load.json`: 1})",
	"MATCH (db:None), (dbms:None) WHERE db.clear = 1 SET dbms.killConnection = db.x",
	"RETURN 1 AS x // ; CREATE USER eve",
	"RETURN '; DROP USER x' AS x, \"CALL dbms.listConfig()\" AS y /* USE system */",
	"RETURN 'a\\u00e9 LOAD CSV' AS x",
	"RETURN '\\\\u0027 CALL dbms.listConfig()' AS x",
	"MERGE (n:Größe {straße: 1}) SET n.名前 = 'x'",
	"CALL db.labels() YIELD label RETURN label",
	"CALL db.createLabel('Made')",
	"RETURN point.distance(point({x: 1, y: 1}), point({x: 2, y: 2})) AS d, duration.between(date(), date()) AS e",
	"FOREACH (drop IN [1] | CREATE (:Alter {grant: drop}))",
	"OPTIONAL MATCH (n:None) DELETE n",
	"CYPHER 5 runtime = slotted MATCH (n:None) SET n.x = 1",
	"EXPLAIN MATCH (n:None) SET n.x = 1",
	"PROFILE MATCH (n:None) SET n.x = 1",
	"USE neo4j MATCH (n:None) RETURN n",
	"USE `NEO4J` MATCH (n:None) RETURN n",
	"CALL () { USE neo4j MATCH (n:None) RETURN n } RETURN n",
	"MATCH (n:None) RETURN n;",
}

func TestForbiddenTextsAreRefused(t *testing.T) {
	s := start(t, boltserver.Hooks{})
	sink := open(t, s)
	for _, tc := range forbidden {
		t.Run(tc.text, func(t *testing.T) {
			w := work(plainly("CREATE (:Before)", 3), plainly(tc.text, 5))
			w.Database = "neo4j"
			for _, allow := range [][]string{nil, {"schema"}, {"load_csv"}, {"schema", "load_csv"}} {
				w.Allow = allow
				_, err := sink.Execute(t.Context(), w)
				if tc.allow != "" && strings.Contains(fmt.Sprint(allow), tc.allow) {
					require.NoError(t, err)
					continue
				}
				f := faultOf(t, err)
				require.Equal(t, message, f.Class)
				require.Equal(t, "not_allowed", f.Code)
				require.Equal(t, 5, f.Message)
				require.Contains(t, f.Text, tc.what)
				require.False(t, f.Unfamiliar)
				if tc.allow != "" {
					require.Regexp(t, "--allow (.*,)?"+tc.allow, f.Next)
				} else {
					require.NotContains(t, f.Next, "allow")
				}
			}
		})
	}
	for _, tx := range s.Autocommitted() {
		require.NotContains(t, tx.Statements[0].Query, "USER", "not even explained")
	}
}

func TestTextsThatLookForbiddenAreSent(t *testing.T) {
	s := start(t, boltserver.Hooks{})
	sink := open(t, s)
	for _, text := range permitted {
		t.Run(text, func(t *testing.T) {
			w := work(plainly(text, 0))
			w.Database = "neo4j"
			_, err := sink.Execute(t.Context(), w)
			require.NoError(t, err)
		})
	}
	require.Len(t, s.Committed(), len(permitted))
}

// TestLongTextsAreLookedThroughQuickly is of texts as long as a transformation may
// return, whose words make it tempting to look back. Nothing interrupts the look:
// neither STOP nor the end of the server would come before its end.
func TestLongTextsAreLookedThroughQuickly(t *testing.T) {
	s := start(t, boltserver.Hooks{})
	sink := open(t, s)
	for name, text := range map[string]string{
		"words that may be clauses":       "RETURN " + strings.Repeat("use ", 200_000),
		"options without end":             "CYPHER " + strings.Repeat("use = use ", 80_000),
		"braces behind one parenthesis":   "RETURN (" + strings.Repeat("){", 400_000),
		"parentheses of a call, unclosed": strings.Repeat("CALL (", 100_000) + strings.Repeat("){", 100_000),
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			_, err := sink.Execute(t.Context(), work(plainly(text, 0)))
			if err != nil {
				require.Equal(t, "not_allowed", faultOf(t, err).Code)
			}
			require.Less(t, time.Since(began), time.Minute, "minutes and more where it looks back")
		})
	}
}

// TestTextsOfSignsAloneTakeNoMemoryWithoutBound: a token takes many times what a
// sign does.
func TestTextsOfSignsAloneTakeNoMemoryWithoutBound(t *testing.T) {
	sink := open(t, start(t, boltserver.Hooks{}))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := sink.Execute(t.Context(), work(plainly(strings.Repeat("(", 16<<20), 0)))
	runtime.ReadMemStats(&after)
	f := faultOf(t, err)
	require.Equal(t, "not_allowed", f.Code)
	require.Contains(t, f.Text, "data belongs into parameters")
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(200<<20), "of 16 MiB")
}

func TestOwnDatabaseIsThatOfTheStream(t *testing.T) {
	s := start(t, boltserver.Hooks{})
	sink := open(t, s)
	for text, databases := range map[string]map[string]bool{
		"USE movies RETURN 1 AS x":                       {"movies": true, "Movies": true, "": false, "movie": false, "other": false},
		"USE movies.part RETURN 1 AS x":                  {"movies": true, "movies.part": true, "movies.p": false, "": false},
		"USE movies RETURN 1 AS x UNION USE a RETURN x":  {"movies": false, "a": false},
		"CYPHER 5 runtime = slotted USE a RETURN 1 AS x": {"a": true, "b": false},

		// Neo4j takes USE behind a WITH that imports.
		"UNWIND [1] AS x CALL { WITH x USE a RETURN 2 AS y } RETURN y":                          {"a": true, "b": false},
		"UNWIND [1] AS x CALL { WITH * USE a RETURN 2 AS y } RETURN y":                          {"a": true, "b": false},
		"UNWIND [1] AS x WITH x, x AS z CALL { WITH x, z AS z USE `a` RETURN 2 AS y } RETURN y": {"a": true, "b": false},
		"UNWIND [1] AS x CALL { WITH x USE graph.byName('a') RETURN 2 AS y } RETURN y":          {"a": false},
		"RETURN 1 AS x UNION USE movies.a RETURN 1 AS x":                                        {"movies": true},
		"MATCH (n) CALL (n) { USE a RETURN 1 AS x } RETURN x":                                   {"a": true, "b": false},
	} {
		for database, ok := range databases {
			w := work(plainly(text, 0))
			w.Database = database
			_, err := sink.Execute(t.Context(), w)
			require.Equal(t, ok, err == nil, "%s in %q: %v", text, database, err)
		}
	}
}

// TestDatabaseSaysThatATextChangesTheSchema is of what tokens cannot tell: a
// procedure of somebody's own.
func TestDatabaseSaysThatATextChangesTheSchema(t *testing.T) {
	s := start(t, boltserver.Hooks{OnRun: func(st boltserver.Statement) boltserver.Reply {
		if strings.Contains(st.Query, "acme.index") {
			return boltserver.Reply{Type: "s"}
		}
		return boltserver.Reply{}
	}})
	sink := open(t, s)
	w := work(plainly("CREATE (:A)", 0), plainly("CALL acme.index('A', 'k')", 4))
	w.Allow = []string{"load_csv"}
	for batch := range 3 {
		_, err := sink.Execute(t.Context(), w)
		if batch < 2 {
			require.NoError(t, err, "it has not been examined yet")
			continue
		}
		f := faultOf(t, err)
		require.Equal(t, "not_allowed", f.Code)
		require.Equal(t, message, f.Class)
		require.Equal(t, 4, f.Message)
		require.Contains(t, f.Next, "graphmill stream edit s --allow load_csv,schema")
	}
	w.Stream, w.Allow = "another", []string{"schema"}
	_, err := sink.Execute(t.Context(), w)
	require.NoError(t, err)
}

func TestFloodOfTextsIsBounded(t *testing.T) { flood(t, 30_000) }

// flood sends texts that never come again, and looks at what is kept of them.
func flood(t *testing.T, n int) {
	s := start(t, boltserver.Hooks{})
	sink := open(t, s)
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapInuse
	}
	text := func(i int) string {
		return "CREATE (:Event {id: " + strconv.Itoa(i) + ", text: '" + strings.Repeat("x", 500) + "'})"
	}
	send := func(from, to int) {
		for from < to {
			var list []graphmill.Statement
			for range 1000 {
				list = append(list, plainly(text(from), len(list)))
				from++
			}
			_, err := sink.Execute(t.Context(), work(list...))
			require.NoError(t, err)
			s.Forget()
		}
	}
	send(0, n/2)
	before := heap()
	send(n/2, n)
	after := heap()
	t.Logf("heap after %d texts %d KiB, after %d %d KiB", n/2, before>>10, n, after>>10)
	require.Less(t, after, before+4<<20)
	require.Zero(t, explained(s))
	require.Len(t, sink.Texts("s"), 50)
}

// TestStatementsThatAreNotAllowedAreToldOnceAMessage: a transformation may make a
// million of them, each of which would be told with its text.
func TestStatementsThatAreNotAllowedAreToldOnceAMessage(t *testing.T) {
	sink := openURI(t, "bolt://127.0.0.1:1")
	query := &graphmill.Query{Text: "LOAD CSV FROM 'file:///x' AS row CREATE (:A)"}
	statements := make([]graphmill.Statement, 10_000)
	for i := range statements {
		statements[i] = graphmill.Statement{Query: query, Message: i % 2}
	}
	faults := sink.NotAllowed(work(statements...))
	require.Len(t, faults, 2)
	require.Equal(t, []int{0, 1}, []int{faults[0].Message, faults[1].Message})
}
