package query

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/integration/pages"
	"github.com/graphmill/graphmill/server"
)

//go:generate go test -run Current$ -update .

var update = flag.Bool("update", false, "write the tables of docs/statements.md")

const statementsPage = "../../docs/statements.md"

// sample is an engine with one stream of everything.
type sample struct{ Engine }

func (sample) Stream(context.Context, string) (server.StreamInfo, error) {
	return server.StreamInfo{
		Spec: graphmill.StreamSpec{
			Name: "NAME", Source: graphmill.SourceNameKafka, Topics: []string{"t"}, Transform: "MODULE.FUNCTION", ConsumerGroup: "g",
			Configs: map[string]string{"client.id": "a", "ssl.key.password": "x"}, Credentials: map[string]string{"sasl.password": "x", "sasl.username": "secret:user"},
		},
		Brokers: []string{"a:1", "b:2"},
	}, nil
}

func (sample) StreamStatus(context.Context, string) (graphmill.StreamStatus, error) {
	return graphmill.StreamStatus{
		Reason: &graphmill.Reason{Code: "a", Text: "b", NextStep: "c"}, LastFailure: &graphmill.FailureStatus{Code: "a", Text: "b"}, Module: &graphmill.ModuleVersion{Name: "m", Version: 1},
		Partitions: []graphmill.PartitionStatus{{TopicPartition: graphmill.TopicPartition{Topic: "t"}, Acknowledged: 1, End: 2, Lag: 1}},
	}, nil
}

func (sample) Modules(context.Context) ([]graphmill.Module, error) {
	return []graphmill.Module{{Name: "m", Version: 2, SHA256: "00", Transformations: []string{"f"}}}, nil
}

func (sample) ModuleContent(context.Context, string, int) (graphmill.Module, []byte, error) {
	return graphmill.Module{}, []byte("x"), nil
}

func (sample) SetStreamOffsets(context.Context, string, server.SetOffsetsRequest) (graphmill.OffsetsInfo, error) {
	return graphmill.OffsetsInfo{}, nil
}

func (sample) PushModule(context.Context, server.PushRequest) (server.PushResult, error) {
	return server.PushResult{}, nil
}
func (sample) DeleteModule(context.Context, string) error   { return nil }
func (sample) RecheckModules(context.Context, string) error { return nil }

// What the signatures do not tell.
var procedureDocs = map[string]string{
	"mg.create_module_file":      "takes a module, as base64 of the file; refused where there is one of the name",
	"mg.delete_module_file":      "removes all versions of a module that no stream uses",
	"mg.functions":               "no row: Memgraph's query modules are not there",
	"mg.get_module_file":         "the active version, as base64",
	"mg.get_module_files":        "the modules, with their active version",
	"mg.kafka_set_stream_offset": "where a stopped stream goes on, in all partitions: -1 the beginning, -2 the end, or an offset",
	"mg.kafka_stream_info":       "`bootstrap_servers` are those that are used: the stream's, else the server's. In place of secrets stands `" + reducted + "`",
	"mg.load":                    "checks a module again, as a start of a stream would",
	"mg.load_all":                "the same for all",
	"mg.procedures":              "no row, likewise",
	"mg.pulsar_stream_info":      "`service_url` is the one that is used: the stream's, else the server's. Of a stream with TOPICS_PATTERN `topics` holds the pattern",
	"mg.stream_status":           "ours: a row for each partition. `state` is one of [these](streams.md#states); `position` and `end` are offsets, of Pulsar message ids, as strings",
	"mg.transformations":         "what TRANSFORM may name",
	"mg.update_module_file":      "the next version of a module, active at once",
}

// Types of results of which the sample has no row.
var typesWithoutRow = map[string]string{
	"is_editable": "BOOLEAN", "is_write": "BOOLEAN", "name": "STRING", "path": "STRING", "signature": "STRING", "service_url": "STRING", "topics": "LIST OF STRING",
}

