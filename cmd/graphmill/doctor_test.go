package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/api"
	"github.com/graphmill/graphmill/integration/boltserver"
	"github.com/graphmill/graphmill/integration/ports"
)

// examined runs graphmill doctor and returns its status and what it found, as
// "result check: text".
func examined(t *testing.T, dir string, args ...string) (int, []string) {
	t.Helper()
	t.Chdir(dir)
	var out, errs bytes.Buffer
	a := &app{in: strings.NewReader(""), out: &out, err: &errs}
	status := a.run(t.Context(), append([]string{"doctor", "--listen", unusedAddress(t), "-o", "json"}, args...))
	var d diagnosis
	require.NoError(t, json.Unmarshal(out.Bytes(), &d), "%s%s", &out, &errs)
	var found []string
	for _, f := range d.Findings {
		require.NotEmpty(t, f.Check)
		if f.Result == isFail {
			require.NotEmpty(t, f.Next+f.Text)
		}
		found = append(found, fmt.Sprintf("%s %s: %s", f.Result, f.Check, f.Text))
	}
	return status, found
}

// with returns the lines that hold what.
func with(lines []string, what string) string {
	var found []string
	for _, l := range lines {
		if strings.Contains(l, what) {
			found = append(found, l)
		}
	}
	return strings.Join(found, "\n")
}

// barren is a folder in which nothing can be made, not even by root.
func barren() string {
	if runtime.GOOS == "darwin" {
		return "/System"
	}
	return "/proc"
}

// neo4jAnswers makes a database tell what Neo4j tells.
func neo4jAnswers(access string, skew time.Duration, roles ...any) boltserver.Hooks {
	row := func(fields []string, values ...any) boltserver.Reply {
		return boltserver.Reply{Fields: fields, Rows: [][]any{values}}
	}
	return boltserver.Hooks{OnRun: func(st boltserver.Statement) boltserver.Reply {
		switch {
		case strings.Contains(st.Query, "timestamp()"):
			return row([]string{"now"}, time.Now().Add(skew).UnixMilli())
		case strings.Contains(st.Query, "dbms.components"):
			return row([]string{"edition"}, "enterprise")
		case strings.Contains(st.Query, "db.info"):
			return row([]string{"name"}, "movies")
		case strings.Contains(st.Query, "SHOW DATABASES"):
			return row([]string{"access", "currentStatus"}, access, "online")
		case strings.Contains(st.Query, "CURRENT USER"):
			return row([]string{"user", "roles"}, "mill", roles)
		}
		return boltserver.Reply{}
	}}
}

func TestDoctorFindsAllWell(t *testing.T) {
	dir := t.TempDir()
	broker, err := kfake.NewCluster(kfake.NumBrokers(2))
	require.NoError(t, err)
	defer broker.Close()
	bolt := boltserver.Start(t, boltserver.Options{User: "mill", Password: "hunter2-planted", Hooks: neo4jAnswers("read-write", 0, "PUBLIC", "editor")})
	password := filepath.Join(dir, "password")
	require.NoError(t, os.WriteFile(password, []byte("hunter2-planted\n"), 0o600))
	plugins := filepath.Join(dir, "plugins")
	require.NoError(t, os.Mkdir(plugins, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(plugins, "cypher.wasm"), nil, 0o600))

	status, found := examined(t, dir, "--kafka-bootstrap-servers", broker.ListenAddrs()[0], "--plugins-dir", plugins,
		"--graph-uri", bolt.URI(), "--graph-user", "mill", "--graph-password-file", password)
	require.Equal(t, exitDone, status, found)
	require.Equal(t, "ok data directory: "+filepath.Join(dir, "graphmill-data")+" is not there yet; a server makes it", with(found, "is not there yet"))
	require.Contains(t, with(found, "statements"), "Neo4j/5.26.0, enterprise, movies, online, read-write")
	for _, address := range broker.ListenAddrs() {
		require.Contains(t, with(found, "ok brokers: "+address), "answers", "also the one that the first has given out")
	}
	require.Contains(t, with(found, "ready modules"), "ok ready modules: cypher in ")
	require.Contains(t, with(found, "server:"), "none runs")
	require.NotContains(t, strings.Join(found, ""), "hunter2")
	_, err = os.Stat(filepath.Join(dir, "graphmill-data"))
	require.ErrorIs(t, err, os.ErrNotExist, "nothing has been changed")
}

