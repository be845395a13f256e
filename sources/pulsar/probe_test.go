package pulsar_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	client "github.com/apache/pulsar-client-go/pulsar"
	pulsarlog "github.com/apache/pulsar-client-go/pulsar/log"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/integration/pulsarserver"
	"github.com/graphmill/graphmill/sources/clientcert/certtest"
	"github.com/graphmill/graphmill/sources/pulsar"
)

// settingsOf parses settings that must be right.
func settingsOf(t *testing.T, configs m) pulsar.ClientSettings {
	t.Helper()
	s, _, err := pulsar.ParseConfigs(configs, nil, nil)
	require.NoError(t, err)
	return s
}

// probe looks for topics, waiting for long enough that what is steady is told.
func probe(t *testing.T, url string, configs m, topics ...string) error {
	t.Helper()
	return probeWith(t, url, settingsOf(t, configs), topics...)
}

func probeWith(t *testing.T, url string, settings pulsar.ClientSettings, topics ...string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	return pulsar.Probe(ctx, pulsar.Config{ServiceURL: url, Topics: topics, Subscription: "s", Client: settings})
}

func tlsOf(p certtest.Pair) *tls.Config { return &tls.Config{Certificates: []tls.Certificate{p.TLS()}} }

// addr is host:port of a server.
func addr(s *pulsarserver.Server) string {
	_, at, _ := strings.Cut(s.URL(), "://")
	return at
}

func create(t *testing.T, s *pulsarserver.Server, topic string, partitions int) {
	t.Helper()
	require.NoError(t, s.CreateTopic(topic, partitions))
}

// count counts the subscriptions of a name, or all, of all partitions.
func count(s *pulsarserver.Server, name string) int {
	n := 0
	for _, sub := range s.Subscriptions() {
		if name == "" || sub.Name == name {
			n++
		}
	}
	return n
}

// subscribed makes the subscription "s" of topics with the real client.
func subscribed(t *testing.T, s *pulsarserver.Server, topics ...string) (leave func()) {
	t.Helper()
	cl, err := client.NewClient(client.ClientOptions{URL: s.URL(), Logger: pulsarlog.NewLoggerWithSlog(slog.New(slog.DiscardHandler)), MetricsRegisterer: prometheus.NewRegistry()})
	require.NoError(t, err)
	for _, topic := range topics {
		_, err := cl.Subscribe(client.ConsumerOptions{Topic: topic, SubscriptionName: "s", Type: client.Failover})
		require.NoError(t, err)
	}
	return cl.Close
}

func TestProbeFindsTopicsAndMakesNothing(t *testing.T) {
	s := pulsarserver.Start(t, pulsarserver.Options{})
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	create(t, s, "plain", 0)
	create(t, s, "parted", 3)
	require.NoError(t, probe(t, s.URL(), nil, "plain", "persistent://public/default/parted"))
	require.Eventually(t, func() bool { return count(s, "") == 0 }, time.Minute, time.Millisecond, "a look leaves no subscription")
	for _, pattern := range []string{"pl.*", "nothing.*"} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.NoError(t, pulsar.Probe(ctx, pulsar.Config{ServiceURL: s.URL(), Pattern: pattern, Subscription: "s"}), "what a pattern matches may come")
	}
}

