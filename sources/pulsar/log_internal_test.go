package pulsar

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	pulsarlog "github.com/apache/pulsar-client-go/pulsar/log"
	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/integration/pulsarserver"
	"github.com/graphmill/graphmill/sources/clientcert/certtest"
	"github.com/graphmill/graphmill/sources/tlsfault"
)

const plantedToken = "PLANTED-t0ken-27182"

// The client's own error says "connection error", whatever the reason. Links learns
// the reason from the client's log, also where nobody reads it.
func TestReasonsThatTheClientHidesAreFound(t *testing.T) {
	a, foreign := certtest.NewAuthority(t), certtest.NewAuthority(t)
	own, alien := a.Issue(nil), foreign.Issue(nil)
	server := func(cfg *tls.Config) *pulsarserver.Server {
		return pulsarserver.Start(t, pulsarserver.Options{TLS: cfg})
	}
	guarded := server(nil)
	guarded.RequireTokens(map[string]string{"good": "r"})
	ill := server(nil)
	ill.SetHooks(pulsarserver.Hooks{OnCommand: func(pulsarserver.Command) pulsarserver.Reply {
		return pulsarserver.Fail("ServiceNotReady", "the broker is starting")
	}})
	encrypted := server(&tls.Config{Certificates: []tls.Certificate{own.TLS()}})
	strict := server(&tls.Config{Certificates: []tls.Certificate{own.TLS()}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: a.Pool()})
	trusting := map[string]string{"tlsTrustCerts": a.PEM}
	showing := map[string]string{"tlsTrustCerts": a.PEM, "tlsCertificate": alien.CertPEM(), "tlsPrivateKey": alien.KeyPEM(t)}
	at := func(scheme string, s *pulsarserver.Server) string {
		u, err := url.Parse(s.URL())
		require.NoError(t, err)
		return scheme + "://" + u.Host
	}
	for _, c := range []struct {
		name, url string
		configs   map[string]string
		code      string
		class     graphmill.FaultClass
	}{
		{"a wrong token", guarded.URL(), map[string]string{"token": plantedToken}, codeAuth, graphmill.FaultSetup},
		{"no login", guarded.URL(), nil, codeAuth, graphmill.FaultSetup},
		{"a broker that is not ready", ill.URL(), nil, codeBrokerError, graphmill.FaultTransient},
		{"an authority that is not trusted", at("pulsar+ssl", encrypted), nil, "tls_authority", graphmill.FaultSetup},
		{"no certificate of the client", at("pulsar+ssl", strict), trusting, "tls_certificate_missing", graphmill.FaultSetup},
		{"a certificate of the client that is not trusted", at("pulsar+ssl", strict), showing, "tls_certificate_refused", graphmill.FaultSetup},
		{"no TLS where there is one", at("pulsar", encrypted), nil, "tls_missing", graphmill.FaultTransient},
		{"TLS where there is none", at("pulsar+ssl", guarded), nil, "tls_not_offered", graphmill.FaultTransient},
		{"nobody", "pulsar://127.0.0.1:1", nil, codeUnreachable, graphmill.FaultTransient},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			configs := map[string]string{"operationTimeoutMs": "700"}
			for k, v := range c.configs {
				configs[k] = v
			}
			client, _, err := ParseConfigs(configs, nil, nil)
			require.NoError(t, err)
			cfg := Config{ServiceURL: c.url, Client: client}.withDefaults()
			links := newLinks(&cfg)
			cl, err := cfg.connect(links)
			require.NoError(t, err)
			defer cl.Close()
			_, err = cl.TopicPartitions("t")
			require.Error(t, err)
			f := links.fault("look for topic t", err)
			require.Equal(t, c.code, f.Code, "%v", f)
			require.Equal(t, c.class, f.Class, "%v", f)
			require.NotContains(t, f.Error()+f.Next, plantedToken)
		})
	}
}

// A broker that has refused a login is not shown it again.
func TestARefusedLoginIsNotShownAgain(t *testing.T) {
	s := pulsarserver.Start(t, pulsarserver.Options{})
	s.RequireTokens(map[string]string{"good": "r"})
	var mu sync.Mutex
	shown := 0
	s.SetHooks(pulsarserver.Hooks{OnCommand: func(c pulsarserver.Command) pulsarserver.Reply {
		mu.Lock()
		defer mu.Unlock()
		if c.Type == "CONNECT" {
			shown++
		}
		return pulsarserver.Reply{}
	}})
	client, _, err := ParseConfigs(map[string]string{"operationTimeoutMs": "2000", "token": plantedToken}, nil, nil)
	require.NoError(t, err)
	cfg := Config{ServiceURL: s.URL(), Client: client}.withDefaults()
	links := newLinks(&cfg)
	cl, err := cfg.connect(links)
	require.NoError(t, err)
	defer cl.Close()
	_, err = cl.TopicPartitions("t")
	require.Equal(t, codeAuth, links.fault("look", err).Code)
	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, 1, shown, "the client itself tries for as long as its time allows")
}

