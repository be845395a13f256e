package graphmilltest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"
	"unicode/utf8"

	graphmill "github.com/graphmill/graphmill/sdk/go"
)

var be = binary.BigEndian

// maxDepth is how deep lists and maps may be nested.
const maxDepth = 64

var errShort = errors.New("a value is cut off")

// Value reads one encoded parameter value, which must be all there is: MessagePack
// with the extension types of sdk/ABI.md. See [Statement] for the Go types.
func Value(b []byte) (any, error) {
	r := valueReader{b}
	v, err := r.value(1)
	if err == nil && len(r.b) > 0 {
		err = fmt.Errorf("%d bytes follow a value", len(r.b))
	}
	return v, err
}

type valueReader struct{ b []byte }

func (r *valueReader) take(n int) ([]byte, error) {
	if n > len(r.b) {
		return nil, errShort
	}
	taken := r.b[:n]
	r.b = r.b[n:]
	return taken, nil
}

// number reads an unsigned number of size bytes.
func (r *valueReader) number(size int) (n uint64, err error) {
	b, err := r.take(size)
	for _, c := range b {
		n = n<<8 | uint64(c)
	}
	return n, err
}

// value reads a value; depth is what it would be as a list or map.
func (r *valueReader) value(depth int) (any, error) {
	head, err := r.number(1)
	if err != nil {
		return nil, err
	}
	switch c := byte(head); {
	case c < 0x80:
		return int64(c), nil
	case c >= 0xe0:
		return int64(int8(c)), nil
	case c < 0x90:
		return r.mapping(int(c&15), depth)
	case c < 0xa0:
		return r.list(int(c&15), depth)
	case c < 0xc0:
		return r.text(int(c & 31))
	case c == 0xc0:
		return nil, nil
	case c == 0xc2, c == 0xc3:
		return c == 0xc3, nil
	case c == 0xca:
		n, err := r.number(4)
		return float64(math.Float32frombits(uint32(n))), err
	case c == 0xcb:
		n, err := r.number(8)
		return math.Float64frombits(n), err
	case c >= 0xcc && c <= 0xcf:
		n, err := r.number(1 << (c - 0xcc))
		if n > math.MaxInt64 {
			return nil, fmt.Errorf("the integer %d does not fit into an int64", n)
		}
		return int64(n), err
	case c >= 0xd0 && c <= 0xd3:
		size := 1 << (c - 0xd0)
		n, err := r.number(size)
		return int64(n) << (64 - 8*size) >> (64 - 8*size), err
	case c >= 0xd4 && c <= 0xd8:
		return r.extension(1 << (c - 0xd4))
	default:
		return r.long(c, depth)
	}
}

// long reads a value whose length follows its first byte.
func (r *valueReader) long(c byte, depth int) (any, error) {
	sizes := map[byte]int{
		0xc4: 1, 0xc5: 2, 0xc6: 4, 0xc7: 1, 0xc8: 2, 0xc9: 4, 0xd9: 1, 0xda: 2, 0xdb: 4,
		0xdc: 2, 0xdd: 4, 0xde: 2, 0xdf: 4,
	}
	size, ok := sizes[c]
	if !ok {
		return nil, fmt.Errorf("%#x begins no value", c)
	}
	n, err := r.number(size)
	if err != nil {
		return nil, err
	}
	switch {
	case c <= 0xc6:
		b, err := r.take(int(n))
		return append([]byte{}, b...), err
	case c <= 0xc9:
		return r.extension(int(n))
	case c <= 0xdb:
		return r.text(int(n))
	case c <= 0xdd:
		return r.list(int(n), depth)
	default:
		return r.mapping(int(n), depth)
	}
}

func (r *valueReader) text(n int) (any, error) {
	b, err := r.take(n)
	if err == nil && !utf8.Valid(b) {
		err = fmt.Errorf("a string is not UTF-8: %q", b)
	}
	return string(b), err
}

func (r *valueReader) list(n, depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("lists and maps are nested more than %d deep", maxDepth)
	}
	list := []any{}
	for range n {
		v, err := r.value(depth + 1)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}

func (r *valueReader) mapping(n, depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("lists and maps are nested more than %d deep", maxDepth)
	}
	m := map[string]any{}
	for range n {
		k, err := r.value(depth + 1)
		if err != nil {
			return nil, err
		}
		key, ok := k.(string)
		if !ok {
			return nil, fmt.Errorf("a key is no string: %v", k)
		}
		if m[key], err = r.value(depth + 1); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// extension reads the type and the payload of n bytes.
func (r *valueReader) extension(n int) (any, error) {
	kind, err := r.number(1)
	if err != nil {
		return nil, err
	}
	b, err := r.take(n)
	if err != nil {
		return nil, err
	}
	if v := extension(int8(kind), b); v != nil {
		return v, nil
	}
	return nil, fmt.Errorf("extension %d with %d bytes is no value", int8(kind), n)
}

// extension returns the value of a payload, nil where it is none.
func extension(kind int8, b []byte) any {
	u32 := func(at int) uint32 { return be.Uint32(b[at:]) }
	i64 := func(at int) int64 { return int64(be.Uint64(b[at:])) }
	f64 := func(at int) float64 { return math.Float64frombits(be.Uint64(b[at:])) }
	switch n := len(b); {
	case kind == -1 && n == 4:
		return time.Unix(int64(u32(0)), 0).UTC()
	case kind == -1 && n == 8:
		v := be.Uint64(b)
		return time.Unix(int64(v&(1<<34-1)), int64(v>>34)).UTC()
	case kind == -1 && n == 12:
		return time.Unix(i64(4), int64(u32(0))).UTC()
	case kind == 1 && n == 8:
		return graphmill.Date(i64(0))
	case kind == 2 && n == 8:
		return graphmill.LocalTime(i64(0))
	case kind == 3 && n == 12:
		return graphmill.Time{Local: graphmill.LocalTime(i64(0)), Offset: int32(u32(8))}
	case kind == 4 && n == 12:
		return graphmill.LocalDateTime{Seconds: i64(0), Nanoseconds: u32(8)}
	case kind == 5 && n == 16:
		return time.Unix(i64(0), int64(u32(8))).In(time.FixedZone("", int(int32(u32(12)))))
	case kind == 6 && n > 12:
		return graphmill.ZonedDateTime{Time: time.Unix(i64(0), int64(u32(8))).UTC(), Zone: string(b[12:])}
	case kind == 7 && n == 28:
		return graphmill.Duration{Months: i64(0), Days: i64(8), Seconds: i64(16), Nanoseconds: int32(u32(24))}
	case kind == 8 && n == 20:
		return graphmill.Point2D{SRID: u32(0), X: f64(4), Y: f64(12)}
	case kind == 9 && n == 28:
		return graphmill.Point3D{SRID: u32(0), X: f64(4), Y: f64(12), Z: f64(20)}
	}
	return nil
}
