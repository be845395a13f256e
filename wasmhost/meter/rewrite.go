package meter

// Rewritten is a metered module and what was counted on the way.
type Rewritten struct {
	Wasm      []byte
	Functions int
}

// Rewrite returns the module with fuel in it, of which the guest has none at
// first: the first loop or function calls yield. Memory and tables cannot grow
// beyond the limits. Custom sections are gone, but for the names of functions.
func (m *Module) Rewrite() (Rewritten, error) {
	bodies := appendU32(nil, uint32(len(m.bodies)))
	for i := range m.bodies {
		body, err := m.function(i)
		if err != nil {
			return Rewritten{}, err
		}
		bodies = append(appendU32(bodies, uint32(len(body))), body...)
	}
	w := &writer{out: append(append([]byte(nil), magic...), version...)}
	w.section(sectionType, m.newTypes())
	w.section(sectionImport, m.newImports())
	w.section(sectionFunction, m.sections[sectionFunction])
	w.section(sectionTable, m.newTables())
	w.section(sectionMemory, m.newMemory())
	w.checked(sectionGlobal, m.newGlobals)
	w.section(sectionExport, m.newExports())
	w.section(sectionStart, m.newStart())
	w.checked(sectionElement, m.newElements)
	w.section(sectionDataCount, m.sections[sectionDataCount])
	w.section(sectionCode, bodies)
	w.checked(sectionData, m.newData)
	if w.err != nil {
		return Rewritten{}, w.err
	}
	w.section(sectionCustom, m.newNames())
	return Rewritten{Wasm: w.out, Functions: len(m.bodies)}, nil
}

// shifted is the new index of a function: yield is the last of the imports.
func (m *Module) shifted(f uint32) uint32 {
	if int(f) >= m.imported {
		f++
	}
	return f
}

// writer puts the new module together.
type writer struct {
	out []byte
	err *Error
}

// section appends a section, unless it is nil.
func (w *writer) section(id byte, body []byte) {
	if body != nil {
		w.out = append(appendU32(append(w.out, id), uint32(len(body))), body...)
	}
}

func (w *writer) checked(id byte, make func() ([]byte, *Error)) {
	body, err := make()
	if w.err == nil {
		w.err = err
	}
	w.section(id, body)
}

// extended returns a section with one entry more, at its end.
func (m *Module) extended(id, count int, entry []byte) []byte {
	b := appendU32(nil, uint32(count+1))
	if old := m.sections[id]; old != nil {
		r := newReader(old, "")
		r.u32()
		b = append(b, old[r.at:]...)
	}
	return append(b, entry...)
}

func (m *Module) newTypes() []byte {
	return m.extended(sectionType, len(m.types), []byte{0x60, 0, 1, byte(I64)})
}

func (m *Module) newImports() []byte {
	entry := appendName(appendName(nil, YieldModule), YieldName)
	entry = appendU32(append(entry, byte(KindFunction)), uint32(len(m.types)))
	return m.extended(sectionImport, len(m.Imports), entry)
}

func (m *Module) newTables() []byte {
	if m.sections[sectionTable] == nil {
		return nil
	}
	b := appendU32(nil, uint32(len(m.tables)))
	for _, t := range m.tables {
		b = appendU32(appendU32(append(b, byte(t.ref), 1), t.min), t.max)
	}
	return b
}

func (m *Module) newMemory() []byte {
	if m.Memory == nil {
		return nil
	}
	high := m.limits.MemoryPages
	if m.Memory.Max >= 0 {
		high = min(high, m.Memory.Max)
	}
	return appendU32(appendU32([]byte{1, 1}, uint32(m.Memory.Min)), uint32(high))
}

// newGlobals appends the fuel, which is 0.
func (m *Module) newGlobals() ([]byte, *Error) {
	b := appendU32(nil, uint32(m.globals+1))
	r := newReader(m.sections[sectionGlobal], "the global section")
	if r.b != nil {
		r.u32()
	}
	for i := range m.globals {
		b = append(b, byte(r.valueType()), r.byte())
		b = m.constant(r, i, b)
	}
	r.end()
	return append(b, byte(I64), 1, 0x42, 0, 0x0b), r.err // mutable; i64.const 0; end
}

