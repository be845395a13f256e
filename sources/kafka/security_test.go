package kafka_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
	"github.com/youmark/pkcs8"
	"software.sslmate.com/src/go-pkcs12"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/sources/clientcert/certtest"
	"github.com/graphmill/graphmill/sources/kafka"
	"github.com/graphmill/graphmill/sources/setting"
	"github.com/graphmill/graphmill/sources/setting/settingtest"
)

// planted is a password that must be found nowhere.
const planted = "PLANTED-s3cret-31415"

// client parses settings that must be right.
func client(t *testing.T, v setting.Vault, configs map[string]string) kafka.ClientSettings {
	t.Helper()
	s, _, err := kafka.ParseConfigs(configs, nil, v)
	require.NoError(t, err)
	return s
}

func login(mechanism, user, password string) map[string]string {
	return map[string]string{"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism, "sasl.username": user, "sasl.password": password}
}

// with adds entries to a copy.
func with(m map[string]string, more ...string) map[string]string {
	out := map[string]string{}
	for k, v := range m {
		out[k] = v
	}
	for i := 0; i < len(more); i += 2 {
		out[more[i]] = more[i+1]
	}
	return out
}

// secured starts a kfake that the broker's own client reaches by opts.
func secured(t *testing.T, fake []kfake.Opt, opts ...kgo.Opt) *broker {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1)}, fake...)...)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	b := &broker{t: t, addr: c.ListenAddrs()[0], fake: c}
	b.cl, err = kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(b.addr), kgo.RecordPartitioner(kgo.ManualPartitioner())}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(b.cl.Close)
	b.adm = kadm.NewClient(b.cl)
	return b
}

// withLogins starts a kfake with a user of each mechanism.
func withLogins(t *testing.T, more ...kfake.Opt) *broker {
	t.Helper()
	return secured(t, append([]kfake.Opt{kfake.EnableSASL(), kfake.Superuser("PLAIN", "root", "root"),
		kfake.Superuser("PLAIN", "anna", planted), kfake.Superuser("SCRAM-SHA-256", "anna", planted), kfake.Superuser("SCRAM-SHA-512", "anna", planted)}, more...),
		kgo.SASL(plain.Auth{User: "root", Pass: "root"}.AsMechanism()))
}

// withTLS starts a kfake that shows p; clients, if not nil, signs those that are
// let in.
func withTLS(t *testing.T, a *certtest.Authority, p certtest.Pair, clients *certtest.Authority) *broker {
	t.Helper()
	cfg := &tls.Config{Certificates: []tls.Certificate{p.TLS()}}
	ours := &tls.Config{InsecureSkipVerify: true}
	if clients != nil {
		cfg.ClientAuth, cfg.ClientCAs = tls.RequireAndVerifyClientCert, clients.Pool()
		ours.Certificates = []tls.Certificate{clients.Issue(nil).TLS()}
	}
	return secured(t, []kfake.Opt{kfake.TLS(cfg)}, kgo.DialTLSConfig(ours))
}

// probe looks for a topic with settings of the client.
func (b *broker) probe(s kafka.ClientSettings, topic string) error {
	ctx, cancel := context.WithTimeout(b.t.Context(), 5*time.Second)
	defer cancel()
	return kafka.Probe(ctx, kafka.Config{Brokers: []string{b.addr}, Topics: []string{topic}, Group: "g", Client: s})
}

func TestStreamsReadFromBrokersWithALogin(t *testing.T) {
	for _, mechanism := range []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"} {
		t.Run(mechanism, func(t *testing.T) {
			b := withLogins(t)
			topic := b.topic(1)
			b.produce(topic, 0, "a", "b")
			cfg := b.config(topic)
			cfg.Start.Earliest = true
			cfg.Client = client(t, nil, login(mechanism, "anna", planted))
			s, _ := b.open(cfg)
			got, at := collect(t, s, 2)
			require.Equal(t, []string{"a", "b"}, payloads(got))
			require.NoError(t, s.Acknowledge(t.Context(), positions(at)))
			require.EqualValues(t, 2, b.commits(cfg.Group, topic)[0].At)
		})
	}
}

