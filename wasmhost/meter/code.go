package meter

import "strconv"

// code rewrites the instructions of one function.
//
// Fuel is taken per region: the function itself, and each loop in it. A region's
// price follows from the weight of the instructions that stand in it and in no
// loop within it; branches not taken are paid for as well. Since the price is
// known only at a region's end, its place is kept open and filled in then.
type code struct {
	m   *Module
	r   *reader
	out []byte

	blocks  []block
	regions []region

	operands, branches, accesses int // see Limits

	calls bool   // it calls a function
	bulk  bool   // it has an instruction whose time depends on a size
	wide  uint32 // local variable (i64) for fuel
	size  uint32 // local variable (i32) for a size
}

// block is a block, a loop, an if, or the function as a whole.
type block struct {
	arity int // values that a branch to it passes
	loop  bool
}

// region is what one price is paid for.
type region struct {
	price  int // where the price stands in out; not used for the function itself
	weight int
}

// Weights of instructions, in plain ones such as an addition.
const (
	weightCall  = 16
	weightSlow  = 8 // division, square root
	weightGrow  = 128
	weightLocal = 4 // local variables that are set to zero by one
)

// branchWeights are what instructions count for in Limits.Branches, by what they
// were seen to cost the compiler. A loop has branches of its own, for the fuel.
var branchWeights = [...]int{0x02: 1, 0x03: 6, 0x04: 2, 0x0c: 1, 0x0d: 2}

// shortFunction is the weight up to which a function that calls nothing is not
// metered by itself: its callers' price for a call covers it.
const shortFunction = 8 * weightCall

// function rewrites function number i of the module's own, and returns the new
// body.
func (m *Module) function(i int) ([]byte, *Error) {
	old := &m.bodies[i]
	typ := m.types[m.funcs[i]]
	r := newReader(old.code, "function "+strconv.Itoa(i+m.imported))
	first := uint32(len(typ.Params) + old.locals)
	c := &code{m: m, r: r, wide: first, size: first + 1, out: make([]byte, 0, r.left()*5/4)}
	c.blocks = append(c.blocks, block{arity: len(typ.Results)})
	c.regions = append(c.regions, region{weight: old.locals / weightLocal})
	c.instructions()
	r.end()
	if r.err != nil {
		return nil, r.err
	}

	added := []byte{1, byte(I64)}
	if c.bulk {
		added = append(added, 1, byte(I32))
	}
	b := appendU32(make([]byte, 0, len(old.declaration)+len(c.out)+40), uint32(old.groups+len(added)/2))
	b = append(append(b, old.declaration...), added...)
	if weight := c.regions[0].weight; c.calls || weight > shortFunction {
		var price int
		b, price = c.take(b)
		setPrice(b[price:], weight)
	}
	return append(b, c.out...), nil
}

// instructions copies the instructions up to the end that closes the function.
func (c *code) instructions() {
	r := c.r
	for len(c.blocks) > 0 && r.err == nil {
		start := r.at
		op := r.byte()
		c.weigh(op)
		switch op {
		case 0x02, 0x03, 0x04: // block, loop, if
			c.open(op)
			c.out = append(c.out, r.b[start:r.at]...)
			if op == 0x03 {
				var at int
				c.out, at = c.take(c.out)
				c.regions = append(c.regions, region{price: at})
			}
			continue
		case 0x0b: // end
			c.close()
		case 0x0c, 0x0d: // br, br_if
			c.branch(branchWeights[op])
			c.pass(c.label())
		case 0x0e: // br_table
			targets := r.count("targets of a br_table", 1, c.m.limits.BrTable)
			c.branch(targets + 1)
			for range targets + 1 {
				c.pass(c.label())
			}
		case 0x10, 0x12, 0xd2: // call, return_call, ref.func
			f := r.index("function", c.m.imported+len(c.m.funcs))
			if r.err != nil {
				return
			}
			if op != 0xd2 {
				c.call(c.m.typeOf(f))
			}
			c.out = appendU32(append(c.out, op), c.m.shifted(f))
			continue
		case 0x11, 0x13: // call_indirect, return_call_indirect
			t := r.index("type", len(c.m.types))
			r.index("table", len(c.m.tables))
			if r.err != nil {
				return
			}
			c.count(&c.accesses, 1, c.m.limits.Accesses, "accesses")
			c.call(c.m.types[t])
		case 0x20, 0x21, 0x22: // local.get, local.set, local.tee
			r.index("local variable", int(c.wide))
		case 0x23, 0x24: // global.get, global.set
			r.index("global", c.m.globals)
		case 0x25, 0x26: // table.get, table.set
			r.index("table", len(c.m.tables))
		case 0xfc:
			c.misc()
		default:
			r.immediates(op)
		}
		c.out = append(c.out, r.b[start:r.at]...)
	}
}

