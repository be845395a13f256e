package frame

import (
	"encoding/binary"
	"fmt"
	"math"
	"unicode/utf8"
)

// valueReader reads MessagePack values from a string. Its errors are *Error
// whose Field the caller fills in.
//
// Recursion is bounded by MaxDepth, and every count by the bytes that are left,
// so that hostile bytes can exhaust neither stack nor memory.
type valueReader struct {
	d  *Decoder
	s  string
	at int
}

func (r *valueReader) errorf(format string, args ...any) error {
	return malformed("", "at byte %d: %s", r.at, fmt.Sprintf(format, args...))
}

// parameterList reads a whole encoding as an array of n values.
func (r *valueReader) parameterList(n int) ([]any, error) {
	count, err := r.arrayHeader()
	if err != nil {
		return nil, err
	}
	if count != n {
		return nil, r.errorf("an array of %d values, the query names %d", count, n)
	}
	list, err := r.array(count, 1)
	if err != nil {
		return nil, err
	}
	return list, r.end()
}

// parameterMap reads a whole encoding as a map; nil where it is empty.
func (r *valueReader) parameterMap() (map[string]any, error) {
	count, err := r.mapHeader()
	if err != nil {
		return nil, err
	}
	if count == 0 {
		return nil, r.end()
	}
	m, err := r.mapping(count, 1)
	if err != nil {
		return nil, err
	}
	return m, r.end()
}

func (r *valueReader) end() error {
	if left := len(r.s) - r.at; left > 0 {
		return r.errorf("%d bytes follow the value", left)
	}
	return nil
}

// value reads one value. depth counts the lists and maps around it.
func (r *valueReader) value(depth int) (any, error) {
	if r.at >= len(r.s) {
		return nil, r.errorf("a value is missing")
	}
	c := r.s[r.at]
	switch {
	case c < 0x80: // positive fixint
		r.at++
		return r.made(int64(c), valueCost)
	case c >= 0xe0: // negative fixint
		r.at++
		return r.made(int64(int8(c)), valueCost+boxCost)
	case c < 0x90, c == 0xde, c == 0xdf:
		count, err := r.mapHeader()
		if err != nil {
			return nil, err
		}
		return r.mapping(count, depth+1)
	case c < 0xa0, c == 0xdc, c == 0xdd:
		count, err := r.arrayHeader()
		if err != nil {
			return nil, err
		}
		return r.array(count, depth+1)
	case c < 0xc0, c == 0xd9, c == 0xda, c == 0xdb:
		return r.str()
	}
	return r.scalar(c)
}

// made returns a value of this cost.
func (r *valueReader) made(v any, cost int64) (any, error) {
	if !r.d.spend(cost) {
		return nil, r.d.tooLarge("")
	}
	return v, nil
}

// scalar reads a value whose first byte c is in 0xc0 to 0xd8.
func (r *valueReader) scalar(c byte) (any, error) {
	switch c {
	case 0xc0:
		r.at++
		return r.made(nil, valueCost)
	case 0xc2, 0xc3:
		r.at++
		return r.made(c == 0xc3, valueCost)
	case 0xc4, 0xc5, 0xc6:
		return r.bin(c - 0xc4)
	case 0xc7, 0xc8, 0xc9:
		length, err := r.length(c - 0xc7)
		if err != nil {
			return nil, err
		}
		return r.extension(length)
	case 0xd4, 0xd5, 0xd6, 0xd7, 0xd8:
		r.at++
		return r.extension(1 << (c - 0xd4))
	case 0xc1:
		return nil, r.errorf("0xc1 begins no value")
	}
	return r.number(c)
}

// number reads float32, float64 and the integers of 1 to 8 bytes.
func (r *valueReader) number(c byte) (any, error) {
	size := 1 << ((c - 0xcc) & 3)
	if c == 0xca || c == 0xcb {
		size = 4 << (c - 0xca)
	}
	if len(r.s)-r.at <= size {
		return nil, r.errorf("a number of %d bytes, %d are left", size, len(r.s)-r.at-1)
	}
	v := bigEndian(r.s[r.at+1 : r.at+1+size])
	if !r.d.spend(valueCost + boxCost) {
		return nil, r.d.tooLarge("")
	}
	if c == 0xcf && v > math.MaxInt64 {
		return nil, r.errorf("the unsigned integer %d is over %d; send it as a string or a float", v, int64(math.MaxInt64))
	}
	r.at += 1 + size
	switch c {
	case 0xca:
		return float64(math.Float32frombits(uint32(v))), nil
	case 0xcb:
		return math.Float64frombits(v), nil
	case 0xd0:
		return int64(int8(v)), nil
	case 0xd1:
		return int64(int16(v)), nil
	case 0xd2:
		return int64(int32(v)), nil
	default: // 0xcc to 0xcf, 0xd3
		return int64(v), nil
	}
}

