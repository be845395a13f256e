package pulsar

import (
	"context"
	"fmt"

	"github.com/apache/pulsar-client-go/pulsar"
	"golang.org/x/sync/errgroup"

	"github.com/graphmill/graphmill"
)

// initial is where the subscription of a partition begins if it does not exist. Of
// one that was there before nothing may be left out: it begins at the beginning
// again, and repeats rather than loses. The lock is held.
func (p *partition) initial() pulsar.SubscriptionInitialPosition {
	start := p.s.cfg.Start
	if p.young || p.settled || start.Earliest || !start.Time.IsZero() {
		return pulsar.SubscriptionPositionEarliest
	}
	return pulsar.SubscriptionPositionLatest
}

// Prepare makes the subscription of a stream in all partitions of its topics, where it
// does not exist, at the place where the stream begins, so that nothing is missed that
// is sent from now on. It returns where each partition begins, as far as that is known
// (the zero id: all that the subscription holds), for the catalog: partitions that
// come later are then told from those that were there.
//
// Where others read with the subscription, the broker may give them other partitions
// while Prepare looks: it subscribes for a moment.
//
// An absent topic is a fault of code topic_absent; the others have their subscription
// then. It tries once; errors are of KindInvalid, the context's or *graphmill.Fault.
func Prepare(ctx context.Context, cfg Config) ([]graphmill.Position, error) {
	s, err := New(cfg, nil)
	if err != nil {
		return nil, err
	}
	if s.cl, err = s.cfg.connect(s.links); err != nil {
		return nil, err
	}
	defer s.cl.Close()
	there, absent, err := s.cfg.survey(ctx, s.links)
	if err != nil {
		return nil, err
	}
	begin := make([]graphmill.Position, len(there))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(lookersAtOnce)
	for i, tp := range there {
		g.Go(func() error {
			p := s.newPartition(tp)
			begin[i] = p.at
			return p.prepare(ctx)
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	if f := s.cfg.missing(there, absent); f != nil {
		return begin, f
	}
	return begin, nil
}

// prepare makes the subscription of a partition.
func (p *partition) prepare(ctx context.Context) error {
	err := p.settle(ctx)
	if err == nil {
		var c pulsar.Consumer
		if c, err = p.s.cl.Subscribe(p.briefly(p.initial())); err == nil {
			c.Close()
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err == nil {
		return nil
	}
	f := p.s.links.fault("subscribe to "+p.tp.String(), err)
	if f.Code == codeBusy {
		return nil // so it exists
	}
	return f
}

// briefly are the options of a consumer that makes a subscription, or moves it.
func (p *partition) briefly(initial pulsar.SubscriptionInitialPosition) pulsar.ConsumerOptions {
	o := pulsar.ConsumerOptions{
		Topic:                       partitionName(p.tp),
		SubscriptionName:            p.s.cfg.Subscription,
		SubscriptionInitialPosition: initial,
		Type:                        p.s.kind(),
		Name:                        p.s.name,
		ReceiverQueueSize:           1,
		AutoDiscoveryPeriod:         noDiscovery,
		MaxReconnectToBroker:        never(),
	}
	p.s.cfg.Client.consumer(&o)
	return o
}

// settle moves the subscription of a partition where it has to begin elsewhere than at
// one of the ends: at the time where the stream begins, or, where it has been lost,
// where it was. Whether it exists can be asked for by an admin URL alone. Without one a
// partition of which nothing is known is taken for new, and any other for not lost.
//
// It is moved by a consumer of its own, since the client drops what it receives while
// it seeks. It begins at the beginning before it is moved: who dies in between begins
// too early, never too late.
func (p *partition) settle(ctx context.Context) error {
	s := p.s
	s.mu.Lock()
	at := p.at.MessageID
	byTime := !p.settled && !p.young && !s.cfg.Start.Time.IsZero()
	s.mu.Unlock()
	known := at != graphmill.MessageID{}
	if ctx.Err() != nil || !byTime && (!known || s.admin == nil) {
		return ctx.Err()
	}
	if s.admin != nil {
		exists, err := s.admin.cursor(ctx, p.tp, s.cfg.Subscription)
		switch {
		case err != nil && byTime:
			return err
		case err != nil:
			s.cfg.Logger.Debug("whether a subscription exists cannot be asked for", "partition", p.tp.String(), "error", err)
			return nil
		case exists != nil:
			return nil
		}
	}
	c, err := s.cl.Subscribe(p.briefly(pulsar.SubscriptionPositionEarliest))
	if err != nil {
		return err
	}
	defer c.Close()
	if known {
		s.cfg.Logger.Warn("the subscription does not exist any more; it is made again where it was", "partition", p.tp.String(), "message_id", at.String())
		if err := c.Seek(seekID(at)); err != nil {
			return fmt.Errorf("move the subscription to %s: %w", at, err)
		}
		return nil
	}
	if err := c.SeekByTime(s.cfg.Start.Time); err != nil {
		return fmt.Errorf("move the subscription to %v: %w", s.cfg.Start.Time, err)
	}
	s.mu.Lock()
	p.young = true // from here on as if it had always been there
	s.mu.Unlock()
	return nil
}
