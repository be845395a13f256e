package wasmhost_test

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/wasmhost"
	"github.com/graphmill/graphmill/wasmhost/frame/frametest"
	. "github.com/graphmill/graphmill/wasmhost/wasmtest"
)

// emptyAnswer answers every batch with no statements.
var emptyAnswer = frametest.EncodeResponse(graphmill.Output{})

// TestCase22LoopsEndAtTheirLimit is about every way to run without end.
func TestCase22LoopsEndAtTheirLimit(t *testing.T) {
	emitted := func(f Func, body ...[]byte) Func { f.Body = Cat(body...); return f }
	helper := Func{Params: nil, Results: nil}
	for name, m := range map[string]Module{
		"empty loop":        Guest(Cat(Forever(), I64Const(0))),
		"loop in a loop":    Guest(Cat(Forever(Forever()), I64Const(0))),
		"tail calls":        Guest(Cat(Call(3), I64Const(0)), emitted(helper, ReturnCall(3))),
		"mutual tail calls": Guest(Cat(Call(3), I64Const(0)), emitted(helper, ReturnCall(4)), emitted(helper, ReturnCall(3))),
		"memory.fill":       Guest(Cat(Forever(I32Const(0), I32Const(7), I32Const(1<<20), MemoryFill), I64Const(0))),
		"memory.grow":       Guest(Cat(Forever(I32Const(0), MemoryGrow, Drop), I64Const(0))),
		// Neither the loop's body nor the function that it calls is short: the
		// price of a region follows from its length.
		"long straight code": Guest(Cat(Forever(Call(3)), I64Const(0)), emitted(helper, repeat(100_000, I32Const(1), I32Const(3), []byte{0x6d}, Drop))),
	} {
		t.Run(name, func(t *testing.T) {
			i := start(t, m, wasmhost.InstanceConfig{TimeLimit: soon})
			began := time.Now()
			f := fault(t, i, 1)
			require.Equal(t, "deadline", f.Code)
			require.Equal(t, graphmill.FaultMessage, f.Class)
			require.Equal(t, "the module was stopped after its time limit of 50ms", f.Text)
			require.GreaterOrEqual(t, time.Since(began), soon)
			require.Less(t, time.Since(began), time.Minute)
		})
	}
}

func repeat(n int, parts ...[]byte) []byte {
	one := Cat(parts...)
	var b []byte
	for range n / len(parts) {
		b = append(b, one...)
	}
	return b
}

// TestCase22OthersGoOnDuringALoop has a module that loops for ever, while the
// collector runs and another module works.
func TestCase22OthersGoOnDuringALoop(t *testing.T) {
	h := newHost(t, wasmhost.Config{})
	endless := instantiate(t, load(t, h, Guest(Cat(Forever(), I64Const(0))).Bytes()), wasmhost.InstanceConfig{TimeLimit: time.Minute})
	honest := instantiate(t, load(t, h, Answer(emptyAnswer).Bytes()), wasmhost.InstanceConfig{})

	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := endless.Transform(ctx, graphmill.SourceKafka, batch(1))
		ended <- err
	}()
	for range 20 {
		runtime.GC() // without metering it would wait for the loop, and all else for it
		_, err := honest.Transform(t.Context(), graphmill.SourceKafka, batch(100))
		require.NoError(t, err)
	}
	select {
	case err := <-ended:
		t.Fatal("the loop should still run: ", err)
	default:
	}
	cancel()
	err := <-ended
	require.ErrorIs(t, err, context.Canceled)
	var f *graphmill.Fault
	require.NotErrorAs(t, err, &f, "a cancelled call is no fault of the message")
}

func TestRecursionTraps(t *testing.T) {
	i := start(t, Guest(Cat(Call(3), I64Const(0)), Func{Body: Cat(Call(3), I32Const(0), Drop)}), wasmhost.InstanceConfig{TimeLimit: time.Minute})
	f := fault(t, i, 1)
	require.Equal(t, "trap", f.Code)
	require.Contains(t, f.Text, "stack overflow")
}

