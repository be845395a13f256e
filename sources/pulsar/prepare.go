package pulsar

import (
	"context"

	"github.com/graphmill/graphmill"
)

// Prepare makes the subscription of a stream in all partitions of its topics, where it
// does not exist, at the place where the stream begins, so that nothing is missed that
// is sent from now on. It returns where each partition begins, for the catalog:
// partitions that come later are then told from those that were there.
//
// Of a partition that others read from with the subscription the position is the one
// in cfg.Known, else not known: the zero id.
//
// An absent topic is a fault of code topic_absent, beside the positions of the others.
// It tries once; errors are of KindInvalid, the context's or *graphmill.Fault.
func Prepare(ctx context.Context, cfg Config) ([]graphmill.Position, error) {
	cfg, err := cfg.ofSubscription()
	if err != nil {
		return nil, err
	}
	links := newLinks(&cfg)
	there, absent, err := cfg.survey(ctx, links)
	if err != nil {
		return nil, err
	}
	a, err := cfg.ask(ctx, links)
	if err != nil {
		return nil, err
	}
	defer a.close()
	begin := make([]graphmill.Position, 0, len(there))
	for _, tp := range there {
		at, ofTopic := cfg.known(tp)
		f := cfg.foundation(tp, links, ofTopic)
		if at != nil {
			f.known = *at
		}
		id, err := f.establish(ctx, a)
		if err != nil {
			return nil, links.fault("subscribe to "+tp.String(), err)
		}
		begin = append(begin, graphmill.Position{TopicPartition: tp, Offset: -1, MessageID: id})
	}
	if f := cfg.missing(there, absent); f != nil {
		return begin, f
	}
	return begin, nil
}

// settle finds out where the subscription of a partition stands of which nothing is
// known here, and makes it where it does not exist. One that is known and has been lost
// is made where it was, which only the admin REST can tell from one that somebody has
// moved.
func (p *partition) settle(ctx context.Context) error {
	s := p.s
	s.mu.Lock()
	at, old := p.at.MessageID, p.settled || p.young
	f := p.foundation()
	s.mu.Unlock()
	known := at != graphmill.MessageID{}
	if s.admin != nil && (known || !old) {
		c, err := s.admin.cursor(ctx, p.tp, s.cfg.Subscription)
		switch {
		case err != nil:
			s.cfg.Logger.Debug("a cursor cannot be asked for", "partition", p.tp.String(), "error", err)
		case c != nil:
			if !known {
				p.standsAt(c.next)
			}
			return nil
		case known:
			s.cfg.Logger.Warn("the subscription does not exist any more; it is made again where it was", "partition", p.tp.String(), "message_id", at.String())
			return p.ask(ctx, func(a *asker) error { return f.restore(ctx, a, at) })
		}
	}
	if known || old {
		return nil
	}
	return p.ask(ctx, func(a *asker) error {
		id, err := f.establish(ctx, a)
		if err == nil {
			p.standsAt(id)
		}
		return err
	})
}

func (p *partition) ask(ctx context.Context, do func(*asker) error) error {
	a, err := p.s.cfg.ask(ctx, p.s.links)
	if err != nil {
		return err
	}
	defer a.close()
	return do(a)
}

// standsAt notes where the subscription stands.
func (p *partition) standsAt(id graphmill.MessageID) {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	p.at.MessageID, p.young = id, true // from here on as if it had always been there
}
