package scan

import (
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
	"unicode/utf8"
)

func floatsAgree(t *testing.T, u uint64, decimals int) {
	t.Helper()
	text := strconv.FormatUint(u, 10)
	if decimals > 0 {
		for len(text) <= decimals {
			text = "0" + text
		}
		text = text[:len(text)-decimals] + "." + text[len(text)-decimals:]
	}
	for _, number := range []string{text, "-" + text} {
		want, err := strconv.ParseFloat(number, 64)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := ParseFloat([]byte(number)); !ok || math.Float64bits(got) != math.Float64bits(want) {
			t.Fatalf("ParseFloat(%s) = %v, %v, want %v", number, got, ok, want)
		}
		if got, ok := fraction([]byte(number)); ok && math.Float64bits(got) != math.Float64bits(want) {
			t.Fatalf("fraction(%s) = %v, want %v", number, got, want)
		}
	}
}

func TestFloatsAreThoseOfStrconv(t *testing.T) {
	for decimals := range 22 {
		for _, u := range []uint64{0, 1, 2, 5, 9, 1<<53 - 1, 1 << 53, 1<<53 + 1, 1<<53 + 2, 1<<53 + 3, 1 << 63, 1<<63 + 1<<10, 1<<63 + 1<<10 + 1, 1<<63 + 3<<10, math.MaxUint64, math.MaxUint64 - 1<<10, 9999999999999999999, 1e18, 9007199254740993} {
			floatsAgree(t, u, decimals)
		}
		for range 3000 {
			floatsAgree(t, rand.Uint64()>>rand.IntN(64), decimals)
		}
		// Halfway between two floats, and next to it.
		for range 1000 {
			u := (rand.Uint64() >> 11 << 11) | 1<<63 | 1<<10
			floatsAgree(t, u, 0)
			floatsAgree(t, u+1, 0)
			floatsAgree(t, u-1, 0)
		}
	}
}

func FuzzFloats(f *testing.F) {
	f.Add(uint64(9007199254740993), uint8(3))
	f.Fuzz(func(t *testing.T, u uint64, decimals uint8) { floatsAgree(t, u, int(decimals%24)) })
}

// utf8Agrees compares with package unicode/utf8.
func utf8Agrees(t *testing.T, text []byte) {
	t.Helper()
	padded := append(make([]byte, 0, len(text)+Pad), text...)
	for i := range padded[len(text):cap(padded)] {
		padded[len(text):cap(padded)][i] = 0x80 // what stands behind must not count
	}
	if got, want := UTF8(padded), utf8.Valid(text); got != want {
		t.Errorf("%q: %v, want %v", text, got, want)
	}
}

func TestUTF8(t *testing.T) {
	// All sequences of two bytes, and of more all that differ by more than bits of the payload.
	interesting := []byte{0x00, 0x22, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xc1, 0xc2, 0xdf, 0xe0, 0xe1, 0xec, 0xed, 0xee, 0xef, 0xf0, 0xf1, 0xf3, 0xf4, 0xf5, 0xf8, 0xff}
	for _, before := range []int{0, 4, 5, 7} {
		prefix := []byte("1234567")[:before]
		for a := range 256 {
			utf8Agrees(t, append(prefix[:before:before], byte(a)))
			for b := range 256 {
				utf8Agrees(t, append(prefix[:before:before], byte(a), byte(b)))
			}
		}
		for _, a := range interesting {
			for _, b := range interesting {
				for _, c := range interesting {
					utf8Agrees(t, append(prefix[:before:before], a, b, c))
					if a >= 0xf0 {
						for _, d := range interesting {
							utf8Agrees(t, append(prefix[:before:before], a, b, c, d, '}'))
						}
					}
				}
			}
		}
	}
	utf8Agrees(t, []byte("größer als 世界 🚀, und das recht lang: ÄÖÜäöüß"))
}
