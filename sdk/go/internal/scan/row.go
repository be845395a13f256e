package scan

import (
	"math"
	"math/bits"
	"unsafe"
)

// RowRoom is how many bytes of room Row needs for a document of so many bytes and for
// so many fields.
func RowRoom(document, fields int) int { return document + 9*fields + 16 }

// Row reads a padded document of so many bytes and writes the values of the fields from
// f on, in their order, as MessagePack to dst, where there must be RowRoom. It returns
// where they end, or nil: then the document is not of the form that most have, and
// another reader has to look at it. In that form the fields stand in their order, with
// no others between; strings have no escapes and are ASCII; numbers are short; and there
// is no white space but for single ones behind colons and commas.
//
// It does nothing that others do not do. But a function of Go becomes a multiple of
// its size in WebAssembly, and of that again in machine code, of which a processor has
// some 32 KiB at hand; and each jump back moves all variables about. So the way of a
// usual message is this one function, which calls nothing and keeps little, and looks
// ahead without asking: it accepts what it has found to end before the document does.
func Row(dst, document unsafe.Pointer, length int, f *Field) (end unsafe.Pointer) {
	q := document                    // where the brace or the comma before the next field stands
	brace := unsafe.Add(q, length-1) // where the document ends if it is an object
	w := dst
	if length < 2 || Byte(q, 0) != '{' || Byte(brace, 0) != '}' {
		return nil
	}
	for {
		x := Eight(q, 0)
		if byte(x>>8) == ' ' {
			q = unsafe.Add(q, 1)
			x = Eight(q, 0)
		}
		if (x&f.Mask[0]^f.Begin[0])&^0xff|(Eight(q, 8)&f.Mask[1]^f.Begin[1]) != 0 {
			if !f.Opt || byte(x) == ' ' {
				return nil
			}
			*(*byte)(w) = 0xc0
			w = unsafe.Add(w, 1)
			goto next
		}
		q = unsafe.Add(q, 1+f.Length)
		if x = Eight(q, 0); byte(x) == ' ' {
			q = unsafe.Add(q, 1)
			x = Eight(q, 0)
		}
		if byte(x) == '"' {
			if f.Want != WantText {
				return nil
			}
			head := w
			w = unsafe.Add(w, 1)
			q = unsafe.Add(q, 1)
			for {
				x := Eight(q, 0)
				putEight(w, x)
				if marks := Special(x); marks != 0 {
					n := bits.TrailingZeros64(marks) >> 3
					q, w = unsafe.Add(q, n), unsafe.Add(w, n)
					break
				}
				q, w = unsafe.Add(q, 8), unsafe.Add(w, 8)
				if uintptr(q) >= uintptr(brace) {
					return nil
				}
			}
			n := Distance(head, w) - 1
			if Byte(q, 0) != '"' || n > 31 {
				return nil
			}
			*(*byte)(head) = 0xa0 | byte(n)
			q = unsafe.Add(q, 1)
		} else {
			minus := byte(x) == '-'
			if minus {
				q = unsafe.Add(q, 1)
				x = Eight(q, 0)
			}
			digits := Digits(x)
			u := Decimal(x, digits)
			if digits == 0 || digits > 1 && byte(x) == '0' {
				return nil
			}
			q = unsafe.Add(q, digits)
			if digits == 8 {
				x = Eight(q, 0)
				if digits = Digits(x); digits == 8 {
					return nil
				}
				u = u*PowersOfTen[digits&15] + Decimal(x, digits)
				q = unsafe.Add(q, digits)
				digits += 8
			}
			kind := byte(0xd3)
			if f.Want == WantFloat {
				x := float64(u)
				if Byte(q, 0) == '.' {
					decimals := Eight(q, 1)
					n := Digits(decimals)
					if digits += n; n == 0 || digits > 15 { // up to 15 are exact, and one division rounds right
						return nil
					}
					x = float64(u*PowersOfTen[n&15]+Decimal(decimals, n)) / float64(PowersOfTen[n&15])
					q = unsafe.Add(q, 1+n)
				}
				if minus {
					x = -x
				}
				kind, u = 0xcb, math.Float64bits(x)
			} else if f.Want != WantInt {
				return nil
			} else if minus {
				u = -u
			}
			*(*byte)(w) = kind
			putEight(unsafe.Add(w, 1), bits.ReverseBytes64(u))
			w = unsafe.Add(w, 9)
		}
		if after := Byte(q, 0); after != ',' && after != '}' {
			return nil
		}
	next:
		if f.Last {
			break
		}
		f = f.Next
	}
	if q != brace && (q != document || length > 2) {
		return nil
	}
	return w
}
