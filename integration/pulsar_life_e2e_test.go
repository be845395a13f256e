//go:build e2e

package integration_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
)

// countOf counts the events that have been applied, each as often as it was.
func countOf(t *testing.T, label string) int64 {
	t.Helper()
	return askOne(t, fmt.Sprintf("MATCH (t:Trace%s) RETURN coalesce(sum(t.times), 0)", label))
}

// A stream that fails at a message gets it again at each START, in the same process
// and in a new one, and goes on behind it once it can be applied. What came before it
// in its entry is in the graph and is not applied again.
func TestPulsarAFailedMessageStaysUnacknowledgedUntilItCanBeApplied(t *testing.T) {
	const (
		n   = 5000
		bad = 2345
	)
	b := onPulsar(t)
	p := b.serve(t)
	topic, label := b.topic(t, 0), labelOf(t)
	sendAll(t, b.feed(t, "strict", topic, label), 0, n)
	def := b.stream("strict", topic, label)
	def["settings"] = map[string]string{"query": traceQuery(label) + fmt.Sprintf(" SET t.check = 1 / ($event.id - %d)", bad)}
	p.do("POST", "/streams", def, nil)

	var applied, left int64
	for try, before := range []func(){
		func() {},
		func() {},
		func() { p.kill(); p.start() },
		func() { p.terminate(); p.start() },
	} {
		before()
		p.call("POST", "/api/v1/streams/strict:start", nil, nil) // it may fail so soon that START tells
		s := p.await("strict", "it has failed", func(s graphmill.StreamStatus) bool {
			return s.State == graphmill.StateFailed && s.LastFailure != nil
		})
		require.Equal(t, "message", s.Reason.Code, s.Reason.Text)
		require.NotNil(t, s.LastFailure.MessageID, "the message is named")
		require.Zero(t, askOne(t, fmt.Sprintf("MATCH (t:Trace%s {id: %d}) RETURN count(t)", label, bad)))
		if try == 0 {
			applied, left = countOf(t, label), b.unacknowledged(t, "strict", topic)
			require.Less(t, applied, int64(n))
			require.Positive(t, left)
			t.Logf("%d of %d events are applied, %d entries are not acknowledged; the message is %s", applied, n, left, s.LastFailure.MessageID)
		}
		require.Equal(t, applied, countOf(t, label), "nothing is applied behind it, and nothing again")
		require.Equal(t, left, b.unacknowledged(t, "strict", topic), "nothing is acknowledged behind it")
	}

	p.do("PATCH", "/streams/strict", map[string]any{"settings": map[string]string{"query": traceQuery(label)}}, nil)
	p.do("POST", "/streams/strict:start", nil, nil)
	p.awaitDone("strict", 1)
	require.Zero(t, requireAllApplied(t, label, n), "nothing was repeated")
}

// Batches are smaller than entries, so that a stream is stopped in the midst of one.
// The broker sends the whole entry again.
func TestPulsarStartGoesOnWhereStopLeftOffInsideAnEntry(t *testing.T) {
	const (
		n     = 10_000
		batch = entrySize / 8
	)
	b := onPulsar(t)
	p := b.serve(t)
	topic, label := b.setUp(t, p, "halved", 3, map[string]any{"batch_size": batch})
	sendAll(t, b.feed(t, "halved", topic, label), 0, n)
	inside := 0
	for range 6 {
		p.do("POST", "/streams/halved:start", nil, nil)
		p.await("halved", "it is under way", func(s graphmill.StreamStatus) bool { return s.Counters.Messages > 2*batch })
		p.do("POST", "/streams/halved:stop", nil, nil)
		require.Zero(t, repeatsIn(t, label))
		var info graphmill.OffsetsInfo
		p.do("GET", "/streams/halved/offsets", nil, &info)
		for _, at := range info.Partitions {
			if at.MessageID.Index > 0 {
				inside++
			}
		}
	}
	t.Logf("%d positions of 18 were inside an entry", inside)
	require.Positive(t, inside)
	require.Less(t, countOf(t, label), int64(n), "it was stopped half-way")
	p.do("POST", "/streams/halved:start", nil, nil)
	for range 2 {
		p.await("halved", "it is under way", func(s graphmill.StreamStatus) bool { return s.Counters.Messages > 2*batch })
		p.terminate()
		p.start()
	}
	p.awaitDone("halved", 3)
	require.Zero(t, requireAllApplied(t, label, n), "nothing was repeated")
}