func TestCase23MemoryBombStopsAtItsLimit(t *testing.T) {
	grow := Cat(
		Forever(I32Const(1), MemoryGrow, I32Const(-1), []byte{0x46}, // grow by a page; equal to -1?
			[]byte{0x04, 0x40}, Unreachable, End),
		I64Const(0))
	i := start(t, Guest(grow), wasmhost.InstanceConfig{MemoryLimit: 8 << 20})
	f := fault(t, i, 1)
	require.Equal(t, "out_of_memory", f.Code)
	require.Contains(t, f.Text, "unreachable")
	require.Contains(t, f.Text, "limit of 8 MiB")
	require.Contains(t, f.Next, "MEMORY_LIMIT")
	require.EqualValues(t, 8<<20, i.Memory())
}

// TestLimitsOfStreamsDiffer has one module under two limits at once.
func TestLimitsOfStreamsDiffer(t *testing.T) {
	grow := Cat(I32Const(64), MemoryGrow, Drop, I64Const(DataAt<<32|int64(len(emptyAnswer))))
	m := Guest(grow)
	m.Data = string(emptyAnswer)
	module := load(t, newHost(t, wasmhost.Config{}), m.Bytes())
	small := instantiate(t, module, wasmhost.InstanceConfig{MemoryLimit: 2 << 20})
	large := instantiate(t, module, wasmhost.InstanceConfig{MemoryLimit: 6 << 20})
	for _, i := range []*wasmhost.Instance{small, large} {
		_, err := i.Transform(t.Context(), graphmill.SourceKafka, batch(1))
		require.NoError(t, err)
	}
	require.EqualValues(t, 1<<20, small.Memory())
	require.EqualValues(t, 5<<20, large.Memory())
}

func TestTableBombStopsAtItsLimit(t *testing.T) {
	m := Guest(Cat(
		Forever([]byte{0xd0, 0x70}, I32Const(1000), []byte{0xfc, 15, 0}, // ref.null func; table.grow 0
			I32Const(-1), []byte{0x46}, []byte{0x04, 0x40}, Unreachable, End),
		I64Const(0)))
	m.Table = []byte{0x70, 0, 1}
	i := start(t, m, wasmhost.InstanceConfig{TimeLimit: time.Minute})
	require.Equal(t, "trap", fault(t, i, 1).Code, "table.grow must fail long before the time limit")
}

func TestFilesAndExitOfAModule(t *testing.T) {
	wasi := func(name string, params ...byte) Import {
		return Import{Module: "wasi_snapshot_preview1", Name: name, Params: params, Results: []byte{I32}}
	}
	exit := Module{
		Imports: []Import{{Module: "wasi_snapshot_preview1", Name: "proc_exit", Params: []byte{I32}}},
		Funcs:   []Func{Marker(), Alloc(BufferAt), Transform(I32Const(0), Call(0), Unreachable)},
		Memory:  []byte{0, 16},
	}
	i := start(t, exit, wasmhost.InstanceConfig{})
	f := fault(t, i, 1)
	require.Equal(t, "trap", f.Code)
	require.Equal(t, "the module ended itself with exit status 0", f.Text)
	require.Equal(t, "instance_unusable", fault(t, i, 1).Code)

	// path_open is there, and answers EBADF (8), which this module traps on.
	open := Module{
		Imports: []Import{wasi("path_open", I32, I32, I32, I32, I32, I64, I64, I32, I32)},
		Funcs: []Func{Marker(), Alloc(BufferAt), Transform(
			I32Const(3), I32Const(0), I32Const(0), I32Const(0), I32Const(0), I64Const(0), I64Const(0), I32Const(0), I32Const(0), Call(0),
			I32Const(8), []byte{0x47, 0x04, 0x40}, Unreachable, End, // not equal: trap
			I64Const(DataAt<<32|int64(len(emptyAnswer))))},
		Memory: []byte{0, 16},
		Data:   string(emptyAnswer),
	}
	_, err := start(t, open, wasmhost.InstanceConfig{}).Transform(t.Context(), graphmill.SourceKafka, batch(1))
	require.NoError(t, err)
}

