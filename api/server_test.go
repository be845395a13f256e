package api_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/api"
	"github.com/graphmill/graphmill/server"
)

// world is a real server over HTTP, a broker, and a sink that keeps what it is
// given.
type world struct {
	base   string
	broker *kfake.Cluster
	client *kgo.Client
	sink   *recorder
}

type recorder struct {
	mu         sync.Mutex
	statements []graphmill.Statement
}

func (r *recorder) Execute(_ context.Context, w graphmill.Work) (graphmill.Executed, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.statements = append(r.statements, w.Statements...)
	return graphmill.Executed{Statements: len(w.Statements), Sent: len(w.Statements)}, nil
}

func (r *recorder) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.statements)
}

func (r *recorder) Verify(context.Context, string) error { return nil }
func (r *recorder) Texts(string) []graphmill.TextStatus  { return nil }
func (r *recorder) Close(context.Context) error          { return nil }

func newWorld(t *testing.T) *world {
	t.Helper()
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.DefaultNumPartitions(1))
	require.NoError(t, err)
	t.Cleanup(broker.Close)
	client, err := kgo.NewClient(kgo.SeedBrokers(broker.ListenAddrs()...), kgo.MetadataMinAge(10*time.Millisecond))
	require.NoError(t, err)
	t.Cleanup(client.Close)

	sink := &recorder{}
	cfg := server.Config{
		DataDir:          t.TempDir(),
		Sink:             sink,
		BootstrapServers: broker.ListenAddrs(),
		CreateTimeout:    time.Second,
	}
	cfg.Limits.Time = time.Second
	engine, err := server.Open(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		require.NoError(t, engine.Close(ctx))
	})
	return &world{base: serve(t, engine, api.Config{LocalOnly: true}), broker: broker, client: client, sink: sink}
}

func (w *world) produce(t *testing.T, topic string, payloads ...string) {
	t.Helper()
	for _, p := range payloads {
		require.NoError(t, w.client.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: []byte(p)}).FirstErr())
	}
}

// do sends a request and requires its status.
func (w *world) do(t *testing.T, status int, method, path, body string) map[string]any {
	t.Helper()
	contentType := ""
	switch {
	case method == "PUT":
		contentType = server.ContentTypeWasm
	case body != "":
		contentType = jsonType
	}
	got, _, answer := send(t, w.base, request{method: method, path: "/api/v1" + path, contentType: contentType, body: body})
	require.Equal(t, status, got, "%s %s: %v", method, path, answer)
	return answer
}

// moviesModule builds the plugin movies, once.
var moviesModule = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "graphmill-api-test")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	out := filepath.Join(dir, "movies.wasm")
	cmd := exec.Command("go", "build", "-C", "../plugins", "-buildmode=c-shared", "-o", out, "./movies")
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build plugins/movies: %w\n%s", err, text)
	}
	bytes, err := os.ReadFile(out)
	return string(bytes), err
})

func movies(t *testing.T) string {
	t.Helper()
	module, err := moviesModule()
	require.NoError(t, err)
	return module
}

const rating = `{"userId":7,"movieId":1,"rating":4.5,"title":"Heat"}`

func TestModuleIsPushedTriedAndRemoved(t *testing.T) {
	w := newWorld(t)
	pushed := w.do(t, 201, "PUT", "/modules/movies", movies(t))
	require.Equal(t, []any{"transform"}, pushed["transformations"])
	require.Equal(t, true, pushed["active"])
	require.NotEmpty(t, pushed["checked"])
	again := w.do(t, 200, "PUT", "/modules/movies", movies(t))
	require.Equal(t, false, again["created"])

	shown := w.do(t, 200, "GET", "/modules/movies", "")
	require.EqualValues(t, 1, shown["active"])
	require.Equal(t, pushed["sha256"], w.do(t, 200, "GET", "/modules/movies/versions/1", "")["sha256"])
	require.Equal(t, "version_not_found", w.do(t, 404, "GET", "/modules/movies/versions/2", "")["code"])
	require.Len(t, w.do(t, 200, "GET", "/modules", "")["modules"], 1)

	ran := w.do(t, 200, "POST", "/modules/movies/transformations/transform:run",
		`{"messages":[{"payload":`+quote(rating)+`,"topic":"ratings","offset":12},{"payload":null},{"payload":"no JSON"}]}`)
	statements := ran["statements"].([]any)
	require.Len(t, statements, 1)
	require.Equal(t, map[string]any{"userId": 7.0, "movieId": 1.0, "rating": 4.5, "title": "Heat"}, statements[0].(map[string]any)["parameters"])
	require.Equal(t, map[string]any{"topic": "ratings", "partition": 0.0, "offset": 12.0}, statements[0].(map[string]any)["message"])
	require.Len(t, ran["failures"], 1)
	require.Equal(t, 2.0, ran["failures"].([]any)[0].(map[string]any)["message"].(map[string]any)["offset"])
	require.Positive(t, ran["memory_bytes"])
	require.Equal(t, "function_not_found", w.do(t, 404, "POST", "/modules/movies/transformations/rows:run", `{"messages":[{}]}`)["code"])

	w.do(t, 204, "DELETE", "/modules/movies", "")
	require.Equal(t, "module_not_found", w.do(t, 404, "GET", "/modules/movies", "")["code"])
	require.Equal(t, "module_not_found", w.do(t, 404, "DELETE", "/modules/movies", "")["code"])
}

