package server

import (
	"context"
	"maps"
	"time"

	"github.com/graphmill/graphmill"
)

// statusPatience is how long a status waits for the broker's end offsets.
const statusPatience = 3 * time.Second

// StreamStatus answers why nothing is happening, or how far a stream is. Where
// the broker does not answer in time, end and lag are -1.
func (s *Server) StreamStatus(ctx context.Context, name string) (graphmill.StreamStatus, error) {
	st, err := s.stream(name)
	if err != nil {
		return graphmill.StreamStatus{}, err
	}
	st.mu.Lock()
	rec, live, last := st.rec, st.run, st.last
	status := graphmill.StreamStatus{Name: rec.Spec.Name, Desired: rec.Desired}
	status.State, status.Reason = st.stateLocked()
	st.mu.Unlock()

	status.Texts = s.cfg.Sink.Texts(name)
	if status.Texts == nil {
		status.Texts = []graphmill.TextStatus{}
	}
	if live != nil {
		// Before the rest, so that what is acknowledged has been counted.
		status.Partitions = live.partitions(ctx)
		status.Standby = status.State == graphmill.StateRunning && len(live.ownedPartitions()) == 0
		live.describe(&status)
		return status, nil
	}
	status.Counters.BatchesClosed = map[string]int64{}
	if last != nil {
		last.describe(&status)
	}
	positions, err := s.catalog.Positions(ctx, name)
	if err != nil {
		return status, err
	}
	status.Partitions = unknownEnds(positions)
	return status, nil
}

// describe adds what a run knows of itself.
func (r *run) describe(status *graphmill.StreamStatus) {
	r.mu.Lock()
	defer r.mu.Unlock()
	status.Module = r.module
	status.LastFailure = r.lastFailure
	status.Counters = r.counters
	status.Counters.BatchesClosed = maps.Clone(r.counters.BatchesClosed)
	if r.batch != nil {
		batch := *r.batch
		status.CurrentBatch = &batch
	}
}

// partitions asks the source, and falls back on what was acknowledged.
func (r *run) partitions(ctx context.Context) []graphmill.PartitionStatus {
	r.mu.Lock()
	source := r.source
	positions := make([]graphmill.Position, 0, len(r.acked))
	for tp, p := range r.acked {
		if r.owned[tp] {
			positions = append(positions, p)
		}
	}
	r.mu.Unlock()
	if source != nil {
		ctx, cancel := context.WithTimeout(ctx, statusPatience)
		defer cancel()
		if ps, err := source.Partitions(ctx); err == nil {
			return ps
		}
	}
	graphmill.SortPositions(positions)
	return unknownEnds(positions)
}

// unknownEnds are positions of which nobody can tell the lag now.
func unknownEnds(positions []graphmill.Position) []graphmill.PartitionStatus {
	ps := make([]graphmill.PartitionStatus, len(positions))
	for i, p := range positions {
		ps[i] = graphmill.PartitionStatus{TopicPartition: p.TopicPartition, TopicID: p.TopicID, Acknowledged: p.Offset, End: -1, Lag: -1}
	}
	return ps
}
