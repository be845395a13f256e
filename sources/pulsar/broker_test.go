package pulsar_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	client "github.com/apache/pulsar-client-go/pulsar"
	"github.com/apache/pulsar-client-go/pulsar/log"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/sources"
	"github.com/graphmill/graphmill/sources/pulsar"
	"github.com/graphmill/graphmill/sources/sourcetest"
)

func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(withServer{m},
		// The client leaves one behind where a consumer is closed in the moment of its birth.
		goleak.IgnoreTopFunction("github.com/apache/pulsar-client-go/pulsar.(*partitionConsumer).grabConn.func1"))
}

// withServer runs tests and ends the real server before goroutines that are left are
// looked for.
type withServer struct{ tests *testing.M }

func (w withServer) Run() int {
	code := w.tests.Run()
	if err := stopReal(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// server is a Pulsar, in the process or a real one.
type server interface {
	URL() string
	AdminURL() string
	stop(t *testing.T)
	start(t *testing.T)
}

// broker is a server as one test sees it, with a client of its own.
type broker struct {
	t *testing.T
	server

	mu        sync.Mutex
	cl        client.Client
	producers map[string]client.Producer
}

var _ sourcetest.Broker = (*broker)(nil)

func brokerOf(t *testing.T, s server) *broker {
	b := &broker{t: t, server: s, producers: map[string]client.Producer{}}
	t.Cleanup(b.disconnect)
	return b
}

func (b *broker) client() client.Client {
	if b.cl == nil {
		cl, err := client.NewClient(client.ClientOptions{
			URL:               b.URL(),
			Logger:            log.NewLoggerWithSlog(slog.New(slog.DiscardHandler)),
			MetricsRegisterer: prometheus.NewRegistry(),
		})
		require.NoError(b.t, err)
		b.cl = cl
	}
	return b.cl
}

func (b *broker) disconnect() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cl == nil {
		return
	}
	for _, p := range b.producers {
		p.Close()
	}
	b.producers = map[string]client.Producer{}
	b.cl.Close()
	b.cl = nil
}

var names atomic.Int64

// Name implements sourcetest.Broker.
func (b *broker) Name() string {
	return fmt.Sprintf("persistent://public/default/n%d-%d", names.Add(1), time.Now().UnixNano())
}

// subscription is a name as one of a subscription.
func subscription(name string) string { return name[strings.LastIndex(name, "/")+1:] }

func path(topic string) string {
	return "/admin/v2/persistent/" + strings.TrimPrefix(topic, "persistent://")
}

// Create implements sourcetest.Broker.
func (b *broker) Create(topic string, n int) {
	b.t.Helper()
	require.Less(b.t, b.admin(http.MethodPut, path(topic)+"/partitions", strconv.Itoa(n), nil), 300)
}

// admin asks the admin interface, and returns the status.
func (b *broker) admin(method, path, body string, answer any) int {
	b.t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), method, b.AdminURL()+path, bytes.NewBufferString(body))
	require.NoError(b.t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	require.NoError(b.t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(b.t, err)
	if answer != nil && resp.StatusCode < 300 {
		require.NoError(b.t, json.Unmarshal(text, answer))
	} else if resp.StatusCode >= 300 {
		b.t.Logf("%s %s: %d %s", method, path, resp.StatusCode, text)
	}
	return resp.StatusCode
}

// Produce implements sourcetest.Broker.
func (b *broker) Produce(topic string, partition int32, messages ...graphmill.Message) {
	b.t.Helper()
	b.produce(partitionName(topic, partition), messages...)
}

func partitionName(topic string, partition int32) string {
	if partition < 0 {
		return topic
	}
	return fmt.Sprintf("%s-partition-%d", topic, partition)
}

// produce appends messages to a partition as one entry.
func (b *broker) produce(name string, messages ...graphmill.Message) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.producers[name]
	if p == nil {
		var err error
		p, err = b.client().CreateProducer(client.ProducerOptions{
			Topic: name, SendTimeout: -1, // a goroutine that looks after it outlives Close
			BatchingMaxPublishDelay: time.Hour, BatchingMaxMessages: 10_000, BatchingMaxSize: 6 << 20,
		})
		require.NoError(b.t, err)
		b.producers[name] = p
	}
	errs := make(chan error, len(messages))
	for _, m := range messages {
		out := &client.ProducerMessage{Payload: m.Payload, Key: string(m.Key)}
		if m.Timestamp != 0 {
			out.EventTime = time.UnixMilli(m.Timestamp)
		}
		if len(m.Headers) > 0 {
			out.Properties = map[string]string{}
			for _, h := range m.Headers {
				out.Properties[h.Key] = string(h.Value)
			}
		}
		p.SendAsync(b.t.Context(), out, func(_ client.MessageID, _ *client.ProducerMessage, err error) { errs <- err })
	}
	require.NoError(b.t, p.FlushWithCtx(b.t.Context()))
	for range messages {
		require.NoError(b.t, <-errs)
	}
}

// config is one of a stream of the suite.
func (b *broker) config(s sourcetest.Stream) pulsar.Config {
	cfg := pulsar.Config{
		Stream: subscription(s.Name), Subscription: subscription(s.Name), Topics: s.Topics,
		ServiceURL: b.URL(), AdminURL: b.AdminURL(), Start: s.Start, Known: s.Known,
		DiscoveryInterval: 200 * time.Millisecond,
	}
	if os.Getenv("GRAPHMILL_TEST_LOG") != "" {
		cfg.Logger = slog.New(slog.NewTextHandler(b.t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	return cfg
}

// Source implements sourcetest.Broker.
func (b *broker) Source(s sourcetest.Stream, obs sources.Observer) sources.Source {
	b.t.Helper()
	src, err := pulsar.New(b.config(s), obs)
	require.NoError(b.t, err)
	return src
}

// Crash implements sourcetest.Broker.
func (b *broker) Crash(s sources.Source) { pulsar.Crash(s.(*pulsar.Source)) }

// Acknowledged implements sourcetest.Broker.
func (b *broker) Acknowledged(s sourcetest.Stream) string {
	b.t.Helper()
	var out []string
	for _, topic := range s.Topics {
		var metadata struct {
			Partitions int `json:"partitions"`
		}
		require.Less(b.t, b.admin(http.MethodGet, path(topic)+"/partitions", "", &metadata), 300)
		for p := range metadata.Partitions {
			var stats struct {
				Cursors map[string]struct {
					Mark    string `json:"markDeletePosition"`
					Singles string `json:"individuallyDeletedMessages"`
				} `json:"cursors"`
			}
			require.Less(b.t, b.admin(http.MethodGet, partitionName(path(topic), int32(p))+"/internalStats", "", &stats), 300)
			c := stats.Cursors[subscription(s.Name)]
			out = append(out, fmt.Sprintf("%d: %s %s", p, c.Mark, c.Singles))
		}
	}
	slices.Sort(out)
	return strings.Join(out, "; ")
}

// Stop implements sourcetest.Broker.
func (b *broker) Stop() {
	b.t.Helper()
	b.disconnect()
	b.stop(b.t)
}

// Start implements sourcetest.Broker.
func (b *broker) Start() {
	b.t.Helper()
	b.start(b.t)
}

// abilities are those of Pulsar through its Go client.
var abilities = sourcetest.Abilities{
	WholeBatches: true,
	BigPayload:   5<<20 - 10<<10, // maxMessageSize is 5 MiB, with what stands around a payload
}
