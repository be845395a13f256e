package server

import (
	"context"
	"time"

	"github.com/graphmill/graphmill"
)

// statusPatience is how long a status waits for the broker's end offsets.
const statusPatience = 3 * time.Second

// StreamStatus answers why nothing is happening, or how far a stream is. Where
// the broker does not answer in time, end and lag are -1.
func (s *Server) StreamStatus(ctx context.Context, name string) (graphmill.StreamStatus, error) {
	if info, ok := s.brokenStream(name); ok {
		return graphmill.StreamStatus{Name: name, Desired: info.Desired, State: info.State, Reason: info.Reason}, nil
	}
	st, err := s.stream(name)
	if err != nil {
		return graphmill.StreamStatus{}, err
	}
	status := graphmill.StreamStatus{Name: name}
	// The partitions first: asking takes time, and what is acknowledged shall
	// have been counted, and the state be the one of now.
	r := st.current()
	if status.Partitions, err = s.partitions(ctx, st, r); err != nil {
		return status, err
	}
	st.describe(&status)
	status.Partitions = st.news.rated(status.Partitions)
	status.Standby = status.State == graphmill.StateRunning && r != nil && r.held.none()
	if status.Texts = s.cfg.Sink.Texts(name); status.Texts == nil {
		status.Texts = []graphmill.TextStatus{}
	}
	return status, nil
}

// describe adds what this process knows of the stream.
func (st *stream) describe(status *graphmill.StreamStatus) {
	st.mu.Lock()
	observed := st.last
	if st.run != nil {
		observed = st.run.observed
	}
	status.Desired = st.rec.Desired
	status.State, status.Reason = st.stateLocked()
	st.mu.Unlock()
	status.Rates = st.news.currentRates()
	if observed == nil {
		status.Counters.BatchesClosed = map[string]int64{}
		return
	}
	observed.describe(status)
}

// partitions asks the source of the run under way, or the broker where there is
// none, and falls back on what has been acknowledged.
func (s *Server) partitions(ctx context.Context, st *stream, r *run) ([]graphmill.PartitionStatus, error) {
	ask := st.partitionsAtRest
	if r != nil {
		ask = func() ([]graphmill.PartitionStatus, bool) { return r.partitions(ctx) }
	}
	if ps, ok := ask(); ok {
		return ps, nil
	}
	positions, err := s.catalog.Positions(ctx, st.name())
	if err != nil {
		return nil, err
	}
	partitions := unknownEnds(positions)
	for i := range partitions {
		partitions[i].Lane = -1 // nothing reads it here
	}
	return partitions, nil
}

// partitions is not ok while the run has not been told what it holds.
func (r *run) partitions(ctx context.Context) (ps []graphmill.PartitionStatus, ok bool) {
	if r.held.none() && !r.observed.isOpened() {
		return nil, false
	}
	r.mu.Lock()
	source := r.source
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, statusPatience)
	defer cancel()
	if ps, err := source.Partitions(ctx); err == nil {
		return ps, true
	}
	return unknownEnds(r.held.current()), true
}

// unknownEnds are positions of which nobody can tell the lag now.
func unknownEnds(positions []graphmill.Position) []graphmill.PartitionStatus {
	ps := make([]graphmill.PartitionStatus, len(positions))
	for i, p := range positions {
		ps[i] = graphmill.PartitionStatus{TopicPartition: p.TopicPartition, TopicID: p.TopicID, Acknowledged: p.Offset, MessageID: p.MessageID, End: -1, Lag: -1}
	}
	return ps
}
