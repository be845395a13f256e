// Package json reads JSON without reflection and without building values: what a
// transformation does for a message should cost about a microsecond, and
// encoding/json alone takes many times that in WebAssembly.
//
// [Shape] and [Object] give the fields of an object. [Reader] goes through any
// document token by token.
//
// Both check a document to its last byte, and take what encoding/json takes but
// for two things:
//
//   - text that is not UTF-8, as bytes or as half of a surrogate pair in an
//     escape, is an error. encoding/json replaces it by U+FFFD without a word;
//   - nesting deeper than [MaxDepth] is an error.
//
// An integer is exact or an error, never rounded. Of a field that stands twice in
// an object the last one counts, and names are compared byte by byte, case
// included.
package json

import "github.com/graphmill/graphmill/sdk/go/internal/scan"

// MaxDepth is how deep objects and arrays may be nested.
const MaxDepth = scan.MaxDepth

// Kind is the kind of a token, and of a value by its first token.
type Kind uint8

// The kinds.
const (
	Invalid Kind = iota // no JSON, or no such field
	Null
	False
	True
	Number
	String
	BeginObject
	BeginArray
	Key       // the name of a field
	EndObject //
	EndArray
	End // the document is over
)

// String returns the kind of a value in words, for error texts.
func (k Kind) String() string {
	switch k {
	case Null:
		return "null"
	case False, True:
		return "a boolean"
	case Number:
		return "a number"
	case String:
		return "a string"
	case BeginObject:
		return "an object"
	case BeginArray:
		return "an array"
	case Key:
		return "a field name"
	case EndObject, EndArray, End:
		return "an end"
	}
	return "nothing"
}

// SyntaxError says why and where a document is no JSON.
type SyntaxError = scan.SyntaxError

// ParseInt reads the text of a number as an integer. ok is false where it has a
// fraction or an exponent, or where an int64 does not hold it.
func ParseInt(number []byte) (v int64, ok bool) { return scan.ParseInt(number) }

// ParseFloat reads the text of a number as the nearest float64. ok is false where it
// is too large for one.
func ParseFloat(number []byte) (v float64, ok bool) { return scan.ParseFloat(number) }

// IsInt tells whether the text of a number is that of an integer, of any size: it
// has no fraction and no exponent.
func IsInt(number []byte) bool { return scan.IsInt(number) }
