package kafka

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/sources/patience"
)

// lookTimeout bounds one look at the brokers.
const lookTimeout = 3 * time.Second

// Probe tells whether the brokers can be reached, and the topics exist and may
// be read in the group, as far as the brokers tell. It tries until ctx ends while
// no broker answers, since one may just be starting; what will not change by
// itself is told after a second. The error is a *graphmill.Fault
// ("broker_unreachable", "topic_absent", "auth", "forbidden", "tls_authority",
// ...: see docs/kafka.md) that says which, or of KindInvalid for a Config that
// cannot be right.
func Probe(ctx context.Context, cfg Config) error {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return err
	}
	links := newLinks(&cfg)
	cl, err := cfg.connect(context.WithoutCancel(ctx), links)
	if err != nil {
		return err
	}
	defer cl.Close()
	if _, err := awaitTopics(ctx, cl, links, cfg.Topics); err != nil {
		return err
	}
	if f := lackingRight(ctx, cl, links, &cfg); f != nil {
		return f
	}
	return nil
}

// awaitTopics returns once all topics exist and every partition has a leader.
// When ctx's time is over, the error is the fault that stood in the way.
func awaitTopics(ctx context.Context, cl *kgo.Client, links *links, topics []string) (map[string]topicInfo, error) {
	var infos map[string]topicInfo
	err := patience.Until(ctx, func(ctx context.Context) (f *graphmill.Fault) {
		infos, f = look(ctx, cl, links, topics)
		return f
	}, isSteady)
	if err != nil {
		return nil, err
	}
	return infos, nil
}

// look asks the brokers once for the topics, and tells what is wrong.
func look(ctx context.Context, cl *kgo.Client, links *links, topics []string) (map[string]topicInfo, *graphmill.Fault) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	infos, err := describeTopics(ctx, cl, topics)
	if err != nil {
		return nil, links.fault("ask for the topics", err)
	}
	return infos, complaint(topics, infos)
}
