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

const merged = "MERGE (n:`User` {`id`: $key1}) SET n += $props"

// with makes settings of pairs, over those of a node that is merged by its id.
func with(pairs ...string) graphmill.Settings {
	s := graphmill.Settings{"label": "User", "key": "id"}
	for i := 0; i < len(pairs); i += 2 {
		s[pairs[i]] = pairs[i+1]
	}
	return s
}

func TestObjectBecomesNode(t *testing.T) {
	for _, c := range []struct {
		situation string
		settings  graphmill.Settings
		payload   string
		query     string // "": merged
		key       any
		props     map[string]any
	}{
		{"types are kept", with(), `{"id":7,"i":9007199254740993,"f":4.0,"s":"ä\n","t":true,"n":null,"at":"2026-01-31T12:00:00Z"}`, "", int64(7),
			map[string]any{"i": int64(9007199254740993), "f": 4.0, "s": "ä\n", "t": true, "n": nil, "at": "2026-01-31T12:00:00Z"}},
		{"a null that leaves the property", with("null", "leave"), `{"id":7,"n":null,"m":1}`, "", int64(7), map[string]any{"m": int64(1)}},
		{"arrays", with(), `{"id":7,"a":[1,2],"b":["x","\u00e4"],"c":[true,false],"d":[],"e":[1,2.5]}`, "", int64(7),
			map[string]any{"a": []any{int64(1), int64(2)}, "b": []any{"x", "ä"}, "c": []any{true, false}, "d": []any{}, "e": []any{1.0, 2.5}}},
		{"no other fields", with(), `{"id":"x"}`, "", "x", map[string]any{}},
		{"a field twice", with(), `{"id":1,"a":1,"a":2,"id":2}`, "", int64(2), map[string]any{"a": int64(2)}},
		{"white space", with(), " {\n \"id\" : 7 ,\n \"a\" : [ 1 , 2 ] , \"f\" : 1.5 }\n", "", int64(7), map[string]any{"a": []any{int64(1), int64(2)}, "f": 1.5}},
		{"fields taken", with("take", "a, b"), `{"id":7,"a":1,"c":{"d":1}}`, "", int64(7), map[string]any{"a": int64(1)}},
		{"fields left", with("leave", "c"), `{"id":7,"a":1,"c":{"d":1}}`, "", int64(7), map[string]any{"a": int64(1)}},
		{"fields renamed", with("rename", "id=user id, a=b"), `{"id":7,"a":1}`, "MERGE (n:`User` {`user id`: $key1}) SET n += $props", int64(7), map[string]any{"b": int64(1)}},
		{"flattened", with("nested", "flatten"), `{"id":7,"a":{"b":{"c":1},"d":"x"},"e":{}}`, "", int64(7), map[string]any{"a.b.c": int64(1), "a.d": "x"}},
		{"flattened with another separator", with("nested", "flatten", "separator", "_"), `{"id":7,"a":{"b":1}}`, "", int64(7), map[string]any{"a_b": int64(1)}},
		{"a flattened key", graphmill.Settings{"label": "User", "key": "u.id", "rename": "u.id=id", "nested": "flatten"}, `{"u":{"id":7,"name":"Ada"}}`, "", int64(7), map[string]any{"u.name": "Ada"}},
		{"a big integer as a string", with("big_integers", "string"), `{"id":9223372036854775808,"a":-9223372036854775809}`, "", "9223372036854775808", map[string]any{"a": "-9223372036854775809"}},
		{"a label of the object", with("label_field", "kind"), `{"id":7,"kind":"Robot"}`, "MERGE (n:`Robot` {`id`: $key1}) SET n += $props", int64(7), map[string]any{}},
		{"no label of the object", with("label_field", "kind"), `{"id":7,"kind":null}`, "", int64(7), map[string]any{}},
	} {
		t.Run(c.situation, func(t *testing.T) {
			result := run(t, c.settings, graphmilltest.Text(c.payload))
			if c.query == "" {
				c.query = merged
			}
			want := graphmilltest.Result{Statements: []graphmilltest.Statement{{Query: c.query, Params: map[string]any{"key1": c.key, "props": c.props}}}}
			if !reflect.DeepEqual(result, want) {
				t.Errorf("got  %#v\nwant %#v", result, want)
			}
		})
	}
}

