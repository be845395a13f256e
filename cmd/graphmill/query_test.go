package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mattn/go-runewidth"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/api"
	"github.com/graphmill/graphmill/server"
)

// queried is a server of which only the door is real: statements are parsed and
// answered as always, and the engine behind says what a test wants.
type queried struct {
	api.Engine // what is not set is a panic

	names    []string      // of its streams
	payloads []string      // of the messages that a CHECK finds
	checking chan struct{} // where it is not nil a CHECK says that it has begun, and lasts until its client goes
	created  []graphmill.StreamSpec
	url      string
	dir      string // home of who asks
}

func newQueried(t *testing.T, names ...string) *queried {
	t.Helper()
	q := &queried{names: names, dir: t.TempDir()}
	h, err := api.New(q, api.Config{})
	require.NoError(t, err)
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	q.url = srv.URL
	return q
}

func (q *queried) Streams(context.Context) ([]server.StreamInfo, error) {
	var all []server.StreamInfo
	for _, n := range q.names {
		spec := graphmill.StreamSpec{Name: n, Topics: []string{"t"}, Transform: "m.f"}.WithDefaults()
		all = append(all, server.StreamInfo{Spec: spec, State: graphmill.StateStopped})
	}
	return all, nil
}

func (q *queried) Stream(ctx context.Context, name string) (server.StreamInfo, error) {
	all, _ := q.Streams(ctx)
	for _, s := range all {
		if s.Spec.Name == name {
			return s, nil
		}
	}
	return server.StreamInfo{}, graphmill.NotFound("stream_not_found", "there is no stream %q", name)
}

func (q *queried) DeleteStream(ctx context.Context, name string, r server.DeleteRequest) error {
	_, err := q.Stream(ctx, name)
	return err
}

func (q *queried) CreateStream(_ context.Context, r server.CreateRequest) (server.StreamInfo, error) {
	q.created = append(q.created, r.Spec)
	return server.StreamInfo{Warnings: []string{"it lacks a module"}}, nil
}

func (q *queried) Modules(context.Context) ([]graphmill.Module, error) {
	return []graphmill.Module{{Name: "movies", Transformations: []string{"rating", "tag"}}}, nil
}

func (q *queried) CheckStream(ctx context.Context, _ string, _ server.CheckRequest) ([]server.CheckBatch, error) {
	if q.checking != nil {
		q.checking <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	}
	b := server.CheckBatch{}
	text := &graphmill.Query{Text: "MERGE (n {a: $a})"}
	for _, p := range q.payloads {
		b.Messages = append(b.Messages, graphmill.Message{Topic: "t", Payload: []byte(p)})
		b.Output.Statements = append(b.Output.Statements, graphmill.Statement{Query: text, Params: map[string]any{"a": p}})
	}
	return []server.CheckBatch{b}, nil
}

// run executes graphmill query within this process.
func (q *queried) run(t *testing.T, stdin string, args ...string) result {
	t.Helper()
	var out, errs bytes.Buffer
	a := &app{in: strings.NewReader(stdin), out: &out, err: &errs, environ: []string{"GRAPHMILL_SERVER=" + q.url, "HOME=" + q.dir}}
	status := a.run(t.Context(), append([]string{"query"}, args...))
	return result{status: status, out: out.String(), err: errs.String()}
}

