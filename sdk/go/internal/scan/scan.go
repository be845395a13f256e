// Package scan reads the parts of a JSON document: what package json and
// graphmill's Statement.JSON are made of.
//
// A function reads one part of a document d from position i on, checks it, and
// returns where it ends. In WebAssembly made by Go a call costs some ten nanoseconds
// and a jump that is taken some five, so bytes are looked at eight at a time, and
// what is usual comes first.
package scan

import (
	"strconv"
	"unsafe"
)

// SyntaxError says why and where a document is no JSON.
type SyntaxError struct {
	Offset int // in bytes, from 0
	Text   string
}

// Error returns text and place.
func (e *SyntaxError) Error() string {
	return "not JSON: " + e.Text + " at byte " + strconv.Itoa(e.Offset)
}

// View returns a string that shares the memory of b.
func View(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// Fail makes an error about byte i.
//
//go:noinline
func Fail(i int, text string) *SyntaxError { return &SyntaxError{Offset: i, Text: text} }
