package graphmill_test

import (
	"reflect"
	"strings"
	"testing"

	graphmill "github.com/graphmill/graphmill/sdk/go"
	"github.com/graphmill/graphmill/sdk/go/graphmilltest"
	"github.com/graphmill/graphmill/sdk/go/json"
)

// The same fields twice: given all at once, and asked for one by one.
var (
	allAtOnce = json.NewShape(json.Int("id"), json.OptText("name"), json.Float("score"), json.OptInt("a longer name than most"),
		json.OptBool("ok"), json.OptFloat("größe"), json.OptRaw("raw"))
	fieldsQuery = graphmill.NewQuery("Q", "id", "name", "score", "long", "ok", "size", "raw", "message")

	oneByOne  json.Shape
	fieldID   = oneByOne.Int("id")
	fieldName = oneByOne.OptText("name")
	fieldNum  = oneByOne.Float("score")
	fieldLong = oneByOne.OptInt("a longer name than most")
	fieldOK   = oneByOne.OptBool("ok")
	fieldSize = oneByOne.OptFloat("größe")
	fieldRaw  = oneByOne.OptRaw("raw")

	short      = json.NewShape(json.Int("id"), json.OptText("name"), json.OptFloat("score"))
	shortQuery = graphmill.NewQuery("SHORT", short.Names()...)
)

// gives compares what Fields gives of a document, in its several ways, with what an
// Object holds of it.
func gives(t *testing.T, document string) {
	t.Helper()
	byFields := func(m graphmill.Message, out graphmill.Output) error {
		out.Statement(fieldsQuery).Fields(allAtOnce, m.Payload()).Int(int64(m.Index()))
		return nil
	}
	byObject := func(m graphmill.Message, out graphmill.Output) error {
		var o json.Object
		if err := o.Parse(&oneByOne, m.Payload()); err != nil {
			return err
		}
		out.Statement(fieldsQuery).Int(o.Int(fieldID)).Text(o.Text(fieldName)).Float(o.Float(fieldNum)).OptInt(o.OptInt(fieldLong)).
			OptBool(o.OptBool(fieldOK)).OptFloat(o.OptFloat(fieldSize)).JSON(o.Raw(fieldRaw)).Int(int64(m.Index()))
		return nil
	}
	compare(t, document, byFields, byObject)

	var s json.Shape
	id, name, score := s.Int("id"), s.OptText("name"), s.OptFloat("score")
	shortByObject := func(m graphmill.Message, out graphmill.Output) error {
		var o json.Object
		if err := o.Parse(&s, m.Payload()); err != nil {
			return err
		}
		out.Statement(shortQuery).Int(o.Int(id)).Text(o.Text(name)).OptFloat(o.OptFloat(score))
		return nil
	}
	shortByFields := func(m graphmill.Message, out graphmill.Output) error {
		out.Fields(shortQuery, short, m.Payload())
		return nil
	}
	compare(t, document, shortByFields, shortByObject)
}

// compare runs two handlers on a document in the middle of others.
func compare(t *testing.T, document string, a, b func(graphmill.Message, graphmill.Output) error) {
	t.Helper()
	const usual = `{"id":1,"name":"x","score":2}`
	run := func(handle func(graphmill.Message, graphmill.Output) error) graphmilltest.Result {
		return graphmilltest.Run(t, func(batch graphmill.Request) graphmill.Response { return graphmill.PerMessage(batch, handle) },
			graphmilltest.Text(usual), graphmilltest.Text(document), graphmilltest.Text(usual))
	}
	if got, want := run(a), run(b); !reflect.DeepEqual(got, want) {
		t.Errorf("%q:\ngot  %+v\nwant %+v", document, got, want)
	}
}

