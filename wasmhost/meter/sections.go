package meter

import "strconv"

// The readers of the sections, in the order in which these stand in a module.
// Each relies on what those before it have found.

func (m *Module) readTypes(r *reader) {
	m.types = make([]FuncType, r.count("types", 3, m.limits.Entries))
	for i := range m.types {
		if form := r.byte(); form != 0x60 {
			r.fail(Unsupported, "type %d is no plain function type", i)
		}
		m.types[i] = FuncType{Params: r.valueTypes(m.limits.Params), Results: r.valueTypes(m.limits.Params)}
		if r.err != nil {
			return
		}
	}
}

func (r *reader) valueTypes(limit int) []ValueType {
	list := make([]ValueType, r.count("parameters or results of a type", 1, limit))
	for i := range list {
		list[i] = r.valueType()
	}
	return list
}

func (r *reader) valueType() ValueType {
	t := ValueType(r.byte())
	switch t {
	case I32, I64, F32, F64, V128, FuncRef, ExternRef:
	default:
		r.fail(Unsupported, "the value type %#02x is not known", byte(t))
	}
	return t
}

func (m *Module) readImports(r *reader) {
	m.Imports = make([]Import, r.count("imports", 4, m.limits.Entries))
	for i := range m.Imports {
		im := &m.Imports[i]
		im.Module, im.Name, im.Kind = r.name(), r.name(), Kind(r.byte())
		switch im.Kind {
		case KindFunction:
			t := r.index("type", len(m.types))
			if r.err == nil {
				im.Type = m.types[t]
				m.imported++
			}
		case KindTable, KindMemory, KindGlobal:
			// The guest has none but its own, and their types need not be read.
			r.fail(Unsupported, "the %s %s.%s is imported, a module can import functions only", im.Kind, im.Module, im.Name)
		default:
			r.fail(Unsupported, "the import %s.%s is of a kind that is not known", im.Module, im.Name)
		}
		if r.err != nil {
			return
		}
	}
}

func (m *Module) readFunctions(r *reader) {
	m.funcs = make([]uint32, r.count("functions", 1, m.limits.Functions))
	for i := range m.funcs {
		m.funcs[i] = r.index("type", len(m.types))
		if r.err != nil {
			return
		}
		t := m.types[m.funcs[i]]
		if m.locals += len(t.Params) + len(t.Results); m.locals > m.limits.AllLocals {
			r.fail(OverLimit, "%d parameters and results up to function %d, the limit is %d", m.locals, i, m.limits.AllLocals)
			return
		}
	}
}

func (m *Module) readTables(r *reader) {
	m.tables = make([]table, r.count("tables", 3, m.limits.Tables))
	for i := range m.tables {
		t := &m.tables[i]
		t.ref = r.valueType()
		if t.ref != FuncRef && t.ref != ExternRef {
			r.fail(Unsupported, "table %d is of a kind that is not known", i)
		}
		limit := uint32(m.limits.TableSize)
		var declared bool
		t.min, t.max, declared = r.limits("table")
		if t.min > limit {
			r.fail(OverLimit, "a table of %d entries, the limit is %d", t.min, limit)
		}
		if !declared || t.max > limit {
			t.max = limit
		}
		if r.err != nil {
			return
		}
	}
}

func (m *Module) readMemory(r *reader) {
	n := r.count("memories", 2, 1)
	if n == 0 {
		return
	}
	low, high, declared := r.limits("memory")
	if int64(low) > int64(m.limits.MemoryPages) {
		r.fail(OverLimit, "the memory has %d MiB at the start, the limit is %d MiB", low>>4, m.limits.MemoryPages>>4)
	}
	m.Memory = &Memory{Min: int(low), Max: -1}
	if declared {
		m.Memory.Max = int(high)
	}
}

