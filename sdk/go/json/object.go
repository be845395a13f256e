package json

import (
	"errors"
	"math"
	"math/bits"
	"strconv"

	"github.com/graphmill/graphmill/sdk/go/internal/scan"
)

// Object is what a [Shape] wants of one document:
//
//	var event json.Object
//	if err := event.Parse(&user, payload); err != nil {
//		return err
//	}
//	out.Statement(seen).Int(event.Int(id)).Text(event.Text(name))
//
// A variable within the handler costs no allocation. Text and Raw share the memory
// of the document. The methods panic if they are given a field of another shape.
type Object struct {
	shape  *Shape
	there  uint32 // bit i: field i is there, and not null
	nulls  uint32 // bit i: field i is null
	values [MaxFields]value

	// text is the document; behind it, in a copy, the characters of strings with
	// escapes.
	text []byte
	err  error // the first field whose value has not the type that is wanted
}

// value is the value of a field.
type value struct {
	bits       uint64 // of an int64, a float64 or a boolean
	start, end int32  // of a string without its quotes, or a raw value, in Object.text
}

// Parse reads a document, which must be one object and have the fields of the shape.
// It checks all of it, what is not wanted too. The document, of at most 1 GiB, must
// not change while o is used.
func (o *Object) Parse(shape *Shape, document []byte) error {
	d := scan.Padded(document)
	if o.shape != shape || o.err != nil {
		o.begin(shape)
	}
	o.text, o.there, o.nulls = d, 0, 0
	end, expected := o.scanCompact(d, shape.first())
	if last := len(d) - 1; end > 0 && end == last && d[last] == '}' && shape.required&^o.there == 0 {
		return nil
	}
	return o.parseRest(d, end, expected)
}

// begin is apart since storing pointers is not cheap, and rarely needed where an object
// is used again.
//
//go:noinline
func (o *Object) begin(shape *Shape) { o.shape, o.err = shape, nil }

// parseRest reads a document of which scanCompact has read the fields up to end.
func (o *Object) parseRest(d []byte, end int, expected *scan.Field) error {
	i := end
	if i == 0 {
		if i = scan.Space(d, 0); scan.At(d, i) != '{' {
			return notObject(d)
		}
		i = scan.Space(d, i+1)
	}
	if end > 0 || scan.At(d, i) != '}' {
		var err *SyntaxError
		if i, err = o.scanFields(d, i, end > 0, expected); err != nil {
			return err
		}
	}
	if i = scan.Space(d, i+1); i < len(d) {
		return scan.Fail(i, "more stands behind the document")
	}
	if missing := o.shape.required &^ o.there; missing != 0 || o.err != nil {
		return o.lacks(missing)
	}
	return nil
}

// notObject tells a document that is JSON, but no object, from one that is none.
func notObject(d []byte) error {
	var r Reader
	r.Reset(d)
	kind := r.Next()
	r.Skip()
	if r.Next(); r.err != nil {
		return r.err
	}
	return errors.New("the document is " + kind.String() + ", not an object")
}

// lacks is the error of a document whose fields are not as the shape wants them.
func (o *Object) lacks(missing uint32) error {
	if o.err != nil {
		return o.err
	}
	f := o.shape.plan.All[bits.TrailingZeros32(missing)]
	if o.nulls>>f.Index&1 != 0 {
		return fieldError(f, "is null")
	}
	return fieldError(f, "is missing")
}

func fieldError(f *scan.Field, text string) error {
	return errors.New("field " + strconv.Quote(f.Name) + " " + text)
}

// scanFields reads the fields of an object that has some, from i on, which is behind
// one of them or at the name of the first. It returns where its brace stands.
func (o *Object) scanFields(d []byte, i int, behind bool, expected *scan.Field) (end int, err *SyntaxError) {
	for {
		if behind {
			switch i = scan.Space(d, i); scan.At(d, i) {
			case ',':
				i = scan.Space(d, i+1)
			case '}':
				return i, nil
			default:
				return 0, scan.Unexpected(d, i, "',' or '}'")
			}
		}
		var f *scan.Field
		if f, i, err = o.scanName(d, i, expected); err != nil {
			return 0, err
		}
		if i, err = o.scanValue(d, i, f); err != nil {
			return 0, err
		}
		if f != nil {
			expected = f.Next
		}
		behind = true
	}
}

// scanName reads a name and its colon. It returns the field, nil where it is not
// wanted.
func (o *Object) scanName(d []byte, i int, expected *scan.Field) (f *scan.Field, end int, err *SyntaxError) {
	if scan.At(d, i) != '"' {
		return nil, 0, scan.Unexpected(d, i, "a field name in quotes")
	}
	start := i + 1
	i, escaped, err := scan.String(d, start)
	if err != nil {
		return nil, 0, err
	}
	if f = expected; escaped || f == scan.NoField || !scan.Equal(d[start:i], f.Name) {
		f = o.shape.find(d[start:i], escaped)
	}
	if i = scan.Space(d, i+1); scan.At(d, i) != ':' {
		return nil, 0, scan.Unexpected(d, i, "':'")
	}
	return f, i + 1, nil
}

