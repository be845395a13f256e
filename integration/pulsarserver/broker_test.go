package pulsarserver_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	plog "github.com/apache/pulsar-client-go/pulsar/log"
	"github.com/graphmill/graphmill/integration/pulsarserver"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must come.
const patience = time.Minute

// connect makes a client that is closed when the test ends.
func connect(t *testing.T, url string, auth pulsar.Authentication) pulsar.Client {
	t.Helper()
	client, err := pulsar.NewClient(pulsar.ClientOptions{
		URL: url, Authentication: auth,
		OperationTimeout: patience,
		Logger:           plog.NewLoggerWithSlog(slog.New(slog.DiscardHandler)),
	})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}

// send sends the texts one by one, without batching, and returns their ids. A
// producer without a time limit has no goroutine that outlives it.
func send(t *testing.T, client pulsar.Client, topic string, texts ...string) []pulsar.MessageID {
	t.Helper()
	p, err := client.CreateProducer(pulsar.ProducerOptions{Topic: topic, DisableBatching: true, SendTimeout: -1})
	require.NoError(t, err)
	defer p.Close()
	var out []pulsar.MessageID
	for _, s := range texts {
		id, err := p.Send(t.Context(), &pulsar.ProducerMessage{Payload: []byte(s)})
		require.NoError(t, err)
		out = append(out, id)
	}
	return out
}

// take receives n messages and returns their payloads.
func take(t *testing.T, c pulsar.Consumer, n int) (texts []string, messages []pulsar.Message) {
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

func TestWhatIsNotAcknowledgedComesAgain(t *testing.T) {
	s := pulsarserver.Start(t, pulsarserver.Options{})
	client := connect(t, s.URL(), nil)
	c, err := client.Subscribe(pulsar.ConsumerOptions{Topic: "t", SubscriptionName: "s", Type: pulsar.Failover, AckWithResponse: true})
	require.NoError(t, err)
	send(t, client, "t", numbered(0, 10)...)
	texts, messages := take(t, c, 10)
	require.Equal(t, numbered(0, 10), texts)
	require.NoError(t, c.AckIDCumulative(messages[4].ID()))
	require.NoError(t, c.AckID(messages[6].ID()))
	state, ok := s.Subscription("t", "s")
	require.True(t, ok)
	require.Equal(t, 4, state.Backlog)
	c.Close()
	c, err = client.Subscribe(pulsar.ConsumerOptions{Topic: "t", SubscriptionName: "s", Type: pulsar.Failover})
	require.NoError(t, err)
	texts, _ = take(t, c, 4)
	require.Equal(t, []string{"m5", "m7", "m8", "m9"}, texts)
	c.Close()
}