func TestDoctorTellsWhatToMend(t *testing.T) {
	nobody := unusedAddress(t)
	for name, c := range map[string]struct {
		args   func(t *testing.T, dir string) []string
		status int
		says   []string
	}{
		"no database is named": {func(*testing.T, string) []string { return nil }, 1, []string{"fail statements: --graph-uri is needed", "warn brokers: no default brokers"}},
		"nobody answers": {
			func(*testing.T, string) []string {
				return []string{"--graph-uri", "bolt://" + nobody, "--kafka-bootstrap-servers", nobody}
			}, 1,
			[]string{"fail statements: the database at " + nobody, "fail brokers: " + nobody + ": no broker of " + nobody + " answers"},
		},
		"an address that is none, which may hold a password": {
			func(*testing.T, string) []string {
				return []string{"--kafka-bootstrap-servers", "user:hunter2-planted@host:9092"}
			}, 1,
			[]string{"fail settings: --kafka-bootstrap-servers"},
		},
		"a password in the URI": {
			func(*testing.T, string) []string {
				return []string{"--graph-uri", "bolt://mill:hunter2-planted@127.0.0.1"}
			}, 1,
			[]string{"fail statements: --graph-uri: user and password must not stand in it"},
		},
		"a wrong password": {
			func(t *testing.T, dir string) []string {
				bolt := boltserver.Start(t, boltserver.Options{User: "mill", Password: "right"})
				require.NoError(t, os.WriteFile("password", []byte("hunter2-planted"), 0o600))
				return []string{"--graph-uri", bolt.URI(), "--graph-user", "mill", "--graph-password-file", "password"}
			}, 1,
			[]string{"fail statements: ", "ok files of secrets: --graph-password-file can be read"},
		},
		"a database that is read-only, its clock behind, and the user an admin": {
			func(t *testing.T, dir string) []string {
				bolt := boltserver.Start(t, boltserver.Options{Hooks: neo4jAnswers("read-only", -time.Hour, "admin", "PUBLIC")})
				return []string{"--graph-uri", bolt.URI()}
			}, 1,
			[]string{"fail statements: the database movies is read-only", "warn statements: the clock of the database is -1h0m0s off ours", "warn statements: the user mill has the role admin"},
		},
		"a database that tells nothing of itself": {
			func(t *testing.T, dir string) []string {
				bolt := boltserver.Start(t, boltserver.Options{Agent: "Neo4j/5.2.0 (Memgraph)", Hooks: boltserver.Hooks{OnRun: func(st boltserver.Statement) boltserver.Reply {
					if strings.Contains(st.Query, "reached") {
						return boltserver.Reply{}
					}
					return boltserver.Fail("Memgraph.ClientError.MemgraphError.MemgraphError", "no")
				}}})
				return []string{"--graph-uri", bolt.URI()}
			}, 0,
			[]string{"ok statements: the database at bolt://", "(Neo4j/5.2.0 (Memgraph);"},
		},
		"a broker without topic ids": {
			func(t *testing.T, dir string) []string {
				return []string{"--graph-uri", "ledger:l", "--kafka-bootstrap-servers", oldBroker(t)}
			}, 0,
			[]string{"it has no topic ids", "ok statements: the ledger l is not there yet"},
		},
		"a broker that wants TLS": {
			func(t *testing.T, dir string) []string {
				return []string{"--graph-uri", "ledger:l", "--kafka-bootstrap-servers", tlsListener(t)}
			}, 0,
			[]string{"warn brokers: ", "wants TLS"},
		},
		"what listens is no broker": {
			func(t *testing.T, dir string) []string {
				bolt := boltserver.Start(t, boltserver.Options{})
				return []string{"--graph-uri", "ledger:l", "--kafka-bootstrap-servers", strings.TrimPrefix(bolt.URI(), "bolt://")}
			}, 1,
			[]string{"fail brokers: "},
		},
		"a data directory that others may look into, in use": {
			func(t *testing.T, dir string) []string {
				require.NoError(t, os.Mkdir("data", 0o700))
				require.NoError(t, os.Chmod("data", 0o755))
				require.NoError(t, os.WriteFile("data/catalog.db", nil, 0o600))
				return []string{"--graph-uri", "ledger:l", "--data-dir", "data"}
			}, 0,
			[]string{"warn data directory: others on this machine may look into"},
		},
		"a data directory that is a file": {
			func(t *testing.T, dir string) []string {
				require.NoError(t, os.WriteFile("data", nil, 0o600))
				return []string{"--graph-uri", "ledger:data/l", "--data-dir", "data/deeper"}
			}, 1,
			[]string{"fail data directory: ", "fail statements: the ledger data/l"},
		},
		"settings that a server would refuse": {
			func(t *testing.T, dir string) []string {
				require.NoError(t, os.WriteFile("graphmill.yaml", []byte("graph-url: bolt://x\n"), 0o600))
				return []string{"--drain-timeout", "0s", "--listen", "0.0.0.0:1", "--graph-uri", "ledger:l"}
			}, 1,
			[]string{"did you mean graph-uri?", "--drain-timeout 0s is not more than 0", "without a login", "ok statements"},
		},
		"files of secrets that are not there, or for all to read": {
			func(t *testing.T, dir string) []string {
				require.NoError(t, os.WriteFile("tokens", []byte(strings.Repeat("hunter2-planted", 4)), 0o600))
				require.NoError(t, os.Chmod("tokens", 0o644))
				return []string{"--graph-uri", "ledger:l", "--graph-password-file", "gone", "--token-file", "tokens"}
			}, 1,
			[]string{"fail files of secrets: --graph-password-file", "warn files of secrets: everybody on this machine can read --token-file tokens"},
		},
		"the server's own key, that its group may read": {
			func(t *testing.T, dir string) []string {
				require.NoError(t, os.MkdirAll("data", 0o700))
				require.NoError(t, os.WriteFile("data/secret.key", nil, 0o600))
				require.NoError(t, os.Chmod("data/secret.key", 0o640))
				return []string{"--graph-uri", "ledger:l", "--data-dir", "data"}
			}, 0,
			[]string{"warn files of secrets: its group can read --secret-key-file data/secret.key"},
		},
		"the server that is named does not run": {
			func(t *testing.T, dir string) []string {
				return []string{"--graph-uri", "ledger:l", "--server", nobody}
			}, 1,
			[]string{"fail server: no server is reached at http://" + nobody, "is free to listen on"},
		},
		"a data directory where none can be": {
			func(t *testing.T, dir string) []string {
				return []string{"--graph-uri", "ledger:" + barren() + "/l", "--data-dir", barren() + "/graphmill/data"}
			}, 1,
			[]string{
				"fail data directory: " + barren() + "/graphmill/data is not there, and cannot be made: nothing can be made in " + barren(),
				"fail statements: the ledger " + barren() + "/l",
			},
		},
		"another program listens where the server is to": {
			func(t *testing.T, dir string) []string {
				return []string{"--graph-uri", "ledger:l", "--listen", tlsListener(t), "--server", nobody}
			}, 1,
			[]string{"fail server: no server is reached", "fail server: another program listens on "},
		},
		"all take connections and say nothing": {
			func(t *testing.T, dir string) []string {
				silent := silentListener(t)
				return []string{"--graph-uri", "bolt://" + silent, "--kafka-bootstrap-servers", silent, "--listen", silent}
			}, 1,
			[]string{
				"takes the connection, and then answers nothing", "fail statements: the database at bolt://", " takes the connection, and answers nothing within",
				"fail server: the server at 127.0.0.1:",
			},
		},
		"a broker with the login that is given": {
			func(t *testing.T, dir string) []string {
				require.NoError(t, os.WriteFile("password", []byte("hunter2-planted\n"), 0o600))
				return append([]string{"--graph-uri", "ledger:l", "--kafka-credential", "sasl.password=@password"}, loginBroker(t)...)
			}, 0,
			[]string{"ok brokers: 127.0.0.1:", "warn brokers: configs: security.protocol is sasl_plaintext"},
		},
		"a broker with a wrong login": {
			func(t *testing.T, dir string) []string {
				return append([]string{"--graph-uri", "ledger:l", "--kafka-credential", "sasl.password=hunter2-another"}, loginBroker(t)...)
			}, 1,
			[]string{"fail brokers: 127.0.0.1:"},
		},
		"a secret that is not there": {
			func(t *testing.T, dir string) []string {
				return append([]string{"--graph-uri", "ledger:l", "--kafka-credential", "sasl.password=secret:absent"}, loginBroker(t)...)
			}, 1,
			[]string{`fail brokers: credentials: sasl.password: there is no secret "absent"`},
		},
		"a stream without a server that knows it": {
			func(t *testing.T, dir string) []string {
				return []string{"--graph-uri", "ledger:l", "--stream", "ratings"}
			}, 1,
			[]string{"fail brokers: ask the server for the stream ratings: no server is reached"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			t.Chdir(dir)
			began := time.Now()
			status, found := examined(t, dir, c.args(t, dir)...)
			require.Equal(t, c.status, status, found)
			for _, says := range c.says {
				require.NotEmpty(t, with(found, says), "%q is not in\n%s", says, strings.Join(found, "\n"))
			}
			require.NotContains(t, strings.Join(found, ""), "hunter2")
			require.Less(t, time.Since(began), checkLimit+time.Minute)
		})
	}
}

