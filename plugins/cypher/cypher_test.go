package main

import (
	"reflect"
	"strings"
	"testing"

	graphmill "github.com/graphmill/graphmill/sdk/go"
	"github.com/graphmill/graphmill/sdk/go/graphmilltest"
)

// run applies settings to messages.
func run(t *testing.T, settings graphmill.Settings, messages ...graphmilltest.Message) graphmilltest.Result {
	t.Helper()
	p, err := newPlan(settings)
	if err != nil {
		t.Fatal(err)
	}
	configured = p
	t.Cleanup(func() { configured = nil })
	return graphmilltest.Run(t, transform, messages...)
}

func TestEvent(t *testing.T) {
	for _, c := range []struct {
		situation, query, payload string
		want                      map[string]any
	}{
		{"only the fields that are used", "MERGE (u:User {id: $event.userId}) SET u.name = $event.name", `{"userId":7,"name":"Ada","other":[1,2]}`,
			map[string]any{"event": map[string]any{"userId": int64(7), "name": "Ada"}}},
		{"a field that is absent", "MERGE (u:User {id: $event.userId}) SET u.name = $event.name", `{"userId":7}`,
			map[string]any{"event": map[string]any{"userId": int64(7)}}},
		{"the whole event", "CREATE (n) SET n = $event", `{"a":1,"b":[null,true,1.5],"c":{"d":"ä"}}`,
			map[string]any{"event": map[string]any{"a": int64(1), "b": []any{nil, true, 1.5}, "c": map[string]any{"d": "ä"}}}},
		{"a list", "UNWIND $event AS e CREATE (n {id: e.id})", `[{"id":1},{"id":2}]`,
			map[string]any{"event": []any{map[string]any{"id": int64(1)}, map[string]any{"id": int64(2)}}}},
		{"a list where fields are used", "CREATE (n {id: $event.id})", `[1]`, map[string]any{"event": []any{int64(1)}}},
		{"a number", "CREATE (n {v: $event})", ` 7 `, map[string]any{"event": int64(7)}},
		{"an integer beyond 2^53", "CREATE (n {v: $event.v})", `{"v":9007199254740993}`, map[string]any{"event": map[string]any{"v": int64(9007199254740993)}}},
		{"no use of the event", "CREATE (:Tick)", `not JSON`, map[string]any{}},
		{"a field twice", "CREATE (n {v: $event.v})", `{"v":1,"v":2}`, map[string]any{"event": map[string]any{"v": int64(2)}}},
		{"too large an integer in what is not used", "CREATE (n {v: $event.v})", `{"v":1,"x":99999999999999999999}`, map[string]any{"event": map[string]any{"v": int64(1)}}},
	} {
		t.Run(c.situation, func(t *testing.T) {
			result := run(t, graphmill.Settings{"query": c.query + ";"}, graphmilltest.Text(c.payload))
			want := graphmilltest.Result{Statements: []graphmilltest.Statement{{Query: c.query, Params: c.want}}}
			if !reflect.DeepEqual(result, want) {
				t.Errorf("got  %#v\nwant %#v", result, want)
			}
		})
	}
}

func TestFailures(t *testing.T) {
	for _, c := range []struct{ situation, payload, want string }{
		{"not JSON", `{"v":}`, "not JSON: a value should stand at byte 5"},
		{"not JSON in what is not used", `{"v":1,"x":tru}`, "not JSON: true should stand at byte 14"},
		{"an empty payload", ``, "not JSON: it ends where a value should stand at byte 0"},
		{"too large an integer", `{"v":9223372036854775808}`, "the integer 9223372036854775808 does not fit into 64 bits"},
		{"too large a float", `{"v":1e999}`, "the number 1e999 does not fit into a float of 64 bits"},
	} {
		t.Run(c.situation, func(t *testing.T) {
			result := run(t, graphmill.Settings{"query": "CREATE (n {v: $event.v})"}, graphmilltest.Text(`{"v":1}`), graphmilltest.Text(c.payload))
			if want := []graphmilltest.Failure{{Message: 1, Text: c.want}}; !reflect.DeepEqual(result.Failures, want) || len(result.Statements) != 1 {
				t.Errorf("got %+v, want %+v", result, want)
			}
		})
	}
}

