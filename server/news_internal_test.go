package server

import (
	"bytes"
	"context"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/server/events"
)

// newsWorld is the news of one stream, with all that came of it.
type newsWorld struct {
	*news
	log bytes.Buffer
	sub *events.Subscription
}

func newNewsWorld(t *testing.T) *newsWorld {
	w := &newsWorld{}
	hub := events.NewHub()
	log := slog.New(slog.NewTextHandler(&w.log, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
	w.news = newNews("s", hub, log)
	var err error
	w.sub, err = hub.Subscribe(events.Filter{})
	require.NoError(t, err)
	return w
}

// events returns what has come, without waiting.
func (w *newsWorld) events() (all []graphmill.Event) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for {
		e, ok := w.sub.Next(ctx)
		if !ok {
			return all
		}
		all = append(all, e)
	}
}

func (w *newsWorld) lines() []string {
	defer w.log.Reset()
	return slices.Collect(strings.Lines(w.log.String()))
}

var away = &graphmill.Reason{Code: "broker_unreachable", Text: "no broker answers", NextStep: "start it"}

func TestAStreamThatFallsFromStateToStateDoesNotFloodTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newNewsWorld(t)
		for i := range 100 { // a second each
			if i%2 == 0 {
				w.changed(graphmill.StateRunning, nil)
			} else {
				w.changed(graphmill.StateWaiting, away)
			}
			time.Sleep(time.Second)
			w.tick(time.Now())
		}
		lines := w.lines()
		require.LessOrEqual(t, len(lines), stateLines+100/int(stateLineInterval.Seconds()))
		require.GreaterOrEqual(t, len(lines), stateLines+100/int(stateLineInterval.Seconds())-2)
		require.Regexp(t, `changes_not_logged=\d+\n$`, lines[len(lines)-1])
		require.Equal(t, 100, len(w.events()), "readers are told of each")

		// What the log says last is true, once there may be a line again.
		for range 20 {
			time.Sleep(time.Second)
			w.tick(time.Now())
		}
		lines = append(lines, w.lines()...)
		require.Contains(t, lines[len(lines)-1], "state=waiting")

		// It was quiet for a while: each change is a line again.
		time.Sleep(stateLines * stateLineInterval)
		w.changed(graphmill.StateRunning, nil)
		w.changed(graphmill.StateWaiting, away)
		require.Equal(t, []string{
			`level=INFO msg="stream running" state=running` + "\n",
			`level=WARN msg="stream waiting" state=waiting reason=broker_unreachable text="no broker answers" next_step="start it"` + "\n",
		}, w.lines())
	})
}

func TestAFailureIsLoggedHoweverMuchWasBefore(t *testing.T) {
	w := newNewsWorld(t)
	for range 50 {
		w.changed(graphmill.StateRunning, nil)
		w.changed(graphmill.StateWaiting, away)
	}
	w.lines()
	w.changed(graphmill.StateFailed, &graphmill.Reason{Code: "auth", Text: "wrong password", NextStep: "mend it"})
	require.Equal(t, []string{`level=ERROR msg="stream failed" state=failed reason=auth text="wrong password" next_step="mend it" changes_not_logged=90` + "\n"}, w.lines())
}

func TestTheSameStateIsToldOnce(t *testing.T) {
	w := newNewsWorld(t)
	w.changed(graphmill.StateWaiting, away)
	again := *away
	again.Text = "dial tcp 127.0.0.1:9092: another text each time"
	w.changed(graphmill.StateWaiting, &again)
	require.Len(t, w.lines(), 1)
	require.Len(t, w.events(), 1)
}

func TestBatchesAreSummedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newNewsWorld(t)
		at := func(partition int32, offset int64) graphmill.Position {
			return graphmill.Position{TopicPartition: graphmill.TopicPartition{Topic: "t", Partition: partition}, Offset: offset}
		}
		done := func(messages int, positions ...graphmill.Position) {
			w.batch(&job{
				batch:    graphmill.Batch{Messages: make([]graphmill.Message, messages), Bytes: int64(10 * messages), Positions: positions},
				executed: graphmill.Executed{Statements: messages, Sent: 1},
			}, 1)
		}
		began := now()
		for i := range int64(1000) {
			done(2, at(1, 2*i+2))
		}
		done(1, at(0, 7))
		require.Empty(t, w.events(), "not each of them")
		time.Sleep(newsInterval)
		w.tick(time.Now())
		all := w.events()
		require.Len(t, all, 1)
		require.Equal(t, &graphmill.BatchesDone{
			Since: began, Batches: 1001, Messages: 2001, Bytes: 20010, Statements: 2001, StatementsSent: 1001, Dropped: 1001,
			Positions: []graphmill.Position{at(0, 7), at(1, 2000)},
		}, all[0].Batches)
		w.tick(time.Now())
		require.Empty(t, w.events(), "nothing was done")

		// What was done before something happened is told before it.
		done(1, at(0, 8))
		w.warn("careful", "error", context.Canceled, "count", 1)
		done(1, at(0, 9))
		w.changed(graphmill.StateStopped, nil)
		var types []graphmill.EventType
		for _, e := range w.events() {
			types = append(types, e.Type)
			require.Equal(t, "s", e.Stream)
			if e.Type == graphmill.EventWarning {
				require.Equal(t, "careful: context canceled", e.Text)
			}
		}
		require.Equal(t, []graphmill.EventType{graphmill.EventBatches, graphmill.EventWarning, graphmill.EventBatches, graphmill.EventState}, types)
	})
}