// silentListener takes connections, as the system does for it, and says nothing.
func silentListener(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}

// loginBroker starts a broker that wants a login, and returns the flags that name
// it, without the password.
func loginBroker(t *testing.T) []string {
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.EnableSASL(), kfake.Superuser("PLAIN", "loader", "hunter2-planted"))
	require.NoError(t, err)
	t.Cleanup(broker.Close)
	return []string{
		"--kafka-bootstrap-servers", broker.ListenAddrs()[0], "--kafka-config", "security.protocol=sasl_plaintext",
		"--kafka-config", "sasl.mechanism=PLAIN", "--kafka-config", "sasl.username=loader",
	}
}

func TestDoctorNeverClosesAFolderOfOthers(t *testing.T) {
	foreign := t.TempDir()
	require.NoError(t, os.Chmod(foreign, 0o755))
	if os.Geteuid() != 0 {
		foreign = "/usr"
	} else {
		require.NoError(t, os.Chown(foreign, 54321, 54321))
	}
	shared := t.TempDir() // as /tmp
	require.NoError(t, os.Chmod(shared, 0o777))
	require.NoError(t, os.WriteFile(filepath.Join(shared, "notes.txt"), nil, 0o600))
	for dir, next := range map[string]string{foreign: "choose another folder with --data-dir", shared: "choose a folder of its own with --data-dir"} {
		d := &doctor{settings: &serveSettings{dataDir: dir}}
		var all strings.Builder
		printFindings(&all, d.dataDir())
		require.Contains(t, all.String(), next)
		require.NotContains(t, all.String(), "chmod")
		left, err := filepath.Glob(filepath.Join(dir, ".graphmill*"))
		require.NoError(t, err)
		require.Empty(t, left, "nothing is left behind")
	}
}