func TestStreamsReadFromBrokersWithTLS(t *testing.T) {
	a := certtest.NewAuthority(t)
	own := a.Issue(nil)
	encrypted, err := pkcs8.MarshalPrivateKey(own.Key, []byte(planted), pkcs8.DefaultOpts)
	require.NoError(t, err)
	sec1, err := x509.MarshalECPrivateKey(own.Key)
	require.NoError(t, err)
	keystore, err := pkcs12.Modern.Encode(own.Key, own.Cert, []*x509.Certificate{a.Cert}, planted)
	require.NoError(t, err)
	old, err := pkcs12.Legacy.Encode(own.Key, own.Cert, nil, planted)
	require.NoError(t, err)
	ca := map[string]string{"security.protocol": "ssl", "ssl.ca.pem": a.PEM}
	files := settingtest.Vault{
		"ca": a.PEM, "cert": own.CertPEM(), "key": own.KeyPEM(t), "both": own.KeyPEM(t) + own.CertPEM() + a.PEM,
		"encrypted": certtest.PEM("ENCRYPTED PRIVATE KEY", encrypted), "sec1": certtest.PEM("EC PRIVATE KEY", sec1), "p12": string(keystore), "old.p12": string(old), "password": planted,
	}
	misnamed := a.Issue(func(c *x509.Certificate) { c.IPAddresses = nil; c.DNSNames = []string{"elsewhere"} })
	for _, c := range []struct {
		name    string
		broker  certtest.Pair
		clients *certtest.Authority
		configs map[string]string
	}{
		{"the authority given inline", a.Issue(nil), nil, ca},
		{"the authority in a file", a.Issue(nil), nil, map[string]string{"security.protocol": "SSL", "ssl.ca.location": "ca"}},
		{"the authority as a secret", a.Issue(nil), nil, map[string]string{"security.protocol": "ssl", "ssl.ca.pem": "secret:ca"}},
		{"another host's certificate, names not looked at", misnamed, nil, with(ca, "ssl.endpoint.identification.algorithm", "none")},
		{"any certificate, nothing looked at", certtest.NewAuthority(t).Issue(nil), nil, map[string]string{"security.protocol": "ssl", "enable.ssl.certificate.verification": "false"}},
		{"a client's certificate inline", a.Issue(nil), a, with(ca, "ssl.certificate.pem", own.CertPEM(), "ssl.key.pem", own.KeyPEM(t))},
		{"a client's certificate and key in one file", a.Issue(nil), a, with(ca, "ssl.certificate.location", "both", "ssl.key.location", "both")},
		{"a key in the form of OpenSSL", a.Issue(nil), a, with(ca, "ssl.certificate.location", "cert", "ssl.key.location", "sec1")},
		{"an encrypted key", a.Issue(nil), a, with(ca, "ssl.certificate.location", "cert", "ssl.key.location", "encrypted", "ssl.key.password", "secret:password")},
		{"a keystore", a.Issue(nil), a, with(ca, "ssl.keystore.location", "p12", "ssl.keystore.password", planted)},
		{"a keystore of old", a.Issue(nil), a, with(ca, "ssl.keystore.location", "old.p12", "ssl.keystore.password", planted)},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := withTLS(t, a, c.broker, c.clients)
			topic := b.topic(1)
			b.produce(topic, 0, "a")
			cfg := b.config(topic)
			cfg.Start.Earliest = true
			cfg.Client = client(t, files, c.configs)
			s, _ := b.open(cfg)
			got, _ := collect(t, s, 1)
			require.Equal(t, []string{"a"}, payloads(got))
		})
	}
}

