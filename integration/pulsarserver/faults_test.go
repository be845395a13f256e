package pulsarserver

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	plog "github.com/apache/pulsar-client-go/pulsar/log"
	"github.com/stretchr/testify/require"
)

// start starts a server with hooks, and a client of it.
func start(t *testing.T, opts Options) (*Server, broker, pulsar.Client) {
	t.Helper()
	s := Start(t, opts)
	b := broker{url: s.URL(), admin: s.AdminURL()}
	return s, b, connect(t, b)
}

func TestCutConnectionsComeBackAndGetWhatIsNotAcknowledged(t *testing.T) {
	s, _, client := start(t, Options{})
	send(t, client, "t", numbered(0, 4)...)
	c := subscribe(t, client, "t", "s")
	_, messages := take(t, c, 4)
	require.NoError(t, c.AckID(messages[0].ID()))
	before := s.Connections()
	require.NotEmpty(t, before)
	s.CutConnections()
	texts, _ := take(t, c, 3)
	require.Equal(t, numbered(1, 4), texts)
	require.Eventually(t, func() bool {
		now := s.Connections() // the old ones go when their goroutines do
		return len(now) > 0 && now[0] > before[len(before)-1]
	}, patience, time.Millisecond)
}

func TestStoppedServerGoesOnWhereItWas(t *testing.T) {
	s, b, client := start(t, Options{})
	ids := send(t, client, "t", numbered(0, 4)...)
	c := subscribe(t, client, "t", "s")
	_, messages := take(t, c, 4)
	require.NoError(t, c.AckIDCumulative(messages[1].ID()))
	url, admin := s.URL(), s.AdminURL()
	s.Stop()
	require.Empty(t, s.Connections())
	_, err := http.Get(admin + "/admin/v2/brokers/health")
	require.Error(t, err)
	require.NoError(t, s.Listen())
	require.NoError(t, s.Listen(), "twice is no error")
	require.Equal(t, url, s.URL())
	require.Equal(t, admin, s.AdminURL())
	texts, _ := take(t, c, 2)
	require.Equal(t, numbered(2, 4), texts)
	again := send(t, client, "t", "m4")
	require.Greater(t, again[0].LedgerID(), ids[3].LedgerID())
	require.EqualValues(t, 0, again[0].EntryID())
	texts, messages = take(t, c, 1)
	require.Equal(t, numbered(4, 5), texts)
	require.NoError(t, c.AckIDCumulative(messages[0].ID()))
	require.Zero(t, statsOf(t, b, "t", "s").MsgBacklog)
	require.Equal(t, []MessageID{{1, 0}, {1, 1}, {1, 2}, {1, 3}, {2, 0}}, s.Entries("t"))
	s.Close()
	require.Error(t, s.Listen(), "closed is closed")
}

func TestFrozenServerAnswersWhenItThaws(t *testing.T) {
	s, b, client := start(t, Options{})
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	c := subscribe(t, client, "t", "s")
	thaw := s.Freeze()
	done := make(chan error, 2)
	go func() {
		_, err := client.TopicPartitions("t")
		done <- err
	}()
	go func() {
		resp, err := http.Get(b.admin + "/admin/v2/brokers/health")
		if err == nil {
			resp.Body.Close()
		}
		done <- err
	}()
	select {
	case err := <-done:
		t.Fatalf("answered: %v", err)
	case <-time.After(50 * time.Millisecond): // a server that is slow passes; one that answers fails most of the time
	}
	thaw()
	thaw()
	require.NoError(t, <-done)
	require.NoError(t, <-done)
	send(t, client, "t", "m0")
	take(t, c, 1)
}

func TestFrozenServerCanBeClosed(t *testing.T) {
	s := Start(t, Options{})
	w := login(t, broker{url: s.URL()})
	s.Freeze()
	w.send("type: PING ping {}", nil)
	s.Close()
	w.ended()
}

