package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/integration/boltserver"
	"github.com/graphmill/graphmill/server"
)

func patch(s *server.Server, doc, from string) (server.PatchResult, error) {
	return s.PatchStream(context.Background(), "s", server.PatchRequest{Patch: json.RawMessage(doc), From: from, Check: true})
}

// patched changes the definition and returns the answer.
func (w *world) patched(s *server.Server, doc, from string) server.PatchResult {
	w.t.Helper()
	result, err := patch(s, doc, from)
	require.NoError(w.t, err)
	return result
}

func TestAStoppedStreamIsChanged(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	s := w.open(nil)
	w.push(s)
	w.create(s, nil)
	result := w.patched(s, `{"batch_size":7,"settings":{"a":"b"}}`, "")
	require.Equal(t, []string{"batch_size", "settings.a"}, result.Changed)
	require.Equal(t, graphmill.StateStopped, result.State)
	require.Empty(t, result.Warnings)
	result = w.patched(s, `{"transform":"absent.f"}`, "")
	require.Len(t, result.Warnings, 1, "it could not start")
	require.Empty(t, w.patched(s, `{"batch_size":7}`, "").Changed)
	w.close(s)
	s = w.open(nil)
	info, err := s.Stream(t.Context(), "s")
	require.NoError(t, err)
	require.Equal(t, 7, info.Spec.BatchSize)
	require.Equal(t, "absent.f", info.Spec.Transform)

	for _, c := range []struct{ doc, from, field string }{
		{`{"bach_size":1}`, "", "bach_size"},
		{`{"batch_size":0}`, "", "batch_size"},
		{`{"memory_limit":1}`, "", "memory_limit"},
		{`{"batch_size":1}`, "earliest", "from"},
		{`{"topics":["topic","other"]}`, "", "from"},
		{`{"topics":["topic","other"]}`, "sometime", "from"},
		{`{"consumer_group":"other"}`, "", "from"},
		{`{"bootstrap_servers":["127.0.0.1:1"]}`, "", "from"},
	} {
		_, err := patch(s, c.doc, c.from)
		require.Equal(t, c.field, requireCode(t, err, "invalid").Field, c.doc)
	}
	_, err = s.PatchStream(t.Context(), "absent", server.PatchRequest{Patch: json.RawMessage(`{}`)})
	requireCode(t, err, "stream_not_found")
}

func TestARunningStreamIsChangedBehindTheBatchUnderWay(t *testing.T) {
	w, s, release := hanging(t, nil)
	w.produce("c", "d") // prepared in a batch of two
	w.awaitLog(greeting, 2)
	results := make(chan server.PatchResult, 1)
	errs := begun(func() error {
		result, err := patch(s, `{"batch_size":1}`, "")
		results <- result
		return err
	})
	w.awaitState(s, graphmill.StateDraining)
	release()
	require.NoError(t, <-errs)
	result := <-results
	require.Equal(t, []string{"batch_size"}, result.Changed)
	require.Equal(t, graphmill.StateRunning, result.State, "it answers when the new definition runs")
	w.awaitAcknowledged(s, 4)
	require.Equal(t, []string{"a", "b", "c", "d"}, w.applied(), "nothing lost or doubled")
	require.Equal(t, []int{2, 1, 1}, w.rows())
	require.Equal(t, graphmill.StateRunning, w.status(s).Desired)
	w.close(s)
	s = w.open(nil)
	w.produce("e")
	w.awaitAcknowledged(s, 5)
	require.Equal(t, []string{"a", "b", "c", "d", "e"}, w.applied(), "it is resumed")
}

