package meter

// The parts of a name section.
const functionNames = 1

// newNames returns a name section with the names of functions under their new
// indices, so that the trace of a trap can be read; nil where there are none.
// Names are no part of what a module means: if they are not sound they are
// left out without an error.
func (m *Module) newNames() []byte {
	r := newReader(m.names, "the name section")
	for r.left() > 0 {
		id := r.byte()
		part := r.bytes(r.u32())
		if r.err != nil {
			return nil
		}
		if id != functionNames {
			continue
		}
		names := m.renumbered(newReader(part, "function names"))
		if names == nil {
			return nil
		}
		b := append(appendName(nil, "name"), functionNames)
		return append(appendU32(b, uint32(len(names))), names...)
	}
	return nil
}

func (m *Module) renumbered(r *reader) []byte {
	total := m.imported + len(m.funcs)
	n := r.count("names", 2, total)
	b := appendU32(nil, uint32(n))
	last := -1
	for range n {
		f := r.index("function", total)
		name := r.name()
		if r.err != nil || int(f) <= last {
			return nil
		}
		last = int(f)
		b = appendName(appendU32(b, m.shifted(f)), name)
	}
	if r.end(); r.err != nil {
		return nil
	}
	return b
}
