package statement

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/alecthomas/participle/v2/lexer"
)

// The codes of errors.
const (
	CodeSyntax          = "syntax_error"      // the text is no statement
	CodeSemantic        = "semantic_error"    // a statement, but not one that can be executed
	CodeNotAvailableYet = "not_available_yet" // right, and beyond what this version does
)

// Error says what is wrong with a text, and where. Texts of semantic errors begin
// with the words that Memgraph has for them. No string of the text, and nothing
// that stands in a map, is repeated in an error: it may be secret.
type Error struct {
	Code   string
	Line   int    // from 1
	Column int    // from 1, in characters
	Length int    // of what is wrong, in characters, on its line; at least 1
	Text   string // what is wrong
	Next   string // what to do about it; may be empty
}

// Error returns text and place.
func (e *Error) Error() string {
	return fmt.Sprintf("%s (line %d, column %d)", e.Text, e.Line, e.Column)
}

// whole makes an error about a text as a whole.
func whole(format string, args ...any) *Error {
	return &Error{Code: CodeSyntax, Line: 1, Column: 1, Length: 1, Text: fmt.Sprintf(format, args...)}
}

// at makes an error about a token.
func at(t lexer.Token, code, format string, args ...any) *Error {
	first, _, _ := strings.Cut(t.Value, "\n")
	return &Error{Code: code, Line: t.Pos.Line, Column: t.Pos.Column, Length: max(1, utf8.RuneCountInString(first)), Text: fmt.Sprintf(format, args...)}
}

// found says what a token is, without what may be secret: in a map, or where one
// should be.
func found(t lexer.Token, inMap bool) string {
	switch {
	case t.EOF():
		return "the end"
	case t.Type == stringToken:
		return "a string"
	case t.Type == unendedToken:
		return map[byte]string{'\'': "a string", '"': "a string", '`': "a name in backticks", '/': "a comment"}[t.Value[0]] + " without its end"
	case inMap && t.Type == wordToken:
		return "a word"
	case inMap && len(t.Value) > 1:
		return "a value"
	}
	return clip(t.Value)
}

func clip(s string) string { return fmt.Sprintf("%q", cut(s)) }

// cut shortens what an error repeats of a text.
func cut(s string) string {
	const most = 40 // characters
	if utf8.RuneCountInString(s) > most {
		s = string([]rune(s)[:most]) + "..."
	}
	return s
}
