package graphmill_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strconv"
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

	shortOneByOne json.Shape
	shortID       = shortOneByOne.Int("id")
	shortName     = shortOneByOne.OptText("name")
	shortNum      = shortOneByOne.OptFloat("score")
)

// gives compares what Fields gives of a document, in its several ways, with what an
// Object holds of it.
func gives(t *testing.T, document string) {
	t.Helper()
	compare(t, document, byFields, byObject)
	compare(t, document, shortByFields, shortByObject)
	compare(t, document, given(few), given(many))
}

// The same fields of an event, and with others that no document has, which are too many to
// be read in the same way.
var (
	few  = graphmill.OnlyFields("id", "name", "raw", "größe", "x3")
	many = func() graphmill.JSONOption {
		names := []string{"id", "name", "raw", "größe", "x3"}
		for i := range 40 {
			names = append(names, fmt.Sprint("none ", i))
		}
		return graphmill.OnlyFields(names...)
	}()
	eventQuery = graphmill.NewQuery("EVENT", "event", "message")
)

func given(o graphmill.JSONOption) func(m graphmill.Message, out graphmill.Output) error {
	return func(m graphmill.Message, out graphmill.Output) error {
		out.Statement(eventQuery).JSON(m.Payload(), o).Int(int64(m.Index()))
		return nil
	}
}

func byFields(m graphmill.Message, out graphmill.Output) error {
	out.Statement(fieldsQuery).Fields(allAtOnce, m.Payload()).Int(int64(m.Index()))
	return nil
}

func byObject(m graphmill.Message, out graphmill.Output) error {
	var o json.Object
	if err := o.Parse(&oneByOne, m.Payload()); err != nil {
		return err
	}
	out.Statement(fieldsQuery).Int(o.Int(fieldID)).Text(o.Text(fieldName)).Float(o.Float(fieldNum)).OptInt(o.OptInt(fieldLong)).
		OptBool(o.OptBool(fieldOK)).OptFloat(o.OptFloat(fieldSize)).JSON(o.Raw(fieldRaw)).Int(int64(m.Index()))
	return nil
}

func shortByFields(m graphmill.Message, out graphmill.Output) error {
	out.Fields(shortQuery, short, m.Payload())
	return nil
}

func shortByObject(m graphmill.Message, out graphmill.Output) error {
	var o json.Object
	if err := o.Parse(&shortOneByOne, m.Payload()); err != nil {
		return err
	}
	out.Statement(shortQuery).Int(o.Int(shortID)).Text(o.Text(shortName)).OptFloat(o.OptFloat(shortNum))
	return nil
}

// compare runs two handlers on a document that comes when others are usual, and until it
// is usual itself.
func compare(t *testing.T, document string, a, b func(graphmill.Message, graphmill.Output) error) {
	t.Helper()
	const usual = `{"id":1,"name":"x","score":2}`
	compareAll(t, []string{usual, document, usual, document, document, usual}, a, b)
}

