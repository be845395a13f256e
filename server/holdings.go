package server

import (
	"fmt"
	"strings"
	"sync"

	"github.com/graphmill/graphmill"
)

// holdings are the partitions that a run holds, and how far it has come in
// them. Safe for concurrent use.
type holdings struct {
	mu    sync.Mutex
	owned map[graphmill.TopicPartition]bool
	acked map[graphmill.TopicPartition]graphmill.Position // of partitions given up, too
	went  map[graphmill.TopicPartition]bool               // that something was acknowledged in
}

func newHoldings() holdings {
	return holdings{
		owned: map[graphmill.TopicPartition]bool{},
		acked: map[graphmill.TopicPartition]graphmill.Position{},
		went:  map[graphmill.TopicPartition]bool{},
	}
}

func (h *holdings) assigned(positions []graphmill.Position) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range positions {
		h.owned[p.TopicPartition] = true
		h.acked[p.TopicPartition] = p
	}
}

func (h *holdings) revoked(partitions []graphmill.TopicPartition) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, tp := range partitions {
		delete(h.owned, tp)
	}
}

func (h *holdings) acknowledged(positions []graphmill.Position) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range positions {
		h.acked[p.TopicPartition] = p
		h.went[p.TopicPartition] = true
	}
}

// none says that no partition is held: others of the group have them all.
func (h *holdings) none() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.owned) == 0
}

// known returns the last position of every partition that was ever held.
func (h *holdings) known() []graphmill.Position {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.list(func(graphmill.TopicPartition) bool { return true })
}

// moved returns the positions of the partitions in which it has acknowledged
// something.
func (h *holdings) moved() []graphmill.Position {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.list(func(tp graphmill.TopicPartition) bool { return h.went[tp] })
}

// current returns the positions of the partitions that are held.
func (h *holdings) current() []graphmill.Position {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.list(func(tp graphmill.TopicPartition) bool { return h.owned[tp] })
}

// list returns the wanted positions, sorted. The lock is held.
func (h *holdings) list(wanted func(graphmill.TopicPartition) bool) []graphmill.Position {
	positions := make([]graphmill.Position, 0, len(h.acked))
	for tp, p := range h.acked {
		if wanted(tp) {
			positions = append(positions, p)
		}
	}
	graphmill.SortPositions(positions)
	return positions
}

// positionsText lists positions as topic/partition@position.
func positionsText(positions []graphmill.Position) string {
	return firstOf(positions, " ", graphmill.Position.String)
}

// partitionsText lists partitions as topic/partition.
func partitionsText(partitions []graphmill.TopicPartition) string {
	return firstOf(partitions, " ", graphmill.TopicPartition.String)
}

// firstOf writes out the first of many things, for logs and reasons.
func firstOf[T any](things []T, separator string, text func(T) string) string {
	const most = 20
	parts := make([]string, 0, min(len(things), most)+1)
	for _, t := range things[:min(len(things), most)] {
		parts = append(parts, text(t))
	}
	if len(things) > most {
		parts = append(parts, fmt.Sprintf("and %d more", len(things)-most))
	}
	return strings.Join(parts, separator)
}
