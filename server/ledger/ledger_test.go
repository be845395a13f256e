package ledger_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/server/ledger"
	"github.com/stretchr/testify/require"
)

var _ graphmill.Sink = (*ledger.Sink)(nil)

func open(t *testing.T, path string) *ledger.Sink {
	t.Helper()
	s, err := ledger.Open(path, nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close(context.Background())) })
	return s
}

func at(topic string, partition int32, offset int64) graphmill.Position {
	return graphmill.Position{TopicPartition: graphmill.TopicPartition{Topic: topic, Partition: partition}, Offset: offset}
}

// batch is a work of one statement that moves one partition to offset.
func batch(stream string, partition int32, offset int64) graphmill.Work {
	return graphmill.Work{
		Stream: stream, First: []graphmill.Position{at("t", partition, offset-1)}, Last: []graphmill.Position{at("t", partition, offset)},
		Statements: []graphmill.Statement{{Query: &graphmill.Query{Text: "CREATE (n {x: $x})"}, Params: map[string]any{"x": offset}}},
	}
}

func write(t *testing.T, s *ledger.Sink, w graphmill.Work) {
	t.Helper()
	_, err := s.Execute(t.Context(), w)
	require.NoError(t, err)
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(b)
}

func TestOneLineABatch(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.jsonl")
	s := open(t, path)
	positional := &graphmill.Query{Text: "MERGE (n {id: $id, \"x\": $x})", Names: []string{"x", "id"}}
	w := graphmill.Work{
		Stream: "ratings", Database: "movies",
		First: []graphmill.Position{at("t", 0, 5), {TopicPartition: graphmill.TopicPartition{Topic: "t", Partition: 1}, TopicID: "ab", Offset: 7}},
		Last:  []graphmill.Position{at("t", 0, 6), {TopicPartition: graphmill.TopicPartition{Topic: "t", Partition: 1}, TopicID: "ab", Offset: 8}},
		Statements: []graphmill.Statement{
			{Query: positional, Values: []any{[]byte{1, 2}, int64(1 << 62)}, Message: 1},
			{Query: &graphmill.Query{Text: "MATCH (n)\nDELETE n"}, Message: graphmill.WholeBatch},
		},
	}
	done, err := s.Execute(t.Context(), w)
	require.NoError(t, err)
	require.Equal(t, graphmill.Executed{Statements: 2, Sent: 2}, done)
	line := regexp.MustCompile(`"time":"[0-9T:.-]+Z"`).ReplaceAllString(read(t, path), `"time":"now"`)
	require.Equal(t, `{"time":"now","stream":"ratings","database":"movies",`+
		`"first":[{"topic":"t","partition":0,"offset":5},{"topic":"t","partition":1,"topic_id":"ab","offset":7}],`+
		`"last":[{"topic":"t","partition":0,"offset":6},{"topic":"t","partition":1,"topic_id":"ab","offset":8}],`+
		`"statements":[{"query":"MERGE (n {id: $id, \"x\": $x})","parameters":{"id":4611686018427387904,"x":{"$type":"Base64","_value":"AQI="}},"message":1},`+
		`{"query":"MATCH (n)\nDELETE n","parameters":{},"message":-1}]}`+"\n", line)
	require.Equal(t, w.Last, s.Positions("ratings"))
	require.Empty(t, s.Texts("ratings"))

	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

func TestBatchWithoutStatementsMovesThePosition(t *testing.T) {
	path := filepath.Join(t.TempDir(), "l")
	s := open(t, path)
	write(t, s, graphmill.Work{Stream: "a", Last: []graphmill.Position{at("t", 0, 3)}})
	require.Contains(t, read(t, path), `"first":[],"last":[{"topic":"t","partition":0,"offset":3}],"statements":[]}`)
	require.Equal(t, []graphmill.Position{at("t", 0, 3)}, s.Positions("a"))
}

func TestLastLineOfEachPartitionIsItsCheckpoint(t *testing.T) {
	path := filepath.Join(t.TempDir(), "l")
	s := open(t, path)
	write(t, s, batch("a", 1, 10))
	write(t, s, batch("b", 0, 20))
	write(t, s, batch("a", 0, 30))
	write(t, s, batch("a", 1, 11))
	want := []graphmill.Position{at("t", 0, 30), at("t", 1, 11)}
	require.Equal(t, want, s.Positions("a"))
	require.NoError(t, s.Close(t.Context()))

	s = open(t, path)
	require.Equal(t, want, s.Positions("a"))
	require.Equal(t, []graphmill.Position{at("t", 0, 20)}, s.Positions("b"))
	require.Empty(t, s.Positions("c"))
	write(t, s, batch("a", 1, 12))
	require.Equal(t, 5, strings.Count(read(t, path), "\n"))
}

// lines writes n batches and returns the path and the file's text.
func lines(t *testing.T, n int64) (path, text string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "l")
	s := open(t, path)
	for i := range n {
		write(t, s, batch("a", 0, i+1))
	}
	require.NoError(t, s.Close(t.Context()))
	return path, read(t, path)
}