func TestDoctorAsksTheBrokersOfAStream(t *testing.T) {
	c := newCLI(t, "GRAPHMILL_SECRET_KAFKA=hunter2-planted")
	p := c.dev(t)
	login := loginBroker(t)
	create := []string{"--no-check", "--topics", "t", "--transform", "absent", "--bootstrap-servers", login[1]}
	for _, entry := range []string{login[3], login[5], login[7]} {
		create = append(create, "--config", entry)
	}
	c.must(t, append([]string{"stream", "create", "referring", "--credential", "sasl.password=secret:kafka"}, create...)...)
	c.must(t, append([]string{"stream", "create", "sealed", "--credential", "sasl.password=hunter2-planted"}, create...)...)

	doctor := []string{"doctor", "--graph-uri", "ledger:" + filepath.Join(c.dir, "l"), "--stream"}
	require.Contains(t, c.must(t, append(doctor, "referring")...), "ok    brokers           "+login[1]+" answers")
	hidden := c.run(t, "", append(doctor, "sealed")...)
	require.Equal(t, exitFailed, hidden.status)
	require.Contains(t, hidden.out, "next: give them again: --kafka-credential sasl.password=@FILE")
	c.must(t, append(doctor, "sealed", "--kafka-credential", "sasl.password=secret:kafka")...)
	absent := c.run(t, "", append(doctor, "refering")...)
	require.Equal(t, exitFailed, absent.status)
	require.Contains(t, absent.out, "referring", "the nearest one is named")
	p.stop(t)
}

