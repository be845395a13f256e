package graphmill

import (
	"math"
	"unsafe"

	"github.com/graphmill/graphmill/sdk/go/internal/scan"
	"github.com/graphmill/graphmill/sdk/go/json"
)

// Fields reads a JSON document and gives the fields of a shape as the next values, in
// the order in which they were declared: by position, or as elements of a list. A field
// that may be absent and is, or is null, gives null; a raw one is given as by
// [Statement.JSON]. A document that is not as the shape wants it makes the message fail.
//
//	var user = json.NewShape(json.Int("id"), json.OptText("name"))
//
//	var seen = graphmill.NewQuery(`MERGE (u:User {id: $id}) SET u.name = $name`, user.Names()...)
//
//	out.Statement(seen).Fields(user, m.Payload())
//
// It is the fastest way, about half of what [json.Shape.Parse] and single values cost.
func (s Statement) Fields(shape *json.Shape, document []byte) Statement {
	s.r.fields(s.generation, shape, document)
	return s
}

func (r *response) fields(generation uint64, shape *json.Shape, document []byte) {
	plan := shape.Plan()
	if r.ready == generation && r.after == generation && len(plan) > 0 && r.n+scan.RowRoom(len(document), len(plan)) <= len(r.buf) {
		room := unsafe.Add(unsafe.Pointer(unsafe.SliceData(r.buf)), r.n)
		end := scan.Row(room, unsafe.Pointer(unsafe.SliceData(scan.Padded(document))), len(document), plan[0])
		if end != nil {
			r.n += scan.Distance(room, end)
			r.count += uint32(len(plan))
			return
		}
	}
	r.fieldByField(generation, shape, document)
}

// fieldByField is fields for any document.
func (r *response) fieldByField(generation uint64, shape *json.Shape, document []byte) {
	if generation == r.generation && r.after != generation {
		r.fail(r.wrong("Fields gives values by position: make the query with the names of the shape"))
		return
	}
	var o json.Object
	if err := o.Parse(shape, document); err != nil {
		r.fail(err)
		return
	}
	s := Statement{r, generation}
	for i, f := range shape.Plan() {
		bits, text, there := o.Value(i)
		switch {
		case !there:
			s.Null()
		case f.Want == scan.WantInt:
			s.Int(int64(bits))
		case f.Want == scan.WantFloat:
			s.Float(math.Float64frombits(bits))
		case f.Want == scan.WantBool:
			s.Bool(bits != 0)
		case f.Want == scan.WantText:
			s.Text(text)
		default:
			s.JSON(text)
		}
	}
}
