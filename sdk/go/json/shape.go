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
// not. All other fields of a document are passed over. Fields are found fastest if
// they are declared in the order in which they mostly stand in the documents.
//
// The methods panic, which stops a module as soon as it is loaded, on a name that is
// there already or not UTF-8, and beyond [MaxFields]. They must not be called once
// documents are parsed.
type Shape struct {
	fields   []*field
	required uint32 // bit i: field i must be there
}

// MaxFields is how many fields a shape may have. For more, parse the document by a
// second shape too.
const MaxFields = 32

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
func (s *Shape) Int(name string) IntField { return IntField{s.add(name, wantInt, true)} }

// OptInt declares an integer that may be absent.
func (s *Shape) OptInt(name string) OptIntField { return OptIntField{s.add(name, wantInt, false)} }

// Float declares a number, which is taken as the nearest float64.
func (s *Shape) Float(name string) FloatField { return FloatField{s.add(name, wantFloat, true)} }

// OptFloat declares a number that may be absent.
func (s *Shape) OptFloat(name string) OptFloatField {
	return OptFloatField{s.add(name, wantFloat, false)}
}

// Bool declares a boolean.
func (s *Shape) Bool(name string) BoolField { return BoolField{s.add(name, wantBool, true)} }

// OptBool declares a boolean that may be absent.
func (s *Shape) OptBool(name string) OptBoolField { return OptBoolField{s.add(name, wantBool, false)} }

// Text declares a string.
func (s *Shape) Text(name string) TextField { return TextField{s.add(name, wantText, true)} }

// OptText declares a string that may be absent.
func (s *Shape) OptText(name string) TextField { return TextField{s.add(name, wantText, false)} }

// Raw declares a value of any kind, which is taken as its JSON text.
func (s *Shape) Raw(name string) RawField { return RawField{s.add(name, wantRaw, true)} }

// OptRaw declares a value of any kind that may be absent. Null is a value here.
func (s *Shape) OptRaw(name string) RawField { return RawField{s.add(name, wantRaw, false)} }

// handle says where an Object keeps the value of a field.
type handle struct {
	shape *Shape
	index uint
}

// wanted is the type that a field is declared with.
type wanted uint8

const (
	wantInt wanted = iota
	wantFloat
	wantBool
	wantText
	wantRaw
)

// field is a field of a shape.
type field struct {
	name  string
	index uint
	want  wanted
	next  *field // the one declared after it; of the last one, the first

	// What the field begins with in a document, quotes and colon included, as two
	// numbers to compare bytes with. A name that does not fit, or that JSON has to
	// escape, has bytes that are never equal.
	begin, mask [2]uint64
	length      int
}

// never as begin is not equal to any bytes if mask is 0.
var never = [2]uint64{1, 1}

// none stands for the first field of a shape without any.
var none = &field{begin: never}

func (s *Shape) add(name string, want wanted, required bool) handle {
	index := uint(len(s.fields))
	switch {
	case index == MaxFields:
		panic("json: a shape has more than 32 fields")
	case !utf8.ValidString(name):
		panic("json: the name of a field is not UTF-8")
	case s.find([]byte(name), false) != nil:
		panic("json: the field " + name + " is there twice in a shape")
	}
	f := &field{name: name, index: index, want: want, begin: never}
	if begin := []byte(`"` + name + `":`); len(begin) <= 16 && scan.Plain([]byte(name), 0) == len(name) {
		f.length = len(begin)
		f.begin = [2]uint64{scan.Load(begin, 0), scan.Load(begin, 8)}
		for i := range begin {
			f.mask[i/8] |= 0xff << (8 * (i % 8))
		}
	}
	s.fields = append(s.fields, f)
	f.next = s.fields[0]
	s.fields[max(index, 1)-1].next = f
	if required {
		s.required |= 1 << index
	}
	return handle{s, index}
}

func (s *Shape) first() *field {
	if len(s.fields) == 0 {
		return none
	}
	return s.fields[0]
}

// find returns the field of a name as it stands in a document, nil if the shape has
// none.
func (s *Shape) find(name []byte, escaped bool) *field {
	if escaped {
		name = scan.Unescape(nil, name)
	}
	for _, f := range s.fields {
		if scan.Equal(name, f.name) {
			return f
		}
	}
	return nil
}