func TestWithoutKeyNodesAreCreated(t *testing.T) {
	result := run(t, graphmill.Settings{"label": "Event"}, graphmilltest.Text(`{"a":1}`))
	want := []graphmilltest.Statement{{Query: "CREATE (n:`Event`) SET n += $props", Params: map[string]any{"props": map[string]any{"a": int64(1)}}}}
	if !reflect.DeepEqual(result.Statements, want) {
		t.Errorf("got %+v", result)
	}
}

func TestSeveralKeys(t *testing.T) {
	result := run(t, with("key", "a,b"), graphmilltest.Text(`{"b":"x","a":1}`))
	want := []graphmilltest.Statement{{Query: "MERGE (n:`User` {`a`: $key1, `b`: $key2}) SET n += $props",
		Params: map[string]any{"key1": int64(1), "key2": "x", "props": map[string]any{}}}}
	if !reflect.DeepEqual(result.Statements, want) {
		t.Errorf("got %+v", result)
	}
}

func TestSeveralLinesInOnePayload(t *testing.T) {
	result := run(t, with(), graphmilltest.Text("{\"id\":1}\r\n\n {\"id\":2} \n{\"id\":3}"), graphmilltest.Text("\n{\"id\":4}\n"))
	var keys []any
	for _, s := range result.Statements {
		keys = append(keys, s.Params["key1"])
	}
	if want := []any{int64(1), int64(2), int64(3), int64(4)}; !reflect.DeepEqual(keys, want) || len(result.Failures) > 0 {
		t.Errorf("got %+v", result)
	}
}

// Case 15 of the situations: an integer above 64 bits is never a lost row.
func TestCase15IntegersBeyond64Bits(t *testing.T) {
	result := run(t, with(), graphmilltest.Text("{\"id\":1}\n{\"id\":2,\"v\":18446744073709551616}"), graphmilltest.Text(`{"id":3}`))
	want := graphmilltest.Result{
		Statements: []graphmilltest.Statement{{Query: merged, Message: 1, Params: map[string]any{"key1": int64(3), "props": map[string]any{}}}},
		Failures:   []graphmilltest.Failure{{Message: 0, Text: `line 2: field "v": the integer 18446744073709551616 does not fit into 64 bits; the setting big_integers may be string`}},
	}
	if !reflect.DeepEqual(result, want) {
		t.Errorf("got %+v", result)
	}
}

func TestFailures(t *testing.T) {
	for _, c := range []struct {
		situation string
		settings  graphmill.Settings
		payload   string
		want      string
	}{
		{"not JSON", with(), `{"id":}`, "not JSON: a value should stand at byte 6"},
		{"not JSON in what is not wanted", with("leave", "x"), `{"id":1,"x":{"a":tru}}`, "not JSON: true should stand at byte 20"},
		{"more behind the object", with(), `{"id":1} x`, "not JSON: more stands behind the document at byte 9"},
		{"an empty payload", with(), ``, "not JSON: it ends where a value should stand at byte 0"},
		{"a blank payload", with(), "\n \n", "the payload is blank"},
		{"an array", with(), `[1]`, "it is an array, not an object"},
		{"the second of three lines", with(), "{\"id\":1}\n{\"id\":\n{\"id\":3}", "line 2: not JSON: it ends where a value should stand at byte 6"},
		{"two objects on a line", with(), "{\"id\":1}\n{\"id\":2}{\"id\":3}", "line 2: not JSON: more stands behind the document at byte 8"},
		{"an object within", with(), `{"id":1,"a":{"b":1}}`, `field "a" is an object; the setting nested may be flatten`},
		{"an array of objects", with("nested", "flatten"), `{"id":1,"a":[{"b":1}]}`, `field "a": an array holds an object, which no property can`},
		{"an array with a null", with(), `{"id":1,"a":[1,null]}`, `field "a": an array holds null, which no property can`},
		{"an array of two types", with(), `{"id":1,"a":[1,"x"]}`, `field "a": an array holds a number and a string; a property holds values of one type`},
		{"a big integer in an array", with("big_integers", "string"), `{"id":1,"a":[1,9223372036854775808]}`, `field "a": the integer 9223372036854775808 does not fit into 64 bits, and as a string it would not go with the others`},
		{"too large a float", with(), `{"id":1,"a":1e999}`, `field "a": the number 1e999 does not fit into a float of 64 bits`},
		{"no key", with(), `{"a":1}`, `field "id" of the key is missing`},
		{"a null key", with(), `{"id":null}`, `field "id" of the key is null`},
		{"a list as a key", with(), `{"id":[1]}`, `field "id" of the key is an array`},
		{"an empty name", with(), `{"id":1,"":2}`, "a field has an empty name, which no property can have"},
		{"no label", graphmill.Settings{"label_field": "kind"}, `{"a":1}`, `field "kind", which holds the label, is missing or null; the setting label may be one for such objects`},
		{"a label that is a number", graphmill.Settings{"label_field": "kind"}, `{"kind":1}`, `field "kind" is a number where a label is needed`},
		{"an empty label", graphmill.Settings{"label_field": "kind"}, `{"kind":""}`, `field "kind" is no label: a name is empty`},
		{"nested without end", with("nested", "flatten"), `{"id":1,"a":` + strings.Repeat(`{"a":`, 100) + `1` + strings.Repeat(`}`, 101), "objects are nested more than 64 deep"},
	} {
		t.Run(c.situation, func(t *testing.T) {
			result := run(t, c.settings, graphmilltest.Text(c.payload))
			if want := []graphmilltest.Failure{{Text: c.want}}; !reflect.DeepEqual(result.Failures, want) || len(result.Statements) > 0 {
				t.Errorf("got %+v, want %+v", result, want)
			}
		})
	}
}

