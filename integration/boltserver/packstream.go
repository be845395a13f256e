package boltserver

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/neo4j/neo4j-go-driver/v5/neo4j/dbtype"
)

// structure is a PackStream structure: a message, or a value of a type beyond
// JSON's.
type structure struct {
	tag    byte
	fields []any
}

var (
	errShort = errors.New("the message ends in the middle of a value")
	errDeep  = errors.New("a value is nested too deeply")
)

const maxDepth = 200

// decoder reads PackStream. No count is trusted: a list or map of n entries
// takes at least n bytes.
type decoder struct {
	rest  []byte
	depth int
}

// decodeMessage reads one message, which is a structure and nothing behind it.
func decodeMessage(b []byte) (structure, error) {
	d := decoder{rest: b}
	if len(b) == 0 || b[0]&0xf0 != 0xb0 {
		return structure{}, errors.New("a message has to be a structure")
	}
	s, err := d.structure(int(b[0] & 0x0f))
	if err == nil && len(d.rest) > 0 {
		err = fmt.Errorf("%d bytes behind the end of the message", len(d.rest))
	}
	return s, err
}

// structure reads a structure whose marker is still there.
func (d *decoder) structure(fields int) (structure, error) {
	head, err := d.take(2)
	if err != nil {
		return structure{}, err
	}
	s := structure{tag: head[1], fields: make([]any, fields)}
	for i := range s.fields {
		if s.fields[i], err = d.value(); err != nil {
			return structure{}, err
		}
	}
	return s, nil
}

func (d *decoder) take(n int) ([]byte, error) {
	if n > len(d.rest) {
		return nil, errShort
	}
	b := d.rest[:n]
	d.rest = d.rest[n:]
	return b, nil
}

// number reads a big-endian unsigned integer of width bytes.
func (d *decoder) number(width int) (uint64, error) {
	b, err := d.take(width)
	if err != nil {
		return 0, err
	}
	var n uint64
	for _, c := range b {
		n = n<<8 | uint64(c)
	}
	return n, nil
}

// length reads a count and checks it against the bytes that are left.
func (d *decoder) length(width int) (int, error) {
	n, err := d.number(width)
	if err != nil {
		return 0, err
	}
	if n > uint64(len(d.rest)) {
		return 0, errShort
	}
	return int(n), nil
}

func (d *decoder) value() (any, error) {
	if len(d.rest) == 0 {
		return nil, errShort
	}
	if d.depth++; d.depth > maxDepth {
		return nil, errDeep
	}
	defer func() { d.depth-- }()

	marker := d.rest[0]
	low := int(marker & 0x0f)
	if marker&0xf0 == 0xb0 {
		s, err := d.structure(low)
		if err != nil {
			return nil, err
		}
		return s.value()
	}
	d.rest = d.rest[1:]
	switch marker & 0xf0 {
	case 0x80:
		return d.text(low)
	case 0x90:
		return d.list(low)
	case 0xa0:
		return d.dictionary(low)
	case 0xc0, 0xd0:
		return d.marked(marker)
	}
	return int64(int8(marker)), nil // -16 to 127
}

// marked reads a value whose type takes the whole marker.
func (d *decoder) marked(marker byte) (any, error) {
	sized := func(width int, read func(int) (any, error)) (any, error) {
		n, err := d.length(width)
		if err != nil {
			return nil, err
		}
		return read(n)
	}
	switch marker {
	case 0xc0:
		return nil, nil
	case 0xc1:
		n, err := d.number(8)
		return math.Float64frombits(n), err
	case 0xc2, 0xc3:
		return marker == 0xc3, nil
	case 0xc8, 0xc9, 0xca, 0xcb:
		width := 1 << (marker - 0xc8)
		n, err := d.number(width)
		unused := 64 - 8*width
		return int64(n<<unused) >> unused, err
	case 0xcc, 0xcd, 0xce:
		return sized(1<<(marker-0xcc), func(n int) (any, error) {
			b, err := d.take(n)
			return slices.Clone(b), err
		})
	case 0xd0, 0xd1, 0xd2:
		return sized(1<<(marker-0xd0), d.text)
	case 0xd4, 0xd5, 0xd6:
		return sized(1<<(marker-0xd4), d.list)
	case 0xd8, 0xd9, 0xda:
		return sized(1<<(marker-0xd8), d.dictionary)
	}
	return nil, fmt.Errorf("no value begins with %#x", marker)
}

func (d *decoder) text(n int) (any, error) {
	b, err := d.take(n)
	return string(b), err
}

