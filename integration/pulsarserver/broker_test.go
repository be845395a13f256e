package pulsarserver

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	plog "github.com/apache/pulsar-client-go/pulsar/log"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// A consumer of the Go client that is closed soon after it has come back to the
	// broker leaves the goroutine behind that would tell so.
	ignored := goleak.IgnoreTopFunction("github.com/apache/pulsar-client-go/pulsar.(*partitionConsumer).grabConn.func1")
	status := m.Run()
	// A request that the Go client repeats while it is closed ends with its operation
	// timeout only.
	err := goleak.Find(ignored)
	for deadline := time.Now().Add(2 * operationTimeout); err != nil && time.Now().Before(deadline); {
		err = goleak.Find(ignored)
	}
	if status == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = 1
	}
	os.Exit(status)
}

// operationTimeout is how long a client tries a request.
const operationTimeout = 20 * time.Second

// patience is how long a test waits for what must come.
const patience = time.Minute

// broker is one that the claims are tried on: this package's, or, in the
// end-to-end tests, the real one.
type broker struct {
	url, admin string
	token      string // of a role that may do everything; empty: none is asked for
}

// A claim is tried on this server and on the real one.
type claim struct {
	name string
	run  func(t *testing.T, b broker)
}

// claims are what the server does as Pulsar does. Each has topics of its own.
var claims = []claim{
	{"a subscription begins at the end or at the beginning", claimInitialPosition},
	{"what is sent arrives as it was: keys, properties, times, codecs, batches", claimVerbatim},
	{"what is not acknowledged comes again to the next consumer, in order", claimRedelivery},
	{"an entry that is acknowledged in part comes again whole", claimPartialBatch},
	{"positions and backlog show in the admin interface, in entries", claimAdminPositions},
	{"a second exclusive consumer is refused", claimExclusive},
	{"the active consumer of a topic is chosen by a hash of its name", claimFailoverTopic},
	{"the consumers of a partitioned topic share its partitions by name", claimFailoverPartitions},
	{"the next consumer gets everything that the active one has not acknowledged", claimTakeover},
	{"a message that is given back brings all that are not acknowledged, uncounted", claimNack},
	{"seek by id and by time", claimSeek},
	{"the last id, of a batch too", claimLastID},
	{"a reader begins where it is told", claimReader},
	{"a subscription ends, and begins anew", claimUnsubscribe},
	{"a pattern finds topics", claimPattern},
	{"new partitions have the subscriptions of the old ones", claimAddPartitions},
	{"a topic is deleted under its consumer and made anew", claimDelete},
	{"a namespace that does not exist", claimNoNamespace},
	{"the admin interface", claimAdmin},
	{"cumulative acknowledgement beyond the end", claimAckBeyondEnd},
	{"wire: a consumer is told whether it is active before it is told that it subscribes", claimActiveFirst},
	{"wire: a seek closes the active consumer before it is answered", claimSeekOrder},
	{"wire: commands about what does not exist", claimUnknown},
	{"wire: a topic deleted by force closes producers and consumers", claimDeleteCloses},
}

// authClaims are claims on a broker that asks for tokens.
var authClaims = []claim{
	{"wire: a wrong token is told, then the connection ends", claimWrongToken},
	{"the admin interface refuses a wrong token", claimAdminToken},
}

func TestClaimsOfThisServer(t *testing.T) {
	for _, claim := range claims {
		t.Run(claim.name, func(t *testing.T) {
			s := Start(t, Options{})
			claim.run(t, broker{url: s.URL(), admin: s.AdminURL()})
		})
	}
	for _, claim := range authClaims {
		t.Run(claim.name, func(t *testing.T) {
			s := Start(t, Options{})
			s.RequireTokens(map[string]string{"secret": "admin"})
			claim.run(t, broker{url: s.URL(), admin: s.AdminURL(), token: "secret"})
		})
	}
}

// connect makes a client that is closed when the test ends.
func connect(t *testing.T, b broker) pulsar.Client {
	t.Helper()
	options := pulsar.ClientOptions{
		URL:              b.url,
		OperationTimeout: operationTimeout,
		Logger:           plog.NewLoggerWithSlog(slog.New(slog.DiscardHandler)),
	}
	if b.token != "" {
		options.Authentication = pulsar.NewAuthenticationToken(b.token)
	}
	client, err := pulsar.NewClient(options)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}

