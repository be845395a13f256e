package graphmill_test

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	graphmill "github.com/graphmill/graphmill/sdk/go"
	"github.com/graphmill/graphmill/sdk/go/graphmilltest"
	sdkjson "github.com/graphmill/graphmill/sdk/go/json"
)

var one = graphmill.NewQuery("RETURN $v", "v")

// throughJSON gives a document to a statement and returns what arrives.
func throughJSON(t *testing.T, document []byte, options ...graphmill.JSONOption) (any, error) {
	result := graphmilltest.Run(t, perMessage(func(m graphmill.Message, out graphmill.Output) error {
		out.Statement(one).JSON(m.Payload(), options...)
		return nil
	}), graphmilltest.Message{Payload: document})
	if len(result.Failures) > 0 {
		return nil, errors.New(result.Failures[0].Text)
	}
	return result.Statements[0].Params["v"], nil
}

func TestStatementJSON(t *testing.T) {
	for _, c := range []struct {
		document string
		want     any
		err      string
	}{
		{`{"id":7,"name":"Ada","tags":["a","b"],"score":4.5,"ok":true,"none":null}`, map[string]any{
			"id": int64(7), "name": "Ada", "tags": []any{"a", "b"}, "score": 4.5, "ok": true, "none": nil,
		}, ""},
		{` [ 1 , -2 , 1e2 , 1.0 , { } , [ ] , "\u00e4" ] `, []any{int64(1), int64(-2), 100.0, 1.0, map[string]any{}, []any{}, "ä"}, ""},
		{`"x"`, "x", ""},
		{`null`, nil, ""},
		{`-0`, int64(0), ""},
		{`-0.0`, math.Copysign(0, -1), ""},
		{`9223372036854775807`, int64(math.MaxInt64), ""},
		{`{"a":1,"a":{"b":2},"a":3}`, map[string]any{"a": int64(3)}, ""},
		{`{"a thirty-two byte name, and more":"a text of thirty-two bytes and more"}`, map[string]any{"a thirty-two byte name, and more": "a text of thirty-two bytes and more"}, ""},
		{`[9223372036854775808]`, nil, "the integer 9223372036854775808 does not fit into 64 bits"},
		{`{"a":1e999}`, nil, "the number 1e999 does not fit into a float of 64 bits"},
		{`{"a":1`, nil, "not JSON: it ends where ',' or '}' should stand at byte 6"},
		{`{"a":`, nil, "not JSON: it ends where a value should stand at byte 5"},
		{`[1,`, nil, "not JSON: it ends where a value should stand at byte 3"},
		{``, nil, "not JSON: it ends where a value should stand at byte 0"},
		{`{"a":1}}`, nil, "not JSON: more stands behind the document at byte 7"},
		{strings.Repeat("[", 63) + strings.Repeat("]", 63), nested(63), ""},
		{strings.Repeat("[", 64) + strings.Repeat("]", 64), nil, "statement of RETURN $v: lists and maps are nested more than 64 deep, the parameters themselves counted"},
	} {
		got, err := throughJSON(t, []byte(c.document))
		if text := ""; err != nil {
			if text = err.Error(); text != c.err {
				t.Errorf("%s: %q, want %q", c.document, text, c.err)
			}
		} else if c.err != "" || !same(got, c.want) {
			t.Errorf("%s: got %#v, want %#v%s", c.document, got, c.want, c.err)
		}
	}
	got, err := throughJSON(t, []byte(`{"a":[123456789012345678901234567890,1]}`), graphmill.BigIntegersAsText())
	if want := map[string]any{"a": []any{"123456789012345678901234567890", int64(1)}}; err != nil || !same(got, want) {
		t.Errorf("got %v and %v", got, err)
	}
	if got, err := throughJSON(t, nil); got != nil || err != nil {
		t.Errorf("a null payload is %v, %v", got, err)
	}
}

func nested(depth int) any {
	v := any([]any{})
	for range depth - 1 {
		v = []any{v}
	}
	return v
}

// same is DeepEqual that tells the two zeros apart.
func same(a, b any) bool {
	x, isFloat := a.(float64)
	if y, ok := b.(float64); ok && isFloat {
		return math.Float64bits(x) == math.Float64bits(y)
	}
	return reflect.DeepEqual(a, b)
}

// asParameter turns what encoding/json makes of a document into parameter values. ok
// is false where there are none.
func asParameter(v any, depth int) (_ any, ok bool) {
	switch v := v.(type) {
	case json.Number:
		if strings.ContainsAny(string(v), ".eE") {
			f, err := strconv.ParseFloat(string(v), 64)
			return f, err == nil
		}
		n, err := strconv.ParseInt(string(v), 10, 64)
		return n, err == nil
	case []any:
		if depth == 63 {
			return nil, false
		}
		for i := range v {
			if v[i], ok = asParameter(v[i], depth+1); !ok {
				return nil, false
			}
		}
	case map[string]any:
		if depth == 63 {
			return nil, false
		}
		for k := range v {
			if v[k], ok = asParameter(v[k], depth+1); !ok {
				return nil, false
			}
		}
	}
	return v, true
}

