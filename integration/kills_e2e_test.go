//go:build e2e

package integration_test

import (
	"testing"

	"github.com/neo4j/neo4j-go-driver/v5/neo4j"
	"github.com/stretchr/testify/require"
)

func TestKafkaThirtyKillsLoseNothingAndRepeatABatchEachAtMost(t *testing.T) {
	killsLoseNothing(t, onKafka(), killing{servers: 2, kills: sized(3, 30), batch: 500, most: 500})
}

// killing is a test of kills: how many servers share the streams, and how many
// messages a kill may have a stream repeat.
type killing struct{ servers, kills, batch, most int }

// killsLoseNothing has servers share two streams under load, and kills one after the
// other, at any moment: at work, in a rebalance after the last kill, or with nothing
// assigned yet.
func killsLoseNothing(t *testing.T, b broker, k killing) {
	random := chance(t)
	servers := make([]*program, k.servers)
	for i := range servers {
		servers[i] = b.serve(t)
	}
	type stream struct {
		name, topic, label string
		feed               feed
		load               *load
	}
	streams := []*stream{{name: "orders"}, {name: "clicks"}}
	for _, s := range streams {
		s.topic, s.label = b.topic(t, 3, "-"+s.name), labelOf(t, s.name)
		def := b.stream(s.name, s.topic, s.label)
		def["batch_size"] = k.batch
		for _, p := range servers {
			p.do("POST", "/streams", def, nil)
			p.do("POST", "/streams/"+s.name+":start", nil, nil)
		}
		s.load = startLoad(t, b.feed(t, s.name, s.topic, s.label))
		s.feed = b.feed(t, s.name, s.topic, s.label)
		defer s.feed.close()
	}
	for range k.kills {
		s := streams[random.IntN(len(streams))]
		awaitDone(t, s.feed, doneOf(t, s.feed)+1+random.Int64N(6_000))
		p := servers[random.IntN(len(servers))]
		p.kill()
		require.NotZero(t, b.unacknowledged(t, s.name, s.topic), "it was killed with work unacknowledged")
		p.start()
	}
	for _, s := range streams {
		n := s.load.stop()
		awaitAllAcknowledged(t, b, s.name, s.topic)
		repeats := requireAllApplied(t, s.label, n)
		t.Logf("%s: %d messages, %d kills, %d applications were repeats, with batches of %d", s.name, n, k.kills, repeats, k.batch)
		require.LessOrEqual(t, repeats, int64(k.kills*k.most), "what a kill may have a stream repeat")
	}
}

// The model must be able to tell: each event of a user is given by hand.
func TestTheModelTellsRepeatsFromDisorder(t *testing.T) {
	for _, c := range []struct {
		name           string
		applied        []int // ids, all of user 0
		early, repeats int64
	}{
		{"in order", []int{0, 1, 2}, 0, 0},
		{"the last ones again", []int{0, 1, 2, 1, 2, 3}, 0, 2},
		{"one that comes late", []int{0, 2, 1}, 1, 0},
		{"one that comes late, hidden by a repeat", []int{0, 1, 3, 0, 2, 3}, 1, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			label := labelOf(t)
			for _, id := range c.applied {
				_, err := neo4j.ExecuteQuery(t.Context(), world.driver, traceQuery(label),
					map[string]any{"event": map[string]any{"id": id, "user": 0}}, neo4j.EagerResultTransformer)
				require.NoError(t, err)
			}
			require.Equal(t, c.early, askOne(t, "MATCH (u:User"+label+") RETURN sum(u.early)"))
			require.Equal(t, c.repeats, repeatsIn(t, label))
		})
	}
}
