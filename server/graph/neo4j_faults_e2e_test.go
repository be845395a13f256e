//go:build e2e

package graph_test

import (
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
		_, err := db.sink.Execute(t.Context(), work(plainly("MATCH (l:Lock) SET l.mine = true", 0)))
		done <- err
	}()
	var seen [][]any
	eventually(t, func() bool {
		seen = db.ask(t, "SHOW TRANSACTIONS YIELD metaData WHERE metaData.app = 'graphmill' RETURN metaData", nil)
		return len(seen) == 1
	})
	t.Logf("SHOW TRANSACTIONS: %v", seen)
	require.Equal(t, map[string]any{"app": "graphmill", "stream": "s", "positions": "ratings/2:100-100"}, seen[0][0])
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
		{"subquery in transactions", nil, []graphmill.Statement{plainly("CALL () { CREATE (:C) } IN TRANSACTIONS", 2)}, message, "message", "TransactionStartFailed", 2},
		{"unknown procedure", nil, []graphmill.Statement{plainly("CALL no.such()", 2)}, message, "message", "ProcedureNotFound", 2},
		{"memory of a transaction", nil, []graphmill.Statement{plainly("UNWIND range(1, 500000) AS i CREATE (:Big {i: i, s: 'x' + i})", 2)}, tooBig, "too_big", "MemoryPoolOutOfMemory", 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			db.wipe(t, tc.setUp...)
			_, err := db.sink.Execute(t.Context(), work(tc.statements...))
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

func (db *database) testDeadlock(t *testing.T) {
	db.wipe(t, "CREATE (:A), (:B)")
	for attempt := range 10 {
		session := db.driver.NewSession(t.Context(), neo4j.SessionConfig{})
		tx, err := session.BeginTransaction(t.Context())
		require.NoError(t, err)
		_, err = tx.Run(t.Context(), "MATCH (b:B) SET b.other = 1", nil)
		require.NoError(t, err)
		ours := make(chan error)
		go func() {
			_, err := db.sink.Execute(t.Context(), work(plainly("MATCH (a:A) SET a.ours = 1", 0), plainly("MATCH (b:B) SET b.ours = 1", 1)))
			ours <- err
		}()
		db.blocked(t, "b.ours")
		_, theirs := tx.Run(t.Context(), "MATCH (a:A) SET a.other = 1", nil) // closes the circle
		if theirs == nil {
			require.NoError(t, tx.Commit(t.Context()))
		}
		session.Close(t.Context())
		if err := <-ours; err != nil {
			f := faultOf(t, err)
			t.Log(f)
			require.Equal(t, transient, f.Class)
			require.Equal(t, "conflict", f.Code)
			require.False(t, f.Outage)
			return
		}
		require.Error(t, theirs, "attempt %d: one of the two is the victim", attempt)
	}
	t.Skip("the other transaction was the victim each time")
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

func (db *database) testSetUp(t *testing.T) {
	for _, tc := range []struct {
		name, uri, password, database string
		class                         graphmill.FaultClass
		code                          string
	}{
		{"wrong password", db.URI(), "wrong", "", setUp, "auth"},
		{"wrong password, of a cluster", strings.Replace(db.URI(), "bolt:", "neo4j:", 1), "wrong", "", setUp, "auth"},
		{"unknown database", db.URI(), db.Password(), "nope", setUp, "database_not_found"},
		{"unknown database, of a cluster", strings.Replace(db.URI(), "bolt:", "neo4j:", 1), db.Password(), "nope", setUp, "database_not_found"},
		{"TLS", strings.Replace(db.URI(), "bolt:", "bolt+ssc:", 1), db.Password(), "", transient, "database_unreachable"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			sink := openURI(t, tc.uri, func(c *graph.Config) { c.User, c.Password = db.User(), tc.password })
			err := sink.Verify(t.Context(), tc.database)
			t.Log(err)
			f := faultOf(t, err)
			require.Equal(t, tc.class, f.Class)
			require.Equal(t, tc.code, f.Code)
		})
	}
	require.NoError(t, openURI(t, strings.Replace(db.URI(), "bolt:", "neo4j:", 1), db.login).Verify(t.Context(), "neo4j"))
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