func TestAPatchCuresAStreamThatIsStuck(t *testing.T) {
	for name, c := range map[string]struct {
		hooks func(cured *atomic.Bool) boltserver.Hooks
		until func(graphmill.StreamStatus) bool
		first string // payload
	}{
		"on an outage": {
			hooks: func(cured *atomic.Bool) boltserver.Hooks {
				return onStore(func() boltserver.Reply {
					if cured.Load() {
						return boltserver.Reply{}
					}
					return boltserver.Reply{Cut: boltserver.CutBefore}
				})
			},
			until: func(st graphmill.StreamStatus) bool {
				return st.State == graphmill.StateWaiting && st.Counters.Retries > 0
			},
		},
		"on conflicts": {
			hooks: func(cured *atomic.Bool) boltserver.Hooks {
				return onStore(func() boltserver.Reply {
					if cured.Load() {
						return boltserver.Reply{}
					}
					return boltserver.Fail("Neo.TransientError.Transaction.DeadlockDetected", "a deadlock")
				})
			},
			until: func(st graphmill.StreamStatus) bool { return st.Counters.Retries > 3 },
		},
		"in a transformation without end": {
			hooks: func(*atomic.Bool) boltserver.Hooks { return boltserver.Hooks{} },
			until: func(graphmill.StreamStatus) bool { return true },
			first: "loop",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, boltserver.Options{})
			var cured atomic.Bool
			w.bolt.SetHooks(c.hooks(&cured))
			s := w.open(func(cfg *server.Config) {
				cfg.ConflictRetries, cfg.DrainTimeout, cfg.StartTimeout = 1_000_000, time.Hour, time.Hour
			})
			w.push(s)
			w.create(s, func(spec *graphmill.StreamSpec) { spec.TimeLimitMS = 600_000 })
			payload := "a"
			if c.first != "" {
				payload = c.first
			}
			w.produce(payload)
			w.start(s)
			w.awaitLog(greeting, 1)
			w.await(s, "it is stuck", c.until)
			cured.Store(true)
			doc := `{"batch_size":1}`
			if c.first != "" {
				doc = `{"time_limit_ms":50}`
			}
			promptly(t, "PATCH", func() { require.Equal(t, graphmill.StateRunning, w.patched(s, doc, "").State) })
			if c.first != "" {
				w.awaitState(s, graphmill.StateFailed) // by its time limit now
				return
			}
			w.awaitAcknowledged(s, 1)
			require.Equal(t, []string{"a"}, w.applied())
		})
	}
}

// seedTopic makes another topic with a message in it.
func (w *world) seedTopic(name string, payloads ...string) {
	w.t.Helper()
	_, err := w.admin.CreateTopic(w.t.Context(), 1, 1, nil, name)
	require.NoError(w.t, err)
	for _, p := range payloads {
		w.produceRecords(&kgo.Record{Topic: name, Value: []byte(p)})
	}
}

func TestANewTopicBeginsWhereThePatchSays(t *testing.T) {
	for name, c := range map[string]struct {
		running bool
		from    string
		want    []string
	}{
		"running, earliest":  {true, "earliest", []string{"a", "old", "new"}},
		"running, latest":    {true, "latest", []string{"a", "new"}},
		"running, a time":    {true, "2001-01-01T00:00:00Z", []string{"a", "old", "new"}},
		"running, committed": {true, "committed", []string{"a", "old", "new"}}, // start_from: earliest
		"stopped, latest":    {false, "latest", []string{"a", "new"}},
		"stopped, earliest":  {false, "earliest", []string{"a", "old", "new"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, boltserver.Options{})
			w.seedTopic("second", "old")
			s := w.open(nil)
			w.push(s)
			w.create(s, nil)
			w.produce("a")
			w.start(s)
			w.awaitAcknowledged(s, 1)
			if !c.running {
				require.NoError(t, stop(s)())
			}
			w.patched(s, `{"topics":["topic","second"]}`, c.from)
			if !c.running {
				w.start(s)
			}
			w.produceRecords(&kgo.Record{Topic: "second", Value: []byte("new")})
			require.Eventually(t, func() bool { return len(w.applied()) == len(c.want) }, patience, 10*time.Millisecond, "%q", w.applied())
			require.Equal(t, c.want, w.applied())

			w.patched(s, `{"topics":["second"]}`, "")
			w.patched(s, `{"topics":["second","topic"]}`, "committed")
			w.produce("b")
			require.Eventually(t, func() bool { return len(w.applied()) > len(c.want) }, patience, 10*time.Millisecond)
			require.Equal(t, append(c.want, "b"), w.applied(), "a topic that was left out keeps its position")
		})
	}
}

func TestANewGroupBeginsWhereThePatchSays(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	s := w.open(nil)
	w.push(s)
	w.create(s, func(spec *graphmill.StreamSpec) { spec.StartFrom = "" })
	w.start(s)
	w.produce("a", "b")
	w.awaitAcknowledged(s, 2)
	w.patched(s, `{"consumer_group":"other"}`, "earliest")
	w.awaitAcknowledged(s, 2)
	require.Equal(t, []string{"a", "b", "a", "b"}, w.applied())
	w.patched(s, `{"consumer_group":"third"}`, "committed")
	w.produce("c")
	w.awaitAcknowledged(s, 3)
	require.Equal(t, []string{"a", "b", "a", "b", "c"}, w.applied(), "start_from, since that group has no position and the old one's does not count")
}

