package server_test

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/integration/boltserver"
	"github.com/graphmill/graphmill/server"
	wt "github.com/graphmill/graphmill/wasmhost/wasmtest"
)

// traffic produces numbered messages to one partition until it is ended, so many
// that the stream is always busy and never far behind.
type traffic struct {
	w    *world
	cl   *kgo.Client
	quit chan struct{}
	done sync.WaitGroup

	mu   sync.Mutex // held while messages are sent, so that their order is one
	sent []string
}

func (w *world) traffic() *traffic {
	w.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.addrs...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	require.NoError(w.t, err)
	l := &traffic{w: w, cl: cl, quit: make(chan struct{})}
	w.t.Cleanup(func() {
		l.end()
		cl.Close()
	})
	l.done.Go(l.run)
	return l
}

func (l *traffic) run() {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-l.quit:
			return
		case <-tick.C:
		}
		if executed := len(l.w.applied()); l.count()-executed < 100 {
			l.send(20)
		}
	}
}

func (l *traffic) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.sent)
}

// send produces the next n messages and returns the first.
func (l *traffic) send(n int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	records := make([]*kgo.Record, n)
	for i := range records {
		payload := "message " + strconv.Itoa(len(l.sent))
		records[i] = &kgo.Record{Topic: "topic", Value: []byte(payload)}
		l.sent = append(l.sent, payload)
	}
	assert.NoError(l.w.t, l.cl.ProduceSync(context.Background(), records...).FirstErr())
	return string(records[0].Value)
}

// end ends it and returns all that was sent, in order.
func (l *traffic) end() []string {
	select {
	case <-l.quit:
	default:
		close(l.quit)
	}
	l.done.Wait()
	return l.sent
}

// made is a message as it was executed.
type made struct {
	payload string
	version int // whose query it is
	batch   int
}

var (
	queryVersion  = regexp.MustCompile(`version: (\d+)`)
	moduleVersion = regexp.MustCompile(`^obedient version (\d+)$`)
)

// executed returns what has been committed, in order, having made sure that each
// batch is of one version, the one that it records.
func (w *world) executed() []made {
	w.t.Helper()
	var all []made
	for i, tx := range w.bolt.Committed() {
		recorded := moduleVersion.FindStringSubmatch(fmt.Sprint(tx.Metadata["module"]))
		require.NotNil(w.t, recorded, "%v", tx.Metadata)
		for _, st := range tx.Statements {
			of := queryVersion.FindStringSubmatch(st.Query)
			require.NotNil(w.t, of, st.Query)
			require.Equal(w.t, recorded[1], of[1], "the version that made it is recorded with the batch")
			version, err := strconv.Atoi(of[1])
			require.NoError(w.t, err)
			for _, row := range st.Rows() {
				all = append(all, made{payload: fmt.Sprint(row["payload"]), version: version, batch: i})
			}
		}
	}
	return all
}

// awaitExecuted waits until a message is executed and returns it.
func (w *world) awaitExecuted(payload string) made {
	w.t.Helper()
	var found made
	require.Eventually(w.t, func() bool {
		for _, m := range w.executed() {
			if m.payload == payload {
				found = m
				return true
			}
		}
		return false
	}, patience, 20*time.Millisecond, "waited in vain for %q to be executed", payload)
	return found
}

func payloads(all []made) []string {
	out := make([]string, len(all))
	for i, m := range all {
		out[i] = m.payload
	}
	return out
}

// small batches come often, so that a swap meets some under way.
func small(spec *graphmill.StreamSpec) { spec.BatchSize, spec.BatchIntervalMS = 10, 5 }

