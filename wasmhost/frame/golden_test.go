package frame_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/wasmhost/frame"
	"github.com/graphmill/graphmill/wasmhost/frame/frametest"
)

//go:generate go test -run TestGoldenFrames -update .

var update = flag.Bool("update", false, "write the golden frames under sdk/testdata anew")

const goldenDir = "../../sdk/testdata"

// limits are the defaults of sdk/ABI.md.
var limits = frame.Limits{Statements: 1_000_000, QueryTexts: 65_536, QueryTextBytes: 1 << 20, Decoded: 512 << 20}

// The index says what each golden frame holds, for SDKs in any language.
// Parameter values are in the JSON form of graphmill.AppendValue.
type (
	goldenIndex struct {
		About     string          `json:"about"`
		Requests  []requestEntry  `json:"requests"`
		Responses []responseEntry `json:"responses"`
		Broken    []brokenEntry   `json:"broken_responses"`
		Values    []valueEntry    `json:"values"`
		Settings  []settingsEntry `json:"settings"`
	}
	requestEntry struct {
		File     string         `json:"file"`
		About    string         `json:"about"`
		Stream   string         `json:"stream"`
		Source   int            `json:"source"`
		Messages []messageEntry `json:"messages"`
	}
	messageEntry struct {
		Topic        string        `json:"topic"`
		Partition    int32         `json:"partition"`
		Offset       int64         `json:"offset"`
		Timestamp    int64         `json:"timestamp"`
		BrokerTime   int64         `json:"broker_time"`
		ID           string        `json:"id"`
		Redeliveries uint32        `json:"redeliveries"`
		Payload      []byte        `json:"payload_base64"`
		Key          []byte        `json:"key_base64"`
		Headers      []headerEntry `json:"headers"`
	}
	headerEntry struct {
		Key   string `json:"key"`
		Value []byte `json:"value_base64"`
	}
	responseEntry struct {
		File       string              `json:"file"`
		About      string              `json:"about"`
		Messages   int                 `json:"messages"`
		Statements []statementEntry    `json:"statements"`
		Failures   []graphmill.Failure `json:"failures"`
	}
	statementEntry struct {
		Query   string          `json:"query"`
		Names   []string        `json:"names,omitempty"`
		Values  json.RawMessage `json:"values,omitempty"`
		Params  json.RawMessage `json:"params,omitempty"`
		Message int             `json:"message"`
	}
	brokenEntry struct {
		File     string `json:"file"`
		Messages int    `json:"messages"`
		Field    string `json:"field"`
		Error    string `json:"error"`
	}
	valueEntry struct {
		Name    string          `json:"name"`
		MsgPack string          `json:"msgpack_hex"`
		Value   json.RawMessage `json:"value"`
	}
	settingsEntry struct {
		MsgPack  string            `json:"msgpack_hex"`
		Settings map[string]string `json:"settings"`
	}
)

// TestGoldenFrames compares what the code makes with what is kept, byte for
// byte, and reads every kept frame.
func TestGoldenFrames(t *testing.T) {
	index := goldenIndex{About: "Frames of transformation ABI 1 and what they hold. See ../ABI.md. Message -1 is the batch as a whole. Written by wasmhost/frame."}
	files := map[string][]byte{}

	for _, g := range frametest.GoldenRequests() {
		file := "request_" + g.Name + ".bin"
		files[file] = encode(t, g.Stream, g.Source, g.Messages)
		index.Requests = append(index.Requests, requestOf(file, g))

		req, err := frametest.DecodeRequest(files[file])
		require.NoError(t, err, file)
		require.Equal(t, frametest.Request{Cursor: frame.Null, Stream: g.Stream, Source: g.Source, Messages: g.Messages}, req, file)
	}
	for _, g := range frametest.GoldenResponses() {
		file := "response_" + g.Name + ".bin"
		files[file] = frametest.EncodeResponse(g.Output)
		index.Responses = append(index.Responses, responseOf(t, file, g))

		out, err := frame.NewDecoder(limits).Decode(string(files[file]), g.Messages)
		require.NoError(t, err, file)
		require.Equal(t, outputJSON(t, g.Output), outputJSON(t, out), file)
	}
	for _, g := range frametest.BrokenResponses() {
		file := "broken_" + g.Name + ".bin"
		files[file] = g.Frame
		_, err := frame.NewDecoder(limits).Decode(string(g.Frame), g.Messages)
		var fe *frame.Error
		require.ErrorAs(t, err, &fe, file)
		require.Equal(t, g.Field, fe.Field, file)
		require.Contains(t, fe.Text, g.Text, file)
		index.Broken = append(index.Broken, brokenEntry{File: file, Messages: g.Messages, Field: fe.Field, Error: fe.Text})
	}
	for _, v := range frametest.Values() {
		index.Values = append(index.Values, valueEntry{Name: v.Name, MsgPack: hex.EncodeToString(frametest.AppendValue(nil, v.Value)), Value: valueJSON(t, v.Value)})
	}
	for _, s := range []map[string]string{{}, {"query": "MERGE (n {id: $id})", "größe": "", "a": "b"}} {
		index.Settings = append(index.Settings, settingsEntry{MsgPack: hex.EncodeToString(frame.AppendSettings(nil, s)), Settings: s})
	}
	files["index.json"] = indented(t, index)

	if *update {
		writeGolden(t, files)
	}
	kept, err := filepath.Glob(goldenDir + "/*")
	require.NoError(t, err)
	require.Len(t, kept, len(files), "files under sdk/testdata; go generate ./wasmhost/frame writes them anew")
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(goldenDir, name))
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, got), "%s has drifted from the code: if the change is meant, go generate ./wasmhost/frame", name)
	}
}

