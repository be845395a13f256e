//go:build e2e

package integration_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/graphmill/graphmill"
)

// produceValues sends values without keys to a topic, in order where it has one
// partition.
func produceValues(ctx context.Context, topic string, values ...[]byte) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(world.kafka.Brokers()...), kgo.DefaultProduceTopic(topic))
	if err != nil {
		return err
	}
	defer cl.Close()
	records := make([]*kgo.Record, len(values))
	for i, v := range values {
		records[i] = &kgo.Record{Value: v}
	}
	return cl.ProduceSync(ctx, records...).FirstErr()
}

// Two streams write the same nodes, one from the first to the last and one from
// the last to the first, so that each holds what the other one wants. One of two
// such transactions is always given up by the database.
func TestCase20KafkaStreamsThatMergeTheSameNodesInOppositeOrder(t *testing.T) {
	const nodes = 300
	rounds := sized(40, 400)
	label := labelOf(t)
	p := serve(t)
	names := []string{"up", "down"}
	for _, name := range names {
		topic := topicOf(t, 1, "-"+name)
		values := make([][]byte, rounds*nodes)
		for i := range values {
			e := event{ID: i, User: i % nodes}
			if name == "down" {
				e.User = nodes - 1 - e.User
			}
			var err error
			values[i], err = json.Marshal(e)
			require.NoError(t, err)
		}
		require.NoError(t, produceValues(t.Context(), topic, values...))
		def := traceStream(name, topic, label)
		def["batch_size"] = nodes // each batch writes all nodes
		def["settings"] = map[string]string{"query": fmt.Sprintf("MERGE (u:User%s {id: $event.user}) SET u.times = coalesce(u.times, 0) + 1", label)}
		p.do("POST", "/streams", def, nil)
	}
	for _, name := range names {
		p.do("POST", "/streams/"+name+":start", nil, nil)
	}
	var retries int64
	for _, name := range names {
		s := p.await(name, "it is done or has failed", func(s graphmill.StreamStatus) bool {
			return s.State == graphmill.StateFailed || s.Counters.Messages == int64(rounds*nodes)
		})
		require.Equal(t, graphmill.StateRunning, s.State, "%v", s.Reason)
		require.Zero(t, s.Counters.Failures)
		retries += s.Counters.Retries
	}
	t.Logf("%d deadlocks in %d batches", retries, 2*rounds)
	require.Positive(t, retries, "they have been in each other's way")
	times := ask[int64](t, fmt.Sprintf("MATCH (u:User%s) RETURN u.times", label))
	require.Len(t, times, nodes)
	for _, n := range times {
		require.EqualValues(t, 2*rounds, n, "each round of both streams is in the graph once")
	}
}
