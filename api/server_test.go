package api_test

import (
	"context"
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
	engine *server.Server
	data   string // its folder
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
func (r *recorder) Lanes(int)                            {}
func (r *recorder) Close(context.Context) error          { return nil }

func newWorld(t *testing.T, change ...func(*server.Config)) *world {
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
		CreateTimeout:    time.Minute,
	}
	for _, c := range change {
		c(&cfg)
	}
	engine, err := server.Open(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		require.NoError(t, engine.Close(ctx))
	})
	return &world{base: serve(t, engine, api.Config{LocalOnly: true}), broker: broker, client: client, sink: sink, engine: engine, data: cfg.DataDir}
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

func TestModuleIsPushedTriedAndRemoved(t *testing.T) {
	w := newWorld(t)
	pushed := w.do(t, 201, "PUT", "/modules/seen", seenModule)
	require.Equal(t, []any{"transform"}, pushed["transformations"])
	require.Equal(t, true, pushed["active"])
	require.NotEmpty(t, pushed["checked"])
	again := w.do(t, 200, "PUT", "/modules/seen", seenModule)
	require.Equal(t, false, again["created"])

	shown := w.do(t, 200, "GET", "/modules/seen", "")
	require.EqualValues(t, 1, shown["active"])
	require.Equal(t, pushed["sha256"], w.do(t, 200, "GET", "/modules/seen/versions/1", "")["sha256"])
	require.Equal(t, "version_not_found", w.do(t, 404, "GET", "/modules/seen/versions/2", "")["code"])
	require.Len(t, w.do(t, 200, "GET", "/modules", "")["modules"], 1)

	ran := w.do(t, 200, "POST", "/modules/seen/transformations/transform:run",
		`{"messages":[{"payload":"a","topic":"events","offset":12},{"payload":null}]}`)
	statements := ran["statements"].([]any)
	require.Len(t, statements, 1)
	require.Equal(t, "MERGE (:Seen {n: $n})", statements[0].(map[string]any)["query"])
	require.Equal(t, map[string]any{"topic": "events", "partition": 0.0, "offset": 12.0}, statements[0].(map[string]any)["message"])
	require.Equal(t, []any{}, ran["failures"])
	require.EqualValues(t, 128<<10, ran["memory_bytes"])
	require.Equal(t, "function_not_found", w.do(t, 404, "POST", "/modules/seen/transformations/rows:run", `{"messages":[{}]}`)["code"])

	w.do(t, 204, "DELETE", "/modules/seen", "")
	require.Equal(t, "module_not_found", w.do(t, 404, "GET", "/modules/seen", "")["code"])
	require.Equal(t, "module_not_found", w.do(t, 404, "DELETE", "/modules/seen", "")["code"])
}

func TestWhatIsNoModuleIsRefusedWithItsReason(t *testing.T) {
	w := newWorld(t)
	for name, body := range map[string]string{
		"text":      "def transform(messages): pass",
		"truncated": seenModule[:100],
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
	w.do(t, 201, "PUT", "/modules/seen", seenModule)
	definition := `{"name":"events","topics":["events"],"transform":"seen","start_from":"earliest","batch_interval_ms":20}`

	absent := w.do(t, 404, "POST", "/streams", definition)
	require.Equal(t, "topic_absent", absent["code"])
	require.Contains(t, absent["next_step"], "--no-check")
	require.NoError(t, w.broker.CreateTopic("events", 1, nil))
	created := w.do(t, 201, "POST", "/streams", definition)
	require.Equal(t, "stopped", created["state"])
	require.Equal(t, 1000.0, created["batch_size"], "the definition is shown with its defaults")
	require.Equal(t, "stream_exists", w.do(t, 409, "POST", "/streams", definition)["code"])
	require.Equal(t, "module_in_use", w.do(t, 409, "DELETE", "/modules/seen", "")["code"])

	w.produce(t, "events", "a")
	checked := w.do(t, 200, "POST", "/streams/events:check", `{"timeout_ms":60000}`)
	batch := checked["batches"].([]any)[0].(map[string]any)
	require.Equal(t, "a", batch["raw_messages"].([]any)[0].(map[string]any)["payload"])
	require.Equal(t, map[string]any{"topic": "events", "partition": 0.0, "offset": 0.0}, batch["statements"].([]any)[0].(map[string]any)["message"])
	require.Zero(t, w.sink.count(), "a check executes nothing")

	require.Equal(t, "running", w.do(t, 200, "POST", "/streams/events:start", "")["state"])
	w.produce(t, "events", "b", "c")
	require.Eventually(t, func() bool {
		status := w.do(t, 200, "GET", "/streams/events/status", "")
		partitions := status["partitions"].([]any)
		return len(partitions) == 1 && partitions[0].(map[string]any)["lag"] == 0.0 &&
			status["counters"].(map[string]any)["messages"] == 3.0
	}, time.Minute, 20*time.Millisecond)
	require.Positive(t, w.sink.count())

	require.Equal(t, "stopped", w.do(t, 200, "POST", "/streams/events:stop", "{}")["state"])
	listed := w.do(t, 200, "GET", "/streams", "")["streams"].([]any)
	require.Equal(t, "stopped", listed[0].(map[string]any)["desired"])
	require.Equal(t, "running", w.do(t, 200, "POST", "/streams:start", "")["streams"].([]any)[0].(map[string]any)["state"])
	w.do(t, 204, "DELETE", "/streams/events", "")
	require.Equal(t, "stream_not_found", w.do(t, 404, "GET", "/streams/events", "")["code"])
	require.Equal(t, "stream_not_found", w.do(t, 404, "POST", "/streams/events:start", "")["code"])
	w.do(t, 204, "DELETE", "/modules/seen", "")
}

func TestHealthAnswersWhileATransformationLoops(t *testing.T) {
	w := newWorld(t, func(c *server.Config) { c.Limits.Time = 2 * time.Second })
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
			status, _, _ := send(t, w.base, request{method: "GET", path: "/healthz"})
			require.Equal(t, 200, status)
			answered++
		}
	}
	require.Greater(t, answered, 10, "the loop lasts until its time limit, and the server answers all the while")
}
