package graphmill_test

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	graphmill "github.com/graphmill/graphmill/sdk/go"
	"github.com/graphmill/graphmill/sdk/go/graphmilltest"
)

var (
	pair = graphmill.NewQuery("MERGE (a {x: $x, y: $y})", "x", "y")
	free = graphmill.NewQuery("CREATE (n $props)")
)

// perMessage makes a transformation of a handler.
func perMessage(handle func(m graphmill.Message, out graphmill.Output) error) func(graphmill.Request) graphmill.Response {
	return func(b graphmill.Request) graphmill.Response { return graphmill.PerMessage(b, handle) }
}

func perBatch(handle func(b *graphmill.Batch) error) func(graphmill.Request) graphmill.Response {
	return func(b graphmill.Request) graphmill.Response { return graphmill.PerBatch(b, handle) }
}

func texts(payloads ...string) (list []graphmilltest.Message) {
	for _, p := range payloads {
		list = append(list, graphmilltest.Text(p))
	}
	return list
}

func equal(t *testing.T, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %#v\nwant %#v", got, want)
	}
}

func TestWrongUseFailsTheMessage(t *testing.T) {
	deep := func(s graphmill.Statement, levels int) graphmill.Statement {
		for range levels {
			s.List()
		}
		s.Int(1)
		for range levels {
			s.End()
		}
		return s
	}
	for _, c := range []struct {
		situation string
		handle    func(out graphmill.Output)
		want      string // part of the text; "" if it is right
	}{
		{"as many values as names", func(out graphmill.Output) { out.Statement(pair).Int(1).Int(2) }, ""},
		{"a value is missing", func(out graphmill.Output) { out.Statement(pair).Int(1) }, "MERGE (a {x: $x, y: $y}): 2 values are needed (x, y), 1 were given"},
		{"no value at all", func(out graphmill.Output) { out.Statement(pair) }, "2 values are needed (x, y), 0 were given"},
		{"a value too many", func(out graphmill.Output) { out.Statement(pair).Int(1).Int(2).Int(3) }, "3 were given"},
		{"the first statement is wrong, a right one follows", func(out graphmill.Output) {
			out.Statement(pair).Int(1)
			out.Statement(pair).Int(1).Int(2)
		}, "1 were given"},
		{"a key for a query by position", func(out graphmill.Output) { out.Statement(pair).Key("x").Int(1).Int(2) }, "takes its values by position"},
		{"a key within a list", func(out graphmill.Output) { out.Statement(pair).List().Key("x").Int(1).End().Int(2) }, "within a list"},
		{"a value without a key", func(out graphmill.Output) { out.Statement(free).Int(1) }, "no Key before it"},
		{"a second value for a key", func(out graphmill.Output) { out.Statement(free).Key("a").Int(1).Int(2) }, "no Key before it"},
		{"a value without a key in a map", func(out graphmill.Output) { out.Statement(free).Key("a").Map().Int(1).End() }, "no Key before it"},
		{"a key without a value", func(out graphmill.Output) { out.Statement(free).Key("a") }, "the last Key has no value"},
		{"two keys in a row", func(out graphmill.Output) { out.Statement(free).Key("a").Key("b").Int(1) }, "the Key before b has no value"},
		{"a key without a value in a map", func(out graphmill.Output) { out.Statement(free).Key("a").Map().Key("b").End() }, "the last Key has no value"},
		{"a list that is not ended", func(out graphmill.Output) { out.Statement(pair).Int(1).List() }, "not ended by End"},
		{"an end too many", func(out graphmill.Output) { out.Statement(pair).Int(1).Int(2).End() }, "End without a List or Map"},
		{"a string that is no UTF-8", func(out graphmill.Output) { out.Statement(pair).String("a\xffb").Int(1) }, "not UTF-8"},
		{"a long string that is no UTF-8", func(out graphmill.Output) {
			out.Statement(pair).Text([]byte(strings.Repeat("a", 40) + "\xc3")).Int(1)
		}, "not UTF-8"},
		{"a key that is no UTF-8", func(out graphmill.Output) { out.Statement(free).Key("\xff").Int(1) }, "not UTF-8"},
		{"an integer beyond 64 bits", func(out graphmill.Output) { out.Statement(pair).Uint(1 << 63).Int(1) }, "above 9223372036854775807"},
		{"as deep as may be", func(out graphmill.Output) { deep(out.Statement(pair), 63).Int(1) }, ""},
		{"too deep", func(out graphmill.Output) { deep(out.Statement(pair), 64).Int(1) }, "64 deep"},
		{"a time of day beyond midnight", func(out graphmill.Output) { out.Statement(pair).LocalTime(24 * 60 * 60 * 1e9).Int(1) }, "the time of day of a value is out of range"},
		{"an offset of 19 hours", func(out graphmill.Output) { out.Statement(pair).Time(graphmill.Time{Offset: 19 * 3600}).Int(1) }, "offset"},
		{"nanoseconds of a second too many", func(out graphmill.Output) {
			out.Statement(pair).LocalDateTime(graphmill.LocalDateTime{Nanoseconds: 1e9}).Int(1)
		}, "nanoseconds"},
		{"a year that no database knows", func(out graphmill.Output) { out.Statement(pair).Date(math.MaxInt64).Int(1) }, "year"},
		{"a zone without a name", func(out graphmill.Output) { out.Statement(pair).ZonedDateTime(graphmill.ZonedDateTime{}).Int(1) }, "Europe/Berlin"},
		{"a Go type that is no value", func(out graphmill.Output) { out.Statement(pair).Any(struct{}{}).Int(1) }, "no parameter value"},
		{"such a type within a list", func(out graphmill.Output) { out.Statement(pair).Any([]any{complex(1, 2)}).Int(1) }, "no parameter value"},
		{"an empty text", func(out graphmill.Output) { out.Add("", nil) }, "the query is empty"},
		{"a text that is no UTF-8", func(out graphmill.Output) { out.Add("RETURN '\xff'", nil) }, "not UTF-8"},
		{"a text over 1 MiB", func(out graphmill.Output) { out.Add(strings.Repeat(" ", 1<<20+1), nil) }, "longer than 1 MiB"},
		{"a statement used after the next one", func(out graphmill.Output) {
			s := out.Statement(free).Key("a").Int(1)
			out.Statement(free)
			s.Key("b").Int(2)
		}, "was complete"},
		{"JSON that is none", func(out graphmill.Output) { out.Statement(pair).JSON([]byte("{")).Int(1) }, "not JSON"},
		{"more parameters than a map holds", func(out graphmill.Output) {
			s := out.Statement(free)
			for i := range 1 << 16 {
				s.Key(fmt.Sprint(i)).Null()
			}
		}, "more than 65,535"},
	} {
		t.Run(c.situation, func(t *testing.T) {
			result := graphmilltest.Run(t, perMessage(func(m graphmill.Message, out graphmill.Output) error {
				if string(m.Payload()) == "try" {
					c.handle(out)
				} else {
					out.Statement(pair).Int(7).Int(8)
				}
				return nil
			}), texts("before", "try", "behind")...)
			if c.want == "" {
				if len(result.Failures) > 0 {
					t.Fatalf("it failed: %+v", result.Failures)
				}
				return
			}
			if len(result.Failures) != 1 || result.Failures[0].Message != 1 || !strings.Contains(result.Failures[0].Text, c.want) {
				t.Fatalf("got %+v, want a failure of message 1 with %q", result.Failures, c.want)
			}
			want := map[string]any{"x": int64(7), "y": int64(8)}
			equal(t, result.Statements, []graphmilltest.Statement{
				{Query: pair.Text(), Params: want, Message: 0}, {Query: pair.Text(), Params: want, Message: 2},
			})
		})
	}
}

