package hosttest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/wasmhost"
)

func payloads(texts ...string) []graphmill.Message {
	messages := make([]graphmill.Message, len(texts))
	for i, text := range texts {
		messages[i] = graphmill.Message{Topic: "t", Offset: int64(i), Payload: []byte(text), BrokerTime: -1}
	}
	return messages
}

func TestMovies(t *testing.T) {
	m := load(t, build(t, "../../plugins/movies"))
	require.Equal(t, []string{"transform"}, m.Transformations())

	t.Run("ratings", func(t *testing.T) {
		messages := payloads(`{"userId":1,"movieId":42,"rating":4.5,"title":"Brazil"}`, "no JSON", "", `{"userId":2,"movieId":42,"rating":5}`)
		messages[2].Payload = nil
		out, err := start(t, m, wasmhost.InstanceConfig{Function: "transform"}).Transform(t.Context(), graphmill.SourceKafka, messages)
		require.NoError(t, err)
		require.Equal(t, []graphmill.Failure{{Message: 1, Text: "not JSON: null should stand at byte 1"}}, out.Failures)
		require.Len(t, out.Statements, 2)
		require.Equal(t, []string{"userId", "movieId", "rating", "title"}, out.Statements[0].Query.Names)
		require.Equal(t, []any{int64(1), int64(42), 4.5, "Brazil"}, out.Statements[0].Values)
		require.Equal(t, []any{int64(2), int64(42), 5.0, nil}, out.Statements[1].Values)
		require.Equal(t, 3, out.Statements[1].Message)
		require.Same(t, out.Statements[0].Query, out.Statements[1].Query)
	})

	t.Run("no settings", func(t *testing.T) {
		_, err := m.Instantiate(t.Context(), wasmhost.InstanceConfig{Function: "transform", Settings: map[string]string{"colour": "red"}})
		require.ErrorContains(t, err, `this transformation has no settings, "colour" was given`)
	})
}

func TestCypher(t *testing.T) {
	m := load(t, build(t, "../../plugins/cypher"))
	require.Equal(t, []string{"event", "transform"}, m.Transformations())

	t.Run("fields of events", func(t *testing.T) {
		for _, function := range m.Transformations() {
			i := start(t, m, wasmhost.InstanceConfig{Function: function, Settings: map[string]string{"query": "MERGE (u:User {id: $event.userId}) SET u.seen = $timestamp;"}})
			for round := range 2 {
				messages := payloads(`{"userId":7,"more":[1,2]}`, `{"userId":"8"}`)
				messages[1].Timestamp = int64(round)
				out, err := i.Transform(t.Context(), graphmill.SourceKafka, messages)
				require.NoError(t, err)
				require.Empty(t, out.Failures)
				require.Len(t, out.Statements, 2)
				require.Equal(t, "MERGE (u:User {id: $event.userId}) SET u.seen = $timestamp", out.Statements[0].Query.Text)
				require.Equal(t, map[string]any{"event": map[string]any{"userId": int64(7)}, "timestamp": int64(0)}, out.Statements[0].Parameters())
				require.Equal(t, map[string]any{"event": map[string]any{"userId": "8"}, "timestamp": int64(round)}, out.Statements[1].Parameters())
			}
		}
	})

	t.Run("settings that are refused", func(t *testing.T) {
		for _, c := range []struct{ name, value, want string }{
			{"qeury", "RETURN 1", "unknown setting"},
			{"query", "RETURN $evnt", "it uses $evnt"},
			{"query", "", "it is empty"},
		} {
			_, err := m.Instantiate(t.Context(), wasmhost.InstanceConfig{Function: "event", Settings: map[string]string{c.name: c.value}})
			var f *graphmill.Fault
			require.ErrorAs(t, err, &f)
			require.Equal(t, graphmill.FaultSetup, f.Class)
			require.Contains(t, f.Text, c.want)
		}
	})
}

func TestCase12ATransformationSeesNullAndNotEmpty(t *testing.T) {
	m := load(t, build(t, "../../plugins/cypher"))
	i := start(t, m, wasmhost.InstanceConfig{Function: "event", Settings: map[string]string{"query": "CREATE (:M {event: $event, key: $key})", "tombstones": "null"}})
	messages := payloads("", `""`)
	messages[0].Payload, messages[0].Key = nil, nil
	messages[1].Key = []byte{}
	out, err := i.Transform(t.Context(), graphmill.SourceKafka, messages)
	require.NoError(t, err)
	require.Empty(t, out.Failures)
	require.Len(t, out.Statements, 2)
	require.Equal(t, map[string]any{"event": nil, "key": nil}, out.Statements[0].Parameters(), "a tombstone, and no key")
	require.Equal(t, map[string]any{"event": "", "key": ""}, out.Statements[1].Parameters())
}

func TestJSONLines(t *testing.T) {
	m := load(t, build(t, "../../plugins/jsonlines"))
	require.Equal(t, []string{"nodes", "transform"}, m.Transformations())

	t.Run("objects, tombstones and lines", func(t *testing.T) {
		i := start(t, m, wasmhost.InstanceConfig{Function: "nodes", Settings: map[string]string{"label": "User`s", "key": "userId", "tombstones": "delete", "message_key": "integer"}})
		messages := payloads(`{"userId":7,"name":"Ada","tags":["a","b"],"gone":null}`, "{\"userId\":8}\n{\"userId\":9,\"score\":1.5}", "", "{\"userId\":1}\n{\"userId\":}")
		messages[2].Payload, messages[2].Key = nil, []byte("7")
		out, err := i.Transform(t.Context(), graphmill.SourceKafka, messages)
		require.NoError(t, err)
		require.Equal(t, []graphmill.Failure{{Message: 3, Text: "line 2: not JSON: a value should stand at byte 10"}}, out.Failures)
		require.Len(t, out.Statements, 4)
		require.Equal(t, "MERGE (n:`User``s` {`userId`: $key1}) SET n += $props", out.Statements[0].Query.Text)
		require.Equal(t, map[string]any{"key1": int64(7), "props": map[string]any{"name": "Ada", "tags": []any{"a", "b"}, "gone": nil}}, out.Statements[0].Parameters())
		require.Equal(t, map[string]any{"key1": int64(9), "props": map[string]any{"score": 1.5}}, out.Statements[2].Parameters())
		require.Same(t, out.Statements[0].Query, out.Statements[2].Query, "or the statements would not be sent as one")
		require.Equal(t, "MATCH (n:`User``s` {`userId`: $key1}) DETACH DELETE n", out.Statements[3].Query.Text)
		require.Equal(t, map[string]any{"key1": int64(7)}, out.Statements[3].Parameters())
	})

	t.Run("a setting that is refused", func(t *testing.T) {
		_, err := m.Instantiate(t.Context(), wasmhost.InstanceConfig{Function: "nodes", Settings: map[string]string{"lable": "User"}})
		var f *graphmill.Fault
		require.ErrorAs(t, err, &f)
		require.Equal(t, graphmill.FaultSetup, f.Class)
		require.Contains(t, f.Text, `unknown setting "lable", did you mean label?`)
	})
}
