package graph

import (
	"context"
	"slices"
	"sync"
)

// spareSlots are beside those of the lanes: for questions whether the database is
// there, and for checks.
const spareSlots = 8

// slots are the connections that may be in use at once. Those who wait are served
// in the order in which they came. Safe for concurrent use.
type slots struct {
	mu      sync.Mutex
	most    int // never more than this
	limit   int // of now
	used    int
	waiting []chan struct{} // each is closed when it has its slot
	closed  bool            // none is given any more
	empty   chan struct{}   // not nil: closed when none is used any more
}

func newSlots(most int) *slots { return &slots{most: most, limit: min(most, spareSlots)} }

// resize makes room for lanes, and returns how many slots there are then. Slots
// in use are not taken away.
func (s *slots) resize(lanes int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limit = min(s.most, max(lanes, 0)+spareSlots)
	s.serve()
	return s.limit
}

// take asks for a slot: the caller has it once the channel is closed. It calls
// release in the end, or leave where it has waited long enough.
func (s *slots) take() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	turn := make(chan struct{})
	s.waiting = append(s.waiting, turn)
	s.serve()
	return turn
}

// release gives a slot back.
func (s *slots) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free()
}

// leave waits no more, or gives back the slot that came meanwhile.
func (s *slots) leave(turn <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.waiting, func(w chan struct{}) bool { return w == turn })
	if i < 0 {
		s.free()
		return
	}
	s.waiting = slices.Delete(s.waiting, i, i+1)
}

// state returns how many slots are used, and how many there are.
func (s *slots) state() (used, limit int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used, s.limit
}

// drain gives no more slots, and waits until none is used. It reports whether
// that came to pass before the end of ctx.
func (s *slots) drain(ctx context.Context) bool {
	s.mu.Lock()
	s.closed = true
	if s.used == 0 {
		s.mu.Unlock()
		return true
	}
	if s.empty == nil {
		s.empty = make(chan struct{})
	}
	empty := s.empty
	s.mu.Unlock()
	select {
	case <-empty:
		return true
	case <-ctx.Done():
		return false
	}
}

// free takes one off the slots in use. s.mu is held.
func (s *slots) free() {
	s.used--
	s.serve()
	if s.used == 0 && s.empty != nil {
		close(s.empty)
		s.empty = nil
	}
}

// serve gives free slots to those who wait. s.mu is held.
func (s *slots) serve() {
	for !s.closed && s.used < s.limit && len(s.waiting) > 0 {
		close(s.waiting[0])
		s.waiting = s.waiting[1:]
		s.used++
	}
}
