package server_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/integration/boltserver"
	"github.com/graphmill/graphmill/server"
	"github.com/graphmill/graphmill/server/events"
)

// TestACommitThatIsGivenUpIsToldAsUnknown: nobody executes the batch again in this
// run, but it may be in the graph, and whoever reads it next doubles it then.
func TestACommitThatIsGivenUpIsToldAsUnknown(t *testing.T) {
	for name, end := range map[string]func(*server.Server) error{
		"STOP": func(s *server.Server) error { return stop(s)() },
		"a change": func(s *server.Server) error {
			_, err := patch(s, `{"batch_size":7}`, "")
			return err
		},
		"the end of the server": func(s *server.Server) error { return s.Close(context.Background()) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, boltserver.Options{})
			committing := make(chan struct{}, 10)
			w.bolt.SetHooks(boltserver.Hooks{OnCommit: func(boltserver.Transaction) boltserver.Reply {
				committing <- struct{}{}
				return boltserver.Reply{Wait: make(chan struct{})}
			}})
			s := w.open(func(c *server.Config) { c.DrainTimeout = 50 * time.Millisecond })
			sub, err := s.Events(t.Context(), events.Filter{Types: []graphmill.EventType{graphmill.EventWarning}})
			require.NoError(t, err)
			defer sub.Close()
			w.push(s)
			w.create(s, nil)
			w.produce("a")
			w.start(s)
			<-committing
			promptly(t, name, func() { require.NoError(t, end(s)) })

			require.Len(t, w.log.with("a commit may have been done; the batch was given up"), 1)
			told := false
			for !told {
				e, ok := sub.Next(t.Context())
				require.True(t, ok, "it is an event, too")
				told = strings.Contains(e.Text, "a commit may have been done")
			}
			counted, _ := value(scrape(t, s), "graphmill_unknown_commits_total", "stream=s")
			require.EqualValues(t, 1, counted)
			if name == "STOP" {
				require.EqualValues(t, 1, w.status(s).Counters.UnknownCommits)
			}
		})
	}
}
