//go:build e2e

package integration_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/graphmill/graphmill/integration/stack"
)

// topicOf makes a topic named for the test. A test with several gives each a
// suffix.
func topicOf(t *testing.T, partitions int32, suffix ...string) string {
	t.Helper()
	topic := topicName(t, suffix...)
	_, err := admin(t).CreateTopic(t.Context(), partitions, 1, nil, topic)
	require.NoError(t, err)
	return topic
}

func admin(t *testing.T) *kadm.Client {
	t.Helper()
	cl, err := kadm.NewOptClient(kgo.SeedBrokers(world.kafka.Brokers()...))
	require.NoError(t, err)
	t.Cleanup(cl.Close)
	return cl
}

// committed returns the group's offsets by partition; empty: it has none.
func committed(t *testing.T, group, topic string) map[int32]int64 {
	t.Helper()
	offsets, err := admin(t).FetchOffsets(t.Context(), group)
	require.NoError(t, err)
	at := map[int32]int64{}
	for _, o := range offsets[topic] {
		at[o.Partition] = o.At
	}
	return at
}

// endOf returns how many messages a topic has been given.
func endOf(t *testing.T, topic string) int64 {
	t.Helper()
	ends, err := admin(t).ListEndOffsets(t.Context(), topic)
	require.NoError(t, err)
	at := map[int32]int64{}
	ends.Each(func(o kadm.ListedOffset) { at[o.Partition] = o.Offset })
	return sumOf(at)
}

func sumOf(offsets map[int32]int64) (sum int64) {
	for _, at := range offsets {
		sum += at
	}
	return sum
}

// produce sends events first to last-1, keyed by user, so that those of one
// user keep their order. Every one is confirmed when it returns.
func produce(ctx context.Context, topic string, first, last int) error {
	f, err := newKafkaFeed(topic, "")
	if err != nil {
		return err
	}
	defer f.close()
	return f.send(ctx, first, last)
}

// kafkaFeed is a topic that the members of a group read.
type kafkaFeed struct {
	cl           *kgo.Client
	topic, group string
}

func newKafkaFeed(topic, group string) (*kafkaFeed, error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(world.kafka.Brokers()...), kgo.DefaultProduceTopic(topic))
	return &kafkaFeed{cl, topic, group}, err
}

func (f *kafkaFeed) close() { f.cl.Close() }

func (f *kafkaFeed) send(ctx context.Context, first, last int) error {
	confirmed := newConfirmations()
	for i := first; i < last; i++ {
		key, value, err := keyed(i)
		if err != nil {
			return err
		}
		f.cl.Produce(ctx, &kgo.Record{Key: key, Value: value}, func(_ *kgo.Record, err error) { confirmed.note(err) })
	}
	if err := f.cl.Flush(ctx); err != nil {
		return err
	}
	return confirmed.err()
}

// done returns what the group has acknowledged.
func (f *kafkaFeed) done(ctx context.Context) (sum int64, err error) {
	offsets, err := kadm.NewClient(f.cl).FetchOffsets(ctx, f.group)
	for _, o := range offsets[f.topic] {
		sum += max(0, o.At)
	}
	return sum, err
}

// kafkaBroker is the Kafka of all tests.
type kafkaBroker struct{ *stack.Kafka }

var _ broker = kafkaBroker{}

func onKafka() broker { return kafkaBroker{world.kafka} }

func (kafkaBroker) serve(t *testing.T, args ...string) *program { return serve(t, args...) }

func (kafkaBroker) topic(t *testing.T, partitions int, suffix ...string) string {
	return topicOf(t, int32(partitions), suffix...)
}

// sharedSession is the shortest session that a broker allows. A killed server's
// partitions move after it.
var sharedSession = map[string]string{"session.timeout.ms": "6000"}

func (kafkaBroker) stream(name, topic, label string) map[string]any {
	def := traceStream(name, topic, label)
	def["configs"] = sharedSession
	return def
}

func (kafkaBroker) feed(t *testing.T, stream, topic, _ string) feed {
	f, err := newKafkaFeed(topic, "graphmill."+stream)
	require.NoError(t, err)
	return f
}

func (kafkaBroker) standing(t *testing.T, stream, topic string) string {
	return fmt.Sprint(committed(t, "graphmill."+stream, topic))
}

func (kafkaBroker) members(t *testing.T, stream, _ string) int {
	groups, err := admin(t).DescribeGroups(t.Context(), "graphmill."+stream)
	require.NoError(t, err)
	return len(groups["graphmill."+stream].Members)
}

func (kafkaBroker) awaitShared(t *testing.T, stream, _ string, servers, partitions int) {
	awaitMembers(t, "graphmill."+stream, servers, partitions)
}

func (kafkaBroker) unacknowledged(t *testing.T, stream, topic string) int64 {
	return endOf(t, topic) - sumOf(committed(t, "graphmill."+stream, topic))
}