// limits reads the least and the most size of a table or a memory.
func (r *reader) limits(what string) (low, high uint32, declared bool) {
	flags := r.byte()
	if flags > 1 {
		r.fail(Unsupported, "the %s is shared or has 64-bit addresses", what)
		return 0, 0, false
	}
	low = r.u32()
	if flags == 1 {
		if high = r.u32(); high < low {
			r.fail(Malformed, "a %s of at least %d and at most %d", what, low, high)
		}
	}
	return low, high, flags == 1
}

func (m *Module) readGlobals(r *reader) {
	m.globals = r.count("globals", 4, m.limits.Entries)
}

func (m *Module) readExports(r *reader) {
	m.Exports = make([]Export, r.count("exports", 3, m.limits.Entries))
	seen := make(map[string]bool, len(m.Exports))
	memories := 0
	if m.Memory != nil {
		memories = 1
	}
	for i := range m.Exports {
		e := &m.Exports[i]
		e.Name, e.Kind = r.name(), Kind(r.byte())
		switch e.Kind {
		case KindFunction:
			e.index = r.index("function", m.imported+len(m.funcs))
			if r.err == nil {
				e.Type = m.typeOf(e.index)
			}
		case KindTable:
			e.index = r.index("table", len(m.tables))
		case KindMemory:
			e.index = r.index("memory", memories)
		case KindGlobal:
			e.index = r.index("global", m.globals)
		default:
			r.fail(Unsupported, "the export %s is of a kind that is not known", e.Name)
		}
		if seen[e.Name] {
			r.fail(Malformed, "the export %s stands there twice", e.Name)
		}
		if r.err != nil {
			return
		}
		seen[e.Name] = true
	}
}

// typeOf returns the type of a function by its index among all functions.
func (m *Module) typeOf(f uint32) FuncType {
	if int(f) >= m.imported {
		return m.types[m.funcs[int(f)-m.imported]]
	}
	return m.Imports[f].Type // only functions can be imported
}

func (m *Module) readStart(r *reader) {
	m.start = int(r.index("function", m.imported+len(m.funcs)))
}

func (m *Module) readElements(r *reader) {
	m.elements = r.count("element segments", 3, m.limits.Segments)
}

// readDataCount reads the number of data segments, which is told before the code
// that names them. wazero takes an empty section for none.
func (m *Module) readDataCount(r *reader) { m.dataCount = int(r.u32()) }

func (m *Module) readData(r *reader) {
	m.segments = r.count("data segments", 2, m.limits.Segments)
}

func (m *Module) readCode(r *reader) {
	m.bodies = make([]body, r.count("function bodies", 3, m.limits.Functions))
	for i := range m.bodies {
		size := r.u32()
		if r.err == nil && int64(size) > int64(m.limits.Body) {
			r.fail(OverLimit, "function %d has %d bytes, the limit is %d", i+m.imported, size, m.limits.Body)
		}
		b := r.bytes(size)
		if r.err != nil {
			return
		}
		if r.err = m.readBody(i, b); r.err != nil {
			return
		}
	}
}

// readBody reads the local variables of function i of the module's own.
func (m *Module) readBody(i int, b []byte) *Error {
	r := newReader(b, "function "+strconv.Itoa(i+m.imported))
	groups := r.count("groups of local variables", 2, m.limits.Locals)
	declared := r.at
	locals := 0
	for range groups {
		n := r.u32()
		r.valueType()
		if locals += int(min(n, uint32(m.limits.Locals)+1)); locals > m.limits.Locals {
			r.fail(OverLimit, "more than %d local variables", m.limits.Locals)
			break
		}
	}
	if m.locals += locals; m.locals > m.limits.AllLocals {
		r.fail(OverLimit, "the functions up to here have %d parameters, results and local variables, the limit is %d", m.locals, m.limits.AllLocals)
	}
	if r.err == nil {
		m.bodies[i] = body{groups: groups, declaration: b[declared:r.at], locals: locals, code: b[r.at:]}
	}
	return r.err
}
