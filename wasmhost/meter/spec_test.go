package meter_test

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tetratelabs/wazero"

	. "github.com/graphmill/graphmill/wasmhost/wasmtest"
)

// values of each type that operations treat specially.
var values = map[byte][]uint64{
	I32: {0, 1, 31, 32, 0x7fffffff, 0x80000000, 0xffffffff, 0x8081, 0xdeadbeef},
	I64: {0, 1, 63, 64, 1<<63 - 1, 1 << 63, math.MaxUint64, 0x80818283, 0xdeadbeefcafe},
	F32: {0, 1 << 31, f32(1.5), f32(-2.5), f32(3e9), f32(1e20), f32(math.Inf(1)), f32(math.Inf(-1)), f32(math.NaN())},
	F64: {0, 1 << 63, f64(1.5), f64(-2.5), f64(3e9), f64(1e30), f64(math.Inf(1)), f64(math.Inf(-1)), f64(math.NaN())},
}

func f32(v float64) uint64 { return uint64(math.Float32bits(float32(v))) }
func f64(v float64) uint64 { return math.Float64bits(v) }

// spec finds out which instructions the engine takes with which types.
type spec struct {
	t       *testing.T
	lab     *lab
	checker wazero.Runtime
}

func newSpec(t *testing.T) *spec {
	s := &spec{t: t, lab: newLab(t), checker: wazero.NewRuntimeWithConfig(t.Context(), wazero.NewRuntimeConfigInterpreter().WithCoreFeatures(features))}
	t.Cleanup(func() { require.NoError(t, s.checker.Close(context.Background())) })
	return s
}

func (s *spec) valid(wasm []byte) bool {
	c, err := s.checker.CompileModule(s.t.Context(), wasm)
	if err != nil {
		return false
	}
	require.NoError(s.t, c.Close(s.t.Context()))
	return true
}

// TestNumericInstructions has every instruction without immediates that takes and
// gives numbers: comparisons, arithmetic, conversions, sign extension, saturating
// truncation. The types of each are found by trying.
func TestNumericInstructions(t *testing.T) {
	s := newSpec(t)
	var instructions [][]byte
	for op := 0x45; op <= 0xc4; op++ {
		instructions = append(instructions, []byte{byte(op)})
	}
	for op := range 8 {
		instructions = append(instructions, []byte{0xfc, byte(op)})
	}
	types := []byte{I32, I64, F32, F64}
	found := 0
	for _, op := range instructions {
		for _, in := range types {
			for _, out := range types {
				for arity := 1; arity <= 2; arity++ {
					params := []byte{in, in}[:arity]
					body := Cat(LocalGet(0), LocalGet(1)[:2*(arity-1)], op)
					wasm := Module{Funcs: []Func{{Export: "f", Params: params, Results: []byte{out}, Body: body}}}.Bytes()
					if !s.valid(wasm) {
						continue
					}
					found++
					s.lab.requireSame(t, wasm, calls("f", params))
				}
			}
		}
	}
	require.Equal(t, len(instructions), found, "each has one type")
}

// calls are the calls of a function with all combinations of values.
func calls(name string, params []byte) []call {
	list := []call{{name: name}}
	for _, p := range params {
		var longer []call
		for _, c := range list {
			for _, v := range values[p] {
				longer = append(longer, call{name, append(append([]uint64(nil), c.params...), v)})
			}
		}
		list = longer
	}
	return list
}

