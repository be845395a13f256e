package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/graphmill/graphmill/integration/boltserver"
)

// plant makes a secret that can be told from all others, and is long enough for
// a token.
func plant(what string) string { return "pl4nted-" + what + "-0123456789" }

// harvest is everything that the program has told to anybody, by what told it.
type harvest struct {
	t    *testing.T
	told map[string][]byte
}

func (h *harvest) add(what string, text []byte) {
	h.told[what] = append(h.told[what], text...)
}

// requireNoSecret looks for every planted secret, as it is and encoded.
func (h *harvest) requireNoSecret(secrets []string) {
	h.t.Helper()
	for what, text := range h.told {
		for _, s := range secrets {
			for _, form := range []string{
				s, url.QueryEscape(s), fmt.Sprintf("%x", s),
				// Somewhere within base64, whatever stands before it: the middle
				// of each of the three alignments.
				base64.StdEncoding.EncodeToString([]byte(s[:len(s)/3*3])),
				base64.StdEncoding.EncodeToString([]byte(s[1 : 1+(len(s)-1)/3*3])),
				base64.StdEncoding.EncodeToString([]byte(s[2 : 2+(len(s)-2)/3*3])),
			} {
				if at := bytes.Index(text, []byte(form)); at >= 0 {
					h.t.Errorf("%s holds a planted secret: ...%s...", what, text[max(0, at-100):min(len(text), at+len(form)+50)])
				}
			}
		}
	}
}

// http makes a request and harvests the answer, with its headers.
func (h *harvest) http(base, token, method, path, body string) (status int, answer string) {
	h.t.Helper()
	req, err := http.NewRequestWithContext(h.t.Context(), method, base+path, strings.NewReader(body))
	require.NoError(h.t, err)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(h.t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(h.t, err)
	h.add(method+" "+path, fmt.Appendf(nil, "%v\n%s\n", resp.Header, text))
	return resp.StatusCode, string(text)
}

// follow harvests the events until ctx ends.
func (h *harvest) follow(ctx context.Context, base, token string) (done chan []byte) {
	done = make(chan []byte, 1)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/api/v1/events", nil)
	require.NoError(h.t, err)
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(h.t, err)
	require.Equal(h.t, 200, resp.StatusCode)
	go func() {
		text, _ := io.ReadAll(resp.Body) // until it is cut
		resp.Body.Close()
		done <- text
	}()
	return done
}

// files harvests every file of a folder, but those that are there to hold secrets.
func (h *harvest) files(dir string, but ...string) {
	h.t.Helper()
	n := 0
	require.NoError(h.t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		for _, b := range but {
			if d.Name() == b {
				return nil
			}
		}
		text, err := os.ReadFile(path)
		h.add("file "+path, text)
		n++
		return err
	}))
	require.Positive(h.t, n, dir)
}

// requireOwnersOnly makes sure that nobody but the owner gets at a folder, nor,
// where somebody opens it later, at what lies in it.
func requireOwnersOnly(t *testing.T, dir string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && (path == dir || filepath.Dir(path) == dir) {
			require.Zero(t, info.Mode().Perm()&0o077, "%s is %s", path, info.Mode())
		}
		return err
	}))
}

// securedBroker is a broker with SASL PLAIN and a topic with some messages.
func securedBroker(t *testing.T, user, password, topic string) (address string) {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.EnableSASL(), kfake.Superuser("PLAIN", user, password), kfake.SeedTopics(1, topic))
	require.NoError(t, err)
	t.Cleanup(c.Close)
	// A wrong password is answered, as Kafka does and kfake does not.
	c.ControlKey(int16(kmsg.SASLAuthenticate), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if bytes.HasSuffix(req.(*kmsg.SASLAuthenticateRequest).SASLAuthBytes, []byte("\x00"+password)) {
			return nil, nil, false
		}
		resp := req.ResponseKind().(*kmsg.SASLAuthenticateResponse)
		resp.ErrorCode = kerr.SaslAuthenticationFailed.Code
		return resp, nil, true
	})
	address = c.ListenAddrs()[0]
	cl, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.SASL(plain.Auth{User: user, Pass: password}.AsMechanism()))
	require.NoError(t, err)
	defer cl.Close()
	for range 10 {
		require.NoError(t, cl.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: []byte(rating)}).FirstErr())
	}
	return address
}

