package meter

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

// Sections of a module.
const (
	sectionCustom = iota
	sectionType
	sectionImport
	sectionFunction
	sectionTable
	sectionMemory
	sectionGlobal
	sectionExport
	sectionStart
	sectionElement
	sectionCode
	sectionData
	sectionDataCount
)

// order is where each section stands in a module; 0: not known.
var order = [...]int{
	sectionType: 1, sectionImport: 2, sectionFunction: 3, sectionTable: 4, sectionMemory: 5, sectionGlobal: 6,
	sectionExport: 7, sectionStart: 8, sectionElement: 9, sectionDataCount: 10, sectionCode: 11, sectionData: 12,
}

var sectionNames = [...]string{
	"custom", "type", "import", "function", "table", "memory", "global", "export", "start", "element", "code", "data", "data count",
}

// ValueType is the type of a value, as the binary format spells it.
type ValueType byte

// The value types.
const (
	I32       ValueType = 0x7f
	I64       ValueType = 0x7e
	F32       ValueType = 0x7d
	F64       ValueType = 0x7c
	V128      ValueType = 0x7b
	FuncRef   ValueType = 0x70
	ExternRef ValueType = 0x6f
)

// String returns the type's name in the text format.
func (t ValueType) String() string {
	switch t {
	case I32:
		return "i32"
	case I64:
		return "i64"
	case F32:
		return "f32"
	case F64:
		return "f64"
	case V128:
		return "v128"
	case FuncRef:
		return "funcref"
	case ExternRef:
		return "externref"
	default:
		return fmt.Sprintf("%#02x", byte(t))
	}
}

// FuncType is the type of a function.
type FuncType struct {
	Params, Results []ValueType
}

// Kind says what is imported or exported.
type Kind byte

// The kinds.
const (
	KindFunction Kind = 0
	KindTable    Kind = 1
	KindMemory   Kind = 2
	KindGlobal   Kind = 3
)

// String returns the kind's name.
func (k Kind) String() string {
	switch k {
	case KindFunction:
		return "function"
	case KindTable:
		return "table"
	case KindMemory:
		return "memory"
	case KindGlobal:
		return "global"
	default:
		return fmt.Sprintf("kind %d", byte(k))
	}
}

// Import is one import. Type is set for functions.
type Import struct {
	Module, Name string
	Kind         Kind
	Type         FuncType
}

// Export is one export. Type is set for functions.
type Export struct {
	Name string
	Kind Kind
	Type FuncType

	index uint32
}

// Memory is the memory of a module, in pages of 64 KiB.
type Memory struct {
	Min int
	Max int // -1: not given
}

// Module is what Parse found, within its limits. It refers to the bytes that it
// was made of.
type Module struct {
	Imports []Import
	Exports []Export
	Memory  *Memory // nil: there is none

	limits Limits

	types     []FuncType
	imported  int      // imported functions
	funcs     []uint32 // type index of each function of its own
	locals    int      // parameters, results and local variables of funcs
	globals   int
	tables    []table
	elements  int
	segments  int // of the data section
	dataCount int // segments that the data count section announces, if there is one
	start     int // function index; -1: none
	bodies    []body
	sections  [13][]byte // raw; nil where absent
	names     []byte     // raw name section
}

// body is the body of a function.
type body struct {
	groups      int    // of local variables: a count and a type
	declaration []byte // the groups
	locals      int    // their sum
	code        []byte // instructions
}

type table struct {
	ref      ValueType
	min, max uint32
}

var (
	magic     = []byte("\x00asm")
	version   = []byte{1, 0, 0, 0}
	component = []byte{1, 0} // the layer, behind a version of its own
)