func TestHooksOfAcknowledgements(t *testing.T) {
	var reply atomic.Pointer[Reply]
	var asked sync.Map
	s, b, client := start(t, Options{Hooks: Hooks{OnCommand: func(c Command) Reply {
		asked.Store(c.Type, c)
		if r := reply.Load(); r != nil && c.Type == "ACK" {
			return *r
		}
		return Reply{}
	}}})
	ids := send(t, client, "t", numbered(0, 6)...)
	c := subscribe(t, client, "t", "s", func(o *pulsar.ConsumerOptions) { o.Name = "me" })
	_, messages := take(t, c, 6)

	refused := Fail("PersistenceError", "the disk is full")
	reply.Store(&refused)
	err := c.AckIDCumulative(messages[0].ID())
	require.ErrorContains(t, err, "PersistenceError: the disk is full")
	require.Empty(t, s.Acks())
	require.Equal(t, 6, statsOf(t, b, "t", "s").MsgBacklog)

	held := make(chan struct{})
	reply.Store(&Reply{Wait: held})
	done := make(chan error, 1)
	go func() { done <- c.AckIDCumulative(messages[1].ID()) }()
	require.Eventually(t, func() bool {
		cmd, ok := asked.Load("ACK")
		return ok && cmd.(Command).IDs[0].Entry == 1
	}, patience, time.Millisecond)
	require.Equal(t, 6, statsOf(t, b, "t", "s").MsgBacklog)
	close(held)
	require.NoError(t, <-done)
	require.Equal(t, 4, statsOf(t, b, "t", "s").MsgBacklog)

	reply.Store(nil)
	require.NoError(t, c.AckID(messages[3].ID()))
	ack := Ack{Topic: "persistent://public/default/t", Subscription: "s", Consumer: "me"}
	one, two := ack, ack
	one.IDs, one.Cumulative = []MessageID{{ids[1].LedgerID(), 1}}, true
	two.IDs = []MessageID{{ids[3].LedgerID(), 3}}
	require.Equal(t, []Ack{one, two}, s.Acks())
	cmd, _ := asked.Load("ACK")
	require.Equal(t, Command{
		Type: "ACK", Connection: s.Connections()[0],
		Topic: ack.Topic, Subscription: "s", Consumer: "me", IDs: two.IDs,
	}, cmd)

	// Done, but never answered: the client hears of it by its connection's end.
	reply.Store(&Reply{Cut: CutAfter})
	require.Error(t, c.AckIDCumulative(messages[4].ID()))
	reply.Store(nil)
	texts, _ := take(t, c, 1)
	require.Equal(t, []string{"m5"}, texts)
	var state SubscriptionState
	require.Eventually(t, func() bool {
		state, _ = s.Subscription("t", "s")
		return len(state.Consumers) == 1 // the one of the old connection goes when its goroutine does
	}, patience, time.Millisecond)
	require.Equal(t, SubscriptionState{
		Topic: ack.Topic, Name: "s", Type: Failover, Durable: true, MarkDelete: MessageID{ids[0].LedgerID(), 4}, Backlog: 1,
		Consumers: state.Consumers,
	}, state)
	require.True(t, state.Consumers[0].Active)
	require.Equal(t, []SubscriptionState{state}, s.Subscriptions())
}

func TestAcknowledgementWithoutAnswer(t *testing.T) {
	for name, reply := range map[string]Reply{"done": {NoAnswer: true}, "not done": {Ignore: true}} {
		t.Run(name, func(t *testing.T) {
			s := Start(t, Options{Hooks: Hooks{OnCommand: func(c Command) Reply {
				if c.Type == "ACK" {
					return reply
				}
				return Reply{}
			}}})
			b := broker{url: s.URL()}
			createTopicAt(t, s, "t", 0)
			w := login(t, b)
			w.send(subscribeText("t", "Exclusive", "a", 1, 1), nil)
			w.expect("SUCCESS")
			send(t, connect(t, b), "t", "m0")
			w.send(`type: ACK ack { consumer_id: 1 ack_type: Individual request_id: 2 message_id { ledgerId: 1 entryId: 0 } }`, nil)
			w.settle()
			state, _ := s.Subscription("t", "s")
			require.Equal(t, reply.Ignore, state.Backlog == 1)
		})
	}
}

