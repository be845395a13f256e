//go:build e2e

package stack

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	pulsarlog "github.com/apache/pulsar-client-go/pulsar/log"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

func TestPulsarServesIsKilledGoesOnAndLeavesNothing(t *testing.T) {
	tmp := filepath.Join(t.TempDir(), "a b, c#d%20é") // Pulsar makes URLs and lists of paths
	require.NoError(t, os.Mkdir(tmp, 0o700))
	t.Setenv("TMPDIR", tmp)
	p, err := StartPulsar(t.Context(), PulsarConfig{Log: os.Stderr, BatchIndexAck: true, Settings: map[string]string{"maxMessageSize": "1000000"}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })

	var settings map[string]string
	require.NoError(t, p.Admin(t.Context(), http.MethodGet, "/admin/v2/brokers/configuration/runtime", nil, &settings))
	require.Equal(t, "1000000", settings["maxMessageSize"], "the setting was taken")
	require.Equal(t, "true", settings["acknowledgmentAtBatchIndexLevelEnabled"])
	require.Equal(t, "0", settings["activeConsumerFailoverDelayTimeMillis"])

	t.Run("admin", func(t *testing.T) { testPulsarAdmin(t, p) })

	require.NoError(t, p.CreateTopic(t.Context(), "numbers", 2))
	client := pulsarClient(t, pulsar.ClientOptions{URL: p.ServiceURL()})
	consumer, err := subscribe(client, "numbers")
	require.NoError(t, err)
	producer, err := client.CreateProducer(pulsar.ProducerOptions{Topic: "numbers", DisableBatching: true,
		SendTimeout: -1}) // the goroutine that looks after it outlives Close
	require.NoError(t, err)
	for i := range 100 {
		_, err := producer.Send(t.Context(), &pulsar.ProducerMessage{Payload: fmt.Append(nil, i)})
		require.NoError(t, err)
	}
	require.Len(t, receive(t, consumer, 100), 100)
	stats, err := p.Stats(t.Context(), "numbers")
	require.NoError(t, err)
	require.EqualValues(t, 100, stats.Subscriptions["readers"].Backlog, "received, not acknowledged")
	require.Len(t, stats.Partitions, 2)
	require.Len(t, stats.Partitions["persistent://public/default/numbers-partition-1"].Subscriptions["readers"].Consumers, 1)
	client.Close()

	pid := p.PID()
	require.NoError(t, p.Kill())
	require.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH)
	require.NoError(t, p.Restart(t.Context()))
	requireBookieStays(t, p)
	names, err := p.Subscriptions(t.Context(), "numbers")
	require.NoError(t, err)
	require.Equal(t, []string{"readers"}, names)
	client = pulsarClient(t, pulsar.ClientOptions{URL: p.ServiceURL()})
	again, err := subscribe(client, "numbers")
	require.NoError(t, err)
	require.Len(t, receive(t, again, 100), 100, "what was there before the kill")
	client.Close() // once the broker is gone, it would wait 30 s for its answer

	pid = p.PID()
	require.NoError(t, p.Close())
	require.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH)
	requireEmptyDir(t, tmp)
}

// requireBookieStays looks for signs that the bookie registers itself again and again,
// as one does that finds the registration of the one that was killed: topics cannot be
// made whenever it is away.
func requireBookieStays(t *testing.T, p *Pulsar) {
	t.Helper()
	for i := range 20 {
		require.NoError(t, p.CreateTopic(t.Context(), fmt.Sprintf("after-%d", i), 0))
	}
	log, err := os.ReadFile(p.LogFile())
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(string(log), "Acquired resource lock on /ledgers/available/"))
}

func testPulsarAdmin(t *testing.T, p *Pulsar) {
	ctx := t.Context()
	requireStatus := func(err error, status int) {
		t.Helper()
		var refused *AdminError
		require.ErrorAs(t, err, &refused)
		require.Equal(t, status, refused.Status, err)
		require.NotEmpty(t, refused.Reason)
	}
	require.NoError(t, p.CreateNamespace(ctx, "shop/orders"), "and its tenant")
	requireStatus(p.CreateNamespace(ctx, "shop/orders"), http.StatusConflict)
	requireStatus(p.CreateTopic(ctx, "shop/none/new", 0), http.StatusNotFound)

	for partitions, topic := range []string{"shop/orders/plain", "persistent://shop/orders/of-one", "shop/orders/of-two"} {
		require.NoError(t, p.CreateTopic(ctx, topic, partitions))
		requireStatus(p.CreateTopic(ctx, topic, partitions), http.StatusConflict)
		got, err := p.Partitions(ctx, topic)
		require.NoError(t, err)
		require.Equal(t, partitions, got)
		stats, err := p.Stats(ctx, topic)
		require.NoError(t, err)
		require.Empty(t, stats.Subscriptions)
		require.Len(t, stats.Partitions, partitions)
	}
	require.NoError(t, p.ExpandTopic(ctx, "shop/orders/of-one", 3))
	got, err := p.Partitions(ctx, "shop/orders/of-one")
	require.NoError(t, err)
	require.Equal(t, 3, got)

	client := pulsarClient(t, pulsar.ClientOptions{URL: p.ServiceURL()})
	for _, topic := range []string{"shop/orders/plain", "shop/orders/of-one"} {
		_, err := subscribe(client, topic)
		require.NoError(t, err)
		require.NoError(t, p.DeleteTopic(ctx, topic), "with a consumer connected")
	}
	client.Close()
	requireStatus(p.DeleteTopic(ctx, "shop/orders/none"), http.StatusNotFound)
}

