package json_test

import (
	stdjson "encoding/json"
	"errors"
	"math"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/graphmill/graphmill/sdk/go/json"
)

// build makes of a document what encoding/json makes of it with UseNumber.
func build(document []byte) (any, error) {
	var r json.Reader
	r.Reset(document)
	v, err := next(&r, r.Next())
	if err != nil {
		return nil, err
	}
	if kind := r.Next(); kind != json.End {
		return nil, r.Err()
	}
	return v, nil
}

func next(r *json.Reader, kind json.Kind) (any, error) {
	switch kind {
	case json.Null:
		return nil, nil
	case json.True, json.False:
		return kind == json.True, nil
	case json.Number:
		return stdjson.Number(r.Text()), nil
	case json.String:
		return string(r.Text()), nil
	case json.BeginArray:
		list := []any{}
		for {
			kind := r.Next()
			if kind == json.EndArray {
				return list, nil
			}
			v, err := next(r, kind)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
	case json.BeginObject:
		m := map[string]any{}
		for {
			if len(m)%2 == 0 { // each way in turn
				name, raw, kind := r.Field()
				if kind == json.EndObject {
					return m, nil
				}
				key := string(name)
				v, err := next(r, kind)
				if err != nil {
					return nil, err
				}
				if n, ok := v.(stdjson.Number); ok && string(raw) != string(n) {
					return nil, errors.New("Field gives " + string(raw) + " as the text of " + string(n))
				}
				m[key] = v
				continue
			}
			kind := r.Next()
			if kind == json.EndObject {
				return m, nil
			}
			if kind != json.Key {
				return nil, r.Err()
			}
			key := string(r.Text())
			v, err := next(r, r.Next())
			if err != nil {
				return nil, err
			}
			m[key] = v
		}
	}
	return nil, r.Err()
}

// standard is what encoding/json says, and whether the document has what this
// package refuses on purpose.
func standard(document []byte) (v any, ok, refused bool) {
	d := stdjson.NewDecoder(strings.NewReader(string(document)))
	d.UseNumber()
	if !stdjson.Valid(document) || d.Decode(&v) != nil {
		return nil, false, false
	}
	return v, true, !utf8.Valid(document) || halfPair(document) || depth(document) > json.MaxDepth
}

// halfPair tells whether a valid document has an escape that is half of a surrogate
// pair.
func halfPair(document []byte) bool {
	for i := 0; i < len(document); i++ {
		if document[i] != '\\' {
			continue
		}
		i++
		if document[i] != 'u' {
			continue
		}
		unit, _ := strconv.ParseUint(string(document[i+1:i+5]), 16, 16)
		i += 4
		switch {
		case unit < 0xd800 || unit > 0xdfff:
		case unit >= 0xdc00:
			return true
		default:
			if i+6 >= len(document) || document[i+1] != '\\' || document[i+2] != 'u' {
				return true
			}
			low, _ := strconv.ParseUint(string(document[i+3:i+7]), 16, 16)
			if low < 0xdc00 || low > 0xdfff {
				return true
			}
			i += 6
		}
	}
	return false
}

// depth is how deep a valid document is nested.
func depth(document []byte) (deepest int) {
	open, quoted := 0, false
	for i := 0; i < len(document); i++ {
		switch c := document[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			open++
			deepest = max(deepest, open)
		case c == ']' || c == '}':
			open--
		}
	}
	return deepest
}

// agree compares with encoding/json.
func agree(t *testing.T, document []byte) {
	t.Helper()
	want, ok, refused := standard(document)
	got, err := build(document)
	switch {
	case ok && !refused:
		if err != nil {
			t.Errorf("%q: %v, encoding/json takes it", document, err)
		} else if !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got %#v, want %#v", document, got, want)
		}
	case err == nil:
		t.Errorf("%q was taken for %#v", document, got)
	}
}

