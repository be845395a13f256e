package json_test

import (
	stdjson "encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/graphmill/graphmill/sdk/go/internal/scan"
	"github.com/graphmill/graphmill/sdk/go/json"
)

var (
	all     json.Shape
	id      = all.Int("id")
	score   = all.Float("score")
	active  = all.Bool("active")
	name    = all.Text("name")
	extra   = all.Raw("extra")
	optInt  = all.OptInt("opt_int")
	optNum  = all.OptFloat("a name of more than thirteen characters")
	optBool = all.OptBool("größe")
	optText = all.OptText(`q"uote`)
	optRaw  = all.OptRaw("")
)

func TestObject(t *testing.T) {
	document := `{"id":-7,"score":4.25,"active":true,"name":"Ada","extra":{"a":[1]},"opt_int":12345678901,` +
		`"a name of more than thirteen characters":3,"größe":false,"q\"uote":"\u00e4\n","":null,"other":[{"id":1}]}`
	for situation, d := range map[string]string{
		"compact": document,
		"spaced":  strings.NewReplacer(`,"`, `, "`, `":`, `": `).Replace(document),
		"white":   " \n" + strings.NewReplacer(`,"`, " ,\n\t\"", `":`, "\" : ").Replace(document) + "\r\n",
	} {
		t.Run(situation, func(t *testing.T) {
			var o json.Object
			if err := o.Parse(&all, []byte(d)); err != nil {
				t.Fatal(err)
			}
			i, hasInt := o.OptInt(optInt)
			f, hasFloat := o.OptFloat(optNum)
			b, hasBool := o.OptBool(optBool)
			got := []any{
				o.Int(id), o.Float(score), o.Bool(active), string(o.Text(name)), o.String(name),
				strings.Join(strings.Fields(string(o.Raw(extra))), ""), i, hasInt, f, hasFloat, b, hasBool, string(o.Text(optText)), string(o.Raw(optRaw)),
			}
			want := []any{int64(-7), 4.25, true, "Ada", "Ada", `{"a":[1]}`, int64(12345678901), true, 3.0, true, false, true, "ä\n", "null"}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got  %#v\nwant %#v", got, want)
			}
		})
	}
}

func TestObjectAbsentFields(t *testing.T) {
	for situation, d := range map[string]string{
		"absent":             `{"extra":0,"name":"","active":false,"score":0,"id":0}`, // any order
		"null":               `{"id":0,"score":0,"active":false,"name":"","extra":0,"opt_int":null,"a name of more than thirteen characters":null,"größe":null,"q\"uote":null}`,
		"null after a value": `{"id":0,"score":0,"active":false,"name":"","extra":0,"opt_int":1,"opt_int":null}`,
	} {
		t.Run(situation, func(t *testing.T) {
			o := parsed(t, `{"id":1,"score":1,"active":true,"name":"x","extra":1,"opt_int":1,"größe":true,"":1}`)
			if err := o.Parse(&all, []byte(d)); err != nil { // nothing of the document before is left
				t.Fatal(err)
			}
			_, hasInt := o.OptInt(optInt)
			_, hasFloat := o.OptFloat(optNum)
			_, hasBool := o.OptBool(optBool)
			if hasInt || hasFloat || hasBool || o.Text(optText) != nil || o.Raw(optRaw) != nil {
				t.Error("an absent field is there")
			}
			if o.Text(name) == nil || o.Int(id) != 0 || o.Bool(active) {
				t.Error("a field is not as it stands there")
			}
		})
	}
}

func parsed(t *testing.T, document string) *json.Object {
	t.Helper()
	o := new(json.Object)
	if err := o.Parse(&all, []byte(document)); err != nil {
		t.Fatal(err)
	}
	return o
}