func TestStatementUsedInALaterMessage(t *testing.T) {
	var kept graphmill.Statement
	result := graphmilltest.Run(t, perMessage(func(m graphmill.Message, out graphmill.Output) error {
		if m.Index() == 0 {
			kept = out.Statement(free)
		} else {
			kept.Key("late").Int(1)
		}
		return nil
	}), texts("a", "b")...)
	if len(result.Failures) != 1 || result.Failures[0].Message != 1 || !strings.Contains(result.Failures[0].Text, "was complete") {
		t.Error(result.Failures)
	}
	equal(t, len(result.Statements), 1)
}

func TestFailureTakesBackWhatWasAdded(t *testing.T) {
	result := graphmilltest.Run(t, perMessage(func(m graphmill.Message, out graphmill.Output) error {
		out.Statement(pair).Int(int64(m.Index())).String(string(m.Payload()))
		half := out.Statement(free).Key("half").List().Int(1)
		if string(m.Payload()) == "bad" {
			return graphmill.Retry(fmt.Errorf("look up: %w", errors.New("not there")))
		}
		half.End()
		return nil
	}), texts("good", "bad", "better")...)
	equal(t, result.Failures, []graphmilltest.Failure{{Message: 1, Text: "look up: not there", Retry: true}})
	var of []int
	for _, s := range result.Statements {
		of = append(of, s.Message)
	}
	equal(t, of, []int{0, 0, 2, 2})
	equal(t, result.Statements[2].Params, map[string]any{"x": int64(2), "y": "better"})
}