func TestCase30NewVersionsUnderLoad(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	s := w.open(nil)
	w.pushAs(s, "obedient", vigilantVersion(1))
	w.create(s, small)
	w.start(s)
	load := w.traffic()
	w.awaitExecuted(load.send(1))

	const swaps = 20
	after := map[string]int{} // the first message that was sent after a version was active
	for version := 2; version <= 1+swaps; version++ {
		pushed := w.pushAs(s, "obedient", vigilantVersion(version))
		require.Equal(t, version, pushed.Module.Version)
		after[load.send(1)] = version
		if version%3 == 0 { // others come as fast as they can
			w.awaitExecuted(load.send(1))
		}
	}
	last := load.send(1)
	sent := load.end()
	require.Equal(t, 1+swaps, w.awaitExecuted(last).version)
	w.awaitAcknowledged(s, int64(len(sent)))

	all := w.executed()
	require.Equal(t, sent, payloads(all), "each once, in order")
	swapped := map[int]bool{}
	for i, m := range all {
		swapped[m.version] = true
		require.GreaterOrEqual(t, m.version, after[m.payload], "what is sent after the answer to a push is not of an older version")
		if i > 0 {
			require.GreaterOrEqual(t, m.version, all[i-1].version)
			if m.version != all[i-1].version {
				require.NotEqual(t, all[i-1].batch, m.batch, "a swap is at a batch boundary")
			}
		}
	}
	require.Greater(t, len(swapped), swaps/3, "versions that had messages")
	status := w.status(s)
	require.Equal(t, 1+swaps, status.Module.Version)
	require.Nil(t, status.LastFailure)
}

func TestABatchThatWaitsForItsTurnIsTransformedAnewByTheNewVersion(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	held := make(chan struct{})
	w.bolt.SetHooks(onCommit(boltserver.Reply{Wait: held}))
	s := w.open(nil)
	w.pushAs(s, "obedient", vigilantVersion(1))
	w.create(s, func(spec *graphmill.StreamSpec) { spec.BatchSize = 2 })
	w.produce("a", "b", "c", "d", "e", "f")
	w.start(s)
	w.awaitExecuting(s)
	w.awaitLog(greeting, 2) // the second batch is transformed, too
	w.pushAs(s, "obedient", vigilantVersion(2))
	close(held)
	w.awaitAcknowledged(s, 6)
	require.Equal(t, []made{
		{"a", 1, 0}, {"b", 1, 0}, // was being executed
		{"c", 2, 1}, {"d", 2, 1}, {"e", 2, 2}, {"f", 2, 2},
	}, w.executed())
}

func TestCase30RollbackUnderLoad(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	s := w.open(nil)
	w.pushAs(s, "obedient", vigilantVersion(1))
	w.pushAs(s, "obedient", vigilantVersion(2))
	w.pushUnused(s, vigilantVersion(3))
	w.create(s, small)
	w.start(s)
	load := w.traffic()
	require.Equal(t, 2, w.awaitExecuted(load.send(1)).version)

	for _, step := range []struct{ to, want int }{{0, 1}, {3, 3}, {0, 1}, {2, 2}, {1, 1}, {3, 3}} {
		m, err := s.RollbackModule(t.Context(), "obedient", step.to)
		require.NoError(t, err)
		require.Equal(t, step.want, m.Version)
		require.True(t, m.Active)
		require.Equal(t, step.want, w.awaitExecuted(load.send(1)).version)
		require.Equal(t, step.want, w.status(s).Module.Version)
	}
	_, err := s.RollbackModule(t.Context(), "obedient", 4)
	require.Contains(t, requireCode(t, err, "version_not_found").Next, "3, 2, 1")
	_, err = s.RollbackModule(t.Context(), "obedient", -1)
	requireCode(t, err, "invalid")
	_, err = s.RollbackModule(t.Context(), "absent", 0)
	require.Contains(t, requireCode(t, err, "module_not_found").Next, "obedient")

	sent := load.end()
	w.awaitAcknowledged(s, int64(len(sent)))
	require.Equal(t, sent, payloads(w.executed()), "each once, in order")
}

