package graph_test

import (
	"testing"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/integration/boltserver"
	"github.com/graphmill/graphmill/server/graph"
	"github.com/stretchr/testify/require"
)

// BenchmarkBatch is what this side of the connection takes for a batch of 1000
// statements, and the recording server with it.
func BenchmarkBatch(b *testing.B) {
	positional := &graphmill.Query{Text: rate.Text, Names: []string{"id", "rating"}}
	forms := map[string]func(i int) graphmill.Statement{
		"maps": func(i int) graphmill.Statement {
			return graphmill.Statement{Query: rate, Params: map[string]any{"id": int64(i), "rating": 1.5}, Message: i}
		},
		"positions": func(i int) graphmill.Statement {
			return graphmill.Statement{Query: positional, Values: []any{int64(i), 1.5}, Message: i}
		},
	}
	for name, statement := range forms {
		b.Run(name, func(b *testing.B) {
			s := boltserver.Start(b, boltserver.Options{})
			sink, err := graph.Open(graph.Config{URI: s.URI()})
			require.NoError(b, err)
			defer sink.Close(b.Context())
			w := work()
			for i := range 1000 {
				w.Statements = append(w.Statements, statement(i))
			}
			b.ReportAllocs()
			for b.Loop() {
				_, err := sink.Execute(b.Context(), w)
				require.NoError(b, err)
				s.Forget()
			}
		})
	}
}