// subscribe subscribes from the beginning, unless change says otherwise.
func subscribe(t *testing.T, client pulsar.Client, topic, name string, change ...func(*pulsar.ConsumerOptions)) pulsar.Consumer {
	t.Helper()
	options := pulsar.ConsumerOptions{
		Topic: topic, SubscriptionName: name, Type: pulsar.Failover, AckWithResponse: true,
		SubscriptionInitialPosition: pulsar.SubscriptionPositionEarliest,
	}
	for _, f := range change {
		f(&options)
	}
	c, err := client.Subscribe(options)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func produceTo(t *testing.T, client pulsar.Client, options pulsar.ProducerOptions) pulsar.Producer {
	t.Helper()
	options.SendTimeout = -1 // the goroutine of one outlives the producer
	p, err := client.CreateProducer(options)
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p
}

// send sends the texts one by one, without batching, and returns their ids.
func send(t *testing.T, client pulsar.Client, topic string, texts ...string) []pulsar.MessageID {
	t.Helper()
	p := produceTo(t, client, pulsar.ProducerOptions{Topic: topic, DisableBatching: true})
	defer p.Close()
	var ids []pulsar.MessageID
	for _, s := range texts {
		id, err := p.Send(t.Context(), &pulsar.ProducerMessage{Payload: []byte(s)})
		require.NoError(t, err)
		ids = append(ids, id)
	}
	return ids
}

// sendBatches sends the texts in batches of size.
func sendBatches(t *testing.T, client pulsar.Client, topic string, size int, texts ...string) {
	t.Helper()
	p := produceTo(t, client, pulsar.ProducerOptions{Topic: topic, BatchingMaxMessages: uint(size), BatchingMaxPublishDelay: time.Hour})
	defer p.Close()
	for _, s := range texts {
		p.SendAsync(t.Context(), &pulsar.ProducerMessage{Payload: []byte(s)}, func(_ pulsar.MessageID, _ *pulsar.ProducerMessage, err error) {
			if err != nil {
				t.Errorf("send %s: %v", s, err)
			}
		})
	}
	require.NoError(t, p.FlushWithCtx(t.Context()))
}

// take receives n messages.
func take(t *testing.T, c interface {
	Receive(context.Context) (pulsar.Message, error)
}, n int) (texts []string, messages []pulsar.Message) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for range n {
		m, err := c.Receive(ctx)
		require.NoError(t, err, "after %q", texts)
		texts, messages = append(texts, string(m.Payload())), append(messages, m)
	}
	return texts, messages
}

func numbered(from, to int) (texts []string) {
	for i := from; i < to; i++ {
		texts = append(texts, fmt.Sprint("m", i))
	}
	return texts
}

const publicDefault = "/admin/v2/persistent/public/default/"

// ask asks the admin interface; body and answer are JSON, or nil.
func ask(t *testing.T, b broker, method, path string, body, answer any) int {
	t.Helper()
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		require.NoError(t, err)
		content = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(t.Context(), method, b.admin+path, content)
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	if b.token != "" {
		r.Header.Set("Authorization", "Bearer "+b.token)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	if answer != nil {
		require.NoError(t, json.Unmarshal(text, answer), "%s", text)
	}
	return resp.StatusCode
}

// cursorOf returns what internalStats say of a subscription, and the last entry.
func cursorOf(t *testing.T, b broker, topic, name string) (cursor cursorStats, last string) {
	t.Helper()
	var st internalStats
	require.Equal(t, http.StatusOK, ask(t, b, "GET", publicDefault+topic+"/internalStats", nil, &st))
	require.Contains(t, st.Cursors, name)
	return st.Cursors[name], st.LastConfirmedEntry
}

func statsOf(t *testing.T, b broker, topic, name string) subscriptionStats {
	t.Helper()
	var st topicStats
	require.Equal(t, http.StatusOK, ask(t, b, "GET", publicDefault+topic+"/stats?getPreciseBacklog=true&subscriptionBacklogSize=true", nil, &st))
	require.Contains(t, st.Subscriptions, name)
	return st.Subscriptions[name]
}

func createTopic(t *testing.T, b broker, topic string, partitions int) {
	t.Helper()
	if partitions == 0 {
		require.Equal(t, http.StatusNoContent, ask(t, b, "PUT", publicDefault+topic, nil, nil))
		return
	}
	require.Equal(t, http.StatusNoContent, ask(t, b, "PUT", publicDefault+topic+"/partitions", partitions, nil))
}
