package meter_test

import (
	"math/rand/v2"
	"testing"

	. "github.com/graphmill/graphmill/wasmhost/wasmtest"
)

// generator makes a valid module of any bytes: they choose among the instructions
// that fit. Every module ends by itself: loops count down, and functions call only
// such that were made before them.
type generator struct {
	choices []byte

	m     Module
	costs []int // of calling each function, in instructions at most

	// Of the function at hand.
	params, locals []byte
	results        []byte
	labels         int // blocks around that can be left, none of which takes values along
	counters       []uint32
	cost, times    int // up to here, and how often the innermost loop's body runs
}

// generatedTypes are those of parameters, results, local variables and globals.
var generatedTypes = []byte{I32, I64, F64}

// mostCost bounds the instructions that a call can come to.
const mostCost = 200_000

func (g *generator) pick(n int) int {
	if len(g.choices) == 0 {
		return 0
	}
	c := g.choices[0]
	g.choices = g.choices[1:]
	return int(c) % n
}

// generate makes a module whose functions f0, f1, ... take and give numbers.
func generate(choices []byte) (wasm []byte, calls []call) {
	g := &generator{choices: choices}
	g.m = Module{
		Imports: []Import{{Module: "host", Name: "seven", Params: []byte{I32}, Results: []byte{I32}}},
		Memory:  []byte{1, 1, 3},
		Table:   []byte{FuncRef, 1, 3, 6},
		Globals: [][]byte{Cat([]byte{I32, 1}, I32Const(5), End), Cat([]byte{I64, 1}, I64Const(-6), End), Cat([]byte{F64, 1}, F64Const(f64(0.5)), End)},
		Exports: [][]byte{Cat(Name("g0"), []byte{3, 0}), Cat(Name("g1"), []byte{3, 1}), Cat(Name("g2"), []byte{3, 2})},
		Data:    "some bytes in memory", Passive: []string{"passive bytes"},
		// Entries 0 and 1 are the first function and the import; 2 is null.
		Elements: [][]byte{Cat([]byte{0}, I32Const(0), End, Vector([]byte{1}, []byte{0})), {1, 0, 1, 1}},
	}
	for f := range 1 + g.pick(5) {
		g.function(f)
	}
	for i := range g.m.Funcs {
		f := &g.m.Funcs[i]
		for range 2 {
			c := call{name: f.Export}
			for _, p := range f.Params {
				c.params = append(c.params, values[p][g.pick(len(values[p])-1)])
			}
			calls = append(calls, c)
		}
	}
	return g.m.Bytes(), calls
}

func (g *generator) function(number int) {
	g.params, g.locals, g.counters, g.labels, g.cost, g.times = nil, nil, nil, 0, 0, 1
	g.results = generatedTypes[:1+g.pick(2)]
	if number == 0 {
		g.params, g.results = []byte{I32}, []byte{I32} // what the table holds
	} else {
		for range g.pick(4) {
			g.params = append(g.params, generatedTypes[g.pick(3)])
		}
	}
	for range 1 + g.pick(3) {
		g.locals = append(g.locals, generatedTypes[g.pick(3)])
	}
	var body []byte
	for range 1 + g.pick(5) {
		body = append(body, g.statement(4)...)
	}
	for _, t := range g.results {
		body = append(body, g.value(t, 4)...)
	}
	locals := append([]byte(nil), g.locals...)
	g.m.Funcs = append(g.m.Funcs, Func{
		Export: "f" + string(rune('0'+number)), Params: g.params, Results: g.results, Locals: locals, Body: body,
	})
	g.costs = append(g.costs, g.cost)
}

// variable picks a parameter or local variable of a type that no loop counts with.
func (g *generator) variable(t byte) (uint32, bool) {
	all := Cat(g.params, g.locals)
	var fit []uint32
next:
	for i, have := range all {
		for _, c := range g.counters {
			if c == uint32(i) {
				continue next
			}
		}
		if have == t {
			fit = append(fit, uint32(i))
		}
	}
	if len(fit) == 0 {
		return 0, false
	}
	return fit[g.pick(len(fit))], true
}