func TestErrorsBecomeFailures(t *testing.T) {
	for _, c := range []struct {
		situation string
		err       error
		want      graphmilltest.Failure
	}{
		{"plain", errors.New("größer"), graphmilltest.Failure{Text: "größer"}},
		{"worth trying again, wrapped", fmt.Errorf("call: %w", graphmill.Retry(errors.New("busy"))), graphmilltest.Failure{Text: "call: busy", Retry: true}},
		{"worth trying again, joined", errors.Join(errors.New("a"), graphmill.Retry(errors.New("b"))), graphmilltest.Failure{Text: "a\nb", Retry: true}},
		{"without a text", errors.New(""), graphmilltest.Failure{Text: "the handler returned an error without a text"}},
		{"no UTF-8", errors.New("a\xffb"), graphmilltest.Failure{Text: "a\ufffdb"}},
		{"long", errors.New(strings.Repeat("ä", 3000)), graphmilltest.Failure{Text: strings.Repeat("ä", 2046) + "..."}},
		{"abort, in a handler of single messages", graphmill.Abort(graphmill.Message{}, errors.New("x")), graphmilltest.Failure{Text: "x"}},
	} {
		t.Run(c.situation, func(t *testing.T) {
			result := graphmilltest.Run(t, perMessage(func(graphmill.Message, graphmill.Output) error { return c.err }), texts("m")...)
			equal(t, result, graphmilltest.Result{Failures: []graphmilltest.Failure{c.want}})
		})
	}
	if graphmill.Retry(nil) != nil || graphmill.Abort(graphmill.Message{}, nil) != nil {
		t.Error("no error became one")
	}
}

func TestPerBatch(t *testing.T) {
	boom := errors.New("boom")
	for _, c := range []struct {
		situation string
		handle    func(b *graphmill.Batch) error
		want      graphmilltest.Result
	}{
		{"statements of messages and of the whole, in order", func(b *graphmill.Batch) error {
			b.Whole().Statement(free).Key("first").Bool(true)
			for i, m := range b.All() {
				if i == 1 {
					b.Output(m).Statement(free).Key("text").Text(m.Payload())
				}
			}
			b.Whole().Add("LAST", nil)
			return nil
		}, graphmilltest.Result{Statements: []graphmilltest.Statement{
			{Query: free.Text(), Params: map[string]any{"first": true}, Message: graphmilltest.WholeBatch},
			{Query: free.Text(), Params: map[string]any{"text": "b"}, Message: 1},
			{Query: "LAST", Params: map[string]any{}, Message: graphmilltest.WholeBatch},
		}}},
		{"a message fails after and before it had statements", func(b *graphmill.Batch) error {
			for _, m := range b.All() {
				b.Output(m).Statement(free)
			}
			b.Fail(b.Message(1), boom)
			b.Fail(b.Message(1), errors.New("again"))
			b.Fail(b.Message(0), nil)
			b.Output(b.Message(1)).Statement(free)
			return nil
		}, graphmilltest.Result{
			Statements: []graphmilltest.Statement{
				{Query: free.Text(), Params: map[string]any{}, Message: 0}, {Query: free.Text(), Params: map[string]any{}, Message: 2},
			},
			Failures: []graphmilltest.Failure{{Message: 1, Text: "boom"}},
		}},
		{"a wrong statement of a message fails it", func(b *graphmill.Batch) error {
			b.Output(b.Message(2)).Statement(pair)
			b.Output(b.Message(0)).Statement(free)
			return nil
		}, graphmilltest.Result{
			Statements: []graphmilltest.Statement{{Query: free.Text(), Params: map[string]any{}, Message: 0}},
			Failures:   []graphmilltest.Failure{{Message: 2, Text: "statement of MERGE (a {x: $x, y: $y}): 2 values are needed (x, y), 0 were given"}},
		}},
		{"a wrong statement of the whole fails all", func(b *graphmill.Batch) error {
			b.Output(b.Message(0)).Statement(free)
			b.Whole().Statement(pair).Int(1)
			return nil
		}, graphmilltest.Result{Failures: []graphmilltest.Failure{
			{Message: graphmilltest.WholeBatch, Text: "statement of MERGE (a {x: $x, y: $y}): 2 values are needed (x, y), 1 were given"},
		}}},
		{"an error fails all", func(b *graphmill.Batch) error {
			b.Output(b.Message(0)).Statement(free)
			b.Fail(b.Message(1), boom)
			return graphmill.Retry(boom)
		}, graphmilltest.Result{Failures: []graphmilltest.Failure{{Message: graphmilltest.WholeBatch, Text: "boom", Retry: true}}}},
		{"it aborts at a message", func(b *graphmill.Batch) error {
			b.Output(b.Message(0)).Statement(free)
			return fmt.Errorf("at last: %w", graphmill.Abort(b.Message(1), graphmill.Retry(boom)))
		}, graphmilltest.Result{Failures: []graphmilltest.Failure{{Message: 1, Text: "at last: boom", Retry: true, Aborted: true}}}},
	} {
		t.Run(c.situation, func(t *testing.T) {
			equal(t, graphmilltest.Run(t, perBatch(c.handle), texts("a", "b", "c")...), c.want)
		})
	}
}