// TestCase26AnswersThatBreakTheABI is about what a module returns.
func TestCase26AnswersThatBreakTheABI(t *testing.T) {
	result := func(address, length uint32) Module {
		return Guest(I64Const(int64(uint64(address)<<32 | uint64(length))))
	}
	withAlloc := func(address int32) Module {
		m := Guest(I64Const(0))
		m.Funcs[1] = Alloc(address)
		return m
	}
	for name, c := range map[string]struct {
		module Module
		code   string
		text   string
	}{
		"nothing":                   {result(0, 0), "bad_response", "header: the response has 0 bytes"},
		"behind the memory":         {result(0xfffffff0, 64), "bad_response", "outside of its memory"},
		"over the end":              {result(1<<20-10, 28), "bad_response", "outside of its memory"},
		"4 GiB":                     {result(0, 0xffffffff), "over_limit", "the limit is 33554432"},
		"no frame":                  {result(0, 28), "bad_response", "header.magic"},
		"alloc has no memory":       {withAlloc(0), "out_of_memory", "no room for 144 bytes"},
		"alloc is outside":          {withAlloc(-8), "bad_response", "graphmill_alloc(144) returned 0xfffffff8"},
		"alloc is at the end":       {withAlloc(1<<20 - 8), "bad_response", "graphmill_alloc(144)"},
		"alloc is not a multiple":   {withAlloc(1001), "bad_response", "multiple of 8"},
		"statement without a query": {Answer(frametest.BrokenResponses()[14].Frame), "bad_response", ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := fault(t, start(t, c.module, wasmhost.InstanceConfig{}), 1)
			require.Equal(t, graphmill.FaultMessage, f.Class)
			require.Equal(t, c.code, f.Code)
			require.Contains(t, f.Text, c.text)
			require.Equal(t, graphmill.WholeBatch, f.Message)
		})
	}
	for _, broken := range frametest.BrokenResponses() {
		t.Run(broken.Name, func(t *testing.T) {
			f := fault(t, start(t, Answer(broken.Frame), wasmhost.InstanceConfig{}), broken.Messages)
			require.Contains(t, f.Text, broken.Field)
			require.Contains(t, f.Text, broken.Text)
			if strings.HasPrefix(broken.Name, "params_") && broken.Field == "statement[0].params" {
				require.Equal(t, 0, f.Message, "the statement names its message")
			}
		})
	}
}

func TestCursorNamesTheMessage(t *testing.T) {
	// The request is at BufferAt; the cursor is 4 bytes in.
	for name, c := range map[string]struct{ cursor, want int }{
		"message in hand":  {2, 2},
		"before the first": {-1, graphmill.WholeBatch},
		"beyond the batch": {3, graphmill.WholeBatch},
		"far beyond":       {1 << 30, graphmill.WholeBatch},
	} {
		t.Run(name, func(t *testing.T) {
			i := start(t, Guest(Cat(LocalGet(0), I32Const(int32(c.cursor)), I32Store(4), Unreachable)), wasmhost.InstanceConfig{})
			f := fault(t, i, 3)
			require.Equal(t, c.want, f.Message)
			require.Equal(t, "the module trapped: unreachable, in transform", f.Text)
		})
	}
}

