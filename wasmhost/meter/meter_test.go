package meter_test

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/graphmill/graphmill/wasmhost/meter"
	. "github.com/graphmill/graphmill/wasmhost/wasmtest"
)

// function is a module of one function "f" without parameters and results.
func function(body ...[]byte) Module {
	return Module{Funcs: []Func{{Export: "f", Body: Cat(body...)}}}
}

// rewrite parses and rewrites.
func rewrite(wasm []byte, limits meter.Limits) ([]byte, error) {
	m, err := meter.Parse(wasm, limits)
	if err != nil {
		return nil, err
	}
	r, err := m.Rewrite()
	return r.Wasm, err
}

// code wraps the body of a function: locals, instructions and end as given.
func code(body ...[]byte) []byte {
	b := Cat(body...)
	return Cat([]byte(Preamble),
		Section(SectionType, Vector([]byte{0x60, 0, 0})),
		Section(SectionFunction, Vector([]byte{0})),
		Section(SectionCode, Vector(Cat(U32(uint32(len(b))), b))))
}

func repeat(n int, parts ...[]byte) []byte { return bytes.Repeat(Cat(parts...), n) }

// TestCountsAreBounded is about modules that are small, or not large, and cost a
// compiler without limits seconds to hours and gigabytes.
func TestCountsAreBounded(t *testing.T) {
	thousand := repeat(1000, []byte{I32})
	wide := func(body []byte) []byte { // function 0 with a type of 1,000 parameters and results
		return Cat([]byte(Preamble),
			Section(SectionType, Vector(Cat([]byte{0x60}, U32(1000), thousand, U32(1000), thousand), []byte{0x60, 0, 0})),
			Section(SectionFunction, Vector([]byte{0})),
			Section(SectionCode, Vector(Cat(U32(uint32(len(body))), body))))
	}
	manyFunctions := func(n int, typ, body []byte) []byte {
		return Cat([]byte(Preamble),
			Section(SectionType, Vector(typ)),
			Section(SectionFunction, U32(uint32(n)), bytes.Repeat([]byte{0}, n)),
			Section(SectionCode, U32(uint32(n)), bytes.Repeat(Cat(U32(uint32(len(body))), body), n)))
	}
	sections := func(s ...[]byte) []byte { return Cat([]byte(Preamble), Cat(s...)) }

	for name, c := range map[string]struct {
		wasm   []byte
		reason meter.Reason
		text   string
	}{
		"2^32-1 local variables":        {code([]byte{1}, U32(1<<32-1), []byte{I32}, End), meter.OverLimit, "more than 50000 local variables"},
		"local variables in groups":     {code(U32(100), repeat(100, U32(1000), []byte{I64}), End), meter.OverLimit, "more than 50000 local variables"},
		"local variables that overflow": {code(U32(3), repeat(3, U32(1<<31), []byte{I64}), End), meter.OverLimit, "more than 50000 local variables"},
		"local variables of all":        {manyFunctions(100, []byte{0x60, 0, 0}, Cat(U32(1), U32(50_000), []byte{I64}, End)), meter.OverLimit, "the limit is 4000000"},
		"parameters of all":             {manyFunctions(5000, Cat([]byte{0x60}, U32(1000), thousand, U32(0)), Cat(U32(0), End)), meter.OverLimit, "the limit is 4000000"},
		"2^31-1 functions":              {sections(Section(SectionType, Vector([]byte{0x60, 0, 0})), Section(SectionFunction, U32(1<<31-1))), meter.Truncated, "2147483647 functions are announced"},
		"2^32-1 types":                  {sections(Section(SectionType, U32(1<<32-1))), meter.Truncated, "4294967295 types"},
		"2^32-1 imports":                {sections(Section(SectionImport, U32(1<<32-1))), meter.Truncated, "4294967295 imports"},
		"2^32-1 exports":                {sections(Section(SectionExport, U32(1<<32-1))), meter.Truncated, "4294967295 exports"},
		"2^32-1 tables":                 {sections(Section(SectionTable, U32(1<<32-1))), meter.Truncated, "4294967295 tables"},
		"2^32-1 element segments":       {sections(Section(SectionElement, U32(1<<32-1))), meter.Truncated, "4294967295 element segments"},
		"2^32-1 data segments":          {sections(Section(SectionData, U32(1<<32-1))), meter.Truncated, "4294967295 data segments"},
		"section of 4 GiB":              {sections([]byte{1}, U32(1<<32-1)), meter.Truncated, "4294967295 bytes are announced"},
		"two memories":                  {sections(Section(SectionMemory, Vector([]byte{0, 1}, []byte{0, 1}))), meter.OverLimit, "2 memories"},
		"table of 2^32-1":               {sections(Section(SectionTable, Vector(Cat([]byte{0x70, 0}, U32(1<<32-1))))), meter.OverLimit, "the limit is 100000"},
		"many tables":                   {sections(Section(SectionTable, Vector(bytes.Split(repeat(17, []byte{0x70, 0, 1, '|'}), []byte{'|'})[:17]...))), meter.OverLimit, "17 tables, the limit is 16"},
		"type of 1,001 parameters":      {sections(Section(SectionType, Vector(Cat([]byte{0x60}, U32(1001), thousand, []byte{I32, 0})))), meter.OverLimit, "1001 parameters"},
		"body over 1 MiB":               {code([]byte{0}, repeat(1<<20, []byte{0x01}), End), meter.OverLimit, "the limit is 1048576"},
		"nested blocks":                 {code([]byte{0}, repeat(5001, []byte{0x02, 0x40}), repeat(5001, End), End), meter.OverLimit, "more than 5000 deep"},
		"br_table of 10,001":            {code([]byte{0}, I32Const(0), []byte{0x0e}, U32(10_001), bytes.Repeat([]byte{0}, 10_002), End), meter.OverLimit, "10001 targets"},
		"br_table of 2^32-1":            {code([]byte{0}, I32Const(0), []byte{0x0e}, U32(1<<32-1), End), meter.Truncated, "4294967295 targets"},
		"calls that pass 1,000 values":  {wide(Cat([]byte{0}, repeat(600, Call(0)), End)), meter.OverLimit, "more than 1000000 values passed"},
		"blocks that pass 1,000 values": {wide(Cat([]byte{0}, repeat(600, []byte{0x02, 0}, End), End)), meter.OverLimit, "more than 1000000 values passed"},
		"br_table that passes 1,000":    {wide(Cat([]byte{0}, []byte{0x0e}, U32(1000), bytes.Repeat([]byte{0}, 1001), End)), meter.OverLimit, "more than 1000000 values passed"},
		"blocks one after another":      {code([]byte{0}, repeat(30_001, []byte{0x02, 0x40}, End), End), meter.OverLimit, "more than 30000 branches"},
		"loops one after another":       {code([]byte{0}, repeat(5_001, Loop()), End), meter.OverLimit, "more than 30000 branches"},
		"branches":                      {code([]byte{0}, repeat(15_001, I32Const(0), BrIf(0)), End), meter.OverLimit, "more than 30000 branches"},
		"targets of br_tables":          {code([]byte{0}, repeat(4, I32Const(0), []byte{0x0e}, U32(9_999), make([]byte, 10_000)), End), meter.OverLimit, "more than 30000 branches"},
		"loads":                         {code([]byte{0}, I32Const(0), repeat(200_001, []byte{0x28, 0, 0}), Drop, End), meter.OverLimit, "more than 200000 accesses"},
		"divisions":                     {code([]byte{0}, I32Const(1), repeat(200_001, I32Const(1), []byte{0x6d}), Drop, End), meter.OverLimit, "more than 200000 accesses"},
		"elements of a segment":         {sections(Section(SectionElement, Vector(Cat([]byte{1, 0}, U32(100_001), make([]byte, 100_001))))), meter.OverLimit, "100001 elements"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := rewrite(c.wasm, meter.DefaultLimits())
			var e *meter.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, c.reason, e.Reason, e.Text)
			require.Contains(t, e.Text, c.text)
		})
	}
}