// Row 32 of the cases: what stands in the way of a connection is told by a code
// of its own, once, and a broker that has refused a login is not asked again.
func TestCase32WhatIsWrongWithTheConnectionIsToldApart(t *testing.T) {
	a, foreign := certtest.NewAuthority(t), certtest.NewAuthority(t)
	own, alien := a.Issue(nil), foreign.Issue(nil)
	ca := map[string]string{"security.protocol": "ssl", "ssl.ca.pem": a.PEM}
	tlsOf := func(p certtest.Pair, clients *certtest.Authority) func(t *testing.T) *broker {
		return func(t *testing.T) *broker { return withTLS(t, a, p, clients) }
	}
	logins := func(t *testing.T) *broker { return withLogins(t) }
	yesterday := func(c *x509.Certificate) {
		c.NotBefore, c.NotAfter = c.NotBefore.Add(-24*time.Hour), c.NotAfter.Add(-24*time.Hour)
	}
	for _, c := range []struct {
		name    string
		broker  func(t *testing.T) *broker
		configs map[string]string
		code    string
		waits   bool // it may heal without anybody touching the stream
		says    string
	}{
		{"a wrong password with PLAIN", logins, login("PLAIN", "anna", "wrong"+planted), "auth", false, `user "anna" (PLAIN)`},
		{"a wrong password with SCRAM-SHA-256", logins, login("SCRAM-SHA-256", "anna", "wrong"+planted), "auth", false, "SCRAM-SHA-256"},
		{"a user that is not known with SCRAM-SHA-512", logins, login("SCRAM-SHA-512", "nobody", planted), "auth", false, `user "nobody"`},
		{"no login where one is wanted", logins, nil, "sasl_missing", true, "most likely it wants a login"},
		{"a login where there is none", loginless, login("PLAIN", "anna", planted), "sasl_not_offered", false, "no login"},
		{"a mechanism that is not offered", scramOnly, login("PLAIN", "anna", planted), "sasl_mechanism", false, "PLAIN"},
		{"no TLS where it is wanted", tlsOf(own, nil), nil, "tls_missing", true, "most likely it expects TLS"},
		{"TLS where there is none", plainly, ca, "tls_not_offered", true, "does not speak TLS"},
		{"an authority that is not trusted", tlsOf(alien, nil), ca, "tls_authority", false, "not trusted"},
		{"an authority that is not trusted, names not looked at", tlsOf(alien, nil), with(ca, "ssl.endpoint.identification.algorithm", "none"), "tls_authority", false, "not trusted"},
		{"another host's certificate", tlsOf(a.Issue(func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 9)} }), nil), ca, "tls_host_name", false, "not for this address"},
		{"a certificate that has expired", tlsOf(a.Issue(yesterday), nil), ca, "tls_expired", true, "expired"},
		{"no certificate of the client", tlsOf(own, a), ca, "tls_certificate_missing", false, "wants a certificate"},
		{"a certificate of the client that is not accepted", tlsOf(own, a), with(ca, "ssl.certificate.pem", alien.CertPEM(), "ssl.key.pem", alien.KeyPEM(t)), "tls_certificate_refused", false, "does not accept"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := c.broker(t)
			topic := b.topic(1)
			s := client(t, nil, c.configs)
			requireFault := func(f *graphmill.Fault) {
				t.Helper()
				require.Equal(t, c.code, f.Code, "%v", f)
				require.Contains(t, f.Text, c.says)
				require.NotEmpty(t, f.Next)
				require.Equal(t, c.waits, f.Class == graphmill.FaultTransient && f.Outage)
				require.NotContains(t, fmt.Sprintf("%v %+v %#v %s", f, f, f, f.Next), planted)
			}
			attempts := b.logins()
			requireFault(fault(t, b.probe(s, topic)))
			require.LessOrEqual(t, attempts(), 1)

			log := &logBuffer{}
			cfg := b.config(topic)
			cfg.Client, cfg.Logger = s, slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
			src, o := b.source(cfg)
			opened := begin(t, src)
			if c.waits {
				eventually(t, "it is told", func() bool { return o.LastWait() != nil })
				requireFault(o.LastWait())
			} else {
				requireFault(fault(t, done(t, opened)))
			}
			if c.code == "auth" {
				require.Never(t, func() bool { return attempts() > 3 }, 1500*time.Millisecond, 50*time.Millisecond,
					"one of the probe, few of a client that connects several times at once, and none repeated while the client lives")
			}
			closeSource(t, src)
			require.NotContains(t, log.String(), planted)
			require.NotContains(t, fmt.Sprintf("%v %+v %#v", cfg, cfg, cfg), planted)
		})
	}
}

// alerting listens and answers whatever comes with a TLS alert.
func alerting(t *testing.T, alert byte) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var served sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); served.Wait() })
	served.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 4096))
			_, _ = c.Write([]byte{21, 3, 3, 0, 2, 2, alert})
			_ = c.Close()
		}
	})
	return l.Addr().String()
}

// A broker, or a proxy before it, that is starting answers with an alert, too.
func TestAlertsOfTLSThatMayPassAreWaitedOut(t *testing.T) {
	s := client(t, nil, map[string]string{"security.protocol": "ssl", "ssl.ca.pem": certtest.NewAuthority(t).PEM})
	for alert, passes := range map[byte]bool{
		0: true, 10: true, 40: true, 80: true, 90: true, 112: true, // close_notify, unexpected_message, handshake_failure, internal_error, user_canceled, unrecognized_name
		42: false, 46: false, 48: false, 49: false, 70: false, 71: false, 116: false,
	} {
		t.Run(fmt.Sprint(alert), func(t *testing.T) {
			t.Parallel()
			src, o := (&broker{t: t}).source(kafka.Config{Stream: "s", Brokers: []string{alerting(t, alert)}, Topics: []string{"t"}, Group: "g", Client: s})
			opened := begin(t, src)
			if !passes {
				require.Equal(t, "tls", fault(t, done(t, opened)).Code)
				return
			}
			eventually(t, "it is told", func() bool { return o.LastWait() != nil })
			require.Contains(t, o.Code(), "tls")
			require.True(t, o.LastWait().Outage)
			require.NotEmpty(t, o.LastWait().Next)
		})
	}
}