func TestMessageOfAnotherBatch(t *testing.T) {
	var kept graphmill.Message
	keep := perBatch(func(b *graphmill.Batch) error { kept = b.Message(0); return nil })
	graphmilltest.Run(t, keep, texts("a")...)
	defer func() {
		if recover() == nil {
			t.Error("a message of an earlier call was taken")
		}
	}()
	graphmilltest.Run(t, perBatch(func(b *graphmill.Batch) error { b.Output(kept).Statement(free); return nil }), texts("b")...)
}

func TestValues(t *testing.T) {
	berlin := time.FixedZone("", 3600)
	now := time.Date(2026, 11, 30, 12, 0, 0, 5, berlin)
	result := graphmilltest.Run(t, perMessage(func(_ graphmill.Message, out graphmill.Output) error {
		out.Add("RETURN 1", map[string]any{
			"int8": int8(-1), "uint64": uint64(7), "float32": float32(0.5), "strings": []string{"a", ""}, "ints": []int{1, -200},
			"int64s": []int64{math.MaxInt64}, "floats": []float64{1}, "map": map[string]string{"k": "v"}, "time": now,
			"duration": graphmill.DurationOf(-1500 * time.Millisecond), "nil slice": []any(nil), "nil map": map[string]any(nil), "nil bytes": []byte(nil),
			"long text": strings.Repeat("ä", 200), "long bytes": make([]byte, 300),
		})
		out.Statement(pair).Text(nil).Text([]byte{})
		out.Statement(pair).Bytes(nil).DateTime(time.Unix(-1, 0).UTC())
		return nil
	}), graphmilltest.Text(""))
	equal(t, result.Failures, []graphmilltest.Failure(nil))
	got := result.Statements[0].Params
	if !got["time"].(time.Time).Equal(now) {
		t.Errorf("the time is %v", got["time"])
	}
	_, offset := got["time"].(time.Time).Zone()
	equal(t, offset, 3600)
	delete(got, "time")
	equal(t, got, map[string]any{
		"int8": int64(-1), "uint64": int64(7), "float32": 0.5, "strings": []any{"a", ""}, "ints": []any{int64(1), int64(-200)},
		"int64s": []any{int64(math.MaxInt64)}, "floats": []any{1.0}, "map": map[string]any{"k": "v"},
		"duration": graphmill.Duration{Seconds: -1, Nanoseconds: -500_000_000}, "nil slice": nil, "nil map": nil, "nil bytes": nil,
		"long text": strings.Repeat("ä", 200), "long bytes": make([]byte, 300),
	})
	equal(t, result.Statements[1].Params, map[string]any{"x": nil, "y": ""})
	equal(t, result.Statements[2].Params, map[string]any{"x": nil, "y": time.Unix(-1, 0).UTC()})
}

