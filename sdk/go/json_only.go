package graphmill

import (
	"slices"
	"unsafe"

	"github.com/graphmill/graphmill/sdk/go/internal/scan"
)

// OnlyFields gives of an object no more than these fields. The others are only checked
// to be JSON. A document that is no object is given as it is.
func OnlyFields(names ...string) JSONOption {
	o := JSONOption{fields: names}
	if len(names) <= scan.MaxFields {
		o.plan = new(scan.Plan)
		for i, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
			o.plan.Add(scan.NewField(name, uint(i), scan.WantRaw, true))
		}
	}
	return o
}

// selected gives the wanted fields of an object, read as [Output.Fields] reads them. It is
// false, and nothing is given, where that is not enough to read it, or to tell what is
// wrong with it.
func (j *jsonReader) selected() bool {
	r := j.r
	k := r.keys.of(j.plan)
	if !k.Read(j.d) {
		return false
	}
	if generation := j.generation; generation == r.ready && r.n+2*len(j.d)+scan.RoomOfMap < len(r.buf) {
		room := unsafe.Add(unsafe.Pointer(unsafe.SliceData(r.buf)), r.n)
		if end := k.WriteMap(room); end != nil {
			r.n += scan.Distance(room, end)
			r.ready = r.after
			r.count++
			return true
		}
	}
	r.beginLevel(j.generation, 0xdf, 0)
	for i, f := range j.plan.All {
		switch v, nested := k.Value(j.d, i); {
		case v == nil: // it is absent
		case nested:
			r.key(j.generation, f.Name)
			inner := jsonReader{r: r, generation: j.generation, d: v, bigText: j.bigText}
			inner.give()
		default:
			r.key(j.generation, f.Name)
			r.value(j.generation, v)
		}
	}
	r.endLevel(j.generation)
	return true
}