func writeGolden(t *testing.T, files map[string][]byte) {
	old, err := filepath.Glob(goldenDir + "/*")
	require.NoError(t, err)
	for _, f := range old {
		require.NoError(t, os.Remove(f))
	}
	for name, b := range files {
		require.NoError(t, os.WriteFile(filepath.Join(goldenDir, name), b, 0o644))
	}
}

func encode(t testing.TB, stream string, source graphmill.SourceKind, messages []graphmill.Message) []byte {
	var e frame.Encoder
	size, err := e.Plan(stream, source, messages)
	require.NoError(t, err)
	f := bytes.Repeat([]byte{0xaa}, size) // what the guest's buffer held before
	e.Encode(f)
	return f
}

func requestOf(file string, g frametest.GoldenRequest) requestEntry {
	entry := requestEntry{File: file, About: g.About, Stream: g.Stream, Source: int(g.Source), Messages: []messageEntry{}}
	for _, m := range g.Messages {
		me := messageEntry{
			Topic: m.Topic, Partition: m.Partition, Offset: m.Offset, Timestamp: m.Timestamp, BrokerTime: m.BrokerTime,
			ID: m.ID, Redeliveries: m.Redeliveries, Payload: m.Payload, Key: m.Key, Headers: []headerEntry{},
		}
		for _, h := range m.Headers {
			me.Headers = append(me.Headers, headerEntry(h))
		}
		entry.Messages = append(entry.Messages, me)
	}
	return entry
}

func responseOf(t *testing.T, file string, g frametest.GoldenResponse) responseEntry {
	entry := responseEntry{File: file, About: g.About, Messages: g.Messages, Statements: []statementEntry{}, Failures: []graphmill.Failure{}}
	for _, s := range g.Output.Statements {
		se := statementEntry{Query: s.Query.Text, Names: s.Query.Names, Message: s.Message}
		if s.Values != nil {
			se.Values = valueJSON(t, s.Values)
		} else if s.Params != nil {
			se.Params = valueJSON(t, s.Params)
		}
		entry.Statements = append(entry.Statements, se)
	}
	entry.Failures = append(entry.Failures, g.Output.Failures...)
	return entry
}

// outputJSON makes outputs comparable, which pointers to zones are not.
func outputJSON(t testing.TB, out graphmill.Output) string {
	entry := struct {
		Statements []statementEntry
		Failures   []graphmill.Failure
	}{Failures: out.Failures}
	for _, s := range out.Statements {
		se := statementEntry{Query: s.Query.Text, Names: s.Query.Names, Message: s.Message}
		if s.Query.Names != nil {
			se.Values = valueJSON(t, s.Values)
		} else {
			se.Params = valueJSON(t, s.Parameters())
		}
		entry.Statements = append(entry.Statements, se)
	}
	return string(indented(t, entry))
}

func valueJSON(t testing.TB, v graphmill.Value) json.RawMessage {
	b, err := graphmill.MarshalValue(v)
	require.NoError(t, err)
	return b
}

func indented(t testing.TB, v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	require.NoError(t, enc.Encode(v))
	return b.Bytes()
}