func TestQueryAnswersExactly(t *testing.T) {
	q := newQueried(t, "a")
	r := q.run(t, "", "SHOW STREAMS", "-o", "json")
	require.Equal(t, result{out: `{
  "columns": [
    "name",
    "type",
    "batch_interval",
    "batch_size",
    "transformation_name",
    "owner",
    "is running"
  ],
  "rows": [
    [
      "a",
      "kafka",
      100,
      1000,
      "m.f",
      null,
      false
    ]
  ],
  "notifications": []
}
`}, r)
	r = q.run(t, "", "SHOW STREAMS", "-o", "yaml")
	require.Equal(t, result{out: `columns:
  - name
  - type
  - batch_interval
  - batch_size
  - transformation_name
  - owner
  - is running
rows:
  - - a
    - kafka
    - 100
    - 1000
    - m.f
    - null
    - false
notifications: []
`}, r)
	r = q.run(t, "", "SHOW STREAMS")
	require.Regexp(t, `^┌──────┬───────┬────────────────┬────────────┬─────────────────────┬───────┬────────────┐
│ name │ type  │ batch_interval │ batch_size │ transformation_name │ owner │ is running │
├──────┼───────┼────────────────┼────────────┼─────────────────────┼───────┼────────────┤
│ a    │ kafka │            100 │       1000 │ m.f                 │ null  │ false      │
└──────┴───────┴────────────────┴────────────┴─────────────────────┴───────┴────────────┘
1 row, \d+ ms
$`, r.out)
	require.Equal(t, "Dropped stream a.\n", q.run(t, "", "DROP STREAM a").out)
	require.Equal(t, result{out: "Created stream b.\n", err: "warning: it lacks a module\n"}, q.run(t, "", "CREATE KAFKA STREAM b TOPICS t TRANSFORM m.f"))
	require.Regexp(t, `^0 rows, \d+ ms\n$`, strings.Join(strings.SplitAfter(q.run(t, "", "CALL mg.procedures()").out, "\n")[3:], ""))
}

func TestQueryExitStatus(t *testing.T) {
	q := newQueried(t, "a")
	for _, tc := range []struct {
		stdin  string
		args   []string
		status int
		err    string
	}{
		{args: []string{"DROP STREAM a;"}, status: exitDone},
		{args: []string{"DROP STREAM x"}, status: exitFailed, err: "error: Couldn't find stream 'x'\n"},
		{args: []string{"DROP STREAM x", "-o", "json"}, status: exitFailed, err: "error: Couldn't find stream 'x'\n"},
		{args: []string{"DRP STREAM x"}, status: exitFailed, err: "error: found \"DRP\", expected ALTER, CALL, CHECK, CREATE, DROP, SHOW, START or STOP\nline 1, column 1:\n  DRP STREAM x\n  ^^^\nnext:  did you mean DROP?\n"},
		{args: []string{"SHOW STREAMS; SHOW STREAMS"}, status: exitFailed, err: "line 1, column 15:\n  SHOW STREAMS; SHOW STREAMS\n                ^^^^\n"},
		{args: []string{"SHOW", "STREAMS"}, status: exitUsage, err: "put it into quotes"},
		{args: nil, status: exitUsage, err: "error: there is no statement, neither as an argument nor on standard input\n"},
		{stdin: " ; // nothing\n", status: exitUsage, err: "there is no statement"},
		{args: []string{" ;"}, status: exitUsage, err: "error: there is no statement in the argument\n"},
		{args: []string{"DROP STREAM a", "--param", "x"}, status: exitUsage, err: "--param is NAME=VALUE"},
		{args: []string{"DROP STREAM a", "--param", "=x"}, status: exitUsage, err: "--param is NAME=VALUE"},
		{args: []string{"DROP STREAM a", "--param", "x=1", "--param", "x=2"}, status: exitUsage, err: "--param x is given twice"},
		{args: []string{"DROP STREAM a", "--param", "x=\xff"}, status: exitUsage, err: "--param x is not text in UTF-8"},
		{args: []string{"DROP STREAM a", "-o", "xml"}, status: exitUsage, err: "table, json, yaml"},
		{args: []string{"DROP STREAM 'a\xff'"}, status: exitFailed, err: "error: the statement is not text in UTF-8\n"},
		{args: []string{"DROP STREAM $n", "--param", "n=a"}, status: exitDone},
		{args: []string{"DROP STREAM $n", "--param", `n="a"`}, status: exitDone},
		{args: []string{"DROP STREAM $n", "--param", "n=7"}, status: exitFailed, err: "a name is a string"},
		{args: []string{"DROP STREAM $n", "--param", "n=x=y"}, status: exitFailed, err: "Couldn't find stream 'x=y'"},
		{args: []string{"DROP STREAM $n"}, status: exitFailed, err: "Parameter $n not provided."},
		{args: []string{"SHOW STREAMS", "--server", "127.0.0.1:1"}, status: exitFailed, err: "no server is reached"},
	} {
		r := q.run(t, tc.stdin, tc.args...)
		require.Equal(t, tc.status, r.status, "%q: %s", tc.args, r.err)
		require.Contains(t, r.err, tc.err, "%q", tc.args)
		if tc.status != exitDone {
			require.Empty(t, r.out, "%q", tc.args)
		}
	}
}

