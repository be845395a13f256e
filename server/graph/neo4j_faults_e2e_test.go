//go:build e2e

package graph_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/server/graph"
	"github.com/neo4j/neo4j-go-driver/v5/neo4j"
	"github.com/stretchr/testify/require"
)

func (db *database) testMetadata(t *testing.T) {
	db.wipe(t, "CREATE (:Lock {k: 1})")
	session := db.driver.NewSession(t.Context(), neo4j.SessionConfig{})
	defer session.Close(t.Context())
	tx, err := session.BeginTransaction(t.Context())
	require.NoError(t, err)
	_, err = tx.Run(t.Context(), "MATCH (l:Lock) SET l.held = true", nil)
	require.NoError(t, err)
	done := make(chan error)
	go func() {
		w := work(plainly("MATCH (l:Lock) SET l.mine = true", 0))
		w.Stream, w.Attempt, w.Module = "größte 'Ströme'", 7, graphmill.ModuleVersion{Name: "movies", Version: 3}
		for i := range 1000 { // more positions than metadata may hold
			at := graphmill.TopicPartition{Topic: "ratings", Partition: int32(i + 10)}
			w.First = append(w.First, graphmill.Position{TopicPartition: at, Offset: 1 << 40})
			w.Last = append(w.Last, graphmill.Position{TopicPartition: at, Offset: 1<<40 + 1000})
		}
		_, err := db.sink.Execute(t.Context(), w)
		done <- err
	}()
	var seen [][]any
	eventually(t, func() bool {
		seen = db.ask(t, "SHOW TRANSACTIONS YIELD metaData WHERE metaData.app = 'graphmill' RETURN metaData", nil)
		return len(seen) == 1
	})
	t.Logf("SHOW TRANSACTIONS: %v", seen)
	got := seen[0][0].(map[string]any)
	require.Contains(t, got["positions"], "ratings/2:100-100, ratings/10:1099511627776-1099511628775, ")
	require.Regexp(t, ` and \d+ more$`, got["positions"])
	delete(got, "positions")
	require.Equal(t, map[string]any{"app": "graphmill", "stream": "größte 'Ströme'", "module": "movies version 3", "attempt": int64(7)}, got)
	require.NoError(t, tx.Rollback(t.Context()))
	require.NoError(t, <-done)
}

func (db *database) testFaults(t *testing.T) {
	db.wipe(t)
	for _, tc := range []struct {
		name       string
		setUp      []string
		statements []graphmill.Statement
		class      graphmill.FaultClass
		code       string
		text       string
		message    int
	}{
		{"unique, at RUN", nil, rows("CREATE (:U {id: $v})", count(1, "v")[0], count(1, "v")[0]), message, "message", "ConstraintValidationFailed", 1},
		{"connected node, at COMMIT", []string{"CREATE (:T)-[:R]->(:O)"}, []graphmill.Statement{plainly("MATCH (t:T) DELETE t", 4)}, message, "message", "ConstraintValidationFailed", graphmill.WholeBatch},
		{"null key", nil, rows("MERGE (:C {k: $k})", map[string]any{"k": nil}), message, "message", "SemanticError", 0},
		{"date", nil, []graphmill.Statement{plainly("CREATE (:C {d: date('x')})", 7)}, message, "message", "SyntaxError", 7},
		{"too long for an index", nil, rows("CREATE (:U {id: $k})", map[string]any{"k": strings.Repeat("x", 40_000)}), message, "message", "Neo.DatabaseError.Statement.ExecutionFailed", 0},
		{"time zone without a name", nil, rows("CREATE (:C {t: $t})", map[string]any{"t": time.Now().In(time.FixedZone("nowhere", 7))}), message, "message", "Neo.ClientError", 0},
		{"schema and data together", nil, []graphmill.Statement{plainly("CREATE (:C)", 0), plainly("CREATE INDEX c IF NOT EXISTS FOR (c:C) ON (c.k)", 1)}, message, "message", "ForbiddenDueToTransactionType", 1},
		{"unknown procedure", nil, []graphmill.Statement{plainly("CALL no.such()", 2)}, message, "message", "ProcedureNotFound", 2},
		{"memory of a transaction", nil, []graphmill.Statement{plainly("UNWIND range(1, 500000) AS i CREATE (:Big {i: i, s: 'x' + i})", 2)}, tooBig, "too_big", "MemoryPoolOutOfMemory", 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			db.wipe(t, append([]string{"CREATE CONSTRAINT u IF NOT EXISTS FOR (u:U) REQUIRE u.id IS UNIQUE"}, tc.setUp...)...)
			w := work(tc.statements...)
			w.Allow = []string{graphmill.AllowSchema}
			_, err := db.sink.Execute(t.Context(), w)
			f := faultOf(t, err)
			t.Log(f)
			require.Equal(t, tc.class, f.Class)
			require.Equal(t, tc.code, f.Code)
			require.Contains(t, f.Text, tc.text)
			require.Equal(t, tc.message, f.Message)
			require.False(t, f.Unknown)
			require.False(t, f.Outage)
			require.Len(t, db.graph(t), 3*len(tc.setUp), "nothing has been applied")
		})
	}
}