func FuzzStatementJSON(f *testing.F) {
	for _, d := range []string{
		`{"id":7,"name":"Ada","tags":["a","b"],"score":4.5,"ok":true,"none":null}`, `{"a":1, "b": "x" , "c":{"d":[{}]}}`, `[1,-2,3e4,"\ud83d\ude80"]`,
		`{"0123456789012345678901234567890":"0123456789012345678901234567890","x":"01234567890123456789012345678901"}`, `{"a":"b","c":1.5,"d":-12345678}x`,
	} {
		f.Add([]byte(d))
	}
	f.Fuzz(func(t *testing.T, document []byte) {
		got, err := throughJSON(t, append([]byte{}, document...))
		var r sdkjson.Reader // which FuzzReader compares with encoding/json
		r.Reset(document)
		kind := r.Next()
		for kind != sdkjson.Invalid && kind != sdkjson.End {
			kind = r.Next()
		}
		if kind == sdkjson.Invalid || !utf8.Valid(document) {
			if err == nil {
				t.Errorf("%q was taken for %#v", document, got)
			}
			return
		}
		var v any
		d := json.NewDecoder(strings.NewReader(string(document)))
		d.UseNumber()
		if err := d.Decode(&v); err != nil {
			t.Fatalf("%q: %v", document, err)
		}
		want, ok := asParameter(v, 0)
		switch {
		case !ok && err == nil:
			t.Errorf("%q was taken for %#v", document, got)
		case ok && err != nil && !strings.Contains(err.Error(), "fit into") && !strings.Contains(err.Error(), "64 deep"):
			// Of two fields of a name encoding/json keeps the last one, and the first
			// may be what cannot be a parameter; all else is wrong.
			t.Errorf("%q: %v", document, err)
		case ok && err == nil && !same(got, want):
			t.Errorf("%q: got %#v, want %#v", document, got, want)
		}
		if err == nil {
			part, err := throughJSON(t, document, graphmill.OnlyFields("a", "id", "0123456789012345678901234567890", "none"))
			if err != nil || !same(part, onlyFields(got, "a", "id", "0123456789012345678901234567890", "none")) {
				t.Errorf("%q: some fields are %#v, %v", document, part, err)
			}
		}
	})
}

// onlyFields takes the other fields out of an object.
func onlyFields(v any, names ...string) any {
	m, ok := v.(map[string]any)
	if !ok {
		return v
	}
	some := map[string]any{}
	for _, name := range names {
		if v, ok := m[name]; ok {
			some[name] = v
		}
	}
	return some
}

func TestOnlyFields(t *testing.T) {
	some := graphmill.OnlyFields("b", "a", "größe")
	for document, want := range map[string]any{
		`{"a":1,"b":2,"c":3}`: map[string]any{"a": int64(1), "b": int64(2)},
		`{ "x" : [1,{"a":2}] , "größe" : {"a":1,"x":2} , "y":"\n" , "\u0061" : null }`: map[string]any{"größe": map[string]any{"a": int64(1), "x": int64(2)}, "a": nil},
		`{"x":99999999999999999999,"a":1}`:                                             map[string]any{"a": int64(1)},
		`{"x":1}`:                                                                      map[string]any{},
		`{"x":{}}`:                                                                     map[string]any{},
		`{}`:                                                                           map[string]any{},
		`[{"x":1}]`:                                                                    []any{map[string]any{"x": int64(1)}},
		`7`:                                                                            int64(7),
		`{"a":1,"a":2,"x":0,"b":1}`:                                                    map[string]any{"a": int64(2), "b": int64(1)},
	} {
		if got, err := throughJSON(t, []byte(document), some); err != nil || !same(got, want) {
			t.Errorf("%s: got %#v and %v, want %#v", document, got, err, want)
		}
	}
	for _, document := range []string{`{"x":1,}`, `{"x":[1,]}`, `{"x":}`, `{"x":nope}`, `{"x":1 "a":2}`, `{"x":"\ud800"}`, `{"x":{"a"}}`, `{"x":1}]`, `{"x":-}`, `{"x":1`} {
		if got, err := throughJSON(t, []byte(document), some); err == nil || !strings.HasPrefix(err.Error(), "not JSON: ") {
			t.Errorf("%s: got %#v and %v", document, got, err)
		}
	}
}

// The answer grows beyond its first buffer, at whatever place in a document.
func TestStatementJSONWhileTheBufferGrows(t *testing.T) {
	var messages []graphmilltest.Message
	for i := range 3000 {
		messages = append(messages, graphmilltest.Text(`{"n":`+strconv.Itoa(i)+`,"text":"`+strings.Repeat("x", i%40)+`","f": 0.5}`))
	}
	result := graphmilltest.Run(t, perMessage(func(m graphmill.Message, out graphmill.Output) error {
		out.Statement(one).JSON(m.Payload())
		return nil
	}), messages...)
	if len(result.Statements) != len(messages) {
		t.Fatal(len(result.Statements), result.Failures)
	}
	for i, s := range result.Statements {
		equal(t, s.Params["v"], any(map[string]any{"n": int64(i), "text": strings.Repeat("x", i%40), "f": 0.5}))
	}
}