func TestSetupFails(t *testing.T) {
	initialize := func(body ...[]byte) Module {
		return Guest(I64Const(0), Func{Export: "_initialize", Body: Cat(body...)})
	}
	configure := func(body ...[]byte) Module {
		return Guest(I64Const(0), Func{Export: "graphmill_configure", Params: []byte{I32, I32}, Results: []byte{I64}, Body: Cat(body...)})
	}
	refusal := configure(I64Const(DataAt<<32 | 26))
	refusal.Data = "the setting q\xc3\xbc is missing"
	outside := configure(I64Const(0x7fffffff<<32 | 24))
	startLoop := Guest(I64Const(0), Func{Body: Forever()})
	startLoop.Start = 3
	noBuffer := configure(I64Const(0))
	noBuffer.Funcs[1] = Alloc(0)

	for name, c := range map[string]struct {
		module     Module
		code, text string
	}{
		"_initialize loops":           {initialize(Forever()), "module_initialize", "start the module: the module was stopped after its time limit of 50ms"},
		"_initialize traps":           {initialize(Unreachable), "module_initialize", "unreachable, in _initialize"},
		"the start function loops":    {startLoop, "module_initialize", "time limit of 50ms"},
		"configure refuses":           {refusal, "module_configure", "the setting qü is missing"},
		"configure says nothing":      {configure(I64Const(DataAt << 32)), "module_configure", "does not say why"},
		"configure loops":             {configure(Forever(), I64Const(0)), "module_configure", "time limit of 50ms"},
		"configure's text is outside": {outside, "module_configure", "outside of its memory"},
		"no buffer for the settings":  {noBuffer, "module_configure", "no room for 8 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			m := load(t, newHost(t, wasmhost.Config{}), c.module.Bytes())
			cfg := wasmhost.InstanceConfig{Function: "transform", TimeLimit: time.Minute}
			if strings.Contains(c.text, "time limit") {
				cfg.TimeLimit = soon
			}
			_, err := m.Instantiate(t.Context(), cfg)
			var f *graphmill.Fault
			require.ErrorAs(t, err, &f)
			require.Equal(t, graphmill.FaultSetup, f.Class)
			require.Equal(t, c.code, f.Code)
			require.Contains(t, f.Text, c.text)
		})
	}
}

// TestImportAsExport exports a function of the host as graphmill_alloc.
func TestImportAsExport(t *testing.T) {
	m := Module{
		Imports: []Import{{Module: "wasi_snapshot_preview1", Name: "fd_close", Params: []byte{I32}, Results: []byte{I32}}},
		Funcs:   []Func{Marker(), Transform(I64Const(DataAt<<32 | int64(len(emptyAnswer))))},
		Exports: [][]byte{Cat(Name("graphmill_alloc"), []byte{0, 0})},
		Data:    string(emptyAnswer),
	}
	_, err := start(t, m, wasmhost.InstanceConfig{}).Transform(t.Context(), graphmill.SourceKafka, batch(1))
	require.NoError(t, err, "EBADF happens to be an address")
}

func TestLargeResponses(t *testing.T) {
	m := load(t, newHost(t, wasmhost.Config{}), Answer(emptyAnswer).Bytes())
	i := instantiate(t, m, wasmhost.InstanceConfig{ResponseLimit: int64(len(emptyAnswer))})
	_, err := i.Transform(t.Context(), graphmill.SourceKafka, batch(1))
	require.NoError(t, err)

	big := Answer(append(emptyAnswer, 0))
	j := instantiate(t, load(t, newHost(t, wasmhost.Config{}), big.Bytes()), wasmhost.InstanceConfig{ResponseLimit: int64(len(emptyAnswer))})
	require.Equal(t, "over_limit", fault(t, j, 1).Code)
}

func TestBatchThatDoesNotFit(t *testing.T) {
	i := start(t, Answer(emptyAnswer), wasmhost.InstanceConfig{MemoryLimit: 1 << 20})
	messages := []graphmill.Message{{Topic: "t", Payload: make([]byte, 2<<20)}}
	_, err := i.Transform(t.Context(), graphmill.SourceKafka, messages)
	var f *graphmill.Fault
	require.ErrorAs(t, err, &f)
	require.Equal(t, "out_of_memory", f.Code)
}