func TestBigIntegersAsStrings(t *testing.T) {
	result := run(t, graphmill.Settings{"query": "CREATE (n {v: $event.v})", "big_integers": "string"}, graphmilltest.Text(`{"v":[9223372036854775808,1]}`))
	want := map[string]any{"event": map[string]any{"v": []any{"9223372036854775808", int64(1)}}}
	if len(result.Statements) != 1 || !reflect.DeepEqual(result.Statements[0].Params, want) {
		t.Errorf("got %+v, want %v", result, want)
	}
}

func TestTombstones(t *testing.T) {
	uses, usesNot := "MATCH (n {k: $key}) SET n.v = $event.v", "MATCH (n {k: $key}) DELETE n"
	for _, c := range []struct {
		setting, query       string
		statements, failures int
	}{
		{"", uses, 0, 1},
		{"fail", uses, 0, 1},
		{"drop", uses, 0, 0},
		{"null", uses, 1, 0},
		{"", usesNot, 1, 0},
		{"drop", usesNot, 1, 0},
	} {
		settings := graphmill.Settings{"query": c.query}
		if c.setting != "" {
			settings["tombstones"] = c.setting
		}
		result := run(t, settings, graphmilltest.Tombstone("k"))
		if len(result.Statements) != c.statements || len(result.Failures) != c.failures {
			t.Errorf("%q, %s: got %+v", c.setting, c.query, result)
		}
		if c.setting == "null" && !reflect.DeepEqual(result.Statements[0].Params, map[string]any{"key": "k", "event": nil}) {
			t.Errorf("got %+v", result.Statements[0].Params)
		}
	}
}

func TestParametersOfTheMessage(t *testing.T) {
	query := "RETURN $headers, $timestamp, $offset, $partition, $topic, $key"
	kafka := graphmilltest.Message{
		Key: []byte("k\xff"), Topic: "orders", Partition: 3, Offset: 17, Timestamp: 1769862615123,
		Headers: []graphmilltest.Header{{Key: "a", Value: []byte("1")}, {Key: "b", Value: []byte{0xff}}, {Key: "n"}, {Key: "a", Value: []byte("2")}},
	}
	pulsar := graphmilltest.Message{Topic: "t", Partition: -1, Offset: -1}
	result := run(t, graphmill.Settings{"query": query}, kafka, pulsar)
	want := []graphmilltest.Statement{
		{Query: query, Message: 0, Params: map[string]any{
			"key": []byte("k\xff"), "topic": "orders", "partition": int64(3), "offset": int64(17), "timestamp": int64(1769862615123),
			"headers": map[string]any{"a": "2", "b": []byte{0xff}, "n": nil},
		}},
		{Query: query, Message: 1, Params: map[string]any{
			"key": nil, "topic": "t", "partition": nil, "offset": nil, "timestamp": int64(0), "headers": map[string]any{},
		}},
	}
	if !reflect.DeepEqual(result.Statements, want) {
		t.Errorf("got  %#v\nwant %#v", result.Statements, want)
	}
}

func TestSettingsErrors(t *testing.T) {
	for _, c := range []struct {
		situation string
		settings  graphmill.Settings
		want      string
	}{
		{"none", nil, "the setting query is missing: the Cypher to run for each message, such as {'query': 'MERGE (u:User {id: $event.userId})"},
		{"another name", graphmill.Settings{"qeury": "RETURN 1"}, `unknown setting "qeury", did you mean query?; there are: query, big_integers, tombstones`},
		{"empty", graphmill.Settings{"query": " "}, "setting query: it is empty"},
		{"over 1 MiB", graphmill.Settings{"query": strings.Repeat("x", 1<<20+1)}, "setting query: it is longer than 1 MiB"},
		{"no UTF-8", graphmill.Settings{"query": "RETURN '\xff'"}, "setting query: it is not UTF-8"},
		{"two statements", graphmill.Settings{"query": "RETURN 1; RETURN 2"}, "setting query: there are several statements; it must be one"},
		{"an unknown parameter", graphmill.Settings{"query": "RETURN $evnt.id"}, "setting query: it uses $evnt, and a message gives $event, $key, $topic, $partition, $offset, $timestamp, $headers"},
		{"an unknown choice", graphmill.Settings{"query": "RETURN 1", "tombstones": "skip"}, `setting tombstones: "skip" is not one of: fail, drop, null`},
		{"another one", graphmill.Settings{"query": "RETURN 1", "big_integers": "float"}, `setting big_integers: "float" is not one of: fail, string`},
	} {
		t.Run(c.situation, func(t *testing.T) {
			if _, err := newPlan(c.settings); err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}
