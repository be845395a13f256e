package pulsar

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"

	"github.com/graphmill/graphmill"
)

// foundation says how the subscription of one partition is made where it does not
// exist.
type foundation struct {
	links        *links
	tp           graphmill.TopicPartition
	subscription string
	earliest     bool                // it begins with the first message, else behind the last
	time         time.Time           // to which it is moved then; zero: it is not
	known        graphmill.MessageID // of the catalog; the zero value: nothing
}

// foundation returns how the subscription is made in a partition. Of a partition that
// was there before, or has come since (old), nothing may be left out: it begins at the
// beginning again, and repeats rather than loses.
func (c *Config) foundation(tp graphmill.TopicPartition, links *links, old bool) *foundation {
	f := &foundation{links: links, tp: tp, subscription: c.Subscription}
	if !old {
		f.time = c.Start.Time
	}
	f.earliest = old || c.Start.Earliest || !f.time.IsZero()
	return f
}

// foundation returns how the subscription is made in the partition as it is now. The
// lock is held.
func (p *partition) foundation() *foundation {
	f := p.s.cfg.foundation(p.tp, p.s.links, p.young || p.settled)
	f.known = p.at.MessageID
	return f
}

// initial is where the subscription begins, for the client.
func (f *foundation) initial() pulsar.SubscriptionInitialPosition {
	if f.earliest {
		return pulsar.SubscriptionPositionEarliest
	}
	return pulsar.SubscriptionPositionLatest
}

// establish makes the subscription where it does not exist, and returns the first
// message that it has not acknowledged. One that is new begins at the beginning before
// it is moved to a time: who dies in between begins too early, never too late. It is
// taken for new where it stands at a beginning. Where others have it, it exists, and
// they are left alone: what is known is returned.
func (f *foundation) establish(ctx context.Context, a *asker) (next graphmill.MessageID, err error) {
	at, err := a.owner(ctx, partitionName(f.tp))
	if err != nil {
		return next, err
	}
	consumer, err := f.attach(ctx, at)
	if f.isTaken(err) {
		return f.known, nil
	}
	if err != nil {
		return next, err
	}
	is, err := at.lastMessage(ctx, consumer)
	if err == nil && !f.time.IsZero() && !is.MarkDelete.isEntry() {
		start := f.time
		if err = at.seek(ctx, seekCommand{ConsumerID: consumer, Published: uint64(max(1, start.UnixMilli()))}); err != nil {
			err = fmt.Errorf("move the subscription to %v: %w", start, err)
		} else if consumer, err = f.attach(ctx, at); err == nil { // the broker has closed it
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
func (f *foundation) restore(ctx context.Context, a *asker, to graphmill.MessageID) error {
	at, err := a.owner(ctx, partitionName(f.tp))
	if err != nil {
		return err
	}
	consumer, err := f.attach(ctx, at)
	if f.isTaken(err) {
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
func (f *foundation) isTaken(err error) bool {
	var told *answer
	if !errors.As(err, &told) {
		return false
	}
	code := f.links.answer("", told).Code
	return code == codeBusy || code == codeOtherType
}

// attach makes a consumer that receives nothing, and lets nobody else have the
// subscription for as long as it is there.
func (f *foundation) attach(ctx context.Context, at *asker) (consumer uint64, err error) {
	c := subscribeCommand{
		Topic:        partitionName(f.tp),
		Subscription: f.subscription,
		Durable:      true,
		// A partition of a topic that there is is made by its first use.
		ForceTopicCreation: f.tp.Partition >= 0,
	}
	if f.earliest {
		c.InitialPosition = initialEarliest
	}
	return at.subscribe(ctx, c)
}
