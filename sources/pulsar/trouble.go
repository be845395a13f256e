package pulsar

import (
	"maps"
	"slices"

	"github.com/graphmill/graphmill"
)

// troubledBy notes what stands in the way of something. What nobody but the user can
// mend ends the source.
func (s *Source) troubledBy(what string, f *graphmill.Fault) {
	if f.Class == graphmill.FaultSetup {
		s.fail(f)
		return
	}
	s.mu.Lock()
	s.troubles[what] = f
	s.mu.Unlock()
	s.cfg.Logger.Debug("trouble with the broker", "at", what, "error", f)
	s.stir()
}

// recoveredFrom notes that nothing stands in the way of it any more.
func (s *Source) recoveredFrom(what string) {
	s.mu.Lock()
	delete(s.troubles, what)
	s.mu.Unlock()
	s.stir()
}

func (s *Source) stir() {
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// report tells the Observer of troubles until the source is closed.
func (s *Source) report() {
	var told *graphmill.Fault
	for {
		select {
		case <-s.news:
		case <-s.life.Done():
			return
		}
		f := s.worst()
		switch {
		case f == nil && told != nil && !s.subscribedToAll():
			// A partition that has lost its connection, and is trying for another one, has
			// not met what stands in its way.
			continue
		case f == nil && told != nil:
			s.tell(s.obs.Recovered)
		case f != nil && (told == nil || told.Code != f.Code || told.Text != f.Text):
			s.tell(func() { s.obs.Waiting(f) })
		}
		told = f
	}
}

// subscribedToAll tells whether each partition has a consumer.
func (s *Source) subscribedToAll() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.partitions {
		if !p.attached {
			return false
		}
	}
	return true
}

// worst is the trouble to tell: a broker that is away before all that may come of
// it, a topic that is absent last.
func (s *Source) worst() *graphmill.Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	var worst *graphmill.Fault
	weight := func(f *graphmill.Fault) int {
		switch f.Code {
		case codeUnreachable:
			return 2
		case codeTopicAbsent:
			return 0
		}
		return 1
	}
	for _, what := range slices.Sorted(maps.Keys(s.troubles)) {
		if f := s.troubles[what]; worst == nil || weight(f) > weight(worst) {
			worst = f
		}
	}
	return worst
}