// Standard input holds several statements, which are executed up to the first that
// fails; that one is told with its line, and how many are left.
func TestScripts(t *testing.T) {
	q := newQueried(t, "a", "b")
	r := q.run(t, "\ufeff// first\nDROP STREAM a; DROP\n  STREAM b;\n\nDROP STREAM 'b' // the last")
	require.Equal(t, result{out: "Dropped stream a.\nDropped stream b.\nDropped stream b.\n"}, r)

	r = q.run(t, "DROP STREAM a;\n\nDROP STREAM x; DROP STREAM b;\nSHOW STREAMS")
	require.Equal(t, exitFailed, r.status)
	require.Equal(t, "Dropped stream a.\n", r.out)
	require.Equal(t, "2 statements were not executed, behind line 3\nerror: Couldn't find stream 'x'\nit is the statement of line 3\nnext:  SHOW STREAMS tells which there are\n", r.err)

	r = q.run(t, "DROP STREAM a;\n\nDROP STREAM a; DROP STRAEM b;\nSHOW STREAMS;")
	require.Equal(t, exitFailed, r.status)
	require.Equal(t, "Dropped stream a.\nDropped stream a.\n", r.out)
	require.Equal(t, "1 statement was not executed, behind line 3\nerror: found \"STRAEM\", expected STREAM\nline 3, column 21:\n"+
		"  DROP STREAM a; DROP STRAEM b;\n                      ^^^^^^\nnext:  did you mean STREAM?\n", r.err)

	r = q.run(t, "DROP STREAM a;\nDROP STREAM x")
	require.Equal(t, "error: Couldn't find stream 'x'\nit is the statement of line 2\nnext:  SHOW STREAMS tells which there are\n", r.err, "none is left")
	r = q.run(t, "DROP STREAM 'a\xe4';")
	require.Equal(t, "error: the statement is not text in UTF-8\n", r.err, "a file in Latin-1 is not made UTF-8 by guessing")

	// Each answer is a document of its own.
	r = q.run(t, "DROP STREAM a; SHOW STREAMS;", "-o", "json")
	require.Equal(t, exitDone, r.status)
	d := json.NewDecoder(strings.NewReader(r.out))
	for n, rows := range []int{0, 2} {
		var answer api.Queried
		require.NoError(t, d.Decode(&answer))
		require.Len(t, answer.Rows, rows, n)
	}
	require.False(t, d.More())
	r = q.run(t, "DROP STREAM a; SHOW STREAMS;", "-o", "yaml")
	y := yaml.NewDecoder(strings.NewReader(r.out))
	for _, rows := range []int{0, 2} {
		var answer struct{ Rows [][]any }
		require.NoError(t, y.Decode(&answer), r.out)
		require.Len(t, answer.Rows, rows)
	}
}

func TestCaretsOfQueries(t *testing.T) {
	q := newQueried(t)
	for text, want := range map[string]string{
		"DROP\tSTREAM\t流れ\tx":              "  DROP\tSTREAM\t流れ\tx\n      \t      \t    \t^\n",
		"DROP STREAM 'größe' , x":          "  DROP STREAM 'größe' , x\n                      ^\n",
		"SHOW STREAMS\n\n  流れ流れ":           "line 3, column 3:\n    流れ流れ\n    ^^^^^^^^\n",
		"DROP STREAM '\x1b]0;x\a\u202e' x": "  DROP STREAM '?]0;x??' x\n                        ^\n",
	} {
		r := q.run(t, "", text)
		require.Equal(t, exitFailed, r.status)
		require.Contains(t, r.err, want)
		require.NotContains(t, r.err, "\x1b")
	}
}

