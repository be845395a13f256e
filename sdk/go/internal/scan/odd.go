package scan

import (
	"encoding/binary"
	"math"
	"unsafe"
)

// odd reads the field at k.at whatever it is like, where row has stopped, and what stands
// behind it. It is false where the document is no JSON, or a value is not what the shape
// wants.
func (k *Keys) odd(d []byte) bool {
	i := Space(d, k.at+1)
	if At(d, i) == '}' && At(d, k.at) == '{' {
		k.at = len(d)
		return i == len(d)-1
	}
	if At(d, i) != '"' {
		return false
	}
	end, escaped, err := String(d, i+1)
	if err != nil {
		return false
	}
	name := d[i+1 : end]
	if escaped {
		name = Unescape(nil, name)
	}
	if i = Space(d, end+1); At(d, i) != ':' {
		return false
	}
	f := &k.table[k.expected]
	if !Equal(name, f.name) || k.used == 0 {
		f = k.find(name)
	}
	i, ok := k.oddValue(d, Space(d, i+1), f)
	if !ok {
		return false
	}
	k.order[k.count%maxOrder] = f.number
	k.count++
	if f != &k.spare {
		k.expected = f.next
	}
	switch i = Space(d, i); At(d, i) {
	case ',':
		k.at = i
		return true
	case '}':
		k.at = len(d)
		return i == len(d)-1
	}
	return false
}

// oddValue reads the value at i as that of f, and returns where it ends.
func (k *Keys) oddValue(d []byte, i int, f *Key) (end int, ok bool) {
	var err *SyntaxError
	switch c := At(d, i); {
	case c == '"':
		var escaped bool
		if end, escaped, err = String(d, i+1); err != nil || f.takes&takesText == 0 {
			return 0, false
		}
		k.putText(f, d[i+1:end], escaped)
		return end + 1, true
	case c-'0' <= 9, c == '-':
		if end, err = Number(d, i); err != nil {
			return 0, false
		}
		return end, f.index == unwanted || k.putNumber(f, d[i:end])
	case c == 'n':
		end, err = Word(d, i, "null")
		if k.put(f, 0xc0); f.takes&takesNull == 0 {
			k.seen &^= 1 << f.index
		}
		return end, err == nil
	case c == 't':
		end, err = Word(d, i, "true")
		k.put(f, 0xc3)
		return end, err == nil && f.takes&takesBool != 0
	case c == 'f':
		end, err = Word(d, i, "false")
		k.put(f, 0xc2)
		return end, err == nil && f.takes&takesBool != 0
	}
	if end, err = Skip(d, i); err != nil || f.takes&takesAll != takesAll {
		return 0, false
	}
	if f.index != unwanted {
		k.values[f.index] = value(i) | value(end-i)<<32 | nested
		k.seen |= 1 << f.index
		k.nested = true
	}
	return end, true
}

// put writes a value of the form of row.
func (k *Keys) put(f *Key, bytes ...byte) {
	k.values[f.index] = value(k.written) | value(len(bytes))<<32
	k.written += copy(k.out[k.written:], bytes)
	k.seen |= 1 << f.index
}

func (k *Keys) putText(f *Key, text []byte, escaped bool) {
	start := k.written + 8
	to := k.out[start:start]
	if escaped {
		to = Unescape(to, text)
	} else {
		to = append(to, text...)
	}
	n := len(to)
	head := k.out[k.written:start]
	size := 1
	switch {
	case n <= maxFixed:
		head[7] = 0xa0 | byte(n)
	case n <= math.MaxUint8:
		size = 2
		head[6], head[7] = 0xd9, byte(n)
	default:
		size = 5
		head[3] = 0xdb
		binary.BigEndian.PutUint32(head[4:], uint32(n))
	}
	k.values[f.index] = value(start-size) | value(size+n)<<32
	k.written = start + n
	k.seen |= 1 << f.index
}

// putNumber writes a number, if it is one that the field takes.
func (k *Keys) putNumber(f *Key, text []byte) bool {
	isInt := IsInt(text)
	head, bits := byte(0xd3), uint64(0)
	if isInt && f.takes&toFloat == 0 {
		v, ok := ParseInt(text)
		if !ok || f.takes&takesInt == 0 {
			return false
		}
		bits = uint64(v)
	} else {
		v, ok := ParseFloat(text)
		if !ok || f.takes&takesFraction == 0 {
			return false
		}
		head, bits = 0xcb, math.Float64bits(v)
	}
	b := [9]byte{head}
	binary.BigEndian.PutUint64(b[1:], bits)
	k.put(f, b[:]...)
	return true
}

// UTF8 tells whether d is UTF-8. It looks at eight bytes at a time, at all of them while
// they are ASCII, and needs no table. Pad bytes behind d must be readable.
func UTF8(d []byte) bool {
	p := unsafe.Pointer(unsafe.SliceData(d))
	n := len(d)
	i := 0
	for i < n {
		x := Eight(p, i)
		high := x & highs
		if high == 0 {
			i += 8
			continue
		}
		ascii := FirstMarked(high)
		i += ascii
		if i >= n {
			return true
		}
		if x = x >> (8 * uint(ascii) & 63); ascii > 4 {
			x = Eight(p, i)
		}
		switch {
		case x&0xc0e0 == 0x80c0 && x&0x1e != 0: // two bytes, from U+0080 on
			i += 2
		case x&0xc0c0f0 == 0x8080e0 && x&0x200f != 0 && x&0x200f != 0x200d: // three, from U+0800 on, no surrogates
			i += 3
		case x&0xc0c0c0f8 == 0x808080f0 && x&0x3007 != 0 && x&7 < 5 && !(x&7 == 4 && x&0x3000 != 0): // four, U+10000 to U+10FFFF
			i += 4
		default:
			return false
		}
		if i > n {
			return false
		}
	}
	return true
}
