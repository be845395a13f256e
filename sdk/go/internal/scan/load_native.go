//go:build !wasm

package scan

import "encoding/binary"

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
