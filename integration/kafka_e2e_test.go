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
	b, n := onKafka(), sized(100_000, 400_000)
	topic := b.topic(t, 3)
	everyMessageIsAppliedOnceAndInOrder(t, b, topic, n)
	require.EqualValues(t, n, sumOf(committed(t, "graphmill.all", topic)), "the group's offsets are those of the batches")
}

// everyMessageIsAppliedOnceAndInOrder applies n events to the graph by a stream
// "all", which is checked before and meanwhile.
func everyMessageIsAppliedOnceAndInOrder(t *testing.T, b broker, topic string, n int) {
	label := labelOf(t)
	sendAll(t, b.feed(t, "all", topic, label), 0, n)
	p := b.serve(t)
	def := b.stream("all", topic, label)
	p.do("POST", "/streams", def, nil)

	check := func() {
		var c checked
		p.do("POST", "/streams/all:check", map[string]any{"from": "earliest", "batch_limit": 2}, &c)
		require.Len(t, c.Batches, 2)
		for _, batch := range c.Batches {
			require.NotEmpty(t, batch.RawMessages)
			require.LessOrEqual(t, len(batch.RawMessages), graphmill.DefaultBatchSize)
			require.Len(t, batch.Statements, len(batch.RawMessages))
		}
		require.Equal(t, traceQuery(label), c.Batches[0].Statements[0].Query)
	}
	before := b.standing(t, "all", topic)
	check()
	require.Equal(t, before, b.standing(t, "all", topic), "a check settles nothing")
	require.Zero(t, b.members(t, "all", topic))
	require.Zero(t, askOne(t, fmt.Sprintf("MATCH (n:Trace%s) RETURN count(*)", label)), "a check executes nothing")

	p.do("POST", "/streams/all:start", nil, nil)
	p.await("all", "it is under way", func(s graphmill.StreamStatus) bool { return s.Counters.Messages > 0 })
	check()
	require.Equal(t, 1, b.members(t, "all", topic), "a check joins nothing")

	s := p.awaitDone("all", 3)
	require.Zero(t, requireAllApplied(t, label, n), "nothing was repeated")
	require.EqualValues(t, n, s.Counters.Messages)
	require.EqualValues(t, n, s.Counters.Statements)
	require.Less(t, s.Counters.StatementsSent, int64(n/100), "runs of equal texts are sent together")
	require.Zero(t, b.unacknowledged(t, "all", topic))

	after := b.standing(t, "all", topic)
	check()
	require.Equal(t, after, b.standing(t, "all", topic), "a check moves nothing")
	require.Equal(t, 1, b.members(t, "all", topic))
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
	outlivesItsDatabase(t, onKafka(), graphmill.DefaultBatchSize)
}

// outlivesItsDatabase stops the database for a while. At most so many messages are
// repeated: those of the batch that met the outage at its COMMIT.
func outlivesItsDatabase(t *testing.T, b broker, most int) {
	const n = 20_000
	topic, label := b.topic(t, 3), labelOf(t)
	p := b.serve(t)
	p.do("POST", "/streams", b.stream("patient", topic, label), nil)
	p.do("POST", "/streams/patient:start", nil, nil)
	sendAll(t, b.feed(t, "patient", topic, label), 0, n/2)
	p.await("patient", "it is under way", func(s graphmill.StreamStatus) bool { return s.Counters.Messages > 0 })

	require.NoError(t, world.neo4j.Stop(t.Context()))
	down := time.Now()
	sendAll(t, b.feed(t, "patient", topic, label), n/2, n)
	s := p.await("patient", "it waits", inState(graphmill.StateWaiting))
	require.Equal(t, "database_unreachable", s.Reason.Code)
	// The outage lasts 20 s, whatever the stream does meanwhile.
	require.Never(t, func() bool { return p.status("patient").State != graphmill.StateWaiting },
		20*time.Second-time.Since(down), 200*time.Millisecond)
	require.NoError(t, world.neo4j.Restart(t.Context()))

	p.awaitDone("patient", 3)
	repeats := requireAllApplied(t, label, n)
	require.LessOrEqual(t, repeats, int64(most), "one batch at most met the outage at its COMMIT")
}
