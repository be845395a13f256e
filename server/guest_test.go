package server_test

import (
	"encoding/binary"
	"fmt"

	wt "github.com/graphmill/graphmill/wasmhost/wasmtest"
)

// obedient is a module that does what the payload of a message says:
//
//	drop    no statement
//	fail    the failure of this message
//	flaky   a failure that is worth another try, each time
//	panic   a trap
//	loop    no end
//	hoard   memory without end
//	chatty  a thousand log lines, then as any other
//	flood   log lines without end
//
// Anything else is stored: one statement with the payload and the offset. It
// logs a line for each batch. Put together by hand it has a few hundred bytes,
// which cost nothing to compile. Its second transformation, loop, never ends.
var obedient = obedientModule("CREATE (:Message {payload: $payload, offset: $offset})").Bytes()

// obedientTwo does the same with another query: another version.
var obedientTwo = obedientModule("CREATE (:Message:Two {payload: $payload, offset: $offset})").Bytes()

// Where the parts of the response stand behind its beginning, at wt.DataAt, and
// where the request stands: there is room for 16 MiB of each.
const (
	statementsAt = 8 << 10
	failuresAt   = 72 << 10
	paramsAt     = 136 << 10

	requestAt = 17 << 20
	pages     = 33 << 4
)

// greeting is what obedient logs for each batch.
const greeting = "handed a batch"

func obedientModule(query string) wt.Module { return obedientThat(query, nil) }

// vigilantVersion is obedient with a query of its own, which traps when it meets
// a message that it has seen, or one from before it: the rule is that an
// instance sees each message once, in the order of its partition.
func vigilantVersion(version int) []byte {
	return obedientThat(versionQuery(version), meetOnce()).Bytes()
}

func versionQuery(version int) string {
	return fmt.Sprintf("CREATE (:Message {payload: $payload, offset: $offset, version: %d})", version)
}

// meetOnce keeps, for each partition, the offset that may come next at least.
func meetOnce() []byte {
	const next = 256 // eight bytes a partition, in front of the data
	cell := wt.Cat(wt.LocalGet(record), load(20), wt.I32Const(8), i32Mul)
	offset := wt.Cat(wt.LocalGet(record), i64Load(24))
	return wt.Cat(
		when(wt.Cat(offset, cell, i64Load(next), i64LtS), wt.Unreachable),
		cell, offset, wt.I64Const(1), i64Add, i64Store(next),
	)
}

// obedientThat is obedient and runs each for every message first.
func obedientThat(query string, each []byte) wt.Module {
	data := newLayout(28 + 16 + 16) // header, one query, its two names
	text, payload, offset := data.add(query), data.add("payload"), data.add("offset")
	told, flaky, hello := data.add("told to fail"), data.add("told to be flaky"), data.add(greeting)
	for i, v := range []uint32{
		0x31524d47, 1, 28, 0, statementsAt, 0, failuresAt, // the two counts are filled in at the end
		text, uint32(len(query)), 44, 2,
		payload, uint32(len("payload")), offset, uint32(len("offset")),
	} {
		binary.LittleEndian.PutUint32(data.bytes[4*i:], v)
	}

	log := wt.Import{Module: "graphmill", Name: "log", Params: []byte{wt.I32, wt.I32, wt.I32}}
	say := wt.Cat(wt.I32Const(1), constant(wt.DataAt+hello), constant(uint32(len(greeting))), wt.Call(0))
	m := wt.Guest(nil)
	m.Imports = []wt.Import{log}
	m.Memory = wt.Cat([]byte{0}, wt.U32(pages))
	m.Funcs[1] = wt.Alloc(requestAt)
	m.Funcs[2] = wt.Transform(say, obey(told, flaky, say, each))
	m.Funcs[2].Locals = []byte{wt.I32, wt.I32, wt.I32, wt.I32, wt.I32, wt.I32, wt.I32, wt.I32}
	spin := wt.Transform(wt.Forever(), wt.Unreachable)
	spin.Export = "loop"
	m.Funcs = append(m.Funcs, spin)
	m.Data = string(data.bytes)
	return m
}

// layout collects constant bytes behind a table of a given size.
type layout struct{ bytes []byte }

func newLayout(table int) *layout { return &layout{bytes: make([]byte, table)} }

// add returns where the text stands.
func (l *layout) add(text string) uint32 {
	l.bytes = append(l.bytes, text...)
	return uint32(len(l.bytes) - len(text))
}

// Local variables of the transformation; the first is its parameter.
const (
	request = iota
	_
	index     // of the message in hand
	record    // where it stands
	payload   // where its payload is
	size      // of the payload
	statement // where the next statement entry goes
	failure   // where the next failure entry goes
	params    // where the next parameters go
	word      // the first four bytes of the payload
)