func TestObjectErrors(t *testing.T) {
	var shape json.Shape
	shape.Int("i")
	shape.OptFloat("f")
	shape.OptBool("b")
	shape.OptText("s")
	shape.OptRaw("r")
	for document, want := range map[string]string{
		`{"i":1,"f":1.5,"b":true,"s":"","r":[]}`: "",
		`{"i":1,"i":2}`:                          "",
		`{}`:                                     `field "i" is missing`,
		`{"f":1}`:                                `field "i" is missing`,
		`{"i":null}`:                             `field "i" is null`,
		`{"i":"1"}`:                              `field "i" is a string where an integer is needed`,
		`{"i":1.0}`:                              `field "i" is not an integer of 64 bits`,
		`{"i":1e3}`:                              `field "i" is not an integer of 64 bits`,
		`{"i":9223372036854775808}`:              `field "i" is not an integer of 64 bits`,
		`{"i":1,"f":"x"}`:                        `field "f" is a string where a number is needed`,
		`{"i":1,"f":1e999}`:                      `field "f" is too large for a float`,
		`{"i":1,"b":1}`:                          `field "b" is a number where a boolean is needed`,
		`{"i":1,"b":"true"}`:                     `field "b" is a string where a boolean is needed`,
		`{"i":1,"s":1}`:                          `field "s" is a number where a string is needed`,
		`{"i":1,"s":{}}`:                         `field "s" is an object where a string is needed`,
		`{"i":1,"s":true,"f":[]}`:                `field "s" is a boolean where a string is needed`,
		`[]`:                                     "the document is an array, not an object",
		` "x"`:                                   "the document is a string, not an object",
		`null`:                                   "the document is null, not an object",
		``:                                       "not JSON: it ends where a value should stand at byte 0",
		`nope`:                                   "not JSON: null should stand at byte 1",
		`{"i":"1"`:                               "not JSON: it ends where ',' or '}' should stand at byte 8",
		`{"i":1,"x":[}]}`:                        "not JSON: a value should stand at byte 12",
		`{"i":1} 2`:                              "not JSON: more stands behind the document at byte 8",
		`{"i":01}`:                               "not JSON: ',' or '}' should stand at byte 6",
		`{"i":1,"r":"\ud800"}`:                   "not JSON: half of a surrogate pair, which is no character at byte 12",
	} {
		var o json.Object
		got := ""
		if err := o.Parse(&shape, []byte(document)); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %q, want %q", document, got, want)
		}
	}
}

func TestLastOfTwoFieldsCounts(t *testing.T) {
	o := parsed(t, `{"id":1,"score":1,"active":true,"name":"x","extra":1,"id":2,"na\u006de":"y","extra":3}`)
	if o.Int(id) != 2 || o.String(name) != "y" || string(o.Raw(extra)) != "3" {
		t.Errorf("got %d, %s, %s", o.Int(id), o.String(name), o.Raw(extra))
	}
}

func TestNestedObject(t *testing.T) {
	var inner json.Shape
	a := inner.Int("a")
	o := parsed(t, `{"id":1,"score":1,"active":true,"name":"x","extra":{"a":5}}`)
	var nested json.Object
	if err := nested.Parse(&inner, o.Raw(extra)); err != nil || nested.Int(a) != 5 {
		t.Error(err, nested.Int(a))
	}
}

func TestShapePanics(t *testing.T) {
	for situation, use := range map[string]func(){
		"a field twice":           func() { var s json.Shape; s.Int("a"); s.Text("a") },
		"a name that is no UTF-8": func() { var s json.Shape; s.Int("\xff") },
		"33 fields": func() {
			var s json.Shape
			for i := range 33 {
				s.Int(fmt.Sprint(i))
			}
		},
		"a field of another shape": func() {
			var s json.Shape
			other := s.Int("x")
			parsed(t, `{"id":1,"score":1,"active":true,"name":"x","extra":1}`).Int(other)
		},
	} {
		t.Run(situation, func(t *testing.T) {
			defer func() {
				if text, _ := recover().(string); !strings.HasPrefix(text, "json: ") {
					t.Errorf("the panic is %q", text)
				}
			}()
			use()
		})
	}
}

func TestEmptyShape(t *testing.T) {
	var s json.Shape
	var o json.Object
	if err := o.Parse(&s, []byte(`{"a":1,"b":[{}]}`)); err != nil {
		t.Error(err)
	}
	if err := o.Parse(&s, []byte(`{"a":1,"b":[{]}`)); err == nil {
		t.Error("what is not wanted was not checked")
	}
}