func TestLimitsWithDefaults(t *testing.T) {
	require.Equal(t, meter.DefaultLimits(), meter.Limits{}.WithDefaults(), "no field is forgotten")
	l := meter.Limits{Body: 5}.WithDefaults()
	require.Equal(t, 5, l.Body)
	require.Equal(t, meter.DefaultLimits().Locals, l.Locals)
}

// TestWhatIsNotSound is about modules that could be understood in two ways, or
// that reach for what the rewriting adds.
func TestWhatIsNotSound(t *testing.T) {
	for name, c := range map[string]struct {
		wasm []byte
		text string
	}{
		"fuel is read":                     {function(GlobalGet(0), Drop).Bytes(), "there is no global 0"},
		"fuel is written":                  {function(I64Const(1), GlobalSet(0)).Bytes(), "there is no global 0"},
		"yield is called":                  {function(Call(1)).Bytes(), "there is no function 1"},
		"yield's type is used":             {function(I32Const(0), []byte{0x11, 1, 0}).Bytes(), "there is no type 1"},
		"the local variable for fuel":      {function(LocalGet(0), Drop).Bytes(), "there is no local variable 0"},
		"a block's type is yield's":        {function([]byte{0x02, 1}, End).Bytes(), "there is no type 1"},
		"branch beyond the function":       {function(Br(1)).Bytes(), "there is no block 1"},
		"threads":                          {function([]byte{0xfe, 0x03, 0x00}).Bytes(), "0xfe"},
		"exceptions":                       {function([]byte{0x1f, 0x40, 0}, End).Bytes(), "0x1f"},
		"typed references":                 {function([]byte{0x14, 0}).Bytes(), "0x14"},
		"long form of 0xfc":                {function(I32Const(0), I32Const(0), I32Const(0), []byte{0xfc, 0x8b, 0x00, 0x00}).Bytes(), "0xfc 0x8b"},
		"long form of 0xfd":                {function([]byte{0xfd, 0x8c, 0x00}).Bytes(), "0xfd 0x8c"},
		"long form of a number":            {code([]byte{0x80, 0x80, 0x80, 0x80, 0x80, 0x00}, End), "more than 32 bits"},
		"number beyond 32 bits":            {code([]byte{0xff, 0xff, 0xff, 0xff, 0x7f}, End), "more than 32 bits"},
		"instructions after the end":       {code([]byte{0}, End, End), "1 bytes too many"},
		"no end":                           {code([]byte{0}, []byte{0x01}), "ends in the middle"},
		"sections in the wrong order":      {Cat([]byte(Preamble), Section(SectionFunction, Vector()), Section(SectionType, Vector())), "the type section stands at the wrong place"},
		"a section twice":                  {Cat([]byte(Preamble), Section(SectionType, Vector()), Section(SectionType, Vector())), "the type section stands at the wrong place"},
		"tags":                             {Cat([]byte(Preamble), Section(13, Vector())), "section 13 is not known"},
		"bodies without functions":         {Cat([]byte(Preamble), Section(SectionCode, Vector([]byte{2, 0, 0x0b}))), "0 functions are declared, 1 have a body"},
		"shared memory":                    {Cat([]byte(Preamble), Section(SectionMemory, Vector([]byte{3, 1, 1}))), "is shared"},
		"memory of 64 bits":                {Cat([]byte(Preamble), Section(SectionMemory, Vector([]byte{4, 1}))), "64-bit addresses"},
		"table with an initial expression": {Cat([]byte(Preamble), Section(SectionTable, Vector([]byte{0x40, 0, 0x70, 0, 1, 0xd0, 0x70, 0x0b}))), "0x40"},
		"an export twice":                  {Module{Funcs: []Func{{Export: "f"}, {Export: "f"}}}.Bytes(), "the export f stands there twice"},
		"global that uses the fuel":        {Module{Globals: [][]byte{Cat([]byte{I64, 0}, GlobalGet(0), End)}}.Bytes(), "there is no global 0"},
		"name that is no UTF-8":            {Module{Funcs: []Func{{Export: "\xff"}}}.Bytes(), "not valid UTF-8"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := rewrite(c.wasm, meter.DefaultLimits())
			var e *meter.Error
			require.ErrorAs(t, err, &e)
			require.Contains(t, e.Text, c.text)
		})
	}
}

