//go:build e2e

package integration_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
)

// traceStream is a definition that leaves traces.
func traceStream(name, topic, label string) map[string]any {
	return map[string]any{
		"name": name, "topics": []string{topic}, "start_from": "earliest",
		"transform": "cypher.event", "settings": map[string]string{"query": traceQuery(label)},
	}
}

// checked is the part of a check's answer that is looked at.
type checked struct {
	Batches []struct {
		Statements []struct {
			Query      string         `json:"query"`
			Parameters map[string]any `json:"parameters"`
		} `json:"statements"`
		RawMessages []struct {
			Offset int64 `json:"offset"`
		} `json:"raw_messages"`
	} `json:"batches"`
}

func TestKafkaEveryMessageIsAppliedOnceAndInOrder(t *testing.T) {
	n := sized(100_000, 400_000)
	topic, label := topicOf(t, 3), labelOf(t)
	require.NoError(t, produce(t.Context(), topic, 0, n))
	p := serve(t)
	p.do("POST", "/streams", traceStream("all", topic, label), nil)

	check := func() {
		var c checked
		p.do("POST", "/streams/all:check", map[string]any{"from": "earliest", "batch_limit": 2}, &c)
		require.Len(t, c.Batches, 2)
		require.Len(t, c.Batches[0].Statements, 1000)
		require.Equal(t, traceQuery(label), c.Batches[0].Statements[0].Query)
		require.Len(t, c.Batches[0].RawMessages, 1000)
	}
	check()
	require.Empty(t, committed(t, "graphmill.all", topic), "a check settles nothing")
	require.Zero(t, askOne(t, fmt.Sprintf("MATCH (n:Trace%s) RETURN count(*)", label)), "a check executes nothing")

	p.do("POST", "/streams/all:start", nil, nil)
	p.await("all", "it is under way", func(s graphmill.StreamStatus) bool { return s.Counters.Messages > 0 })
	check()
	groups, err := admin(t).DescribeGroups(t.Context(), "graphmill.all")
	require.NoError(t, err)
	require.Len(t, groups["graphmill.all"].Members, 1, "a check joins no group")

	s := p.awaitDone("all", 3)
	require.Zero(t, requireAllApplied(t, label, n), "nothing was repeated")
	require.EqualValues(t, n, s.Counters.Messages)
	require.EqualValues(t, n, s.Counters.Statements)
	require.Less(t, s.Counters.StatementsSent, int64(n/100), "runs of equal texts are sent together")
	require.EqualValues(t, n, sumOf(committed(t, "graphmill.all", topic)), "the group's offsets are those of the batches")
}

func TestKafkaStartGoesOnWhereStopLeftOff(t *testing.T) {
	const n = 40_000
	topic, label := topicOf(t, 3), labelOf(t)
	require.NoError(t, produce(t.Context(), topic, 0, n))
	p := serve(t)
	p.do("POST", "/streams", traceStream("halved", topic, label), nil)
	p.do("POST", "/streams/halved:start", nil, nil)
	p.await("halved", "it is under way", func(s graphmill.StreamStatus) bool { return s.Counters.Messages > 2000 })
	p.do("POST", "/streams/halved:stop", nil, nil)

	acknowledged := sumOf(committed(t, "graphmill.halved", topic))
	require.Less(t, acknowledged, int64(n), "it was stopped half-way")
	applied := askOne(t, fmt.Sprintf("MATCH (t:Trace%s) RETURN sum(t.times)", label))
	require.Equal(t, acknowledged, applied, "what is in the graph is what is acknowledged, no more and no less")

	p.do("POST", "/streams/halved:start", nil, nil)
	p.awaitDone("halved", 3)
	require.Zero(t, requireAllApplied(t, label, n), "nothing was repeated")
}

func TestKafkaAStreamOutlivesItsDatabase(t *testing.T) {
	const n = 20_000
	topic, label := topicOf(t, 3), labelOf(t)
	p := serve(t)
	p.do("POST", "/streams", traceStream("patient", topic, label), nil)
	p.do("POST", "/streams/patient:start", nil, nil)
	require.NoError(t, produce(t.Context(), topic, 0, n/2))
	p.await("patient", "it is under way", func(s graphmill.StreamStatus) bool { return s.Counters.Messages > 0 })

	require.NoError(t, world.neo4j.Stop(t.Context()))
	down := time.Now()
	require.NoError(t, produce(t.Context(), topic, n/2, n))
	s := p.await("patient", "it waits", inState(graphmill.StateWaiting))
	require.Equal(t, "database_unreachable", s.Reason.Code)
	// The outage lasts 20 s, whatever the stream does meanwhile.
	require.Never(t, func() bool { return p.status("patient").State != graphmill.StateWaiting },
		20*time.Second-time.Since(down), 200*time.Millisecond)
	require.NoError(t, world.neo4j.Restart(t.Context()))

	p.awaitDone("patient", 3)
	repeats := requireAllApplied(t, label, n)
	require.LessOrEqual(t, repeats, int64(graphmill.DefaultBatchSize), "one batch at most met the outage at its COMMIT")
}
