package graphmill

import (
	"errors"
	"math"
	"math/bits"
	"time"
	"unicode/utf8"
	"unsafe"
)

// MessagePack, as parameter values need it, written straight into the frame. It is
// big-endian. Numbers are turned around before they are stored, which costs less
// in WebAssembly than storing their bytes one by one.

var errStale = errors.New("a value or key was given to a statement that was complete")

// next makes ready for a value: behind it there is room for one of fixed size. The
// setters below are kept to this one check, and it is inlined into them.
func (r *response) next(generation uint64) {
	if generation != r.ready || r.n > r.soft {
		r.prepare(generation)
	}
	r.ready = r.after
	r.count++
}

// prepare does what is rare before a value: it makes room, and finds out what is
// wrong where none may come.
func (r *response) prepare(generation uint64) {
	switch {
	case generation != r.generation:
		r.fail(errStale)
	case generation != r.ready:
		r.fail(r.wrong("a value has no Key before it"))
	}
	if r.n > r.soft {
		r.grow(0)
	}
}

func (r *response) null(generation uint64) {
	r.next(generation)
	r.buf[r.n] = 0xc0
	r.n++
}

func (r *response) bool(generation uint64, v bool) {
	r.next(generation)
	b := byte(0xc2)
	if v {
		b = 0xc3
	}
	r.buf[r.n] = b
	r.n++
}

func (r *response) int(generation uint64, v int64) {
	r.next(generation)
	n := r.n
	b := r.buf[n : n+9]
	if int64(int32(v)) == v {
		b[0] = 0xd2
		le.PutUint32(b[1:], bits.ReverseBytes32(uint32(v)))
		r.n = n + 5
		return
	}
	b[0] = 0xd3
	le.PutUint64(b[1:], bits.ReverseBytes64(uint64(v)))
	r.n = n + 9
}

func (r *response) float(generation uint64, v float64) {
	r.next(generation)
	n := r.n
	b := r.buf[n : n+9]
	b[0] = 0xcb
	le.PutUint64(b[1:], bits.ReverseBytes64(math.Float64bits(v)))
	r.n = n + 9
}

// maxShort is the longest string whose head is one byte.
const maxShort = 31

func (r *response) string(generation uint64, v string) {
	r.next(generation)
	if len(v) > maxShort {
		r.longString(v)
		return
	}
	n := r.n
	b := r.buf[n : n+slack]
	b[0] = 0xa0 | byte(len(v))
	copy(b[1:], v)
	r.n = n + 1 + len(v)

	// Bytes beyond ASCII are looked for eight at a time, where they have been
	// written, since there is room behind the last of them.
	le.PutUint64(b[1+len(v):], 0)
	var all uint64
	for i := 0; i < len(v); i += 8 {
		all |= le.Uint64(b[1+i:])
	}
	if all&0x8080808080808080 != 0 {
		r.mustUTF8(v)
	}
}

func (r *response) longString(v string) {
	r.mustUTF8(v)
	if !r.room(len(v)) {
		return
	}
	b := r.buf[r.n:]
	head := 2
	if n := len(v); n <= math.MaxUint8 {
		b[0], b[1] = 0xd9, byte(n)
	} else {
		b[0] = 0xdb
		be.PutUint32(b[1:], uint32(n))
		head = 5
	}
	r.n += head + copy(b[head:], v)
}

func (r *response) mustUTF8(v string) {
	if !utf8.ValidString(v) {
		r.fail(r.wrong("a string is not UTF-8; give it as Bytes, or decode it"))
	}
}

func (r *response) text(generation uint64, v []byte) {
	if v == nil {
		r.null(generation)
		return
	}
	r.string(generation, view(v))
}

// view returns a string that shares the memory of b.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

