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
	o.shape, o.text, o.there, o.nulls, o.err = shape, document, 0, 0, nil
	i, d := 0, document
	if scan.At(d, 0) != '{' {
		if i = scan.Space(d, 0); scan.At(d, i) != '{' {
			return notObject(d)
		}
	}
	if i++; scan.At(d, i) <= ' ' {
		i = scan.Space(d, i)
	}
	if scan.At(d, i) != '}' {
		var err *SyntaxError
		if i, err = o.scanFields(d, i); err != nil {
			return err
		}
	}
	if i = scan.Space(d, i+1); i < len(d) {
		return scan.Fail(i, "more stands behind the document")
	}
	if missing := shape.required &^ o.there; missing != 0 || o.err != nil {
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
	f := o.shape.fields[bits.TrailingZeros32(missing)]
	if o.nulls>>f.index&1 != 0 {
		return fieldError(f, "is null")
	}
	return fieldError(f, "is missing")
}

func fieldError(f *field, text string) error {
	return errors.New("field " + strconv.Quote(f.name) + " " + text)
}

// scanFields reads the fields of an object that has some, and returns where its
// brace stands.
func (o *Object) scanFields(d []byte, i int) (end int, err *SyntaxError) {
	expected := o.shape.first()
	for {
		if end, expected = o.scanCompact(d, i, expected); end == i {
			var f *field
			if f, end, err = o.scanName(d, i); err != nil {
				return 0, err
			}
			if end, err = o.scanValue(d, end, f); err != nil {
				return 0, err
			}
			if f != nil {
				expected = f.next
			}
		}
		i = scan.Space(d, end)
		switch scan.At(d, i) {
		case ',':
			i = scan.Space(d, i+1)
		case '}':
			return i, nil
		default:
			return 0, scan.Unexpected(d, i, "',' or '}'")
		}
	}
}

// scanCompact reads fields from i on as long as they are the expected ones, of the
// type that is wanted, their values strings without escapes and beyond ASCII or short
// numbers, and there is no white space but for single ones behind colons and commas.
// It returns where the last one ends, i if the first one is not so, and the field
// expected next.
//
// It does nothing that the rest of scanFields does not do. But in WebAssembly made by
// Go a call or a few jumps cost as much as a field should. So bytes that belong
// together are looked at together here, and conditions that only choose a number
// compile to no jump.
func (o *Object) scanCompact(d []byte, i int, expected *field) (end int, next *field) {
	end = i
	for scan.Load(d, i)&expected.mask[0] == expected.begin[0] && scan.Load(d, i+8)&expected.mask[1] == expected.begin[1] {
		i += expected.length
		x := scan.Load(d, i)
		if byte(x) == ' ' {
			i++
			x >>= 8
		}
		v := &o.values[expected.index%MaxFields]
		start := i
		if byte(x) == '"' {
			i = scan.Plain(d, start+1)
			if x = scan.Load(d, i); byte(x) != '"' {
				break
			}
			i++
			x >>= 8
			switch expected.want {
			case wantText:
				v.start, v.end = int32(start+1), int32(i-1)
			case wantRaw:
				v.start, v.end = int32(start), int32(i)
			default:
				return end, expected
			}
		} else {
			var s scan.Short
			if i = s.Scan(d, i); i < 0 {
				break
			}
			x = scan.Load(d, i)
			switch {
			case expected.want == wantInt && s.Decimals == 0:
				v.bits = uint64(s.V)
			case expected.want == wantFloat:
				v.bits = math.Float64bits(s.Float())
			case expected.want == wantRaw:
				v.start, v.end = int32(start), int32(i)
			default:
				return end, expected
			}
		}
		o.there |= 1 << (expected.index % MaxFields)
		end, expected = i, expected.next
		if byte(x) != ',' {
			break
		}
		i++
		if byte(x>>8) == ' ' {
			i++
		}
	}
	return end, expected
}

// scanName reads a name and its colon. It returns the field, nil where it is not
// wanted.
func (o *Object) scanName(d []byte, i int) (f *field, end int, err *SyntaxError) {
	if scan.At(d, i) != '"' {
		return nil, 0, scan.Unexpected(d, i, "a field name in quotes")
	}
	start := i + 1
	i, escaped, err := scan.String(d, start)
	if err != nil {
		return nil, 0, err
	}
	f = o.shape.find(d[start:i], escaped)
	if i = scan.Space(d, i+1); scan.At(d, i) != ':' {
		return nil, 0, scan.Unexpected(d, i, "':'")
	}
	return f, i + 1, nil
}

// scanValue reads the value at i, before which there may be white space, as that of
// f, which may be nil. It returns where it ends.
func (o *Object) scanValue(d []byte, i int, f *field) (end int, err *SyntaxError) {
	i = scan.Space(d, i)
	kind, end, escaped, err := scanAny(d, i)
	if err != nil || f == nil {
		return end, err
	}
	v, bit := &o.values[f.index], uint32(1)<<f.index
	o.there |= bit
	o.nulls &^= bit
	switch {
	case f.want == wantRaw:
		v.start, v.end = int32(i), int32(end)
	case kind == Null:
		o.there &^= bit
		o.nulls |= bit
	case kind == String && f.want == wantText:
		o.setText(v, d, i+1, end-1, escaped)
	case kind == Number && f.want == wantInt:
		n, ok := scan.ParseInt(d[i:end])
		if !ok {
			o.mistyped(f, "is not an integer of 64 bits")
		}
		v.bits = uint64(n)
	case kind == Number && f.want == wantFloat:
		n, ok := scan.ParseFloat(d[i:end])
		if !ok {
			o.mistyped(f, "is too large for a float")
		}
		v.bits = math.Float64bits(n)
	case kind == True && f.want == wantBool:
		v.bits = 1
	case kind == False && f.want == wantBool:
		v.bits = 0
	default:
		o.mistyped(f, "is "+kind.String()+" where "+f.want.String()+" is needed")
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
func (o *Object) mistyped(f *field, text string) {
	if o.err == nil {
		o.err = fieldError(f, text)
	}
}

// String returns the type in words.
func (w wanted) String() string {
	return [...]string{"an integer", "a number", "a boolean", "a string", "any value"}[w]
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