// obey is the body of the transformation: a loop over the messages.
func obey(told, flaky uint32, say, each []byte) []byte {
	get, set := wt.LocalGet, wt.LocalSet
	add := func(local uint32, n int32) []byte {
		return wt.Cat(get(local), wt.I32Const(n), wt.I32Add, set(local))
	}
	fail := func(text uint32, length, flags int32) []byte {
		return wt.Cat(
			get(failure), get(index), wt.I32Store(0),
			get(failure), wt.I32Const(flags), wt.I32Store(4),
			get(failure), constant(text), wt.I32Store(8),
			get(failure), wt.I32Const(length), wt.I32Store(12),
			add(failure, 16))
	}
	hoard := wt.Loop(wt.I32Const(16), wt.MemoryGrow, wt.I32Const(-1), i32Eq, wt.BrIf(1), wt.Br(0))
	chat := wt.Cat(
		wt.I32Const(1000), set(word),
		wt.Loop(say, add(word, -1), get(word), wt.BrIf(0)),
	)
	store := wt.Cat(
		// The entry, then an array of a text and an integer.
		get(statement), wt.I32Const(0), wt.I32Store(0),
		get(statement), get(index), wt.I32Store(4),
		get(statement), get(params), constant(wt.DataAt), i32Sub, wt.I32Store(8),
		get(statement), get(size), wt.I32Const(15), wt.I32Add, wt.I32Store(12),
		add(statement, 16),
		get(params), wt.I32Const(0x92), store8(0),
		get(params), wt.I32Const(0xdb), store8(1),
		bigEndian32(get(params), 2, get(size)),
		get(params), wt.I32Const(6), wt.I32Add, get(payload), get(size), memoryCopy,
		add(params, 6), get(params), get(size), wt.I32Add, set(params),
		get(params), wt.I32Const(0xd3), store8(0),
		bigEndian32(get(params), 1, wt.Cat(get(record), load(28))),
		bigEndian32(get(params), 5, wt.Cat(get(record), load(24))),
		add(params, 9),
	)
	count := func(local uint32, from uint32) []byte {
		return wt.Cat(get(local), constant(from), i32Sub, wt.I32Const(16), i32DivU)
	}
	return wt.Cat(
		constant(wt.DataAt+statementsAt), set(statement),
		constant(wt.DataAt+failuresAt), set(failure),
		constant(wt.DataAt+paramsAt), set(params),
		get(request), get(request), load(12), wt.I32Add, set(record),
		wt.Block(wt.Loop(
			get(index), get(request), load(8), i32Eq, wt.BrIf(1),
			get(request), get(index), wt.I32Store(4), // the cursor
			each,
			get(request), get(record), load(0), wt.I32Add, set(payload),
			get(record), load(4), set(size),
			wt.I32Const(0), set(word),
			when(wt.Cat(get(size), wt.I32Const(3), i32GtU), get(payload), load(0), set(word)),
			wt.Block(
				told4("drop", wt.Br(1)),
				told4("fail", fail(told, 12, 0), wt.Br(1)),
				told4("flaky", fail(flaky, 16, 1), wt.Br(1)),
				told4("panic", wt.Unreachable),
				told4("loop", wt.Forever()),
				told4("flood", wt.Forever(say)),
				told4("chatty", chat),
				told4("hoard", wt.Block(hoard), wt.Unreachable),
				store,
			),
			add(index, 1),
			get(record), get(request), load(16), wt.I32Add, set(record),
			wt.Br(0),
		)),
		constant(wt.DataAt), count(statement, wt.DataAt+statementsAt), wt.I32Store(12),
		constant(wt.DataAt), count(failure, wt.DataAt+failuresAt), wt.I32Store(20),
		get(params), constant(wt.DataAt), i32Sub, i64ExtendU,
		wt.I64Const(wt.DataAt<<32), i64Or,
	)
}

// told4 runs body where the payload begins with the first four bytes of what.
// Br(1) in it leaves the block around.
func told4(what string, body ...[]byte) []byte {
	return when(wt.Cat(wt.LocalGet(word), constant(binary.LittleEndian.Uint32([]byte(what))), i32Eq), body...)
}

// when runs body where the condition holds.
func when(condition []byte, body ...[]byte) []byte {
	return wt.Cat(condition, []byte{0x04, 0x40}, wt.Cat(body...), wt.End)
}

// bigEndian32 stores a value as msgpack does.
func bigEndian32(address []byte, offset uint32, value []byte) []byte {
	var b []byte
	for i := range uint32(4) {
		b = append(b, wt.Cat(address, value, wt.I32Const(int32(24-8*i)), i32ShrU, store8(offset+i))...)
	}
	return b
}

func constant(v uint32) []byte { return wt.I32Const(int32(v)) }

// load pushes the i32 at an address and an offset.
func load(offset uint32) []byte { return wt.Cat([]byte{0x28, 2}, wt.U32(offset)) }

// store8 stores the lowest byte.
func store8(offset uint32) []byte { return wt.Cat([]byte{0x3a, 0}, wt.U32(offset)) }

// i64Load and i64Store take an address and an offset.
func i64Load(offset uint32) []byte  { return wt.Cat([]byte{0x29, 3}, wt.U32(offset)) }
func i64Store(offset uint32) []byte { return wt.Cat([]byte{0x37, 3}, wt.U32(offset)) }

// Instructions without immediates.
var (
	i32Mul     = []byte{0x6c}
	i64LtS     = []byte{0x53}
	i64Add     = []byte{0x7c}
	i32Eq      = []byte{0x46}
	i32GtU     = []byte{0x4b}
	i32Sub     = []byte{0x6b}
	i32DivU    = []byte{0x6e}
	i32ShrU    = []byte{0x76}
	i64ExtendU = []byte{0xad}
	i64Or      = []byte{0x84}
	memoryCopy = []byte{0xfc, 10, 0, 0}
)
