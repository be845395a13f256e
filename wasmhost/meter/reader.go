package meter

import "unicode/utf8"

// reader reads the binary format. The first error is kept; after it every read
// gives zero and nothing is left, so that a sequence of reads is checked once.
type reader struct {
	b   []byte
	at  int
	err *Error

	// what is read, for errors: "the import section", "function 12".
	what string
}

func newReader(b []byte, what string) *reader { return &reader{b: b, what: what} }

func (r *reader) fail(reason Reason, format string, args ...any) {
	if r.err == nil {
		r.err = errorf(reason, format+" (in "+r.what+")", args...)
	}
	r.at = len(r.b)
}

func (r *reader) left() int { return len(r.b) - r.at }

func (r *reader) byte() byte {
	if r.at >= len(r.b) {
		r.fail(Truncated, "the module ends in the middle")
		return 0
	}
	r.at++
	return r.b[r.at-1]
}

// bytes cuts n bytes.
func (r *reader) bytes(n uint32) []byte {
	if int64(n) > int64(r.left()) {
		r.fail(Truncated, "%d bytes are announced, %d are left", n, r.left())
		return nil
	}
	r.at += int(n)
	return r.b[r.at-int(n) : r.at : r.at]
}

// u32 reads an unsigned LEB128 of at most 32 bits.
func (r *reader) u32() uint32 {
	var v uint64
	for shift := 0; shift < 35; shift += 7 {
		c := r.byte()
		v |= uint64(c&0x7f) << shift
		if c < 0x80 {
			if v > 0xffffffff {
				break
			}
			return uint32(v)
		}
	}
	r.fail(Malformed, "a number has more than 32 bits")
	return 0
}

// signed reads a signed LEB128 of at most so many bits.
func (r *reader) signed(bits int) int64 {
	var v int64
	for shift := 0; shift < bits; shift += 7 {
		c := r.byte()
		v |= int64(c&0x7f) << shift
		if c < 0x80 {
			if shift+7 < 64 && c&0x40 != 0 {
				v |= -1 << (shift + 7)
			}
			return v
		}
	}
	r.fail(Malformed, "a number has more than %d bits", bits)
	return 0
}

// name reads a text.
func (r *reader) name() string {
	b := r.bytes(r.u32())
	if !utf8.Valid(b) {
		r.fail(Malformed, "a name is not valid UTF-8")
		return ""
	}
	return string(b)
}

// count reads the number of entries that follow, each of at least least bytes.
func (r *reader) count(what string, least, limit int) int {
	n := r.u32()
	if r.err != nil {
		return 0
	}
	if int64(n) > int64(r.left()/least) {
		r.fail(Truncated, "%d %s are announced, %d bytes are left", n, what, r.left())
		return 0
	}
	if int64(n) > int64(limit) {
		r.fail(OverLimit, "%d %s, the limit is %d", n, what, limit)
		return 0
	}
	return int(n)
}

// index reads an index that must be below n.
func (r *reader) index(what string, n int) uint32 {
	i := r.u32()
	if r.err == nil && int64(i) >= int64(n) {
		r.fail(Malformed, "there is no %s %d, the module has %d", what, i, n)
		return 0
	}
	return i
}

// end checks that nothing is left.
func (r *reader) end() {
	if r.err == nil && r.left() > 0 {
		r.fail(Malformed, "%d bytes too many", r.left())
	}
}

func appendU32(b []byte, v uint32) []byte {
	for v >= 0x80 {
		b = append(b, byte(v)|0x80)
		v >>= 7
	}
	return append(b, byte(v))
}

func appendName(b []byte, s string) []byte {
	return append(appendU32(b, uint32(len(s))), s...)
}
