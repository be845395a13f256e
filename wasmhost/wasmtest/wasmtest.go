// Package wasmtest assembles small WebAssembly modules by hand, sound ones and
// hostile ones, for tests.
package wasmtest

// Value types.
const (
	I32       = 0x7f
	I64       = 0x7e
	F32       = 0x7d
	F64       = 0x7c
	V128      = 0x7b
	FuncRef   = 0x70
	ExternRef = 0x6f
)

// Section numbers.
const (
	SectionType      = 1
	SectionImport    = 2
	SectionFunction  = 3
	SectionTable     = 4
	SectionMemory    = 5
	SectionGlobal    = 6
	SectionExport    = 7
	SectionStart     = 8
	SectionElement   = 9
	SectionCode      = 10
	SectionData      = 11
	SectionDataCount = 12
)

// Preamble begins every module.
const Preamble = "\x00asm\x01\x00\x00\x00"

// U32 is an unsigned LEB128.
func U32(v uint32) []byte {
	var b []byte
	for v >= 0x80 {
		b = append(b, byte(v)|0x80)
		v >>= 7
	}
	return append(b, byte(v))
}

// S64 is a signed LEB128.
func S64(v int64) []byte {
	var b []byte
	for {
		c := byte(v & 0x7f)
		v >>= 7
		if v == 0 && c&0x40 == 0 || v == -1 && c&0x40 != 0 {
			return append(b, c)
		}
		b = append(b, c|0x80)
	}
}

// Name is a length and a text.
func Name(s string) []byte { return append(U32(uint32(len(s))), s...) }

// Cat joins byte slices.
func Cat(parts ...[]byte) []byte {
	var b []byte
	for _, p := range parts {
		b = append(b, p...)
	}
	return b
}

// Section is a whole section.
func Section(id byte, body ...[]byte) []byte {
	b := Cat(body...)
	return Cat([]byte{id}, U32(uint32(len(b))), b)
}

// Vector is a count and its entries.
func Vector(entries ...[]byte) []byte { return Cat(U32(uint32(len(entries))), Cat(entries...)) }

// Func is one function.
type Func struct {
	Export  string // empty: not exported
	Params  []byte
	Results []byte
	Locals  []byte // types of its local variables
	Body    []byte // instructions without the last end
}

// Import is an imported function.
type Import struct {
	Module, Name    string
	Params, Results []byte
}

// Module describes a module. Functions are numbered imports first.
type Module struct {
	Imports  []Import
	Funcs    []Func
	Memory   []byte   // limits: flags, least, most; nil: one page; empty: none
	Table    []byte   // type and limits; nil: none
	Tables   [][]byte // further ones
	Globals  [][]byte
	Start    int      // function; 0: none (function 0 cannot be it)
	Elements [][]byte // segments
	Data     string   // placed at address DataAt
	Passive  []string // passive data segments, behind Data
	Exports  [][]byte // further ones
	Custom   [][]byte // whole sections at the end
}

// DataAt is where Data is placed in memory.
const DataAt = 1024

// Bytes assembles the module.
func (m Module) Bytes() []byte {
	var types, imports, functions, exports, bodies [][]byte
	funcType := func(params, results []byte) []byte {
		types = append(types, Cat([]byte{0x60}, U32(uint32(len(params))), params, U32(uint32(len(results))), results))
		return U32(uint32(len(types) - 1))
	}
	for _, im := range m.Imports {
		imports = append(imports, Cat(Name(im.Module), Name(im.Name), []byte{0}, funcType(im.Params, im.Results)))
	}
	for i, f := range m.Funcs {
		functions = append(functions, funcType(f.Params, f.Results))
		if f.Export != "" {
			exports = append(exports, Cat(Name(f.Export), []byte{0}, U32(uint32(len(m.Imports)+i))))
		}
		var locals [][]byte
		for _, t := range f.Locals {
			locals = append(locals, []byte{1, t})
		}
		body := Cat(Vector(locals...), f.Body, []byte{0x0b})
		bodies = append(bodies, Cat(U32(uint32(len(body))), body))
	}
	memory := m.Memory
	if memory == nil {
		memory = []byte{0, 1}
	}
	b := []byte(Preamble)
	b = append(b, Section(SectionType, Vector(types...))...)
	b = append(b, Section(SectionImport, Vector(imports...))...)
	b = append(b, Section(SectionFunction, Vector(functions...))...)
	if m.Table != nil {
		b = append(b, Section(SectionTable, Vector(append([][]byte{m.Table}, m.Tables...)...))...)
	}
	if len(memory) > 0 {
		b = append(b, Section(SectionMemory, Vector(memory))...)
		exports = append(exports, Cat(Name("memory"), []byte{2, 0}))
	}
	b = append(b, Section(SectionGlobal, Vector(m.Globals...))...)
	b = append(b, Section(SectionExport, Vector(append(exports, m.Exports...)...))...)
	if m.Start != 0 {
		b = append(b, Section(SectionStart, U32(uint32(m.Start)))...)
	}
	if m.Elements != nil {
		b = append(b, Section(SectionElement, Vector(m.Elements...))...)
	}
	var data [][]byte
	if m.Data != "" {
		data = append(data, Cat([]byte{0}, I32Const(DataAt), End, Name(m.Data)))
	}
	for _, p := range m.Passive {
		data = append(data, Cat([]byte{1}, Name(p)))
	}
	if m.Passive != nil {
		b = append(b, Section(SectionDataCount, U32(uint32(len(data))))...)
	}
	b = append(b, Section(SectionCode, Vector(bodies...))...)
	if data != nil {
		b = append(b, Section(SectionData, Vector(data...))...)
	}
	return Cat(b, Cat(m.Custom...))
}

// Marker returns the export that names the version of the ABI.
func Marker() Func { return Func{Export: "graphmill_abi_v1"} }

// Alloc returns the function graphmill_alloc with a fixed answer.
func Alloc(address int32) Func {
	return Func{Export: "graphmill_alloc", Params: []byte{I32}, Results: []byte{I32}, Body: I32Const(address)}
}

// Transform returns a transformation with this body.
func Transform(body ...[]byte) Func {
	return Func{Export: "transform", Params: []byte{I32, I32}, Results: []byte{I64}, Body: Cat(body...)}
}

// Guest is a module that keeps the ABI, whose transformation has this body. Its
// functions are 0 to 2 (behind the imports), and others follow. Memory is 16
// pages, the input buffer is at BufferAt.
func Guest(body []byte, others ...Func) Module {
	return Module{
		Funcs:  append([]Func{Marker(), Alloc(BufferAt), Transform(body)}, others...),
		Memory: []byte{0, 16},
	}
}

// BufferAt is where the input buffer of a Guest is.
const BufferAt = 512 << 10

// Answer is a module that always answers with this response frame.
func Answer(response []byte) Module {
	m := Guest(I64Const(DataAt<<32 | int64(len(response))))
	m.Data = string(response)
	return m
}
