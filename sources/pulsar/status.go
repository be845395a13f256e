package pulsar

import (
	"context"

	"github.com/graphmill/graphmill"
)

// Partitions implements sources.Source. The client counts no messages: the lag is 0
// where all is acknowledged, else not known, unless ids alone tell it (see lag).
// While the brokers do not answer it is -1; that is no error.
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

	type answer struct {
		i    int
		last graphmill.MessageID
		some bool
		err  error
	}
	answers := make(chan answer, len(out))
	for i, c := range by {
		if !s.spawn(func() {
			last, some, err := c.last()
			answers <- answer{i, last, some, err}
		}) {
			return nil, nil
		}
	}
	for range by {
		select {
		case a := <-answers:
			if a.err != nil {
				continue
			}
			p := &out[a.i]
			if a.some {
				p.LastMessageID = a.last
			}
			p.Lag = lag(p.MessageID, a.last, a.some)
		case <-ctx.Done():
			return nil, ctx.Err() // the calls end by the operation timeout
		}
	}
	return out, nil
}
