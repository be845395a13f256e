package conformance

import (
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/wasmhost"
	"github.com/graphmill/graphmill/wasmhost/frame/frametest"
)

func checkEcho(t *testing.T, m *Module) {
	messages := []graphmill.Message{
		{
			Topic: "orders", Partition: 3, Offset: 1<<53 + 1, Timestamp: 1769862615123, BrokerTime: -1,
			Payload: []byte{0, 1, 0xff}, Key: []byte("k"),
			Headers: []graphmill.Header{{Key: "b", Value: []byte("1")}, {Key: "a", Value: []byte{0xff}}, {Key: "b"}, {Key: "größe", Value: []byte{}}},
		},
		{Topic: "orders", Payload: []byte{}, Key: nil, BrokerTime: -1},
		{Topic: "other", Payload: nil, Key: []byte{}, BrokerTime: -1},
		{
			Topic: "persistent://public/default/größe", Partition: -1, Offset: -1, ID: "12:34:-1:5",
			Timestamp: -1, BrokerTime: 1769862615456, Redeliveries: 1<<32 - 1, Payload: []byte("x"),
		},
		{Topic: "orders", Partition: 1<<31 - 1, Offset: 1<<63 - 1, Timestamp: -1 << 63, BrokerTime: 1<<63 - 1},
	}
	for _, source := range []graphmill.SourceKind{graphmill.SourceKafka, graphmill.SourcePulsar, graphmill.SourceManual} {
		out, err := m.start(t, m.config(nil)).Transform(t.Context(), source, messages)
		require.NoError(t, err)
		require.Empty(t, out.Failures)
		want := make([]string, len(messages))
		for i := range messages {
			parameters, err := graphmill.MarshalValue(echoed(i, source, &messages[i]))
			require.NoError(t, err)
			want[i] = fmt.Sprintf("%d ECHO %s", i, parameters)
		}
		expect(t, out.Statements, want...)
	}
}

// echoed is what echo makes of a message.
func echoed(index int, source graphmill.SourceKind, m *graphmill.Message) map[string]any {
	headers := make([]any, len(m.Headers))
	for i, h := range m.Headers {
		headers[i] = []any{h.Key, nullable(h.Value)}
	}
	return map[string]any{
		"index": int64(index), "stream": stream, "source": int64(source),
		"topic": m.Topic, "partition": int64(m.Partition), "offset": m.Offset, "id": m.ID,
		"timestamp": m.Timestamp, "broker_time": m.BrokerTime, "redeliveries": int64(m.Redeliveries),
		"payload": nullable(m.Payload), "key": nullable(m.Key), "headers": headers,
	}
}

func nullable(b []byte) any {
	if b == nil {
		return nil
	}
	return b
}

func checkEmptyBatch(t *testing.T, m *Module) {
	require.Empty(t, m.transform(t, nil))
}

func checkManyBatches(t *testing.T, m *Module) {
	messages := make([]graphmill.Message, 1000)
	for i := range messages {
		messages[i] = graphmill.Message{
			Topic: "t", Offset: int64(i), Payload: []byte(`{"user":"u1","rating":4.5}`), Key: []byte("u1"), BrokerTime: -1,
			Headers: []graphmill.Header{{Key: "trace", Value: []byte("0123456789abcdef")}},
		}
	}
	i := m.start(t, m.config(nil))
	var early int64
	for n := range 400 {
		out, err := i.Transform(t.Context(), graphmill.SourceKafka, messages)
		require.NoError(t, err)
		require.Len(t, out.Statements, len(messages))
		if n == 99 {
			early = i.Memory()
		}
	}
	require.Less(t, i.Memory(), early+early/2, "memory grew from %d bytes after 100 batches to this after 400: something is kept, or a collector never runs", early)
}

func checkValues(t *testing.T, m *Module) {
	out := m.transform(t, texts("1", "2"))
	require.Empty(t, out.Failures)
	require.Len(t, out.Statements, 2)
	for i, s := range out.Statements {
		require.Equal(t, "VALUES", s.Query.Text)
		require.Equal(t, i, s.Message)
		got := s.Parameters()
		for _, v := range frametest.Values() {
			require.Contains(t, got, v.Name)
			require.Equal(t, asJSON(t, v.Value), asJSON(t, got[v.Name]), v.Name)
			delete(got, v.Name)
		}
		require.Empty(t, got, "values that are not in the table")
	}
}

