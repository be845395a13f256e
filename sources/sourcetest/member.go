package sourcetest

import (
	"context"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/sources"
	"github.com/graphmill/graphmill/sources/patience"
)

// Member is a source with a loop around it that reads and acknowledges as a
// stream does: what a revocation takes away is forgotten before it returns.
type Member struct {
	Source   sources.Source
	Observer *Observer

	mu     sync.Mutex
	counts map[string]int // how often each message was acknowledged here, by payload
	hold   map[graphmill.TopicPartition][]graphmill.Fetch

	stop    context.CancelFunc // ends Fetch
	abandon context.CancelFunc // ends Acknowledge too
	done    chan struct{}
}

// Join opens a source, which source makes with an observer, and begins to read.
// It ends with the test.
func Join(t *testing.T, source func(*Observer) sources.Source) *Member {
	t.Helper()
	m := &Member{
		Observer: &Observer{},
		counts:   map[string]int{},
		hold:     map[graphmill.TopicPartition][]graphmill.Fetch{},
		done:     make(chan struct{}),
	}
	m.Observer.WhenRevoked = func(_ context.Context, tps []graphmill.TopicPartition, _ bool) {
		m.mu.Lock()
		defer m.mu.Unlock()
		for _, tp := range tps {
			delete(m.hold, tp)
		}
	}
	m.Source = source(m.Observer)
	opening, opened := context.WithTimeout(t.Context(), Patience)
	defer opened()
	require.NoError(t, m.Source.Open(opening))
	working, abandon := context.WithCancel(t.Context())
	fetching, stop := context.WithCancel(working)
	m.stop, m.abandon = stop, abandon
	t.Cleanup(m.Stop)
	t.Cleanup(abandon)
	go m.run(working, fetching, t)
	return m
}

// Stop ends the loop, after what has been done is acknowledged. The source stays
// open.
func (m *Member) Stop() {
	m.stop()
	<-m.done
}

// Crash ends the loop at any point of it, and the source as crash does.
func (m *Member) Crash(crash func(sources.Source)) {
	m.abandon()
	crash(m.Source)
	<-m.done
}

func (m *Member) run(working, fetching context.Context, t *testing.T) {
	defer close(m.done)
	for {
		fetches, err := m.Source.Fetch(fetching, 10)
		if err != nil {
			if fetching.Err() == nil {
				t.Error("fetch:", err)
			}
			return
		}
		m.keep(fetches)
		// One batch a fetch; held back for a moment, so that a revocation can come
		// between.
		if patience.Pause(fetching, time.Millisecond) != nil {
			return
		}
		if err := m.Source.Acknowledge(working, m.release()); err != nil {
			if working.Err() == nil {
				t.Error("acknowledge:", err)
			}
			return
		}
	}
}

func (m *Member) keep(fetches []graphmill.Fetch) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range fetches {
		m.hold[f.Next.TopicPartition] = append(m.hold[f.Next.TopicPartition], f)
	}
}

// release counts what is held as done, and returns its positions.
func (m *Member) release() []graphmill.Position {
	m.mu.Lock()
	defer m.mu.Unlock()
	var at []graphmill.Position
	for tp, fetches := range m.hold {
		for _, f := range fetches {
			for i := range f.Messages {
				m.counts[string(f.Messages[i].Payload)]++
			}
		}
		at = append(at, fetches[len(fetches)-1].Next)
		delete(m.hold, tp)
	}
	return at
}

// Seen tells how often each message was done here, by payload.
func (m *Member) Seen() map[string]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.counts)
}