func TestWhatIsNoModuleIsRefusedWithItsReason(t *testing.T) {
	w := newWorld(t)
	for name, body := range map[string]string{
		"text":      "def transform(messages): pass",
		"truncated": movies(t)[:100_000],
		"empty":     "\x00asm\x01\x00\x00\x00",
		"component": "\x00asm\x0d\x00\x01\x00",
	} {
		refused := w.do(t, 422, "PUT", "/modules/m", body)
		require.NotEqual(t, "internal", refused["code"], name)
		require.NotEmpty(t, refused["detail"], name)
		require.Empty(t, w.do(t, 200, "GET", "/modules", "")["modules"], "nothing of it is kept")
	}
}

func TestStreamLivesOverHTTP(t *testing.T) {
	w := newWorld(t)
	w.do(t, 201, "PUT", "/modules/movies", movies(t))
	definition := `{"name":"ratings","topics":["ratings"],"transform":"movies","start_from":"earliest","batch_interval_ms":20}`

	absent := w.do(t, 503, "POST", "/streams", definition)
	require.Equal(t, "topic_absent", absent["code"])
	require.Contains(t, absent["next_step"], "--no-check")
	require.NoError(t, w.broker.CreateTopic("ratings", 1, nil))
	created := w.do(t, 201, "POST", "/streams", definition)
	require.Equal(t, "stopped", created["state"])
	require.Equal(t, 1000.0, created["batch_size"], "the definition is shown with its defaults")
	require.Equal(t, "stream_exists", w.do(t, 409, "POST", "/streams", definition)["code"])
	require.Equal(t, "module_in_use", w.do(t, 409, "DELETE", "/modules/movies", "")["code"])

	w.produce(t, "ratings", rating)
	checked := w.do(t, 200, "POST", "/streams/ratings:check", `{"timeout_ms":10000}`)
	batch := checked["batches"].([]any)[0].(map[string]any)
	require.Equal(t, rating, batch["raw_messages"].([]any)[0].(map[string]any)["payload"])
	require.Equal(t, 7.0, batch["statements"].([]any)[0].(map[string]any)["parameters"].(map[string]any)["userId"])
	require.Zero(t, w.sink.count(), "a check executes nothing")

	require.Equal(t, "running", w.do(t, 200, "POST", "/streams/ratings:start", "")["state"])
	w.produce(t, "ratings", rating, rating)
	require.Eventually(t, func() bool {
		status := w.do(t, 200, "GET", "/streams/ratings/status", "")
		partitions := status["partitions"].([]any)
		return len(partitions) == 1 && partitions[0].(map[string]any)["lag"] == 0.0 &&
			status["counters"].(map[string]any)["messages"] == 3.0
	}, 20*time.Second, 20*time.Millisecond)
	require.Equal(t, 3, w.sink.count())

	require.Equal(t, "stopped", w.do(t, 200, "POST", "/streams/ratings:stop", "{}")["state"])
	listed := w.do(t, 200, "GET", "/streams", "")["streams"].([]any)
	require.Equal(t, "stopped", listed[0].(map[string]any)["desired"])
	require.Equal(t, "running", w.do(t, 200, "POST", "/streams:start", "")["streams"].([]any)[0].(map[string]any)["state"])
	w.do(t, 204, "DELETE", "/streams/ratings", "")
	require.Equal(t, "stream_not_found", w.do(t, 404, "GET", "/streams/ratings", "")["code"])
	require.Equal(t, "stream_not_found", w.do(t, 404, "POST", "/streams/ratings:start", "")["code"])
	w.do(t, 204, "DELETE", "/modules/movies", "")
}

func TestHealthAnswersWhileATransformationLoops(t *testing.T) {
	w := newWorld(t)
	w.do(t, 201, "PUT", "/modules/loop", loopModule)
	ended := make(chan map[string]any, 1)
	go func() {
		_, _, answer := send(t, w.base, request{
			method: "POST", path: "/api/v1/modules/loop/transformations/transform:run",
			contentType: jsonType, body: `{"messages":[{"payload":"x"}]}`,
		})
		ended <- answer
	}()
	answered := 0
	for looping := true; looping; {
		select {
		case answer := <-ended:
			require.Equal(t, "transformation_failed", answer["code"], "%v", answer)
			looping = false
		default:
			began := time.Now()
			status, _, _ := send(t, w.base, request{method: "GET", path: "/healthz"})
			require.Equal(t, 200, status)
			require.Less(t, time.Since(began), 2*time.Second)
			answered++
		}
	}
	require.Greater(t, answered, 10, "the loop lasts until its time limit, and the server answers all the while")
}

// loopModule is the smallest module whose transformation never ends:
//
//	(module
//	  (memory (export "memory") 1)
//	  (func (export "graphmill_abi_v1"))
//	  (func (export "graphmill_alloc") (param i32) (result i32) (i32.const 1024))
//	  (func (export "transform") (param i32 i32) (result i64) (loop (br 0)) (unreachable)))
const loopModule = "\x00asm\x01\x00\x00\x00" +
	// types: () -> (), (i32) -> i32, (i32, i32) -> i64
	"\x01\x0f\x03\x60\x00\x00\x60\x01\x7f\x01\x7f\x60\x02\x7f\x7f\x01\x7e" +
	"\x03\x04\x03\x00\x01\x02" +
	"\x05\x03\x01\x00\x01" +
	"\x07\x3b\x04" +
	"\x06memory\x02\x00" +
	"\x10graphmill_abi_v1\x00\x00" +
	"\x0fgraphmill_alloc\x00\x01" +
	"\x09transform\x00\x02" +
	"\x0a\x13\x03" +
	"\x02\x00\x0b" +
	"\x05\x00\x41\x80\x08\x0b" +
	"\x08\x00\x03\x40\x0c\x00\x0b\x00\x0b"

func quote(s string) string { return `"` + strings.ReplaceAll(s, `"`, `\"`) + `"` }