func asJSON(t *testing.T, v graphmill.Value) string {
	b, err := graphmill.MarshalValue(v)
	require.NoError(t, err)
	return string(b)
}

func checkPositional(t *testing.T, m *Module) {
	messages := texts("a", "")
	messages = append(messages, graphmill.Message{Topic: "größe", BrokerTime: -1})
	out := m.transform(t, messages)
	require.Empty(t, out.Failures)
	require.Len(t, out.Statements, 3)
	for _, s := range out.Statements {
		require.Equal(t, []string{"index", "payload", "topic"}, s.Query.Names)
		require.Len(t, s.Values, 3)
		require.Same(t, out.Statements[0].Query, s.Query, "the query stands once")
	}
	expect(t, out.Statements,
		`0 POSITIONAL {"index":0,"payload":{"$type":"Base64","_value":"YQ=="},"topic":"t"}`,
		`1 POSITIONAL {"index":1,"payload":{"$type":"Base64","_value":""},"topic":"t"}`,
		`2 POSITIONAL {"index":2,"payload":null,"topic":"größe"}`,
	)
}

func checkTexts(t *testing.T, m *Module) {
	first, second := "MATCH (n:Größe) RETURN n", "MATCH (m) RETURN m"
	i := m.start(t, m.config(nil))
	for range 2 { // texts of the batch before must not come again
		out, err := i.Transform(t.Context(), graphmill.SourceKafka, texts(first, second, first, first))
		require.NoError(t, err)
		require.Empty(t, out.Failures)
		expect(t, out.Statements, "0 "+first+" {}", "1 "+second+" {}", "2 "+first+" {}", "3 "+first+" {}")
		require.Same(t, out.Statements[0].Query, out.Statements[2].Query, "a text stands once")
		require.Same(t, out.Statements[0].Query, out.Statements[3].Query, "a text stands once")
	}
}

func checkMixed(t *testing.T, m *Module) {
	out := m.transform(t, texts("a", "b"))
	require.Empty(t, out.Failures)
	expect(t, out.Statements,
		`0 FIRST {"n":1}`, `0 SECOND {"n":2}`, `0 FIRST {"n":3}`,
		`1 FIRST {"n":1}`, `1 SECOND {"n":2}`, `1 FIRST {"n":3}`,
	)
	require.Nil(t, out.Statements[0].Query.Names)
	require.Equal(t, []string{"n"}, out.Statements[1].Query.Names)
}

func checkFilter(t *testing.T, m *Module) {
	out := m.transform(t, texts("0", "1", "2", "3", "4"))
	require.Empty(t, out.Failures)
	expect(t, out.Statements, `1 KEEP {"index":1}`, `3 KEEP {"index":3}`)
	require.Empty(t, m.transform(t, texts("0")), "all of a batch may be dropped")
}

func checkFail(t *testing.T, m *Module) {
	i := m.start(t, m.config(nil))
	for range 2 { // failures of the batch before must not come again
		out, err := i.Transform(t.Context(), graphmill.SourceKafka, texts("a", "fail:kein Schlüssel", "b", "retry:try later", "c"))
		require.NoError(t, err)
		expect(t, out.Statements, "0 OK {}", "2 OK {}", "4 OK {}")
		require.ElementsMatch(t, []graphmill.Failure{
			{Message: 1, Text: "kein Schlüssel"},
			{Message: 3, Text: "try later", Retry: true},
		}, out.Failures)
	}
}