// blocked waits until a transaction with these words in its statement waits for
// a lock.
func (db *database) blocked(t *testing.T, words string) {
	t.Helper()
	eventually(t, func() bool {
		return len(db.ask(t, "SHOW TRANSACTIONS YIELD currentQuery, status WHERE currentQuery CONTAINS $w AND status STARTS WITH 'Blocked' RETURN status",
			map[string]any{"w": words})) > 0
	})
}

func (db *database) testTimeout(t *testing.T) {
	db.wipe(t, "CREATE (:Lock)")
	session := db.driver.NewSession(t.Context(), neo4j.SessionConfig{})
	defer session.Close(t.Context())
	tx, err := session.BeginTransaction(t.Context())
	require.NoError(t, err)
	_, err = tx.Run(t.Context(), "MATCH (l:Lock) SET l.held = true", nil)
	require.NoError(t, err)
	sink := openURI(t, db.URI(), db.login, func(c *graph.Config) { c.TransactionTimeout = time.Second })
	for name, text := range map[string]string{
		"while it waits for a lock": "MATCH (l:Lock) SET l.mine = true",
		"while it works":            "UNWIND range(1, 100000000) AS i WITH i WHERE i < 0 RETURN i",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := sink.Execute(t.Context(), work(plainly(text, 3)))
			f := faultOf(t, err)
			t.Log(f)
			if name == "while it works" {
				require.Equal(t, tooBig, f.Class)
			}
			require.Contains(t, []string{"too_big", "conflict"}, f.Code)
			require.False(t, f.Outage)
		})
	}
	require.NoError(t, tx.Rollback(t.Context()))
}

func (db *database) testTerminated(t *testing.T) {
	db.wipe(t, "CREATE (:Lock)")
	session := db.driver.NewSession(t.Context(), neo4j.SessionConfig{})
	defer session.Close(t.Context())
	tx, err := session.BeginTransaction(t.Context())
	require.NoError(t, err)
	_, err = tx.Run(t.Context(), "MATCH (l:Lock) SET l.held = true", nil)
	require.NoError(t, err)
	done := make(chan error)
	go func() {
		_, err := db.sink.Execute(t.Context(), work(plainly("MATCH (l:Lock) SET l.mine = true", 3)))
		done <- err
	}()
	db.blocked(t, "l.mine")
	id := db.ask(t, "SHOW TRANSACTIONS YIELD transactionId, metaData WHERE metaData.app = 'graphmill' RETURN transactionId", nil)[0][0]
	db.ask(t, "TERMINATE TRANSACTIONS $id", map[string]any{"id": id})
	f := faultOf(t, <-done)
	t.Log(f)
	require.Equal(t, transient, f.Class)
	require.Equal(t, "conflict", f.Code)
	require.NoError(t, tx.Rollback(t.Context()))
}

func wrongPassword(c *graph.Config) { c.Password = "wrong" }

// address is host and port of the database, which speaks TLS only.
func (db *database) address() string { return strings.TrimPrefix(db.URI(), "bolt+ssc://") }

// knownAuthority names the variable with the address and the password for
// TestVerifiedByAnAuthority.
const knownAuthority = "GRAPHMILL_TEST_KNOWN_AUTHORITY"

