package sourcetest

import (
	"context"
	"slices"
	"sync"

	"github.com/graphmill/graphmill"
)

// Observer keeps what a source tells. It panics where it is called by two at a
// time. The zero value is ready.
type Observer struct {
	// WhenRevoked and WhenAssigned run within Revoked and Assigned, where they are
	// set, before the call counts for Owned. To be set before the source is opened.
	WhenRevoked  func(ctx context.Context, tps []graphmill.TopicPartition, lost bool)
	WhenAssigned func([]graphmill.Position)

	mu        sync.Mutex
	busy      bool
	waits     []*graphmill.Fault
	waiting   *graphmill.Fault
	recovered int
	absent    []graphmill.Position
	owned     map[graphmill.TopicPartition]graphmill.Position
	revoked   []graphmill.TopicPartition
	lost      int
}

// enter checks that the observer is called by one at a time.
func (o *Observer) enter() (leave func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.busy {
		panic("two calls of the Observer at the same time")
	}
	o.busy = true
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.busy = false
	}
}

// Waiting implements sources.Observer.
func (o *Observer) Waiting(f *graphmill.Fault) {
	defer o.enter()()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.waits = append(o.waits, f)
	o.waiting = f
}

// Recovered implements sources.Observer.
func (o *Observer) Recovered() {
	defer o.enter()()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.recovered++
	o.waiting = nil
}

// Absent implements sources.Observer.
func (o *Observer) Absent(ps []graphmill.Position) {
	defer o.enter()()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.absent = append(o.absent, ps...)
}

// Assigned implements sources.Observer.
func (o *Observer) Assigned(ps []graphmill.Position) {
	defer o.enter()()
	if o.WhenAssigned != nil {
		o.WhenAssigned(ps)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.owned == nil {
		o.owned = map[graphmill.TopicPartition]graphmill.Position{}
	}
	for _, p := range ps {
		o.owned[p.TopicPartition] = p
	}
}

// Revoked implements sources.Observer.
func (o *Observer) Revoked(ctx context.Context, tps []graphmill.TopicPartition, lost bool) {
	defer o.enter()()
	if o.WhenRevoked != nil {
		o.WhenRevoked(ctx, tps, lost)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, tp := range tps {
		delete(o.owned, tp)
	}
	o.revoked = append(o.revoked, tps...)
	if lost {
		o.lost++
	}
}

// Code is the code of what is waited for now; empty: nothing is.
func (o *Observer) Code() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.waiting == nil {
		return ""
	}
	return o.waiting.Code
}

// Waits returns all faults that Waiting was called with.
func (o *Observer) Waits() []*graphmill.Fault {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.waits)
}

// LastWait returns what Waiting was last called with; nil: it was not.
func (o *Observer) LastWait() *graphmill.Fault {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.waits) == 0 {
		return nil
	}
	return o.waits[len(o.waits)-1]
}

// Told is how often Waiting and Recovered were called.
func (o *Observer) Told() (waits, recovered int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.waits), o.recovered
}

// Absents returns the positions that Absent was called with.
func (o *Observer) Absents() []graphmill.Position {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.absent)
}

// Owned returns the partitions that are owned now, with the positions that they
// were assigned with, sorted.
func (o *Observer) Owned() []graphmill.Position {
	o.mu.Lock()
	defer o.mu.Unlock()
	return Positions(o.owned)
}

// Revocations returns the partitions that have been revoked, each as often as it
// was.
func (o *Observer) Revocations() []graphmill.TopicPartition {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.revoked)
}

// Losses is how often Revoked was called with lost set.
func (o *Observer) Losses() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lost
}