// statement leaves the stack as it was.
func (g *generator) statement(depth int) []byte {
	g.cost += g.times
	t := generatedTypes[g.pick(3)]
	number := map[byte]byte{I32: 0, I64: 1, F64: 2}[t]
	if depth == 0 {
		return Cat(g.value(t, 1), GlobalSet(uint32(number)))
	}
	small := func() []byte { return Cat(g.value(I32, depth-1), I32Const(0x3f), []byte{0x71}) }
	inside := func(open ...byte) []byte {
		g.labels++
		b := Cat(open, g.statement(depth-1), g.statement(depth-1), End)
		g.labels--
		return b
	}
	switch g.pick(18) {
	case 0:
		if v, ok := g.variable(t); ok {
			return Cat(g.value(t, depth-1), LocalSet(v))
		}
	case 1:
		return Cat(g.value(t, depth-1), GlobalSet(uint32(number)))
	case 2: // a store of 1 to 8 bytes; floats are not stored, since NaNs differ
		op := [][]byte{{0x36}, {0x3a}, {0x3b}}[g.pick(3)]
		return Cat(g.value(I32, depth-1), g.value(I32, depth-1), op, []byte{0, byte(g.pick(128))})
	case 3:
		return Cat(g.value(I32, depth-1), g.value(I64, depth-1), [][]byte{{0x37}, {0x3e}}[g.pick(2)], []byte{0, 0})
	case 4:
		return inside(0x02, 0x40)
	case 5:
		return Cat(g.value(I32, depth-1), inside(0x04, 0x40))
	case 6:
		condition := g.value(I32, depth-1)
		g.labels++
		b := Cat(condition, []byte{0x04, 0x40}, g.statement(depth-1), Else, g.statement(depth-1), End)
		g.labels--
		return b
	case 7, 8, 9:
		return g.loop(depth)
	case 10:
		if g.labels > 0 {
			return Cat(g.value(I32, depth-1), BrIf(uint32(g.pick(g.labels))))
		}
	case 11:
		if g.labels > 0 {
			targets := []byte{byte(g.pick(g.labels)), byte(g.pick(g.labels)), byte(g.pick(g.labels))}
			return Cat(g.value(I32, depth-1), []byte{0x04, 0x40}, g.value(I32, depth-1), []byte{0x0e, 2}, shifted(targets), End)
		}
	case 12:
		return Cat(small(), small(), small(), [][]byte{{0xfc, 10, 0, 0}, {0xfc, 11, 0}}[g.pick(2)])
	case 13:
		return Cat(small(), small(), small(), []byte{0xfc, 8, 1, 0})
	case 14:
		return Cat(small(), I32Const(3), []byte{0x70, 0xd2, 1, 0x26, 0}) // table.set of function 1, at 0 to 2
	case 15:
		return Cat(small(), small(), small(), [][]byte{{0xfc, 14, 0, 0}, {0xfc, 12, 1, 0}}[g.pick(2)])
	case 16: // out of the function
		values := []byte(nil)
		for _, r := range g.results {
			values = append(values, g.value(r, 1)...)
		}
		return Cat(g.value(I32, depth-1), []byte{0x04, 0x40}, values, Return, End)
	case 17:
		return Cat(g.value(I32, 1), I32Eqz, []byte{0x04, 0x40}, g.value(I32, 1), I32Eqz, []byte{0x04, 0x40}, Unreachable, End, End)
	}
	return Cat(g.value(t, depth-1), Drop)
}

// shifted are the same labels seen from one block further in.
func shifted(targets []byte) []byte {
	for i := range targets {
		targets[i]++
	}
	return targets
}

// loop runs its body up to three times. A branch to the loop itself would not
// count, so its body is in a block, which is all that can be left from within.
func (g *generator) loop(depth int) []byte {
	times := 1 + g.pick(3)
	counter := uint32(len(g.params) + len(g.locals))
	g.locals = append(g.locals, I32)
	g.counters = append(g.counters, counter)
	outer, labels := g.times, g.labels
	g.times *= times
	g.labels = 1 // only the block around the body can be left
	body := Cat(g.statement(depth-1), g.statement(depth-1))
	g.times, g.labels = outer, labels
	g.counters = g.counters[:len(g.counters)-1]
	return Cat(I32Const(int32(times)), LocalSet(counter), Loop(
		Block(body),
		LocalGet(counter), I32Const(-1), I32Add, []byte{0x22}, U32(counter), BrIf(0)))
}

