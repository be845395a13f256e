package frame_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/wasmhost/frame"
	"github.com/graphmill/graphmill/wasmhost/frame/frametest"
)

// ratings are 1,000 messages of about 50 bytes.
func ratings() []graphmill.Message {
	messages := make([]graphmill.Message, 1000)
	for i := range messages {
		messages[i] = graphmill.Message{
			Topic: "ratings", Partition: int32(i % 8), Offset: int64(i), Timestamp: 1769862615123, BrokerTime: -1,
			Payload: fmt.Appendf(nil, `{"userId":%d,"movieId":%d,"rating":4.5}`, i*7919%100_000, i*104729%20_000),
			Key:     fmt.Appendf(nil, "%d", i),
			Headers: []graphmill.Header{{Key: "trace", Value: []byte("0123456789abcdef")}},
		}
	}
	return messages
}

// perMessage reports the time for one of the 1,000 messages.
func perMessage(b *testing.B) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/message")
}

func BenchmarkEncodeRequest(b *testing.B) {
	messages := ratings()
	var e frame.Encoder
	var buffer []byte
	b.ReportAllocs()
	for b.Loop() {
		size, err := e.Plan("ratings", graphmill.SourceKafka, messages)
		require.NoError(b, err)
		if size > len(buffer) {
			buffer = make([]byte, size)
		}
		e.Encode(buffer)
	}
	perMessage(b)
}

func BenchmarkDecodeResponse(b *testing.B) {
	byName := &graphmill.Query{Text: "MERGE (u:User {id: $userId})-[:RATED {rating: $rating}]->(m:Movie {id: $movieId})"}
	byPosition := &graphmill.Query{Text: byName.Text, Names: []string{"userId", "movieId", "rating"}}
	var maps, lists graphmill.Output
	for i := range 1000 {
		user, movie := fmt.Sprintf("u%d", i*7919%100_000), fmt.Sprintf("m%d", i*104729%20_000)
		maps.Statements = append(maps.Statements, graphmill.Statement{Query: byName, Message: i, Params: map[string]any{"userId": user, "movieId": movie, "rating": 4.5}})
		lists.Statements = append(lists.Statements, graphmill.Statement{Query: byPosition, Message: i, Values: []any{user, movie, 4.5}})
	}
	for name, out := range map[string]graphmill.Output{"maps": maps, "positions": lists} {
		response := frametest.EncodeResponse(out)
		b.Run(name, func(b *testing.B) {
			d := frame.NewDecoder(limits)
			b.ReportAllocs()
			for b.Loop() {
				out, err := d.Decode(string(response), 1000)
				require.NoError(b, err)
				require.Len(b, out.Statements, 1000)
			}
			perMessage(b)
		})
	}
}