func TestTheClientsLogHoldsNoSecretAndIsBounded(t *testing.T) {
	client, _, err := ParseConfigs(nil, map[string]string{"token": plantedToken}, nil)
	require.NoError(t, err)
	links := newLinks(&Config{ServiceURL: "pulsar://b:6650", Client: client})
	var out bytes.Buffer
	now := time.Unix(1000, 0)
	logger := clientLogger{to: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})), links: links, pace: &pace{now: func() time.Time { return now }}}
	var l pulsarlog.Logger = logger
	l.Warnf("shows %s", plantedToken)
	l.SubLogger(pulsarlog.Fields{"data": plantedToken}).WithError(errors.New("of "+plantedToken)).Warn("it is ", plantedToken)
	require.NotContains(t, out.String(), plantedToken)
	require.Contains(t, out.String(), graphmill.RedactedValue)

	out.Reset()
	l.Debug("left out")
	l.WithField("a", 1).Debugf("left out")
	require.Empty(t, out.String(), "what the client tells only for debugging")
	for i := range 100 {
		l.Info("line ", i)
	}
	require.Equal(t, linesPerSecond-2, bytes.Count(out.Bytes(), []byte("\n")), "with the two before")
	now = now.Add(time.Second)
	l.Info("later")
	require.Contains(t, out.String(), fmt.Sprintf("left_out=%d", 100-(linesPerSecond-2)))

	// With nobody who reads it, it is looked at all the same.
	quiet := clientLogger{to: slog.New(slog.DiscardHandler), links: links, pace: &pace{now: time.Now}}
	sub := quiet.SubLogger(pulsarlog.Fields{"remote_addr": &url.URL{Host: "b:6650"}})
	sub.WithError(&net.OpError{Op: "dial", Err: errors.New("refused")}).Warn(saysNoConnection)
	addr, failed := links.last()
	require.Equal(t, "b:6650", addr)
	require.ErrorContains(t, failed, "refused")
	sub.Info(saysReady)
	_, failed = links.last()
	require.NoError(t, failed)
}

// The client makes texts of what brokers answer.
func TestAnswersAreFoundInTheClientsErrors(t *testing.T) {
	for _, c := range []struct{ text, code, says string }{
		{"server error: AuthorizationError: Client is not authorized to subscribe", codeForbidden, "does not allow"},
		{"AuthorizationError", codeForbidden, "does not allow"},
		{"server error: ConsumerBusy: Exclusive consumer is already connected", codeBusy, "for itself"},
		{"server error: ConsumerBusy: Subscription is of different type", codeOtherType, "another type"},
		{"server error: ConsumerBusy: Subscription reached max consumers limit", codeQuota, "limit"},
		{"server error: NotAllowedError: Exceed the maximum number of subscriptions of the topic: t", codeQuota, "limit"},
		{"server error: TopicNotFound: Topic persistent://a/b/c does not exist", codeTopicAbsent, "does not exist"},
		{"server error: TopicNotFound: Namespace not found", codeNamespaceAbsent, "namespace"},
		{"server error: TopicNotFound: Tenant or namespace or topic does not exist: none/none", codeNamespaceAbsent, "namespace"},
		{"server error: MetadataError: x", codeBrokerError, "MetadataError"},
		{"ack response error: UnknownError: x", codeBrokerError, "UnknownError"},
		{"server error: AuthenticationError: Failed to authenticate", codeAuth, "login"},
		{"TopicTerminatedError", codeTerminated, "terminated"},
		{"request timed out", codeUnreachable, "no broker of b:6650 answers"},
		{"connection closed", codeUnreachable, "no broker of b:6650 answers"},
	} {
		t.Run(c.text, func(t *testing.T) {
			links := newLinks(&Config{ServiceURL: "pulsar://b:6650"})
			f := links.fault("read topic t", fmt.Errorf("subscribe: %w", errors.New(c.text)))
			require.Equal(t, c.code, f.Code)
			require.Contains(t, f.Text, c.says)
		})
	}
	links := newLinks(&Config{ServiceURL: "pulsar://b:6650,c:6650"})
	own := ends(codeTerminated, "x", "", nil)
	require.Same(t, own, links.fault("do", fmt.Errorf("again: %w", own)), "a fault stays one")
	links.note("inner:6650", errors.New("no route"))
	f := links.fault("do", errors.New("connection error"))
	require.Contains(t, f.Text, "inner:6650, the address that b:6650, c:6650 gives out")
	require.Contains(t, f.Next, "advertised")
}

// A stream that has run waits for what somebody changes at the brokers.
func TestTLSOfAStreamThatHasRunIsWaitedFor(t *testing.T) {
	links := newLinks(&Config{ServiceURL: "pulsar+ssl://b:6651"})
	broken := &tlsfault.Unusable{Why: "tls_authority", Sure: true, Address: "b:6651", Err: errors.New("x")}
	require.Equal(t, graphmill.FaultSetup, links.fault("do", broken).Class)
	links.hasRun.Store(true)
	require.Equal(t, graphmill.FaultTransient, links.fault("do", broken).Class)
}
