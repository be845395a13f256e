package pulsar

import (
	"context"

	"github.com/apache/pulsar-client-go/pulsar"

	"github.com/graphmill/graphmill"
)

// A message comes out of the client into one channel for all consumers, is sorted to
// its partition by whoever calls Fetch, and is handed out once its entry is whole.

// Fetch implements sources.Source.
func (s *Source) Fetch(ctx context.Context, max int) ([]graphmill.Fetch, error) {
	if max < 1 {
		max = 1
	}
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if out, err := s.handOut(max); len(out) > 0 || err != nil {
			return out, err
		}
		select {
		case m := <-s.incoming:
			s.collect(m, max)
		case <-s.ready:
		case <-s.failed:
		case <-s.life.Done():
		case <-ctx.Done():
		}
	}
}

// collect looks at what has come out of the client, about max messages at a time.
// Nothing is left on the way when it returns: it is with its partition, or dropped.
func (s *Source) collect(first pulsar.ConsumerMessage, max int) {
	batch := append(s.scratch[:0], first)
drain:
	for len(batch) < max {
		select {
		case m := <-s.incoming:
			batch = append(batch, m)
		default:
			break drain
		}
	}
	s.mu.Lock()
	s.sort(batch)
	s.mu.Unlock()
	clear(batch)
	s.scratch = batch[:0]
}

// sort gives messages to their partitions. What an earlier consumer of a partition
// had received is dropped: it comes again. The lock is held.
func (s *Source) sort(batch []pulsar.ConsumerMessage) {
	var c *consumer
	var touched []*partition
	for i := range batch {
		m := &batch[i]
		if c == nil || c.cl != m.Consumer {
			c = s.consumers[m.Consumer]
		}
		if p := s.blocked(c, m); p != nil {
			if p.inTurn(idOf(m.ID())) && p.broken == nil {
				p.broken = obstacle(p.tp, m)
			}
			p.current.arrive(m.ID())
			p.kick()
			continue
		}
		if c == nil || c.p.current != c {
			continue
		}
		rest, gap, ok := c.admit(m.ID(), len(m.Payload()))
		if !ok || !c.p.inTurn(idOf(m.ID())) || c.p.broken != nil {
			continue
		}
		if len(c.p.fresh) == 0 {
			touched = append(touched, c.p)
		}
		c.p.add(incoming{tp: c.p.tp, msg: m.Message, rest: rest}, gap)
	}
	for _, p := range touched {
		p.convert()
	}
}

// blocked returns the partition that ends with a message that cannot be read; nil
// where it can be, or is of an earlier consumer. The client has not shown it to the
// interceptor, so the consumer may not be introduced yet. The lock is held.
func (s *Source) blocked(c *consumer, m pulsar.Message) *partition {
	if m.GetEncryptionContext() == nil {
		return nil
	}
	if c != nil {
		if c.p.current != c {
			return nil
		}
		return c.p
	}
	for _, p := range s.partitions {
		if partitionName(p.tp) == m.Topic() && p.current != nil && p.current.cl == nil {
			return p
		}
	}
	return nil
}

// handOut takes what is whole from the partitions in turn.
func (s *Source) handOut(max int) ([]graphmill.Fetch, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.fault != nil:
		return nil, s.fault
	case s.closed:
		return nil, errClosed()
	case !s.begun:
		return nil, ends(codeClosed, "the source has not been opened", "", nil)
	}
	var out []graphmill.Fetch
	room := max
	for i := range s.order {
		p := s.order[(s.turn+i)%len(s.order)]
		if !p.owned || room <= 0 {
			continue
		}
		f, ok := p.handOut(room, len(out) == 0)
		if ok {
			out = append(out, f)
			room -= len(f.Messages)
		} else if p.broken != nil && len(out) == 0 && len(p.entries) == 0 && !p.turn.waits() {
			s.failLocked(p.broken)
			return nil, p.broken
		}
	}
	if len(out) > 0 {
		s.turn++
	}
	return out, nil
}

// more makes Fetch look again.
func (s *Source) more() {
	select {
	case s.ready <- struct{}{}:
	default:
	}
}
