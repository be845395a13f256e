package server_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/integration/boltserver"
	"github.com/graphmill/graphmill/server"
)

// busy brings a stream into a state in which something may be waited for without
// end.
var busy = map[string]func(w *world, s *server.Server){
	"starting without a broker": func(w *world, s *server.Server) {
		w.kafka.Close()
		w.start(s)
		w.awaitState(s, graphmill.StateWaiting)
	},
	"waiting on the broker": func(w *world, s *server.Server) {
		w.start(s)
		w.kafka.Close()
		w.awaitState(s, graphmill.StateWaiting)
	},
	"waiting on the database": func(w *world, s *server.Server) {
		w.start(s)
		w.bolt.Stop()
		w.produce("a")
		w.awaitState(s, graphmill.StateWaiting)
	},
	"retrying conflicts": func(w *world, s *server.Server) {
		w.bolt.SetHooks(onStore(func() boltserver.Reply {
			return boltserver.Fail("Neo.TransientError.Transaction.DeadlockDetected", "a deadlock")
		}))
		w.start(s)
		w.produce("a")
		w.await(s, "it is retried", func(st graphmill.StreamStatus) bool { return st.Counters.Retries > 2 })
	},
	"transforming without end": func(w *world, s *server.Server) {
		w.start(s)
		w.produce("loop")
		w.awaitLog(greeting, 1)
	},
	"committing without end": func(w *world, s *server.Server) {
		w.bolt.SetHooks(onCommit(boltserver.Reply{Wait: make(chan struct{})}))
		w.start(s)
		w.produce("a")
		w.awaitExecuting(s)
	},
	"executing in a database that hangs": func(w *world, s *server.Server) {
		w.start(s)
		w.t.Cleanup(w.bolt.Freeze())
		w.produce("a")
		w.await(s, "it is seen", unresponsive)
	},
	"acknowledging in vain": func(w *world, s *server.Server) {
		w.start(s)
		w.kafka.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.CoordinatorLoadInProgress, Count: -1})
		w.produce("a")
		require.Eventually(w.t, func() bool { return len(w.applied()) == 1 }, patience, time.Millisecond)
	},
}

func TestEveryCommandEndsInEveryState(t *testing.T) {
	for command, c := range map[string]struct {
		do    func(*server.Server) error
		after func(w *world, s *server.Server)
	}{
		"STOP": {func(s *server.Server) error { return stop(s)() }, func(w *world, s *server.Server) {
			st := w.status(s)
			require.Equal(w.t, graphmill.StateStopped, st.State)
			require.Equal(w.t, graphmill.StateStopped, st.Desired)
			requireCode(w.t, stop(s)(), "already_stopped")
		}},
		"DROP": {func(s *server.Server) error { return s.DeleteStream(context.Background(), "s", server.DeleteRequest{}) }, func(w *world, s *server.Server) {
			_, err := s.Stream(w.t.Context(), "s")
			requireCode(w.t, err, "stream_not_found")
		}},
		"PATCH": {func(s *server.Server) error { _, err := patch(s, `{"batch_size":7}`, ""); return err }, func(w *world, s *server.Server) {
			info, err := s.Stream(w.t.Context(), "s")
			require.NoError(w.t, err)
			require.Equal(w.t, 7, info.Spec.BatchSize)
			require.Equal(w.t, graphmill.StateRunning, info.Desired)
			require.NotEqual(w.t, graphmill.StateStopped, info.State)
		}},
		"two STOPs": {func(s *server.Server) error {
			one, two := begun(stop(s)), begun(stop(s))
			first, second := <-one, <-two
			if first != nil {
				first, second = second, first
			}
			if graphmill.KindOf(second) != graphmill.KindConflict {
				return second
			}
			return first
		}, func(w *world, s *server.Server) {
			require.Equal(w.t, graphmill.StateStopped, w.status(s).State)
		}},
		"STOP and DROP": {func(s *server.Server) error {
			stopped := begun(stop(s))
			if err := s.DeleteStream(context.Background(), "s", server.DeleteRequest{}); err != nil {
				return err
			}
			<-stopped // it was faster, or the stream is gone
			return nil
		}, func(w *world, s *server.Server) {
			_, err := s.Stream(w.t.Context(), "s")
			requireCode(w.t, err, "stream_not_found")
		}},
		"the end of the server": {func(s *server.Server) error { return s.Close(context.Background()) }, func(*world, *server.Server) {}},
	} {
		for state, bring := range busy {
			if strings.Contains(command, "STOP") && command != "STOP" && state != "committing without end" && state != "transforming without end" {
				continue // that they meet is the same in all
			}
			t.Run(command+", "+state, func(t *testing.T) {
				w := newWorld(t, 1, boltserver.Options{})
				s := w.open(func(cfg *server.Config) {
					cfg.StartTimeout, cfg.DrainTimeout, cfg.ConflictRetries = 300*time.Millisecond, 300*time.Millisecond, 1_000_000
					cfg.AnswerTimeout = 300 * time.Millisecond
				})
				w.push(s)
				w.create(s, func(spec *graphmill.StreamSpec) { spec.TimeLimitMS = 600_000 })
				bring(w, s)
				promptly(t, command, func() { require.NoError(t, c.do(s)) })
				c.after(w, s)
			})
		}
	}
}

func TestCase31ACommandDuringAPauseBetweenAttemptsEndsAtOnce(t *testing.T) {
	for name, command := range map[string]func(*server.Server) error{
		"DROP":                  func(s *server.Server) error { return s.DeleteStream(context.Background(), "s", server.DeleteRequest{}) },
		"PATCH":                 func(s *server.Server) error { _, err := patch(s, `{"batch_size":7}`, ""); return err },
		"the end of the server": func(s *server.Server) error { return s.Close(context.Background()) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, boltserver.Options{})
			s := w.open(func(cfg *server.Config) {
				cfg.DrainTimeout, cfg.RetryInterval, cfg.ConflictRetries = time.Hour, time.Hour, 1_000_000
			})
			w.push(s)
			w.create(s, nil)
			busy["retrying conflicts"](w, s)
			w.await(s, "a long pause has begun", func(st graphmill.StreamStatus) bool {
				return st.CurrentBatch != nil && st.CurrentBatch.NextRetryAt != nil && time.Until(*st.CurrentBatch.NextRetryAt) > 500*time.Millisecond
			})
			w.bolt.SetHooks(boltserver.Hooks{})
			promptly(t, name, func() { require.NoError(t, command(s)) })
		})
	}
}