// testKnownAuthority verifies the server's certificate in a process of its own: a
// process reads the authorities that it knows once, at its first look at a
// certificate.
func (db *database) testKnownAuthority(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self, "-test.run", "^TestVerifiedByAnAuthority$", "-test.v")
	cmd.Env = append(os.Environ(), "SSL_CERT_FILE="+db.CAFile(), knownAuthority+"="+db.address()+" "+db.Password())
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "--- PASS: TestVerifiedByAnAuthority")
}

func TestVerifiedByAnAuthority(t *testing.T) {
	address, password, ok := strings.Cut(os.Getenv(knownAuthority), " ")
	if !ok {
		t.Skip("it is run by TestNeo4j")
	}
	for _, scheme := range []string{"bolt+s", "neo4j+s"} {
		sink := openURI(t, scheme+"://"+address, func(c *graph.Config) { c.User, c.Password = "neo4j", password })
		require.NoError(t, sink.Verify(t.Context(), "neo4j"), scheme)
	}
}

func (db *database) testSetUp(t *testing.T) {
	right := func(*graph.Config) {}
	for _, tc := range []struct {
		name, scheme, database string
		change                 func(*graph.Config)
		code, text             string // empty: it works
	}{
		{"TLS", "bolt+ssc", "neo4j", right, "", ""},
		{"TLS, of a cluster", "neo4j+ssc", "neo4j", right, "", ""},
		{"wrong password", "bolt+ssc", "", wrongPassword, "auth", "Unauthorized"},
		{"right password", "bolt+ssc", "", right, "", ""}, // three wrong ones in a row lock the account
		{"wrong password, of a cluster", "neo4j+ssc", "", wrongPassword, "auth", "Unauthorized"},
		{"unknown database", "bolt+ssc", "nope", right, "database_not_found", "nope"},
		{"unknown database, of a cluster", "neo4j+ssc", "nope", right, "database_not_found", "nope"},
		{"no TLS", "bolt", "", right, "tls", "speaks TLS only"},
		{"no TLS, of a cluster", "neo4j", "", right, "tls", "speaks TLS only"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			sink := openURI(t, tc.scheme+"://"+db.address(), db.login, tc.change)
			err := sink.Verify(t.Context(), tc.database)
			if tc.code == "" {
				require.NoError(t, err)
				return
			}
			t.Log(err)
			f := faultOf(t, err)
			require.Equal(t, setUp, f.Class)
			require.Equal(t, tc.code, f.Code)
			require.Contains(t, f.Text, tc.text)
		})
	}
}

func (db *database) testServerIsKilled(t *testing.T) {
	db.wipe(t, "CREATE (:Lock)")
	session := db.driver.NewSession(t.Context(), neo4j.SessionConfig{})
	defer session.Close(t.Context())
	tx, err := session.BeginTransaction(t.Context())
	require.NoError(t, err)
	_, err = tx.Run(t.Context(), "MATCH (l:Lock) SET l.held = true", nil)
	require.NoError(t, err)
	done := make(chan error)
	go func() {
		_, err := db.sink.Execute(t.Context(), work(plainly("CREATE (:Half)", 0), plainly("MATCH (l:Lock) SET l.mine = true", 1)))
		done <- err
	}()
	db.blocked(t, "l.mine")
	require.NoError(t, db.Kill())
	f := faultOf(t, <-done)
	t.Log(f)
	require.Equal(t, "database_unreachable", f.Code)
	require.True(t, f.Outage)
	require.False(t, f.Unknown, "nothing had been committed")

	f = faultOf(t, db.sink.Verify(t.Context(), ""))
	t.Log(f)
	require.Equal(t, "database_unreachable", f.Code)

	require.NoError(t, db.Restart(t.Context()))
	require.NoError(t, db.sink.Verify(t.Context(), ""))
	eventually(t, func() bool { return db.driver.VerifyConnectivity(t.Context()) == nil }) // its old connections are dead
	_, err = db.sink.Execute(t.Context(), work(rows("CREATE (:After {v: $v})", count(3, "v")...)...))
	require.NoError(t, err)
	require.Len(t, db.graph(t), 4, "the lock and what came after, nothing by halves")
}