// plantStatements gives secrets to the stream statements through all their doors: as
// they should be, and mistyped in all ways.
func plantStatements(t *testing.T, h *harvest, c *cli, base, token, user, password, wrong string) {
	t.Helper()
	const options = " TOPICS ratings TRANSFORM movies START_FROM earliest CONFIGS {'security.protocol': 'SASL_PLAINTEXT', 'sasl.mechanism': 'PLAIN'} CONSUMER_GROUP g "
	create := func(name, more string) string { return "CREATE KAFKA STREAM " + name + options + more }
	credentials := func(password string) string {
		return "CREDENTIALS {'sasl.username': '" + user + "', 'sasl.password': " + password + "}"
	}
	query := func(status int, stdin string, args ...string) {
		t.Helper()
		r := c.run(t, stdin, append([]string{"query"}, args...)...)
		h.add("graphmill query", []byte(r.out+r.err))
		require.Equal(t, status, r.status, r.err)
	}
	query(exitDone, "", create("literal", credentials("'"+password+"'")))
	query(exitDone, "", create("parameter", credentials("$p")), "--param", "p="+password, "-o", "json")
	query(exitDone, "SHOW STREAMS;\n"+create("script", credentials("'"+password+"'"))+";\nSHOW STREAMS;", "-o", "yaml")
	for _, text := range []string{
		"SHOW STREAMS", "SHOW CREATE STREAM literal", "SHOW CREATE STREAM parameter", "CALL mg.kafka_stream_info('literal')", "CHECK STREAM literal FROM earliest",
		"ALTER STREAM literal SET CREDENTIALS {'sasl.password': '" + password + "'}", "START STREAM literal BATCH_LIMIT 1", "CALL mg.stream_status('literal')",
		"CALL mg.kafka_set_stream_offset('literal', -1)", "START STREAM literal", "STOP STREAM literal",
	} {
		for _, format := range []string{"table", "json"} {
			if format == "table" || !strings.HasPrefix(text, "ST") {
				query(exitDone, "", text, "-o", format)
			}
		}
	}
	for i, text := range []string{
		create("literal", credentials("'"+wrong+"'")), // there is one already
		create("x", credentials("'"+wrong+"'")),       // the broker does not let it in
		create("x", credentials(wrong)),
		create("x", credentials("'"+wrong)),
		create("x", credentials("'it's"+wrong+"'")),
		create("x", credentials("['"+wrong+"']")),
		create("x", credentials(`'\u`+wrong+"'")),
		create("x", "CREDENTIALS "+wrong),
		create("x", "CREDENTIALS '"+wrong+"'"),
		create("x", "CREDENTIALS {'sasl.pasword': '"+wrong+"'}"),
		create("x", "CREDENTIALS {'sasl.mechanism': '"+wrong+"'}"),
		create("x", "CREDENTIALS {'sasl.password': '"+wrong+"', 'sasl.password': '"+wrong+"'}"),
		create("x", credentials("'"+wrong+"'")) + " BATCHSIZE 7",
		create("x", "BOOTSTRAP_SERVERS 'user:"+wrong+"@host:9092'"),
		"ALTER STREAM literal SET CREDENTIALS {'sasl.pasword': '" + wrong + "'}",
		"ALTER STREAM absent SET CREDENTIALS {'sasl.password': '" + wrong + "'}",
		"ALTER STREAM literal SET CREDENTIALS {'sasl.password': '" + wrong + "'} FROM nowhere",
	} {
		if i%2 == 0 {
			query(exitFailed, "", text)
		} else {
			query(exitFailed, "SHOW STREAMS;\n"+text+";\nSHOW STREAMS;", "-o", "json")
		}
		doc, err := json.Marshal(map[string]any{"statement": text, "parameters": map[string]any{wrong: wrong}})
		require.NoError(t, err)
		status, answer := h.http(base, token, "POST", "/api/v1/query", string(doc))
		require.GreaterOrEqual(t, status, 400, answer)
	}
	for _, parameters := range []string{`{"p": ["` + wrong + `"]}`, `{"p": {"sasl.password": 7, "x": "` + wrong + `"}}`, `{"p": {"sasl.pasword": "` + wrong + `"}}`, `{"p": "` + wrong + `"}`, `{"p": "` + wrong + `"`} {
		status, answer := h.http(base, token, "POST", "/api/v1/query", `{"statement": "`+create("x", "CREDENTIALS $p")+`", "parameters": `+parameters+`}`)
		require.GreaterOrEqual(t, status, 400, answer)
	}
	for _, name := range []string{"literal", "parameter", "script"} {
		query(exitDone, "", "DROP STREAM "+name)
	}
}

