package json

import (
	"unicode/utf8"

	"github.com/graphmill/graphmill/sdk/go/internal/scan"
)

// Shape is the fields that are wanted of documents of one kind, with their types.
// Make it once, as package variables:
//
//	var (
//		user json.Shape
//		id   = user.Int("id")
//		name = user.OptText("name")
//	)
//
// A field whose method has Opt in its name may be absent or null, the others may
// not. All other fields of a document are passed over. An [Object] finds fields fastest
// if they are declared in the order in which they mostly stand in the documents.
//
// The methods panic, which stops a module as soon as it is loaded, on a name that is
// there already or not UTF-8, and beyond [MaxFields]. They must not be called once
// documents are parsed.
type Shape struct {
	plan     scan.Plan
	required uint32 // bit i: field i must be there
}

// MaxFields is how many fields a shape may have. For more, parse the document by a
// second shape too.
const MaxFields = scan.MaxFields

// Handles of fields, by which their values are taken from an [Object].
type (
	IntField      struct{ handle }
	OptIntField   struct{ handle }
	FloatField    struct{ handle }
	OptFloatField struct{ handle }
	BoolField     struct{ handle }
	OptBoolField  struct{ handle }
	TextField     struct{ handle }
	RawField      struct{ handle }
)

// Int declares an integer that an int64 holds.
func (s *Shape) Int(name string) IntField { return IntField{s.add(name, scan.WantInt, true)} }

// OptInt declares an integer that may be absent.
func (s *Shape) OptInt(name string) OptIntField { return OptIntField{s.add(name, scan.WantInt, false)} }

// Float declares a number, which is taken as the nearest float64.
func (s *Shape) Float(name string) FloatField { return FloatField{s.add(name, scan.WantFloat, true)} }

// OptFloat declares a number that may be absent.
func (s *Shape) OptFloat(name string) OptFloatField {
	return OptFloatField{s.add(name, scan.WantFloat, false)}
}

// Bool declares a boolean.
func (s *Shape) Bool(name string) BoolField { return BoolField{s.add(name, scan.WantBool, true)} }

// OptBool declares a boolean that may be absent.
func (s *Shape) OptBool(name string) OptBoolField {
	return OptBoolField{s.add(name, scan.WantBool, false)}
}

// Text declares a string.
func (s *Shape) Text(name string) TextField { return TextField{s.add(name, scan.WantText, true)} }

// OptText declares a string that may be absent.
func (s *Shape) OptText(name string) TextField { return TextField{s.add(name, scan.WantText, false)} }

// Raw declares a value of any kind, which is taken as its JSON text.
func (s *Shape) Raw(name string) RawField { return RawField{s.add(name, scan.WantRaw, true)} }

// OptRaw declares a value of any kind that may be absent. Null is a value here.
func (s *Shape) OptRaw(name string) RawField { return RawField{s.add(name, scan.WantRaw, false)} }

// handle says where an Object keeps the value of a field.
type handle struct {
	shape *Shape
	index uint
}

func (s *Shape) add(name string, want scan.Wanted, required bool) handle {
	index := uint(s.plan.Count)
	switch {
	case index == MaxFields:
		panic("json: a shape has more than 32 fields")
	case !utf8.ValidString(name):
		panic("json: the name of a field is not UTF-8")
	case s.find([]byte(name), false) != nil:
		panic("json: the field " + name + " is there twice in a shape")
	}
	s.plan.Add(scan.NewField(name, index, want, !required))
	if required {
		s.required |= 1 << index
	}
	return handle{s, index}
}

// Plan returns the fields, for package graphmill.
func (s *Shape) Plan() *scan.Plan { return &s.plan }

func (s *Shape) first() *scan.Field {
	if s.plan.Count == 0 {
		return scan.NoField
	}
	return s.plan.First
}

// find returns the field of a name as it stands in a document, nil if the shape has
// none.
func (s *Shape) find(name []byte, escaped bool) *scan.Field {
	if escaped {
		name = scan.Unescape(nil, name)
	}
	for _, f := range s.plan.All {
		if scan.Equal(name, f.Name) {
			return f
		}
	}
	return nil
}

// A Field declares a field of a [NewShape].
type Field func(s *Shape)

// NewShape makes a shape of fields whose values are given all at once, by
// [github.com/graphmill/graphmill/sdk/go.Statement.Fields]. Those that are asked for
// one by one need a handle: declare them by the methods of Shape.
func NewShape(fields ...Field) *Shape {
	s := new(Shape)
	for _, f := range fields {
		f(s)
	}
	return s
}

// Int declares an integer that an int64 holds.
func Int(name string) Field { return func(s *Shape) { s.Int(name) } }

// OptInt declares an integer that may be absent or null.
func OptInt(name string) Field { return func(s *Shape) { s.OptInt(name) } }

// Float declares a number, which is taken as the nearest float64.
func Float(name string) Field { return func(s *Shape) { s.Float(name) } }

// OptFloat declares a number that may be absent or null.
func OptFloat(name string) Field { return func(s *Shape) { s.OptFloat(name) } }

// Bool declares a boolean.
func Bool(name string) Field { return func(s *Shape) { s.Bool(name) } }

// OptBool declares a boolean that may be absent or null.
func OptBool(name string) Field { return func(s *Shape) { s.OptBool(name) } }

// Text declares a string.
func Text(name string) Field { return func(s *Shape) { s.Text(name) } }

// OptText declares a string that may be absent or null.
func OptText(name string) Field { return func(s *Shape) { s.OptText(name) } }

// Raw declares a value of any kind.
func Raw(name string) Field { return func(s *Shape) { s.Raw(name) } }

// OptRaw declares a value of any kind that may be absent.
func OptRaw(name string) Field { return func(s *Shape) { s.OptRaw(name) } }

// Names returns the names of the fields in the order in which they were declared: those
// of the parameters of a query that takes all of them.
func (s *Shape) Names() []string {
	names := make([]string, len(s.plan.All))
	for i, f := range s.plan.All {
		names[i] = f.Name
	}
	return names
}