func (m *Module) newExports() []byte {
	if m.sections[sectionExport] == nil {
		return nil
	}
	b := appendU32(nil, uint32(len(m.Exports)))
	for _, e := range m.Exports {
		i := e.index
		if e.Kind == KindFunction {
			i = m.shifted(i)
		}
		b = appendU32(append(appendName(b, e.Name), byte(e.Kind)), i)
	}
	return b
}

func (m *Module) newStart() []byte {
	if m.start < 0 {
		return nil
	}
	return appendU32(nil, m.shifted(uint32(m.start)))
}

// newElements copies the element segments with the new function indices.
func (m *Module) newElements() ([]byte, *Error) {
	if m.sections[sectionElement] == nil {
		return nil, nil
	}
	r := newReader(m.sections[sectionElement], "the element section")
	r.u32()
	b := appendU32(nil, uint32(m.elements))
	for i := 0; i < m.elements && r.err == nil; i++ {
		flags := r.u32() // 1 passive or declarative; 2 with a table index, or declarative; 4 expressions
		if flags > 7 {
			r.fail(Unsupported, "element segment %d is of a kind that is not known", i)
		}
		b = appendU32(b, flags)
		if flags&1 == 0 {
			if flags&2 != 0 {
				b = appendU32(b, r.index("table", len(m.tables)))
			}
			b = m.constant(r, m.globals, b)
		}
		if flags&3 != 0 {
			b = append(b, r.byte()) // element kind or reference type: the engine checks it
		}
		n := r.count("elements", 1, m.limits.TableSize)
		b = appendU32(b, uint32(n))
		for range n {
			if flags&4 != 0 {
				b = m.constant(r, m.globals, b)
			} else {
				b = appendU32(b, m.shifted(r.index("function", m.imported+len(m.funcs))))
			}
			if r.err != nil {
				break
			}
		}
	}
	r.end()
	return b, r.err
}

// newData checks the data segments, whose contents stay as they are.
func (m *Module) newData() ([]byte, *Error) {
	if m.sections[sectionData] == nil {
		return nil, nil
	}
	r := newReader(m.sections[sectionData], "the data section")
	r.u32()
	b := appendU32(nil, uint32(m.segments))
	for i := 0; i < m.segments && r.err == nil; i++ {
		flags := r.u32() // 1 passive; 2 with a memory index
		if flags > 2 {
			r.fail(Unsupported, "data segment %d is of a kind that is not known", i)
		}
		b = appendU32(b, flags)
		if flags == 2 {
			r.zero()
			b = append(b, 0)
		}
		if flags != 1 {
			b = m.constant(r, m.globals, b)
		}
		n := r.u32()
		b = append(appendU32(b, n), r.bytes(n)...)
	}
	r.end()
	return b, r.err
}

// constant copies a constant expression, in which the first so many globals may
// be used, to b.
func (m *Module) constant(r *reader, globals int, b []byte) []byte {
	for r.err == nil {
		start := r.at
		op := r.byte()
		switch op {
		case 0x23: // global.get
			r.index("global", globals)
		case 0xd2: // ref.func
			b = appendU32(append(b, op), m.shifted(r.index("function", m.imported+len(m.funcs))))
			continue
		case 0x0b:
			return append(b, op)
		case 0x41, 0x42, 0x43, 0x44, 0xd0, 0x6a, 0x6b, 0x6c, 0x7c, 0x7d, 0x7e: // constants, ref.null, and i32 and i64 add, sub, mul
			r.immediates(op)
		case 0xfd: // v128.const
			r.simd()
		default:
			r.fail(Unsupported, "the instruction %#02x in a constant expression is not known", op)
		}
		b = append(b, r.b[start:r.at]...)
	}
	return b
}
