//go:build e2e

package integration_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
)

// A proxy sees the COMMIT come by, and the database is killed before it gets it,
// after it has answered, or at some moment between the two. The server hears no
// answer in any case, so that it cannot know what became of the batch.
func TestKafkaADatabaseKilledDuringCommitLosesNothing(t *testing.T) {
	const batch = 2000
	kills := sized(2, 12)
	random := chance(t)
	topic, label := topicOf(t, 3), labelOf(t)
	proxy := startCommitProxy(t)
	p := serve(t, "--graph-uri", proxy.uri())
	def := traceStream("uncertain", topic, label)
	def["batch_size"] = batch
	p.do("POST", "/streams", def, nil)
	p.do("POST", "/streams/uncertain:start", nil, nil)
	work := startLoad(t, onKafka().feed(t, "uncertain", topic, label))

	committed := 0 // of those whose COMMIT was on its way
	for kill := range kills {
		before := repeatsIn(t, label)
		done := p.status("uncertain").Counters.Batches
		p.await("uncertain", "it is under way", func(s graphmill.StreamStatus) bool { return s.Counters.Batches > done })
		killed := make(chan error, 1)
		moment := []string{"before COMMIT", "after COMMIT", "during COMMIT"}[kill%3]
		proxy.next(func(c *crossing) {
			if moment != "before COMMIT" {
				c.forward()
				limit := patience
				if moment == "during COMMIT" {
					limit = time.Duration(random.Int64N(int64(20 * time.Millisecond)))
				}
				select {
				case <-c.answered:
				case <-time.After(limit):
				}
			}
			killed <- world.neo4j.Kill()
		})
		select {
		case err := <-killed:
			require.NoError(t, err)
		case <-time.After(patience):
			require.FailNow(t, "there was no COMMIT")
		}
		s := p.await("uncertain", "it waits", inState(graphmill.StateWaiting))
		require.Equal(t, "database_unreachable", s.Reason.Code)
		require.NoError(t, world.neo4j.Restart(t.Context()))
		done = s.Counters.Batches
		p.await("uncertain", "the batch is done", func(s graphmill.StreamStatus) bool { return s.Counters.Batches > done })
		repeated := repeatsIn(t, label) - before
		t.Logf("killed %s: %d repeats", moment, repeated)
		switch moment {
		case "before COMMIT":
			require.Zero(t, repeated)
		case "after COMMIT":
			require.Positive(t, repeated)
		}
		require.LessOrEqual(t, repeated, int64(batch))
		if repeated > 0 {
			committed++
		}
	}
	n := work.stop()
	s := p.awaitDone("uncertain", 3)
	repeats := requireAllApplied(t, label, n)
	t.Logf("%d messages, %d kills at COMMIT, of which %d had been committed: %d repeats, with batches of %d", n, kills, committed, repeats, batch)
	require.LessOrEqual(t, repeats, int64(committed*batch))
	require.EqualValues(t, kills, s.Counters.UnknownCommits, "each kill met a COMMIT whose outcome nobody knew")
	log, err := os.ReadFile(p.log)
	require.NoError(t, err)
	require.Equal(t, kills, strings.Count(string(log), "a commit may have been done"), "the log tells each")
}

func TestKafkaAStreamOutlivesItsBrokerUnderLoad(t *testing.T) {
	const batch = 1000
	kills, n, repeats := outlivesItsBroker(t, onKafka(), batch)
	t.Logf("%d messages, the broker killed %d times: %d repeats, with batches of %d", n, kills, repeats, batch)
	require.LessOrEqual(t, repeats, int64(kills*batch), "the batch that could not be acknowledged, at most")
}

// outlivesItsBroker kills a broker under load, again and again, and returns how
// often, how many events there were, and how many were applied again.
func outlivesItsBroker(t *testing.T, b broker, batch int) (kills, n int, repeats int64) {
	kills = sized(1, 5)
	random := chance(t)
	topic, label := b.topic(t, 3), labelOf(t)
	p := b.serve(t)
	def := b.stream("faithful", topic, label)
	def["batch_size"] = batch
	p.do("POST", "/streams", def, nil)
	p.do("POST", "/streams/faithful:start", nil, nil)
	work := startLoad(t, b.feed(t, "faithful", topic, label))
	t.Cleanup(func() {
		if t.Failed() { // the load ends and later tests go on with a broker that is up
			_ = b.Restart(context.Background())
		}
	})
	for range kills {
		done := p.status("faithful").Counters.Messages + 1 + random.Int64N(int64(3*batch))
		p.await("faithful", "it is under way", func(s graphmill.StreamStatus) bool { return s.Counters.Messages > done })
		require.NoError(t, b.Kill())
		// A connection that was being made when the broker died has been taken and closed,
		// as by a listener that wants TLS.
		s := p.await("faithful", "it waits for the broker", func(s graphmill.StreamStatus) bool {
			return s.State == graphmill.StateWaiting && s.Reason.Code == "broker_unreachable"
		})
		require.NoError(t, b.Restart(t.Context()))
		p.await("faithful", "it goes on", func(now graphmill.StreamStatus) bool {
			return now.State == graphmill.StateRunning && now.Counters.Messages > s.Counters.Messages
		})
	}
	n = work.stop()
	p.awaitDone("faithful", 3)
	return kills, n, requireAllApplied(t, label, n)
}