func TestTornLastLineIsCutOff(t *testing.T) {
	path, text := lines(t, 3)
	second := strings.LastIndex(strings.TrimSuffix(text, "\n"), "\n") + 1 // end of the second line
	third := text[second:]
	torn := map[string]string{
		"nothing of it":                      "",
		"its beginning":                      third[:1],
		"half of it":                         third[:len(third)/2],
		"all but its end":                    third[:len(third)-1],
		"zeros":                              strings.Repeat("\x00", len(third)),
		"zeros in its middle, its end there": third[:12] + strings.Repeat("\x00", 20) + third[32:],
		"zeros first, its end there":         strings.Repeat("\x00", 20) + third[20:],
	}
	for name, rest := range torn {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, os.WriteFile(path, []byte(text[:second]+rest), 0o600))
			var log bytes.Buffer
			s, err := ledger.Open(path, slog.New(slog.NewTextHandler(&log, nil)))
			require.NoError(t, err)
			defer s.Close(t.Context())
			require.Equal(t, []graphmill.Position{at("t", 0, 2)}, s.Positions("a"))
			require.Equal(t, text[:second], read(t, path))
			if rest == "" {
				require.Empty(t, log.String())
			} else {
				require.Contains(t, log.String(), "line=3")
				require.Contains(t, log.String(), fmt.Sprintf("bytes=%d", len(rest)))
			}
			write(t, s, batch("a", 0, 9))
			require.NoError(t, s.Close(t.Context()))
			require.Equal(t, []graphmill.Position{at("t", 0, 9)}, open(t, path).Positions("a"))
		})
	}
}

func TestDamageIsRefused(t *testing.T) {
	_, text := lines(t, 3)
	for _, tc := range []struct{ name, text, want string }{
		{"a line in the middle", strings.Replace(text, `"stream":"a"`, `"stream":"a`, 1), "line 1 (at byte 0)"},
		{"no stream", strings.Replace(text, `"stream":"a"`, `"other":"a"`, 1), "names no stream"},
		{"an empty line", strings.Replace(text, "\n", "\n\n", 1), "line 2 (at byte"},
		{"an empty line at the end", text + "\n", "line 4 (at byte"},
		{"text at the end", text + "# mine\n", "line 4 (at byte"},
		{"positions of another form", strings.Replace(text, `"last":[`, `"last":[1,`, 1), "line 1 (at byte 0)"},
		{"a file of another kind", "my notes", "line 1 (at byte 0)"},
		{"a file of another kind that ends with a line", "my notes\n", "line 1 (at byte 0)"},
		{"a JSON file", "{}\n", "line 1 (at byte 0)"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "l")
			require.NoError(t, os.WriteFile(path, []byte(tc.text), 0o600))
			_, err := ledger.Open(path, nil)
			var e *graphmill.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, "ledger_damaged", e.Code)
			require.NotEmpty(t, e.Next)
			require.Contains(t, err.Error(), tc.want)
			require.Contains(t, err.Error(), path)
			require.Equal(t, tc.text, read(t, path), "nothing is changed")

			_, err = ledger.Open(path, nil)
			require.ErrorAs(t, err, &e)
			require.Equal(t, "ledger_damaged", e.Code, "the lock has been given up")
		})
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	_, err := ledger.Open("", nil)
	require.Equal(t, graphmill.KindInvalid, graphmill.KindOf(err))
	_, err = ledger.Open(dir, nil)
	require.ErrorContains(t, err, "is a directory")
	_, err = ledger.Open(filepath.Join(dir, "no", "such"), nil)
	require.ErrorContains(t, err, "no such file")
	_, err = ledger.Open("/dev/null", nil)
	require.ErrorContains(t, err, "is not a file")
}

