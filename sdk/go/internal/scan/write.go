package scan

import (
	"math/bits"
	"unsafe"
)

// Write writes the values of the document that has been read to dst, in the order in which
// the shape declares them, where there must be room for twice the document and the
// plan's Room. It returns where they end, or nil where one is missing or nested.
func (k *Keys) Write(dst unsafe.Pointer) (end unsafe.Pointer) {
	if k.required&^k.seen != 0 || k.nested {
		return nil
	}
	out := unsafe.Pointer(unsafe.SliceData(k.out))
	seen := k.seen
	for i := range k.Plan.Count {
		*(*byte)(dst) = 0xc0
		n := 1
		if seen&1 != 0 {
			v := k.values[i&63]
			p := unsafe.Add(out, uint32(v))
			n = int(v >> 32)
			to, left := dst, n
			for {
				putEight(to, Eight(p, 0))
				putEight(unsafe.Add(to, 8), Eight(p, 8))
				if left -= 16; left <= 0 {
					break
				}
				to, p = unsafe.Add(to, 16), unsafe.Add(p, 16)
			}
		}
		dst = unsafe.Add(dst, n)
		seen >>= 1
	}
	return dst
}

// RoomOfMap is the room that WriteMap needs besides twice that of the document.
const RoomOfMap = 5 + MaxFields*labelSize

const labelSize = 1 + maxFixed + 8

// WriteMap writes the values of the document that has been read, of those that are there,
// as a map by the names of their fields. It returns where it ends, or nil where one is
// nested or has a long name.
func (k *Keys) WriteMap(dst unsafe.Pointer) (end unsafe.Pointer) {
	seen := k.seen &^ (1 << unwanted)
	if k.nested || k.longNames {
		return nil
	}
	out := unsafe.Pointer(unsafe.SliceData(k.out))
	putEight(dst, 0xdf|uint64(bits.ReverseBytes32(uint32(bits.OnesCount64(seen))))<<8)
	dst = unsafe.Add(dst, 5)
	for ; seen != 0; seen &= seen - 1 {
		i := bits.TrailingZeros64(seen)
		v, label := k.values[i&63], unsafe.Pointer(&k.labels[i%MaxFields])
		dst = copied16(dst, label, 1+int(Byte(label, 0)&0x1f))
		dst = copied16(dst, unsafe.Add(out, uint32(v)), int(v>>32))
	}
	return dst
}

// copied16 copies n bytes, at least one, sixteen at a time, and returns where they end.
func copied16(dst, p unsafe.Pointer, n int) (end unsafe.Pointer) {
	end = unsafe.Add(dst, n)
	for {
		putEight(dst, Eight(p, 0))
		putEight(unsafe.Add(dst, 8), Eight(p, 8))
		if n -= 16; n <= 0 {
			return end
		}
		dst, p = unsafe.Add(dst, 16), unsafe.Add(p, 16)
	}
}

// Value returns one of the values of the document that has been read: MessagePack, or
// JSON if it is nested. It is nil where there is none.
func (k *Keys) Value(document []byte, i int) (v []byte, isNested bool) {
	if k.seen>>i&1 == 0 {
		return nil, false
	}
	place := k.values[i]
	start, length := int(uint32(place)), int(place&^nested>>32)
	if place&nested != 0 {
		return document[start : start+length], true
	}
	return k.out[start : start+length], false
}

// Complete tells whether the document that has been read has all that must be there.
func (k *Keys) Complete() bool { return k.required&^k.seen == 0 }