// host runs a metered module; yields counts the calls of yield, and each gives
// slice.
type host struct {
	guest  api.Module
	yields int
}

func run(t *testing.T, wasm []byte, slice uint64) *host {
	t.Helper()
	metered, err := rewrite(wasm, meter.DefaultLimits())
	require.NoError(t, err)
	ctx := t.Context()
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().WithCoreFeatures(api.CoreFeaturesV2|experimental.CoreFeaturesTailCall))
	t.Cleanup(func() { require.NoError(t, r.Close(context.Background())) })
	h := &host{}
	yield := func(context.Context) uint64 { h.yields++; return slice }
	_, err = r.NewHostModuleBuilder(meter.YieldModule).NewFunctionBuilder().WithFunc(yield).Export(meter.YieldName).Instantiate(ctx)
	require.NoError(t, err)
	_, err = r.NewHostModuleBuilder("host").NewFunctionBuilder().WithFunc(func(context.Context, uint32) uint32 { return 7 }).Export("seven").Instantiate(ctx)
	require.NoError(t, err)
	h.guest, err = r.Instantiate(ctx, metered)
	require.NoError(t, err)
	return h
}

// TestMeaningStays calls a module that uses what has to be renumbered: an
// import, calls, a table, an element segment, globals, ref.func, a start
// function, data, bulk instructions, br_table, tail calls.
func TestMeaningStays(t *testing.T) {
	m := Module{
		Imports: []Import{{Module: "host", Name: "seven", Params: []byte{I32}, Results: []byte{I32}}},
		Funcs: []Func{
			{Body: Cat(I32Const(30), GlobalSet(1))},                                                  // 1: start
			{Params: []byte{I32}, Results: []byte{I32}, Body: Cat(LocalGet(0), I32Const(1), I32Add)}, // 2
			{Params: []byte{I32}, Results: []byte{I32}, Body: Cat(LocalGet(0), ReturnCall(2))},       // 3
			{Export: "sum", Params: []byte{I32}, Results: []byte{I32}, Locals: []byte{I32}, Body: Cat( // 4
				Block(Loop(
					LocalGet(0), I32Eqz, BrIf(1),
					LocalGet(1), LocalGet(0), I32Add, LocalSet(1),
					LocalGet(0), I32Const(-1), I32Add, LocalSet(0),
					Br(0))),
				LocalGet(1))},
			{Export: "mixed", Results: []byte{I32}, Body: Cat(
				I32Const(0), Call(0), // 7
				GlobalGet(1), I32Add, // 37
				I32Const(0), []byte{0x11}, U32(2), []byte{0}, I32Add, // wrong table entry would trap; see below
			)},
			{Export: "bulk", Results: []byte{I32}, Body: Cat(
				I32Const(0), I32Const(5), I32Const(100), MemoryFill,
				I32Const(200), I32Const(0), I32Const(100), []byte{0xfc, 10, 0, 0}, // memory.copy
				I32Const(299), []byte{0x2d, 0, 0})}, // i32.load8_u: 5
			{Export: "table", Params: []byte{I32}, Results: []byte{I32}, Body: Cat(
				Block(Block(Block(LocalGet(0), []byte{0x0e, 2, 0, 1, 2}),
					I32Const(10), Return),
					I32Const(20), Return),
				I32Const(30))},
			{Export: "data", Results: []byte{I32}, Body: Cat(I32Const(DataAt), []byte{0x2d, 0, 0})},
			{Export: "tail", Results: []byte{I32}, Body: Cat(I32Const(41), Call(3))},
		},
		Table:    []byte{0x70, 0, 2},
		Globals:  [][]byte{Cat([]byte{I32, 0}, I32Const(1), End), Cat([]byte{I32, 1}, I32Const(2), End), Cat([]byte{0x70, 0}, []byte{0xd2, 2}, End)},
		Start:    1,
		Elements: [][]byte{Cat([]byte{0}, I32Const(0), End, Vector([]byte{4}, []byte{2}))},
		Data:     "A",
	}
	// mixed calls entry 0 of the table, sum, with 37.
	m.Funcs[4].Body = Cat(I32Const(0), Call(0), GlobalGet(1), I32Add, I32Const(0), []byte{0x11, 0, 0})

	h := run(t, m.Bytes(), 1_000_000)
	call := func(name string, params ...uint64) uint64 {
		results, err := h.guest.ExportedFunction(name).Call(t.Context(), params...)
		require.NoError(t, err, name)
		return results[0]
	}
	require.EqualValues(t, 5050, call("sum", 100))
	require.EqualValues(t, 37*38/2, call("mixed"))
	require.EqualValues(t, 5, call("bulk"))
	require.EqualValues(t, 10, call("table", 0))
	require.EqualValues(t, 20, call("table", 1))
	require.EqualValues(t, 30, call("table", 9))
	require.EqualValues(t, 'A', call("data"))
	require.EqualValues(t, 42, call("tail"))
}

