package scan

import (
	"math"
	"math/bits"
	"strconv"
)

// ParseInt reads the text of a number as an integer. ok is false where it has a
// fraction or an exponent, or where an int64 does not hold it.
func ParseInt(number []byte) (v int64, ok bool) {
	digits := number
	negative := len(digits) > 0 && digits[0] == '-'
	if negative {
		digits = digits[1:]
	}
	const most = 19 // digits of the largest int64; as many fit into a uint64
	if len(digits) == 0 || len(digits) > most {
		return 0, false
	}
	var n uint64
	for _, c := range digits {
		if c-'0' > 9 {
			return 0, false
		}
		n = n*10 + uint64(c-'0')
	}
	switch {
	case negative && n <= -math.MinInt64:
		return -int64(n), true
	case !negative && n <= math.MaxInt64:
		return int64(n), true
	}
	return 0, false
}

// IsInt tells whether the text of a number is that of an integer, of any size: it
// has no fraction and no exponent.
func IsInt(number []byte) bool {
	for _, c := range number {
		if c == '.' || c|0x20 == 'e' {
			return false
		}
	}
	return true
}

// ParseFloat reads the text of a number as the nearest float64. ok is false where
// it is too large for one.
func ParseFloat(number []byte) (v float64, ok bool) {
	var s Short
	if end := s.Scan(number, 0); end == len(number) {
		return s.Float(), true
	}
	if v, ok = fraction(number); ok {
		return v, true
	}
	v, err := strconv.ParseFloat(View(number), 64)
	return v, err == nil
}

// fraction is ParseFloat for at most 19 digits, the last of which stands at most 19 behind
// the point, and no exponent. It takes half of the time of strconv.
func fraction(number []byte) (v float64, ok bool) {
	i, negative := 0, false
	if At(number, 0) == '-' {
		i, negative = 1, true
	}
	u, i, digits := someDigits(number, i, 0)
	decimals := 0
	if At(number, i) == '.' {
		u, i, decimals = someDigits(number, i+1, u)
	}
	if i < len(number) || digits+decimals > 19 || digits == 0 {
		return 0, false
	}
	v = quotient(u, decimals)
	if negative {
		v = -v
	}
	return v, true
}

// someDigits reads digits from i on as what follows those of u. It returns where they end,
// and how many there are.
func someDigits(number []byte, i int, u uint64) (v uint64, end, digits int) {
	for start := i; ; {
		x := Load(number, i)
		n := Digits(x)
		if n > 0 {
			u = u*PowersOfTen[n&15] + Decimal(x, n)
		}
		if i += n; n < 8 || i-start > 19 {
			return u, i, i - start
		}
	}
}

// quotient returns the float64 nearest to u / 10^decimals, of which there are at most 19.
func quotient(u uint64, decimals int) float64 {
	if u == 0 {
		return 0
	}
	power := PowersOfTen[min(decimals, 15)] * PowersOfTen[max(decimals-15, 0)]
	up, down := bits.LeadingZeros64(u), bits.LeadingZeros64(power)
	u, power = u<<up, power<<down
	exponent := down - up // u / 10^decimals is the quotient of the two shifted by it
	var high, low uint64
	if u < power {
		high = u
		exponent--
	} else {
		high, low = u>>1, u<<63
	}
	// q, of 64 bits of which the highest is set, is u / power * 2^63 or 2^64.
	q, rest := bits.Div64(high, low, power)
	exponent -= 63
	// Of its bits 53 are kept. It is rounded to the nearest, and halfway to even.
	mantissa, cut := q>>11, q&(1<<11-1)
	const half = 1 << 10
	if cut > half || cut == half && (rest != 0 || mantissa&1 != 0) {
		mantissa++
	}
	// A mantissa of 2^53 carries into the exponent as it should.
	return math.Float64frombits(mantissa + uint64(exponent+11+52+1023-1)<<52)
}

// Short is a number of few digits: v / 10^decimals.
type Short struct {
	V        int64
	Decimals int8 // -1: not a short number
}

// Scan reads the number at i and returns where it ends, if it has at most seven
// digits before the point and seven behind it, and no exponent. Otherwise it returns
// -1, and Decimals is -1: it is another number, or none.
func (s *Short) Scan(d []byte, i int) (end int) {
	s.Decimals = -1
	x := Load(d, i)
	negative := byte(x) == '-'
	if negative {
		i++
		x = Load(d, i)
	}
	n := Digits(x)
	if n == 0 || n == 8 || n > 1 && byte(x) == '0' {
		return -1
	}
	v := int64(Decimal(x, n))
	i += n
	next := byte(x >> (8 * uint(n)))
	decimals := 0
	if next == '.' {
		x = Load(d, i+1)
		decimals = Digits(x)
		if decimals == 0 || decimals == 8 {
			return -1
		}
		v = v*int64(PowersOfTen[decimals]) + int64(Decimal(x, decimals))
		i += 1 + decimals
		next = byte(x >> (8 * uint(decimals)))
	}
	if next|0x20 == 'e' {
		return -1
	}
	if negative {
		if v == 0 {
			return -1 // as a float it keeps its sign
		}
		v = -v
	}
	s.V, s.Decimals = v, int8(decimals)
	return i
}

// PowersOfTen are 10^0 to 10^15. An index from 0 to 15 needs no check.
var PowersOfTen = [16]uint64{1, 10, 100, 1000, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15}

// Float returns the number. Both sides are exact floats, and one division of exact
// floats is rounded correctly.
func (s *Short) Float() float64 { return float64(s.V) / float64(PowersOfTen[s.Decimals&15]) }

// Digits counts the digits with which the bytes of x begin, from the lowest on.
func Digits(x uint64) int {
	x ^= '0' * ones
	return FirstMarked((x + 0x76*ones | x) & highs)
}

// Decimal reads n digits, the first one lowest, as a number. n is 1 to 8.
func Decimal(x uint64, n int) uint64 {
	x = (x ^ '0'*ones) << (8 * uint(8-n) & 63) // zeros before the first
	x = x * (1<<8*10 + 1) >> 8                 // pairs
	x = x & 0x00ff00ff00ff00ff * (1<<16*100 + 1) >> 16
	return x & 0x0000ffff0000ffff * (1<<32*10_000 + 1) >> 32
}
