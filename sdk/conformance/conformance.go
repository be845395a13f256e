// Package conformance proves that an SDK keeps the transformation ABI.
//
// The SDK provides one module with the transformations that sdk/CONFORMANCE.md
// lists, written with the SDK's own means. Run loads it as a server would and
// checks each of them in a subtest of its name:
//
//	func TestConformance(t *testing.T) {
//		conformance.Run(t, wasm)
//	}
//
// The module may be in any language. Its exports:
//
//	echo        one statement a message, with everything that the message holds
//	values      every type of parameter value
//	positional  values by position
//	texts       query texts made per message, each distinct one sent once
//	mixed       several statements a message, whose order counts
//	filter      messages that give nothing
//	fail        failures of single messages, and which are worth trying again
//	abort       a handler of whole batches that stops in the middle
//	batch       statements and failures of the batch as a whole
//	panic       the end of a program: trap or failure, of the right message
//	log         levels and text
//	settings    what graphmill_configure was given, and what it refuses
//	big         answers that make memory grow
package conformance

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/wasmhost"
)

// Case is one check of the kit.
type Case struct {
	Name     string // of the subtest, and of the transformation
	Function string // where it is another name than the transformation's
	Rule     string // what it checks, told where it fails
	Run      func(t *testing.T, m *Module)
}

// function is the transformation that the case calls.
func (c *Case) function() string {
	if c.Function != "" {
		return c.Function
	}
	return c.Name
}

// Cases returns all checks, in the order of sdk/CONFORMANCE.md.
func Cases() []Case {
	return []Case{
		{Name: "echo", Run: checkEcho,
			Rule: "a guest sees everything that a message holds; null and empty stay apart, headers keep their order and duplicates"},
		{Name: "echo_nothing", Function: "echo", Run: checkEmptyBatch,
			Rule: "a batch without messages gives an empty response"},
		{Name: "echo_many_batches", Function: "echo", Run: checkManyBatches,
			Rule: "memory stays flat over many batches"},
		{Name: "values", Run: checkValues,
			Rule: "each type of parameter value comes out as the table of values says"},
		{Name: "positional", Run: checkPositional,
			Rule: "a query with names takes its values by position, and stands once"},
		{Name: "texts", Run: checkTexts,
			Rule: "a query text made per message stands once in a response, and none of an earlier batch comes again"},
		{Name: "mixed", Run: checkMixed,
			Rule: "statements run in the order in which a message made them"},
		{Name: "filter", Run: checkFilter,
			Rule: "a message may give nothing"},
		{Name: "fail", Run: checkFail,
			Rule: "a failure concerns its message alone, tells its text, and says whether it is worth retrying"},
		{Name: "abort", Run: checkAbort,
			Rule: "a handler that stops in the middle names the message, and nothing else of the response counts"},
		{Name: "batch", Run: checkBatch,
			Rule: "a statement or a failure may be one of the batch as a whole"},
		{Name: "panic", Run: checkPanic,
			Rule: "the end of a program is a trap whose cursor names the message, or a failure of that message"},
		{Name: "log", Run: checkLog,
			Rule: "a line of the log has its level and its text"},
		{Name: "settings", Run: checkSettings,
			Rule: "graphmill_configure gets the settings of the stream"},
		{Name: "settings_refused", Function: "settings", Run: checkSettingsRefused,
			Rule: "graphmill_configure refuses settings with a text"},
		{Name: "big", Run: checkBig,
			Rule: "an answer of megabytes comes through, and a small one after it"},
	}
}

// compileTime is how long a module may be compiled here: the race detector makes
// that slow, and how long it takes is no matter of the contract.
const compileTime = 10 * time.Minute

// Run checks a module.
func Run(t *testing.T, wasm []byte) {
	host, err := wasmhost.New(t.Context(), wasmhost.Config{Limits: wasmhost.Limits{CompileTime: compileTime}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, host.Close(context.Background())) })

	_, err = host.Check(t.Context(), wasm)
	require.NoError(t, err, "the module is not accepted")
	module, err := host.Load(t.Context(), wasm)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, module.Close(context.Background())) })

	for _, c := range Cases() {
		t.Run(c.Name, func(t *testing.T) {
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("the rule: %s (sdk/CONFORMANCE.md, %s)", c.Rule, c.function())
				}
			})
			require.Contains(t, module.Transformations(), c.function(), "the module does not export the transformation")
			c.Run(t, &Module{module: module, function: c.function()})
		})
	}
}

// Module is what a case runs: one transformation of the module.
type Module struct {
	module   *wasmhost.Module
	function string
}

// stream is the stream's name in all cases, beyond ASCII on purpose.
const stream = "conformance-ä"

func (m *Module) config(settings map[string]string) wasmhost.InstanceConfig {
	return wasmhost.InstanceConfig{
		Function: m.function, Stream: stream, Settings: settings,
		Log: func(slog.Level, string) {},
	}
}

// start makes an instance that is closed with the test.
func (m *Module) start(t *testing.T, cfg wasmhost.InstanceConfig) *wasmhost.Instance {
	t.Helper()
	i, err := m.module.Instantiate(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, i.Close(context.Background())) })
	return i
}

// transform runs one batch in a fresh instance.
func (m *Module) transform(t *testing.T, messages []graphmill.Message) graphmill.Output {
	t.Helper()
	out, err := m.start(t, m.config(nil)).Transform(t.Context(), graphmill.SourceKafka, messages)
	require.NoError(t, err)
	return out
}

// texts makes messages with these payloads.
func texts(payloads ...string) []graphmill.Message {
	messages := make([]graphmill.Message, len(payloads))
	for i, p := range payloads {
		messages[i] = graphmill.Message{Topic: "t", Offset: int64(i), Payload: []byte(p), BrokerTime: -1}
	}
	return messages
}

// expect compares statements with lines of the form
//
//	MESSAGE QUERY PARAMETERS
//
// with the parameters in the JSON form of graphmill.AppendValue.
func expect(t *testing.T, statements []graphmill.Statement, want ...string) {
	t.Helper()
	got := make([]string, len(statements))
	for i := range statements {
		s := &statements[i]
		parameters, err := graphmill.MarshalValue(s.Parameters())
		require.NoError(t, err)
		got[i] = fmt.Sprintf("%d %s %s", s.Message, s.Query.Text, parameters)
	}
	require.Equal(t, strings.Join(want, "\n"), strings.Join(got, "\n"))
}