// The table of procedures is made of the one that CALL has, and the types of
// results of what they return.
func TestProceduresOnThePageOfStatementsAreCurrent(t *testing.T) {
	var b strings.Builder
	b.WriteString("\n| procedure | results | |\n|---|---|---|\n")
	for _, p := range procedures() {
		means, ok := procedureDocs[p.name]
		require.True(t, ok, "%s is not documented", p.name)
		results := make([]string, len(p.results))
		row := sampleRow(t, p)
		for i, name := range p.results {
			kind := typesWithoutRow[name]
			if row != nil {
				kind = typeOf(t, row[i])
			}
			results[i] = "`" + name + " :: " + kind + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", p.signature(), strings.Join(results, ", "), means)
	}
	b.WriteString("\n")
	pages.Hold(t, statementsPage, "procedures", "./api/query", b.String(), *update)
}

// sampleRow calls a procedure, and returns its first row; nil: it has none.
func sampleRow(t *testing.T, p procedure) []graphmill.Value {
	t.Helper()
	arguments := make(arguments, len(p.parameters))
	for i, x := range p.parameters {
		switch {
		case x.number:
			arguments[i] = int64(1)
		case x.name == "content":
			arguments[i] = "AGFzbQ=="
		default:
			arguments[i] = "n.wasm"
		}
	}
	rows, err := p.run(&executor{engine: sample{}}, t.Context(), arguments)
	if graphmill.KindOf(err) == graphmill.KindConflict || graphmill.KindOf(err) == graphmill.KindNotFound || len(rows) == 0 {
		return nil // of the other source, or of a module that is not in the sample
	}
	require.NoError(t, err, p.name)
	require.Len(t, rows[0], len(p.results), p.name)
	return rows[0]
}

func typeOf(t *testing.T, v graphmill.Value) string {
	t.Helper()
	switch v.(type) {
	case bool:
		return "BOOLEAN"
	case int64:
		return "INTEGER"
	case float64:
		return "FLOAT"
	case string:
		return "STRING"
	case map[string]any:
		return "MAP"
	case []any:
		return "LIST OF STRING"
	}
	require.Failf(t, "a result of another type", "%T", v)
	return ""
}

// The table of errors is made of what the engine's errors become.
func TestErrorsOnThePageOfStatementsAreCurrent(t *testing.T) {
	var b strings.Builder
	b.WriteString("\n| of | code | text |\n|---|---|---|\n")
	for _, c := range []struct {
		of   string
		what doing
		code string
		text string // of the engine
	}{
		{"every statement", starting, codeNotFound, ""},
		{"CREATE", creating, codeExists, ""},
		{"CREATE", creating, codeUnreachable, "REASON"},
		{"CREATE", creating, codeTopicAbsent, "REASON"},
		{"CREATE", creating, "any other", "REASON"},
		{"START, CHECK", starting, codeAlreadyRunning, ""},
		{"START, CHECK", starting, codeModuleNotFound, "REASON"},
		{"START, CHECK", starting, codeFunctionNotFound, "REASON"},
		{"STOP", stopping, codeAlreadyStopped, ""},
		{"START with BATCH_LIMIT", startingLimited, codeStartTimeout, "REASON"},
		{"START with BATCH_LIMIT", startingLimited, "any other", "REASON"},
		{"CHECK", checking, codeCheckTimeout, "REASON"},
		{"CHECK", checking, "any other", "REASON"},
		{"`mg.kafka_set_stream_offset`", settingOffset, codeStreamRunning, ""},
		{"`mg.kafka_set_stream_offset`", settingOffset, "any other", "REASON"},
	} {
		e := executor{engine: sample{}}
		err := e.failed(t.Context(), "NAME", c.what, &graphmill.Error{Kind: graphmill.KindConflict, Code: c.code, Text: c.text})
		code := "`" + c.code + "`"
		if c.code == "any other" {
			code = c.code
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", c.of, code, err)
	}
	b.WriteString("\n")
	pages.Hold(t, statementsPage, "errors", "./api/query", b.String(), *update)
}