// scanValue reads the value at i, before which there may be white space, as that of
// f, which may be nil. It returns where it ends.
func (o *Object) scanValue(d []byte, i int, f *scan.Field) (end int, err *SyntaxError) {
	i = scan.Space(d, i)
	kind, end, escaped, err := scanAny(d, i)
	if err != nil || f == nil {
		return end, err
	}
	v, bit := &o.values[f.Index], uint32(1)<<f.Index
	o.there |= bit
	o.nulls &^= bit
	switch {
	case f.Want == scan.WantRaw:
		v.start, v.end = int32(i), int32(end)
	case kind == Null:
		o.there &^= bit
		o.nulls |= bit
	case kind == String && f.Want == scan.WantText:
		o.setText(v, d, i+1, end-1, escaped)
	case kind == Number && f.Want == scan.WantInt:
		n, ok := scan.ParseInt(d[i:end])
		if !ok {
			o.mistyped(f, "is not an integer of 64 bits")
		}
		v.bits = uint64(n)
	case kind == Number && f.Want == scan.WantFloat:
		n, ok := scan.ParseFloat(d[i:end])
		if !ok {
			o.mistyped(f, "is too large for a float")
		}
		v.bits = math.Float64bits(n)
	case kind == True && f.Want == scan.WantBool:
		v.bits = 1
	case kind == False && f.Want == scan.WantBool:
		v.bits = 0
	default:
		o.mistyped(f, "is "+kind.String()+" where "+f.Want.String()+" is needed")
	}
	return end, nil
}

// setText sets the value of a string from start to end.
func (o *Object) setText(v *value, d []byte, start, end int, escaped bool) {
	if escaped {
		if len(o.text) == len(d) { // the first one
			o.text = append(make([]byte, 0, 2*len(d)), d...)
		}
		s := d[start:end]
		start = len(o.text)
		o.text = scan.Unescape(o.text, s)
		end = len(o.text)
	}
	v.start, v.end = int32(start), int32(end)
}

// mistyped records that a field has not the type that is wanted.
func (o *Object) mistyped(f *scan.Field, text string) {
	if o.err == nil {
		o.err = fieldError(f, text)
	}
}

// scanAny reads a value of any kind. A string is escaped or not.
func scanAny(d []byte, i int) (kind Kind, end int, escaped bool, err *SyntaxError) {
	switch c := scan.At(d, i); {
	case c == '"':
		end, escaped, err = scan.String(d, i+1)
		return String, end + 1, escaped, err
	case c-'0' <= 9, c == '-':
		end, err = scan.Number(d, i)
		return Number, end, false, err
	case c == 'n':
		end, err = scan.Word(d, i, "null")
		return Null, end, false, err
	case c == 't':
		end, err = scan.Word(d, i, "true")
		return True, end, false, err
	case c == 'f':
		end, err = scan.Word(d, i, "false")
		return False, end, false, err
	case c == '{':
		kind = BeginObject
	case c == '[':
		kind = BeginArray
	}
	end, err = scan.Skip(d, i)
	return kind, end, false, err
}

const otherShape = "json: an object was asked for a field of a shape by which it was not parsed"

// Int returns an integer.
func (o *Object) Int(f IntField) int64 {
	if f.shape != o.shape {
		panic(otherShape)
	}
	return int64(o.values[f.index%MaxFields].bits)
}

// OptInt returns an integer; ok is false where it is absent or null.
func (o *Object) OptInt(f OptIntField) (v int64, ok bool) {
	if f.shape != o.shape {
		panic(otherShape)
	}
	return int64(o.values[f.index%MaxFields].bits), o.there>>(f.index%MaxFields)&1 != 0
}

// Float returns a number.
func (o *Object) Float(f FloatField) float64 {
	if f.shape != o.shape {
		panic(otherShape)
	}
	return math.Float64frombits(o.values[f.index%MaxFields].bits)
}

// OptFloat returns a number; ok is false where it is absent or null.
func (o *Object) OptFloat(f OptFloatField) (v float64, ok bool) {
	if f.shape != o.shape {
		panic(otherShape)
	}
	return math.Float64frombits(o.values[f.index%MaxFields].bits), o.there>>(f.index%MaxFields)&1 != 0
}

// Bool returns a boolean.
func (o *Object) Bool(f BoolField) bool {
	if f.shape != o.shape {
		panic(otherShape)
	}
	return o.values[f.index%MaxFields].bits != 0
}

// OptBool returns a boolean; ok is false where it is absent or null.
func (o *Object) OptBool(f OptBoolField) (v, ok bool) {
	if f.shape != o.shape {
		panic(otherShape)
	}
	return o.values[f.index%MaxFields].bits != 0, o.there>>(f.index%MaxFields)&1 != 0
}

// Text returns the characters of a string, nil where it is absent or null.
func (o *Object) Text(f TextField) []byte { return o.bytes(f.handle) }

// String is Text as a string of its own, which may be kept.
func (o *Object) String(f TextField) string { return string(o.bytes(f.handle)) }

// Raw returns a value as the JSON text that it is, nil where it is absent: for an
// Object or a [Reader] of its own, or for Statement.JSON.
func (o *Object) Raw(f RawField) []byte { return o.bytes(f.handle) }

func (o *Object) bytes(f handle) []byte {
	if f.shape != o.shape {
		panic(otherShape)
	}
	if o.there>>(f.index%MaxFields)&1 == 0 {
		return nil
	}
	v := &o.values[f.index%MaxFields]
	return o.text[v.start:v.end:v.end]
}

// Value returns what there is of the field that was declared as number i, from 0: an
// int64, a float64 or a boolean as bits, a string or a raw value as text. It is for
// package graphmill, which gives all fields of a shape at once.
func (o *Object) Value(i int) (bits uint64, text []byte, there bool) {
	v, there := &o.values[i%MaxFields], o.there>>(uint(i)%MaxFields)&1 != 0
	if there && o.shape.plan.All[i].Want >= scan.WantText {
		text = o.text[v.start:v.end:v.end]
	}
	return v.bits, text, there
}
