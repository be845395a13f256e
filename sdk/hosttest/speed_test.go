package hosttest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/wasmhost"
)

// The benchmarks tell nanoseconds a message, from the host's messages to its
// statements, of the fastest batch and of all, and within the guest of the fastest one: go test -bench . -run '^$' ./sdk/hosttest

func BenchmarkMovies(b *testing.B) {
	benchmark(b, "../../plugins/movies", wasmhost.InstanceConfig{Function: "transform"})
}

func BenchmarkCypher(b *testing.B) {
	for name, query := range map[string]string{
		"fields": `MERGE (u:User {id: $event.userId}) MERGE (m:Movie {id: $event.movieId}) ON CREATE SET m.title = $event.title MERGE (u)-[r:RATED]->(m) SET r.rating = $event.rating`,
		"whole":  `CREATE (n) SET n = $event`,
	} {
		b.Run(name, func(b *testing.B) {
			benchmark(b, "../../plugins/cypher", wasmhost.InstanceConfig{Function: "event", Settings: map[string]string{"query": query}})
		})
	}
}

func BenchmarkJSONLines(b *testing.B) {
	benchmark(b, "../../plugins/jsonlines", wasmhost.InstanceConfig{Function: "nodes", Settings: map[string]string{"label": "Rating", "key": "userId,movieId"}})
}

// benchmark runs batches of 1,000 ratings.
func benchmark(b *testing.B, dir string, cfg wasmhost.InstanceConfig) {
	i := start(b, load(b, build(b, dir)), cfg)
	messages := make([]graphmill.Message, 1000)
	for k := range messages {
		messages[k] = graphmill.Message{
			Topic: "ratings", Partition: int32(k % 3), Offset: int64(k), Timestamp: 1769862615123, BrokerTime: -1, Key: fmt.Append(nil, k),
			Payload: fmt.Appendf(nil, `{"userId":%d,"movieId":%d,"rating":%.1f,"title":"Some Movie %d"}`, k*77777%100000, k*31%20000, float64(k%10)/2+0.5, k),
		}
	}
	fastest, fastestGuest := time.Hour, time.Hour
	for b.Loop() {
		began, before := time.Now(), i.GuestTime()
		out, err := i.Transform(b.Context(), graphmill.SourceKafka, messages)
		require.NoError(b, err)
		require.Len(b, out.Statements, len(messages))
		fastest = min(fastest, time.Since(began))
		fastestGuest = min(fastestGuest, i.GuestTime()-before)
	}
	b.ReportMetric(float64(fastestGuest.Nanoseconds())/float64(len(messages)), "fastest-guest-ns/message")
	b.ReportMetric(float64(fastest.Nanoseconds())/float64(len(messages)), "fastest-ns/message")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(messages)), "ns/message")
}