func TestProbeTellsWhatStandsInTheWay(t *testing.T) {
	const there = "there"
	tokens := map[string]string{"good": "reader", "poor": "nobody"}
	plain := func(t *testing.T) *pulsarserver.Server {
		s := pulsarserver.Start(t, pulsarserver.Options{NoAutoCreate: true})
		create(t, s, there, 2)
		return s
	}
	secured := func(t *testing.T) *pulsarserver.Server {
		s := plain(t)
		s.RequireTokens(tokens)
		s.Authorize(func(role, _ string, action pulsarserver.Action) bool {
			return role == "reader" || role == "nobody" && action == pulsarserver.Produce
		})
		return s
	}
	failing := func(command, code, text string) func(*testing.T) *pulsarserver.Server {
		return func(t *testing.T) *pulsarserver.Server {
			s := plain(t)
			s.SetHooks(pulsarserver.Hooks{OnCommand: func(c pulsarserver.Command) pulsarserver.Reply {
				if c.Type == command {
					return pulsarserver.Fail(code, text)
				}
				return pulsarserver.Reply{}
			}})
			return s
		}
	}
	for _, c := range []struct {
		name   string
		server func(*testing.T) *pulsarserver.Server
		config m
		topic  string
		class  graphmill.FaultClass
		code   string
		says   string
	}{
		{"a topic that is absent", plain, nil, "absent", graphmill.FaultTransient, "topic_absent", "persistent://public/default/absent"},
		{"a namespace that is absent", plain, nil, "persistent://public/none/t", graphmill.FaultSetup, "namespace_absent", "namespace"},
		{"a login that is wanted", secured, nil, there, graphmill.FaultSetup, "auth", "wants a login"},
		{"a wrong token", secured, m{"token": planted}, there, graphmill.FaultSetup, "auth", "bearer of the token"},
		{"a role that may not read", secured, m{"token": "poor"}, there, graphmill.FaultSetup, "forbidden", "consume topic"},
		{"a limit of the broker", failing("SUBSCRIBE", "ConsumerBusy", "Topic reached max consumers limit"), nil, there, graphmill.FaultTransient, "quota", "limit"},
		{"a topic that has ended", failing("SUBSCRIBE", "TopicTerminatedError", ""), nil, there, graphmill.FaultSetup, "topic_terminated", "terminated"},
		{"a broker that is too old", failing("SUBSCRIBE", "UnsupportedVersionError", ""), nil, there, graphmill.FaultSetup, "not_supported", "know how"},
		{"a schema", failing("SUBSCRIBE", "IncompatibleSchema", ""), nil, there, graphmill.FaultSetup, "schema", "schema"},
		{"a name that the broker refuses", failing("PARTITIONED_METADATA", "InvalidTopicName", ""), nil, there, graphmill.FaultSetup, "topic_name", "name"},
		{"an error of the metadata", failing("LOOKUP", "MetadataError", "store away"), nil, there, graphmill.FaultTransient, "broker_error", "MetadataError"},
		{"a broker that is not ready", failing("CONNECT", "ServiceNotReady", "starting"), nil, there, graphmill.FaultTransient, "broker_error", "ServiceNotReady"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			err := probe(t, c.server(t).URL(), c.config, there, c.topic)
			var f *graphmill.Fault
			require.ErrorAs(t, err, &f)
			require.Equal(t, c.code, f.Code, "%v", err)
			require.Equal(t, c.class, f.Class)
			require.Contains(t, f.Text, c.says)
			require.NotContains(t, err.Error()+f.Next, planted)
			require.LessOrEqual(t, strings.Count(err.Error(), "the broker refuses the login"), 1, "said once: %v", err)
		})
	}
}

