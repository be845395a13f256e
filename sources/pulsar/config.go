// Package pulsar reads from Apache Pulsar through pulsar-client-go: as one of the
// consumers of a durable subscription (Source), and outside of any subscription
// (Reader).
//
// A consumer reads one partition and serves one subscription of it: it is thrown
// away when its connection ends or when the partition comes back to it, so that
// nothing that was on its way from an earlier time can be taken for new (see
// consumer.go). What is acknowledged, and how, is told in acknowledge.go, where
// reading begins in prepare.go, how topics and partitions are found in discovery.go.
package pulsar

import (
	"cmp"
	"log/slog"
	"slices"
	"time"

	"github.com/graphmill/graphmill"
)

// Defaults of a Config.
const (
	DefaultDiscoveryInterval   = 10 * time.Second
	DefaultMaxBufferedMessages = 50_000
	DefaultMaxBufferedBytes    = 32 << 20
)

// Config is what a stream reads, and how.
type Config struct {
	// Client is what CONFIGS and CREDENTIALS say.
	Client ClientSettings

	Stream     string // the stream's name, for what people read
	ServiceURL string // pulsar:// or pulsar+ssl://, one or several hosts
	AdminURL   string // http:// or https:// of the admin REST; empty: none

	// What is read: Topics, or all that Pattern matches (see
	// graphmill.SplitTopicsPattern). Names may be short.
	Topics  []string
	Pattern string

	Subscription string
	Exclusive    bool // nobody shares the subscription; else it is of type Failover

	Start graphmill.Start      // where a subscription begins that does not exist
	Known []graphmill.Position // last acknowledged positions

	// DiscoveryInterval is the pause between two looks for new partitions and topics.
	DiscoveryInterval time.Duration

	// What is fetched and not yet handed out, by payload, over all partitions. Each
	// partition may exceed its part by an entry (a producer's batch, up to 5 MB by
	// default) or two: no less can be asked for.
	MaxBufferedMessages int
	MaxBufferedBytes    int64

	Logger *slog.Logger // of the client's own messages; nil: none
}

// withDefaults fills in what has a default, and writes topics in full.
func (c Config) withDefaults() Config {
	c.DiscoveryInterval = cmp.Or(c.DiscoveryInterval, c.Client.discovery, DefaultDiscoveryInterval)
	c.MaxBufferedMessages = cmp.Or(c.MaxBufferedMessages, DefaultMaxBufferedMessages)
	c.MaxBufferedBytes = cmp.Or(c.MaxBufferedBytes, DefaultMaxBufferedBytes)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	topics := make([]string, len(c.Topics))
	for i, t := range c.Topics {
		topics[i] = graphmill.PulsarTopic(t)
	}
	c.Topics = topics
	c.Known = slices.Clone(c.Known)
	return c
}

// validate checks a Config that has its defaults. Errors are of KindInvalid.
func (c *Config) validate() error {
	switch {
	case c.ServiceURL == "":
		return graphmill.Invalid("service_url", "the address of a broker is needed, as pulsar://host:6650")
	case len(c.Topics) == 0 && c.Pattern == "":
		return graphmill.Invalid("topics", "at least one topic, or a pattern of topics, is needed")
	case len(c.Topics) > 0 && c.Pattern != "":
		return graphmill.Invalid("topics_pattern", "topics are given too; only one of the two can be meant")
	case c.DiscoveryInterval < 0:
		return graphmill.Invalid("discovery_interval", "%v is less than nothing", c.DiscoveryInterval)
	case c.MaxBufferedMessages < 1:
		return graphmill.Invalid("max_buffered_messages", "%d is less than 1", c.MaxBufferedMessages)
	case c.MaxBufferedBytes < 1:
		return graphmill.Invalid("max_buffered_bytes", "%d is less than 1", c.MaxBufferedBytes)
	}
	if c.Pattern != "" {
		if _, _, err := graphmill.SplitTopicsPattern(c.Pattern); err != nil {
			return err
		}
	}
	return graphmill.ValidateServiceURL("service_url", c.ServiceURL)
}

// ofSubscription returns the Config with its defaults, for what works by a
// subscription. Errors are of KindInvalid.
func (c Config) ofSubscription() (Config, error) {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return c, err
	}
	if c.Subscription == "" {
		return c, graphmill.Invalid("subscription", "a subscription is needed")
	}
	return c, nil
}

// known is what the catalog has of a partition, and whether it has anything of its
// topic: a partition of which it has nothing is a new one then.
func (c *Config) known(tp graphmill.TopicPartition) (at *graphmill.MessageID, ofTopic bool) {
	for _, k := range c.Known {
		if k.TopicPartition == tp {
			return &k.MessageID, true
		}
		ofTopic = ofTopic || k.Topic == tp.Topic
	}
	return nil, ofTopic
}
