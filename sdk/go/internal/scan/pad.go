package scan

import "unsafe"

// Pad is how many bytes behind a padded document may be read.
//
// Looking eight bytes ahead without asking each time whether the document goes on is
// what makes reading it cheap in WebAssembly. What is read there is never part of a
// result: whoever looks ahead checks at the end that it has stayed within.
const Pad = 128

// frame is the memory in which every document is padded, as address and length: the
// request in hand, which has room behind it.
var frame struct{ start, length uintptr }

// SetFrame names the memory of the request in hand. Behind it Pad bytes more must be
// readable for as long as documents in it are read. Where there is none, as in tests
// that run natively, all documents are copied.
func SetFrame(b []byte) {
	frame.start, frame.length = uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b))
}

// Padded returns the document, or a copy of it, with Pad bytes readable behind it.
func Padded(d []byte) []byte {
	if uintptr(unsafe.Pointer(unsafe.SliceData(d)))-frame.start < frame.length {
		return d
	}
	return copied(d)
}

//go:noinline
func copied(d []byte) []byte { return append(make([]byte, 0, len(d)+Pad), d...) }

// Byte returns the byte that stands at behind p.
func Byte(p unsafe.Pointer, at int) byte { return *(*byte)(unsafe.Add(p, at)) }

// Eight returns the eight bytes that stand at behind p, the first one lowest.
func Eight(p unsafe.Pointer, at int) uint64 {
	return littleEndian(*(*uint64)(unsafe.Add(p, at)))
}

// Distance returns how many bytes p is behind start.
func Distance(start, p unsafe.Pointer) int { return int(uintptr(p) - uintptr(start)) }