// TestFuelFollowsWork counts how often a guest has to ask for fuel.
func TestFuelFollowsWork(t *testing.T) {
	counting := func(body ...[]byte) []byte { // 1,000 rounds of body
		return Module{Memory: []byte{0, 16}, Funcs: []Func{
			{Export: "f", Locals: []byte{I32}, Body: Cat(I32Const(1000), LocalSet(0), Loop(Cat(body...),
				LocalGet(0), I32Const(-1), I32Add, LocalSet(0), LocalGet(0), BrIf(0)))},
			{Body: repeat(1000, I32Const(1), Drop)},
			{Body: Cat(I32Const(1), Drop)},
		}}.Bytes()
	}
	yields := func(wasm []byte) int {
		h := run(t, wasm, 1000)
		_, err := h.guest.ExportedFunction("f").Call(t.Context())
		require.NoError(t, err)
		return h.yields
	}
	short := yields(counting())
	require.InDelta(t, 1, short, 1, "1,000 short rounds cost about 1,000")
	require.Greater(t, yields(counting(repeat(1000, I32Const(1), Drop))), 50*short, "long rounds cost more")
	require.Greater(t, yields(counting(Call(1))), 50*short, "and so do calls of a long function")
	require.Less(t, yields(counting(Call(2))), 5, "but not of a short one")
	require.GreaterOrEqual(t, yields(counting(I32Const(0), I32Const(0), I32Const(1<<20), MemoryFill)), 1000, "1 MiB costs 4,096, and each time there are 1,000")
	require.Less(t, yields(counting(I32Const(0), I32Const(0), I32Const(16), MemoryFill)), 10)
	straight := Module{Memory: []byte{0, 16}, Funcs: []Func{
		{Export: "f", Body: repeat(100, I32Const(0), I32Const(0), I32Const(1<<20), MemoryFill)},
	}}
	require.GreaterOrEqual(t, yields(straight.Bytes()), 100, "each asks by itself, where nothing else would")
}

