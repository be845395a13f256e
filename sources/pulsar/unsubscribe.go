package pulsar

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/graphmill/graphmill"
)

// Unsubscribe ends the stream's subscription of all its topics and partitions, so that
// the broker stores nothing for it any more. While a consumer is connected to one of
// them it ends none, and the error is of KindConflict, "subscription_busy". A topic
// that is absent has no subscription, and one that has ended before is no error. Other
// errors are *graphmill.Fault.
func Unsubscribe(ctx context.Context, cfg Config) error {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return err
	}
	links := newLinks(&cfg)
	a, err := cfg.ask(ctx, links)
	if err != nil {
		return err
	}
	defer a.close()
	topics := cfg.Topics
	if cfg.Pattern != "" {
		if topics, err = a.matching(ctx, cfg.Pattern); err != nil {
			return err
		}
	}
	held, err := a.hold(ctx, topics)
	if err != nil {
		return err
	}
	for _, h := range held {
		_, err := h.at.talk(ctx, command{Type: "UNSUBSCRIBE", Unsubscribe: &consumerCommand{ConsumerID: h.consumer, RequestID: h.at.request()}})
		if err != nil {
			return links.fault("end subscription "+cfg.Subscription+" of "+h.topic, err)
		}
	}
	return nil
}

// hold is a subscription of one partition that nobody else can be connected to.
type hold struct {
	topic    string
	at       *asker
	consumer uint64
}

// hold takes the subscription of all partitions of topics for itself. One that does
// not exist is made.
func (a *asker) hold(ctx context.Context, topics []string) ([]hold, error) {
	var held []hold
	for _, topic := range topics {
		n, err := a.partitions(ctx, topic)
		if told := (*answer)(nil); errors.As(err, &told) && told.Code == "TopicNotFound" {
			continue
		}
		if err != nil {
			return nil, a.links.fault("look for topic "+topic, err)
		}
		for p := range max(n, 1) {
			tp := graphmill.TopicPartition{Topic: topic, Partition: int32(p)}
			if n == 0 {
				tp.Partition = -1
			}
			h, err := a.holdOne(ctx, partitionName(tp))
			if err != nil {
				return nil, err
			}
			if h.at != nil {
				held = append(held, h)
			}
		}
	}
	return held, nil
}

// holdOne takes the subscription of one partition for itself. It is nobody's where the
// topic is absent.
func (a *asker) holdOne(ctx context.Context, name string) (hold, error) {
	at, err := a.owner(ctx, name)
	var consumer uint64
	if err == nil {
		// One that does not exist begins too early, rather than too late.
		consumer, err = at.subscribe(ctx, subscribeCommand{Topic: name, Subscription: a.cfg.Subscription, Durable: true, InitialPosition: initialEarliest})
	}
	if err == nil {
		return hold{name, at, consumer}, nil
	}
	f := a.links.fault("take subscription "+a.cfg.Subscription+" of "+name, err)
	switch f.Code {
	case codeTopicAbsent, codeNamespaceAbsent:
		return hold{}, nil
	case codeBusy, codeOtherType:
		return hold{}, &graphmill.Error{Kind: graphmill.KindConflict, Code: codeBusy, Field: "subscription", Err: cmp.Or(f.Err, err),
			Text: fmt.Sprintf("subscription %q of %s has consumers that are connected", a.cfg.Subscription, name),
			Next: "stop the stream on all servers, and whatever else reads by this subscription; a consumer whose machine is gone leaves it within a minute or so"}
	}
	return hold{}, f
}
