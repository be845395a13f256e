package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/api"
)

func TestTransformationIsFoundInAFileThenBesideTheProgramThenAtTheServer(t *testing.T) {
	dir := t.TempDir()
	write := func(path string) string {
		path = filepath.Join(dir, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte("x"), 0o600))
		return path
	}
	file, dotted, ready := write("a.wasm"), write("v1.2"), write("plugins/cypher.wasm")
	for arg, want := range map[string]target{
		file:               {file: file, ref: graphmill.TransformationRef{Function: "transform"}},
		file + ".rows":     {file: file, ref: graphmill.TransformationRef{Function: "rows"}},
		dotted:             {file: dotted, ref: graphmill.TransformationRef{Function: "transform"}},
		"cypher.event":     {file: ready, ref: graphmill.TransformationRef{Module: "cypher", Function: "event"}},
		"movies":           {ref: graphmill.TransformationRef{Module: "movies", Function: "transform"}},
		"movies.v2.rows":   {ref: graphmill.TransformationRef{Module: "movies.v2", Function: "rows"}},
		"cypher.v2.events": {ref: graphmill.TransformationRef{Module: "cypher.v2", Function: "events"}},
	} {
		got, err := findTransformation(arg, filepath.Join(dir, "plugins"))
		require.NoError(t, err, arg)
		require.Equal(t, want, got, arg)
	}
	for _, arg := range []string{"nowhere.wasm", dir + "/nowhere", "bad name", "m."} {
		_, err := findTransformation(arg, "")
		require.Error(t, err, arg)
	}
}

func TestMessagesAreReadLineByLine(t *testing.T) {
	a := &app{in: strings.NewReader("{\"payload\":\"a\"}\n\n  {\"payload\":null,\"key\":\"k\",\"offset\":7}\r\n")}
	messages, err := a.readMessages(t.Context(), "-")
	require.NoError(t, err)
	require.Len(t, messages, 2)
	require.Equal(t, "a", *messages[0].Payload)
	require.Nil(t, messages[1].Payload)
	require.EqualValues(t, 7, *messages[1].Offset)

	for text, want := range map[string]string{
		"":                               "no message",
		"{\"payload\":\"a\"}\n{\"x\":1}": "line 2 is no message",
		`{"payload":1}`:                  `payload: it is a string, and this is a number; put its JSON in quotes`,
		`{"payload":{"id":7}}`:           `payload: it is a string, and this is an object; put its JSON in quotes, as in {"payload": "{\"id\": 7}"}, or give payload_base64`,
		`{"key":["a"]}`:                  `key: it is a string, and this is an array`,
		`{"offset":"7"}`:                 "offset: it is an integer, and this is a string",
		`{"partition":1.5}`:              "partition: it is an integer, and this is the number 1.5",
		`{"headers":{}}`:                 "headers: it is an array, and this is an object",
		`[{"payload":"a"}]`:              "a message is an object such as",
		`{"payload":`:                    "ends before it is complete",
		`{"topics":"t"}`:                 `there is no field "topics"`,
		"nonsense":                       "line 1 is no message",
		"{} {}":                          "one message a line",
		"{\"Payload\":1}":                "did you mean payload?",
		"{\"key\":\"a\",\"key\":\"b\"}":  "key: is given twice",
		"{\"payload\":\"\xff\"}":         "no valid UTF-8",
	} {
		_, err := (&app{in: strings.NewReader(text)}).readMessages(t.Context(), "-")
		require.ErrorContains(t, err, want)
		require.NotRegexp(t, `\*|Go |json:|int64|api\.`, err.Error(), "no word of the program's own")
	}
}

func TestInterruptEndsACommandThatWaitsForItsInput(t *testing.T) {
	in, typing := io.Pipe() // nothing is ever typed
	t.Cleanup(func() { _ = typing.Close() })
	ctx, interrupt := context.WithCancel(t.Context())
	var errs bytes.Buffer
	a := &app{in: in, out: io.Discard, err: &errs}
	ended := make(chan int)
	go func() { ended <- a.run(ctx, []string{"run", moviesFile, "--messages", "-"}) }()
	interrupt()
	select {
	case status := <-ended:
		require.Equal(t, exitFailed, status)
		require.Equal(t, "error: interrupted\n", errs.String())
	case <-time.After(time.Minute):
		require.Fail(t, "it still waits")
	}
}

func TestGoldenFileIsComparedAndRewritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "want.json")
	var out, errs bytes.Buffer
	a := &app{out: &out, err: &errs}
	res := func(rating string) api.RunResult {
		return api.RunResult{
			Statements: []api.Statement{
				{Query: "MERGE (u:User {id: $id})", Parameters: []byte(`{"id":1}`)},
				{Query: "SET r.rating = $r", Parameters: []byte(`{"r":` + rating + `}`)},
			},
			DurationMS: 12.5, // differs from run to run, and must not count
		}
	}
	require.ErrorContains(t, a.compareGolden(file, false, res("5")), "want.json")
	require.NoError(t, a.compareGolden(file, true, res("5")))

	again := res("5")
	again.DurationMS = 99
	require.NoError(t, a.compareGolden(file, false, again))
	require.Contains(t, out.String(), "as expected: 2 statements")

	require.Error(t, a.compareGolden(file, false, res("4.5")))
	require.Contains(t, errs.String(), "-         \"r\": 5\n+         \"r\": 4.5\n")
	require.NotContains(t, errs.String(), "MERGE", "only what is near the difference is shown")
}

func TestDifferenceIsTheShortest(t *testing.T) {
	split := func(s string) []string { return strings.Split(s, "") }
	for name, c := range map[string]struct{ want, got, script string }{
		"equal":    {"abc", "abc", "  a|  b|  c"},
		"inserted": {"abc", "axbc", "  a|+ x|  b|  c"},
		"removed":  {"abc", "ac", "  a|- b|  c"},
		"changed":  {"abc", "axc", "  a|- b|+ x|  c"},
		"repeated": {"aa", "aaa", "  a|  a|+ a"},
		"moved":    {"abcd", "bcda", "- a|  b|  c|  d|+ a"},
		"all":      {"ab", "xy", "- a|- b|+ x|+ y"},
	} {
		require.Equal(t, c.script, strings.Join(difference(split(c.want), split(c.got)), "|"), name)
	}
}

func TestYAMLKeepsOrderAndDigits(t *testing.T) {
	var b bytes.Buffer
	o := &output{w: &b, format: "yaml"}
	err := o.print(struct {
		Z    int64             `json:"z"`
		A    string            `json:"a"`
		N    string            `json:"n"`
		List []string          `json:"list"`
		None map[string]string `json:"none"`
		Text string            `json:"text"`
	}{9007199254740993, "x: y", "123", []string{"a"}, map[string]string{}, "one\ntwo\n"}, nil)
	require.NoError(t, err)
	require.Equal(t, "z: 9007199254740993\na: 'x: y'\nn: \"123\"\nlist:\n  - a\nnone: {}\ntext: |\n  one\n  two\n", b.String())
}