func unusedAddress(t *testing.T) string {
	free, err := ports.Free(1)
	require.NoError(t, err)
	return ports.Loopback(free[0])
}

// oldBroker speaks as Kafka before 2.8 did.
func oldBroker(t *testing.T) string {
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.MaxVersions(kversion.V2_7_0()))
	require.NoError(t, err)
	t.Cleanup(broker.Close)
	return broker.ListenAddrs()[0]
}

func tlsListener(t *testing.T) string {
	srv := httptest.NewUnstartedServer(http.NotFoundHandler())
	srv.Config.ErrorLog = log.New(io.Discard, "", 0) // handshakes that fail are what this is for
	srv.StartTLS()
	t.Cleanup(srv.Close)
	return srv.Listener.Addr().String()
}

func TestDoctorAsksTheServerThatRuns(t *testing.T) {
	c := newCLI(t)
	p := c.dev(t)
	broker := p.find(t, `broker +(\S+)`)
	c.must(t, "stream", "create", "ratings", "--topics", "ratings", "--transform", "absent", "--no-check")
	r := c.run(t, "", "doctor", "--graph-uri", "ledger:"+filepath.Join(c.dir, "graphmill-data", "ledger.jsonl"), "--kafka-bootstrap-servers", broker)
	require.Equal(t, exitDone, r.status, r.out)
	for _, want := range []string{"is in use by a server that runs", "ok    brokers           " + broker + " answers", "answers; 1 stream: 1 stopped"} {
		require.Contains(t, r.out, want)
	}
	p.stop(t)
}

func TestStreamsInTroubleAreTold(t *testing.T) {
	stream := func(name string, state graphmill.State, reason *graphmill.Reason) api.Stream {
		return api.Stream{StreamDefinition: api.StreamDefinition{Name: name}, State: state, Reason: reason}
	}
	streams := []api.Stream{
		stream("a", graphmill.StateRunning, nil),
		stream("b", graphmill.StateFailed, &graphmill.Reason{Code: "auth", Text: "no", NextStep: "mend it"}),
		stream("c", graphmill.StateWaiting, &graphmill.Reason{Code: "topic_absent", Text: "gone"}),
	}
	var b strings.Builder
	printFindings(&b, streamFindings("here", streams))
	require.Equal(t, `ok                      the server at here answers; 3 streams: 1 failed, 1 running, 1 waiting
fail                    stream b is failed, auth: no
                          next: mend it
warn                    stream c is waiting, topic_absent: gone
`, b.String())

	for range 30 {
		streams = append(streams, streams[1])
	}
	found := streamFindings("here", streams)
	require.Len(t, found, 1+manyShown+1)
	require.Contains(t, found[len(found)-1].Text, "12 streams more")
}
