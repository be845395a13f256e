//go:build e2e

package graph_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/graphmill/graphmill"
	"github.com/neo4j/neo4j-go-driver/v5/neo4j"
	"github.com/stretchr/testify/require"
)

// hold begins a transaction of somebody else that holds the locks of what a
// statement writes.
func (db *database) hold(t *testing.T, statement string) neo4j.ExplicitTransaction {
	t.Helper()
	tx, err := db.session(t).BeginTransaction(t.Context())
	require.NoError(t, err)
	_, err = tx.Run(t.Context(), statement, nil)
	require.NoError(t, err)
	return tx
}

// testDeadlock closes a circle with the batch: it is held up between two of its
// statements until the other transaction waits for it. Neo4j gives up the one that
// holds fewer locks, so the other one holds many.
func (db *database) testDeadlock(t *testing.T) {
	db.wipe(t, "CREATE (:A), (:B), (:Gate)", "UNWIND range(1, 50) AS i CREATE (:Many)")
	for attempt := range 20 {
		gate := db.hold(t, "MATCH (g:Gate) SET g.held = true")
		other := db.hold(t, "MATCH (n) WHERE n:B OR n:Many SET n.other = 1")
		ours, theirs := make(chan error, 1), make(chan error, 1)
		go func() {
			_, err := db.sink.Execute(t.Context(), work(
				plainly("MATCH (a:A) SET a.ours = 1", 0), plainly("MATCH (g:Gate) SET g.ours = 1", 1), plainly("MATCH (b:B) SET b.ours = 1", 2)))
			ours <- err
		}()
		db.blocked(t, "g.ours")
		go func() {
			result, err := other.Run(t.Context(), "MATCH (a:A) SET a.other = 1", nil)
			if err == nil {
				_, err = result.Consume(t.Context())
			}
			theirs <- err
		}()
		db.blocked(t, "a.other")
		require.NoError(t, gate.Rollback(t.Context()))
		theirError := <-theirs
		other.Close(t.Context())
		if err := <-ours; err != nil {
			f := faultOf(t, err)
			t.Logf("attempt %d: %v", attempt, f)
			require.Equal(t, transient, f.Class)
			require.Equal(t, "conflict", f.Code)
			require.False(t, f.Outage)
			require.False(t, f.Unknown)
			return
		}
		require.Error(t, theirError, "attempt %d: one of the two is the victim", attempt)
	}
	t.Fatal("the other transaction was the victim each time")
}

// testRivals is of two lanes that MERGE the same two nodes in opposite order.
func (db *database) testRivals(t *testing.T) {
	db.wipe(t, "CREATE CONSTRAINT u IF NOT EXISTS FOR (u:U) REQUIRE u.id IS UNIQUE")
	const retries = 30 // the default of --stream-transaction-conflict-retries
	rounds := 100
	if whole() {
		rounds = 500
	}
	statements := func(ids ...string) []graphmill.Statement {
		var params []map[string]any
		for _, id := range ids {
			params = append(params, map[string]any{"id": id})
		}
		return rows("MERGE (u:U {id: $id}) SET u.n = coalesce(u.n, 0) + 1", params...)
	}
	worst := make([]int, 2)
	conflicts := make([]int, 2)
	var wg sync.WaitGroup
	for lane, order := range [][]string{{"x", "y"}, {"y", "x"}} {
		wg.Go(func() {
			for round := range rounds {
				w := work(statements(fmt.Sprint(order[0], round/10), fmt.Sprint(order[1], round/10))...)
				w.Stream, w.Coalesce = fmt.Sprint("lane", lane), round%2 == 0
				bound := 20 * time.Millisecond
				for attempt := 1; ; attempt++ {
					w.Attempt = attempt
					_, err := db.sink.Execute(t.Context(), w)
					if err == nil {
						break
					}
					f, ok := err.(*graphmill.Fault)
					if !ok || f.Code != "conflict" || attempt > retries {
						t.Errorf("lane %d, round %d, attempt %d: %v", lane, round, attempt, err)
						return
					}
					conflicts[lane]++
					worst[lane] = max(worst[lane], attempt)
					pause := time.NewTimer(time.Millisecond + rand.N(bound)) // as server/pause.go has it
					<-pause.C
					bound = min(2*bound, 500*time.Millisecond)
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%v conflicts in %d rounds a lane, at most %v in a row", conflicts, rounds, worst)
	require.Equal(t, [][]any{{int64(rounds / 10 * 2), int64(20), int64(20)}},
		db.ask(t, "MATCH (u:U) RETURN count(u), min(u.n), max(u.n)", nil), "each node has had 10 rounds of two lanes")
}

// testCancelled is of a batch that is given up: the database lets go of it by
// itself, soon, and never commits it.
func (db *database) testCancelled(t *testing.T) {
	db.wipe(t, "CREATE (:Lock)")
	for name, text := range map[string]string{
		"while it waits for a lock": "MATCH (l:Lock) SET l.mine = true",
		"while it works":            "UNWIND range(1, 1000000000) AS i WITH i WHERE i < 0 RETURN i AS mine",
	} {
		t.Run(name, func(t *testing.T) {
			lock := db.hold(t, "MATCH (l:Lock) SET l.held = true")
			defer lock.Rollback(context.WithoutCancel(t.Context()))
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error)
			go func() {
				_, err := db.sink.Execute(ctx, work(plainly("CREATE (:Half)", 0), plainly(text, 1)))
				done <- err
			}()
			running := func() bool {
				return len(db.ask(t, "SHOW TRANSACTIONS YIELD currentQuery, metaData WHERE metaData.app = 'graphmill' AND currentQuery CONTAINS 'mine' RETURN 1", nil)) > 0
			}
			eventually(t, running)
			cancel()
			begun := time.Now()
			require.ErrorIs(t, <-done, context.Canceled)
			t.Logf("the call returned after %s", time.Since(begun).Round(time.Millisecond))
			require.Less(t, time.Since(begun), 2*time.Second)
			eventually(t, func() bool {
				return len(db.ask(t, "SHOW TRANSACTIONS YIELD metaData WHERE metaData.app = 'graphmill' RETURN 1", nil)) == 0
			})
			t.Logf("the database had let go of it after %s", time.Since(begun).Round(time.Millisecond))
			require.Len(t, db.ask(t, "MATCH (h:Half) RETURN h", nil), 0)

			// The lane goes on at once, on a connection of its own.
			_, err := db.sink.Execute(t.Context(), work(plainly("MERGE (:Whole)", 0)))
			require.NoError(t, err)
		})
	}
	require.Empty(t, db.ask(t, "MATCH (h:Half) RETURN h", nil))
}

// testAccountIsNotLocked: Neo4j locks an account after three wrong passwords.
func (db *database) testAccountIsNotLocked(t *testing.T) {
	wrong := openURI(t, db.URI(), db.login, wrongPassword)
	for range 2 {
		for _, err := range crowd(t, wrong, 50) {
			f := faultOf(t, err)
			require.Equal(t, "auth", f.Code)
			require.Contains(t, f.Text, "Unauthorized", "and not: too many attempts")
		}
	}
	require.NoError(t, openURI(t, db.URI(), db.login).Verify(t.Context(), ""), "the account is open")
}