func TestOneProcessAtATime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "l")
	s := open(t, path)
	_, err := ledger.Open(path, nil)
	var e *graphmill.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, graphmill.KindConflict, e.Kind)
	require.Equal(t, "ledger_in_use", e.Code)
	require.NoError(t, s.Close(t.Context()))
	open(t, path)
}

// faultOf returns the fault that an error is.
func faultOf(t *testing.T, err error) *graphmill.Fault {
	t.Helper()
	require.Error(t, err)
	f, ok := err.(*graphmill.Fault) // as it is, not wrapped
	require.True(t, ok, "%T: %v", err, err)
	return f
}

func TestValueThatIsNoneWritesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "l")
	s := open(t, path)
	w := batch("a", 0, 1)
	w.Statements = append(w.Statements, w.Statements[0])
	w.Statements[1].Params = map[string]any{"x": struct{}{}}
	w.Statements[1].Message = 7
	_, err := s.Execute(t.Context(), w)
	f := faultOf(t, err)
	require.Equal(t, graphmill.FaultMessage, f.Class)
	require.Equal(t, 7, f.Message)
	require.Contains(t, f.Text, "statement 2")

	w.Statements[1] = graphmill.Statement{Query: &graphmill.Query{Names: []string{"a"}}}
	_, err = s.Execute(t.Context(), w)
	require.Contains(t, faultOf(t, err).Text, "0 values for 1 parameters")
	require.Empty(t, read(t, path))
	require.Empty(t, s.Positions("a"))
}

func TestMovedFileIsNoticed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "l")
	s := open(t, path)
	write(t, s, batch("a", 0, 1))
	require.NoError(t, s.Verify(t.Context(), "any"))
	require.NoError(t, os.Rename(path, path+".old"))
	_, err := s.Execute(t.Context(), batch("a", 0, 2))
	require.Equal(t, "ledger_moved", faultOf(t, err).Code)
	require.Equal(t, "ledger_moved", faultOf(t, s.Verify(t.Context(), "")).Code)
	require.NoError(t, os.WriteFile(path, nil, 0o600)) // another file of that name
	require.Equal(t, "ledger_moved", faultOf(t, s.Verify(t.Context(), "")).Code)

	require.NoError(t, os.Rename(path+".old", path))
	write(t, s, batch("a", 0, 2))
	require.Equal(t, 2, strings.Count(read(t, path), "\n"))
}

func TestAfterClose(t *testing.T) {
	path := filepath.Join(t.TempDir(), "l")
	s := open(t, path)
	require.NoError(t, s.Close(t.Context()))
	require.NoError(t, s.Close(t.Context()))
	_, err := s.Execute(t.Context(), batch("a", 0, 1))
	require.True(t, faultOf(t, err).Outage)
	require.Error(t, s.Verify(t.Context(), ""))
}

func TestCancelledContextWritesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "l")
	s := open(t, path)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Execute(ctx, batch("a", 0, 1))
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, s.Verify(ctx, ""), context.Canceled)
	require.Empty(t, read(t, path))
}

func TestConcurrentStreams(t *testing.T) {
	path := filepath.Join(t.TempDir(), "l")
	s := open(t, path)
	const streams, batches = 8, 10
	errs := make(chan error)
	for i := range streams {
		go func() {
			for k := range int64(batches) {
				if _, err := s.Execute(t.Context(), batch(fmt.Sprint("s", i), 0, k+1)); err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	for range streams {
		require.NoError(t, <-errs)
	}
	require.NoError(t, s.Close(t.Context()))
	for line := range strings.Lines(read(t, path)) {
		require.True(t, json.Valid([]byte(line)), line)
	}
	s = open(t, path)
	for i := range streams {
		require.Equal(t, []graphmill.Position{at("t", 0, batches)}, s.Positions(fmt.Sprint("s", i)))
	}
}
