//go:build e2e

package integration_test

import (
	"testing"

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
