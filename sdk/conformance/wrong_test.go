package conformance

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/wasmhost/frame/frametest"
	"github.com/graphmill/graphmill/wasmhost/wasmtest"
)

// wrongGuest makes TestWrongGuest fail: it is run by TestKitCanFail, in a process
// of its own.
const wrongGuest = "GRAPHMILL_TEST_WRONG_GUEST"

// statements makes an output of one statement for each query, of message 0, 1, ...
func statements(queries ...*graphmill.Query) graphmill.Output {
	var out graphmill.Output
	for i, q := range queries {
		out.Statements = append(out.Statements, graphmill.Statement{Query: q, Message: i})
	}
	return out
}

func query(text string) *graphmill.Query { return &graphmill.Query{Text: text} }

// wrongAnswers are right but for one thing each: what a transformation answers,
// whatever it is asked.
func wrongAnswers() map[string]graphmill.Output {
	first, second := "MATCH (n:Größe) RETURN n", "MATCH (m) RETURN m"
	n := func(message int, text string, v int64) graphmill.Statement {
		return graphmill.Statement{Query: query(text), Message: message, Params: map[string]any{"n": v}}
	}
	index := func(i int) graphmill.Statement {
		return graphmill.Statement{Query: query("KEEP"), Message: i, Params: map[string]any{"index": int64(i)}}
	}
	ok := query("OK")
	return map[string]graphmill.Output{
		"echo":       statements(query("ECHO")),                                                 // without what the message holds
		"values":     statements(query("VALUES"), query("VALUES")),                              // without values
		"positional": statements(query("POSITIONAL"), query("POSITIONAL"), query("POSITIONAL")), // no names
		"texts":      statements(query(first), query(second), query(first), query(first)),       // each text anew
		"mixed":      {Statements: []graphmill.Statement{n(0, "FIRST", 1), n(0, "FIRST", 3), n(0, "SECOND", 2)}},
		"filter":     {Statements: []graphmill.Statement{index(0), index(2)}}, // the other half
		"fail": {
			Statements: []graphmill.Statement{{Query: ok, Message: 0}, {Query: ok, Message: 2}, {Query: ok, Message: 4}},
			Failures:   []graphmill.Failure{{Message: 1, Text: "kein Schlüssel"}, {Message: 3, Text: "try later"}}, // not worth retrying
		},
		"abort":    {Failures: []graphmill.Failure{{Message: 0, Text: "kein Schlüssel", Aborted: true}}}, // another message
		"batch":    {Statements: []graphmill.Statement{{Query: query("BATCH"), Message: 0, Params: map[string]any{"bytes": int64(8), "messages": int64(3)}}}},
		"panic":    statements(ok, ok, ok, ok, ok), // goes on
		"log":      {},                             // no line
		"settings": {Statements: []graphmill.Statement{{Query: query("SETTINGS"), Message: 0}}},
		"big":      {Statements: []graphmill.Statement{{Query: query("BIG"), Params: map[string]any{"data": "x"}}}}, // always short
	}
}

// wrongModule answers as wrongAnswers says, and takes any settings.
func wrongModule() []byte {
	m := wasmtest.Module{Funcs: []wasmtest.Func{wasmtest.Marker(), wasmtest.Alloc(wasmtest.BufferAt)}, Memory: []byte{1, 64, 64}}
	for name, out := range wrongAnswers() {
		response := frametest.EncodeResponse(out)
		at := int64(wasmtest.DataAt + len(m.Data))
		m.Data += string(response) + strings.Repeat("\x00", -len(response)&7)
		f := wasmtest.Transform(wasmtest.I64Const(at<<32 | int64(len(response))))
		f.Export = name
		m.Funcs = append(m.Funcs, f)
	}
	return m.Bytes()
}

func TestWrongGuest(t *testing.T) {
	switch os.Getenv(wrongGuest) {
	case "":
		t.Skip("it fails, and is run by TestKitCanFail")
	case "empty":
		Run(t, wasmtest.Guest(wasmtest.I64Const(0)).Bytes())
	default:
		Run(t, wrongModule())
	}
}

// TestKitCanFail runs the kit on guests that keep no rule: each case must fail, and
// say which rule it is about.
func TestKitCanFail(t *testing.T) {
	failures := func(guest string) string {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestWrongGuest$", "-test.v")
		cmd.Env = append(os.Environ(), wrongGuest+"="+guest)
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit, "%s", out)
		return string(out)
	}
	wrong, empty := failures("wrong"), failures("empty")
	for _, c := range Cases() {
		t.Run(c.Name, func(t *testing.T) {
			require.NotEmpty(t, c.Rule)
			for guest, out := range map[string]string{"wrong": wrong, "empty": empty} {
				require.Contains(t, out, "--- FAIL: TestWrongGuest/"+c.Name+" ", guest)
				require.Contains(t, out, "the rule: "+c.Rule+" (sdk/CONFORMANCE.md, "+c.function()+")", guest)
			}
			require.Contains(t, empty, "the module does not export the transformation")
		})
	}
	require.NotContains(t, wrong, "is not accepted")
}