// TestVectorInstructions has every SIMD instruction. Their operands come from
// memory, the result goes there.
func TestVectorInstructions(t *testing.T) {
	s := newSpec(t)
	load := func(at int32) []byte { return Cat(I32Const(at), []byte{0xfd, 0, 0, 0}) }
	store := func(value []byte) []byte { return Cat(I32Const(64), value, []byte{0xfd, 11, 0, 0}) }
	number := map[byte][]byte{I32: I32Const(9), I64: I64Const(-9), F32: {0x43, 0, 0, 0x20, 0xc1}, F64: F64Const(f64(2.5))}
	keep := map[byte][]byte{I32: {0x36, 0, 0}, I64: {0x37, 0, 0}, F32: {0x38, 0, 0}, F64: {0x39, 0, 0}}
	immediates := [][]byte{{}, {1}, {0, 3}, {0, 3, 1}, make([]byte, 16)}

	found := 0
	for op := range 276 {
		instruction := Cat([]byte{0xfd}, U32(uint32(op)))
		for _, immediate := range immediates {
			in := Cat(instruction, immediate)
			bodies := [][]byte{
				store(Cat(load(0), in)),
				store(Cat(load(0), load(16), in)),
				store(Cat(load(0), load(16), load(32), in)),
				store(Cat(I32Const(3), in)),
				store(Cat(I32Const(3), load(16), in)),
				store(in),
				Cat(I32Const(70), load(16), in), // stores
			}
			for _, typ := range []byte{I32, I64, F32, F64} {
				bodies = append(bodies,
					store(Cat(number[typ], in)),
					store(Cat(load(0), number[typ], in)),
					Cat(I32Const(64), load(0), in, keep[typ]))
			}
			for _, body := range bodies {
				wasm := Module{Funcs: []Func{{Export: "f", Body: Cat(vectors(), body)}}}.Bytes()
				if s.valid(wasm) {
					found++
					s.lab.requireSame(t, wasm, []call{{name: "f"}})
					goto next
				}
			}
		}
	next:
	}
	require.Equal(t, 236, found, "so many SIMD instructions there are")
}

// vectors puts three of them at address 0.
func vectors() []byte {
	var b []byte
	for i, v := range []uint64{0x0001_7fff_8000_ffff, 0x4049_0fdb_c049_0fdb, 0x80ff_017f_0203_fe81, 0x4008_0000_0000_0000, 0x1122_3344_5566_7788, 0x3f80_0000_4100_0000} {
		b = append(b, Cat(I32Const(int32(8*i)), I64Const(int64(v)), []byte{0x37, 0, 0})...)
	}
	return b
}

// TestLoadsAndStores has every access to memory, at the borders of it too.
func TestLoadsAndStores(t *testing.T) {
	s := newSpec(t)
	found := 0
	for op := byte(0x28); op <= 0x3e; op++ {
		for _, typ := range []byte{I32, I64, F32, F64} {
			access := []byte{op, 0, 5}
			for _, f := range []Func{
				{Export: "f", Params: []byte{I32}, Results: []byte{typ}, Body: Cat(LocalGet(0), access)},
				{Export: "f", Params: []byte{I32, typ}, Body: Cat(LocalGet(0), LocalGet(1), access)},
			} {
				wasm := Module{Funcs: []Func{f}, Data: "\x80\x01\xff\x7f\x90\xab\xcd\xef\x12\x34\x56\x78\x9a\xbc"}.Bytes()
				if !s.valid(wasm) {
					continue
				}
				found++
				var list []call
				for _, at := range []uint64{0, DataAt - 5, 65536 - 13, 65536 - 12, 65536 - 6, 65536 - 5, math.MaxUint32} {
					c := call{"f", []uint64{at, values[typ][2]}}
					c.params = c.params[:len(f.Params)]
					list = append(list, c)
				}
				s.lab.requireSame(t, wasm, list)
			}
		}
	}
	require.Equal(t, 0x3e-0x28+1, found)
}