func (r *response) bytes(generation uint64, v []byte) {
	if v == nil {
		r.null(generation)
		return
	}
	r.next(generation)
	if !r.room(len(v)) {
		return
	}
	b := r.buf[r.n:]
	head := 2
	if n := len(v); n <= math.MaxUint8 {
		b[0], b[1] = 0xc4, byte(n)
	} else {
		b[0] = 0xc6
		be.PutUint32(b[1:], uint32(n))
		head = 5
	}
	r.n += head + copy(b[head:], v)
}

// room makes room for a value of size bytes, if there can be so many.
func (r *response) room(size int) bool {
	return r.n+size <= r.soft || r.grow(size)
}

// key writes the key of the value that comes next.
func (r *response) key(generation uint64, name string) {
	switch {
	case generation != r.generation:
		r.fail(errStale)
	case r.after != 0 && r.depth > 0:
		r.fail(r.wrong("Key " + clip(name) + " within a list"))
	case r.after != 0:
		r.fail(r.wrong("Key " + clip(name) + ", but the query takes its values by position"))
	case r.ready != 0:
		r.fail(r.wrong("the Key before " + clip(name) + " has no value"))
	}
	// A key is a string that is no value: string must neither ask for a key
	// before it nor count it.
	r.ready = generation
	r.string(generation, name)
	r.ready = generation
	r.count--
}

// beginLevel begins a list or a map, whose length endLevel fills in.
func (r *response) beginLevel(generation uint64, head byte, after uint64) {
	r.next(generation)
	if r.depth == len(r.outer) {
		r.fail(r.wrong("lists and maps are nested more than 64 deep, the parameters themselves counted"))
	}
	if r.problem != nil {
		return // what is given from now on does not matter
	}
	r.outer[r.depth] = level{r.count, r.after, r.header}
	r.depth++
	r.ready, r.count, r.after, r.header = after, 0, after, r.n+1
	r.buf[r.n] = head
	r.n += 5
}

// endLevel ends the innermost list or map.
func (r *response) endLevel(generation uint64) {
	switch {
	case generation != r.generation:
		r.fail(errStale)
	case r.problem != nil:
	case r.depth == 0:
		r.fail(r.wrong("End without a List or Map"))
	case r.ready != r.after:
		r.fail(r.wrong("the last Key has no value"))
	default:
		be.PutUint32(r.buf[r.header:], r.count)
		r.depth--
		l := &r.outer[r.depth]
		r.ready, r.count, r.after, r.header = l.after, l.count, l.after, l.header
	}
}

// The extension types of the ABI.
const (
	extTimestamp      = 0xff // -1
	extDate           = 1
	extLocalTime      = 2
	extTime           = 3
	extLocalDateTime  = 4
	extOffsetDateTime = 5
	extZonedDateTime  = 6
	extDuration       = 7
	extPoint2D        = 8
	extPoint3D        = 9
)

// putExt writes the head of an extension value of at most 255 bytes and returns
// the place of its payload, which the caller fills. There must be room.
func (r *response) putExt(kind byte, size int) []byte {
	b := r.buf[r.n:]
	head := 2
	switch size {
	case 4, 8, 16:
		b[0], b[1] = 0xd4+byte(bits.TrailingZeros(uint(size))), kind
	default:
		b[0], b[1], b[2] = 0xc7, byte(size), kind
		head = 3
	}
	r.n += head + size
	return b[head : head+size]
}

// putDateTime writes a moment with its offset; without one as a MessagePack
// timestamp.
func (r *response) putDateTime(t time.Time) {
	_, offset := t.Zone()
	seconds, nanos := t.Unix(), uint32(t.Nanosecond())
	switch {
	case offset != 0:
		b := r.putExt(extOffsetDateTime, 16)
		be.PutUint64(b, uint64(seconds))
		be.PutUint32(b[8:], nanos)
		be.PutUint32(b[12:], uint32(int32(offset)))
	case seconds>>34 == 0:
		be.PutUint64(r.putExt(extTimestamp, 8), uint64(nanos)<<34|uint64(seconds))
	default:
		b := r.putExt(extTimestamp, 12)
		be.PutUint32(b, nanos)
		be.PutUint64(b[4:], uint64(seconds))
	}
}
