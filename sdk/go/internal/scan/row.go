package scan

import (
	"math"
	"math/bits"
	"unsafe"
)

// row reads fields of the document in hand, whose bytes are length ones from p on, as
// long as they are usual: names known and without escapes, strings without escapes,
// numbers without exponents that are exact, and no white space but for single ones
// behind colons and commas. It stops before a field that is not, or at the end.
//
// It does nothing that odd does not do. But a function of Go becomes a multiple of
// its size in WebAssembly, and of that again in machine code, of which a processor has
// some 32 KiB at hand; each call and each jump back moves all variables about. So the
// way of usual fields is this one function, which calls nothing and keeps little, and
// looks ahead without asking: a field counts once it has been found to end before the
// document does.
//
// In out there must be room for twice the document and Pad.
func (k *Keys) row(p unsafe.Pointer, length int, out unsafe.Pointer) {
	f := &k.table[k.expected%maxKeys]
	q := unsafe.Add(p, k.at)         // the comma or the brace before the field
	brace := unsafe.Add(p, length-1) // the last one
	w := unsafe.Add(out, k.written)  // where the value is written
	for {
		// The name.
		n := 0
		if Byte(q, 1) == ' ' {
			n = 1
		}
		q = unsafe.Add(q, n)
		for (Eight(q, 0)&f.mask[0]^f.begin[0])|(Eight(q, 8)&f.mask[1]^f.begin[1])|f.long != 0 {
			if f.long != 0 && (Eight(q, 0)&f.mask[0]^f.begin[0])|(Eight(q, 8)&f.mask[1]^f.begin[1])|(Eight(q, 16)&f.mask[2]^f.begin[2])|
				(Eight(q, 24)&f.mask[3]^f.begin[3])|(Eight(q, 32)&f.mask[4]^f.begin[4])|(Eight(q, 40)&f.mask[5]^f.begin[5]) == 0 {
				break
			}
			f = &k.table[f.next%maxKeys]
			k.tries++
			if f.number == k.expected {
				return
			}
		}
		q = unsafe.Add(q, f.length)
		n = 0
		if Byte(q, 0) == ' ' {
			n = 1
		}
		q = unsafe.Add(q, n)

		// The value.
		var v value
		x := Eight(q, 0)
		if byte(x) == '"' {
			x = Eight(q, 1)
			y := Eight(q, 9)
			putEight(unsafe.Add(w, 8), x)
			putEight(unsafe.Add(w, 16), y)
			k.high |= x | y
			n = bits.TrailingZeros64(Stops(x)) >> 3
			m := bits.TrailingZeros64(Stops(y)) >> 3
			if n < 8 {
				m = 0
			}
			n += m
			q = unsafe.Add(q, 1+n)
			*(*byte)(unsafe.Add(w, 7)) = 0xa0 | byte(n)
			v = value(Distance(out, w)+7) | value(n+1)<<32
			if n == 16 {
				text := unsafe.Add(w, 24)
				for {
					x = Eight(q, 0)
					y = Eight(q, 8)
					putEight(text, x)
					putEight(unsafe.Add(text, 8), y)
					k.high |= x | y
					n = bits.TrailingZeros64(Stops(x)) >> 3
					m = bits.TrailingZeros64(Stops(y)) >> 3
					if n < 8 {
						m = 0
					}
					n += m
					q, text = unsafe.Add(q, n), unsafe.Add(text, n)
					if n < 16 {
						break
					}
					if uintptr(q) >= uintptr(brace) {
						return
					}
				}
				n = Distance(w, text) - 8
				head := 1
				switch {
				case n <= maxFixed:
					*(*byte)(unsafe.Add(w, 7)) = 0xa0 | byte(n)
				case n <= math.MaxUint8:
					*(*byte)(unsafe.Add(w, 6)) = 0xd9
					*(*byte)(unsafe.Add(w, 7)) = byte(n)
					head = 2
				default:
					putEight(w, 0xdb<<24|uint64(bits.ReverseBytes32(uint32(n)))<<32)
					putEight(unsafe.Add(w, 8), Eight(q, -n))
					head = 5
				}
				v = value(Distance(out, w)+8-head) | value(n+head)<<32
			}
			if Byte(q, 0) != '"' || f.takes&takesText == 0 {
				return
			}
			q = unsafe.Add(q, 1)
			w = unsafe.Add(w, 8+n)
		} else {
			minus := 0
			if byte(x) == '-' {
				minus = 1
			}
			q = unsafe.Add(q, minus)
			x = Eight(q, 0)
			digits := Digits(x)
			if digits > 0 {
				if digits > 1 && byte(x) == '0' {
					return
				}
				u := Decimal(x, digits)
				q = unsafe.Add(q, digits)
				if digits == 8 {
					x = Eight(q, 0)
					if n = Digits(x); n > 0 {
						u = u*PowersOfTen[n&15] + Decimal(x, n)
						q = unsafe.Add(q, n)
						digits += n
					}
					if digits == 16 {
						x = Eight(q, 0)
						if n = Digits(x); n > 3 {
							return
						} else if n > 0 {
							u = u*PowersOfTen[n&15] + Decimal(x, n)
							q = unsafe.Add(q, n)
							digits += n
						}
					}
				}
				if u > math.MaxInt64 {
					return
				}
				needs, isFloat := takesInt, f.takes&toFloat
				if Byte(q, 0) == '.' {
					x = Eight(q, 1)
					n = Digits(x)
					if n == 0 {
						return
					}
					u = u*PowersOfTen[n&15] + Decimal(x, n)
					q = unsafe.Add(q, 1+n)
					if n == 8 {
						x = Eight(q, 0)
						if m := Digits(x); m == 8 {
							return
						} else if m > 0 {
							u = u*PowersOfTen[m&15] + Decimal(x, m)
							q = unsafe.Add(q, m)
							n += m
						}
					}
					needs, isFloat = takesFraction, toFloat
				} else {
					n = 0
				}
				if f.takes&needs == 0 {
					return
				}
				head := byte(0xd3)
				negative := -uint64(minus)
				v = value(Distance(out, w)) | 9<<32
				switch {
				case isFloat == 0:
				case digits+n > 15:
					if digits+n > 19 {
						return
					}
					v |= late
					k.late |= 1 << (f.index & 63)
					head, negative = byte(minus<<7|n), 0
				default: // up to 15 digits are exact, and one division rounds right
					u = math.Float64bits(float64(int64(u))/float64(int64(PowersOfTen[n&15]))) | negative<<63
					head, negative = 0xcb, 0
				}
				*(*byte)(w) = head
				putEight(unsafe.Add(w, 1), bits.ReverseBytes64((u^negative)-negative))
				w = unsafe.Add(w, 9)
			} else {
				needs, head := takesBool, byte(0xc2)
				n = 4
				switch uint32(x) {
				case 'n' | 'u'<<8 | 'l'<<16 | 'l'<<24:
					needs, head = takesNull, 0xc0
				case 't' | 'r'<<8 | 'u'<<16 | 'e'<<24:
					head = 0xc3
				case 'f' | 'a'<<8 | 'l'<<16 | 's'<<24:
					if n = 5; byte(x>>32) != 'e' {
						return
					}
				default:
					return
				}
				if f.takes&needs == 0 || minus != 0 {
					return
				}
				*(*byte)(w) = head
				q = unsafe.Add(q, n)
				v = value(Distance(out, w)) | 1<<32
				w = unsafe.Add(w, 1)
			}
		}

		// What stands behind it: only now it counts.
		if Byte(q, 0) != ',' || uintptr(q) >= uintptr(brace) {
			if q != brace {
				return
			}
			q = unsafe.Add(q, 1)
		}
		k.values[f.index&63] = v
		k.seen |= 1 << (f.index & 63)
		k.order[k.count%maxOrder] = f.number
		k.count++
		k.at, k.written, k.expected = Distance(p, q), Distance(out, w), f.next
		if uintptr(q) > uintptr(brace) {
			return
		}
		f = &k.table[f.next%maxKeys]
	}
}

// maxFixed is the longest string whose head is one byte.
const maxFixed = 31
