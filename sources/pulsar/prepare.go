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
	topics, err := s.topics(ctx)
	if err != nil {
		return nil, s.links.fault("list the topics of "+s.cfg.Pattern, err)
	}
	var tps []graphmill.TopicPartition
	var absent error
	for _, topic := range topics {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		names, err := s.cl.TopicPartitions(topic)
		if err != nil {
			f := s.links.fault("look for topic "+topic, err)
			if f.Code != codeTopicAbsent {
				return nil, f
			}
			absent = f
			continue
		}
		tps = append(tps, partitionsOf(topic, names)...)
	}
	sortPartitions(tps)
	begin := make([]graphmill.Position, len(tps))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(looksAtOnce)
	for i, tp := range tps {
		g.Go(func() error {
			p := s.newPartition(tp)
			begin[i] = p.at
			return p.prepare(ctx)
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return begin, absent
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
	}
	p.s.cfg.Client.consumer(&o)
	return o
}

// settle moves the subscription of a partition that is new to the stream to the time
// where it begins. By a consumer of its own: the client drops what it receives while
// it seeks.
//
// The subscription begins at the beginning before it is moved: who dies in between
// begins too early, never too late.
func (p *partition) settle(ctx context.Context) error {
	s := p.s
	s.mu.Lock()
	done := p.settled || p.young || s.cfg.Start.Time.IsZero()
	s.mu.Unlock()
	if done || ctx.Err() != nil {
		return ctx.Err()
	}
	c, err := s.cl.Subscribe(p.briefly(pulsar.SubscriptionPositionEarliest))
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SeekByTime(s.cfg.Start.Time); err != nil {
		return fmt.Errorf("move the subscription to %v: %w", s.cfg.Start.Time, err)
	}
	s.mu.Lock()
	p.young = true // from here on as if it had always been there
	s.mu.Unlock()
	return nil
}