// Parse reads a binary module and checks every count in it against limits and
// against the bytes that are there. Rewrite looks at the instructions.
func Parse(wasm []byte, limits Limits) (*Module, error) {
	if err := checkPreamble(wasm); err != nil {
		return nil, err
	}
	m := &Module{limits: limits, start: -1}
	if err := m.split(wasm); err != nil {
		return nil, err
	}
	for _, s := range []struct {
		id   int
		read func(*reader)
	}{
		{sectionType, m.readTypes},
		{sectionImport, m.readImports},
		{sectionFunction, m.readFunctions},
		{sectionTable, m.readTables},
		{sectionMemory, m.readMemory},
		{sectionGlobal, m.readGlobals},
		{sectionExport, m.readExports},
		{sectionStart, m.readStart},
		{sectionElement, m.readElements},
		{sectionDataCount, m.readDataCount},
		{sectionCode, m.readCode},
		{sectionData, m.readData},
	} {
		if m.sections[s.id] == nil {
			continue
		}
		r := newReader(m.sections[s.id], "the "+sectionNames[s.id]+" section")
		s.read(r)
		if s.id != sectionGlobal && s.id != sectionElement && s.id != sectionData { // whose bodies Rewrite reads
			r.end()
		}
		if r.err != nil {
			return nil, r.err
		}
	}
	if len(m.bodies) != len(m.funcs) {
		return nil, errorf(Malformed, "%d functions are declared, %d have a body", len(m.funcs), len(m.bodies))
	}
	if m.sections[sectionDataCount] != nil && m.dataCount != m.segments {
		return nil, errorf(Malformed, "%d data segments are announced, there are %d", m.dataCount, m.segments)
	}
	return m, nil
}

func checkPreamble(wasm []byte) error {
	if !bytes.HasPrefix(wasm, magic) {
		if len(wasm) > 0 && bytes.HasPrefix(magic, wasm) {
			return errorf(Truncated, "the module has %d bytes", len(wasm))
		}
		return errorf(NotWasm, "the file begins with %q, a WebAssembly module with \"\\x00asm\"", wasm[:min(len(wasm), 16)])
	}
	rest := wasm[len(magic):]
	switch {
	case len(rest) < 4:
		return errorf(Truncated, "the module has %d bytes", len(wasm))
	case bytes.Equal(rest[:4], version):
		return nil
	case bytes.Equal(rest[2:4], component):
		return errorf(Component, "the file is a WebAssembly component")
	default:
		return errorf(Unsupported, "the binary format has version %#x, 1 is known", rest[:4])
	}
}

// split cuts the module into its sections.
func (m *Module) split(wasm []byte) error {
	r := newReader(wasm, "the list of sections")
	r.bytes(8)
	last, customs := 0, 0
	for r.left() > 0 {
		id := int(r.byte())
		if id != sectionCustom && (id >= len(order) || order[id] == 0) {
			r.fail(Unsupported, "section %d is not known", id)
		}
		body := r.bytes(r.u32())
		if r.err != nil {
			break
		}
		if id == sectionCustom {
			if customs++; customs > m.limits.Entries {
				r.fail(OverLimit, "more than %d custom sections", m.limits.Entries)
				break
			}
			if err := m.keepNames(body); err != nil {
				return err
			}
			continue
		}
		if order[id] <= last {
			r.fail(Malformed, "the %s section stands at the wrong place", sectionNames[id])
			break
		}
		last = order[id]
		m.sections[id] = body
	}
	if r.err != nil {
		return r.err
	}
	return nil
}

// keepNames keeps a name section. Other custom sections are dropped: what they
// say of places in the code is not true of the rewritten module. Each begins
// with its name; one that does not is no sound section.
func (m *Module) keepNames(body []byte) error {
	r := newReader(body, "a custom section")
	name := r.bytes(r.u32())
	switch {
	case r.err != nil:
		return errorf(Malformed, "a custom section of %d bytes does not hold its name", len(body))
	case !utf8.Valid(name):
		return errorf(Malformed, "the name of a custom section is not valid UTF-8")
	case string(name) == "name":
		m.names = body[r.at:]
	}
	return nil
}