var fieldsDocuments = []string{
	`{"id":1,"name":"Ada","score":4.5,"a longer name than most":5,"ok":true,"größe":1.5,"raw":{"a":[1]}}`,
	`{"id":1,"name":"Ada","score":4.5}`, `{"id": 1, "name": "Ada", "score": 4.5}`, `{ "id":1,"score":2}`, `{"id":1,"score":2 }`, ` {"id":1,"score":2}`, "{\"id\":1,\n\"score\":2}",
	`{"id":1,  "score":2}`, `{"id":  1,"score":2}`, `{"id" :1,"score":2}`, `{"id":1 ,"score":2}`,
	`{"score":4.5,"id":1}`, `{"id":1,"x":[1,{}],"score":2}`, `{"id":1,"score":2,"x":null}`, `{"id":1,"score":2,"id":3}`, `{"id":1,"name":"a","name":null,"score":2}`,
	`{"id":1,"name":null,"score":2}`, `{"id":1,"score":2,"ok":false,"raw":null}`,
	`{"id":-1,"score":-0}`, `{"id":0,"score":-0.0}`, `{"id":-0,"score":0.5}`, `{"id":12345678,"score":12345678}`, `{"id":123456789012345,"score":123456789012345}`,
	`{"id":1234567890123456,"score":1234567890123456}`, `{"id":12345678901234567,"score":1.2345678}`, `{"id":1,"score":12345678.1234567}`, `{"id":1,"score":1234567.12345678}`, `{"id":1,"score":0.12345678}`,
	`{"id":1,"score":12345678.12345678}`, `{"id":1,"score":0.3}`, `{"id":1,"score":1e2}`, `{"id":1,"score":1.5E-3}`, `{"id":9223372036854775807,"score":1}`, `{"id":-9223372036854775808,"score":1}`,
	`{"id":9223372036854775808,"score":1}`, `{"id":1.0,"score":1}`, `{"id":1e1,"score":1}`, `{"id":01,"score":1}`, `{"id":1,"score":00}`, `{"id":1,"score":1.}`, `{"id":1,"score":.5}`, `{"id":1,"score":1.5.5}`, `{"id":-,"score":1}`, `{"id":--1,"score":1}`,
	`{"id":1,"name":"","score":1}`, `{"id":1,"name":"1234567","score":1}`, `{"id":1,"name":"12345678","score":1}`, `{"id":1,"name":"123456789012345","score":1}`, `{"id":1,"name":"1234567890123456","score":1}`,
	`{"id":1,"name":"123456789012345678901234567890","score":1}`, `{"id":1,"name":"1234567890123456789012345678901","score":1}`, `{"id":1,"name":"12345678901234567890123456789012","score":1}`, `{"id":1,"name":"` + strings.Repeat("x", 300) + `","score":1}`,
	`{"id":1,"name":"é","score":1}`, `{"id":1,"name":"a\"b\\cA","score":1}`, "{\"id\":1,\"name\":\"a\tb\",\"score\":1}", "{\"id\":1,\"name\":\"\xff\",\"score\":1}", "{\"id\":1,\"name\":\"a\x7f\",\"score\":1}",
	`{"id":1,"name":7,"score":1}`, `{"id":"1","score":1}`, `{"id":1,"score":"1"}`, `{"id":1,"score":true}`, `{"id":null,"score":1}`, `{"id":[1],"score":1}`, `{"id":1,"score":{}}`,
	`{`, `{}`, `}`, `{}}`, `{,}`, `{"id":1,}`, `{"id":1,"score":2,}`, `{"id":1"score":2}`, `{"id":1{"score":2}`, `{"id":1,"name":"x"{"score":2}`, `{"id":1,"name":"x`, `{"id":1,"name":"x"`, `{"id":1,"score":2`, `{"id":1,"score":2}}`, `{"id":1,"score":2}]`, `{"id":1,"score":2} `, `{"id":1,"score":2},`,
	`{"id"`, `{"id":`, `{"id":1`, `{"id":1,`, `{"id":1,"`, `["id",1]`, `null`, ``, ` `, `{"id":1,"score":tru}`, `{"id":1,"score":2,"ok":truex}`, `{"id":1,"score":2,"name":"x"}`,
}

func TestFieldsGiveWhatAnObjectHolds(t *testing.T) {
	for _, d := range fieldsDocuments {
		gives(t, d)
	}
}

func FuzzFields(f *testing.F) {
	for _, d := range fieldsDocuments {
		f.Add(d)
	}
	f.Fuzz(gives)
}

func TestWrongUseOfFields(t *testing.T) {
	byKey := graphmill.NewQuery("BY KEY")
	for situation, c := range map[string]struct {
		handle func(graphmill.Message, graphmill.Output) error
		want   string
	}{
		"a query with fewer names": {func(m graphmill.Message, out graphmill.Output) error {
			out.Fields(graphmill.NewQuery("Q", "id"), short, m.Payload())
			return nil
		}, "statement of Q: 1 values are needed (id), 3 were given"},
		"a query without names": {func(m graphmill.Message, out graphmill.Output) error {
			out.Fields(byKey, short, m.Payload())
			return nil
		}, "statement of BY KEY: Fields gives values by position: make the query with the names of the shape"},
		"a statement that is complete": {func(m graphmill.Message, out graphmill.Output) error {
			s := out.Statement(shortQuery).Fields(short, m.Payload())
			out.Fields(shortQuery, short, m.Payload())
			s.Fields(short, m.Payload())
			return nil
		}, "a value or key was given to a statement that was complete"},
		"a shape without fields": {func(m graphmill.Message, out graphmill.Output) error {
			out.Statement(shortQuery).Fields(new(json.Shape), m.Payload())
			return nil
		}, "statement of SHORT: 3 values are needed (id, name, score), 0 were given"},
	} {
		t.Run(situation, func(t *testing.T) {
			// The first message makes the query the one that came last.
			result := graphmilltest.Run(t, func(batch graphmill.Request) graphmill.Response {
				return graphmill.PerMessage(batch, func(m graphmill.Message, out graphmill.Output) error {
					if m.Index() == 0 {
						out.Fields(shortQuery, short, m.Payload())
						return nil
					}
					return c.handle(m, out)
				})
			}, graphmilltest.Text(`{"id":1}`), graphmilltest.Text(`{"id":2}`))
			if len(result.Statements) != 1 || len(result.Failures) != 1 || result.Failures[0].Text != c.want {
				t.Errorf("got %+v, want %s", result, c.want)
			}
		})
	}
}