func TestHostileNamesStayNames(t *testing.T) {
	for label, want := range map[string]string{
		"A B":                          "CREATE (n:`A B`) SET n += $props",
		"A:B":                          "CREATE (n:`A:B`) SET n += $props",
		"A`) DETACH DELETE n //":       "CREATE (n:`A``) DETACH DELETE n //`) SET n += $props",
		"`":                            "CREATE (n:````) SET n += $props",
		`A\`:                           "CREATE (n:`A\\`) SET n += $props",
		"größe 日本":                     "CREATE (n:`größe 日本`) SET n += $props",
		`A\u0060) DETACH DELETE n //`:  "",
		`A\\u0060) DETACH DELETE n //`: "",
		`A\uuuu0060`:                   "",
		"A\x00B":                       "",
		strings.Repeat("x", 1001):      "",
		strings.Repeat("`", 1000):      "CREATE (n:`" + strings.Repeat("``", 1000) + "`) SET n += $props",
	} {
		document := `{"kind":"` + strings.NewReplacer(`\`, `\\`, "\x00", `\u0000`).Replace(label) + `"}`
		result := run(t, graphmill.Settings{"label_field": "kind"}, graphmilltest.Text(document))
		_, err := newPlan(graphmill.Settings{"label": label})
		_, keyErr := newPlan(graphmill.Settings{"label": "A", "key": "id", "rename": "id=" + label})
		if want == "" {
			if len(result.Statements) > 0 || len(result.Failures) != 1 || err == nil || keyErr == nil {
				t.Errorf("%q was taken: %+v, %v, %v", label, result, err, keyErr)
			}
			continue
		}
		if len(result.Statements) != 1 || result.Statements[0].Query != want || err != nil || keyErr != nil {
			t.Errorf("%q: got %+v, %v, %v, want %s", label, result, err, keyErr, want)
		}
	}
}

// Names of properties are data: they never stand in the query.
func TestPropertyNamesAreParameters(t *testing.T) {
	result := run(t, with(), graphmilltest.Text("{\"id\":1,\"a` = 1} DETACH DELETE n //\":2,\"\\\\u0060\":3}"))
	want := map[string]any{"a` = 1} DETACH DELETE n //": int64(2), `\u0060`: int64(3)}
	if len(result.Statements) != 1 || result.Statements[0].Query != merged || !reflect.DeepEqual(result.Statements[0].Params["props"], want) {
		t.Errorf("got %+v", result)
	}
}

