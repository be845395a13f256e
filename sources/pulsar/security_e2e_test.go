//go:build e2e

package pulsar_test

import (
	"os"
	"strings"
	"testing"
	"time"

	client "github.com/apache/pulsar-client-go/pulsar"
	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/integration/stack"
	"github.com/graphmill/graphmill/sources/pulsar"
)

// What a real broker that asks for logins answers to each kind of client.
func TestPulsarTellsWhyAClientIsNotLetIn(t *testing.T) {
	p, err := stack.StartPulsar(t.Context(), stack.PulsarConfig{Log: os.Stderr, Token: true, TLS: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	ctx := t.Context()
	require.NoError(t, p.CreateTopic(ctx, "parted", 2))
	require.NoError(t, p.CreateTopic(ctx, "plain", 0))
	require.NoError(t, p.Grant(ctx, "public/default", "reader", "consume"))
	require.NoError(t, p.Grant(ctx, "public/default", "writer", "produce"))
	require.NoError(t, p.Grant(ctx, "public/default", stack.PulsarClientRole, "consume"))
	read := func(path string) string {
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		return string(b)
	}
	ca, own, foreign := read(p.CAFile()), read(p.ClientFile()), read(p.ForeignClientFile())
	reader := m{"token": p.Token("reader")}
	both := func(more m) m {
		more["tlsTrustCerts"] = ca
		return more
	}
	plain, encrypted := p.ServiceURL(), p.TLSServiceURL()
	for _, c := range []struct {
		name, url string
		config    m
		topic     string
		code      string // empty: all is well
		class     graphmill.FaultClass
	}{
		{"a token", plain, reader, "parted", "", ""},
		{"a token over TLS", encrypted, both(m{"token": p.Token("reader")}), "plain", "", ""},
		{"a certificate", encrypted, both(m{"tlsCertificate": own, "tlsPrivateKey": own}), "parted", "", ""},
		{"no login", plain, nil, "plain", "auth", graphmill.FaultSetup},
		{"a token that another key has signed", plain, m{"token": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJyZWFkZXIifQ.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}, "plain", "auth", graphmill.FaultSetup},
		{"no token at all", plain, m{"token": planted}, "plain", "auth", graphmill.FaultSetup},
		{"a user, where there are none", plain, m{"userId": "u", "password": planted}, "plain", "auth", graphmill.FaultSetup},
		{"a role without rights", plain, m{"token": p.Token("nobody")}, "plain", "forbidden", graphmill.FaultSetup},
		{"a role that may only produce", plain, m{"token": p.Token("writer")}, "plain", "forbidden", graphmill.FaultSetup},
		{"a topic that is absent", plain, reader, "absent", "topic_absent", graphmill.FaultTransient},
		{"a namespace that is absent", plain, m{"token": p.Token(stack.PulsarSuperuser)}, "public/none/t", "namespace_absent", graphmill.FaultSetup},
		{"a tenant that is absent", plain, m{"token": p.Token(stack.PulsarSuperuser)}, "none/none/t", "namespace_absent", graphmill.FaultSetup},
		{"an authority that is not trusted", encrypted, reader, "plain", "tls_authority", graphmill.FaultSetup},
		{"a certificate of the client that is not trusted", encrypted, both(m{"tlsCertificate": foreign, "tlsPrivateKey": foreign}), "plain", "tls_certificate_refused", graphmill.FaultTransient},
		{"TLS where there is none", strings.Replace(plain, "pulsar:", "pulsar+ssl:", 1), both(m{"token": planted}), "plain", "tls_not_offered", graphmill.FaultTransient},
		{"no TLS where there is one", strings.Replace(encrypted, "pulsar+ssl:", "pulsar:", 1), reader, "plain", "tls_missing", graphmill.FaultTransient},
	} {
		t.Run(c.name, func(t *testing.T) {
			begun := time.Now()
			err := probe(t, c.url, c.config, c.topic)
			t.Logf("%v after %v", err, time.Since(begun))
			if c.code == "" {
				require.NoError(t, err)
				return
			}
			var f *graphmill.Fault
			require.ErrorAs(t, err, &f)
			require.Equal(t, c.code, f.Code, "%v", err)
			require.Equal(t, c.class, f.Class, "%v", err)
			require.NotContains(t, err.Error()+f.Next, planted)
		})
	}
	t.Run("the looks have made nothing", func(t *testing.T) {
		var topics []string
		require.NoError(t, p.Admin(ctx, "GET", "/admin/v2/persistent/public/default", nil, &topics))
		require.Len(t, topics, 3, "%q", topics)
		for _, topic := range topics {
			require.Eventually(t, func() bool {
				names, err := p.Subscriptions(ctx, topic)
				return err == nil && len(names) == 0
			}, time.Minute, 10*time.Millisecond)
		}
	})
	t.Run("a subscription ends when nobody has it", func(t *testing.T) {
		settings := settingsOf(t, reader)
		cfg := pulsar.Config{ServiceURL: plain, Topics: []string{"parted"}, Subscription: "s", Client: settings}
		cl, err := client.NewClient(client.ClientOptions{URL: plain, Authentication: client.NewAuthenticationToken(p.Token("reader"))})
		require.NoError(t, err)
		_, err = cl.Subscribe(client.ConsumerOptions{Topic: "parted", SubscriptionName: "s", Type: client.Failover})
		require.NoError(t, err)
		var conflict *graphmill.Error
		require.ErrorAs(t, pulsar.Unsubscribe(ctx, cfg), &conflict)
		require.Equal(t, "subscription_busy", conflict.Code)
		cl.Close()
		require.NoError(t, pulsar.Unsubscribe(ctx, cfg))
		for _, partition := range []string{"parted-partition-0", "parted-partition-1"} {
			names, err := p.Subscriptions(ctx, partition)
			require.NoError(t, err)
			require.Empty(t, names)
		}
	})
	t.Run("admin", func(t *testing.T) {
		for _, c := range []struct {
			url    string
			config m
			code   string
		}{
			{p.AdminURL(), m{"token": p.Token(stack.PulsarSuperuser)}, ""},
			{p.TLSAdminURL(), both(m{"token": p.Token(stack.PulsarSuperuser)}), ""},
			{p.AdminURL(), nil, "auth"},
			{p.AdminURL(), m{"token": planted}, "auth"},
			{p.AdminURL(), m{"token": p.Token("nobody")}, "forbidden"},
			{p.TLSAdminURL(), m{"token": planted}, "tls_authority"},
		} {
			f, err := pulsar.DiagnoseAdmin(ctx, c.url, settingsOf(t, c.config))
			require.NoError(t, err)
			if c.code == "" {
				require.Nil(t, f)
				continue
			}
			require.NotNil(t, f)
			require.Equal(t, c.code, f.Code, "%v", f)
		}
	})
	t.Run("doctor", func(t *testing.T) {
		facts, err := pulsar.Diagnose(ctx, plain, pulsar.ClientSettings{})
		require.NoError(t, err)
		require.True(t, facts[0].Login)
		facts, err = pulsar.Diagnose(ctx, plain, settingsOf(t, reader))
		require.NoError(t, err)
		require.Contains(t, facts[0].Version, "4.")
	})
}