func TestRates(t *testing.T) {
	began := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		seconds  int
		total    func(second int) int64
		ten, one float64
	}{
		"nothing was ever done":      {0, nil, 0, 0},
		"the first second":           {1, func(s int) int64 { return 100 }, 0, 0},
		"it has just begun":          {3, func(s int) int64 { return int64(50 * s) }, 50, 50},
		"even for hours":             {10_000, func(s int) int64 { return int64(7 * s) }, 7, 7},
		"it stopped 30 s ago":        {120, func(s int) int64 { return int64(60 * min(s, 89)) }, 0, 30},
		"it went up 10 s ago":        {120, func(s int) int64 { return int64(max(0, s-109) * 600) }, 600, 100},
		"one message in a long time": {200, func(s int) int64 { return int64(s / 199) }, 0.1, 1.0 / 60},
	} {
		t.Run(name, func(t *testing.T) {
			var r rates
			for s := range c.seconds {
				jitter := time.Duration(s%3-1) * 4 * time.Millisecond // as tickers are
				r.sample(began.Add(time.Duration(s)*time.Second+jitter), c.total(s))
			}
			got := r.describe()
			require.InDelta(t, c.ten, got.MessagesPerSecond10s, 0.01*c.ten+0.001)
			require.InDelta(t, c.one, got.MessagesPerSecond1m, 0.01*c.one+0.001)
		})
	}
}

func TestRatesOfPartitions(t *testing.T) {
	at := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	p := partitionRates{}
	message := func(partition int32) graphmill.Message { return graphmill.Message{Topic: "t", Partition: partition} }
	zero, one := graphmill.TopicPartition{Topic: "t"}, graphmill.TopicPartition{Topic: "t", Partition: 1}
	for range 5 {
		p.count(at, []graphmill.Message{message(0), message(0), message(1), message(0), {Topic: "other"}})
		at = at.Add(time.Second)
		p.sample(at)
	}
	require.InDelta(t, 3, p.over(zero, 10*time.Second), 0.001)
	require.InDelta(t, 1, p.over(one, 10*time.Second), 0.001)
	require.Zero(t, p.over(graphmill.TopicPartition{Topic: "absent"}, 10*time.Second))
	require.Len(t, p, 3)
	for range rateSamples {
		at = at.Add(time.Second)
		p.count(at, []graphmill.Message{message(1)})
		p.sample(at)
	}
	require.Len(t, p, 1, "those that are quiet are forgotten")
}

func TestFailureCodesAreBounded(t *testing.T) {
	var c failureCodes
	for _, bad := range []string{"", "Neo.ClientError.X", "a b", "secret=hunter2", strings.Repeat("x", 41), "ä"} {
		require.Equal(t, otherCode, c.label(bad))
	}
	require.Equal(t, "auth", c.label("auth"))
	for i := range 1000 {
		c.label("code_" + regexp.MustCompile(`\d`).ReplaceAllStringFunc(time.Duration(i).String(), func(d string) string { return string('a' + d[0] - '0') }))
	}
	require.Equal(t, "auth", c.label("auth"))
	require.Len(t, c.known, maxFailureCodes)
	require.Equal(t, otherCode, c.label("one_more"))
}

func TestEndsThatAreOldOrWereNotAnsweredAreNotTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := ends{valid: 30 * time.Second}
		require.False(t, e.known())
		require.Empty(t, e.fresh())
		at := func(n int32) graphmill.TopicPartition { return graphmill.TopicPartition{Topic: "t", Partition: n} }
		e.note([]graphmill.PartitionStatus{{TopicPartition: at(0), End: 7, Lag: 2}, {TopicPartition: at(1), End: -1, Lag: -1}})
		require.True(t, e.known())
		require.Contains(t, e.fresh(), at(0))
		require.NotContains(t, e.fresh(), at(1))
		time.Sleep(31 * time.Second)
		require.Empty(t, e.fresh())
	})
}
