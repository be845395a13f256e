package kafka_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/sources"
	"github.com/graphmill/graphmill/sources/kafka"
	"github.com/graphmill/graphmill/sources/sourcetest"
)

// What sources of all brokers promise alike. The other tests of this package are
// about what only Kafka has.
func TestConformance(t *testing.T) {
	if !real { // which no other test must use while it is stopped
		t.Parallel()
	}
	sourcetest.Suite{
		Open:   func(t *testing.T) sourcetest.Broker { return newConforming(t) },
		Shared: real,
		Abilities: sourcetest.Abilities{
			NullPayload: true,
			EmptyKey:    true,
			HeaderList:  true,
			HandsOver:   true,
			BigPayload:  maxBatch - 100,
		},
	}.Run(t)
}

// maxBatch is the default of max.message.bytes, in which a record batch must
// fit: 1 MiB and a few bytes.
const maxBatch = 1<<20 + 12

// conforming is a broker in the words of the suite.
type conforming struct {
	*broker
	stop, start func() error
	writer      *kgo.Client
}

func newConforming(t *testing.T) *conforming {
	if real {
		k, err := server()
		require.NoError(t, err)
		return newBroker(t).conforming(k.Kill, func() error { return k.Restart(t.Context()) })
	}
	r := newRestartable(t)
	log := newCommitLog()
	log.watch(r.fake)
	t.Cleanup(func() { require.Empty(t, log.wentBack(), "commits of positions before those that were committed") })
	stop := func() error {
		r.stop()
		return nil
	}
	return r.conforming(stop, func() error {
		r.start()
		log.watch(r.fake)
		return nil
	})
}

func (b *broker) conforming(stop, start func() error) *conforming {
	c := &conforming{broker: b, stop: stop, start: start}
	c.renew()
	return c
}

// renew makes clients that know nothing of how the broker was.
func (c *conforming) renew() {
	c.connect()
	// Records wait for Flush, and then go out together as one record batch.
	writer, err := kgo.NewClient(kgo.SeedBrokers(c.addr), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(time.Minute), kgo.ProducerBatchMaxBytes(maxBatch))
	require.NoError(c.t, err)
	c.t.Cleanup(writer.Close)
	c.writer = writer
}

func (c *conforming) Name() string { return c.name("s") }

func (c *conforming) Create(topic string, n int) { c.create(topic, int32(n), nil) }

func (c *conforming) Produce(topic string, partition int32, messages ...graphmill.Message) {
	c.t.Helper()
	records := make([]*kgo.Record, 0, len(messages))
	for _, m := range messages {
		r := &kgo.Record{Topic: topic, Partition: partition, Key: m.Key, Value: m.Payload}
		if m.Timestamp != 0 {
			r.Timestamp = time.UnixMilli(m.Timestamp)
		}
		for _, h := range m.Headers {
			r.Headers = append(r.Headers, kgo.RecordHeader(h))
		}
		records = append(records, r)
	}
	ctx, cancel := context.WithTimeout(context.Background(), sourcetest.Patience)
	defer cancel()
	var written kgo.FirstErrPromise
	for _, r := range records {
		c.writer.Produce(ctx, r, written.Promise())
	}
	require.NoError(c.t, c.writer.Flush(ctx))
	require.NoError(c.t, written.Err())
}

func (c *conforming) Source(s sourcetest.Stream, obs sources.Observer) sources.Source {
	c.t.Helper()
	cfg := kafka.Config{Stream: s.Name, Brokers: []string{c.addr}, Topics: s.Topics, Group: s.Name, Start: s.Start, Known: s.Known}
	cfg.SessionTimeout = 45 * time.Second // far more than one that closes may take
	if s.Crashes {
		// A round ends without the dead one long before the session of a member
		// that waits in it would: kfake drops such a member then and never answers
		// its JoinGroup, where Kafka keeps it.
		cfg.SessionTimeout, cfg.RebalanceTimeout = 12*time.Second, 4*time.Second
	}
	src, err := kafka.New(cfg, obs)
	require.NoError(c.t, err)
	return src
}

func (c *conforming) Crash(s sources.Source) { kafka.Kill(s.(*kafka.Source)) }

func (c *conforming) Acknowledged(s sourcetest.Stream) string {
	c.t.Helper()
	var lines []string
	for _, topic := range s.Topics {
		commits := c.commits(s.Name, topic)
		for p := range int32(len(commits)) {
			lines = append(lines, fmt.Sprintf("%s: %d %s", tp(topic, p), commits[p].At, commits[p].Metadata))
		}
	}
	return strings.Join(lines, "\n")
}

func (c *conforming) Stop() {
	c.t.Helper()
	require.NoError(c.t, c.stop())
}

func (c *conforming) Start() {
	c.t.Helper()
	require.NoError(c.t, c.start())
	c.renew()
}

// commitLog watches the commits that arrive at a kfake: within a group they
// must never go back, which is what a commit for a partition that has been
// given to somebody else would do.
type commitLog struct {
	mu   sync.Mutex
	at   map[commitKey]int64
	back []string
}

type commitKey struct {
	group, topic string
	partition    int32
}

func newCommitLog() *commitLog { return &commitLog{at: map[commitKey]int64{}} }

func (l *commitLog) watch(c *kfake.Cluster) {
	c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Observe: true, Count: -1, When: func(req kmsg.Request) bool {
		commit := req.(*kmsg.OffsetCommitRequest)
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, t := range commit.Topics {
			for _, p := range t.Partitions {
				key := commitKey{commit.Group, fmt.Sprintf("%s%x", t.Topic, t.TopicID), p.Partition}
				if p.Offset < l.at[key] {
					l.back = append(l.back, fmt.Sprintf("partition %d: %d after %d, by %s", p.Partition, p.Offset, l.at[key], commit.MemberID))
				}
				l.at[key] = max(l.at[key], p.Offset)
			}
		}
		return false
	}})
}

func (l *commitLog) wentBack() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.back
}