// weigh adds the weight of an instruction to the innermost region.
func (c *code) weigh(op byte) {
	w := 1
	switch {
	case op >= 0x28 && op <= 0x3e: // loads and stores
		c.count(&c.accesses, 1, c.m.limits.Accesses, "accesses")
	case op >= 0x10 && op <= 0x13:
		w = weightCall
	case op >= 0x6d && op <= 0x70, op >= 0x7f && op <= 0x82: // integer division and remainder
		c.count(&c.accesses, 1, c.m.limits.Accesses, "accesses")
		w = weightSlow
	case op == 0x91, op == 0x95, op == 0x9f, op == 0xa3: // float square root and division
		w = weightSlow
	case op == 0x40: // memory.grow
		w = weightGrow
	case op == 0xfd: // SIMD has slow ones and accesses too
		c.count(&c.accesses, 1, c.m.limits.Accesses, "accesses")
		w = weightSlow / 2
	}
	c.regions[len(c.regions)-1].weight += w
}

// open begins a block, a loop or an if.
func (c *code) open(op byte) {
	params, results := c.r.blockType(c.m.types)
	if len(c.blocks) > c.m.limits.Nesting {
		c.r.fail(OverLimit, "blocks are nested more than %d deep", c.m.limits.Nesting)
	}
	c.pass(params + results)
	b := block{arity: results}
	c.branch(branchWeights[op])
	if op == 0x03 {
		b = block{arity: params, loop: true}
	}
	c.blocks = append(c.blocks, b)
}

// close ends the innermost block; at the end of a loop its price is known.
func (c *code) close() {
	last := len(c.blocks) - 1
	if c.blocks[last].loop {
		inner := len(c.regions) - 1
		setPrice(c.out[c.regions[inner].price:], c.regions[inner].weight)
		c.regions = c.regions[:inner]
	}
	c.blocks = c.blocks[:last]
}

// label reads the target of a branch and returns how many values it passes.
func (c *code) label() int {
	depth := c.r.index("block", len(c.blocks))
	if c.r.err != nil {
		return 0
	}
	return c.blocks[len(c.blocks)-1-int(depth)].arity
}

// call accounts for a call of a function of this type.
func (c *code) call(t FuncType) {
	c.calls = true
	c.pass(len(t.Params) + len(t.Results))
}

// pass accounts for values that are handed over. A compiler keeps each of them,
// so that a few bytes in a loop of nothing but calls could cost it gigabytes.
func (c *code) pass(values int) {
	c.regions[len(c.regions)-1].weight += values
	c.count(&c.operands, values, c.m.limits.Operands, "values passed by calls, branches and blocks")
}

// branch accounts for places where the flow of control may part or join.
func (c *code) branch(n int) { c.count(&c.branches, n, c.m.limits.Branches, "branches") }

func (c *code) count(sum *int, n, limit int, what string) {
	if *sum += n; *sum > limit {
		c.r.fail(OverLimit, "more than %d %s", limit, what)
	}
}

// take appends the instructions that pay for a region, and returns where the
// price stands.
func (c *code) take(b []byte) (out []byte, price int) {
	fuel := uint32(c.m.globals)
	b = appendU32(append(b, 0x23), fuel) // global.get fuel
	price = len(b) + 1
	b = append(b, 0x42, 0x80, 0x80, 0x00, 0x7d) // i64.const price; i64.sub
	return c.settle(b), price
}

// settle appends the instructions that keep the fuel on top of the stack, and ask
// for more where none is left.
func (c *code) settle(b []byte) []byte {
	fuel := uint32(c.m.globals)
	b = appendU32(append(b, 0x22), c.wide)               // local.tee wide
	b = appendU32(append(b, 0x24), fuel)                 // global.set fuel
	b = appendU32(append(b, 0x20), c.wide)               // local.get wide
	b = append(b, 0x42, 0x00, 0x53, 0x04, 0x40)          // i64.const 0; i64.lt_s; if
	b = appendU32(append(b, 0x10), uint32(c.m.imported)) // call yield
	b = appendU32(append(b, 0x24), fuel)                 // global.set fuel
	return append(b, 0x0b)                               // end
}

// setPrice writes the price of a region of this weight, as a number of exactly
// three bytes: up to 2^20, and no body of a function is longer.
func setPrice(b []byte, weight int) {
	price := min(1+weight/TickWeight, 1<<20-1)
	b[0] = byte(price) | 0x80
	b[1] = byte(price>>7) | 0x80
	b[2] = byte(price >> 14)
}