func TestConnectionThatIsCutAfterSomeMessages(t *testing.T) {
	for cut, want := range map[Cut]int{CutBefore: 2, CutAfter: 3} {
		var delivered atomic.Int32
		s, b, client := start(t, Options{Hooks: Hooks{OnDeliver: func(d Delivery) Cut {
			if delivered.Add(1) == 3 && d.Messages == 1 && d.ID.Entry == 2 && d.Consumer == "a" {
				return cut
			}
			return CutNever
		}}})
		send(t, client, "t", numbered(0, 6)...)
		w := login(t, b)
		w.send(subscribeText("t", "Exclusive", "a", 1, 1), nil)
		w.expect("SUCCESS")
		w.send(`type: FLOW flow { consumer_id: 1 messagePermits: 100 }`, nil)
		for range want {
			w.expect("MESSAGE")
		}
		w.ended()
		require.Eventually(t, func() bool {
			state, _ := s.Subscription("t", "s")
			return len(state.Consumers) == 0
		}, patience, time.Millisecond)
		texts, _ := take(t, subscribe(t, client, "t", "s"), 6)
		require.Equal(t, numbered(0, 6), texts)
	}
}

func TestEncryptedPorts(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	s := Start(t, Options{TLS: &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}})
	require.Regexp(t, `^pulsar\+ssl://127\.0\.0\.1:\d+$`, s.URL())
	require.Regexp(t, `^https://127\.0\.0\.1:\d+$`, s.AdminURL())
	ca := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	client, err := pulsar.NewClient(pulsar.ClientOptions{
		URL: s.URL(), TLSTrustCertsFilePath: ca, TLSValidateHostname: true,
		Logger: plog.NewLoggerWithSlog(slog.New(slog.DiscardHandler)),
	})
	require.NoError(t, err)
	defer client.Close()
	send(t, client, "t", "m0")
	c := subscribe(t, client, "t", "s")
	take(t, c, 1)
	c.Close()

	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	web := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true}}
	resp, err := web.Get(s.AdminURL() + "/admin/v2/brokers/health")
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, 200, resp.StatusCode)
}

func TestRolesAreRefused(t *testing.T) {
	s := Start(t, Options{})
	s.RequireTokens(map[string]string{"w": "writer", "r": "reader", "n": "nobody", "a": "admin"})
	s.Authorize(func(role, topic string, action Action) bool {
		return role == "admin" || role == "writer" && action == Produce || role == "reader" && action == Consume
	})
	as := func(token string) broker { return broker{url: s.URL(), admin: s.AdminURL(), token: token} }
	createTopicAt(t, s, "t", 0)
	options := pulsar.ConsumerOptions{Topic: "t", SubscriptionName: "s", SubscriptionInitialPosition: pulsar.SubscriptionPositionEarliest}
	_, err := connect(t, as("n")).Subscribe(options)
	require.ErrorContains(t, err, "AuthorizationError")
	_, err = connect(t, as("w")).Subscribe(options)
	require.ErrorContains(t, err, "AuthorizationError: Client is not authorized to subscribe")
	_, err = connect(t, as("r")).CreateProducer(pulsar.ProducerOptions{Topic: "t", SendTimeout: -1})
	require.ErrorContains(t, err, "AuthorizationError: Client is not authorized to Produce")
	send(t, connect(t, as("w")), "t", "m0")
	c, err := connect(t, as("r")).Subscribe(options)
	require.NoError(t, err)
	take(t, c, 1)
	c.Close()

	const health, list, stats = "/admin/v2/brokers/health", "/admin/v2/namespaces/public/default/topics", publicDefault + "t/stats"
	for _, want := range []struct {
		token, method, path string
		status              int
	}{
		{"a", "GET", health, 200}, {"r", "GET", health, 401}, {"x", "GET", health, 401},
		{"a", "GET", list, 200}, {"r", "GET", list, 200}, {"n", "GET", list, 403},
		{"r", "GET", stats, 200}, {"n", "GET", stats, 401},
		{"r", "DELETE", publicDefault + "t/subscription/s", 204}, {"n", "DELETE", publicDefault + "t/subscription/s", 401},
		{"r", "PUT", publicDefault + "u", 403}, {"a", "PUT", publicDefault + "u", 204},
	} {
		require.Equal(t, want.status, ask(t, as(want.token), want.method, want.path, nil, nil), want)
	}
}

