//go:build e2e

package integration_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/integration/stack"
)

// planted is a wrong password, and a part of it, that must be found nowhere.
const planted = "pLaNtEd-wrong-31415"

// secretsDir makes a folder as --secrets-dir, with what clients of the broker
// need.
func secretsDir(t *testing.T, k *stack.Kafka) string {
	t.Helper()
	dir := t.TempDir()
	for name, from := range map[string]string{
		"ca.pem": k.CAFile(), "client.pem": k.ClientFile(), "foreign-ca.pem": k.ForeignCAFile(), "foreign-client.pem": k.ForeignClientFile(),
	} {
		text, err := os.ReadFile(from)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "scram-password"), []byte(stack.KafkaScramUser.Password+"\n"), 0o600))
	return dir
}

// entries are CONFIGS or CREDENTIALS.
type entries map[string]string

func tlsBy(ca string, more ...string) entries {
	e := entries{"security.protocol": "SSL", "ssl.ca.location": ca}
	for i := 0; i < len(more); i += 2 {
		e[more[i]] = more[i+1]
	}
	return e
}

func loginBy(protocol, mechanism string) entries {
	e := entries{"security.protocol": protocol, "sasl.mechanism": mechanism}
	if strings.HasSuffix(strings.ToLower(protocol), "ssl") {
		e["ssl.ca.location"] = "ca.pem"
	}
	return e
}

func as(c stack.Credential, password string) entries {
	return entries{"sasl.username": c.User, "sasl.password": password}
}

// securedStream is a trace stream at a listener.
func securedStream(name, topic, label string, brokers []string, configs, credentials entries) map[string]any {
	s := traceStream(name, topic, label)
	s["bootstrap_servers"], s["configs"], s["credentials"] = brokers, configs, credentials
	return s
}

func TestKafkaSecurityMessagesComeThroughEveryListener(t *testing.T) {
	k := world.kafka
	p := serve(t, "--secrets-dir", secretsDir(t, k), "--log-level", "debug")
	own := []string{"ssl.certificate.location", "client.pem", "ssl.key.location", "client.pem"}
	plain, scram := as(stack.KafkaPlainUser, stack.KafkaPlainUser.Password), as(stack.KafkaScramUser, "secret:scram-password")
	const n = 1000 // messages through each
	label := labelOf(t)
	listeners := []struct {
		name        string
		brokers     []string
		configs     entries
		credentials entries
	}{
		{"sasl_plain", k.SASLBrokers(), loginBy("sasl_plaintext", "PLAIN"), plain},
		{"sasl_scram_256", k.SASLBrokers(), loginBy("SASL_PLAINTEXT", "SCRAM-SHA-256"), scram},
		{"sasl_scram_512", k.SASLBrokers(), loginBy("SASL_PLAINTEXT", "scram-sha-512"), scram},
		{"tls", k.TLSBrokers(), tlsBy("ca.pem"), nil},
		{"mtls", k.MTLSBrokers(), tlsBy("ca.pem", own...), nil},
		{"tls_sasl_plain", k.SASLTLSBrokers(), loginBy("SASL_SSL", "PLAIN"), plain},
		{"tls_sasl_scram_256", k.SASLTLSBrokers(), loginBy("sasl_ssl", "SCRAM-SHA-256"), scram},
		{"tls_sasl_scram_512", k.SASLTLSBrokers(), loginBy("sasl_ssl", "SCRAM-SHA-512"), scram},
		{"any_name", k.MisnamedBrokers(), tlsBy("ca.pem", "ssl.endpoint.identification.algorithm", "none"), nil},
		{"unverified", k.ExpiredBrokers(), entries{"security.protocol": "ssl", "enable.ssl.certificate.verification": "false"}, nil},
	}
	for i, c := range listeners {
		t.Run(c.name, func(t *testing.T) {
			topic := topicOf(t, 1)
			require.NoError(t, produce(t.Context(), topic, i*n, (i+1)*n))
			p.do("POST", "/streams", securedStream(c.name, topic, label, c.brokers, c.configs, c.credentials), nil)
			p.do("POST", "/streams/"+c.name+":start", nil, nil)
			s := p.awaitDone(c.name, 1)
			require.EqualValues(t, n, s.Counters.Messages)
			p.do("POST", "/streams/"+c.name+":stop", nil, nil)
		})
	}
	require.Zero(t, requireAllApplied(t, label, n*len(listeners)))
	log, err := os.ReadFile(p.log)
	require.NoError(t, err)
	for _, secret := range []string{stack.KafkaPlainUser.Password, stack.KafkaScramUser.Password} {
		require.NotContains(t, string(log), secret)
	}
}

