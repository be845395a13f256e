package server_test

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/integration/boltserver"
	"github.com/graphmill/graphmill/server"
	"github.com/graphmill/graphmill/server/events"
)

// mayFollow are the steps from state to state: those that a reader of the events
// may meet.
// running and waiting go over into stopped by themselves after a start with a
// batch limit.
var mayFollow = map[graphmill.State][]graphmill.State{
	graphmill.StateStopped:  {graphmill.StateStarting, graphmill.StateFailed},
	graphmill.StateStarting: {graphmill.StateRunning, graphmill.StateWaiting, graphmill.StateDraining, graphmill.StateFailed, graphmill.StateStopped},
	graphmill.StateRunning:  {graphmill.StateWaiting, graphmill.StateDraining, graphmill.StateFailed, graphmill.StateStopped},
	graphmill.StateWaiting:  {graphmill.StateRunning, graphmill.StateStarting, graphmill.StateWaiting, graphmill.StateDraining, graphmill.StateFailed, graphmill.StateStopped},
	graphmill.StateDraining: {graphmill.StateStopped, graphmill.StateStarting, graphmill.StateFailed},
	graphmill.StateFailed:   {graphmill.StateStarting, graphmill.StateStopped, graphmill.StateFailed},
}

// watchStates follows the events of a server to its end, and fails the test where
// a stream takes a step that it cannot take, or has not come to rest. It returns
// what waits for that.
func (w *world) watchStates(s *server.Server) (wait func()) {
	sub, err := s.Events(w.t.Context(), events.Filter{Types: []graphmill.EventType{graphmill.EventState}})
	if err != nil {
		return func() {} // a test of too many readers
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer sub.Close()
		states := map[string]graphmill.State{}
		for {
			e, ok := sub.Next(context.Background())
			switch {
			case !ok:
				for stream, last := range states {
					assert.Contains(w.t, []graphmill.State{graphmill.StateStopped, graphmill.StateFailed}, last, "the last that was told of stream %s", stream)
				}
				return
			case e.State == nil: // lagged: steps are missing
				clear(states)
			default:
				last, known := states[e.Stream]
				if to := e.State.State; known && !slices.Contains(mayFollow[last], to) {
					assert.Failf(w.t, "events contradict one another", "stream %s: %s after %s", e.Stream, to, last)
				}
				states[e.Stream] = e.State.State
			}
		}
	}()
	return func() { <-done }
}

func TestWhatAStoppingStreamMeetsIsNotToldAsItsState(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	held := make(chan struct{})
	w.bolt.SetHooks(onCommit(boltserver.Reply{Wait: held, Failure: &boltserver.Failure{Code: "Neo.TransientError.General.DatabaseUnavailable", Message: "stopping"}}))
	s := w.open(nil)
	w.push(s)
	w.create(s, nil)
	w.produce("a")
	w.start(s)
	w.awaitExecuting(s)
	sub, err := s.Events(t.Context(), events.Filter{Types: []graphmill.EventType{graphmill.EventState}})
	require.NoError(t, err)
	defer sub.Close()
	stopped := begun(stop(s))
	w.awaitState(s, graphmill.StateDraining)
	close(held) // the outage is met while it drains
	require.NoError(t, <-stopped)
	w.close(s)
	var told []graphmill.State
	for {
		e, ok := sub.Next(t.Context())
		if !ok {
			break
		}
		told = append(told, e.State.State)
	}
	require.Equal(t, []graphmill.State{graphmill.StateDraining, graphmill.StateStopped}, told)
}
