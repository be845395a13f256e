package pulsar_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	client "github.com/apache/pulsar-client-go/pulsar"
	"github.com/apache/pulsar-client-go/pulsar/log"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/integration/pulsarserver"
	"github.com/graphmill/graphmill/sources/pulsar"
)

// outside is a Pulsar, in the process or a real one, that is asked from outside of
// subscriptions.
type outside struct {
	url, admin string
	create     func(t *testing.T, topic string, partitions int)
	roll       func(t *testing.T, name string) // makes what is sent go to another ledger
	cl         client.Client
}

func newOutside(t *testing.T, o outside) outside {
	cl, err := client.NewClient(client.ClientOptions{
		URL: o.url, Logger: log.NewLoggerWithSlog(slog.New(slog.DiscardHandler)), MetricsRegisterer: prometheus.NewRegistry(),
	})
	require.NoError(t, err)
	t.Cleanup(cl.Close)
	o.cl = cl
	return o
}

// fromOutside are the tests that a Pulsar of either kind has to pass.
var fromOutside = map[string]func(t *testing.T, o outside){
	"a reader reads all partitions of topics and patterns": readsEverything,
	"a reader begins where it is told":                     readerBegins,
	"positions go where they are set":                      setsPositions,
	"positions within entries and at their borders":        setsPositionsWithinEntries,
	"positions over several ledgers":                       crossesLedgers,
	"message ids that do not exist":                        refusesIDs,
	"positions of a subscription in use":                   refusesMembers,
	"positions without an admin URL":                       tellsOffsets,
	"positions by the admin URL":                           tellsOffsetsOfAdmin,
	"an admin URL where nobody answers":                    doesWithoutAdmin,
	"a reader leaves the subscription alone":               leavesSubscriptionAlone,
	"a topic that is absent is not made":                   makesNoTopic,
}

func TestFromOutside(t *testing.T) {
	for name, test := range fromOutside {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := pulsarserver.Start(t, pulsarserver.Options{})
			test(t, newOutside(t, outside{
				url: s.URL(), admin: s.AdminURL(),
				create: func(t *testing.T, topic string, partitions int) { require.NoError(t, s.CreateTopic(topic, partitions)) },
				roll: func(t *testing.T, _ string) {
					s.Stop()
					require.NoError(t, s.Listen())
				},
			}))
		})
	}
}

var topicNames atomic.Int64

// topic makes a topic and returns its full name.
func (o outside) topic(t *testing.T, partitions int) string {
	t.Helper()
	name := fmt.Sprintf("persistent://public/default/o%d-%d", topicNames.Add(1), time.Now().UnixNano())
	o.create(t, name, partitions)
	return name
}

// part is the name of one partition.
func part(topic string, n int) string { return fmt.Sprintf("%s-partition-%d", topic, n) }

// send appends one entry of the texts, and returns the id of its first message.
func (o outside) send(t *testing.T, name string, texts ...string) graphmill.MessageID {
	t.Helper()
	p, err := o.cl.CreateProducer(client.ProducerOptions{
		Topic: name, SendTimeout: -1, // a goroutine that looks after it outlives Close
		BatchingMaxPublishDelay: time.Hour, BatchingMaxMessages: 1000,
	})
	require.NoError(t, err)
	defer p.Close()
	type receipt struct {
		id  client.MessageID
		err error
	}
	receipts := make(chan receipt, len(texts))
	for _, s := range texts {
		p.SendAsync(t.Context(), &client.ProducerMessage{Payload: []byte(s)}, func(id client.MessageID, _ *client.ProducerMessage, err error) {
			receipts <- receipt{id, err}
		})
	}
	require.NoError(t, p.FlushWithCtx(t.Context()))
	var first graphmill.MessageID
	for range texts {
		r := <-receipts
		require.NoError(t, r.err)
		first = graphmill.MessageID{Ledger: r.id.LedgerID(), Entry: r.id.EntryID()}
	}
	return first
}

func (o outside) config(topics ...string) pulsar.Config {
	return pulsar.Config{Stream: "orders", ServiceURL: o.url, Topics: topics, Subscription: "orders"}
}

// subscribe attaches a consumer as a Source would, or for itself alone.
func (o outside) subscribe(name string, kind client.SubscriptionType) (client.Consumer, error) {
	return o.cl.Subscribe(client.ConsumerOptions{
		Topic: name, SubscriptionName: "orders", Type: kind, ReceiverQueueSize: 1,
		SubscriptionInitialPosition: client.SubscriptionPositionEarliest,
	})
}

// comes returns what a consumer of the subscription gets, n messages and no more.
func (o outside) comes(t *testing.T, name string, n int) (texts []string) {
	t.Helper()
	c, err := o.subscribe(name, client.Failover)
	require.NoError(t, err)
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range n {
		m, err := c.Receive(ctx)
		require.NoError(t, err, "after %q", texts)
		texts = append(texts, string(m.Payload()))
	}
	return texts
}

// subscriptionFacts is what a broker tells of a subscription.
type subscriptionFacts struct {
	Backlog   int64  `json:"msgBacklog"`
	Type      string `json:"type"`
	Durable   bool   `json:"durable"`
	Consumers []struct {
		Name string `json:"consumerName"`
	} `json:"consumers"`
	cursor string
}

// subscriptions asks the admin interface for those of one partition.
func (o outside) subscriptions(t *testing.T, name string) map[string]subscriptionFacts {
	t.Helper()
	var stats struct {
		Subscriptions map[string]subscriptionFacts `json:"subscriptions"`
	}
	var internal struct {
		Cursors map[string]struct {
			MarkDelete string `json:"markDeletePosition"`
		} `json:"cursors"`
	}
	o.ask(t, name, "/stats?getPreciseBacklog=true", &stats)
	o.ask(t, name, "/internalStats", &internal)
	for sub, is := range stats.Subscriptions {
		is.cursor = internal.Cursors[sub].MarkDelete
		stats.Subscriptions[sub] = is
	}
	return stats.Subscriptions
}

func (o outside) ask(t *testing.T, name, what string, answer any) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, o.admin+"/admin/v2/"+strings.Replace(name, "://", "/", 1)+what, nil)
	require.NoError(t, err)
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.NoError(t, json.NewDecoder(resp.Body).Decode(answer))
}

// nextMillisecond returns a time behind all that has been published: publish times
// are whole milliseconds.
func nextMillisecond() time.Time {
	before := time.Now().UnixMilli()
	for {
		if now := time.Now(); now.UnixMilli() > before {
			return now
		}
		runtime.Gosched()
	}
}