func checkAbort(t *testing.T, m *Module) {
	i := m.start(t, m.config(nil))
	out, err := i.Transform(t.Context(), graphmill.SourceKafka, texts("a", "abort:kein Schlüssel", "b"))
	require.NoError(t, err)
	require.Len(t, out.Failures, 1)
	require.Equal(t, 1, out.Failures[0].Message)
	require.Contains(t, out.Failures[0].Text, "kein Schlüssel")
	if out.Failures[0].Aborted {
		require.Empty(t, out.Statements)
	}
	out, err = i.Transform(t.Context(), graphmill.SourceKafka, texts("c"))
	require.NoError(t, err)
	require.Empty(t, out.Failures)
	expect(t, out.Statements, "0 OK {}")
}

func checkBatch(t *testing.T, m *Module) {
	i := m.start(t, m.config(nil))
	out, err := i.Transform(t.Context(), graphmill.SourceKafka, texts("a", "", "größe"))
	require.NoError(t, err)
	require.Empty(t, out.Failures)
	expect(t, out.Statements, `-1 BATCH {"bytes":8,"messages":3}`)

	out, err = i.Transform(t.Context(), graphmill.SourceKafka, texts("refuse:nicht möglich", "a"))
	require.NoError(t, err)
	require.Len(t, out.Failures, 1)
	require.Equal(t, graphmill.WholeBatch, out.Failures[0].Message)
	require.Contains(t, out.Failures[0].Text, "nicht möglich")
}

// checkPanic takes a trap whose cursor names the message, or a failure of it.
func checkPanic(t *testing.T, m *Module) {
	for _, at := range []int{0, 2, 4} {
		messages := texts("a", "b", "c", "d", "e")
		messages[at].Payload = []byte("panic")
		out, err := m.start(t, m.config(nil)).Transform(t.Context(), graphmill.SourceKafka, messages)
		var fault *graphmill.Fault
		if errors.As(err, &fault) {
			require.Equal(t, "trap", fault.Code)
			require.Equal(t, at, fault.Message, "the cursor")
			continue
		}
		require.NoError(t, err)
		require.Len(t, out.Failures, 1)
		require.Equal(t, at, out.Failures[0].Message)
	}
}

func checkLog(t *testing.T, m *Module) {
	var lines []string
	cfg := m.config(nil)
	cfg.Log = func(level slog.Level, text string) { lines = append(lines, level.String()+" "+text) }
	out, err := m.start(t, cfg).Transform(t.Context(), graphmill.SourceKafka,
		texts("debug:eins", "info:zwei größe", "warn:drei", "error:vier"))
	require.NoError(t, err)
	require.Empty(t, out)
	require.Equal(t, []string{"DEBUG eins", "INFO zwei größe", "WARN drei", "ERROR vier"}, lines)
}

func checkSettings(t *testing.T, m *Module) {
	for want, settings := range map[string]map[string]string{
		`{}`: nil,
		`{"":"","a":"b","größe":"MERGE ($x)\n"}`: {"a": "b", "größe": "MERGE ($x)\n", "": ""},
	} {
		out, err := m.start(t, m.config(settings)).Transform(t.Context(), graphmill.SourceKafka, texts("x"))
		require.NoError(t, err)
		require.Empty(t, out.Failures)
		expect(t, out.Statements, "-1 SETTINGS "+want)
	}
}

func checkSettingsRefused(t *testing.T, m *Module) {
	_, err := m.module.Instantiate(t.Context(), m.config(map[string]string{"fail": "query fehlt: größe"}))
	var fault *graphmill.Fault
	require.ErrorAs(t, err, &fault)
	require.Equal(t, graphmill.FaultSetup, fault.Class)
	require.Equal(t, "query fehlt: größe", fault.Text)
}

func checkBig(t *testing.T, m *Module) {
	i := m.start(t, m.config(nil))
	for _, n := range []int{1, 8 << 20, 100, 70_000} {
		out, err := i.Transform(t.Context(), graphmill.SourceKafka, texts(strconv.Itoa(n)))
		require.NoError(t, err)
		require.Len(t, out.Statements, 1)
		require.Equal(t, "BIG", out.Statements[0].Query.Text)
		data, ok := out.Statements[0].Parameters()["data"].(string)
		require.True(t, ok && data == strings.Repeat("x", n), "a string of %d times x", n)
	}
	require.LessOrEqual(t, i.Memory(), wasmhost.DefaultLimits().Memory)
}