func TestTopicsThatAreNotMadeByTheirUse(t *testing.T) {
	s, b, client := start(t, Options{NoAutoCreate: true, Namespaces: []string{"a/b", DefaultNamespace}})
	_, err := client.Subscribe(pulsar.ConsumerOptions{Topic: "t", SubscriptionName: "s"})
	require.EqualError(t, err, "TopicNotFound")
	_, err = client.CreateProducer(pulsar.ProducerOptions{Topic: "t", SendTimeout: -1})
	require.EqualError(t, err, "TopicNotFound")
	require.NoError(t, s.CreateTopic("a/b/t", 2))
	require.Error(t, s.CreateTopic("persistent://a/b/t", 2), "twice")
	require.Error(t, s.CreateTopic("x/y/t", 2), "no such namespace")
	require.Error(t, s.CreateTopic("x/y", 0))
	require.Error(t, s.CreateTopic("t", -1))
	require.Error(t, s.AddPartitions("a/b/t", 2))
	require.Error(t, s.AddPartitions("t", 2))
	require.NoError(t, s.AddPartitions("a/b/t", 3))
	require.Equal(t, []string{"persistent://a/b/t-partition-0", "persistent://a/b/t-partition-1", "persistent://a/b/t-partition-2"}, s.Topics())
	send(t, client, "a/b/t-partition-2", "m0")
	take(t, subscribe(t, client, "a/b/t", "s"), 1)
	require.Equal(t, 200, ask(t, b, "GET", "/admin/v2/persistent/a/b/t/partitioned-stats", nil, nil))
	require.NoError(t, s.DeleteTopic("a/b/t"))
	require.Error(t, s.DeleteTopic("a/b/t"))
	require.Empty(t, s.Topics())
}

func TestTopicsThatAreMadeWithPartitions(t *testing.T) {
	s, _, client := start(t, Options{AutoPartitions: 2})
	parts, err := client.TopicPartitions("t")
	require.NoError(t, err)
	require.Len(t, parts, 2)
	require.Len(t, s.Topics(), 2)
}

func TestAdminInterfaceThatFails(t *testing.T) {
	s, b, _ := start(t, Options{Hooks: Hooks{OnAdmin: func(r *http.Request) int {
		if r.URL.Path == "/admin/v2/brokers/health" {
			return http.StatusServiceUnavailable
		}
		return 0
	}}})
	require.Equal(t, 503, ask(t, b, "GET", "/admin/v2/brokers/health", nil, nil))
	require.Equal(t, 200, ask(t, b, "GET", "/admin/v2/namespaces/public", nil, nil))
	s.SetHooks(Hooks{})
	require.Equal(t, 200, ask(t, b, "GET", "/admin/v2/brokers/health", nil, nil))
}

func TestConnectIsRefusedByAHook(t *testing.T) {
	s := Start(t, Options{Hooks: Hooks{OnCommand: func(c Command) Reply {
		return Fail("ServiceNotReady", fmt.Sprint(c.Type, " ", c.Connection))
	}}})
	w := dial(t, broker{url: s.URL()})
	w.send(connectText(""), nil)
	require.Equal(t, "CONNECT 1", w.expect("ERROR").get("error").text("message"))
	w.ended()
}

func createTopicAt(t *testing.T, s *Server, topic string, partitions int) {
	t.Helper()
	require.NoError(t, s.CreateTopic(topic, partitions))
}