// problem is the part of an error's answer that is looked at.
type problem struct {
	Code     string `json:"code"`
	Detail   string `json:"detail"`
	NextStep string `json:"next_step"`
}

// Row 32 of the cases, as far as brokers are concerned: at CREATE, at START and
// in the status each obstacle has its own code, and a refused login is not
// repeated.
func TestCase32KafkaSecurityEachObstacleHasItsOwnState(t *testing.T) {
	k := world.kafka
	args := []string{"--secrets-dir", secretsDir(t, k), "--create-timeout", "20s", "--log-level", "debug", "--start-timeout"}
	servers := map[graphmill.State]*program{
		graphmill.StateFailed:  serve(t, append(args, "30s")...),
		graphmill.StateWaiting: serve(t, append(args, "2s")...), // START waits all of it
	}
	topic, label := topicOf(t, 1), labelOf(t)
	wrong := func(c stack.Credential) entries { return as(c, planted) }
	plain := as(stack.KafkaPlainUser, stack.KafkaPlainUser.Password)
	foreign := []string{"ssl.certificate.location", "foreign-client.pem", "ssl.key.location", "foreign-client.pem"}
	for _, c := range []struct {
		name        string
		brokers     []string
		configs     entries
		credentials entries
		code        string
		state       graphmill.State
	}{
		{"wrong_password_plain", k.SASLBrokers(), loginBy("sasl_plaintext", "PLAIN"), wrong(stack.KafkaPlainUser), "auth", graphmill.StateFailed},
		{"wrong_password_scram_256", k.SASLBrokers(), loginBy("sasl_plaintext", "SCRAM-SHA-256"), wrong(stack.KafkaScramUser), "auth", graphmill.StateFailed},
		{"wrong_password_scram_512_tls", k.SASLTLSBrokers(), loginBy("sasl_ssl", "SCRAM-SHA-512"), wrong(stack.KafkaScramUser), "auth", graphmill.StateFailed},
		{"unknown_user", k.SASLBrokers(), loginBy("sasl_plaintext", "SCRAM-SHA-512"), as(stack.Credential{User: "nobody"}, planted), "auth", graphmill.StateFailed},
		{"no_login", k.SASLBrokers(), nil, nil, "sasl_missing", graphmill.StateWaiting},
		{"no_login_tls", k.SASLTLSBrokers(), tlsBy("ca.pem"), nil, "sasl_missing", graphmill.StateWaiting},
		{"login_not_offered", k.Brokers(), loginBy("sasl_plaintext", "PLAIN"), plain, "sasl_not_offered", graphmill.StateFailed},
		{"plaintext_to_tls", k.TLSBrokers(), nil, nil, "tls_missing", graphmill.StateFailed},
		{"plaintext_login_to_tls", k.SASLTLSBrokers(), loginBy("sasl_plaintext", "PLAIN"), plain, "tls_missing", graphmill.StateFailed},
		{"tls_to_plaintext", k.Brokers(), tlsBy("ca.pem"), nil, "tls_not_offered", graphmill.StateWaiting},
		{"wrong_authority", k.TLSBrokers(), tlsBy("foreign-ca.pem"), nil, "tls_authority", graphmill.StateFailed},
		{"authorities_of_the_system", k.TLSBrokers(), entries{"security.protocol": "ssl"}, nil, "tls_authority", graphmill.StateFailed},
		{"another_host", k.MisnamedBrokers(), tlsBy("ca.pem"), nil, "tls_host_name", graphmill.StateFailed},
		{"expired", k.ExpiredBrokers(), tlsBy("ca.pem"), nil, "tls_expired", graphmill.StateWaiting},
		{"no_client_certificate", k.MTLSBrokers(), tlsBy("ca.pem"), nil, "tls_certificate_missing", graphmill.StateFailed},
		{"foreign_client_certificate", k.MTLSBrokers(), tlsBy("ca.pem", foreign...), nil, "tls_certificate_refused", graphmill.StateFailed},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := servers[c.state]
			stream := securedStream(c.name, topic, label, c.brokers, c.configs, c.credentials)
			refused := refusedLogins(t, k)
			status, answer := p.call("POST", "/api/v1/streams", stream, nil)
			require.Equal(t, c.code, codeOf(t, answer), "CREATE says %s", answer)
			require.GreaterOrEqual(t, status, 400)

			stream["check"] = false
			p.do("POST", "/streams", stream, nil)
			status, answer = p.call("POST", "/api/v1/streams/"+c.name+":start", nil, nil)
			if c.state == graphmill.StateFailed {
				require.Equal(t, c.code, codeOf(t, answer), "START says %s", answer)
			} else {
				require.Equal(t, http.StatusOK, status, "START says %s", answer)
			}
			s := p.await(c.name, "the status tells", func(s graphmill.StreamStatus) bool { return s.State == c.state })
			require.Equal(t, c.code, s.Reason.Code, "the status says %v", s.Reason)
			require.NotEmpty(t, s.Reason.NextStep)
			t.Logf("%s: %s", s.Reason.Text, s.Reason.NextStep)
			t.Log("refused logins:", refusedLogins(t, k)-refused)
			require.LessOrEqual(t, refusedLogins(t, k)-refused, 4, "a refused login is not repeated")
			p.do("DELETE", "/streams/"+c.name, nil, nil)
		})
	}
	for _, p := range servers {
		p.terminate()
		requireNowhere(t, p, planted)
	}
}

