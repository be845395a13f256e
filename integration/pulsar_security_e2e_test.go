//go:build e2e

package integration_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/integration/stack"
)

// A broker that asks who a client is, also over TLS. The role "reader" may consume in
// public/default, "nobody" may do nothing.
func TestPulsarSecurity(t *testing.T) {
	started, err := stack.StartPulsar(t.Context(), stack.PulsarConfig{Log: os.Stderr, Token: true, TLS: true})
	require.NoError(t, err)
	t.Cleanup(func() { _ = started.Close() })
	b := pulsarBroker{Pulsar: started, token: started.Token(stack.PulsarSuperuser)}
	require.NoError(t, b.Grant(t.Context(), "public/default", "reader", "consume"))
	require.NoError(t, b.Grant(t.Context(), "public/default", stack.PulsarClientRole, "consume"))

	secrets := t.TempDir()
	keep := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(secrets, name), []byte(text), 0o600))
	}
	for name, from := range map[string]string{"ca.pem": b.CAFile(), "client.pem": b.ClientFile(), "foreign-ca.pem": b.ForeignCAFile()} {
		text, err := os.ReadFile(from)
		require.NoError(t, err)
		keep(name, string(text))
	}
	reader := b.Token("reader")
	keep("pulsar-token", reader+"\n")
	wrong := reader[:strings.LastIndex(reader, ".")+1] + planted // signed by nobody

	t.Run("messages come through", func(t *testing.T) {
		const n = 1000 // messages by each login
		topic, label := b.topic(t, 3), labelOf(t)
		f := b.feed(t, "", topic, label)
		defer f.close()
		p := b.serve(t, "--secrets-dir", secrets, "--log-level", "debug")
		for i, c := range []struct {
			name                 string
			url                  string
			configs, credentials entries
		}{
			{"token", b.ServiceURL(), nil, entries{"token": reader}},
			{"token_of_a_file", b.ServiceURL(), nil, entries{"token": "secret:pulsar-token"}},
			{"token_over_tls", b.TLSServiceURL(), entries{"tlsTrustCertsFilePath": "ca.pem"}, entries{"token": "secret:pulsar-token"}},
			{"certificate", b.TLSServiceURL(), entries{"tlsTrustCertsFilePath": "ca.pem", "tlsCertificateFilePath": "client.pem", "tlsKeyFilePath": "client.pem"}, nil},
		} {
			def := b.stream(c.name, topic, label)
			def["start_from"], def["service_url"], def["configs"], def["credentials"] = "latest", c.url, c.configs, c.credentials
			p.do("POST", "/streams", def, nil)
			require.NoError(t, f.send(t.Context(), i*n, (i+1)*n))
			p.do("POST", "/streams/"+c.name+":start", nil, nil)
			p.await(c.name, "it has read all", func(s graphmill.StreamStatus) bool { return s.Counters.Messages == n })
			s := p.awaitDone(c.name, 3)
			t.Logf("%s: the %s tells the lag", c.name, s.Partitions[0].LagFrom)
			p.do("POST", "/streams/"+c.name+":stop", nil, nil)
		}
		require.Zero(t, requireAllApplied(t, label, 4*n))
		log, err := os.ReadFile(p.log)
		require.NoError(t, err)
		require.NotContains(t, string(log), reader)
	})

	t.Run("each obstacle has its own state", func(t *testing.T) {
		args := []string{"--secrets-dir", secrets, "--create-timeout", "20s", "--log-level", "debug", "--start-timeout"}
		servers := map[graphmill.State]*program{
			graphmill.StateFailed:  b.serve(t, append(args, "30s")...),
			graphmill.StateWaiting: b.serve(t, append(args, "2s")...), // START waits all of it
		}
		topic, label := b.topic(t, 1), labelOf(t)
		for _, c := range []struct {
			name, topic, url string
			configs          entries
			credentials      entries
			code             string
			state            graphmill.State
		}{
			{"wrong_token", topic, b.ServiceURL(), nil, entries{"token": wrong}, "auth", graphmill.StateFailed},
			{"no_token", topic, b.ServiceURL(), nil, nil, "auth", graphmill.StateFailed},
			{"no_permission", topic, b.ServiceURL(), nil, entries{"token": b.Token("nobody")}, "forbidden", graphmill.StateFailed},
			{"absent_topic", topic + "-absent", b.ServiceURL(), nil, entries{"token": reader}, "topic_absent", graphmill.StateWaiting},
			{"absent_namespace", "persistent://public/absent/t", b.ServiceURL(), nil, entries{"token": b.token}, "namespace_absent", graphmill.StateFailed},
			{"absent_secret", topic, b.ServiceURL(), nil, entries{"token": "secret:absent"}, "secret_not_found", graphmill.StateFailed},
			{"wrong_authority", topic, b.TLSServiceURL(), entries{"tlsTrustCertsFilePath": "foreign-ca.pem"}, entries{"token": reader}, "tls_authority", graphmill.StateFailed},
		} {
			p := servers[c.state]
			def := b.stream(c.name, c.topic, label)
			def["service_url"], def["configs"], def["credentials"] = c.url, c.configs, c.credentials
			status, answer := p.call("POST", "/api/v1/streams", def, nil)
			require.GreaterOrEqual(t, status, 400, c.name)
			require.Equal(t, c.code, codeOf(t, answer), "%s: CREATE says %s", c.name, answer)

			def["check"] = false
			p.do("POST", "/streams", def, nil)
			status, answer = p.call("POST", "/api/v1/streams/"+c.name+":start", nil, nil)
			if c.state == graphmill.StateFailed {
				require.Equal(t, c.code, codeOf(t, answer), "%s: START says %s", c.name, answer)
			} else {
				require.Equal(t, http.StatusOK, status, "%s: START says %s", c.name, answer)
			}
			s := p.await(c.name, "the status tells", inState(c.state))
			require.Equal(t, c.code, s.Reason.Code, "%s: the status says %v", c.name, s.Reason)
			require.NotEmpty(t, s.Reason.NextStep)
			t.Logf("%s: %s: %s", c.name, s.Reason.Text, s.Reason.NextStep)
			p.do("DELETE", "/streams/"+c.name, nil, nil)
		}
		for _, p := range servers {
			p.terminate()
			requireNowhere(t, p, planted)
		}
	})

	t.Run("a login that is lost and found", func(t *testing.T) {
		const n = 500
		topic, label := b.topic(t, 3), labelOf(t)
		f := b.feed(t, "", topic, label)
		defer f.close()
		p := b.serve(t, "--secrets-dir", secrets, "--create-timeout", "20s", "--start-timeout", "20s")
		def := b.stream("locked", topic, label)
		def["credentials"] = entries{"token": "secret:pulsar-token"}
		p.do("POST", "/streams", def, nil)
		sent := 0
		more := func() {
			t.Helper()
			require.NoError(t, f.send(t.Context(), sent, sent+n))
			sent += n
			p.do("POST", "/streams/locked:start", nil, nil)
			p.awaitDone("locked", 3)
			require.Zero(t, requireAllApplied(t, label, sent))
			p.do("POST", "/streams/locked:stop", nil, nil)
		}
		more()
		for _, c := range []struct {
			code       string
			lose, find func()
		}{
			{"auth", func() { keep("pulsar-token", wrong) }, func() { keep("pulsar-token", reader) }},
			{"forbidden", func() { keep("pulsar-token", b.Token("nobody")) }, func() { keep("pulsar-token", reader) }},
		} {
			c.lose()
			_, answer := p.call("POST", "/api/v1/streams/locked:start", nil, nil)
			require.Equal(t, c.code, codeOf(t, answer), "START says %s", answer)
			s := p.await("locked", "it has failed", inState(graphmill.StateFailed))
			require.Equal(t, c.code, s.Reason.Code)
			c.find()
			more()
		}
	})
}
