package scan

import (
	"math"
	"math/bits"
	"unsafe"
)

// Row reads a padded document of so many bytes and writes the values of the fields from
// f on, in their order, as MessagePack to dst, where there must be the plan's Room
// besides that of the document. It returns where they end, or nil: then the document is
// not of the form that most have, and another reader has to look at it. In that form the fields stand in their order, with
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
	if f == nil || length < 2 || Byte(q, 0) != '{' || Byte(brace, 0) != '}' {
		return nil
	}
	for {
		n := 1
		if Byte(q, 1) == ' ' {
			n = 2
		}
		q = unsafe.Add(q, n)
		for (Eight(q, -1)&f.Mask[0]^f.Begin[0])&^0xff|(Eight(q, 7)&f.Mask[1]^f.Begin[1]) != 0 {
			if !f.Opt {
				return nil
			}
			*(*byte)(w) = 0xc0 // it is absent
			w = unsafe.Add(w, 1)
			if f.Last {
				q = unsafe.Add(q, -n)
				goto end
			}
			f = f.Next
		}
		q = unsafe.Add(q, f.Length)
		n = 0
		if Byte(q, 0) == ' ' {
			n = 1
		}
		q = unsafe.Add(q, n)
		x := Eight(q, 0)
		if byte(x) == '"' {
			x = Eight(q, 1)
			putEight(unsafe.Add(w, 1), x)
			marks := Special(x)
			n = 0
			if marks == 0 {
				x = Eight(q, 9)
				putEight(unsafe.Add(w, 9), x)
				if marks, n = Special(x), 8; marks == 0 {
					x = Eight(q, 17)
					putEight(unsafe.Add(w, 17), x)
					if marks, n = Special(x), 16; marks == 0 {
						x = Eight(q, 25)
						putEight(unsafe.Add(w, 25), x)
						marks, n = Special(x), 24
					}
				}
			}
			n += bits.TrailingZeros64(marks) >> 3
			if q = unsafe.Add(q, 1+n); Byte(q, 0) != '"' || f.Want != WantText || n > 31 {
				return nil
			}
			*(*byte)(w) = 0xa0 | byte(n)
			w = unsafe.Add(w, 1+n)
			q = unsafe.Add(q, 1)
		} else {
			minus := 0
			if byte(x) == '-' {
				minus = 1
			}
			q = unsafe.Add(q, minus)
			x = Eight(q, 0)
			digits := Digits(x)
			u := Decimal(x, digits)
			if digits == 0 || digits > 1 && byte(x) == '0' {
				return nil
			}
			// A second eight digits, if the first were eight.
			x = Eight(q, 8)
			more := Digits(x)
			if digits < 8 {
				more = 0
			}
			low := Decimal(x, more)
			if more == 0 {
				low = 0
			}
			u = u*PowersOfTen[more&15] + low
			digits += more
			q = unsafe.Add(q, digits)
			// The decimals, if there is a point.
			x = Eight(q, 1)
			decimals := Digits(x)
			point := 1
			if Byte(q, 0) != '.' {
				decimals, point = 0, 0
			}
			low = Decimal(x, decimals)
			if decimals == 0 {
				low = 0
			}
			v := u*PowersOfTen[decimals&15] + low
			real := math.Float64bits(float64(v)/float64(PowersOfTen[decimals&15])) | uint64(minus)<<63
			if digits+decimals > 15 || point > decimals || f.Want == WantInt && point > 0 || f.Want > WantFloat {
				return nil // up to 15 digits are exact, and one division rounds right
			}
			q = unsafe.Add(q, point+decimals)
			head, value := byte(0xcb), real
			if f.Want == WantInt {
				head, value = 0xd3, (u^-uint64(minus))+uint64(minus)
			}
			*(*byte)(w) = head
			putEight(unsafe.Add(w, 1), bits.ReverseBytes64(value))
			w = unsafe.Add(w, 9)
		}
		if after := Byte(q, 0); after != ',' && after != '}' {
			return nil
		}
		if f.Last {
			break
		}
		f = f.Next
	}
end:
	if q != brace && (q != document || length > 2) {
		return nil
	}
	return w
}