func TestShapeOfMaxFields(t *testing.T) {
	var s json.Shape
	fields := make([]json.IntField, json.MaxFields)
	document := "{"
	for i := range fields {
		fields[i] = s.Int(fmt.Sprintf("f%d", i))
		document += fmt.Sprintf(`"f%d":%d,`, i, i*i)
	}
	var o json.Object
	if err := o.Parse(&s, []byte(strings.TrimSuffix(document, ",")+"}")); err != nil {
		t.Fatal(err)
	}
	for i, f := range fields {
		if o.Int(f) != int64(i*i) {
			t.Errorf("field %d is %d", i, o.Int(f))
		}
	}
}

// twin is the shape as encoding/json knows it.
type twin struct {
	A *int64             `json:"a"`
	B *float64           `json:"b"`
	C *bool              `json:"c"`
	D *string            `json:"d"`
	E stdjson.RawMessage `json:"e"`
}

var (
	fuzzed json.Shape
	fuzzA  = fuzzed.OptInt("a")
	fuzzB  = fuzzed.OptFloat("b")
	fuzzC  = fuzzed.OptBool("c")
	fuzzD  = fuzzed.OptText("d")
	fuzzE  = fuzzed.OptRaw("e")
)

// FuzzObject compares fields with those that encoding/json finds. It folds case in
// names, and keeps the fields of a failed document, so those are left out.
func FuzzObject(f *testing.F) {
	for _, d := range documents {
		f.Add([]byte(d))
	}
	f.Add([]byte(`{"a":1,"b":2.5,"c":true,"d":"xyz","e":{"f":[]}}`))
	f.Add([]byte(`{"d":"0123456789abcdef","a": 12345678, "b": -1.25e-3 ,"e":"\u00e4","c":null}`))
	f.Fuzz(func(t *testing.T, document []byte) {
		v, valid, refused := standard(document)
		fields, isObject := v.(map[string]any)
		var o json.Object
		err := o.Parse(&fuzzed, document)
		if !valid || refused || !isObject {
			if err == nil {
				t.Fatalf("%q was taken", document)
			}
			return
		}
		for key := range fields {
			if len(key) > 0 && strings.ToLower(key) != key {
				return
			}
		}
		var want twin
		if stdjson.Unmarshal(document, &want) != nil {
			if err == nil {
				t.Fatalf("%q was taken, encoding/json refuses its types", document)
			}
			return
		}
		if err != nil {
			t.Fatalf("%q: %v", document, err)
		}
		compare(t, document, &o, &want)
	})
}

func compare(t *testing.T, document []byte, o *json.Object, want *twin) {
	if v, ok := o.OptInt(fuzzA); ok != (want.A != nil) || ok && v != *want.A {
		t.Errorf("%q: a is %v, %v", document, v, ok)
	}
	if v, ok := o.OptFloat(fuzzB); ok != (want.B != nil) || ok && math.Float64bits(v) != math.Float64bits(*want.B) {
		t.Errorf("%q: b is %v, %v", document, v, ok)
	}
	if v, ok := o.OptBool(fuzzC); ok != (want.C != nil) || ok && v != *want.C {
		t.Errorf("%q: c is %v, %v", document, v, ok)
	}
	if v := o.Text(fuzzD); (v != nil) != (want.D != nil) || v != nil && string(v) != *want.D {
		t.Errorf("%q: d is %q", document, v)
	}
	if v := o.Raw(fuzzE); string(v) != string(want.E) {
		t.Errorf("%q: e is %q, want %q", document, v, want.E)
	}
}

func TestObjectAllocations(t *testing.T) {
	const text = `{"id":-7,"score":4.25,"active":true,"name":"Ada","extra":{"a":[1]}}`
	document := append(make([]byte, 0, len(text)+scan.Pad), text...)
	scan.SetFrame(document) // as a payload stands in a request
	t.Cleanup(func() { scan.SetFrame(nil) })
	n := testing.AllocsPerRun(100, func() {
		var o json.Object
		if o.Parse(&all, document) != nil || len(o.Text(name)) != 3 {
			t.Error("it was not parsed")
		}
	})
	if n > 0 {
		t.Errorf("%v allocations", n)
	}
}