// TestMemoryAndTablesAreClamped looks at what the rewritten module declares.
func TestMemoryAndTablesAreClamped(t *testing.T) {
	for name, c := range map[string]struct {
		memory []byte
		want   uint32 // pages
	}{
		"no most size":      {[]byte{0, 1}, 4096},
		"a lower most size": {[]byte{1, 1, 16}, 16},
		"a higher one":      {Cat([]byte{1, 1}, U32(65536)), 4096},
	} {
		t.Run(name, func(t *testing.T) {
			h := run(t, Module{Memory: c.memory}.Bytes(), 1)
			most, _ := h.guest.Memory().Definition().Max()
			require.Equal(t, c.want, most)
		})
	}
	grow := Module{Table: []byte{0x70, 0, 1}, Funcs: []Func{{Export: "f", Params: []byte{I32}, Results: []byte{I32},
		Body: Cat([]byte{0xd0, 0x70}, LocalGet(0), []byte{0xfc, 15, 0})}}}
	h := run(t, grow.Bytes(), 1000)
	results, err := h.guest.ExportedFunction("f").Call(t.Context(), 99_999)
	require.NoError(t, err)
	require.EqualValues(t, 1, int32(results[0]))
	results, err = h.guest.ExportedFunction("f").Call(t.Context(), 1)
	require.NoError(t, err)
	require.EqualValues(t, -1, int32(results[0]), "100,000 entries are the most")
}

