package scan

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// Space returns the position of the next byte that is not white space, which
// may be the end.
//
//go:noinline
func Space(d []byte, i int) int {
	for i < len(d) {
		switch d[i] {
		case ' ', '\n', '\r', '\t':
			i++
		default:
			return i
		}
	}
	return i
}

// At returns byte i of d, and 0, which stands nowhere in JSON, behind its end.
func At(d []byte, i int) byte {
	if uint(i) < uint(len(d)) {
		return d[i]
	}
	return 0
}

// loadEnd is Load within eight bytes of the end, and behind it.
func loadEnd(d []byte, i int) (x uint64) {
	if last := len(d) - 8; last >= 0 {
		return binary.LittleEndian.Uint64(d[last:]) >> (8 * uint(i-last))
	}
	for j := len(d) - 1; j >= i; j-- {
		x = x<<8 | uint64(d[j])
	}
	return x
}

const (
	ones  = 0x0101010101010101
	highs = 0x80 * ones
)

// Special marks the first byte of x that needs a look within a string, by its high
// bit: a quote, a backslash, a control character, or what is not ASCII. It may mark
// others above it.
func Special(x uint64) uint64 {
	// For a byte below 0x80 the high bit is set by a subtraction only if it is the
	// one looked for. Above it, borrows may set others.
	return ((x ^ '"'*ones - ones) | (x ^ '\\'*ones - ones) | (x - ' '*ones) | x) & highs
}

// Stops is Special but for what is not ASCII, which it does not mark. The lowest mark is
// right: a subtraction borrows only from a byte above one that is marked.
func Stops(x uint64) uint64 {
	return ((x ^ '"'*ones - ones) | (x ^ '\\'*ones - ones) | (x - ' '*ones)) &^ x & highs
}

// FirstMarked is the number of the lowest byte that is marked, 8 if none is.
func FirstMarked(marks uint64) int { return bits.TrailingZeros64(marks) / 8 }

// Plain returns the position of the first special byte from i on, at the latest
// the end.
func Plain(d []byte, i int) int {
	for {
		if marks := Special(Load(d, i)); marks != 0 {
			return min(i+FirstMarked(marks), len(d))
		}
		i += 8
	}
}

// String reads the rest of a string whose opening quote is before i. It
// returns the position of the closing quote.
func String(d []byte, i int) (end int, escaped bool, err *SyntaxError) {
	if end = Plain(d, i); At(d, end) == '"' {
		return end, false, nil
	}
	return scanRest(d, i, end)
}

// scanRest is String for a string that begins at start and is plain up to i.
func scanRest(d []byte, start, i int) (end int, escaped bool, err *SyntaxError) {
	ascii := true
	for {
		switch c := At(d, i); {
		case c == '"':
			if !ascii && !utf8.Valid(d[start:i]) {
				return 0, false, notUTF8(d, start)
			}
			return i, escaped, nil
		case c == '\\':
			escaped = true
			if i, err = scanEscape(d, i); err != nil {
				return 0, false, err
			}
		case c >= utf8.RuneSelf:
			ascii = false
			for i++; At(d, i) >= utf8.RuneSelf; i++ {
			}
		case i >= len(d):
			return 0, false, Fail(len(d), "a string is not ended")
		default:
			return 0, false, Fail(i, "a control character in a string")
		}
		i = Plain(d, i)
	}
}

// notUTF8 finds the first byte from i on that is not UTF-8.
func notUTF8(d []byte, i int) *SyntaxError {
	for i < len(d) {
		r, size := utf8.DecodeRune(d[i:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		i += size
	}
	return Fail(i, "a string is not UTF-8")
}

// scanEscape reads the escape at i, both of them where it is a surrogate pair.
func scanEscape(d []byte, i int) (end int, err *SyntaxError) {
	if i+1 >= len(d) {
		return 0, Fail(len(d), "a string is not ended")
	}
	switch d[i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 2, nil
	case 'u':
		r, ok := hex4(d, i+2)
		if !ok {
			return 0, Fail(i, `\u without four hexadecimal digits`)
		}
		if r < 0xd800 || r > 0xdfff {
			return i + 6, nil
		}
		if r < 0xdc00 && i+7 < len(d) && d[i+6] == '\\' && d[i+7] == 'u' {
			if low, ok := hex4(d, i+8); ok && low >= 0xdc00 && low <= 0xdfff {
				return i + 12, nil
			}
		}
		return 0, Fail(i, "half of a surrogate pair, which is no character")
	}
	return 0, Fail(i, "an unknown escape")
}

// hex4 reads four hexadecimal digits.
func hex4(d []byte, i int) (r rune, ok bool) {
	if i+4 > len(d) {
		return 0, false
	}
	for _, c := range d[i : i+4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// Unescape appends the characters of a string that String has passed, s being
// what is between its quotes.
func Unescape(b, s []byte) []byte {
	for i := 0; i < len(s); {
		if s[i] != '\\' {
			b = append(b, s[i])
			i++
			continue
		}
		switch c := s[i+1]; c {
		case 'b':
			b = append(b, '\b')
		case 'f':
			b = append(b, '\f')
		case 'n':
			b = append(b, '\n')
		case 'r':
			b = append(b, '\r')
		case 't':
			b = append(b, '\t')
		case 'u':
			r, _ := hex4(s, i+2)
			if r >= 0xd800 && r <= 0xdfff {
				low, _ := hex4(s, i+8)
				r = (r-0xd800)<<10 | (low - 0xdc00) + 0x10000
				i += 6
			}
			b = utf8.AppendRune(b, r)
			i += 4
		default: // quote, backslash, slash
			b = append(b, c)
		}
		i += 2
	}
	return b
}

// Number reads the number at i, whose first byte is a digit or a minus.
func Number(d []byte, i int) (end int, err *SyntaxError) {
	if d[i] == '-' {
		i++
	}
	switch {
	case i < len(d) && d[i] == '0':
		i++
	case i < len(d) && d[i] >= '1' && d[i] <= '9':
		i = scanDigits(d, i)
	default:
		return 0, Unexpected(d, i, "a digit")
	}
	if i < len(d) && d[i] == '.' {
		if end = scanDigits(d, i+1); end == i+1 {
			return 0, Unexpected(d, end, "a digit")
		}
		i = end
	}
	if i < len(d) && d[i]|0x20 == 'e' {
		i++
		if i < len(d) && (d[i] == '+' || d[i] == '-') {
			i++
		}
		if end = scanDigits(d, i); end == i {
			return 0, Unexpected(d, end, "a digit")
		}
		i = end
	}
	return i, nil
}

func scanDigits(d []byte, i int) int {
	for i < len(d) && d[i]-'0' <= 9 {
		i++
	}
	return i
}

// Word reads null, false or true.
func Word(d []byte, i int, word string) (end int, err *SyntaxError) {
	if end = i + len(word); end <= len(d) && string(d[i:end]) == word {
		return end, nil
	}
	for j := range len(word) { // find the byte that differs
		if i+j >= len(d) || d[i+j] != word[j] {
			return 0, Unexpected(d, i+j, word)
		}
	}
	return end, nil
}

// Unexpected says what should stand at i.
//
//go:noinline
func Unexpected(d []byte, i int, wanted string) *SyntaxError {
	if i >= len(d) {
		return Fail(len(d), "it ends where "+wanted+" should stand")
	}
	return Fail(i, wanted+" should stand")
}