func TestProbeTellsWhatIsWrongWithTLS(t *testing.T) {
	a, foreign := certtest.NewAuthority(t), certtest.NewAuthority(t)
	own := a.Issue(nil)
	misnamed := a.Issue(func(c *x509.Certificate) { c.IPAddresses = nil; c.DNSNames = []string{"elsewhere"} })
	old := a.Issue(func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })
	ca := m{"tlsTrustCerts": a.PEM}
	with := func(more m) m {
		for k, v := range ca {
			more[k] = v
		}
		return more
	}
	server := func(p certtest.Pair, clients *certtest.Authority) *tls.Config {
		cfg := &tls.Config{Certificates: []tls.Certificate{p.TLS()}}
		if clients != nil {
			cfg.ClientAuth, cfg.ClientCAs = tls.RequireAndVerifyClientCert, clients.Pool()
		}
		return cfg
	}
	for _, c := range []struct {
		name   string
		server *tls.Config
		scheme string
		config m
		class  graphmill.FaultClass
		code   string // empty: all is well
	}{
		{"all is well", server(own, nil), "pulsar+ssl", ca, "", ""},
		{"a client's certificate", server(own, a), "pulsar+ssl", with(m{"tlsCertificate": own.CertPEM(), "tlsPrivateKey": own.KeyPEM(t)}), "", ""},
		{"another name, which is not looked at", server(misnamed, nil), "pulsar+ssl", with(m{"tlsHostnameVerificationEnable": "false"}), "", ""},
		{"whoever answers", server(foreign.Issue(nil), nil), "pulsar+ssl", m{"tlsAllowInsecureConnection": "true"}, "", ""},
		{"an authority that is not trusted", server(foreign.Issue(nil), nil), "pulsar+ssl", ca, graphmill.FaultSetup, "tls_authority"},
		{"an authority that is not trusted, names not looked at", server(foreign.Issue(nil), nil), "pulsar+ssl", with(m{"tlsHostnameVerificationEnable": "false"}), graphmill.FaultSetup, "tls_authority"},
		{"another name", server(misnamed, nil), "pulsar+ssl", ca, graphmill.FaultSetup, "tls_host_name"},
		{"a certificate that has expired", server(old, nil), "pulsar+ssl", ca, graphmill.FaultTransient, "tls_expired"},
		{"no certificate of the client", server(own, a), "pulsar+ssl", ca, graphmill.FaultSetup, "tls_certificate_missing"},
		{"a certificate of the client that is not trusted", server(own, foreign), "pulsar+ssl", with(m{"tlsCertificate": own.CertPEM(), "tlsPrivateKey": own.KeyPEM(t)}), graphmill.FaultSetup, "tls_certificate_refused"},
		{"TLS where there is none", nil, "pulsar+ssl", ca, graphmill.FaultTransient, "tls_not_offered"},
		{"no TLS where there is one", server(own, nil), "pulsar", nil, graphmill.FaultTransient, "tls_missing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := pulsarserver.Start(t, pulsarserver.Options{TLS: c.server})
			create(t, s, "t", 0)
			err := probe(t, c.scheme+"://"+addr(s), c.config, "t")
			if c.code == "" {
				require.NoError(t, err)
				return
			}
			var f *graphmill.Fault
			require.ErrorAs(t, err, &f)
			require.Equal(t, c.code, f.Code, "%v", err)
			require.Equal(t, c.class, f.Class, "%v", err)
			require.NotEmpty(t, f.Next)
		})
	}
}

// A broker that is just starting is waited for, as long as the context allows.
func TestProbeWaitsForABrokerThatStarts(t *testing.T) {
	s := pulsarserver.Start(t, pulsarserver.Options{})
	create(t, s, "t", 0)
	s.Stop()
	done := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		done <- pulsar.Probe(ctx, pulsar.Config{ServiceURL: s.URL(), Topics: []string{"t"}, Subscription: "s"})
	}()
	require.NoError(t, s.Listen())
	require.NoError(t, <-done)
}

// Of several hosts one that answers will do.
func TestProbeGoesOnToTheNextHost(t *testing.T) {
	s := pulsarserver.Start(t, pulsarserver.Options{})
	create(t, s, "t", 0)
	require.NoError(t, probe(t, "pulsar://127.0.0.1:1,"+addr(s), nil, "t"))
}

// Whatever listens where a broker should, the look ends in time and says something.
func TestProbeOfWhatIsNoBroker(t *testing.T) {
	for name, answer := range map[string]string{
		"HTTP":                            "HTTP/1.1 400 Bad Request\r\n\r\n",
		"silence":                         "",
		"a frame of 4 GiB":                "\xff\xff\xff\xff\xff\xff\xff\xff",
		"a frame of nothing":              "\x00\x00\x00\x00\x00\x00\x00\x00",
		"a command longer than its frame": "\x00\x00\x00\x08\x00\x00\x00\xff1234",
		"no command":                      "\x00\x00\x00\x08\x00\x00\x00\x04\xff\xff\xff\xff",
		"an answer to nothing":            "\x00\x00\x00\x06\x00\x00\x00\x02\x08\x0d",
		"an error of nothing":             "\x00\x00\x00\x06\x00\x00\x00\x02\x08\x0e",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			t.Cleanup(func() { _ = l.Close() })
			go func() {
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					t.Cleanup(func() { _ = c.Close() })
					_, _ = c.Write([]byte(answer))
				}
			}()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			err = pulsar.Probe(ctx, pulsar.Config{ServiceURL: "pulsar://" + l.Addr().String(), Topics: []string{"t"}, Subscription: "s"})
			var f *graphmill.Fault
			require.ErrorAs(t, err, &f)
			require.Equal(t, graphmill.FaultTransient, f.Class)

			ctx, cancel = context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			facts, err := pulsar.Diagnose(ctx, "pulsar://"+l.Addr().String(), pulsar.ClientSettings{})
			require.NoError(t, err)
			require.NotNil(t, facts[0].Fault)
			if name == "silence" {
				require.Equal(t, "broker_silent", facts[0].Fault.Code)
			} else {
				require.Equal(t, "no_broker", facts[0].Fault.Code)
			}
		})
	}
}

