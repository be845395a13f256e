//go:build e2e

package integration_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	pulsarlog "github.com/apache/pulsar-client-go/pulsar/log"
	"github.com/neo4j/neo4j-go-driver/v5/neo4j"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill/integration/stack"
)

// startPulsar starts the Pulsar of all tests, once.
var startPulsar = sync.OnceValue(func() error {
	var err error
	world.pulsar, err = stack.StartPulsar(context.Background(), stack.PulsarConfig{
		Log:           os.Stderr,
		FailoverDelay: 100 * time.Millisecond,
		Settings: map[string]string{
			// A producer that has lost its connection sends again what was not confirmed.
			"brokerDeduplicationEnabled": "true",
			// How soon a frozen consumer is given up: at the second sign of life that is
			// not answered.
			"keepAliveIntervalSeconds": "5",
		},
	})
	return err
})

func stopPulsar() {
	if world.pulsar != nil {
		_ = world.pulsar.Close()
	}
}

// pulsarBroker is a Pulsar, with the token that the tests' own producers show.
type pulsarBroker struct {
	*stack.Pulsar
	token string // empty: it asks for none
}

var _ broker = pulsarBroker{}

// onPulsar returns the Pulsar of all tests. It makes the topics that are asked for.
func onPulsar(t *testing.T) pulsarBroker {
	t.Helper()
	require.NoError(t, startPulsar())
	t.Cleanup(func() {
		if t.Failed() {
			kept, err := world.pulsar.KeepLog()
			t.Log("the log of Pulsar is in", kept, err)
		}
	})
	return pulsarBroker{Pulsar: world.pulsar}
}

func (b pulsarBroker) serve(t *testing.T, args ...string) *program {
	return serve(t, append([]string{"--pulsar-service-url", b.ServiceURL(), "--pulsar-admin-url", b.AdminURL()}, args...)...)
}

func (b pulsarBroker) topic(t *testing.T, partitions int, suffix ...string) string {
	t.Helper()
	topic := topicName(t, suffix...)
	require.NoError(t, b.CreateTopic(t.Context(), topic, partitions))
	return topic
}

func (pulsarBroker) stream(name, topic, label string) map[string]any {
	def := traceStream(name, topic, label)
	def["source"] = "pulsar"
	return def
}

// entrySize is how many messages the tests' producers put into an entry, at most.
const entrySize = 200

// pulsarFeed is a topic that a stream reads which leaves traces.
type pulsarFeed struct {
	cl        pulsar.Client
	producers []pulsar.Producer // of users in turn
	label     string
}

// feed makes a feed whose producers batch, and compress each in its own way.
func (b pulsarBroker) feed(t *testing.T, _, topic, label string) feed {
	t.Helper()
	options := pulsar.ClientOptions{URL: b.ServiceURL(), Logger: pulsarlog.DefaultNopLogger(), MetricsRegisterer: prometheus.NewRegistry()}
	if b.token != "" {
		options.Authentication = pulsar.NewAuthenticationToken(b.token)
	}
	cl, err := pulsar.NewClient(options)
	require.NoError(t, err)
	f := &pulsarFeed{cl: cl, label: label}
	for _, compression := range []pulsar.CompressionType{pulsar.LZ4, pulsar.ZSTD} {
		producer, err := cl.CreateProducer(pulsar.ProducerOptions{
			Topic: topic, CompressionType: compression, BatchingMaxMessages: entrySize, BatchingMaxPublishDelay: 20 * time.Millisecond,
			SendTimeout: -1, // outages last as long as they do
		})
		require.NoError(t, err)
		f.producers = append(f.producers, producer)
	}
	return f
}

func (f *pulsarFeed) close() { f.cl.Close() }

func (f *pulsarFeed) send(ctx context.Context, first, last int) error {
	confirmed := newConfirmations()
	for i := first; i < last; i++ {
		key, value, err := keyed(i)
		if err != nil {
			return err
		}
		producer := f.producers[i%users%len(f.producers)]
		producer.SendAsync(ctx, &pulsar.ProducerMessage{Key: string(key), Payload: value}, func(_ pulsar.MessageID, _ *pulsar.ProducerMessage, err error) {
			confirmed.note(err)
		})
	}
	for _, producer := range f.producers {
		if err := producer.FlushWithCtx(ctx); err != nil {
			return err
		}
	}
	return confirmed.err()
}

// done returns how many events have left a trace: the broker counts no messages.
func (f *pulsarFeed) done(ctx context.Context) (int64, error) {
	result, err := neo4j.ExecuteQuery(ctx, world.driver, fmt.Sprintf("MATCH (t:Trace%s) RETURN count(t)", f.label), nil, neo4j.EagerResultTransformer)
	if err != nil {
		return 0, err
	}
	n, _, err := neo4j.GetRecordValue[int64](result.Records[0], result.Keys[0])
	return n, err
}

// standing is the subscriptions, and in each partition the cursor and the backlog.
func (b pulsarBroker) standing(t *testing.T, stream, topic string) string {
	t.Helper()
	var lines []string
	for _, name := range b.parts(t, topic) {
		var internal struct {
			Cursors map[string]struct {
				MarkDelete string `json:"markDeletePosition"`
				Single     string `json:"individuallyDeletedMessages"`
			} `json:"cursors"`
		}
		require.NoError(t, b.Admin(t.Context(), http.MethodGet, stack.TopicPath(name)+"/internalStats", nil, &internal))
		stats, err := b.Stats(t.Context(), name)
		require.NoError(t, err)
		lines = append(lines, fmt.Sprintln(name, internal.Cursors[stream], stats.Subscriptions[stream], slices.Sorted(maps.Keys(stats.Subscriptions))))
	}
	return strings.Join(lines, "")
}

// parts are the names of a topic's partitions, or the topic's where it has none.
func (b pulsarBroker) parts(t *testing.T, topic string) []string {
	t.Helper()
	n, err := b.Partitions(t.Context(), topic)
	require.NoError(t, err)
	if n == 0 {
		return []string{topic}
	}
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%s-partition-%d", topic, i)
	}
	return names
}

// members counts the consumers by name: each is connected to all partitions.
func (b pulsarBroker) members(t *testing.T, stream, topic string) int {
	t.Helper()
	names := map[string]struct{}{}
	stats, err := b.Stats(t.Context(), topic)
	require.NoError(t, err)
	for _, c := range stats.Subscriptions[stream].Consumers {
		names[c.Name] = struct{}{}
	}
	return len(names)
}

func (b pulsarBroker) awaitShared(t *testing.T, stream, topic string, servers, partitions int) {
	t.Helper()
	var stats stack.TopicStats
	require.Eventually(t, func() bool {
		var err error
		stats, err = b.Stats(t.Context(), topic)
		require.NoError(t, err)
		active := map[string]struct{}{}
		for _, part := range stats.Partitions {
			s := part.Subscriptions[stream]
			if len(s.Consumers) != servers {
				return false
			}
			active[s.Active] = struct{}{}
		}
		return len(stats.Partitions) == partitions && len(active) == min(servers, partitions)
	}, patience, 100*time.Millisecond, "%d servers share %d partitions of the subscription", servers, partitions)
}

func (b pulsarBroker) unacknowledged(t *testing.T, stream, topic string) int64 {
	t.Helper()
	stats, err := b.Stats(t.Context(), topic)
	require.NoError(t, err)
	subscription, there := stats.Subscriptions[stream]
	require.True(t, there, "%s has no subscription %q", topic, stream)
	return subscription.Backlog
}
