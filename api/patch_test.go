package api_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// asPatch sends a JSON merge patch.
func (w *world) asPatch(t *testing.T, status int, path, body string) map[string]any {
	t.Helper()
	got, _, answer := send(t, w.base, request{method: "PATCH", path: "/api/v1" + path, contentType: "application/merge-patch+json", body: body})
	require.Equal(t, status, got, "PATCH %s: %v", path, answer)
	return answer
}

// newStream makes a world with a stream of the topic events.
func newStream(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.do(t, 201, "PUT", "/modules/seen", seenModule)
	require.NoError(t, w.broker.CreateTopic("events", 1, nil))
	w.produce(t, "events", "a", "b")
	w.do(t, 201, "POST", "/streams", `{"name":"s","topics":["events"],"transform":"seen","start_from":"earliest","batch_interval_ms":20,
		"credentials":{"client.id":"hidden"},"settings":{"a":"1","b":"2"}}`)
	return w
}

func TestADefinitionIsChangedByAMergePatch(t *testing.T) {
	w := newStream(t)
	changed := w.asPatch(t, 200, "/streams/s", `{"batch_size":7,"settings":{"a":null},"check":false}`)
	require.EqualValues(t, 7, changed["batch_size"])
	require.Equal(t, []any{"batch_size", "settings.a"}, changed["changed"])
	require.Equal(t, map[string]any{"b": "2"}, changed["settings"])
	require.Equal(t, map[string]any{"client.id": "********"}, changed["credentials"])
	changed = w.do(t, 200, "PATCH", "/streams/s", `{"batch_size":null}`)
	require.EqualValues(t, 1000, changed["batch_size"])

	for body, c := range map[string]struct {
		status int
		field  string
	}{
		`{"batchsize":1}`:                          {422, "batchsize"},
		`{"Batch_Size":1}`:                         {422, "Batch_Size"},
		`{"batch_size":1,"batch_size":2}`:          {422, "batch_size"},
		`{"batch_size":1e3}`:                       {422, "batch_size"},
		`{"name":"t"}`:                             {422, "name"},
		`{"topics":["events","more"]}`:             {422, "from"},
		`{"batch_size":1,"from":"earliest"}`:       {422, "from"},
		`{"from":1}`:                               {422, "from"},
		`{"check":"no"}`:                           {422, "check"},
		`{"credentials":{"client.id":"********"}}`: {422, "credentials"},
	} {
		require.Equal(t, c.field, w.asPatch(t, c.status, "/streams/s", body)["field"], body)
	}
	require.Equal(t, "invalid", w.asPatch(t, 422, "/streams/s", `[]`)["code"])
	require.Equal(t, "stream_not_found", w.asPatch(t, 404, "/streams/t", `{}`)["code"])
	got, _, _ := send(t, w.base, request{method: "PATCH", path: "/api/v1/streams/s", contentType: "text/plain", body: `{}`})
	require.Equal(t, 415, got)
}

func TestOffsetsAreShownAndSet(t *testing.T) {
	w := newStream(t)
	started := w.do(t, 200, "POST", "/streams/s:start", `{"batch_limit":1,"timeout_ms":60000}`)
	committed := started["committed"].(map[string]any)
	require.EqualValues(t, 1, committed["batches"])
	require.EqualValues(t, 2, committed["messages"])
	require.Equal(t, "stopped", started["state"])

	partition := func(answer map[string]any) map[string]any { return answer["partitions"].([]any)[0].(map[string]any) }
	shown := w.do(t, 200, "GET", "/streams/s/offsets", "")
	require.EqualValues(t, 2, partition(shown)["offset"])
	require.Equal(t, "group", partition(shown)["origin"])
	require.Equal(t, []any{}, shown["members"])

	put := func(status int, body string) map[string]any {
		got, _, answer := send(t, w.base, request{method: "PUT", path: "/api/v1/streams/s/offsets", contentType: jsonType, body: body})
		require.Equal(t, status, got, "%v", answer)
		return answer
	}
	require.EqualValues(t, 1, partition(put(200, `{"set":"1","partition":{"topic":"events","partition":0}}`))["offset"])
	require.EqualValues(t, 0, partition(put(200, `{"set":"earliest"}`))["offset"])
	require.Equal(t, "set", put(422, `{"set":"sometime"}`)["field"])
	require.Equal(t, "set", put(422, `{}`)["field"])
	require.Equal(t, "partition", put(422, `{"set":"1","partition":{"topic":"events","partition":9}}`)["field"])

	w.do(t, 200, "POST", "/streams/s:start", "")
	require.Equal(t, "stream_running", put(409, `{"set":"1"}`)["code"])
	require.Eventually(t, func() bool { return w.sink.count() == 2 }, time.Minute, 10*time.Millisecond)
}

func TestStartsThatAccept(t *testing.T) {
	w := newStream(t)
	for _, body := range []string{`{"accept":["sometimes"]}`, `{"accept":["lost=earliest","lost=latest"]}`} {
		got := w.do(t, 422, "POST", "/streams/s:start", body)
		require.Contains(t, got["field"], "accept")
	}
	require.Equal(t, "timeout_ms", w.do(t, 422, "POST", "/streams/s:start", `{"timeout_ms":5}`)["field"])
	w.do(t, 200, "POST", "/streams/s:start", `{"accept":["recreated","lost=latest"]}`)
	w.do(t, 200, "POST", "/streams:start", "")
	w.do(t, 200, "POST", "/streams:stop", "")
	stopped := w.do(t, 200, "POST", "/streams:stop", "")
	one := stopped["streams"].([]any)[0].(map[string]any)
	require.Equal(t, "stopped", one["state"])
	require.NotContains(t, one, "error", "one that is stopped already is no error")
	require.Equal(t, "start_timeout", w.do(t, 504, "POST", "/streams/s:start", `{"batch_limit":1000,"timeout_ms":200}`)["code"])
}

func TestDryRunsTellAndChangeNothing(t *testing.T) {
	w := newStream(t)
	told := w.asPatch(t, 200, "/streams/s", `{"topics":["events","more"],"credentials":{"client.id":"other"},"dry_run":true}`)
	require.Equal(t, []any{"topics", "credentials.client.id"}, told["changed"])
	require.Equal(t, []any{"more"}, told["brings"])
	require.Equal(t, []any{"events", "more"}, told["topics"])
	require.Equal(t, map[string]any{"client.id": "********"}, told["credentials"])
	require.Equal(t, []any{"events"}, w.do(t, 200, "GET", "/streams/s", "")["topics"])
	require.Equal(t, []any{}, w.asPatch(t, 200, "/streams/s", `{"dry_run":true}`)["brings"])
	for body, field := range map[string]string{`{"dry_run":1}`: "dry_run", `{"dry_run":null}`: "dry_run", `{"batch_size":0,"dry_run":true}`: "batch_size"} {
		require.Equal(t, field, w.asPatch(t, 422, "/streams/s", body)["field"], body)
	}

	const another = `{"name":"t","topics":["events"],"transform":"seen","dry_run":true}`
	status, header, answer := send(t, w.base, request{method: "POST", path: "/api/v1/streams", contentType: jsonType, body: another})
	require.Equal(t, 200, status, "%v", answer)
	require.Empty(t, header.Get("Location"))
	require.Equal(t, "graphmill.t", answer["consumer_group"])
	require.NotContains(t, answer, "created_at")
	w.do(t, 404, "GET", "/streams/t", "")
	require.Equal(t, "stream_exists", w.do(t, 409, "POST", "/streams", `{"name":"s","topics":["events"],"transform":"seen","dry_run":true}`)["code"])
}
