package pulsar

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/graphmill/graphmill"
)

const (
	// lookTimeout bounds one look at the brokers.
	lookTimeout = 3 * time.Second

	// lookAgain is the pause between two looks of somebody who is waiting.
	lookAgain = 250 * time.Millisecond

	// steadyAfter is how long a topic must be absent to be called so, and a broker
	// must close connections: one that is starting may not be itself yet.
	steadyAfter = time.Second
)

// Probe tells whether the brokers can be reached and take the login, and the topics
// exist and may be consumed by the subscription; of a pattern, that the namespace
// exists and its topics may be listed, whether or not there are any yet. It makes no
// topic, and no subscription that outlasts it.
//
// It tries until ctx ends while no broker answers, since one may just be starting;
// what will not change by itself is told after a second. The error is a
// *graphmill.Fault ("broker_unreachable", "topic_absent", "auth", "forbidden",
// "tls_authority", ...: see docs/pulsar-settings.md) that says which, or of KindInvalid
// for a Config that cannot be right.
func Probe(ctx context.Context, cfg Config) error {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return err
	}
	links := newLinks(&cfg)
	var before *graphmill.Fault
	var steady string // code
	var since time.Time
	for {
		f := cfg.look(ctx, links)
		if f == nil {
			return nil
		}
		if ctx.Err() != nil && before != nil {
			f = before // a look that is cut off says only that it was
		}
		before = f
		switch {
		case f.Class == graphmill.FaultSetup:
			return f
		case !isSteady(f):
			steady = ""
		case steady != f.Code:
			steady, since = f.Code, time.Now()
		case time.Since(since) >= steadyAfter:
			return f
		}
		if err := pause(ctx, lookAgain); err != nil {
			if errors.Is(err, context.Canceled) {
				return err
			}
			return f
		}
	}
}

// isSteady tells whether waiting for a moment longer will not change a fault.
func isSteady(f *graphmill.Fault) bool {
	return f.Code == codeTopicAbsent || f.Code == codeQuota || f.Code == codeIssuer || isTLS(f.Code)
}

// look asks the brokers once, and tells what is wrong.
func (c *Config) look(ctx context.Context, links *links) *graphmill.Fault {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout+time.Duration(len(c.Topics))*lookTimeout/10)
	defer cancel()
	a, err := c.ask(ctx, links)
	if err != nil {
		return links.fault("connect", err)
	}
	defer a.close()
	topics := c.Topics
	if c.Pattern != "" {
		if topics, err = a.matching(ctx, c.Pattern); err != nil {
			return links.fault("list the topics of "+c.Pattern, err)
		}
		if len(topics) == 0 {
			return c.lookForNamespace(ctx, a)
		}
	}
	for _, topic := range topics {
		if f := a.lookAt(ctx, topic); f != nil {
			return f
		}
	}
	return nil
}

// lookForNamespace tells whether the namespace of a pattern that nothing matches is
// there. The list of a namespace that is not is empty, too.
func (c *Config) lookForNamespace(ctx context.Context, a *asker) *graphmill.Fault {
	namespace, _, err := graphmill.SplitTopicsPattern(c.Pattern)
	if err != nil {
		return ends("invalid", err.Error(), "", err)
	}
	_, err = a.owner(ctx, graphmill.PulsarTopic(namespace+"/graphmill-probe"))
	if told := (*answer)(nil); errors.As(err, &told) {
		if f := a.links.answer("look for namespace "+namespace, told); f.Code == codeNamespaceAbsent {
			return f
		}
	}
	return nil
}

// lookAt tells what is wrong with one topic.
func (a *asker) lookAt(ctx context.Context, topic string) *graphmill.Fault {
	n, err := a.partitions(ctx, topic)
	told := (*answer)(nil)
	if errors.As(err, &told) && told.Code == "TopicNotFound" {
		err = a.missing(ctx, topic, told)
	}
	if err != nil {
		return a.links.fault("look for topic "+topic, err)
	}
	partition := graphmill.TopicPartition{Topic: topic, Partition: -1}
	if n > 0 {
		partition.Partition = 0
	}
	if err := a.readable(ctx, partitionName(partition)); err != nil {
		return a.links.fault("consume topic "+topic, err)
	}
	return nil
}

// pause waits for d, or returns the context's error when ctx ends before.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

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
			h, err := a.take(ctx, partitionName(tp))
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

// take takes the subscription of one partition for itself. It is nobody's where the
// topic is absent.
func (a *asker) take(ctx context.Context, name string) (hold, error) {
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
