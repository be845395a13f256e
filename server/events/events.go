// Package events hands the news of the streams to whoever wants to hear them,
// and never makes a stream wait: a reader that is too slow misses events, and is
// told so.
package events

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/graphmill/graphmill"
)

// Bounds of a Hub.
const (
	remembered     = 1024 // events that a reader may come back to
	queued         = 256  // events that a reader may be behind
	MaxSubscribers = 64   // readers at once
)

// Filter says which events a reader wants.
type Filter struct {
	Stream string                // empty: of all
	Types  []graphmill.EventType // none: of all types

	// After is the id of the last event that the reader has seen: what came
	// after it is told first, as far as it is remembered. Empty: only what
	// happens from now on.
	After string
}

func (f *Filter) wants(e *graphmill.Event) bool {
	return (f.Stream == "" || f.Stream == e.Stream) &&
		(len(f.Types) == 0 || slices.Contains(f.Types, e.Type))
}

// Hub takes events and hands them to its readers. Safe for concurrent use.
type Hub struct {
	life string // begins every id: other lives of the server have others

	mu     sync.Mutex
	last   uint64            // number of the last event
	ring   []graphmill.Event // the last ones, in order
	subs   map[*Subscription]struct{}
	closed bool
}

// NewHub makes a hub without readers.
func NewHub() *Hub {
	return &Hub{
		life: strconv.FormatInt(time.Now().UnixNano(), 36),
		subs: map[*Subscription]struct{}{},
	}
}

// Publish gives the event its id and hands it on. It never waits for a reader.
// What the event points to must not be changed any more.
func (h *Hub) Publish(e graphmill.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return
	}
	h.last++
	e.ID = h.id(h.last)
	if len(h.ring) == remembered {
		h.ring = slices.Delete(h.ring, 0, remembered/8) // so that it is moved once in a while only
	}
	h.ring = append(h.ring, e)
	for s := range h.subs {
		if s.filter.wants(&e) {
			s.push(e)
		}
	}
}

func (h *Hub) id(number uint64) string { return h.life + "-" + strconv.FormatUint(number, 10) }

// Subscribe begins to collect events for a reader, who closes the subscription.
// Errors: KindUnavailable while there are MaxSubscribers, or where the hub is
// closed (too_many_readers, shutting_down).
func (h *Hub) Subscribe(f Filter) (*Subscription, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.closed:
		return nil, &graphmill.Error{Kind: graphmill.KindUnavailable, Code: "shutting_down", Text: "the server is shutting down"}
	case len(h.subs) == MaxSubscribers:
		return nil, &graphmill.Error{
			Kind: graphmill.KindUnavailable, Code: "too_many_readers",
			Text: strconv.Itoa(MaxSubscribers) + " readers follow the events already",
			Next: "end one of them; /metrics serves any number of readers",
		}
	}
	s := &Subscription{hub: h, filter: f, wake: make(chan struct{}, 1)}
	if f.After != "" {
		s.missed = h.since(f)
	}
	h.subs[s] = struct{}{}
	return s, nil
}

// since returns what a reader who has seen f.After has missed, with a word about
// what is not remembered. mu is held.
func (h *Hub) since(f Filter) []graphmill.Event {
	first := h.last - uint64(len(h.ring)) + 1 // number of the first that is remembered
	seen, ok := h.number(f.After)
	var missed []graphmill.Event
	switch {
	case !ok: // of another life of the server
		seen = first - 1
		missed = append(missed, lagged(-1))
	case seen+1 < first:
		missed = append(missed, lagged(int64(first-1-seen)))
		seen = first - 1
	}
	for _, e := range h.ring[seen+1-first:] {
		if f.wants(&e) {
			missed = append(missed, e)
		}
	}
	return missed
}

// number reads an id of this life.
func (h *Hub) number(id string) (uint64, bool) {
	digits, ok := strings.CutPrefix(id, h.life+"-")
	n, err := strconv.ParseUint(digits, 10, 64)
	return n, ok && err == nil && n <= h.last
}

// Readers returns how many there are.
func (h *Hub) Readers() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.subs)
}

// Close ends all subscriptions once they have been read to their end. Closing
// twice does nothing.
func (h *Hub) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for s := range h.subs {
		s.kick()
	}
}

// Subscription is one reader's. Next is for one goroutine.
type Subscription struct {
	hub    *Hub
	filter Filter
	wake   chan struct{} // a token when there is something new

	// missed is what the reader came back for; owned by Next.
	missed []graphmill.Event

	// Guarded by hub.mu.
	queue []graphmill.Event
	lost  int64 // events that did not find room, after those of the queue
}

// push queues an event, or counts it as lost. hub.mu is held.
func (s *Subscription) push(e graphmill.Event) {
	switch {
	case len(s.queue) >= queued || s.lost > 0 && len(s.queue) >= queued/2:
		// A reader that has lost events gets new ones only when it has caught up
		// with half of them, so that it is told of gaps once in a while and not of
		// every second event.
		s.lost++
		return
	case s.lost > 0:
		s.queue = append(s.queue, lagged(s.lost))
		s.lost = 0
	}
	s.queue = append(s.queue, e)
	s.kick()
}

func (s *Subscription) kick() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Next waits for the next event. After gaps it is one of type lagged. ok is false
// when ctx has ended, or when the hub is closed and everything has been read.
func (s *Subscription) Next(ctx context.Context) (e graphmill.Event, ok bool) {
	if len(s.missed) > 0 {
		e, s.missed = s.missed[0], s.missed[1:]
		return e, true
	}
	for {
		e, ok, over := s.take()
		if ok || over {
			return e, ok
		}
		select {
		case <-s.wake:
		case <-ctx.Done():
			return graphmill.Event{}, false
		}
	}
}

func (s *Subscription) take() (e graphmill.Event, ok, over bool) {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	switch {
	case len(s.queue) > 0:
		e, s.queue = s.queue[0], s.queue[1:]
		return e, true, false
	case s.lost > 0:
		e, s.lost = lagged(s.lost), 0
		return e, true, false
	}
	return e, false, s.hub.closed
}

// Close ends the subscription. Closing twice does nothing.
func (s *Subscription) Close() {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	delete(s.hub.subs, s)
}

func lagged(lost int64) graphmill.Event {
	return graphmill.Event{At: time.Now().UTC().Truncate(time.Millisecond), Type: graphmill.EventLagged, Lagged: &graphmill.Lagged{Lost: lost}}
}