func (d *decoder) list(n int) (any, error) {
	if n > len(d.rest) {
		return nil, errShort
	}
	list := make([]any, n)
	var err error
	for i := range list {
		if list[i], err = d.value(); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func (d *decoder) dictionary(n int) (any, error) {
	if 2*n > len(d.rest) {
		return nil, errShort
	}
	m := make(map[string]any, n)
	for range n {
		k, err := d.value()
		if err != nil {
			return nil, err
		}
		key, ok := k.(string)
		if !ok {
			return nil, fmt.Errorf("a map has a key of type %T", k)
		}
		if m[key], err = d.value(); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// value returns the driver's own type for a structure that is a parameter.
func (s structure) value() (any, error) {
	ints := make([]int64, len(s.fields))
	floats := make([]float64, len(s.fields))
	for i, f := range s.fields {
		ints[i], _ = f.(int64)
		floats[i], _ = f.(float64)
	}
	const day = 24 * 60 * 60
	clock := func(nanos int64, zone *time.Location) time.Time {
		return time.Date(1970, 1, 1, 0, 0, 0, 0, zone).Add(time.Duration(nanos))
	}
	switch {
	case s.tag == 'D' && len(s.fields) == 1:
		return dbtype.Date(time.Unix(ints[0]*day, 0).UTC()), nil
	case s.tag == 't' && len(s.fields) == 1:
		return dbtype.LocalTime(clock(ints[0], time.UTC)), nil
	case s.tag == 'T' && len(s.fields) == 2:
		return dbtype.Time(clock(ints[0], time.FixedZone("Offset", int(ints[1])))), nil
	case s.tag == 'd' && len(s.fields) == 2:
		return dbtype.LocalDateTime(time.Unix(ints[0], ints[1]).UTC()), nil
	case s.tag == 'I' && len(s.fields) == 3:
		return time.Unix(ints[0], ints[1]).In(time.FixedZone("Offset", int(ints[2]))), nil
	case s.tag == 'i' && len(s.fields) == 3:
		name, _ := s.fields[2].(string)
		zone, err := time.LoadLocation(name)
		if err != nil {
			return nil, fmt.Errorf("the time zone %q is not known", name)
		}
		return time.Unix(ints[0], ints[1]).In(zone), nil
	case s.tag == 'E' && len(s.fields) == 4:
		return dbtype.Duration{Months: ints[0], Days: ints[1], Seconds: ints[2], Nanos: int(ints[3])}, nil
	case s.tag == 'X' && len(s.fields) == 3:
		return dbtype.Point2D{SpatialRefId: uint32(ints[0]), X: floats[1], Y: floats[2]}, nil
	case s.tag == 'Y' && len(s.fields) == 4:
		return dbtype.Point3D{SpatialRefId: uint32(ints[0]), X: floats[1], Y: floats[2], Z: floats[3]}, nil
	}
	return nil, fmt.Errorf("no parameter is a structure %#x of %d fields", s.tag, len(s.fields))
}

// appendValue writes PackStream. It knows the types that an answer is made of.
func appendValue(b []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return append(b, 0xc0), nil
	case bool:
		if v {
			return append(b, 0xc3), nil
		}
		return append(b, 0xc2), nil
	case int:
		return appendInt(b, int64(v)), nil
	case int64:
		return appendInt(b, v), nil
	case float64:
		return binary.BigEndian.AppendUint64(append(b, 0xc1), math.Float64bits(v)), nil
	case string:
		return append(appendLength(b, len(v), 0x80, 0xd0), v...), nil
	case []string:
		list := make([]any, len(v))
		for i, s := range v {
			list[i] = s
		}
		return appendValue(b, list)
	case []any:
		b = appendLength(b, len(v), 0x90, 0xd4)
		return appendAll(b, v)
	case map[string]any:
		b = appendLength(b, len(v), 0xa0, 0xd8)
		for _, k := range slices.Sorted(maps.Keys(v)) {
			var err error
			b = append(appendLength(b, len(k), 0x80, 0xd0), k...)
			if b, err = appendValue(b, v[k]); err != nil {
				return b, err
			}
		}
		return b, nil
	case structure:
		return appendAll(append(b, 0xb0|byte(len(v.fields)), v.tag), v.fields)
	}
	return b, fmt.Errorf("a %T cannot stand in an answer", v)
}

func appendAll(b []byte, values []any) ([]byte, error) {
	var err error
	for _, v := range values {
		if b, err = appendValue(b, v); err != nil {
			return b, err
		}
	}
	return b, nil
}

func appendInt(b []byte, n int64) []byte {
	switch {
	case n >= -16 && n <= 127:
		return append(b, byte(n))
	case n >= math.MinInt32 && n <= math.MaxInt32:
		return binary.BigEndian.AppendUint32(append(b, 0xca), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(b, 0xcb), uint64(n))
}

// appendLength writes the marker of a value of n elements: tiny | n below 16,
// else sized and a 32-bit count.
func appendLength(b []byte, n int, tiny, sized byte) []byte {
	if n < 16 {
		return append(b, tiny|byte(n))
	}
	return binary.BigEndian.AppendUint32(append(b, sized+2), uint32(n))
}
