package json

import (
	"math"
	"math/bits"
	"unsafe"

	"github.com/graphmill/graphmill/sdk/go/internal/scan"
)

// scanCompact reads a padded document from its brace on as long as it has wanted fields
// only, of the type that is wanted, with short numbers and strings without
// escapes and beyond ASCII, and no white space but for single ones behind colons and
// commas. It returns where the last such field ends, 0 if there is none, and the field
// expected next.
//
// It does nothing that scanFields does not do. But Go's WebAssembly pays for each call
// many times what a field should cost, and for each bounds check. So this is one
// function that calls nothing, and looks ahead without asking: what it accepts, it has
// found to end before the document does.
func (o *Object) scanCompact(d []byte, f *scan.Field) (end int, next *scan.Field) {
	p := unsafe.Pointer(unsafe.SliceData(d))
	brace := unsafe.Add(p, len(d)-1) // where the document ends if it is an object
	if len(d) == 0 || scan.Byte(p, 0) != '{' {
		return 0, f
	}
	q, expected := unsafe.Add(p, 1), f
	for {
		if (scan.Eight(q, 7)&f.Mask[1]^f.Begin[1])|(scan.Eight(q, -1)&f.Mask[0]^f.Begin[0])&^0xff != 0 {
			if f = f.Next; f != expected {
				continue // fields may be absent, or stand in another order
			}
			break
		}
		q = unsafe.Add(q, f.Length)
		if scan.Byte(q, 0) == ' ' {
			q = unsafe.Add(q, 1)
		}
		v := &o.values[f.Index%MaxFields]
		begin := q
		switch c := scan.Byte(q, 0); {
		case c == '"':
			marks := uint64(0)
			for q = unsafe.Add(q, 1); uintptr(q) < uintptr(brace); q = unsafe.Add(q, 8) {
				if marks = scan.Special(scan.Eight(q, 0)); marks != 0 {
					break
				}
			}
			q = unsafe.Add(q, bits.TrailingZeros64(marks)>>3)
			if scan.Byte(q, 0) != '"' || f.Want < scan.WantText {
				goto stop
			}
			v.start, v.end = int32(scan.Distance(p, begin))+1, int32(scan.Distance(p, q))
			q = unsafe.Add(q, 1)
			if f.Want == scan.WantRaw {
				v.start--
				v.end++
			}
		case c-'0' <= 9 || c == '-':
			if c == '-' {
				q = unsafe.Add(q, 1)
			}
			x := scan.Eight(q, 0)
			digits := scan.Digits(x)
			if digits == 0 || digits > 1 && byte(x) == '0' {
				goto stop
			}
			u := scan.Decimal(x, digits)
			q = unsafe.Add(q, digits)
			for digits >= 8 && digits < 18 && scan.Byte(q, 0)-'0' <= 9 {
				u = u*10 + uint64(scan.Byte(q, 0)-'0')
				q = unsafe.Add(q, 1)
				digits++
			}
			decimals := 0
			if scan.Byte(q, 0) == '.' {
				x = scan.Eight(q, 1)
				if decimals = scan.Digits(x); decimals == 0 {
					goto stop
				}
				u = u*scan.PowersOfTen[decimals&15] + scan.Decimal(x, decimals)
				q = unsafe.Add(q, 1+decimals)
			}
			if after := scan.Byte(q, 0); after-'0' <= 9 || after|0x20 == 'e' {
				goto stop
			}
			switch {
			case f.Want == scan.WantFloat && digits+decimals <= 15: // exact, and one division rounds right
				x := float64(u)
				if decimals > 0 {
					x /= float64(scan.PowersOfTen[decimals&15])
				}
				if c == '-' {
					x = -x
				}
				v.bits = math.Float64bits(x)
			case f.Want == scan.WantInt && decimals == 0:
				if c == '-' {
					u = -u
				}
				v.bits = u
			case f.Want == scan.WantRaw:
				v.start, v.end = int32(scan.Distance(p, begin)), int32(scan.Distance(p, q))
			default:
				goto stop
			}
		default:
			goto stop
		}
		if uintptr(q) > uintptr(brace) {
			break
		}
		o.there |= 1 << (f.Index % MaxFields)
		end, f = scan.Distance(p, q), f.Next
		expected = f
		if scan.Byte(q, 0) != ',' {
			break
		}
		if scan.Byte(q, 1) == ' ' {
			q = unsafe.Add(q, 1)
		}
		if q = unsafe.Add(q, 1); uintptr(q) >= uintptr(brace) {
			break
		}
	}
stop:
	return end, expected
}