// requireNowhere looks for a secret in all that a program has written: its log and
// its data.
func requireNowhere(t *testing.T, p *program, secret string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(filepath.Dir(p.dir), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		require.NotContains(t, string(text), secret, "the file %s", path)
		return err
	}))
}

func codeOf(t *testing.T, answer string) string {
	t.Helper()
	require.NotContains(t, answer, planted)
	var pr problem
	require.NoError(t, json.Unmarshal([]byte(answer), &pr), "%s", answer)
	return pr.Code
}

// refusedLogins counts what the broker has refused so far, by its log.
func refusedLogins(t *testing.T, k *stack.Kafka) int {
	t.Helper()
	log, err := os.ReadFile(k.LogFile())
	require.NoError(t, err)
	return strings.Count(string(log), "(Authentication failed")
}

func TestKafkaSecurityRightsThatAreLackingAreNamed(t *testing.T) {
	k := world.kafka
	p := serve(t, "--secrets-dir", secretsDir(t, k), "--create-timeout", "20s")
	scram := as(stack.KafkaScramUser, "secret:scram-password")
	const user, other = "User:scram", "User:other"
	for _, c := range []struct {
		name  string
		topic []kadm.ACLOperation // what the user may do with the topic; all where nil
		group bool                // whether the user may use the group
		says  string
	}{
		{"nothing_of_the_topic", []kadm.ACLOperation{}, true, "cannot be described"},
		{"describe_but_not_read", []kadm.ACLOperation{kadm.OpDescribe}, true, "read "},
		{"not_the_group", nil, false, "join group"},
	} {
		t.Run(c.name, func(t *testing.T) {
			topic := topicOf(t, 1)
			acls := kadm.NewACLs().Allow(other).Topics(topic).Operations(kadm.OpRead).ResourcePatternType(kadm.ACLPatternLiteral)
			if c.topic != nil {
				allow(t, acls)
				if len(c.topic) > 0 {
					allow(t, kadm.NewACLs().Allow(user).Topics(topic).Operations(c.topic...).ResourcePatternType(kadm.ACLPatternLiteral))
				}
			}
			if !c.group {
				allow(t, kadm.NewACLs().Allow(other).Groups("graphmill."+c.name).Operations(kadm.OpRead).ResourcePatternType(kadm.ACLPatternLiteral))
			}
			stream := securedStream(c.name, topic, "Any", k.SASLBrokers(), loginBy("sasl_plaintext", "SCRAM-SHA-512"), scram)
			var answer string
			require.Eventually(t, func() bool { // the list takes a moment to be known
				_, answer = p.call("POST", "/api/v1/streams", stream, nil)
				return strings.Contains(answer, `"forbidden"`)
			}, patience, 200*time.Millisecond)
			require.Contains(t, answer, c.says)
			require.Contains(t, answer, "kafka-acls.sh")

			require.NoError(t, produce(t.Context(), topic, 0, 10))
			stream["check"] = false
			p.do("POST", "/streams", stream, nil)
			p.call("POST", "/api/v1/streams/"+c.name+":start", nil, nil)
			s := p.await(c.name, "it has failed", inState(graphmill.StateFailed))
			require.Equal(t, "forbidden", s.Reason.Code)
			t.Log(s.Reason.Text, s.Reason.NextStep)
		})
	}
}

