// Package kafka reads from Kafka and what speaks its protocol, Redpanda for
// one, through franz-go: as a member of a consumer group (Source), outside of
// any group (Reader), and it writes for tools and demonstrations (Producer).
//
// What Graphmill promises about positions is kept here: see settle.go for
// where reading starts, group.go for what a rebalance may and may not do,
// acknowledge.go for what is committed, and watch.go for how outages are
// noticed.
package kafka

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/graphmill/graphmill"
)

// Defaults of a Config.
const (
	DefaultClientID            = "graphmill"
	DefaultSessionTimeout      = 10 * time.Second
	DefaultRebalanceTimeout    = 60 * time.Second
	DefaultMaxBufferedMessages = 50_000
	DefaultMaxBufferedBytes    = 32 << 20
)

// Times of the client that are no settings.
const (
	dialTimeout    = 5 * time.Second
	requestTimeout = 10 * time.Second // of one request on the wire
	fetchMaxWait   = time.Second      // until a broker answers that there is nothing; a new partition waits for it
	metadataMaxAge = time.Minute      // new partitions are noticed within this
	maxHeartbeat   = time.Second      // between two signs of life to the group
	metadataMinAge = time.Second      // between two looks while something is wrong
)

// Config is what a stream reads, and how.
type Config struct {
	Stream  string               // the stream's name, for what people read
	Brokers []string             // host:port of the brokers to ask first; at least one
	Topics  []string             // at least one
	Group   string               // the consumer group; a Source needs one
	Start   graphmill.Start      // where a partition begins that has no position
	Known   []graphmill.Position // last acknowledged positions, used where the group has no commit

	// What START was told to go on with though the position is gone. Each holds
	// for the first time that a partition is settled, and never while reading.
	AcceptRecreated bool   // a topic that was created anew is read from its beginning
	AcceptLost      string // graphmill.StartEarliest, StartLatest: what a lost position becomes; empty: it ends the stream

	// Client is what CONFIGS and CREDENTIALS say. Where a field below says the
	// same, the field wins if it is not zero.
	Client ClientSettings

	ClientID string // how the broker's logs and quotas call this client

	// SessionTimeout is how long the group waits for a member that has gone
	// without leaving. RebalanceTimeout is how long it waits for members that
	// have to let go of partitions; half of it is what Observer.Revoked gets.
	SessionTimeout   time.Duration
	RebalanceTimeout time.Duration

	// What is fetched and not yet handed out, decompressed, by payload, key and
	// headers. One record batch of each broker (a producer's unit, 1 MB
	// compressed by default) may exceed them: no less can be asked for.
	MaxBufferedMessages int
	MaxBufferedBytes    int64

	Logger *slog.Logger // of the client's own messages; nil: none
}

// withDefaults fills in what has a default.
func (c Config) withDefaults() Config {
	c.ClientID = cmp.Or(c.ClientID, c.Client.clientID, DefaultClientID)
	c.SessionTimeout = cmp.Or(c.SessionTimeout, c.Client.session, DefaultSessionTimeout)
	c.RebalanceTimeout = cmp.Or(c.RebalanceTimeout, c.Client.rebalance, DefaultRebalanceTimeout)
	c.MaxBufferedMessages = cmp.Or(c.MaxBufferedMessages, DefaultMaxBufferedMessages)
	c.MaxBufferedBytes = cmp.Or(c.MaxBufferedBytes, DefaultMaxBufferedBytes)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Brokers = slices.Clone(c.Brokers)
	c.Topics = slices.Clone(c.Topics)
	c.Known = slices.Clone(c.Known)
	return c
}

// validate checks a Config that has its defaults. Errors are of KindInvalid.
func (c *Config) validate() error {
	switch {
	case len(c.Brokers) == 0:
		return graphmill.Invalid("bootstrap_servers", "at least one broker is needed, as host:port")
	case len(c.Topics) == 0:
		return graphmill.Invalid("topics", "at least one topic is needed")
	case c.SessionTimeout < time.Second:
		return graphmill.Invalid("session_timeout", "%v is less than a second", c.SessionTimeout)
	case c.RebalanceTimeout < time.Second:
		return graphmill.Invalid("rebalance_timeout", "%v is less than a second", c.RebalanceTimeout)
	case c.MaxBufferedMessages < 1:
		return graphmill.Invalid("max_buffered_messages", "%d is less than 1", c.MaxBufferedMessages)
	case c.MaxBufferedBytes < 1:
		return graphmill.Invalid("max_buffered_bytes", "%d is less than 1", c.MaxBufferedBytes)
	case c.AcceptLost != "" && c.AcceptLost != graphmill.StartEarliest && c.AcceptLost != graphmill.StartLatest:
		return graphmill.Invalid("accept", "lost=%q is neither lost=earliest nor lost=latest", c.AcceptLost)
	}
	if err := kgo.ValidateOpts(kgo.SeedBrokers(c.Brokers...)); err != nil {
		return &graphmill.Error{Kind: graphmill.KindInvalid, Code: "invalid", Field: "bootstrap_servers",
			Text: fmt.Sprintf("%q cannot be used as brokers; host:port is needed", c.Brokers), Err: err}
	}
	return nil
}

// connect makes a client with what every use of it has in common. Nothing is
// dialled yet. The context ends everything that the client does.
func (c *Config) connect(ctx context.Context, links *links, opts ...kgo.Opt) (*kgo.Client, error) {
	cl, err := kgo.NewClient(slices.Concat([]kgo.Opt{
		kgo.WithContext(ctx),
		kgo.SeedBrokers(c.Brokers...),
		kgo.ClientID(c.ClientID),
		kgo.WithLogger(clientLogger{c.Logger}),
		kgo.WithHooks(links),
		kgo.MetadataMinAge(metadataMinAge),
		// Telemetry that brokers may ask of clients. It would hold up Close.
		kgo.DisableClientMetrics(),
	}, c.Client.options(links), opts)...)
	if err != nil {
		return nil, fmt.Errorf("make a Kafka client: %w", err)
	}
	return cl, nil
}

// reading are the options of everything that consumes.
func (c *Config) reading(b *budget) []kgo.Opt {
	total, partition := b.limits()
	return append([]kgo.Opt{
		kgo.WithHooks(b),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		// Control records and aborted transactions take offsets. A position
		// that stays before them would leave a lag that never ends.
		kgo.KeepControlRecords(),
		// A position that the broker has no more must never be moved silently.
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.FetchMaxBytes(total),
		kgo.FetchMaxPartitionBytes(partition),
		kgo.MaxDecompressBatchBytes(maxBatchBytes),
	}, c.Client.reading()...)
}

// heartbeat is the pause between two signs of life to the group. Members hear
// in the answer that the group is in a round, so it is also how long partitions
// of a member that has left wait for the others.
func (c *Config) heartbeat() time.Duration {
	return cmp.Or(c.Client.heartbeat, min(c.SessionTimeout*3/10, maxHeartbeat))
}