var documents = []string{
	"", " ", "null", " true ", "false\n", "nul", "nulL", "truely", "n", "tru", "falsE", "\x00", "null\x00", "\ufeff1",
	"0", "-0", "1", "-1", "01", "-01", "1.", ".5", "0.5", "-0.5", "1e5", "1E+5", "1e-5", "1e", "1e+", "--1", "-", "+1", "1.5.5", "1e5.5", "0x1",
	"123456789", "12345678901234567890", "1234567.1234567", "12345678.1", "1.12345678", "9223372036854775807", "-9223372036854775808", "9223372036854775808",
	"1e999", "-1e999", "1e-999", "0.1", "1.7976931348623157e308", "4.9e-324", "100000000", "10000000", "0.10000000", "0.0000001",
	`""`, `"a"`, `"`, `"a`, `"\`, `"\"`, `"\""`, `"\x"`, `"\u"`, `"\u12"`, `"\u00e4"`, `"\u00E4\n\t\r\b\f\/\\\""`, `"\ud83d\ude80"`, `"\ud83d"`, `"\ude80"`,
	`"\ud83d\u0041"`, `"\ud83dx"`, `"\ud83d\ud83d\ude80"`, `"\u0000"`, "\"\x01\"", "\"\x1f\"", "\"\x7f\"", "\"a\nb\"", "\"\xff\"", "\"\xc3\"", "\"\xed\xa0\x80\"", `"größer als 世界 🚀"`,
	`"1234567"`, `"12345678"`, `"123456789"`, `"1234567\n"`, `"12345678ä"`, "\"1234567\x02\"", `"a string of more than thirty-two bytes, all of them plain"`,
	"[]", "[ ]", "[1]", "[1,]", "[,1]", "[1 2]", "[1,2", "[", "]", "[]]", "[[]]", "[[[1],2],3]", "[}", "{]",
	"{}", "{ }", `{"a":1}`, `{"a":1,}`, `{,"a":1}`, `{"a"}`, `{"a":}`, `{"a" 1}`, `{"a":1 "b":2}`, `{a:1}`, `{1:1}`, `{"a":1,"a":2}`, `{"":""}`, `{`, `{"a`, `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `}`,
	` { "a" : [ 1 , { "b" : null } , "c" ] , "d" : { } } `, `{"a":{"b":{"c":[1,2,{"d":"e"}]}}}`, `{"a":1}x`, `{"a":1} {}`, `1 2`, `"a" "b"`, `[1]x`,
	`{"\u0061":1,"a":2}`, `{"a\"b":1}`, `{"größe":1}`, "{\"\xff\":1}", `{"a": 1, "b": "x", "c": 1.5, "d": true}`, `{"a":  1}`, "{\t\"a\"\t:\t1\t}", `{"a":1, "b":2 ,"c":3}`,
}

func TestAsEncodingJSON(t *testing.T) {
	for _, d := range documents {
		agree(t, []byte(d))
		for cut := range d {
			agree(t, []byte(d[:cut]))
		}
	}
	for _, n := range []int{json.MaxDepth - 1, json.MaxDepth, json.MaxDepth + 1} {
		agree(t, []byte(strings.Repeat("[", n)+strings.Repeat("]", n)))
		agree(t, []byte(strings.Repeat(`{"a":`, n)+"1"+strings.Repeat("}", n)))
	}
}

func FuzzReader(f *testing.F) {
	for _, d := range documents {
		f.Add([]byte(d))
	}
	f.Fuzz(agree)
}

func TestNumbers(t *testing.T) {
	for _, n := range []string{
		"0", "-0", "1", "-1", "7", "42", "1234567", "12345678", "-7654321", "99999999999999999999", "9223372036854775807", "9223372036854775808",
		"-9223372036854775808", "-9223372036854775809", "10000000000000000000", "1.0", "1e2",
		"0.5", "-0.5", "-0.0", "0.1", "0.3", "1234567.7654321", "9999999.9999999", "0.0000001", "1.7976931348623157e308", "1e309", "5e-324", "1e-400", "123456789.123456789",
		"2.2250738585072011e-308", "9007199254740993", "0.1e1", "1E2",
	} {
		wantInt, err := strconv.ParseInt(n, 10, 64)
		if got, ok := json.ParseInt([]byte(n)); ok != (err == nil) || ok && got != wantInt {
			t.Errorf("ParseInt(%s) = %d, %v", n, got, ok)
		}
		wantFloat, err := strconv.ParseFloat(n, 64)
		if got, ok := json.ParseFloat([]byte(n)); ok != (err == nil) || ok && math.Float64bits(got) != math.Float64bits(wantFloat) {
			t.Errorf("ParseFloat(%s) = %v, %v", n, got, ok)
		}
		if want := !strings.ContainsAny(n, ".eE"); json.IsInt([]byte(n)) != want {
			t.Errorf("IsInt(%s) is not %v", n, want)
		}
	}
}

func TestReaderSkip(t *testing.T) {
	var r json.Reader
	r.Reset([]byte(`{"a":[1,{"b":[]}],"c":{"d":"e"},"f":1,"g":[2,3]}`))
	r.Skip() // nothing has been read
	var kinds []json.Kind
	for kind := r.Next(); kind != json.End; kind = r.Next() {
		kinds = append(kinds, kind)
		switch {
		case kind == json.Invalid:
			t.Fatal(r.Err())
		case kind == json.Key && string(r.Text()) == "a":
			r.Skip() // the field
		case kind == json.Key && string(r.Text()) == "c":
			r.Next()
			r.Skip() // the rest of the object
		case kind == json.Number && string(r.Text()) == "1":
			r.Skip() // nothing is left of it
		}
	}
	want := []json.Kind{
		json.BeginObject, json.Key, json.Key, json.Key, json.Number, json.Key, json.BeginArray, json.Number, json.Number, json.EndArray, json.EndObject,
	}
	if !reflect.DeepEqual(kinds, want) {
		t.Errorf("got %v, want %v", kinds, want)
	}
	r.Reset([]byte(`{"a":[1,}`))
	r.Next()
	r.Next()
	if r.Skip(); r.Next() != json.Invalid || r.Err() == nil {
		t.Error("what was skipped was not checked")
	}
}

func TestSyntaxErrors(t *testing.T) {
	for document, want := range map[string]string{
		`{"a":1,"b":}`:            "not JSON: a value should stand at byte 11",
		`{"a":1,"b"`:              "not JSON: it ends where ':' should stand at byte 10",
		`{"a":1 "b":2}`:           "not JSON: ',' or '}' should stand at byte 7",
		`[1;2]`:                   "not JSON: ',' or ']' should stand at byte 2",
		`{"a":"b` + "\n" + `c"}`:  "not JSON: a control character in a string at byte 7",
		"[\"ab\xffc\"]":           "not JSON: a string is not UTF-8 at byte 4",
		`"\ud800"`:                "not JSON: half of a surrogate pair, which is no character at byte 1",
		``:                        "not JSON: it ends where a value should stand at byte 0",
		`nulx`:                    "not JSON: null should stand at byte 3",
		`{"a":1}}`:                "not JSON: more stands behind the document at byte 7",
		`[01]`:                    "not JSON: ',' or ']' should stand at byte 2",
		`{"a":1,}`:                "not JSON: a field name in quotes should stand at byte 7",
		strings.Repeat("[", 2000): "not JSON: nested more than 1,000 deep at byte 1000",
	} {
		if _, err := build([]byte(document)); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", document, err, want)
		}
	}
}
