//go:build e2e

package integration_test

import (
	"testing"

	"github.com/neo4j/neo4j-go-driver/v5/neo4j"
	"github.com/stretchr/testify/require"
)

// sharedSession is the shortest session that a broker allows. A killed server's
// partitions move after it.
var sharedSession = map[string]string{"session.timeout.ms": "6000"}

// Two servers share two streams under load, and one after the other is killed,
// at any moment: at work, in a rebalance after the last kill, or with nothing
// assigned yet.
func TestKafkaThirtyKillsLoseNothingAndRepeatABatchEachAtMost(t *testing.T) {
	const batch = 500
	kills := sized(3, 30)
	random := chance(t)
	servers := []*program{serve(t), serve(t)}
	type stream struct {
		name, topic, label string
		load               *load
	}
	streams := []*stream{{name: "orders"}, {name: "clicks"}}
	for _, s := range streams {
		s.topic, s.label = topicOf(t, 3, "-"+s.name), labelOf(t, s.name)
		def := traceStream(s.name, s.topic, s.label)
		def["batch_size"], def["configs"] = batch, sharedSession
		for _, p := range servers {
			p.do("POST", "/streams", def, nil)
			p.do("POST", "/streams/"+s.name+":start", nil, nil)
		}
		s.load = startLoad(t, s.topic, "graphmill."+s.name)
	}
	for range kills {
		s := streams[random.IntN(len(streams))]
		group := "graphmill." + s.name
		awaitAcknowledged(t, group, s.topic, acknowledgedBy(t, admin(t), group, s.topic)+1+random.Int64N(6_000))
		p := servers[random.IntN(len(servers))]
		p.kill()
		require.Less(t, acknowledgedBy(t, admin(t), group, s.topic), endOf(t, s.topic), "it was killed with work unacknowledged")
		p.start()
	}
	for _, s := range streams {
		n := s.load.stop()
		awaitAllAcknowledged(t, "graphmill."+s.name, s.topic, n)
		repeats := requireAllApplied(t, s.label, n)
		t.Logf("%s: %d messages, %d kills, %d applications were repeats, with batches of %d", s.name, n, kills, repeats, batch)
		require.LessOrEqual(t, repeats, int64(kills*batch), "a kill repeats one batch of a stream at most")
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