func TestTombstones(t *testing.T) {
	removed := "MATCH (n:`User` {`id`: $key1}) DETACH DELETE n"
	for _, c := range []struct {
		situation string
		settings  graphmill.Settings
		key       string
		query     string // "": nothing, or a failure
		params    map[string]any
		failure   string
	}{
		{"dropped", with(), "7", "", nil, ""},
		{"deleted by text", with("tombstones", "delete"), "7", removed, map[string]any{"key1": "7"}, ""},
		{"deleted by an integer", with("tombstones", "delete", "message_key", "integer"), "7", removed, map[string]any{"key1": int64(7)}, ""},
		{"deleted by JSON", with("tombstones", "delete", "message_key", "json"), `"a\n"`, removed, map[string]any{"key1": "a\n"}, ""},
		{"deleted by an object", with("tombstones", "delete", "message_key", "json", "key", "id,b"), `{"b":2,"id":1}`,
			"MATCH (n:`User` {`id`: $key1, `b`: $key2}) DETACH DELETE n", map[string]any{"key1": int64(1), "key2": int64(2)}, ""},
		{"no integer", with("tombstones", "delete", "message_key", "integer"), "x", "", nil, `the message's key "x" is not an integer of 64 bits`},
		{"no JSON", with("tombstones", "delete", "message_key", "json"), `{"id"`, "", nil, "the message's key: not JSON: it ends where ':' should stand at byte 5"},
		{"null", with("tombstones", "delete", "message_key", "json"), `null`, "", nil, `the message's key: field "id" of the key is null`},
		{"no object", with("tombstones", "delete", "message_key", "json", "key", "id,b"), `1`, "", nil, "the message's key: it is a number, not an object with the fields of the key"},
		{"no UTF-8", with("tombstones", "delete"), "\xff", "", nil, "the message's key is not UTF-8"},
	} {
		t.Run(c.situation, func(t *testing.T) {
			result := run(t, c.settings, graphmilltest.Tombstone(c.key))
			var want graphmilltest.Result
			if c.query != "" {
				want.Statements = []graphmilltest.Statement{{Query: c.query, Params: c.params}}
			}
			if c.failure != "" {
				want.Failures = []graphmilltest.Failure{{Text: c.failure}}
			}
			if !reflect.DeepEqual(result, want) {
				t.Errorf("got %+v, want %+v", result, want)
			}
		})
	}
	result := run(t, with("tombstones", "delete"), graphmilltest.Message{})
	if len(result.Failures) != 1 || !strings.Contains(result.Failures[0].Text, "without a key") {
		t.Errorf("got %+v", result)
	}
}

func TestSettingsThatAreRefused(t *testing.T) {
	for _, c := range []struct {
		settings graphmill.Settings
		want     string
	}{
		{graphmill.Settings{"lable": "User"}, `unknown setting "lable", did you mean label?`},
		{graphmill.Settings{"label": "User", "keys": "id"}, `unknown setting "keys", did you mean key?`},
		{graphmill.Settings{}, "the setting label is missing"},
		{graphmill.Settings{"label": ""}, "setting label: a name is empty"},
		{with("key", "id,"), "setting key: a name is empty"},
		{with("key", "id,id"), `setting key: "id" is there twice`},
		{with("take", "a", "leave", "b"), "settings take and leave: give one of them"},
		{with("rename", "a"), `setting rename: "a" is not of the form from=to`},
		{with("rename", "a=b,a=c"), `setting rename: "a" is there twice`},
		{with("null", "keep"), `setting null: "keep" is not one of: remove, leave`},
		{with("separator", "_"), "setting separator: it is for nested = flatten"},
		{with("tombstones", "ignore"), `setting tombstones: "ignore" is not one of: drop, delete`},
		{with("message_key", "json"), "setting message_key: it is for tombstones = delete"},
		{graphmill.Settings{"label": "User", "tombstones": "delete"}, "delete needs the setting key"},
		{graphmill.Settings{"label_field": "k", "key": "id", "tombstones": "delete"}, "delete needs the setting label"},
		{with("key", "a,b", "tombstones", "delete"), "needs message_key = json"},
		{with("label_field", "id"), `setting key: "id" is the label_field`},
	} {
		if _, err := newPlan(c.settings); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: got %v, want %q", c.settings, err, c.want)
		}
	}
}
