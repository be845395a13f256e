package pulsar

import (
	"context"
	"errors"
	"fmt"

	"github.com/apache/pulsar-client-go/pulsar"

	"github.com/graphmill/graphmill"
)

// Prepare makes the subscription of a stream in all partitions of its topics, where it
// does not exist, at the place where the stream begins, so that nothing is missed that
// is sent from now on. It returns where each partition begins, for the catalog:
// partitions that come later are then told from those that were there.
//
// Of a partition that others read from with the subscription the position is not known:
// the zero id.
//
// An absent topic is a fault of code topic_absent, beside the positions of the others.
// It tries once; errors are of KindInvalid, the context's or *graphmill.Fault.
func Prepare(ctx context.Context, cfg Config) ([]graphmill.Position, error) {
	s, err := New(cfg, nil)
	if err != nil {
		return nil, err
	}
	there, absent, err := s.cfg.survey(ctx, s.links)
	if err != nil {
		return nil, err
	}
	a, err := s.cfg.ask(ctx, s.links)
	if err != nil {
		return nil, err
	}
	defer a.close()
	begin := make([]graphmill.Position, 0, len(there))
	for _, tp := range there {
		p := s.newPartition(tp)
		id, err := p.establish(ctx, a)
		if err != nil {
			return nil, s.links.fault("subscribe to "+tp.String(), err)
		}
		begin = append(begin, graphmill.Position{TopicPartition: tp, Offset: -1, MessageID: id})
	}
	if f := s.cfg.missing(there, absent); f != nil {
		return begin, f
	}
	return begin, nil
}

// startsEarliest tells whether the subscription begins with the first message if it
// does not exist. Of a partition that was there before, or has come since, nothing may
// be left out: it begins at the beginning again, and repeats rather than loses. The
// lock is held, or nobody else has the source.
func (p *partition) startsEarliest() bool {
	return p.young || p.settled || p.s.cfg.Start.Earliest || p.startsByTime()
}

// startsByTime tells whether the subscription is to be moved to a time if it does not
// exist. The lock is held, or nobody else has the source.
func (p *partition) startsByTime() bool {
	return !p.young && !p.settled && !p.s.cfg.Start.Time.IsZero()
}

// initial is startsEarliest for the client.
func (p *partition) initial() pulsar.SubscriptionInitialPosition {
	if p.startsEarliest() {
		return pulsar.SubscriptionPositionEarliest
	}
	return pulsar.SubscriptionPositionLatest
}

// settle finds out where the subscription of a partition stands of which nothing is
// known here, and makes it where it does not exist. One that is known and has been lost
// is made where it was, which only the admin REST can tell from one that somebody has
// moved.
func (p *partition) settle(ctx context.Context) error {
	s := p.s
	s.mu.Lock()
	at, old := p.at.MessageID, p.settled || p.young
	s.mu.Unlock()
	known := at != graphmill.MessageID{}
	if s.admin != nil && (known || !old) {
		c, err := s.admin.cursor(ctx, p.tp, s.cfg.Subscription)
		switch {
		case err != nil:
			s.cfg.Logger.Debug("a cursor cannot be asked for", "partition", p.tp.String(), "error", err)
		case c != nil:
			if !known {
				p.begin(c.next)
			}
			return nil
		case known:
			s.cfg.Logger.Warn("the subscription does not exist any more; it is made again where it was", "partition", p.tp.String(), "message_id", at.String())
			return p.ask(ctx, func(a *asker) error { return p.restore(ctx, a, at) })
		}
	}
	if known || old {
		return nil
	}
	return p.ask(ctx, func(a *asker) error {
		id, err := p.establish(ctx, a)
		if err == nil {
			p.begin(id)
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

// begin notes where the subscription stands.
func (p *partition) begin(id graphmill.MessageID) {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	p.at.MessageID, p.young = id, true // from here on as if it had always been there
}

// establish makes the subscription where it does not exist, and returns the first
// message that it has not acknowledged. One that is new begins at the beginning before
// it is moved to a time: who dies in between begins too early, never too late. It is
// taken for new where it stands at a beginning. Where others have it, it exists, and
// they are left alone: the zero id is returned.
func (p *partition) establish(ctx context.Context, a *asker) (next graphmill.MessageID, err error) {
	at, err := a.owner(ctx, partitionName(p.tp))
	if err != nil {
		return next, err
	}
	consumer, err := p.attach(ctx, at)
	if p.isTaken(err) {
		return p.at.MessageID, nil
	}
	if err != nil {
		return next, err
	}
	is, err := at.lastMessage(ctx, consumer)
	if err == nil && p.startsByTime() && !is.MarkDelete.isEntry() {
		start := p.s.cfg.Start.Time
		if err = at.seek(ctx, seekCommand{ConsumerID: consumer, Published: uint64(max(1, start.UnixMilli()))}); err != nil {
			err = fmt.Errorf("move the subscription to %v: %w", start, err)
		} else if consumer, err = p.attach(ctx, at); err == nil { // the broker has closed it
			is, err = at.lastMessage(ctx, consumer)
		}
	}
	if err != nil {
		return next, err // the connection is closed by the caller, and the consumer with it
	}
	at.closeConsumer(ctx, consumer)
	return behind(is.MarkDelete.place()), nil
}

// restore makes the subscription at a position.
func (p *partition) restore(ctx context.Context, a *asker, to graphmill.MessageID) error {
	at, err := a.owner(ctx, partitionName(p.tp))
	if err != nil {
		return err
	}
	consumer, err := p.attach(ctx, at)
	if p.isTaken(err) {
		return nil // somebody has made it in the meantime
	}
	if err != nil {
		return err
	}
	if err := at.seek(ctx, seekCommand{ConsumerID: consumer, MessageID: seekID(to)}); err != nil {
		return fmt.Errorf("move the subscription to %s: %w", to, err)
	}
	return nil // the broker has closed the consumer
}

// isTaken tells whether others have the subscription.
func (p *partition) isTaken(err error) bool {
	var told *answer
	if !errors.As(err, &told) {
		return false
	}
	code := p.s.links.answer("", told).Code
	return code == codeBusy || code == codeOtherType
}

// attach makes a consumer that receives nothing, and lets nobody else have the
// subscription for as long as it is there.
func (p *partition) attach(ctx context.Context, at *asker) (consumer uint64, err error) {
	p.s.mu.Lock()
	c := subscribeCommand{
		Topic:        partitionName(p.tp),
		Subscription: p.s.cfg.Subscription,
		Durable:      true,
		// A partition of a topic that there is is made by its first use.
		ForceTopicCreation: p.tp.Partition >= 0,
	}
	if p.startsEarliest() {
		c.InitialPosition = initialEarliest
	}
	p.s.mu.Unlock()
	return at.subscribe(ctx, c)
}
