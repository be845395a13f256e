package scan

import "unsafe"

// Load returns the eight bytes from position i >= 0 on, the first one lowest, as
// if zeros followed the document. In WebAssembly a branch or a bounds check costs
// as much as several operations on all eight, and a call as much as twenty.
func Load(d []byte, i int) uint64 {
	if i <= len(d)-8 {
		return *(*uint64)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(d)), i))
	}
	return loadEnd(d, i)
}

// Equal tells whether a and b hold the same bytes. The runtime's comparison takes
// four times as long for names, which are short.
func Equal(a []byte, b string) bool {
	n := len(a)
	if n != len(b) {
		return false
	}
	p, q := unsafe.Pointer(unsafe.SliceData(a)), unsafe.Pointer(unsafe.StringData(b))
	switch {
	case n > 16 || n < 4:
		return string(a) == b
	case n >= 8: // the first eight and the last eight
		end := n - 8
		return *(*uint64)(p)^*(*uint64)(q)|*(*uint64)(unsafe.Add(p, end))^*(*uint64)(unsafe.Add(q, end)) == 0
	default:
		end := n - 4
		return *(*uint32)(p)^*(*uint32)(q)|*(*uint32)(unsafe.Add(p, end))^*(*uint32)(unsafe.Add(q, end)) == 0
	}
}

// littleEndian is for machines that are not.
func littleEndian(x uint64) uint64 { return x }

func putEight(p unsafe.Pointer, x uint64) { *(*uint64)(p) = x }