func TestAVersionThatLacksAFunctionInUseIsRefusedWhileTheStreamGoesOn(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	s := w.open(nil)
	other := wt.Guest(wt.Unreachable)
	other.Funcs[2].Export = "other"
	push := func(noActivate bool) error {
		_, err := s.PushModule(t.Context(), server.PushRequest{Name: "obedient", ContentType: server.ContentTypeWasm, Bytes: other.Bytes(), NoActivate: noActivate})
		return err
	}
	w.pushAs(s, "obedient", vigilantVersion(1))
	w.create(s, small)
	w.start(s)
	load := w.traffic()
	w.awaitExecuted(load.send(1))

	e := requireCode(t, push(false), "function_in_use")
	require.Contains(t, e.Text, `this file does not export transform, in use by stream "s"`)
	require.Contains(t, e.Next, "--no-activate")
	require.NoError(t, push(true))
	_, err := s.RollbackModule(t.Context(), "obedient", 2)
	require.Contains(t, requireCode(t, err, "function_in_use").Text, `version 2 of module "obedient" does not export transform, in use by stream "s"`)

	require.Equal(t, 1, w.awaitExecuted(load.send(1)).version)
	sent := load.end()
	w.awaitAcknowledged(s, int64(len(sent)))
	require.Equal(t, sent, payloads(w.executed()))
	uses, err := s.ModuleUses(t.Context(), "obedient")
	require.NoError(t, err)
	require.Equal(t, []server.ModuleUse{{Stream: "s", Function: "transform", State: graphmill.StateRunning, Version: 1}}, uses)
}

func TestAVersionThatTrapsWhenItStartsIsRefusedWhileTheStreamGoesOn(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	s := w.open(func(c *server.Config) { c.Limits.Time = 500 * time.Millisecond })
	w.pushAs(s, "obedient", vigilantVersion(1))
	w.create(s, small)
	w.start(s)
	load := w.traffic()
	w.awaitExecuted(load.send(1))

	for name, body := range map[string][]byte{"trap": wt.Unreachable, "endless": wt.Forever()} {
		m := wt.Guest(wt.Unreachable, wt.Func{Export: "_initialize", Body: body})
		_, err := s.PushModule(t.Context(), server.PushRequest{Name: "obedient", ContentType: server.ContentTypeWasm, Bytes: m.Bytes()})
		e := requireCode(t, err, "module_rejected")
		require.Equal(t, graphmill.KindInvalid, e.Kind, name)
	}
	versions, err := s.ModuleVersions(t.Context(), "obedient")
	require.NoError(t, err)
	require.Len(t, versions, 1)

	w.awaitExecuted(load.send(1))
	sent := load.end()
	w.awaitAcknowledged(s, int64(len(sent)))
	require.Equal(t, sent, payloads(w.executed()))
}

// TestAVersionThatRefusesItsSettings is about what only the stream can find out:
// the module starts, and refuses the settings of this stream.
func TestAVersionThatRefusesItsSettingsFailsTheStreamWithoutLoss(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	s := w.open(nil)
	w.pushAs(s, "obedient", vigilantVersion(1))
	w.create(s, small)
	w.start(s)
	load := w.traffic()
	w.awaitExecuted(load.send(1))

	const refusal = "query is missing"
	picky := obedientThat(versionQuery(2), meetOnce())
	at := wt.DataAt + uint32(len(picky.Data))
	picky.Data += refusal
	picky.Funcs = append(picky.Funcs, wt.Func{
		Export: "graphmill_configure", Params: []byte{wt.I32, wt.I32}, Results: []byte{wt.I64},
		Body: wt.I64Const(int64(at)<<32 | int64(len(refusal))),
	})
	w.pushAs(s, "obedient", picky.Bytes())
	load.send(1)
	failed := w.awaitState(s, graphmill.StateFailed)
	require.Equal(t, "module_configure", failed.Reason.Code)
	require.Contains(t, failed.Reason.Text, refusal)

	_, err := s.RollbackModule(t.Context(), "obedient", 0)
	require.NoError(t, err)
	w.start(s)
	sent := load.end()
	w.awaitAcknowledged(s, int64(len(sent)))
	require.Equal(t, sent, payloads(w.executed()), "what was under way is done by the version before")
}