// length reads the length behind a format byte: 1, 2 or 4 bytes of it for a
// width of 0, 1 or 2.
func (r *valueReader) length(width byte) (int, error) {
	size := 1 << width
	if len(r.s)-r.at <= size {
		return 0, r.errorf("a length is missing")
	}
	n := bigEndian(r.s[r.at+1 : r.at+1+size])
	r.at += 1 + size
	return int(n), nil
}

// take cuts n bytes.
func (r *valueReader) take(what string, n int) (string, error) {
	if left := len(r.s) - r.at; n > left {
		return "", r.errorf("%s of %d bytes, %d are left", what, n, left)
	}
	s := r.s[r.at : r.at+n]
	r.at += n
	return s, nil
}

// text reads a str without boxing it.
func (r *valueReader) text(what string) (string, error) {
	if r.at >= len(r.s) {
		return "", r.errorf("%s is missing", what)
	}
	var n int
	switch c := r.s[r.at]; {
	case c >= 0xa0 && c < 0xc0:
		r.at++
		n = int(c & 31)
	case c >= 0xd9 && c <= 0xdb:
		var err error
		if n, err = r.length(c - 0xd9); err != nil {
			return "", err
		}
	default:
		return "", r.errorf("%s must be a str, it begins with %#02x", what, c)
	}
	s, err := r.take(what, n)
	if err != nil {
		return "", err
	}
	if !utf8.ValidString(s) {
		return "", r.errorf("%s before here is not valid UTF-8", what)
	}
	return s, nil
}

func (r *valueReader) str() (any, error) {
	s, err := r.text("a str")
	if err != nil {
		return nil, err
	}
	return r.made(s, valueCost+stringCost)
}

func (r *valueReader) bin(width byte) (any, error) {
	n, err := r.length(width)
	if err != nil {
		return nil, err
	}
	s, err := r.take("a bin", n)
	if err != nil {
		return nil, err
	}
	if !r.d.spend(valueCost + sliceCost + int64(n)) {
		return nil, r.d.tooLarge("")
	}
	return []byte(s), nil
}

func (r *valueReader) arrayHeader() (int, error) {
	return r.header("an array", 0x90, 0xdc, 1)
}

func (r *valueReader) mapHeader() (int, error) {
	return r.header("a map", 0x80, 0xde, 2)
}

// header reads the count of an array or a map, whose entries have at least
// least bytes each. fix is its short form, long its form of 2 bytes, and long+1
// that of 4.
func (r *valueReader) header(what string, fix, long byte, least int) (int, error) {
	if r.at >= len(r.s) {
		return 0, r.errorf("%s is missing", what)
	}
	var n int
	switch c := r.s[r.at]; {
	case c&0xf0 == fix:
		r.at++
		n = int(c & 15)
	case c == long || c == long+1:
		var err error
		if n, err = r.length(1 + c - long); err != nil {
			return 0, err
		}
	default:
		return 0, r.errorf("%s must stand here, %#02x begins none", what, c)
	}
	if left := len(r.s) - r.at; n > left/least {
		return 0, r.errorf("%s of %d entries, %d bytes are left", what, n, left)
	}
	return n, nil
}

func (r *valueReader) array(n, depth int) ([]any, error) {
	if depth > MaxDepth {
		return nil, r.errorf("lists and maps are nested more than %d deep", MaxDepth)
	}
	// The places of all entries are made now, so they are paid for now, and not once
	// more with the entry: lists within lists may begin far more than they hold.
	if !r.d.spend(valueCost + sliceCost + int64(n)*valueCost) {
		return nil, r.d.tooLarge("")
	}
	list := r.d.list(n)
	for i := range list {
		r.d.memory += valueCost
		var err error
		if list[i], err = r.value(depth); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// mapping reads n entries. Where a key stands twice, the last one wins.
func (r *valueReader) mapping(n, depth int) (map[string]any, error) {
	if depth > MaxDepth {
		return nil, r.errorf("lists and maps are nested more than %d deep", MaxDepth)
	}
	if !r.d.spend(mapCost + int64(max(n, 8))*mapEntryCost) {
		return nil, r.d.tooLarge("")
	}
	m := make(map[string]any, n)
	for range n {
		key, err := r.text("a map key")
		if err != nil {
			return nil, err
		}
		key = r.d.keys.get(key)
		if m[key], err = r.value(depth); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// bigEndian reads an unsigned number of at most 8 bytes.
func bigEndian(s string) uint64 {
	if len(s) == 8 {
		return binary.BigEndian.Uint64([]byte(s))
	}
	var v uint64
	for i := range len(s) {
		v = v<<8 | uint64(s[i])
	}
	return v
}