// Broker and database are down at once, for a long time. Meanwhile one stream
// is left alone, one is changed and one is stopped.
func TestKafkaStreamsOutliveBrokerAndDatabaseBothDown(t *testing.T) {
	const (
		batch = 1000
		soon  = 20 * time.Second // to answer; less than --drain-timeout
	)
	outage := time.Duration(sized(20, 120)) * time.Second
	p := serve(t)
	type stream struct {
		topic, label string
		load         *load
	}
	streams := map[string]*stream{"alone": {}, "changed": {}, "stopped": {}}
	for name, s := range streams {
		s.topic, s.label = topicOf(t, 3, "-"+name), labelOf(t, name)
		p.do("POST", "/streams", traceStream(name, s.topic, s.label), nil)
		p.do("POST", "/streams/"+name+":start", nil, nil)
		s.load = startLoad(t, onKafka().feed(t, name, s.topic, s.label))
	}
	for name := range streams {
		p.await(name, "it is under way", func(s graphmill.StreamStatus) bool { return s.Counters.Messages > 2*batch })
	}

	require.NoError(t, world.neo4j.Kill())
	require.NoError(t, world.kafka.Kill())
	over := time.After(outage)
	reasons := map[string]map[string]int{}
	look := func(name string) graphmill.StreamStatus {
		s := p.status(name)
		if s.State == graphmill.StateWaiting {
			if reasons[name] == nil {
				reasons[name] = map[string]int{}
			}
			reasons[name][s.Reason.Code]++
			require.Contains(t, []string{"broker_unreachable", "database_unreachable"}, s.Reason.Code)
			require.NotEmpty(t, s.Reason.NextStep)
		}
		return s
	}
	for name := range streams {
		p.await(name, "it waits", func(graphmill.StreamStatus) bool { return look(name).State == graphmill.StateWaiting })
	}
	answersWithin := func(method, path string, body any) {
		t.Helper()
		began := time.Now()
		p.do(method, path, body, nil)
		t.Logf("%s %s took %s during the outage", method, path, time.Since(began).Round(time.Millisecond))
		require.Less(t, time.Since(began), soon)
	}
	answersWithin("PATCH", "/streams/changed", map[string]any{"batch_size": batch / 2})
	answersWithin("POST", "/streams/stopped:stop", nil)
	require.Equal(t, graphmill.StateStopped, p.status("stopped").State)
	p.await("changed", "it waits again", func(graphmill.StreamStatus) bool { return look("changed").State == graphmill.StateWaiting })
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for lasts := true; lasts; {
		select {
		case <-tick.C:
			for name, want := range map[string]graphmill.State{"alone": graphmill.StateWaiting, "changed": graphmill.StateWaiting, "stopped": graphmill.StateStopped} {
				require.Equal(t, want, look(name).State, "%s during the outage", name)
			}
		case <-over:
			lasts = false
		}
	}
	t.Logf("reasons during %s: %v", outage, reasons)

	require.NoError(t, world.kafka.Restart(t.Context()))
	require.NoError(t, world.neo4j.Restart(t.Context()))
	for _, name := range []string{"alone", "changed"} {
		s := p.status(name)
		p.await(name, "it has gone on by itself", func(now graphmill.StreamStatus) bool {
			return now.State == graphmill.StateRunning && now.Counters.Messages > s.Counters.Messages
		})
	}
	require.Equal(t, graphmill.StateStopped, p.status("stopped").State, "it stays stopped")
	p.do("POST", "/streams/stopped:start", nil, nil)
	for name, s := range streams {
		n := s.load.stop()
		p.awaitDone(name, 3)
		repeats := requireAllApplied(t, s.label, n)
		t.Logf("%s: %d messages, %d repeats, with batches of %d", name, n, repeats, batch)
		require.LessOrEqual(t, repeats, int64(2*batch), "a batch met the outage of the database at its COMMIT, and then that of the broker")
	}
}