// misc reads an instruction with the prefix 0xfc. Those that work on ranges pay
// for the range, whose size is on top of the stack, and ask for fuel by themselves:
// thousands of them in a row, without a loop or a call, would run for minutes.
func (c *code) misc() {
	r := c.r
	tables := len(c.m.tables)
	switch op := r.byte(); op { // of one byte: engines differ on longer ways to write it
	case 0, 1, 2, 3, 4, 5, 6, 7: // saturating truncation
		return
	case 8: // memory.init
		r.u32()
		r.zero()
	case 9: // data.drop
		r.u32()
		return
	case 10: // memory.copy
		r.zero()
		r.zero()
	case 11: // memory.fill
		r.zero()
	case 12: // table.init
		r.u32()
		r.index("table", tables)
	case 13: // elem.drop
		r.u32()
		return
	case 14: // table.copy
		r.index("table", tables)
		r.index("table", tables)
	case 15, 17: // table.grow, table.fill
		r.index("table", tables)
	case 16: // table.size
		r.index("table", tables)
		return
	default:
		r.fail(Unsupported, "the instruction 0xfc %#02x is not known", op)
		return
	}
	c.regions[len(c.regions)-1].weight += weightCall
	c.bulk = true
	c.branch(branchWeights[0x04])
	fuel := uint32(c.m.globals)
	b := appendU32(append(c.out, 0x22), c.size) // local.tee size
	b = appendU32(append(b, 0x23), fuel)        // global.get fuel
	b = appendU32(append(b, 0x20), c.size)      // local.get size
	b = append(b, 0x41, 8, 0x76, 0xad, 0x7d)    // i32.const 8; i32.shr_u; i64.extend_i32_u; i64.sub
	c.out = c.settle(b)
}

// blockType reads the type of a block.
func (r *reader) blockType(types []FuncType) (params, results int) {
	v := r.signed(33)
	switch {
	case r.err != nil:
		return 0, 0
	case v == -64: // 0x40
		return 0, 0
	case v < 0:
		switch ValueType(v & 0x7f) {
		case I32, I64, F32, F64, V128, FuncRef, ExternRef:
			return 0, 1
		}
		r.fail(Unsupported, "a block has a type that is not known")
	case v >= int64(len(types)):
		r.fail(Malformed, "there is no type %d, the module has %d", v, len(types))
	default:
		return len(types[v].Params), len(types[v].Results)
	}
	return 0, 0
}

// immediates reads what follows an opcode that needs no rewriting.
func (r *reader) immediates(op byte) {
	switch {
	case op <= 0x01, op == 0x05, op == 0x0f, op == 0x1a, op == 0x1b, // unreachable, nop, else, return, drop, select
		op >= 0x45 && op <= 0xc4, op == 0xd1: // numbers, ref.is_null
	case op == 0x1c: // select of a type
		for range r.count("types of a select", 1, 1) {
			r.valueType()
		}
	case op >= 0x28 && op <= 0x3e: // loads and stores: alignment, offset
		r.u32()
		r.u32()
	case op == 0x3f, op == 0x40: // memory.size, memory.grow
		r.zero()
	case op == 0x41:
		r.signed(32)
	case op == 0x42:
		r.signed(64)
	case op == 0x43:
		r.bytes(4)
	case op == 0x44:
		r.bytes(8)
	case op == 0xd0: // ref.null
		r.valueType()
	case op == 0xfd:
		r.simd()
	default:
		r.fail(Unsupported, "the instruction %#02x is not known", op)
	}
}

// simd reads an instruction with the prefix 0xfd. The number behind it is a
// LEB128 of which only the shortest form is taken: engines differ on others.
func (r *reader) simd() {
	op := int(r.byte())
	if op >= 0x80 {
		if r.byte() != 0x01 {
			r.fail(Unsupported, "the instruction 0xfd %#02x is not known", op)
		}
		return
	}
	switch {
	case op <= 11, op == 92, op == 93: // loads and stores
		r.u32()
		r.u32()
	case op == 12, op == 13: // v128.const, i8x16.shuffle
		r.bytes(16)
	case op >= 21 && op <= 34: // lanes
		r.byte()
	case op >= 84 && op <= 91: // loads and stores of a lane
		r.u32()
		r.u32()
		r.byte()
	}
}

// zero reads the index of the only memory.
func (r *reader) zero() {
	if r.byte() != 0 {
		r.fail(Unsupported, "there is one memory only")
	}
}