// checkedIDs is the part of a check's answer that tells messages.
type checkedIDs struct {
	Batches []struct {
		RawMessages []struct {
			ID      string `json:"id"`
			Payload string `json:"payload"`
		} `json:"raw_messages"`
	} `json:"batches"`
}

func TestPulsarPositionsAreSetWhileTheStreamIsStopped(t *testing.T) {
	const n = 1000
	b := onPulsar(t)
	p := b.serve(t)
	topic, label := b.setUp(t, p, "moved", 0, nil)
	f := b.feed(t, "moved", topic, label)
	defer f.close()
	run := func() (applied int64) {
		t.Helper()
		before := countOf(t, label)
		p.do("POST", "/streams/moved:start", nil, nil)
		p.awaitDone("moved", 1)
		p.do("POST", "/streams/moved:stop", nil, nil)
		return countOf(t, label) - before
	}
	set := func(to string, more ...string) {
		t.Helper()
		t.Log(p.run("", append([]string{"stream", "offsets", "moved", "--set", to}, more...)...))
	}

	require.NoError(t, f.send(t.Context(), 0, n))
	require.EqualValues(t, n, run())
	<-time.After(10 * time.Millisecond) // publish times are whole milliseconds
	between := time.Now()
	<-time.After(10 * time.Millisecond)
	require.NoError(t, f.send(t.Context(), n, 2*n))

	set("latest")
	require.Zero(t, run(), "latest leaves out what is there")
	set(between.UTC().Format(time.RFC3339Nano))
	require.EqualValues(t, n, run(), "a time leads to what was published since")
	set("earliest")
	require.EqualValues(t, 2*n, run())
	require.Zero(t, run(), "a position that was set is used once")

	var c checkedIDs
	p.do("POST", "/streams/moved:check", map[string]any{"from": "earliest", "batch_limit": 2}, &c)
	var ids []string
	for _, batch := range c.Batches {
		for _, m := range batch.RawMessages {
			ids = append(ids, m.ID)
		}
	}
	for _, k := range []int{0, 1, entrySize / 2, 2 * entrySize} {
		set(ids[k], "--partition", graphmill.PulsarTopic(topic))
		require.EqualValues(t, 2*n-k, run(), "the position is message %d, %s", k, ids[k])
	}

	p.do("POST", "/streams/moved:start", nil, nil)
	cmd := p.command("", "stream", "offsets", "moved", "--set", "earliest")
	out, err := cmd.CombinedOutput()
	require.Error(t, err, "%s", out)
	require.Contains(t, string(out), "stop")
}

// A topic is given partitions, and a pattern a topic, while the stream runs. What is
// sent to them before they are found is read.
func TestPulsarPartitionsAndTopicsThatComeLaterAreReadFromTheirBeginning(t *testing.T) {
	const n = 3000
	b := onPulsar(t)
	p := b.serve(t)
	soon := map[string]string{"autoUpdatePartitionsIntervalSeconds": "1"}

	t.Run("partitions", func(t *testing.T) {
		topic, label := b.setUp(t, p, "grown", 1, map[string]any{"configs": soon, "start_from": "latest"})
		p.do("POST", "/streams/grown:start", nil, nil)
		sendAll(t, b.feed(t, "grown", topic, label), 0, n)
		p.awaitDone("grown", 1)
		require.NoError(t, b.ExpandTopic(t.Context(), topic, 4))
		sendAll(t, b.feed(t, "grown", topic, label), n, 2*n)
		p.awaitDone("grown", 4)
		require.EqualValues(t, 2*n, countOf(t, label), "every event once")
		require.Zero(t, repeatsIn(t, label))
	})
	t.Run("topics", func(t *testing.T) {
		label := labelOf(t)
		first := b.topic(t, 0, "-of-0")
		def := b.stream("patterned", first, label)
		delete(def, "topics")
		def["topics_pattern"], def["configs"], def["start_from"] = topicName(t)+"-of-.*", soon, "latest"
		p.do("POST", "/streams", def, nil)
		p.do("POST", "/streams/patterned:start", nil, nil)
		sendAll(t, b.feed(t, "patterned", first, label), 0, n)
		for i := 1; i <= 2; i++ { // one without partitions, one with
			later := b.topic(t, 2*(i-1), fmt.Sprintf("-of-%d", i))
			sendAll(t, b.feed(t, "patterned", later, label), i*n, (i+1)*n)
		}
		p.awaitDone("patterned", 4)
		require.EqualValues(t, 3*n, countOf(t, label), "every event once")
		require.Zero(t, repeatsIn(t, label))
	})
}
