package server

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/server/events"
)

// newsInterval is how often what has gathered is told.
const newsInterval = time.Second

// Bounds of the log lines about a stream's state: a stream that falls from one
// state into the other all the time is told of with this many lines at once, and
// with one in this long.
const (
	stateLines        = 10
	stateLineInterval = 10 * time.Second
)

// Events begins to collect events for a reader, who closes the subscription.
// Errors: KindUnavailable where there are too many readers, or the server is
// shutting down.
func (s *Server) Events(_ context.Context, f events.Filter) (*events.Subscription, error) {
	return s.events.Subscribe(f)
}

// tellNews tells what has gathered of all streams, until the server ends.
func (s *Server) tellNews() {
	tick := time.NewTicker(newsInterval)
	defer tick.Stop()
	for {
		select {
		case <-s.life.Done():
			return
		case at := <-tick.C:
			s.each(func(st *stream) { st.news.tick(at) })
		}
	}
}

// news tells what becomes of a stream, in the log and as events: each change of
// state at once, and batches summed up once a second, so that neither the lane
// nor a reader pays for thousands of them. Safe for concurrent use.
type news struct {
	stream string
	hub    *events.Hub
	log    *slog.Logger

	mu       sync.Mutex
	state    graphmill.State // told last
	reason   *graphmill.Reason
	pending  *graphmill.BatchesDone // not told yet
	reached  map[graphmill.TopicPartition]graphmill.Position
	messages int64 // acknowledged, for the rates
	rates    rates
	each     partitionRates

	spent    int       // lines about the state that have not been earned back
	earned   time.Time // when the last one was
	unlogged int       // changes since the last line
}

func newNews(stream string, hub *events.Hub, log *slog.Logger) *news {
	return &news{stream: stream, hub: hub, log: log, reached: map[graphmill.TopicPartition]graphmill.Position{}, each: partitionRates{}}
}

// changed tells a state where it is another one than before, or has another
// reason.
func (n *news) changed(state graphmill.State, reason *graphmill.Reason) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if stateLine(state, reason) == stateLine(n.state, n.reason) {
		return
	}
	n.tellBatchesLocked()
	n.state, n.reason = state, reason
	n.publishLocked(graphmill.Event{Type: graphmill.EventState, State: &graphmill.StateChange{State: state, Reason: reason}})
	n.unlogged++
	n.logStateLocked(time.Now())
}

// stateLine tells states apart. A reason's text may differ each time.
func stateLine(state graphmill.State, reason *graphmill.Reason) string {
	if reason == nil {
		return string(state)
	}
	return string(state) + " " + reason.Code
}

// logStateLocked writes the line of the present state, unless it has been
// written, or there have been too many lately: then a later tick does. A failure
// is always written.
func (n *news) logStateLocked(at time.Time) {
	if n.unlogged == 0 {
		return
	}
	if back := int(at.Sub(n.earned) / stateLineInterval); back > 0 {
		n.spent = max(0, n.spent-back)
		n.earned = at
	}
	failed := n.state == graphmill.StateFailed
	if n.spent >= stateLines && !failed {
		return
	}
	n.spent = min(n.spent+1, stateLines)
	attrs := []any{"state", string(n.state)}
	if r := n.reason; r != nil {
		attrs = append(attrs, "reason", r.Code, "text", r.Text, "next_step", r.NextStep)
	}
	if n.unlogged > 1 {
		attrs = append(attrs, "changes_not_logged", n.unlogged-1)
	}
	n.unlogged = 0
	level := slog.LevelInfo
	switch {
	case failed:
		level = slog.LevelError
	case n.state == graphmill.StateWaiting, n.reason != nil: // stopped, and cannot be started
		level = slog.LevelWarn
	}
	n.log.Log(context.Background(), level, "stream "+string(n.state), attrs...)
}

// batch adds a batch that has been acknowledged.
func (n *news) batch(j *job, dropped int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.pending == nil {
		n.pending = &graphmill.BatchesDone{Since: now()}
	}
	p := n.pending
	p.Batches++
	p.Messages += int64(len(j.batch.Messages))
	p.Bytes += j.batch.Bytes
	p.Statements += int64(j.executed.Statements)
	p.StatementsSent += int64(j.executed.Sent)
	p.Dropped += dropped
	for _, pos := range j.batch.Positions {
		n.reached[pos.TopicPartition] = pos
	}
	n.messages += int64(len(j.batch.Messages))
	n.each.count(time.Now(), j.batch.Messages)
}

func (n *news) tellBatchesLocked() {
	if n.pending == nil {
		return
	}
	done := n.pending
	done.Positions = make([]graphmill.Position, 0, len(n.reached))
	for _, p := range n.reached {
		done.Positions = append(done.Positions, p)
	}
	graphmill.SortPositions(done.Positions)
	n.pending = nil
	clear(n.reached)
	n.publishLocked(graphmill.Event{Type: graphmill.EventBatches, Batches: done})
}

// failed tells that a batch has failed, or the run.
func (n *news) failed(failure *graphmill.FailureStatus) {
	n.publish(graphmill.Event{Type: graphmill.EventFailure, Failure: failure})
}

// module tells which version transforms from here on.
func (n *news) module(v *graphmill.ModuleVersion) {
	n.publish(graphmill.Event{Type: graphmill.EventModule, Module: v})
}

// warn tells what a person should know, in the log and as an event. The
// attributes are for the log, but an error among them stands in the event too.
func (n *news) warn(text string, attrs ...any) {
	n.log.Warn(text, attrs...)
	for i := 0; i+1 < len(attrs); i += 2 {
		if err, ok := attrs[i+1].(error); ok {
			text = fmt.Sprintf("%s: %v", text, err)
		}
	}
	n.publish(graphmill.Event{Type: graphmill.EventWarning, Text: text})
}

// tick tells what has gathered. It is called every newsInterval.
func (n *news) tick(at time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.rates.sample(at, n.messages)
	n.each.sample(at)
	n.tellBatchesLocked()
	n.logStateLocked(at)
}

func (n *news) currentRates() graphmill.Rates {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.rates.describe()
}

// rated returns partitions with the rate of each. The given ones, which others may
// be reading, stay as they are.
func (n *news) rated(partitions []graphmill.PartitionStatus) []graphmill.PartitionStatus {
	n.mu.Lock()
	defer n.mu.Unlock()
	partitions = slices.Clone(partitions)
	for i := range partitions {
		partitions[i].MessagesPerSecond10s = n.each.over(partitions[i].TopicPartition, 10*time.Second)
	}
	return partitions
}

func (n *news) publish(e graphmill.Event) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.tellBatchesLocked() // what was done before
	n.publishLocked(e)
}

func (n *news) publishLocked(e graphmill.Event) {
	e.At, e.Stream = now(), n.stream
	n.hub.Publish(e)
}