// What messages hold is shown and not obeyed, and does not shift the table.
func TestTablesOfHostileMessages(t *testing.T) {
	q := newQueried(t, "s")
	q.payloads = []string{"流れる", "\x1b[2J\x1b]0;x\a", "a\tb\rc", "\u009b31m", "\u202egnp", "e\u0301", "null\x00", "\xff", "two\nlines", "│", `{"a": 1}`}
	r := q.run(t, "", "CHECK STREAM s")
	require.Equal(t, exitDone, r.status, r.err)
	require.NotRegexp(t, "[\x00-\x08\x0b-\x1f\x7f\u0080-\u009f\u202a-\u202e]", r.out)
	for _, want := range []string{"流れる", `\x1b[2J\x1b]0;x\x07`, `\x9b31m`, `\u202egnp`, `null\x00`, "MERGE (n {a: $a})"} {
		require.Contains(t, r.out, want)
	}
	lines := strings.Split(r.out, "\n")
	width := runewidth.StringWidth(lines[0])
	for _, line := range lines {
		if strings.ContainsAny(line, "┌│├└") {
			require.Equal(t, width, runewidth.StringWidth(line), "%q", line)
		}
	}

	// Exact answers hold all of it, and a terminal obeys none of it either.
	for _, format := range []string{"json", "yaml"} {
		r = q.run(t, "", "CHECK STREAM s", "-o", format)
		require.Equal(t, exitDone, r.status, r.err)
		require.NotRegexp(t, "[\x00-\x09\x0b-\x1f\x7f\u0080-\u009f]", r.out)
		var answer struct{ Rows [][]any }
		if format == "json" {
			require.NoError(t, json.Unmarshal([]byte(r.out), &answer))
		} else {
			require.NoError(t, yaml.Unmarshal([]byte(r.out), &answer))
		}
		for i, p := range q.payloads {
			require.Equal(t, strings.ToValidUTF8(p, "\ufffd"), answer.Rows[0][1].([]any)[i], format)
		}
	}
}

func TestHugeValuesAreCutInTables(t *testing.T) {
	q := newQueried(t, "s")
	q.payloads = []string{strings.Repeat("流", 1<<20)}
	r := q.run(t, "", "CHECK STREAM s")
	require.Equal(t, exitDone, r.status)
	require.Less(t, len(r.out), 100_000)
	require.Contains(t, r.out, "… stands for the rest")
	require.NotContains(t, q.run(t, "", "SHOW STREAMS").out, "…")
	require.Greater(t, len(q.run(t, "", "CHECK STREAM s", "-o", "json").out), 3<<20)
}

// A secret in a script that is wrong does not come to a log of who runs it.
func TestSecretsAreNotShownWithAnError(t *testing.T) {
	q := newQueried(t)
	for _, text := range []string{
		"CREATE KAFKA STREAM s TOPICS t TRANSFORM m.f CREDENTIALS {'sasl.password': 's3cr3t'} BATCHSIZE 7",
		"CREATE KAFKA STREAM s TOPICS t TRANSFORM m.f CREDENTIALS {'sasl.password': s3cr3t}",
		"CREATE KAFKA STREAM s TOPICS t TRANSFORM m.f CREDENTIALS s3cr3t",
	} {
		for _, r := range []result{q.run(t, "", text), q.run(t, "SHOW STREAMS;\n"+text+";\n"), q.run(t, "", text, "-o", "json")} {
			require.Equal(t, exitFailed, r.status)
			require.NotContains(t, r.out+r.err, "s3cr3t")
			require.Contains(t, r.err, "^")
		}
	}
}

func TestParametersOfQueries(t *testing.T) {
	q := newQueried(t)
	r := q.run(t, "", "CREATE KAFKA STREAM $name TOPICS $topics TRANSFORM m.f BATCH_SIZE $n SETTINGS $settings",
		"--param", "name=s", "--param", `topics=["a", "b"]`, "--param", "n=7", "--param", `settings={"query": "RETURN 'ü'"}`)
	require.Equal(t, exitDone, r.status, r.err)
	spec := q.created[0]
	require.Equal(t, []string{"a", "b"}, spec.Topics)
	require.Equal(t, 7, spec.BatchSize)
	require.Equal(t, map[string]string{"query": "RETURN 'ü'"}, spec.Settings)
}

