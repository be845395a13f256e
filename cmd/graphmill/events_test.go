package main

import (
	"bufio"
	"encoding/json"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
)

func TestEventsAreFollowedOverARestartOfTheServer(t *testing.T) {
	c := newCLI(t)
	listen := unusedAddress(t)
	first := c.dev(t, "--listen", listen)
	c.must(t, "module", "push", "movies", moviesFile)
	c.run(t, "{}\n", "produce", "ratings") // makes the topic; nothing of it is read
	c.must(t, "stream", "create", "ratings", "--topics", "ratings", "--transform", "movies")

	follow := c.command(t.Context(), "events", "--stream", "ratings", "-o", "json")
	out, err := follow.StdoutPipe()
	require.NoError(t, err)
	notes := &lockedBuffer{}
	follow.Stderr = notes
	require.NoError(t, follow.Start())
	events := make(chan graphmill.Event, 1000)
	go func() {
		defer close(events)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var e graphmill.Event
			if json.Unmarshal(lines.Bytes(), &e) == nil {
				events <- e
			}
		}
	}()
	until := func(what string, wanted func(graphmill.Event) bool) graphmill.Event {
		t.Helper()
		limit := time.After(time.Minute)
		for {
			select {
			case e, ok := <-events:
				require.True(t, ok, "the events end before %s: %s", what, notes)
				if wanted(e) {
					return e
				}
			case <-limit:
				require.FailNow(t, "no event", "%s; %s", what, notes)
			}
		}
	}
	// It may still be connecting: what is done until it hears of something counts
	// for nothing.
	require.Eventually(t, func() bool {
		_ = c.run(t, "", "stream", "start", "ratings")
		_ = c.run(t, "", "stream", "stop", "ratings")
		return len(events) > 0
	}, time.Minute, 10*time.Millisecond)
	until("running", func(e graphmill.Event) bool { return e.State != nil && e.State.State == graphmill.StateRunning })

	c.must(t, "stream", "start", "ratings")
	first.stop(t)
	second := c.start(t, "Nothing is stored in a graph", "dev", "--listen", listen, "--dev-kafka-listen", "127.0.0.1:0")
	lagged := until("the gap", func(e graphmill.Event) bool { return e.Type == graphmill.EventLagged })
	require.EqualValues(t, -1, lagged.Lagged.Lost)
	until("running again", func(e graphmill.Event) bool { return e.State != nil && e.State.State == graphmill.StateRunning })
	require.Contains(t, notes.String(), "the connection is lost (the server has closed it); coming back")

	require.NoError(t, follow.Process.Signal(syscall.SIGINT))
	for range events { // until its output ends
	}
	require.NoError(t, follow.Wait(), "an interrupt is how it ends")
	second.stop(t)
}

func TestEventsThatCannotBeFollowed(t *testing.T) {
	c := newCLI(t)
	r := c.run(t, "", "events", "--server", unusedAddress(t))
	require.Equal(t, exitFailed, r.status)
	require.Contains(t, r.err, "no server is reached")
	p := c.dev(t)
	r = c.run(t, "", "events", "--types", "state,birthday")
	require.Equal(t, exitFailed, r.status)
	require.Contains(t, r.err, `"birthday"`)
	p.stop(t)
}

func TestEventsForPeople(t *testing.T) {
	at := time.Date(2026, 1, 31, 12, 0, 0, 0, time.Local)
	offset := int64(17)
	var b strings.Builder
	show := printEvents(&b, "table")
	for _, e := range []graphmill.Event{
		{State: &graphmill.StateChange{State: graphmill.StateRunning}},
		{State: &graphmill.StateChange{State: graphmill.StateWaiting, Reason: &graphmill.Reason{Code: "auth", Text: "two\nlines \x1b[2J", NextStep: "mend it"}}},
		{Batches: &graphmill.BatchesDone{Batches: 1, Messages: 2000, Statements: 1}},
		{Failure: &graphmill.FailureStatus{Code: "trap", Text: "unreachable", Message: &graphmill.TopicPartition{Topic: "t"}, Offset: &offset}},
		{Module: &graphmill.ModuleVersion{Name: "movies", Version: 2}},
		{Type: graphmill.EventWarning, Text: "careful"},
		{Lagged: &graphmill.Lagged{Lost: 1}},
		{Type: "of a newer server"},
	} {
		e.At, e.Stream = at, "s"
		require.NoError(t, show(&e))
	}
	require.Equal(t, `12:00:00  s                    running
12:00:00  s                    waiting: auth: two lines \x1b[2J (next: mend it)
12:00:00  s                    1 batch, 2000 messages, 1 statement
12:00:00  s                    failure: trap: unreachable (message t/0@17)
12:00:00  s                    module movies version 2 from here on
12:00:00  s                    warning: careful
12:00:00  s                    1 event is missing here
12:00:00  s                    of a newer server
`, b.String())
}
