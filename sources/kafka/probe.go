package kafka

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/graphmill/graphmill"
)

const (
	// lookTimeout bounds one look at the brokers.
	lookTimeout = 3 * time.Second

	// lookAgain is the pause between two looks of somebody who is waiting.
	lookAgain = 250 * time.Millisecond

	// topicGrace is how long a topic must be absent to be called so, and a broker
	// must close connections: a broker may take a moment to hear of a topic that
	// has just been created, and one that is starting may not be itself yet.
	topicGrace = time.Second
)

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
	var steady string // code
	var since time.Time
	for {
		infos, f := look(ctx, cl, links, topics)
		if f == nil {
			return infos, nil
		}
		switch {
		case f.Class == graphmill.FaultSetup:
			return nil, f
		case !isSteady(f):
			steady = ""
		case steady != f.Code:
			steady, since = f.Code, time.Now()
		case time.Since(since) >= topicGrace:
			return nil, f
		}
		if err := pause(ctx, lookAgain); err != nil {
			if errors.Is(err, context.Canceled) {
				return nil, err
			}
			return nil, f
		}
	}
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
