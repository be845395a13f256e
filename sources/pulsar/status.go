package pulsar

import (
	"context"

	"github.com/graphmill/graphmill"
)

// Partitions implements sources.Source. With an admin URL position and lag are the
// broker's; else the lag is reckoned of ids (see lag). While the brokers do not answer
// it is -1; that is no error.
func (s *Source) Partitions(ctx context.Context) ([]graphmill.PartitionStatus, error) {
	s.mu.Lock()
	var out []graphmill.PartitionStatus
	var by []*consumer
	if !s.closed {
		for _, p := range s.order {
			if !p.owned || p.current == nil {
				continue
			}
			out = append(out, graphmill.PartitionStatus{
				TopicPartition: p.tp,
				Acknowledged:   -1,
				End:            -1,
				Lag:            -1,
				MessageID:      p.position(),
				LagFrom:        graphmill.LagFromClient,
			})
			by = append(by, p.current)
		}
	}
	s.mu.Unlock()

	done := make(chan struct{}, len(out))
	for i, c := range by {
		if !s.spawn(func() { s.status(ctx, &out[i], c); done <- struct{}{} }) {
			return nil, errClosed()
		}
	}
	for range by {
		select {
		case <-done:
		case <-ctx.Done():
			return nil, ctx.Err() // the calls end by the operation timeout
		}
	}
	return out, nil
}

// status asks how far a partition is.
func (s *Source) status(ctx context.Context, p *graphmill.PartitionStatus, c *consumer) {
	last, some, err := c.last()
	if err == nil && some {
		p.LastMessageID = last
	}
	if s.admin != nil {
		if at, err := s.admin.cursor(ctx, p.TopicPartition, s.cfg.Subscription); err == nil && at != nil {
			p.Lag, p.LagFrom = at.backlog, graphmill.LagFromAdmin
			if !p.MessageID.SameEntry(at.next) {
				p.MessageID = at.next
			}
			return
		}
	}
	if err == nil {
		p.Lag = lag(p.MessageID, last, some)
	}
}
