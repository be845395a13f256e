package kafka

import (
	"context"

	"github.com/graphmill/graphmill"
)

// notice tells what cannot be noticed of a topic without an id.
func notice(topicID string) string {
	if topicID != "" {
		return ""
	}
	return "the broker gives topics no ids (Kafka before 2.8, older Redpanda): that a topic was deleted and created anew is noticed only where the new one does not reach the position"
}

// Partitions implements sources.Source. The end is the last stable offset, what
// a reader of committed messages can reach: behind a transaction that is open
// there is nothing to wait for, so lag is 0 there. While the brokers do not
// answer, end and lag are -1; that is no error.
func (s *Source) Partitions(ctx context.Context) ([]graphmill.PartitionStatus, error) {
	s.mu.Lock()
	out := make([]graphmill.PartitionStatus, 0, len(s.owned))
	var tps []graphmill.TopicPartition
	for tp := range s.owned {
		tps = append(tps, tp)
	}
	sortPartitions(tps)
	for _, tp := range tps {
		own := s.owned[tp]
		out = append(out, graphmill.PartitionStatus{
			TopicPartition: tp,
			TopicID:        own.note.topicID,
			Acknowledged:   own.acknowledged,
			End:            -1,
			Lag:            -1,
			Notice:         notice(own.note.topicID),
		})
	}
	closed := s.closed
	s.mu.Unlock()
	if len(out) == 0 || closed {
		return out, nil
	}
	asked, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	ends := listOffsets(asked, s.cl, tps, lastOffset, readCommitted)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for i := range out {
		p := &out[i]
		if end, err := ends.at(p.TopicPartition); err == nil {
			p.End = end
			p.Lag = max(0, p.End-p.Acknowledged)
		}
	}
	return out, nil
}
