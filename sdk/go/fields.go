package graphmill

import (
	"math"
	"unsafe"

	"github.com/graphmill/graphmill/sdk/go/internal/scan"
	"github.com/graphmill/graphmill/sdk/go/json"
)

// Fields adds a statement of q whose values are the fields of a JSON document, in the
// order in which the shape declares them. A field that may be absent and is, or is null,
// gives null; a raw one is given as by [Statement.JSON]. A document that is not as the
// shape wants it makes the message fail.
//
//	var user = json.NewShape(json.Int("id"), json.OptText("name"))
//
//	var seen = graphmill.NewQuery(`MERGE (u:User {id: $id}) SET u.name = $name`, user.Names()...)
//
//	out.Fields(seen, user, m.Payload())
//
// It is the fastest way from JSON to a statement, and takes less than half of the time of
// values that are read and given one by one: it learns from the documents in which order
// their fields stand, whichever that is, and which others there are. For more values beside those of the
// document see [Statement.Fields].
func (o Output) Fields(q *Query, shape *json.Shape, document []byte) {
	o.r.row(o.message, q, shape, document)
}

// Fields gives the fields of a JSON document as the next values, by position or as
// elements of a list. See [Output.Fields].
//
//	out.Statement(seen).Fields(user, m.Payload()).Int(m.Timestamp())
func (s Statement) Fields(shape *json.Shape, document []byte) Statement {
	s.r.fields(s.generation, shape, document)
	return s
}

// row does in one go, for most documents, what begin, fields and settle do, which is
// what it does for others.
func (r *response) row(message uint32, q *Query, shape *json.Shape, document []byte) {
	plan := shape.Plan()
	k := r.keys.latest
	if k == nil || k.Plan != plan {
		k = r.keys.of(plan)
	}
	if q == r.queries.latest && !r.open && r.problem == nil && q.wanted == plan.Count && q.wanted <= maxShortArray &&
		r.n+2*len(document)+plan.Room < len(r.buf) && k.Read(document) {
		head := unsafe.Add(unsafe.Pointer(unsafe.SliceData(r.buf)), r.n)
		if end := k.Write(unsafe.Add(head, 1)); end != nil {
			*(*byte)(head) = 0x90 | byte(q.wanted)
			length := scan.Distance(head, end)
			r.statements = append(r.statements, entry{r.queries.last, message, uint32(r.n), uint32(length)})
			r.n += length
			return
		}
	}
	r.fields(r.begin(message, q).generation, shape, document)
}

func (r *response) fields(generation uint64, shape *json.Shape, document []byte) {
	plan := shape.Plan()
	k := r.keys.of(plan)
	if r.ready == generation && r.after == generation && r.n+2*len(document)+plan.Room <= len(r.buf) && k.Read(document) && k.Complete() {
		room := unsafe.Add(unsafe.Pointer(unsafe.SliceData(r.buf)), r.n)
		if end := k.Write(room); end != nil {
			r.n += scan.Distance(room, end)
			r.count += plan.Count
			return
		}
		for i := range plan.All {
			v, nested := k.Value(document, i)
			switch {
			case nested:
				Statement{r, generation}.JSON(v)
			case v == nil:
				r.null(generation)
			default:
				r.value(generation, v)
			}
		}
		return
	}
	r.fieldByField(generation, shape, document)
}

// value gives a value that is MessagePack already.
func (r *response) value(generation uint64, v []byte) {
	r.next(generation)
	if r.room(len(v)) {
		r.n += copy(r.buf[r.n:], v)
	}
}

// keys is what has been learned of documents, by shape.
type keys struct {
	latest *scan.Keys
	list   []*scan.Keys
}

// maxShapes bounds the shapes that are remembered. A module has few, and makes them once.
const maxShapes = 16

func (k *keys) of(plan *scan.Plan) *scan.Keys {
	for _, known := range k.list {
		if known.Plan == plan {
			k.latest = known
			return known
		}
	}
	if len(k.list) == maxShapes {
		k.list = k.list[:0]
	}
	k.latest = scan.NewKeys(plan)
	k.list = append(k.list, k.latest)
	return k.latest
}

// fieldByField is fields for any document, and tells what is wrong with one.
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
	for i, f := range shape.Plan().All {
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
