package pulsar

import (
	"context"
	"errors"
	"time"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/sources/patience"
	"github.com/graphmill/graphmill/sources/tlsfault"
)

// lookTimeout bounds one look at the brokers.
const lookTimeout = 3 * time.Second

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
	return patience.Until(ctx, func(ctx context.Context) *graphmill.Fault { return cfg.look(ctx, links) }, isSteady)
}

// isSteady tells whether waiting for a moment longer will not change a fault.
func isSteady(f *graphmill.Fault) bool {
	return f.Code == codeTopicAbsent || f.Code == codeQuota || f.Code == codeIssuer || tlsfault.IsReason(f.Code)
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