// Strings go by different ways up to 31 bytes, to 255, and beyond, eight bytes at a
// time; each length must come out as it went in, whatever stood there before.
func TestStringsOfEveryLength(t *testing.T) {
	q := graphmill.NewQuery("RETURN $s, $t", "s", "t")
	long := strings.Repeat("0123456789abcdefghijklmnopqrstuvwxyzäöü", 20)
	last := func(n int) string { return strings.ToValidUTF8(long[len(long)-n:], "?") }
	result := graphmilltest.Run(t, perMessage(func(_ graphmill.Message, out graphmill.Output) error {
		for n := range 300 {
			out.Statement(q).String(last(n)).Text([]byte(last(n / 2)))
		}
		return nil
	}), graphmilltest.Text(""))
	if len(result.Statements) != 300 {
		t.Fatal(result.Failures)
	}
	for n, s := range result.Statements {
		equal(t, s.Params, map[string]any{"s": last(n), "t": last(n / 2)})
	}
}

func TestManyQueries(t *testing.T) {
	queries := make([]*graphmill.Query, 100)
	for i := range queries {
		queries[i] = graphmill.NewQuery(fmt.Sprintf("Q%d", i), "n")
	}
	result := graphmilltest.Run(t, perMessage(func(_ graphmill.Message, out graphmill.Output) error {
		for i := range 1000 {
			out.Statement(queries[i*37%100]).Int(int64(i))
			out.Add(fmt.Sprintf("T%d", i%50), nil)
		}
		return nil
	}), graphmilltest.Text(""))
	for i := range 1000 {
		s := result.Statements[2*i]
		if want := fmt.Sprintf("Q%d", i*37%100); s.Query != want || s.Params["n"] != int64(i) {
			t.Fatalf("statement %d is %+v, want %s", i, s, want)
		}
		equal(t, result.Statements[2*i+1].Query, fmt.Sprintf("T%d", i%50))
	}
}

func TestNewQueryPanics(t *testing.T) {
	for situation, make := range map[string]func(){
		"empty text":     func() { graphmill.NewQuery("") },
		"no UTF-8":       func() { graphmill.NewQuery("\xff") },
		"over 1 MiB":     func() { graphmill.NewQuery(strings.Repeat(" ", 1<<20+1)) },
		"empty name":     func() { graphmill.NewQuery("RETURN $a", "") },
		"a name twice":   func() { graphmill.NewQuery("RETURN $a", "a", "b", "a") },
		"a name no UTF8": func() { graphmill.NewQuery("RETURN $a", "\xff") },
	} {
		t.Run(situation, func(t *testing.T) {
			defer func() {
				if text, _ := recover().(string); !strings.HasPrefix(text, "graphmill.NewQuery: ") {
					t.Errorf("the panic is %q", text)
				}
			}()
			make()
		})
	}
}

func TestHeaderLookup(t *testing.T) {
	m := graphmilltest.Message{Headers: []graphmilltest.Header{{Key: "a", Value: []byte("1")}, {Key: "b"}, {Key: "a", Value: []byte("2")}}}
	graphmilltest.Run(t, perMessage(func(m graphmill.Message, _ graphmill.Output) error {
		v, ok := m.Header("a")
		equal(t, []any{string(v), ok}, []any{"2", true})
		v, ok = m.Header("b")
		equal(t, []any{v, ok}, []any{[]byte(nil), true})
		v, ok = m.Header("c")
		equal(t, []any{v, ok}, []any{[]byte(nil), false})
		for key := range m.Headers() { // one may stop
			equal(t, key, "a")
			break
		}
		return nil
	}), m)
}

func TestBrokenRequest(t *testing.T) {
	for _, frame := range []string{"", "GMB1", strings.Repeat("\x00", 48), "GMB1" + strings.Repeat("\xff", 44)} {
		response := graphmill.PerMessage(graphmill.Request(frame), func(graphmill.Message, graphmill.Output) error {
			t.Error("the handler was called")
			return nil
		})
		if !strings.Contains(string(response.Frame()), "request") {
			t.Errorf("the answer is %q", response.Frame())
		}
	}
}