// compareAll runs two handlers on the same documents.
func compareAll(t *testing.T, documents []string, a, b func(graphmill.Message, graphmill.Output) error) {
	t.Helper()
	messages := make([]graphmilltest.Message, len(documents))
	for i, d := range documents {
		messages[i] = graphmilltest.Text(d)
	}
	run := func(handle func(graphmill.Message, graphmill.Output) error) graphmilltest.Result {
		return graphmilltest.Run(t, func(batch graphmill.Request) graphmill.Response { return graphmill.PerMessage(batch, handle) }, messages...)
	}
	got, want := run(a), run(b)
	if reflect.DeepEqual(got, want) {
		return
	}
	byMessage := func(r graphmilltest.Result) (answers []any) {
		answers = make([]any, len(documents))
		for _, s := range r.Statements {
			answers[s.Message] = s
		}
		for _, f := range r.Failures {
			answers[f.Message] = f
		}
		return answers
	}
	g, w := byMessage(got), byMessage(want)
	for i, d := range documents {
		if !reflect.DeepEqual(g[i], w[i]) {
			t.Errorf("message %d, %q:\ngot  %+v\nwant %+v", i, d, g[i], w[i])
		}
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
	`{"x":1,"id":1,"y":"a","score":2,"z":[{"id":{}}],"u":null,"v":true,"w":false,"":0}`, `{"x":1e5,"id":1,"score":2}`, `{"x":01,"id":1,"score":2}`, `{"x":"\q","id":1,"score":2}`, `{"x":[1,],"id":1,"score":2}`,
	`{"x":123456789012345678901234567890,"id":1,"score":2,"y":-}`, "{\"x\":\"\xff\",\"id\":1,\"score\":2}", "{\"\xff\":1,\"id\":1,\"score\":2}", `{"a name that nobody asked for":1,"id":1,"score":2,"a name that nobody wants":3}`,
	`{"a name longer than all that is compared at once, whoever may use such names":1,"id":1,"score":2}`, `{"name":"Grüße aus Köln, où Zoë écoute 世界 🚀","score":1,"id":2}`, "{\"id\":1,\"name\":\"\xc3\",\"score\":1}", "{\"id\":1,\"name\":\"Zo\xc3\xab\xa9\",\"score\":1}",
	`{"raw":{"a":1},"id":1,"score":2,"raw":5}`, `{"raw":5,"id":1,"score":2,"raw":[true]}`, `{"raw":"x","id":1,"score":2}`, `{"raw":-0,"id":1,"score":2}`, `{"raw":1.0,"id":1,"score":2}`, `{"raw":123456789012345678901,"id":1,"score":2}`, `{"raw":0.12345678901234567,"id":1,"score":2}`,
	`{"id":1,"score":0.30000000000000004}`, `{"id":1,"score":-52.520006599999999}`, `{"id":1,"score":9007199254740993.25}`, `{"id":1,"score":9007199254740993}`, `{"id":1,"score":9223372036854775807}`, `{"id":1,"score":1e400}`, `{"id":1,"score":0.1234567890123456789}`, `{"id":1,"score":0.12345678901234567,"score":3}`,
	`{"id":1,"score":3,"score":0.12345678901234567}`, `{"id":null,"score":1,"id":7}`, `{"id":7,"score":1,"id":null}`, `{"score":1,"ok":null,"id":1,"größe":null}`, `{"score":1,"ok":1,"id":1}`, `{"id":true,"score":1}`, `{"id":1,"ok":"true","score":1}`, `{"id":1,"ok":trua,"score":1}`, `{"id":1,"ok":-true,"score":1}`,
	`{"id":1,"score":1,"raw":nul}`, `{"id":1,"score":1,"raw":null}`, "{\"id\":1,\"score\":1}\n", "{\"id\":1,\"score\":1}\r\n ", "{\"id\":1,\"score\":1}\x00", `{"name":"a\"b\u00e9\n","score":1,"id":1}`, `{"name":"` + strings.Repeat("é", 150) + `","score":1,"id":1}`, `{"name":"` + strings.Repeat("\\n", 150) + `","score":1,"id":1}`,
	`{"id"`, `{"id":`, `{"id":1`, `{"id":1,`, `{"id":1,"`, `["id",1]`, `null`, ``, ` `, `{"id":1,"score":tru}`, `{"id":1,"score":2,"ok":truex}`, `{"id":1,"score":2,"name":"x"}`,
}

func TestFieldsGiveWhatAnObjectHolds(t *testing.T) {
	for _, d := range fieldsDocuments {
		gives(t, d)
	}
}

// Many producers with habits of their own write to one topic; some of what they write is
// cut off or has a byte that is wrong.
func TestFieldsOfManyProducers(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 9))
	pick := func(of ...string) string { return of[random.IntN(len(of))] }
	for range 40 {
		names := []string{"id", "name", "score", "a longer name than most", "ok", "größe", "raw"}
		for i := range random.IntN(80) {
			names = append(names, fmt.Sprintf(pick("x%d", "another field %d", "a field with a name of more than thirty bytes: %d", "é%d"), i))
		}
		var documents []string
		for range 200 {
			if random.IntN(50) == 0 { // another producer, or another version of it
				random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
			}
			comma, colon := pick(",", ", "), pick(":", ": ")
			var b strings.Builder
			b.WriteString("{")
			for _, name := range names {
				if len(names) > 10 && random.IntN(5) == 0 {
					continue
				}
				if b.Len() > 1 {
					b.WriteString(comma)
				}
				value := pick("1", "-7", "0.5", "12345678901234567", "0.30000000000000004", "3e2", "null", "true", "false", `"a text"`, `"`+strings.Repeat("text ", random.IntN(70))+`"`, `"Zoë"`, `"\u00e9"`, `{"a":[1,"]"]}`)
				switch {
				case random.IntN(30) == 0:
				case name == "id", name == "a longer name than most":
					value = strconv.FormatInt(random.Int64()>>random.IntN(64), 10)
				case name == "score", name == "größe":
					value = strconv.FormatFloat(random.NormFloat64(), 'f', random.IntN(20)-1, 64)
				case name == "ok":
					value = pick("true", "false", "null")
				case name == "name":
					value = pick(`"Ada"`, `"`+strings.Repeat("ö", random.IntN(50))+`"`, `"a\"b"`, "null")
				}
				fmt.Fprintf(&b, `"%s"%s%s`, name, colon, value)
			}
			d := b.String() + pick("}", "}", "}\n")
			switch random.IntN(20) {
			case 0:
				d = d[:random.IntN(len(d))]
			case 1:
				i := random.IntN(len(d))
				d = d[:i] + string([]byte{byte(random.IntN(256))}) + d[i+1:]
			}
			documents = append(documents, d)
		}
		compareAll(t, documents, byFields, byObject)
		compareAll(t, documents, shortByFields, shortByObject)
		compareAll(t, documents, given(few), given(many))
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