// value leaves one value of a type.
func (g *generator) value(t byte, depth int) []byte {
	g.cost += g.times
	if depth <= 0 {
		return g.simple(t)
	}
	arg := func(t byte) []byte { return g.value(t, depth-1) }
	switch g.pick(12) {
	case 0, 1:
		return g.simple(t)
	case 2:
		if b := g.call(t, depth); b != nil {
			return b
		}
	case 3:
		g.labels++
		b := Cat(arg(I32), []byte{0x04, t}, arg(t), Else, arg(t), End)
		g.labels--
		return b
	case 4:
		return Cat(arg(t), arg(t), arg(I32), []byte{0x1b}) // select
	case 5:
		g.labels++
		b := Cat([]byte{0x02, t}, arg(t), arg(I32), BrIf(0), End)
		g.labels--
		return b
	case 6:
		if v, ok := g.variable(t); ok {
			return Cat(arg(t), []byte{0x22}, U32(v))
		}
	}
	switch t {
	case I32:
		switch g.pick(8) {
		case 0:
			return Cat(arg(I32), [][]byte{{0x28}, {0x2c}, {0x2d}, {0x2e}, {0x2f}}[g.pick(5)], []byte{0, byte(g.pick(128))})
		case 1:
			return Cat(arg(I64), []byte{0xa7}) // wrap
		case 2:
			return Cat(arg(F64), []byte{0xfc, byte(2 + g.pick(2))}) // saturating truncation
		case 3:
			return Cat(arg(F64), arg(F64), []byte{byte(0x61 + g.pick(6))})
		case 4:
			return Cat(arg(I32), I32Const(1), []byte{0x71}, MemoryGrow)
		case 5:
			return Cat(arg(I32), []byte{0x25, 0, 0xd1}) // table.get, ref.is_null
		case 6:
			return Cat(arg(I64), arg(I64), []byte{byte(0x51 + g.pick(10))})
		default:
			return Cat(arg(I32), arg(I32), []byte{byte(0x6a + g.pick(15))})
		}
	case I64:
		switch g.pick(3) {
		case 0:
			return Cat(arg(I32), []byte{byte(0xac + g.pick(2))}) // extend
		case 1:
			return Cat(arg(I32), []byte{0x29, 0, byte(g.pick(128))})
		default:
			return Cat(arg(I64), arg(I64), []byte{byte(0x7c + g.pick(15))})
		}
	default:
		if g.pick(3) == 0 {
			return Cat(arg(I32), []byte{byte(0xb7 + g.pick(2))}) // convert
		}
		return Cat(arg(F64), arg(F64), []byte{byte(0xa0 + g.pick(6))})
	}
}

func (g *generator) simple(t byte) []byte {
	if g.pick(2) == 0 {
		if v, ok := g.variable(t); ok {
			return LocalGet(v)
		}
	}
	switch t {
	case I32:
		if g.pick(4) == 0 {
			return GlobalGet(0)
		}
		return I32Const(int32(g.pick(256) << g.pick(12)))
	case I64:
		if g.pick(4) == 0 {
			return GlobalGet(1)
		}
		return I64Const(int64(g.pick(256)-128) << g.pick(50))
	default:
		if g.pick(4) == 0 {
			return GlobalGet(2)
		}
		return F64Const(f64(float64(g.pick(256)-128) / 8))
	}
}

// call calls a function whose last result is of a type, nil where there is none
// that fits, or that would take too long.
func (g *generator) call(t byte, depth int) []byte {
	if t == I32 && g.pick(3) == 0 {
		if g.pick(2) == 0 {
			return Cat(g.value(I32, depth-1), Call(0))
		}
		if len(g.m.Funcs) > 0 && g.cost+g.times*g.costs[0] < mostCost {
			g.cost += g.times * g.costs[0]
			return Cat(g.value(I32, depth-1), g.value(I32, depth-1), I32Const(3), []byte{0x71, 0x11, 1, 0})
		}
		return nil
	}
	if len(g.m.Funcs) == 0 {
		return nil
	}
	i := g.pick(len(g.m.Funcs))
	f := g.m.Funcs[i]
	if f.Results[len(f.Results)-1] != t || g.cost+g.times*g.costs[i] > mostCost {
		return nil
	}
	g.cost += g.times * g.costs[i]
	var b []byte
	for _, p := range f.Params {
		b = append(b, g.value(p, depth-1)...)
	}
	b = append(b, Call(uint32(1+i))...)
	if len(f.Results) == 2 { // the first lies beneath: keep the second only
		number := map[byte]uint32{I32: 0, I64: 1, F64: 2}[t]
		b = Cat(b, GlobalSet(number), Drop, GlobalGet(number))
	}
	return b
}

// TestGeneratedModulesComputeTheSame has modules by chance, the same in each run.
func TestGeneratedModulesComputeTheSame(t *testing.T) {
	l := newLab(t)
	random := rand.New(rand.NewPCG(1, 2))
	results := 0
	for range 300 {
		choices := make([]byte, 20+random.IntN(3000))
		for i := range choices {
			choices[i] = byte(random.Uint32())
		}
		l.slice = []uint64{0, 3, 1000}[random.IntN(3)]
		wasm, calls := generate(choices)
		for _, s := range l.requireSame(t, wasm, calls) {
			if s[0] == 'f' && len(s) > 6 && s[4:6] == "0x" {
				results++
			}
		}
	}
	if results < 500 || l.yields < 1000 {
		t.Errorf("%d results and %d calls of yield: the modules trap too early to say much", results, l.yields)
	}
}

// FuzzMeteredComputesTheSame has modules of any bytes.
func FuzzMeteredComputesTheSame(f *testing.F) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 20 {
		choices := make([]byte, 300)
		for i := range choices {
			choices[i] = byte(random.Uint32())
		}
		f.Add(choices, uint16(random.IntN(2000)))
	}
	l := newLab(f)
	f.Fuzz(func(t *testing.T, choices []byte, slice uint16) {
		l.slice = uint64(slice)
		wasm, calls := generate(choices[:min(len(choices), 600)]) // larger ones take the compiler long
		l.requireSame(t, wasm, calls)
	})
}
