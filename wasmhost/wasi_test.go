package wasmhost_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/wasmhost"
	. "github.com/graphmill/graphmill/wasmhost/wasmtest"
)

// TestWASIAnswers calls functions of WASI with arguments that are wrong, or that
// ask for what there is not, and looks at the error number.
func TestWASIAnswers(t *testing.T) {
	const (
		success, badF, outside, inval, noSys = 0, 8, 21, 28, 52

		end     = 1 << 20 // of the memory
		free    = 64 << 10
		nowhere = 1 << 30
	)
	i := func(v int32) arg { return arg{I32, I32Const(v)} }
	l := func(v int64) arg { return arg{I64, I64Const(v)} }
	for name, c := range map[string]struct {
		function string
		args     []arg
		errno    int
	}{
		"args":                     {"args_sizes_get", []arg{i(free), i(free + 4)}, success},
		"args, outside":            {"args_sizes_get", []arg{i(free), i(end - 3)}, outside},
		"environment":              {"environ_get", []arg{i(nowhere), i(nowhere)}, success},
		"environment, outside":     {"environ_sizes_get", []arg{i(nowhere), i(free)}, outside},
		"wall clock":               {"clock_time_get", []arg{i(0), l(0), i(free)}, success},
		"time of the process":      {"clock_time_get", []arg{i(2), l(0), i(free)}, success},
		"unknown clock":            {"clock_time_get", []arg{i(4), l(0), i(free)}, inval},
		"clock, outside":           {"clock_time_get", []arg{i(1), l(0), i(end - 7)}, outside},
		"resolution":               {"clock_res_get", []arg{i(1), i(free)}, success},
		"resolution, unknown":      {"clock_res_get", []arg{i(9), i(free)}, inval},
		"resolution, outside":      {"clock_res_get", []arg{i(1), i(nowhere)}, outside},
		"random":                   {"random_get", []arg{i(free), i(300_000)}, success},
		"random, over the end":     {"random_get", []arg{i(end - 10), i(11)}, outside},
		"random, 4 GiB":            {"random_get", []arg{i(free), i(-1)}, outside},
		"write, no vectors":        {"fd_write", []arg{i(1), i(free), i(0), i(free)}, success},
		"write to a file":          {"fd_write", []arg{i(3), i(free), i(0), i(free)}, badF},
		"write to standard input":  {"fd_write", []arg{i(0), i(free), i(0), i(free)}, badF},
		"write, 2^32-1 vectors":    {"fd_write", []arg{i(1), i(free), i(-1), i(free)}, inval},
		"write, vectors outside":   {"fd_write", []arg{i(1), i(end - 8), i(2), i(free)}, outside},
		"write, count outside":     {"fd_write", []arg{i(1), i(free), i(1), i(end - 2)}, outside},
		"sleep":                    {"poll_oneoff", []arg{i(free), i(free + 100), i(1), i(free + 200)}, success},
		"sleep, nothing":           {"poll_oneoff", []arg{i(free), i(free), i(0), i(free)}, inval},
		"sleep, 2^32-1":            {"poll_oneoff", []arg{i(free), i(free), i(-1), i(free)}, inval},
		"sleep, outside":           {"poll_oneoff", []arg{i(end - 47), i(free), i(1), i(free)}, outside},
		"sleep, events outside":    {"poll_oneoff", []arg{i(free), i(end - 31), i(1), i(free)}, outside},
		"sleep, count outside":     {"poll_oneoff", []arg{i(free), i(free), i(1), i(end - 3)}, outside},
		"yield":                    {"sched_yield", nil, success},
		"standard output is there": {"fd_fdstat_get", []arg{i(1), i(free)}, success},
		"file is not":              {"fd_fdstat_get", []arg{i(3), i(free)}, badF},
		"stat, outside":            {"fd_fdstat_get", []arg{i(1), i(end - 23)}, outside},
		"file's stat":              {"fd_filestat_get", []arg{i(3), i(free)}, badF},
		"file's stat, outside":     {"fd_filestat_get", []arg{i(2), i(end - 63)}, outside},
		"no folder is open":        {"fd_prestat_get", []arg{i(3), i(free)}, badF},
		"read standard input":      {"fd_read", []arg{i(0), i(free), i(1), i(free)}, badF},
		"signal":                   {"proc_raise", []arg{i(9)}, noSys},
		"socket":                   {"sock_accept", []arg{i(3), i(0), i(free)}, badF},
	} {
		t.Run(name, func(t *testing.T) {
			im := Import{Module: "wasi_snapshot_preview1", Name: c.function, Results: []byte{I32}}
			var push []byte
			for _, a := range c.args {
				im.Params = append(im.Params, a.typ)
				push = append(push, a.push...)
			}
			// The answer goes to the cursor, and a trap shows it.
			m := Module{
				Imports: []Import{im},
				Funcs:   []Func{Marker(), Alloc(BufferAt), Transform(LocalGet(0), push, Call(0), I32Store(4), Unreachable)},
				Memory:  []byte{0, 16},
			}
			f := fault(t, start(t, m, wasmhost.InstanceConfig{}), 100)
			require.Contains(t, f.Text, "unreachable")
			require.Equal(t, c.errno, f.Message)
		})
	}
}

// arg is a constant argument.
type arg struct {
	typ  byte
	push []byte
}

// TestHostCallsLookAtTheClock is about host functions that do much for little
// fuel.
func TestHostCallsLookAtTheClock(t *testing.T) {
	for name, m := range map[string]Module{
		"random": {
			Imports: []Import{{Module: "wasi_snapshot_preview1", Name: "random_get", Params: []byte{I32, I32}, Results: []byte{I32}}},
			Funcs:   []Func{Marker(), Alloc(BufferAt), Transform(Forever(I32Const(0), I32Const(1<<20), Call(0), Drop), I64Const(0))},
			Memory:  []byte{0, 16},
		},
		"log": {
			Imports: []Import{{Module: "graphmill", Name: "log", Params: []byte{I32, I32, I32}}},
			Funcs:   []Func{Marker(), Alloc(BufferAt), Transform(Forever(I32Const(1), I32Const(0), I32Const(1<<20), Call(0)), I64Const(0))},
			Memory:  []byte{0, 16},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var log logLines
			i := start(t, m, wasmhost.InstanceConfig{TimeLimit: soon, Log: log.add})
			require.Equal(t, "deadline", fault(t, i, 1).Code)
			require.LessOrEqual(t, len(log.all()), 100)
		})
	}
}

func TestLogOutsideOfMemoryTraps(t *testing.T) {
	m := Module{
		Imports: []Import{{Module: "graphmill", Name: "log", Params: []byte{I32, I32, I32}}},
		Funcs:   []Func{Marker(), Alloc(BufferAt), Transform(I32Const(1), I32Const(1<<20-1), I32Const(2), Call(0), I64Const(0))},
		Memory:  []byte{0, 16},
	}
	_, err := start(t, m, wasmhost.InstanceConfig{}).Transform(t.Context(), graphmill.SourceKafka, batch(1))
	require.EqualError(t, err, "trap: graphmill.log was given a text outside of the memory")
}