// TestStructuredInstructions has what is no plain operation: control, calls,
// variables, tables, references, bulk memory.
func TestStructuredInstructions(t *testing.T) {
	i32s := func(n int) []byte { return []byte{I32, I32, I32}[:n] }
	get := LocalGet(0)
	memoryAt := func(at int32) []byte { return Cat(I32Const(at), []byte{0x2d, 0, 0}) }
	null, isNull := []byte{0xd0, FuncRef}, []byte{0xd1}
	refFunc := func(f byte) []byte { return []byte{0xd2, f} }
	callIndirect := func(typ, table byte) []byte { return []byte{0x11, typ, table} }
	table := func(op, t byte) []byte { return []byte{0xfc, op, t} }
	table2 := func(op, a, b byte) []byte { return []byte{0xfc, op, a, b} }
	div := []byte{0x6d}

	// Functions 0 to 2 are for the others to call; their types are types 0 to 2.
	base := []Func{
		{Params: i32s(1), Results: i32s(1), Body: Cat(get, I32Const(3), I32Add)},
		{Params: i32s(2), Results: i32s(2), Body: Cat(LocalGet(1), LocalGet(0))},
		{Params: i32s(1), Results: i32s(1), Body: Cat(get, I32Const(100), div, ReturnCall(0))},
	}
	for name, body := range map[string][]byte{ // of a function (i32) -> (i32)
		"unreachable":             Cat(get, []byte{0x04, 0x40}, Unreachable, End, get),
		"nop":                     Cat([]byte{0x01}, get),
		"block with a result":     Cat([]byte{0x02, I32}, get, get, BrIf(0), Drop, I32Const(7), End),
		"block with params":       Cat(get, get, []byte{0x02, 1}, Br(0), End, I32Add),
		"if with params":          Cat(get, I32Const(9), get, []byte{0x04, 1}, Call(1), Else, Drop, I32Const(8), End, I32Add),
		"if without else":         Cat(get, []byte{0x04, 0x40}, I32Const(4), LocalSet(1), End, LocalGet(1)),
		"loop with params":        Cat(get, I32Const(40), []byte{0x03, 1}, I32Const(1), I32Add, []byte{0x22, 0}, get, I32Const(1000), []byte{0x49}, BrIf(0), End, I32Add),
		"loop with a result":      Cat([]byte{0x03, I32}, get, I32Const(1), []byte{0x76, 0x22, 0}, I32Const(100), []byte{0x4b}, BrIf(0), get, End),
		"br_table":                Cat(Block(Block(Block(get, []byte{0x0e, 2, 0, 1, 2}), I32Const(10), Return), I32Const(20), Return), I32Const(30)),
		"br_table with values":    Cat([]byte{0x02, I32}, []byte{0x02, I32}, I32Const(50), get, []byte{0x0e, 1, 0, 1}, End, I32Const(1), I32Add, End),
		"return":                  Cat(get, Return),
		"code after br":           Cat(Block(Br(0), Loop(Br(0)), Unreachable), get),
		"call":                    Cat(get, Call(0)),
		"call of two results":     Cat(get, I32Const(2), Call(1), div),
		"call_indirect":           Cat(I32Const(11), get, callIndirect(0, 0)),
		"return_call":             Cat(get, ReturnCall(2)),
		"return_call_indirect":    Cat(I32Const(12), get, []byte{0x13, 0, 0}),
		"drop and select":         Cat(I32Const(1), I32Const(2), get, []byte{0x1b}),
		"select of a type":        Cat(null, refFunc(0), get, []byte{0x1c, 1, FuncRef}, isNull),
		"local.tee":               Cat(get, []byte{0x22, 1}, LocalGet(1), I32Add),
		"global.set":              Cat(get, GlobalSet(0), GlobalGet(0)),
		"memory.size and grow":    Cat(get, MemoryGrow, Drop, MemorySize),
		"memory.fill":             Cat(get, I32Const(0x55), get, MemoryFill, memoryAt(2)),
		"memory.copy":             Cat(get, I32Const(DataAt), I32Const(4), []byte{0xfc, 10, 0, 0}, memoryAt(2)),
		"memory.init":             Cat(I32Const(1), get, I32Const(2), []byte{0xfc, 8, 1, 0}, memoryAt(1)),
		"data.drop":               Cat([]byte{0xfc, 9, 1}, I32Const(1), I32Const(0), get, []byte{0xfc, 8, 1, 0}, memoryAt(1)),
		"table.get":               Cat(get, []byte{0x25, 0}, isNull),
		"table.set":               Cat(get, refFunc(2), []byte{0x26, 0}, I32Const(500), get, callIndirect(0, 0)),
		"table.size and grow":     Cat(refFunc(0), get, table(15, 0), Drop, table(16, 0)),
		"table.fill":              Cat(get, refFunc(0), I32Const(2), table(17, 0), get, []byte{0x25, 0}, isNull),
		"table.copy":              Cat(get, I32Const(0), I32Const(2), table2(14, 0, 0), I32Const(5), get, callIndirect(0, 0)),
		"table.copy, other table": Cat(I32Const(0), get, I32Const(2), table2(14, 1, 0), I32Const(5), I32Const(1), callIndirect(0, 1)),
		"table.init":              Cat(I32Const(1), get, I32Const(1), table2(12, 1, 0), I32Const(300), I32Const(1), callIndirect(0, 0)),
		"elem.drop":               Cat([]byte{0xfc, 13, 1}, I32Const(1), I32Const(0), get, table2(12, 1, 0), I32Const(5)),
		"ref.null and is_null":    Cat(null, isNull, get, I32Add),
		"ref.func":                Cat(refFunc(1), isNull),
		"extern references":       Cat([]byte{0xd0, ExternRef}, isNull, get, I32Add),
	} {
		t.Run(name, func(t *testing.T) {
			m := Module{
				Funcs:  append(append([]Func(nil), base...), Func{Export: "f", Params: i32s(1), Results: i32s(1), Locals: i32s(1), Body: body}),
				Memory: []byte{1, 1, 8},
				Table:  []byte{FuncRef, 1, 4, 12}, Tables: [][]byte{{FuncRef, 0, 3}},
				Elements: [][]byte{
					Cat([]byte{0}, I32Const(0), End, Vector([]byte{0}, []byte{2})),
					{1, 0, 2, 2, 1}, // passive
					{3, 0, 1, 1},    // declares
				},
				Globals: [][]byte{Cat([]byte{I32, 1}, I32Const(5), End)},
				Exports: [][]byte{Cat(Name("g0"), []byte{3, 0})},
				Data:    "ABCDEFGH", Passive: []string{"uvwxyz"},
			}
			l := newLab(t)
			var list []call
			for _, v := range []uint64{0, 1, 2, 3, 4, 7, 300, 65535, 65536, math.MaxUint32} {
				list = append(list, call{"f", []uint64{v}})
			}
			for _, l.slice = range []uint64{0, 1, 1000} {
				require.NotEmpty(t, l.requireSame(t, m.Bytes(), list))
			}
		})
	}
}

