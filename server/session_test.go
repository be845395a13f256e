package server_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/integration/boltserver"
	"github.com/graphmill/graphmill/server"
	"github.com/graphmill/graphmill/server/events"
	"github.com/graphmill/graphmill/server/graph"
)

// session is what an operator sees of a stream: created, started, an outage of
// the database, another version of the module, a message that fails, stopped,
// dropped. It returns the events.
func session(t *testing.T, w *world, s *server.Server, change func(*graphmill.StreamSpec)) []graphmill.Event {
	t.Helper()
	sub, err := s.Events(t.Context(), events.Filter{})
	require.NoError(t, err)
	defer sub.Close()
	w.push(s)
	w.create(s, change)
	w.start(s)
	w.produce("a")
	w.awaitAcknowledged(s, 1)

	w.bolt.Stop()
	w.produce("b")
	w.awaitState(s, graphmill.StateWaiting)
	require.NoError(t, w.bolt.Listen())
	w.awaitAcknowledged(s, 2)
	w.awaitState(s, graphmill.StateRunning)

	w.pushAs(s, "obedient", obedientTwo)
	w.produce("c")
	w.awaitAcknowledged(s, 3)

	w.produce("fail")
	w.awaitState(s, graphmill.StateFailed)
	require.NoError(t, stop(s)())
	require.NoError(t, s.DeleteStream(t.Context(), "s", server.DeleteRequest{}))
	w.close(s)

	var all []graphmill.Event
	for {
		e, ok := sub.Next(context.Background())
		if !ok {
			return all
		}
		all = append(all, e)
	}
}

func TestTheLogOfASessionReadsWell(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	s := w.open(func(c *server.Config) { c.Logger = slog.New(slog.NewTextHandler(&w.log, nil)) })
	news := session(t, w, s, nil)

	var lines []string
	for _, line := range w.log.with("") {
		for _, r := range []struct{ what, by string }{
			{`^time=\S+ `, ""}, {`127\.0\.0\.1:\d+`, "HOST:PORT"}, {`sha256=\w+`, "sha256=..."}, {`\n$`, ""},
			{`text="(the database at HOST:PORT)[^"]*"`, `text="$1 ..."`},
		} {
			line = regexp.MustCompile(r.what).ReplaceAllString(line, r.by)
		}
		lines = append(lines, line)
	}
	require.Equal(t, strings.Split(strings.TrimSpace(sessionLog), "\n"), lines)

	var told []string
	for _, e := range news {
		text := string(e.Type)
		switch {
		case e.State != nil && e.State.Reason != nil:
			text += " " + string(e.State.State) + " " + e.State.Reason.Code
		case e.State != nil:
			text += " " + string(e.State.State)
		case e.Module != nil:
			text += " " + string(rune('0'+e.Module.Version))
		case e.Batches != nil:
			continue // how they are summed up depends on the clock
		}
		told = append(told, text)
	}
	require.Equal(t, []string{
		"state starting", "module 1", "state running", "state waiting database_unreachable", "state running", "module 2",
		"failure", "state failed message", "state stopped",
	}, told)
}

// sessionLog is every line of a session, without times.
const sessionLog = `
level=INFO msg="streams loaded" streams=0 resumed=0 statements_go_to="the recording server"
level=INFO msg="module pushed" module=obedient version=1 sha256=... active=true new=true
level=INFO msg="stream created" stream=s topics=[topic] transform=obedient
level=INFO msg="stream starting" stream=s state=starting
level=INFO msg="partitions assigned" stream=s partitions=topic/0@0
level=INFO msg="stream running" stream=s state=running
level=INFO msg="handed a batch" stream=s from=transformation module=obedient
level=INFO msg="handed a batch" stream=s from=transformation module=obedient
level=WARN msg="stream waiting" stream=s state=waiting reason=database_unreachable text="the database at HOST:PORT ..." next_step="see whether the database runs and can be reached from here; the stream goes on by itself once it answers"
level=INFO msg="stream running" stream=s state=running
level=INFO msg="module pushed" module=obedient version=2 sha256=... active=true new=true
level=INFO msg="the module's new version is used from here on" stream=s module=obedient version=2
level=INFO msg="handed a batch" stream=s from=transformation module=obedient
level=INFO msg="handed a batch" stream=s from=transformation module=obedient
level=ERROR msg="stream failed" stream=s state=failed reason=message text="the transformation reports: told to fail, in the batch that begins at topic/0@3 (look first at message topic/0@3)" next_step="mend the cause; or go past the message: graphmill stream offsets s --set 4 --partition topic/0; then: graphmill stream start s"
level=INFO msg="stream stopped" stream=s state=stopped
level=INFO msg="stream dropped" stream=s
`

// TestCase39NoSecretInMetricsEventsLogsOrStatus plants secrets wherever a stream
// and a server take one, and looks through all that they tell, at debug.
func TestCase39NoSecretInMetricsEventsLogsOrStatus(t *testing.T) {
	const planted = "hunter2-planted"
	w := newWorld(t, 1, boltserver.Options{User: "neo4j", Password: planted})
	debug := slog.New(slog.NewJSONHandler(&w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	sink, err := graph.Open(graph.Config{URI: w.bolt.URI(), User: "neo4j", Password: planted, Logger: debug})
	require.NoError(t, err)
	t.Cleanup(func() { sink.Close(context.Background()) })
	s := w.open(func(c *server.Config) { c.Logger, c.Sink, c.LagInterval = debug, sink, 20*time.Millisecond })
	sub, err := s.Events(t.Context(), events.Filter{})
	require.NoError(t, err)
	defer sub.Close()
	w.push(s)
	w.create(s, func(spec *graphmill.StreamSpec) {
		spec.Credentials = map[string]string{"ssl.key.password": planted}
		spec.Configs = map[string]string{"ssl.keystore.password": planted}
	})
	w.start(s)
	w.produce("a")
	w.awaitAcknowledged(s, 1)
	w.produce("fail")
	status := w.awaitState(s, graphmill.StateFailed)

	var told strings.Builder
	families, err := s.Metrics().Gather()
	require.NoError(t, err)
	for _, f := range families {
		_, err := expfmt.MetricFamilyToText(&told, f)
		require.NoError(t, err)
	}
	enc := json.NewEncoder(&told)
	require.NoError(t, enc.Encode(status))
	w.close(s)
	for {
		e, ok := sub.Next(context.Background())
		if !ok {
			break
		}
		require.NoError(t, enc.Encode(e))
	}
	for _, line := range w.log.with("") {
		told.WriteString(line)
	}
	require.Contains(t, told.String(), "graphmill_stream_state")
	require.Contains(t, told.String(), `"type":"failure"`)
	require.Contains(t, told.String(), "a batch is done", "the log is at debug")
	require.NotContains(t, told.String(), planted)
}