func TestARefusedPatchLeavesTheStreamRunning(t *testing.T) {
	w := newWorld(t, 2, boltserver.Options{})
	w.seedTopic("second", "old")
	s := w.open(nil)
	w.push(s)
	w.create(s, nil)
	w.start(s)
	twin := graphmill.StreamSpec{Name: "twin", Topics: []string{"second"}, Transform: "obedient", ConsumerGroup: "graphmill.s"}
	_, err := s.CreateStream(t.Context(), server.CreateRequest{Spec: twin, Check: true})
	require.NoError(t, err)
	_, err = s.StartStream(t.Context(), "twin", server.StartRequest{})
	require.NoError(t, err)

	for code, c := range map[string]struct{ doc, from string }{
		"function_not_found": {`{"transform":"obedient.absent"}`, ""},
		"module_not_found":   {`{"transform":"absent"}`, ""},
		"group_shared":       {`{"topics":["topic","second"]}`, "earliest"},
		"topic_absent":       {`{"topics":["topic","absent"]}`, "latest"},
	} {
		_, err := patch(s, c.doc, c.from)
		requireCode(t, err, code)
	}
	_, err = s.StopStream(t.Context(), "twin")
	require.NoError(t, err)

	// Another server of the group: its positions cannot be moved.
	two := w.open(func(c *server.Config) { c.DataDir = t.TempDir() })
	w.push(two)
	w.create(two, nil)
	w.start(two)
	_, err = patch(s, `{"topics":["topic","second"]}`, "latest")
	requireCode(t, err, "group_active")
	require.Equal(t, graphmill.StateRunning, w.awaitState(s, graphmill.StateRunning).Desired)
	info, err := s.Stream(t.Context(), "s")
	require.NoError(t, err)
	require.Equal(t, []string{"topic"}, info.Spec.Topics)
	require.NoError(t, stop(two)())
	w.produce("a")
	w.await(s, "it goes on", func(st graphmill.StreamStatus) bool { return st.Counters.Messages == 1 })
}

func TestSettingsThatTheTransformationRefusesLeaveARunningStreamAsItWas(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	s := w.open(nil)
	w.push(s)
	w.pushAs(s, "refusing", refusing())
	w.create(s, nil)
	w.start(s)
	_, err := patch(s, `{"transform":"refusing"}`, "")
	e := requireCode(t, err, "module_configure")
	require.Equal(t, `stream "s" stays as it was: SETTINGS are not known`, e.Text)
	info, err := s.Stream(t.Context(), "s")
	require.NoError(t, err)
	require.Equal(t, "obedient", info.Spec.Transform)
	w.produce("a")
	w.awaitAcknowledged(s, 1)
	require.Equal(t, graphmill.StateRunning, w.awaitState(s, graphmill.StateRunning).State)
}

func TestSettingsThatTheTransformationRefusesAreToldByCreate(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	s := w.open(nil)
	w.pushAs(s, "refusing", refusing())
	info, err := s.CreateStream(t.Context(), server.CreateRequest{Spec: graphmill.StreamSpec{Name: "s", Topics: []string{"topic"}, Transform: "refusing"}, Check: true})
	require.NoError(t, err)
	require.Len(t, info.Warnings, 1)
	require.Contains(t, info.Warnings[0], "cannot be used yet: SETTINGS are not known; correct SETTINGS: graphmill stream edit s --setting")
}

func TestADefinitionUnderWhichTheStreamFailsAtOnce(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	s := w.open(nil)
	w.push(s)
	w.pushAs(s, "refusing", refusing())
	w.create(s, nil)
	w.start(s)
	_, err := s.PatchStream(t.Context(), "s", server.PatchRequest{Patch: json.RawMessage(`{"transform":"refusing"}`)})
	e := requireCode(t, err, "module_configure")
	require.Contains(t, e.Text, "the new definition is stored")
	w.awaitState(s, graphmill.StateFailed)
	require.Equal(t, graphmill.StateFailed, w.patched(s, `{"transform":"obedient"}`, "").State, "START tries again")
	w.produce("a")
	w.start(s)
	w.awaitAcknowledged(s, 1)
}