// TestConstantExpressions has every form of what globals and segments begin with.
func TestConstantExpressions(t *testing.T) {
	m := Module{
		Imports: []Import{{Module: "host", Name: "seven", Params: []byte{I32}, Results: []byte{I32}}},
		Funcs:   []Func{{Export: "f", Results: []byte{I32}, Body: Cat(I32Const(0), I32Const(2), []byte{0x11, 0, 0})}},
		Table:   []byte{FuncRef, 0, 4},
		Globals: [][]byte{
			Cat([]byte{I32, 0}, I32Const(2), End), Cat([]byte{I64, 0}, I64Const(-3), End),
			Cat([]byte{F32, 0, 0x43, 0, 0, 0x20, 0xc1}, End), Cat([]byte{F64, 0}, F64Const(f64(2.5)), End),
			Cat([]byte{I32, 0}, I32Const(2), I32Const(7), []byte{0x6c}, I32Const(1), []byte{0x6b}, End),
			Cat([]byte{I64, 0}, I64Const(-3), I64Const(7), []byte{0x7e}, I64Const(1), []byte{0x7d, 0x42, 1, 0x7c}, End),
			Cat([]byte{FuncRef, 0, 0xd0, FuncRef}, End), Cat([]byte{FuncRef, 0, 0xd2, 1}, End),
			Cat([]byte{V128, 0, 0xfd, 12}, make([]byte, 16), End),
		},
		// Function 0, the import, through an expression.
		Elements: [][]byte{Cat([]byte{4}, I32Const(1), I32Const(1), I32Add, End, Vector([]byte{0xd2, 0, 0x0b}, []byte{0xd0, FuncRef, 0x0b}))},
	}
	for i := range 6 {
		m.Exports = append(m.Exports, Cat(Name(fmt.Sprintf("g%d", i)), []byte{3, byte(i)}))
	}
	seen := newLab(t).requireSame(t, m.Bytes(), []call{{name: "f"}})
	require.Equal(t, []string{"f: 0x7", "g0: 0x2", "g1: 0xfffffffffffffffd"}, seen[:3])
}
