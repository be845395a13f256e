package meter

import (
	"slices"
	"strconv"
)

// functionNames is the number of that part of a name section.
const functionNames = 1

// newNames returns a name section with the names of functions under their new
// indices, so that the trace of a trap can be read. A module without names gets
// those of its exports, and for other functions the number that the module's
// own tools know them by, which is not the one in the rewritten module.
//
// Names are no part of what a module means: a section that is not sound counts
// as none.
func (m *Module) newNames() []byte {
	names := m.givenNames()
	if names == nil {
		names = m.madeNames()
	}
	b := append(appendName(nil, "name"), functionNames)
	return append(appendU32(b, uint32(len(names))), names...)
}

// givenNames returns the function names of the module's name section, nil where
// there are none.
func (m *Module) givenNames() []byte {
	r := newReader(m.names, "the name section")
	for r.left() > 0 {
		id := r.byte()
		part := r.bytes(r.u32())
		if r.err == nil && id == functionNames {
			return m.renumbered(newReader(part, "the function names"))
		}
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

func (m *Module) madeNames() []byte {
	exported := slices.DeleteFunc(slices.Clone(m.Exports), func(e Export) bool { return e.Kind != KindFunction })
	slices.SortStableFunc(exported, func(a, b Export) int { return int(a.index) - int(b.index) })

	b := appendU32(nil, uint32(len(m.funcs)))
	for f := uint32(m.imported); f < uint32(m.imported+len(m.funcs)); f++ {
		name := "$" + strconv.Itoa(int(f))
		for len(exported) > 0 && exported[0].index <= f {
			if exported[0].index == f {
				name = exported[0].Name
			}
			exported = exported[1:]
		}
		b = appendName(appendU32(b, m.shifted(f)), name)
	}
	return b
}