// Every secret that a server is given is planted, right ones and wrong ones, and
// looked for in all that leaves the program and in all that it stores.
func TestCase39PlantedSecretsAreFoundNowhere(t *testing.T) {
	var (
		graphPassword = plant("graph-password")
		token         = plant("token")
		kafkaUser     = "loader"
		kafkaPassword = plant("kafka-password")
		wrong         = plant("wrong-password")
		keyPassword   = plant("key-password")
		keyPEM        = "-----BEGIN PRIVATE KEY-----\n" + base64.StdEncoding.EncodeToString([]byte(plant("private-key"))) + "\n-----END PRIVATE KEY-----\n"
		inAddress     = plant("in-an-address")
		inBody        = plant("in-a-body")
		inVariable    = plant("in-a-variable")
		secrets       = []string{graphPassword, token, kafkaPassword, wrong, keyPassword, plant("private-key"), inAddress, inBody, inVariable}
	)
	h := &harvest{t: t, told: map[string][]byte{}}
	bolt := boltserver.Start(t, boltserver.Options{User: "neo4j", Password: graphPassword})
	broker := securedBroker(t, kafkaUser, kafkaPassword, "ratings")

	c := newCLI(t, "GRAPHMILL_SECRET_WRONG="+wrong, "GRAPHMILL_SECRET_UNUSED="+inVariable, "GRAPHMILL_SECRETTT="+inVariable)
	file := func(name, text string) string {
		path := filepath.Join(c.dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	tokenPath := file("tokens", "anne:"+token+"\n")
	file("secrets/kafka", kafkaPassword+"\n")
	command := func(args ...string) result {
		r := c.run(t, "", args...)
		h.add("graphmill "+args[0]+" "+args[min(1, len(args)-1)], []byte(r.out+r.err))
		return r
	}
	serve := []string{
		"serve", "--listen", "127.0.0.1:0", "--data-dir", "data", "--log-level", "debug", "--create-timeout", "10s", "--start-timeout", "10s",
		"--graph-user", "neo4j", "--graph-password-file", file("password", graphPassword), "--token-file", tokenPath,
		"--secrets-dir", filepath.Join(c.dir, "secrets"), "--kafka-bootstrap-servers", broker, "--plugins-dir", filepath.Join(c.dir, "plugins"),
	}

	// Settings that are refused.
	for _, args := range [][]string{
		{"--graph-uri", "bolt://neo4j:" + inAddress + "@127.0.0.1:7687"},
		{"--graph-uri", "bolt://127.0.0.1:7687?password=" + inAddress},
		{"--graph-uri", "ledger:l", "--kafka-bootstrap-servers", "user:" + inAddress + "@host:9092"},
		{"--graph-uri", "ledger:l", "--token-file", file("short", plant("token")[:10])},
		{"--graph-uri", "ledger:l", "--secret-key-file", file("bad-key", inBody)},
	} {
		require.NotEqual(t, exitDone, command(append(append([]string{}, serve...), args...)...).status, args)
	}
	file("graphmill.yaml", "graph-password: "+inBody+"\n")
	require.Equal(t, exitUsage, command("serve", "--graph-uri", "ledger:l").status)
	require.NoError(t, os.Remove(filepath.Join(c.dir, "graphmill.yaml")))

	p := c.start(t, "data ", append(serve, "--graph-uri", bolt.URI())...)
	base := p.find(t, `API +(http://\S+)`)
	c.env = append(c.env, "GRAPHMILL_SERVER="+base, "GRAPHMILL_TOKEN_FILE="+tokenPath)
	require.Eventually(t, func() bool { return c.run(t, "", "stream", "list").status == exitDone }, time.Minute, 50*time.Millisecond)
	watching, end := context.WithCancel(t.Context())
	defer end()
	events := h.follow(watching, base, token)

	require.Equal(t, exitDone, command("module", "push", "movies", moviesFile).status)
	create := func(name string, more ...string) result {
		return command(append([]string{
			"stream", "create", name, "--topics", "ratings", "--transform", "movies", "--start-from", "earliest", "--no-check",
			"--config", "security.protocol=sasl_plaintext", "--config", "sasl.mechanism=PLAIN", "--credential", "sasl.username=" + kafkaUser,
		}, more...)...)
	}
	require.Equal(t, exitDone, create("right", "--credential", "sasl.password="+kafkaPassword).status)
	require.Equal(t, exitDone, create("by-file", "--credential", "sasl.password=secret:kafka").status)
	require.Equal(t, exitDone, create("wrong", "--credential", "sasl.password="+wrong).status)
	require.Equal(t, exitDone, create("wrong-by-variable", "--credential", "sasl.password=secret:wrong").status)
	require.NotEqual(t, exitDone, create("no-such-name", "--credential", "sasl.pasword="+inBody).status)
	require.NotEqual(t, exitDone, create("bad-value", "--config", "sasl.mechanism="+inBody).status, "a secret in the wrong place")
	create("bad-key", "--config", "ssl.key.pem="+keyPEM, "--credential", "ssl.key.password="+keyPassword)
	for _, body := range []string{
		`{"name":"x","topics":["ratings"],"transform":"movies","credentials":"` + inBody + `"}`,
		`{"name":"x","topics":["ratings"],"transform":"movies","credentials":{"sasl.password":["` + inBody + `"]}}`,
		`{"name":"x","topics":["ratings"],"transform":"movies","credentials":{"sasl.password":"` + inBody + `","sasl.password":"` + inBody + `"}}`,
		`{"name":"x","topics":["ratings"],"transform":"movies","credential":{"sasl.password":"` + inBody + `"}}`,
		`{"name":"x","topics":["ratings"],"transform":"movies","credentials":{"sasl.password":"` + inBody + `"`,
		`{"name":"x","topics":["ratings"],"transform":"movies","bootstrap_servers":["user:` + inBody + `@host:9092"]}`,
	} {
		status, answer := h.http(base, token, "POST", "/api/v1/streams", body)
		require.GreaterOrEqual(t, status, 400, answer)
	}
	h.http(base, inBody, "GET", "/api/v1/streams", "")
	plantStatements(t, h, c, base, token, kafkaUser, kafkaPassword, inBody)

	// Definitions in files, right and broken.
	definition := func(credentials string) string {
		return "streams:\n- {name: applied, topics: [ratings], transform: movies, credentials: " + credentials + "}\n"
	}
	for _, text := range []string{
		definition("{sasl.username: u, sasl.password: " + inBody + "}"), definition("{sasl.username: u, sasl.password: " + wrong + "}"),
		definition("{{sasl.password: " + inBody + "}"), definition("{sasl.password: *" + inBody + "}"), definition(inBody), definition("{sasl.password: [" + inBody + "]}"),
		definition("{sasl.pasword: " + inBody + "}"), "streams:\n- {name: x, topics: [t], transform: m, configs: {security.protocol: sasl_plaintext, sasl.mechanism: " + inBody + "}}\n",
	} {
		command("apply", "-f", file("applied.yaml", text), "--dry-run")
		command("apply", "-f", file("applied.yaml", text), "-o", "json")
	}
	for _, text := range []string{"{'sasl.password': '" + inBody + "'};", "{'sasl.password': '" + inBody + "'", "{'sasl.password': " + inBody + "};"} {
		command("apply", "-f", file("applied.cypher", "CREATE KAFKA STREAM applied TOPICS ratings TRANSFORM movies CREDENTIALS "+text))
	}
	require.Equal(t, exitDone, command("export").status)
	require.Equal(t, exitDone, command("export", "-o", "json").status)
	command("stream", "drop", "applied")

	for stream, code := range map[string]string{"right": "", "by-file": "", "wrong": "auth", "wrong-by-variable": "auth"} {
		command("stream", "start", stream)
		if code == "" {
			c.awaitMessages(t, stream, 10)
		} else {
			require.Eventually(t, func() bool {
				s := c.status(t, stream)
				return s.Status.Reason != nil && s.Status.Reason.Code == code
			}, time.Minute, 50*time.Millisecond, stream)
		}
		for _, args := range [][]string{
			{"stream", "show", stream}, {"stream", "show", stream, "-o", "json"}, {"stream", "show", stream, "-o", "yaml"},
			{"stream", "check", stream, "--timeout", "2s"}, {"stream", "offsets", stream},
			{"stream", "edit", stream, "--batch-size", "7"},
			{"stream", "edit", stream, "--credential", "sasl.password=" + wrong},
			{"stream", "stop", stream},
			{"stream", "offsets", stream, "--set", "earliest"},
		} {
			command(args...)
		}
		for _, path := range []string{"", "/status", "/offsets"} {
			h.http(base, token, "GET", "/api/v1/streams/"+stream+path, "")
		}
	}
	for _, path := range []string{"/api/v1/streams", "/api/v1/modules", "/metrics", "/readyz", "/openapi.json", "/docs"} {
		h.http(base, token, "GET", path, "")
	}
	for _, args := range [][]string{{"stream", "list"}, {"stream", "list", "-o", "json"}, {"module", "list"}, {"stream", "start", "--all"}, {"stream", "stop", "--all"}, {"stream", "drop", "wrong"}} {
		command(args...)
	}

	// A database that does not let in any more.
	require.NoError(t, os.WriteFile(filepath.Join(c.dir, "password"), []byte(wrong), 0o600))
	p.stop(t)
	end()
	h.add("the events", <-events)
	h.add("the log", []byte(p.log.String()))
	h.add("standard output", []byte(p.banner+p.after.String()))
	p = c.start(t, "data ", append(serve, "--graph-uri", bolt.URI())...)
	c.env = append(c.env, "GRAPHMILL_SERVER="+p.find(t, `API +(http://\S+)`))
	require.Eventually(t, func() bool { return c.run(t, "", "stream", "list").status == exitDone }, time.Minute, 50*time.Millisecond)
	command("stream", "edit", "by-file", "--credential", "sasl.password=secret:kafka")
	command("stream", "start", "by-file")
	require.Eventually(t, func() bool {
		s := c.status(t, "by-file")
		return s.Status.Reason != nil && s.Status.Reason.Code == "auth"
	}, time.Minute, 50*time.Millisecond)
	command("stream", "show", "by-file")
	h.http(p.find(t, `API +(http://\S+)`), token, "GET", "/api/v1/streams/by-file/status", "")
	p.stop(t)
	h.add("the second log", []byte(p.log.String()))
	h.files(filepath.Join(c.dir, "data"))
	h.requireNoSecret(secrets)
	requireOwnersOnly(t, filepath.Join(c.dir, "data"))

	// The search itself finds what is there.
	require.Contains(t, string(h.told["the log"]), "stream=right", "what is looked through is the log of what was done")
	require.Contains(t, string(h.told["the events"]), "auth")
	require.Contains(t, string(h.told["GET /metrics"]), "graphmill_")
}
