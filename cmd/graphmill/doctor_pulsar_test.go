package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill/integration/pulsarserver"
)

// plantedToken must be seen nowhere.
const plantedToken = "hunter2-planted"

// guardedPulsar starts a Pulsar that lets in whoever has plantedToken.
func guardedPulsar(t *testing.T) *pulsarserver.Server {
	s := pulsarserver.Start(t, pulsarserver.Options{})
	s.RequireTokens(map[string]string{plantedToken: "loader"})
	return s
}

func hostOf(s *pulsarserver.Server) string { return strings.TrimPrefix(s.URL(), "pulsar://") }

func TestDoctorAsksPulsar(t *testing.T) {
	for name, c := range map[string]struct {
		args   func(t *testing.T) []string
		status int
		says   []string
		not    []string
	}{
		"all well, of two hosts and the admin REST": {
			func(t *testing.T) []string {
				one, other := pulsarserver.Start(t, pulsarserver.Options{}), pulsarserver.Start(t, pulsarserver.Options{})
				return []string{"--pulsar-service-url", one.URL() + "," + hostOf(other), "--pulsar-admin-url", one.AdminURL()}
			}, 0,
			[]string{"ok brokers: 127.0.0.1:", "ok brokers: the admin REST at http://127.0.0.1:"},
			[]string{"no default brokers", "warn brokers", "kafka"},
		},
		"Kafka and Pulsar": {
			func(t *testing.T) []string {
				return []string{"--pulsar-service-url", pulsarserver.Start(t, pulsarserver.Options{}).URL(), "--kafka-bootstrap-servers", oldBroker(t)}
			}, 0,
			[]string{"answers (protocol of Kafka ", "answers (Pulsar"}, nil,
		},
		"it wants a login, and none is given": {
			func(t *testing.T) []string {
				s := guardedPulsar(t)
				return []string{"--pulsar-service-url", s.URL(), "--pulsar-admin-url", s.AdminURL()}
			}, 0,
			[]string{"warn brokers: 127.0.0.1:", " wants a login", "warn brokers: the admin REST at http://127.0.0.1:"}, nil,
		},
		"the login that is given": {
			func(t *testing.T) []string {
				s := guardedPulsar(t)
				require.NoError(t, os.WriteFile("token", []byte(plantedToken+"\n"), 0o600))
				return []string{"--pulsar-service-url", s.URL(), "--pulsar-admin-url", s.AdminURL(), "--pulsar-credential", "token=@token"}
			}, 0,
			[]string{"ok brokers: 127.0.0.1:", "ok brokers: the admin REST at", "warn brokers: configs: the service URL is pulsar://, without TLS"}, nil,
		},
		"a wrong login": {
			func(t *testing.T) []string {
				s := guardedPulsar(t)
				return []string{"--pulsar-service-url", s.URL(), "--pulsar-admin-url", s.AdminURL(), "--pulsar-credential", "token=hunter2-another"}
			}, 1,
			[]string{"fail brokers: 127.0.0.1:", "fail brokers: the admin REST"}, nil,
		},
		"a login that may not ask for the broker's health": {
			func(t *testing.T) []string {
				admin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					w.WriteHeader(http.StatusForbidden)
					_, _ = w.Write([]byte(`{"reason":"This operation requires super-user access"}`))
				}))
				t.Cleanup(admin.Close)
				return []string{"--pulsar-service-url", guardedPulsar(t).URL(), "--pulsar-admin-url", admin.URL, "--pulsar-credential", "token=" + plantedToken}
			}, 0,
			[]string{"warn brokers: the admin REST at http://127.0.0.1:", "does not tell this login"}, nil,
		},
		"nobody listens": {
			func(t *testing.T) []string {
				return []string{"--pulsar-service-url", "pulsar://" + unusedAddress(t), "--pulsar-admin-url", "http://" + unusedAddress(t)}
			}, 1,
			[]string{"fail brokers: 127.0.0.1:", "fail brokers: the admin REST"}, nil,
		},
		"TLS where the service URL has none": {
			func(t *testing.T) []string { return []string{"--pulsar-service-url", "pulsar://" + tlsListener(t)} }, 0,
			[]string{"warn brokers: ", " wants TLS"}, nil,
		},
		"one host is silent": {
			func(t *testing.T) []string {
				return []string{"--pulsar-service-url", "pulsar://" + silentListener(t) + "," + hostOf(pulsarserver.Start(t, pulsarserver.Options{}))}
			}, 1,
			[]string{"takes the connection, and then answers nothing", "ok brokers: 127.0.0.1:"}, nil,
		},
		"what listens is Kafka": {
			func(t *testing.T) []string { return []string{"--pulsar-service-url", "pulsar://" + oldBroker(t)} }, 1,
			[]string{"fail brokers: "}, nil,
		},
		"no address, with a password in it": {
			func(t *testing.T) []string {
				return []string{"--pulsar-service-url", "pulsar://loader:hunter2-planted@h:6650/x", "--pulsar-admin-url", "http://u:hunter2-planted@h"}
			}, 1,
			[]string{"fail settings: "}, []string{"brokers: "},
		},
		"an admin REST without its Pulsar": {
			func(t *testing.T) []string { return []string{"--pulsar-admin-url", "http://127.0.0.1:1"} }, 1,
			[]string{"fail settings: --pulsar-admin-url needs --pulsar-service-url", "warn brokers: no default brokers"}, nil,
		},
		"a setting of Kafka's client": {
			func(t *testing.T) []string {
				return []string{"--pulsar-service-url", "pulsar://127.0.0.1:1", "--pulsar-credential", "sasl.password=hunter2-planted"}
			}, 1,
			[]string{"fail brokers: ", "sasl.password"}, nil,
		},
		"settings without a Pulsar": {
			func(t *testing.T) []string { return []string{"--pulsar-config", "operationTimeoutMs=1000"} }, 0,
			[]string{"warn brokers: no default Pulsar is set"}, nil,
		},
		"a setting that is none": {
			func(t *testing.T) []string { return []string{"--pulsar-config", "hunter2"} }, 1,
			[]string{"fail brokers: --pulsar-config is not of the form NAME=VALUE"}, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			t.Chdir(dir)
			status, found := examined(t, dir, append([]string{"--graph-uri", "ledger:l"}, c.args(t)...)...)
			all := strings.Join(found, "\n")
			require.Equal(t, c.status, status, all)
			for _, says := range c.says {
				require.Contains(t, all, says)
			}
			for _, not := range append(c.not, "hunter2") {
				require.NotContains(t, all, not)
			}
		})
	}
}

