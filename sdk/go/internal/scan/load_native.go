//go:build !wasm

package scan

import (
	"encoding/binary"
	"unsafe"
)

// Load returns the eight bytes from position i >= 0 on, the first one lowest, as
// if zeros followed the document.
func Load(d []byte, i int) uint64 {
	if i <= len(d)-8 {
		return binary.LittleEndian.Uint64(d[i:])
	}
	return loadEnd(d, i)
}

// Equal tells whether a and b hold the same bytes.
func Equal(a []byte, b string) bool { return string(a) == b }

// littleEndian turns eight bytes of memory, read as the machine does, into a number
// whose lowest byte stood first.
func littleEndian(x uint64) uint64 {
	var b [8]byte
	binary.NativeEndian.PutUint64(b[:], x)
	return binary.LittleEndian.Uint64(b[:])
}

// putEight writes eight bytes, the lowest first.
func putEight(p unsafe.Pointer, x uint64) { *(*uint64)(p) = littleEndian(x) }