// allow adds an access control list, after which others have no right.
func allow(t *testing.T, b *kadm.ACLBuilder) {
	t.Helper()
	results, err := admin(t).CreateACLs(t.Context(), b)
	require.NoError(t, err)
	for _, r := range results {
		require.NoError(t, r.Err)
	}
}

// A broker of its own, which asks for the login again every two seconds and
// offers one mechanism.
func TestKafkaSecurityAPasswordThatIsChangedFailsTheRunningStream(t *testing.T) {
	k, err := stack.StartKafka(t.Context(), stack.KafkaConfig{Log: os.Stderr, Settings: map[string]string{
		"listener.name.sasl.connections.max.reauth.ms": "2000",
		"listener.name.sasl.sasl.enabled.mechanisms":   "SCRAM-SHA-512",
	}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = k.Close() })
	cl, err := kadm.NewOptClient(kgo.SeedBrokers(k.Brokers()...))
	require.NoError(t, err)
	t.Cleanup(cl.Close)
	_, err = cl.CreateTopic(t.Context(), 1, 1, nil, "t")
	require.NoError(t, err)
	password := func(p string) {
		_, err := cl.AlterUserSCRAMs(t.Context(), nil, []kadm.UpsertSCRAM{{User: "scram", Mechanism: kadm.ScramSha512, Iterations: 4096, Password: p}})
		require.NoError(t, err)
	}
	password(planted + "-before")

	p := serve(t, "--log-level", "debug")
	login := entries{"sasl.username": "scram", "sasl.password": planted + "-before"}
	other := securedStream("other", "t", "Any", k.SASLBrokers(), loginBy("sasl_plaintext", "PLAIN"), login)
	_, answer := p.call("POST", "/api/v1/streams", other, nil)
	require.Equal(t, "sasl_mechanism", codeOf(t, answer), "%s", answer)

	p.do("POST", "/streams", securedStream("s", "t", "Any", k.SASLBrokers(), loginBy("sasl_plaintext", "SCRAM-SHA-512"), login), nil)
	p.do("POST", "/streams/s:start", nil, nil)
	p.await("s", "it runs", inState(graphmill.StateRunning))
	require.Never(t, func() bool { return p.status("s").State == graphmill.StateFailed }, 5*time.Second, 100*time.Millisecond, "it logs in again and again")

	password(planted + "-after")
	s := p.await("s", "it has failed", inState(graphmill.StateFailed))
	require.Equal(t, "auth", s.Reason.Code)
	require.Contains(t, s.Reason.Text, "sasl.username", "the setting that names the user is named; the user may be a secret")
	require.NotContains(t, fmt.Sprint(s), planted)
	refused := refusedLogins(t, k)
	t.Log("refused logins:", refused)
	require.LessOrEqual(t, refused, 10, "each of the connections that stood, five at most, tries in place and anew")
	require.Never(t, func() bool { return refusedLogins(t, k) > refused }, 3*time.Second, 100*time.Millisecond, "and that was all")
	log, err := os.ReadFile(p.log)
	require.NoError(t, err)
	require.NotContains(t, string(log), planted)
}
