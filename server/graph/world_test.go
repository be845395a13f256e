package graph_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/integration/boltserver"
	"github.com/graphmill/graphmill/server/graph"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open makes a sink on a server that is closed when the test ends.
func open(t *testing.T, s *boltserver.Server, change ...func(*graph.Config)) *graph.Sink {
	t.Helper()
	return openURI(t, s.URI(), change...)
}

func openURI(t *testing.T, uri string, change ...func(*graph.Config)) *graph.Sink {
	t.Helper()
	cfg := graph.Config{URI: uri}
	for _, f := range change {
		f(&cfg)
	}
	sink, err := graph.Open(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, sink.Close(context.Background())) })
	return sink
}

// start starts a server with hooks.
func start(t *testing.T, hooks boltserver.Hooks) *boltserver.Server {
	t.Helper()
	return boltserver.Start(t, boltserver.Options{Hooks: hooks})
}

var rate = &graphmill.Query{Text: "MERGE (u:User {id: $id}) SET u.rating = $rating"}

// rated makes n statements of one text, each of a message of its own.
func rated(n int) []graphmill.Statement {
	list := make([]graphmill.Statement, n)
	for i := range list {
		list[i] = graphmill.Statement{Query: rate, Params: map[string]any{"id": int64(i), "rating": 1.5}, Message: i}
	}
	return list
}

// plainly makes a statement of a text without parameters.
func plainly(text string, message int) graphmill.Statement {
	return graphmill.Statement{Query: &graphmill.Query{Text: text}, Message: message}
}

func work(statements ...graphmill.Statement) graphmill.Work {
	at := graphmill.TopicPartition{Topic: "ratings", Partition: 2}
	return graphmill.Work{
		Stream: "s", Coalesce: true, Statements: statements,
		First: []graphmill.Position{{TopicPartition: at, Offset: 100}},
		Last:  []graphmill.Position{{TopicPartition: at, Offset: 100 + int64(len(statements))}},
	}
}

// queries returns what the statements of a transaction were, the coalesced ones
// as COALESCED and their number of rows.
func queries(tx boltserver.Transaction) []string {
	var list []string
	for _, st := range tx.Statements {
		q := st.Query
		if strings.Contains(q, "UNWIND $rows") {
			q = fmt.Sprintf("COALESCED %d", len(st.Rows()))
		}
		list = append(list, q)
	}
	return list
}

// explained counts the EXPLAINs that a server has had.
func explained(s *boltserver.Server) int {
	n := 0
	for _, tx := range s.Autocommitted() {
		if strings.HasPrefix(tx.Statements[0].Query, "EXPLAIN ") {
			n++
		}
	}
	return n
}

// faultOf returns the fault that an error is.
func faultOf(t *testing.T, err error) *graphmill.Fault {
	t.Helper()
	require.Error(t, err)
	f, ok := err.(*graphmill.Fault) // as it is, not wrapped
	require.True(t, ok, "%T: %v", err, err)
	return f
}

// promptly returns what is sent, and fails the test where that takes long: far less than
// for ever, far more than what a busy machine needs.
func promptly[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(time.Minute):
		require.FailNow(t, "it takes too long")
		panic("unreachable")
	}
}

// eventually waits for progress of another goroutine.
func eventually(t *testing.T, what func() bool) {
	t.Helper()
	require.Eventually(t, what, time.Minute, time.Millisecond)
}