func TestAPatchDuringALimitedStartIsRefused(t *testing.T) {
	w, s := limited(t)
	w.produce("a", "b")
	_, errs := startLimited(t.Context(), s, server.StartRequest{BatchLimit: 10, Timeout: time.Hour})
	w.awaitAcknowledged(s, 2)
	_, err := patch(s, `{"batch_size":1}`, "")
	requireCode(t, err, "limited_start")
	require.NoError(t, stop(s)())
	requireCode(t, <-errs, "stopped_meanwhile")
}

func TestPatchesAtEveryMoment(t *testing.T) {
	w := newWorld(t, 2, boltserver.Options{})
	s := w.open(nil)
	w.push(s)
	w.create(s, func(spec *graphmill.StreamSpec) { spec.BatchSize = 3 })
	w.start(s)
	var want []string
	for i := range 60 {
		want = append(want, fmt.Sprintf("message %d", i))
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for _, p := range want {
			w.produce(p)
		}
	})
	for i := range 15 {
		commands := sync.WaitGroup{}
		for k := range 2 {
			commands.Go(func() {
				_, err := patch(s, fmt.Sprintf(`{"batch_size":%d}`, 1+(2*i+k)%5), "")
				requireNoDefect(t, err)
			})
		}
		if i%3 == 0 {
			commands.Go(func() { requireNoDefect(t, stop(s)()) })
			commands.Go(func() { requireNoDefect(t, start(s)()) })
		}
		commands.Wait()
	}
	wg.Wait()
	if err := start(s)(); err != nil {
		requireCode(t, err, "already_running")
	}
	w.await(s, "all is read", func(st graphmill.StreamStatus) bool { return lag(st) == 0 })
	require.Equal(t, want, w.applied(), "in order, nothing lost, and nothing doubled")
}

func TestTheEndOfTheServerDuringAPatch(t *testing.T) {
	w, s, _ := hanging(t, func(c *server.Config) { c.DrainTimeout = time.Hour })
	errs := begun(func() error {
		_, err := patch(s, `{"batch_size":1}`, "")
		return err
	})
	w.awaitState(s, graphmill.StateDraining)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	promptly(t, "Close", func() { require.NoError(t, s.Close(ctx)) })
	requireCode(t, <-errs, "shutting_down")
	require.EqualValues(t, 0, w.committed())
	w.bolt.SetHooks(boltserver.Hooks{})
	s = w.open(nil)
	w.awaitAcknowledged(s, 2)
}

func TestAChangeKeepsWhatStartAcceptedAndHasNotMet(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	s := w.open(nil)
	w.push(s)
	w.create(s, nil)
	w.produce("a", "b")
	require.NoError(t, start(s)())
	w.awaitAcknowledged(s, 2)
	require.NoError(t, stop(s)())
	_, err := w.admin.DeleteTopic(t.Context(), "topic")
	require.NoError(t, err)
	w.seedTopic("topic", "new")
	requireCode(t, start(s)(), "topic_recreated")

	away := w.kafka.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.JoinGroup}, Err: kerr.CoordinatorLoadInProgress, Count: -1})
	started := begun(func() error {
		_, err := s.StartStream(context.Background(), "s", server.StartRequest{AcceptRecreated: true})
		return err
	})
	require.Eventually(t, func() bool { return away.Hits() > 0 }, patience, 5*time.Millisecond)
	changed := begun(func() error { _, err := patch(s, `{"batch_size":7}`, ""); return err })
	w.awaitLog("definition changed", 1)
	away.Remove()
	require.NoError(t, <-started)
	require.NoError(t, <-changed)
	w.awaitAcknowledged(s, 1)
	require.Equal(t, []string{"a", "b", "new"}, w.applied())
}

func TestAStartWaitsForTheRunThatAChangeHasBegun(t *testing.T) {
	w, s, started := waitingForTopic(t)
	answers := []<-chan error{started}
	for i := range 2 {
		answers = append(answers, begun(func() error {
			_, err := s.PatchStream(context.Background(), "s", server.PatchRequest{Patch: fmt.Appendf(nil, `{"batch_size":%d}`, 7+i)})
			return err
		}))
		w.awaitLog("definition changed", 1+i)
	}
	for _, answer := range answers {
		select {
		case err := <-answer:
			require.Fail(t, "answered before its positions are settled", "%v", err)
		case <-time.After(50 * time.Millisecond):
		}
	}
	_, err := w.admin.CreateTopic(t.Context(), 1, 1, nil, "absent")
	require.NoError(t, err)
	for _, answer := range answers {
		require.NoError(t, <-answer)
	}
	require.Equal(t, graphmill.StateRunning, w.status(s).State)
}