func TestPulsarAsksWhoAClientIsAndWhatItMay(t *testing.T) {
	p, err := StartPulsar(t.Context(), PulsarConfig{Dir: filepath.Join(t.TempDir(), "a b, c"), Log: os.Stderr, Token: true, TLS: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	require.NoError(t, p.CreateTopic(t.Context(), "guarded", 0))

	with := func(url string, auth pulsar.Authentication) pulsar.ClientOptions {
		return pulsar.ClientOptions{URL: url, Authentication: auth, TLSTrustCertsFilePath: p.CAFile(), TLSValidateHostname: true}
	}
	mayRead := func(options pulsar.ClientOptions) error {
		client := pulsarClient(t, options)
		defer client.Close()
		_, err := subscribe(client, "guarded")
		return err
	}
	token := func(role string) pulsar.Authentication { return pulsar.NewAuthenticationToken(p.Token(role)) }
	certificate := func(file string) pulsar.Authentication { return pulsar.NewAuthenticationTLS(file, file) }

	require.NoError(t, mayRead(with(p.ServiceURL(), token(PulsarSuperuser))))
	require.NoError(t, mayRead(with(p.TLSServiceURL(), token(PulsarSuperuser))))

	// Each try takes its time on the network, and so does what the broker keeps in
	// mind.
	try := func(what string, ok func() bool) {
		t.Helper()
		for begin := time.Now(); !ok(); {
			require.Less(t, time.Since(begin), time.Minute, what)
		}
	}

	// The client tells only its log why it is not let in, and tries again until
	// its operation times out.
	foreign := with(p.TLSServiceURL(), token(PulsarSuperuser))
	foreign.TLSTrustCertsFilePath = p.ForeignCAFile()
	for name, tc := range map[string]struct {
		options pulsar.ClientOptions
		why     string
	}{
		"no token":                   {with(p.ServiceURL(), nil), "Failed to authenticate"},
		"token of another key":       {with(p.ServiceURL(), pulsar.NewAuthenticationToken(signToken("another key", PulsarSuperuser))), "Failed to authenticate"},
		"certificate nobody trusts":  {with(p.TLSServiceURL(), certificate(p.ForeignClientFile())), "Failed to authenticate"},
		"broker that is not trusted": {foreign, "certificate signed by unknown authority"},
	} {
		log := &buffer{}
		tc.options.Logger = pulsarlog.NewLoggerWithSlog(slog.New(slog.NewTextHandler(log, nil)))
		tc.options.OperationTimeout = time.Second
		try(name, func() bool {
			require.Error(t, mayRead(tc.options), name)
			return strings.Contains(strings.Join(log.lines(), "\n"), tc.why)
		})
	}

	for role, options := range map[string]pulsar.ClientOptions{
		"reader":         with(p.ServiceURL(), token("reader")),
		PulsarClientRole: with(p.TLSServiceURL(), certificate(p.ClientFile())),
	} {
		require.ErrorContains(t, mayRead(options), "AuthorizationError", role)
		require.NoError(t, p.Grant(t.Context(), "public/default", role, "consume"))
		try("right given to "+role, func() bool { return mayRead(options) == nil })
		require.NoError(t, p.Grant(t.Context(), "public/default", role))
		try("right taken from "+role, func() bool {
			err := mayRead(options)
			return err != nil && strings.Contains(err.Error(), "AuthorizationError")
		})
	}

	require.NoError(t, p.Restart(t.Context()))
	require.NoError(t, mayRead(with(p.ServiceURL(), token(PulsarSuperuser))), "the key is that of before")
}

func TestPulsarThatCannotStartShowsWhy(t *testing.T) {
	_, err := StartPulsar(t.Context(), PulsarConfig{Settings: map[string]string{"clusterName": ""}})
	require.ErrorContains(t, err, "pulsar ended while it was starting")
	require.ErrorContains(t, err, "clusterName")
}

// pulsarClient makes a client that ends with the test. Unless options say
// otherwise, it writes no log.
func pulsarClient(t *testing.T, options pulsar.ClientOptions) pulsar.Client {
	t.Helper()
	if options.Logger == nil {
		options.Logger = pulsarlog.DefaultNopLogger()
	}
	options.MetricsRegisterer = prometheus.NewRegistry()
	client, err := pulsar.NewClient(options)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}

// subscribe opens the Failover subscription "readers" at a topic's beginning.
func subscribe(client pulsar.Client, topic string) (pulsar.Consumer, error) {
	return client.Subscribe(pulsar.ConsumerOptions{
		Topic: topic, SubscriptionName: "readers", Type: pulsar.Failover, SubscriptionInitialPosition: pulsar.SubscriptionPositionEarliest,
	})
}

// receive takes n different messages and acknowledges none.
func receive(t *testing.T, consumer pulsar.Consumer, n int) map[string]bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	payloads := map[string]bool{}
	for range n {
		message, err := consumer.Receive(ctx)
		require.NoError(t, err)
		payloads[string(message.Payload())] = true
	}
	return payloads
}
