package server

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/graphmill/graphmill"
)

const (
	// DefaultLagInterval is how often the brokers are asked for the ends of
	// partitions.
	DefaultLagInterval = 10 * time.Second

	// endsValid is how many intervals what they said counts.
	endsValid = 3

	// endsAtOnce is how many streams ask at once.
	endsAtOnce = 16
)

// ends is what the broker last said about the partitions of a run: where they
// end, and how far behind the stream was at that moment. Safe for concurrent use.
type ends struct {
	valid time.Duration

	mu   sync.Mutex
	at   time.Time
	seen map[graphmill.TopicPartition]graphmill.PartitionStatus
}

// fresh returns what is known, or nothing where that is too old to be told. The
// map is never changed.
func (e *ends) fresh() map[graphmill.TopicPartition]graphmill.PartitionStatus {
	e.mu.Lock()
	defer e.mu.Unlock()
	if time.Since(e.at) > e.valid {
		return nil
	}
	return e.seen
}

// note keeps an answer. Partitions of which the broker did not tell are left
// out.
func (e *ends) note(partitions []graphmill.PartitionStatus) {
	seen := make(map[graphmill.TopicPartition]graphmill.PartitionStatus, len(partitions))
	for _, p := range partitions {
		if p.End >= 0 || p.Lag >= 0 {
			seen[p.TopicPartition] = p
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.at, e.seen = time.Now(), seen
}

// watchEnds asks the brokers of all streams every interval, and of a stream that
// has just been opened, until the server ends. Scrapes read what they said: a
// scrape that asked would hang with a broker that does not answer, and cost a
// round trip a stream.
func (s *Server) watchEnds() {
	tick := time.NewTicker(s.cfg.LagInterval)
	defer tick.Stop()
	for {
		select {
		case <-s.life.Done():
			return
		case <-s.opened:
			s.lookAtEnds(func(r *run) bool { return !r.ends.known() })
		case <-tick.C:
			s.lookAtEnds(func(*run) bool { return true })
		}
	}
}

// kickEnds makes the ends of a run known that has just been opened.
func (s *Server) kickEnds() {
	select {
	case s.opened <- struct{}{}:
	default: // a round is due already
	}
}

// lookAtEnds asks for the runs that are due, several at once.
func (s *Server) lookAtEnds(due func(*run) bool) {
	var g errgroup.Group
	g.SetLimit(endsAtOnce)
	s.each(func(st *stream) {
		if r := st.current(); r != nil && r.observed.isOpened() && due(r) {
			g.Go(func() error { r.lookAtEnds(s.life); return nil })
		}
	})
	_ = g.Wait() // none of them fails
}

// lookAtEnds asks the broker once, for as long as a status would wait.
func (r *run) lookAtEnds(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, statusPatience)
	defer cancel()
	if partitions, ok := r.partitions(ctx); ok {
		r.ends.note(partitions)
	}
}

// known says whether the broker has been asked.
func (e *ends) known() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return !e.at.IsZero()
}