func TestTrapsNameFunctions(t *testing.T) {
	names := func(entries ...[]byte) []byte {
		sub := Vector(entries...)
		return Section(0, Name("name"), []byte{1}, U32(uint32(len(sub))), sub)
	}
	inner := []Func{{Export: "f", Body: Call(2)}, {Body: Unreachable}}
	imports := []Import{{Module: "host", Name: "seven", Params: []byte{I32}, Results: []byte{I32}}}
	for name, c := range map[string]struct {
		custom [][]byte
		want   []string
	}{
		"no name section":     {nil, []string{"$2()", "f()"}},
		"with a name section": {[][]byte{names(Cat(U32(1), Name("outer")), Cat(U32(2), Name("inner")))}, []string{"inner()", "outer()"}},
		"in the wrong order":  {[][]byte{names(Cat(U32(2), Name("inner")), Cat(U32(1), Name("outer")))}, []string{"$2()", "f()"}},
		"function not there":  {[][]byte{names(Cat(U32(9), Name("inner")))}, []string{"$2()", "f()"}},
		"not UTF-8":           {[][]byte{names(Cat(U32(2), Name("\xff")))}, []string{"$2()", "f()"}},
		"count of 2^32-1":     {[][]byte{Section(0, Name("name"), []byte{1, 5}, U32(1<<32-1))}, []string{"$2()", "f()"}},
		"cut":                 {[][]byte{Section(0, Name("name"), []byte{1, 100, 1})}, []string{"$2()", "f()"}},
		"debug information":   {[][]byte{Section(0, Name(".debug_info"), []byte("anything"))}, []string{"$2()", "f()"}},
	} {
		t.Run(name, func(t *testing.T) {
			h := run(t, Module{Imports: imports, Funcs: inner, Custom: c.custom}.Bytes(), 1000)
			_, err := h.guest.ExportedFunction("f").Call(t.Context())
			require.Error(t, err)
			_, trace, _ := strings.Cut(err.Error(), "wasm stack trace:\n")
			require.Equal(t, c.want, strings.Fields(strings.ReplaceAll(trace, ".", "")))
		})
	}
}

// FuzzRewrite holds two things against any bytes: no panic, and whatever is
// rewritten is a module if it was one before.
func FuzzRewrite(f *testing.F) {
	f.Add([]byte(Preamble))
	f.Add(Guest(Cat(Forever(), I64Const(0))).Bytes())
	f.Add(Answer([]byte("answer")).Bytes())
	f.Add(Module{Table: []byte{0x70, 0, 1}, Elements: [][]byte{Cat([]byte{0}, I32Const(0), End, Vector([]byte{0}))}, Funcs: []Func{{Body: MemoryFill}}}.Bytes())
	ctx := context.Background()
	config := wazero.NewRuntimeConfigInterpreter().WithCoreFeatures(api.CoreFeaturesV2 | experimental.CoreFeaturesTailCall | experimental.CoreFeaturesExtendedConst)
	limits := meter.DefaultLimits()
	limits.AllLocals = 10_000
	f.Fuzz(func(t *testing.T, wasm []byte) {
		m, err := meter.Parse(wasm, limits)
		if err != nil {
			return
		}
		rewritten, err := m.Rewrite()
		if err != nil {
			return
		}
		r := wazero.NewRuntimeWithConfig(ctx, config)
		defer r.Close(ctx)
		if _, err := r.CompileModule(ctx, wasm); err != nil {
			return
		}
		if _, err := r.CompileModule(ctx, rewritten.Wasm); err != nil {
			t.Fatalf("the module compiled before it was rewritten: %v", err)
		}
	})
}

func TestADataCountSectionThatIsNotSoundIsRefused(t *testing.T) {
	for name, section := range map[string]string{
		"empty":                            "\x0c\x00",
		"more than a number":               "\x0c\x02\x00\x00",
		"not a number":                     "\x0c\x01\x80",
		"of segments that are not there":   "\x0c\x01\x05",
		"of fewer segments than there are": "\x0c\x01\x00\x0b\x03\x01\x01\x00",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := meter.Parse([]byte(string(Preamble)+section), meter.DefaultLimits())
			require.Error(t, err)
		})
	}
	_, err := meter.Parse([]byte(string(Preamble)+"\x0c\x01\x01\x0b\x03\x01\x01\x00"), meter.DefaultLimits())
	require.NoError(t, err)
}
