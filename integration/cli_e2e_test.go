//go:build e2e

package integration_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
)

// The three lines of the README, against a real broker and a real database.
func TestKafkaAStreamNeedsNoCode(t *testing.T) {
	p := serve(t)
	topic := topicOf(t, 1)
	t.Setenv("GRAPHMILL_KAFKA_BOOTSTRAP_SERVERS", world.kafka.Brokers()[0])

	p.run(`{"userId": 7, "name": "Ada"}`+"\n", "produce", topic)
	p.run("", "stream", "create", "people", "--topics", topic, "--start-from", "earliest", "--transform", "cypher.event",
		"--setting", "query=MERGE (u:Person {id: $event.userId}) SET u.name = $event.name")
	shown := p.run("", "stream", "check", "people")
	require.Contains(t, shown, "MERGE (u:Person {id: $event.userId})")
	require.Zero(t, askOne(t, "MATCH (n:Person) RETURN count(n)"), "a check executes nothing")
	p.run("", "stream", "start", "people")
	p.awaitDone("people", 1)
	require.Equal(t, []string{"Ada"}, ask[string](t, "MATCH (n:Person {id: 7}) RETURN n.name"))
}

func TestKafkaAnOrderlyShutdownRepeatsNothing(t *testing.T) {
	const n = 20_000
	topic, label := topicOf(t, 3), labelOf(t)
	require.NoError(t, produce(t.Context(), topic, 0, n))
	p := serve(t)
	p.do("POST", "/streams", traceStream("calm", topic, label), nil)
	p.do("POST", "/streams/calm:start", nil, nil)
	for range 3 {
		p.await("calm", "it is under way", func(s graphmill.StreamStatus) bool { return s.Counters.Messages > 0 })
		p.terminate()
		applied := askOne(t, fmt.Sprintf("MATCH (t:Trace%s) RETURN count(t)", label))
		acknowledged := sumOf(committed(t, "graphmill.calm", topic))
		require.Equal(t, acknowledged, applied, "what is in the graph is acknowledged")
		p.start()
	}
	p.awaitDone("calm", 3)
	require.Zero(t, requireAllApplied(t, label, n), "nothing was repeated")
}