func TestTheHistoryIsItsOwnersAlone(t *testing.T) {
	home := t.TempDir()
	a := &app{environ: []string{"HOME=" + home}}
	s := &session{app: a}
	path, err := s.historyFile()
	require.NoError(t, err)
	require.Equal(t, filepath.Join(home, ".local", "state", "graphmill", "history"), path)
	mode := func(path string) os.FileMode {
		info, err := os.Stat(path)
		require.NoError(t, err)
		return info.Mode().Perm()
	}
	require.Equal(t, os.FileMode(0o600), mode(path))
	require.Equal(t, os.FileMode(0o700), mode(filepath.Dir(path)))

	// One that others could read is closed to them; a long one loses its beginning.
	require.NoError(t, os.WriteFile(path, []byte(strings.Repeat("SHOW STREAMS;\n", maxHistory)+"the last\n"), 0o644))
	require.NoError(t, os.Chmod(path, 0o644))
	_, err = s.historyFile()
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), mode(path))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.True(t, strings.HasSuffix(string(text), "SHOW STREAMS;\nthe last\n"))
	require.Less(t, strings.Count(string(text), "\n"), keptHistory+1)

	a.environ = append(a.environ, "XDG_STATE_HOME="+filepath.Join(home, "state"))
	path, err = s.historyFile()
	require.NoError(t, err)
	require.Equal(t, filepath.Join(home, "state", "graphmill", "history"), path)
	a.environ = nil
	path, err = s.historyFile()
	require.NoError(t, err)
	require.Empty(t, path, "nobody's")
}

func TestWhatTheHistoryRemembers(t *testing.T) {
	for text, want := range map[string]string{
		"\n":                                           "",
		"SHOW STREAMS;\n":                              "SHOW STREAMS;",
		"DROP STREAM 'a  b';\n":                        "DROP STREAM 'a  b';",
		"SHOW // all\nSTREAMS;\n":                      "SHOW STREAMS;",
		"ALTER STREAM s\nSET DATABASE 'a  b';\n":       "ALTER STREAM s SET DATABASE 'a  b';",
		"DROP STREAM 'a\nb';\n":                        "", // it would lose its line
		"ALTER STREAM s SET Credentials {};":           "",
		"ALTER STREAM s SET CONFIGS $token;":           "",
		"CALL x('" + strings.Repeat("x", 5000) + "');": "",
	} {
		require.Equal(t, want, historyLine(text), text)
	}
}

func TestCompletionAtThePrompt(t *testing.T) {
	q := newQueried(t, "ratings", "2nd", "my-stream")
	s := &session{app: &app{}, client: &client{server: q.url, http: http.DefaultClient, readTimeout: readTimeout}}
	c := &completer{session: s, ctx: t.Context()}
	for line, want := range map[string][]string{
		"SH":                   {"OW "},
		"sho":                  {"w "},
		"show ":                {"CREATE ", "STREAMS "},
		"STOP STREAM ":         {"ratings ", "'2nd' ", "my-stream "},
		"STOP STREAM my-":      {"stream "},
		"STOP STREAM ratings ": nil,
		"CALL mg.kafka_s":      {"et_stream_offset ", "tream_info "},
		"CREATE KAFKA STREAM x TOPICS t TRANSFORM movies.":    {"rating ", "tag "},
		"CREATE KAFKA STREAM x TOPICS t TRANSFORM m.f batch_": {"interval ", "size ", "bytes "},
		"DROP STREAM 'r": nil,
		"流":              nil,
	} {
		got, begun := c.Do([]rune(line+" behind"), len([]rune(line)))
		var words []string
		for _, g := range got {
			words = append(words, string(g))
		}
		require.Equal(t, want, words, line)
		require.LessOrEqual(t, begun, len([]rune(line)))
	}
	c.begun = "CREATE KAFKA STREAM x\n"
	got, _ := c.Do([]rune("TOP"), 3)
	require.Equal(t, "ICS ", string(got[0]), "of a statement that began on another line")
}