// A listener with TLS may say what it is.
func TestProbeIsToldByAnAlertThatTheBrokerWantsTLS(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte{21, 3, 1, 0, 2, 2, 10})
			_ = c.(*net.TCPConn).CloseWrite()
			t.Cleanup(func() { _ = c.Close() })
		}
	}()
	err = probe(t, "pulsar://"+l.Addr().String(), nil, "t")
	var f *graphmill.Fault
	require.ErrorAs(t, err, &f)
	require.Equal(t, "tls_missing", f.Code)
	require.Equal(t, graphmill.FaultSetup, f.Class, "it is sure")
}

func TestDiagnoseTellsWhatAnAddressIs(t *testing.T) {
	a := certtest.NewAuthority(t)
	s := pulsarserver.Start(t, pulsarserver.Options{})
	guarded := pulsarserver.Start(t, pulsarserver.Options{})
	guarded.RequireTokens(map[string]string{"good": "r"})
	encrypted := pulsarserver.Start(t, pulsarserver.Options{TLS: &tls.Config{Certificates: []tls.Certificate{a.Issue(nil).TLS()}}})
	facts, err := pulsar.Diagnose(t.Context(), "pulsar://"+addr(s)+","+addr(guarded)+","+addr(encrypted)+",127.0.0.1:1", pulsar.ClientSettings{})
	require.NoError(t, err)
	require.Len(t, facts, 4)
	require.NotEmpty(t, facts[0].Version)
	require.True(t, facts[1].Login)
	require.True(t, facts[2].TLS)
	require.Equal(t, "broker_unreachable", facts[3].Fault.Code)
	for _, f := range facts[:3] {
		require.Nil(t, f.Fault)
	}
	_, err = pulsar.Diagnose(t.Context(), "http://x", pulsar.ClientSettings{})
	require.Equal(t, graphmill.KindInvalid, graphmill.KindOf(err))
}

func TestUnsubscribeEndsTheSubscriptionOfAllPartitions(t *testing.T) {
	s := pulsarserver.Start(t, pulsarserver.Options{NoAutoCreate: true})
	create(t, s, "parted", 3)
	create(t, s, "plain", 0)
	cfg := pulsar.Config{ServiceURL: s.URL(), Topics: []string{"parted", "plain", "absent"}, Subscription: "s"}
	subscribe := func() (leave func()) { return subscribed(t, s, "parted", "plain") }
	leave := subscribe()
	require.Equal(t, 4, count(s, "s"))

	err := pulsar.Unsubscribe(t.Context(), cfg)
	var e *graphmill.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, graphmill.KindConflict, e.Kind)
	require.Equal(t, "subscription_busy", e.Code)
	require.NotEmpty(t, e.Next)
	require.Equal(t, 4, count(s, "s"), "none has been ended")

	leave()
	require.NoError(t, pulsar.Unsubscribe(t.Context(), cfg))
	require.Zero(t, count(s, "s"))
	require.NoError(t, pulsar.Unsubscribe(t.Context(), cfg), "it has ended before")
	require.Zero(t, count(s, "s"))

	leave = subscribe()
	leave()
	require.NoError(t, pulsar.Unsubscribe(t.Context(), pulsar.Config{ServiceURL: s.URL(), Pattern: "p.*", Subscription: "s"}))
	require.Zero(t, count(s, "s"))
	s.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	var f *graphmill.Fault
	require.ErrorAs(t, pulsar.Unsubscribe(ctx, cfg), &f)
	require.Equal(t, "broker_unreachable", f.Code)
}

func TestProbeEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := pulsar.Probe(ctx, pulsar.Config{ServiceURL: "pulsar://127.0.0.1:1", Topics: []string{"t"}, Subscription: "s"})
	require.True(t, errors.Is(err, context.Canceled), "%v", err)
	err = pulsar.Probe(t.Context(), pulsar.Config{ServiceURL: "pulsar://" + strings.Repeat("x,", 3), Topics: []string{"t"}})
	require.Equal(t, graphmill.KindInvalid, graphmill.KindOf(err))
}