func TestDoctorAsksThePulsarOfAStream(t *testing.T) {
	c := newCLI(t, "GRAPHMILL_SECRET_PULSAR="+plantedToken)
	s := guardedPulsar(t)
	p := c.dev(t)
	create := []string{"--no-check", "--source", "pulsar", "--topics", "t", "--transform", "absent", "--service-url", s.URL()}
	c.must(t, append([]string{"stream", "create", "referring", "--credential", "token=secret:pulsar"}, create...)...)
	c.must(t, append([]string{"stream", "create", "sealed", "--credential", "token=" + plantedToken}, create...)...)

	doctor := []string{"doctor", "--graph-uri", "ledger:" + filepath.Join(c.dir, "l"), "--kafka-bootstrap-servers", "127.0.0.1:1", "--stream"}
	text := c.must(t, append(doctor, "referring")...)
	require.Contains(t, text, "ok    brokers           "+hostOf(s)+" answers (Pulsar")
	require.NotContains(t, text, "127.0.0.1:1:", "Kafka is not asked")
	require.NotContains(t, text, "admin REST", "that of the settings is of another Pulsar")

	hidden := c.run(t, "", append(doctor, "sealed")...)
	require.Equal(t, exitFailed, hidden.status)
	require.Contains(t, hidden.out, "next: give them again: --pulsar-credential token=@FILE")
	c.must(t, append(doctor, "sealed", "--pulsar-credential", "token=secret:pulsar")...)

	other := c.must(t, append(doctor, "referring", "--kafka-config", "client.id=x")...)
	require.Contains(t, other, "--kafka-config and --kafka-credential have no effect: the stream referring reads Pulsar")

	admin := []string{"referring", "--pulsar-service-url", s.URL(), "--pulsar-admin-url", s.AdminURL(), "-o", "json"}
	var d diagnosis
	require.NoError(t, json.Unmarshal([]byte(c.must(t, append(doctor, admin...)...)), &d))
	var asked []string
	for _, f := range d.Findings {
		if f.Check == "brokers" {
			asked = append(asked, f.Result+" "+f.Text)
		}
	}
	require.Contains(t, strings.Join(asked, "\n"), "ok the admin REST at "+s.AdminURL()+" answers")
	require.NotContains(t, text+hidden.out+other+strings.Join(asked, ""), "hunter2")
	p.stop(t)
}
