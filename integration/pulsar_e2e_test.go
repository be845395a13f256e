//go:build e2e

package integration_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
)

func TestPulsarEveryMessageIsAppliedOnceAndInOrder(t *testing.T) {
	b := onPulsar(t)
	everyMessageIsAppliedOnceAndInOrder(t, b, b.topic(t, 3), 100_000)
}

// A kill repeats the batch that was in the graph and not acknowledged, which may
// exceed its size by the rest of an entry.
func TestPulsarTenKillsLoseNothingAndRepeatABatchEachAtMost(t *testing.T) {
	const batch = 500
	killsLoseNothing(t, onPulsar(t), killing{servers: 1, kills: sized(3, 10), batch: batch, most: batch + entrySize})
}

// Batches that are smaller than an entry: a server is killed in the midst of one,
// and passes over what the catalog has of it.
func TestPulsarKillsInTheMidstOfAnEntryLoseNothing(t *testing.T) {
	const batch = entrySize / 4
	killsLoseNothing(t, onPulsar(t), killing{servers: 1, kills: sized(2, 10), batch: batch, most: batch})
}

// Whenever a consumer comes or goes, Pulsar may give each partition to another one,
// and takes it from one that is at work: each server repeats the batch in hand, at
// most.
func TestPulsarTwoServersShareAStreamThroughRestartsKillsAndFreezes(t *testing.T) {
	const (
		batch   = 500
		servers = 2
		change  = servers * (batch + entrySize)
	)
	b := onPulsar(t)
	serversShareAStream(t, b, b.topic(t, 3), sharing{servers: servers, partitions: 3, batch: batch, inOrder: 2 * change, atDeath: 2 * change})
}

func TestPulsarAStreamOutlivesItsBrokerUnderLoad(t *testing.T) {
	const batch = 1000
	kills, n, repeats := outlivesItsBroker(t, onPulsar(t), batch)
	t.Logf("%d messages, the broker killed %d times: %d repeats, with batches of %d", n, kills, repeats, batch)
}

func TestPulsarAStreamOutlivesItsDatabase(t *testing.T) {
	outlivesItsDatabase(t, onPulsar(t), graphmill.DefaultBatchSize+entrySize)
}

// setUp makes a stream of the test's own topic and label, without starting it.
func (b pulsarBroker) setUp(t *testing.T, p *program, name string, partitions int, more map[string]any) (topic, label string) {
	t.Helper()
	topic, label = b.topic(t, partitions), labelOf(t)
	def := b.stream(name, topic, label)
	for k, v := range more {
		def[k] = v
	}
	p.do("POST", "/streams", def, nil)
	return topic, label
}

// What is sent between CREATE and START, and between DROP and CREATE, is kept for the
// subscription. A new subscription begins behind what is there.
func TestPulsarASubscriptionIsThereFromCreateAndOutlivesDrop(t *testing.T) {
	b := onPulsar(t)
	p := b.serve(t)
	const n = 1000
	topic, label := b.setUp(t, p, "kept", 3, map[string]any{"start_from": "latest"})
	def := b.stream("kept", topic, label)
	def["start_from"] = "latest"
	more := b.feed(t, "kept", topic, label)
	defer more.close()

	require.NoError(t, more.send(t.Context(), 0, n))
	p.do("POST", "/streams/kept:start", nil, nil)
	p.awaitDone("kept", 3)
	require.Zero(t, requireAllApplied(t, label, n), "what was sent between CREATE and START is read")

	p.do("DELETE", "/streams/kept", nil, nil)
	require.NoError(t, more.send(t.Context(), n, 2*n))
	require.NotZero(t, b.unacknowledged(t, "kept", topic), "the broker keeps messages for the subscription")
	p.do("POST", "/streams", def, nil)
	p.do("POST", "/streams/kept:start", nil, nil)
	p.awaitDone("kept", 3)
	require.Zero(t, requireAllApplied(t, label, 2*n), "it goes on where it was")

	out := p.run("", "stream", "drop", "kept", "--unsubscribe")
	t.Log(out)
	for _, part := range b.parts(t, topic) {
		names, err := b.Subscriptions(t.Context(), part)
		require.NoError(t, err)
		require.Empty(t, names, "the subscription is gone")
	}
	require.NoError(t, more.send(t.Context(), 2*n, 3*n))
	p.do("POST", "/streams", def, nil)
	require.NoError(t, more.send(t.Context(), 3*n, 4*n))
	p.do("POST", "/streams/kept:start", nil, nil)
	p.awaitDone("kept", 3)
	require.EqualValues(t, 3*n, askOne(t, "MATCH (t:Trace"+label+") RETURN count(t)"), "what was sent while there was no subscription is not read")
	require.Zero(t, repeatsIn(t, label))
}