// Of a stream that has run, the settings are right: a certificate that does not
// fit any more is the broker's, and may be exchanged again.
func TestCertificateThatChangesWhileTheStreamRunsIsWaitedOut(t *testing.T) {
	t.Parallel()
	a := certtest.NewAuthority(t)
	good, alien := a.Issue(nil).TLS(), certtest.NewAuthority(t).Issue(nil).TLS()
	port, dir := freePort(t), t.TempDir()
	start := func(shown tls.Certificate) *broker {
		return secured(t, []kfake.Opt{kfake.Ports(port), kfake.DataDir(dir), kfake.TLS(&tls.Config{Certificates: []tls.Certificate{shown}})},
			kgo.DialTLSConfig(&tls.Config{InsecureSkipVerify: true}))
	}
	b := start(good)
	topic := b.topic(1)
	cfg := b.config(topic)
	cfg.Client = client(t, nil, map[string]string{"security.protocol": "ssl", "ssl.ca.pem": a.PEM})
	s, o := b.open(cfg)
	b.fake.Close()
	b = start(alien)
	fetched := make(chan error, 1)
	go func() {
		_, err := s.Fetch(t.Context(), 1)
		fetched <- err
	}()
	eventually(t, "it is told", func() bool { return o.Code() == "tls_authority" })
	b.fake.Close()
	b = start(good)
	b.produce(topic, 0, "a")
	require.NoError(t, done(t, fetched))
}

// plainly starts a kfake that closes connections with TLS, as Kafka does: kfake
// takes the first bytes for the size of a request and waits for the rest.
func plainly(t *testing.T) *broker {
	return newFake(t, kfake.ListenFn(func(network, address string) (net.Listener, error) {
		l, err := net.Listen(network, address)
		return plainListener{l}, err
	}))
}

type plainListener struct{ net.Listener }

func (l plainListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return plainConn{c}, err
}

type plainConn struct{ net.Conn }

func (c plainConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 && p[0] == 22 { // a TLS handshake
		return 0, io.EOF
	}
	return n, err
}

// loginless starts a kfake that answers a login as Kafka's listeners without one.
func loginless(t *testing.T) *broker {
	b := newFake(t)
	b.fake.ControlKey(int16(kmsg.SASLHandshake), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.fake.KeepControl()
		resp := req.ResponseKind().(*kmsg.SASLHandshakeResponse)
		resp.ErrorCode = 34 // ILLEGAL_SASL_STATE
		return resp, nil, true
	})
	return b
}

// scramOnly starts a kfake that does not offer PLAIN.
func scramOnly(t *testing.T) *broker {
	b := secured(t, []kfake.Opt{kfake.EnableSASL()}, kgo.SASL(scram.Auth{User: "admin", Pass: "admin"}.AsSha256Mechanism()))
	b.fake.ControlKey(int16(kmsg.SASLHandshake), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.fake.KeepControl()
		if req.(*kmsg.SASLHandshakeRequest).Mechanism != "PLAIN" {
			return nil, nil, false
		}
		resp := req.ResponseKind().(*kmsg.SASLHandshakeResponse)
		resp.ErrorCode, resp.SupportedMechanisms = 33, []string{"SCRAM-SHA-256"}
		return resp, nil, true
	})
	return b
}

// logins refuses all but its own logins from now on, with an answer, as Kafka
// does and kfake does not, and counts them.
func (b *broker) logins() (count func() int) {
	var mu sync.Mutex
	n := 0
	b.fake.ControlKey(int16(kmsg.SASLAuthenticate), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.fake.KeepControl()
		said := req.(*kmsg.SASLAuthenticateRequest).SASLAuthBytes
		first := bytes.HasPrefix(said, []byte("n,,")) && !bytes.Contains(said, []byte("n=nobody"))
		if first || bytes.Contains(said, []byte("\x00root\x00")) {
			return nil, nil, false // the first message of SCRAM holds no proof
		}
		mu.Lock()
		defer mu.Unlock()
		n++
		resp := req.ResponseKind().(*kmsg.SASLAuthenticateResponse)
		resp.ErrorCode = 58 // SASL_AUTHENTICATION_FAILED
		return resp, nil, true
	})
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return n
	}
}

// logBuffer is a log that may be written from many sides.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// A user that was given as a secret is one: no error names it.
func TestCase39AUserGivenAsASecretIsNamedNowhere(t *testing.T) {
	b := withLogins(t)
	topic := b.topic(1)
	b.logins() // refuses as Kafka does; kfake hangs up
	const user = planted + "-user"
	for name, given := range map[string]struct{ configs, credentials map[string]string }{
		"in credentials": {nil, login("PLAIN", user, planted)},
		"by reference":   {login("PLAIN", "secret:user", planted), nil},
	} {
		t.Run(name, func(t *testing.T) {
			s, _, err := kafka.ParseConfigs(given.configs, given.credentials, settingtest.Vault{"user": user})
			require.NoError(t, err)
			f := fault(t, b.probe(s, topic))
			require.Equal(t, "auth", f.Code, "%v", f)
			require.Contains(t, f.Text, "the user of sasl.username (PLAIN)")
			require.NotContains(t, fmt.Sprintf("%v %+v %#v %s", f, f, f, f.Next), planted)
		})
	}
}
