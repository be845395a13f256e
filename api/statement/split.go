package statement

import (
	"iter"
	"slices"
	"strings"

	"github.com/alecthomas/participle/v2/lexer"
)

// Piece is one statement of a text that holds several.
type Piece struct {
	Text   string // without the ';' and the white space around it
	Line   int    // where it begins, from 1
	Column int    // and there, in characters, from 1
	Ended  bool   // by a ';': what is not ended may go on in a next line
}

// Split cuts a text into its statements, as Pieces does.
func Split(text string) []Piece { return slices.Collect(Pieces(text)) }

// Pieces are the statements of a text, which is cut at each ';' that stands neither
// in a string, a name in backticks nor a comment. Pieces of nothing but white space
// and comments are left out.
func Pieces(text string) iter.Seq[Piece] {
	return func(yield func(Piece) bool) {
		l, err := tokens.LexString("", text)
		if err != nil { // never: what is no token is Other
			yield(Piece{Text: text, Line: 1, Column: 1})
			return
		}
		split(l, text, yield)
	}
}

func split(l lexer.Lexer, text string, yield func(Piece) bool) {
	var (
		first *lexer.Token
		end   int // of the last token of the piece
	)
	for {
		t, err := l.Next()
		if err != nil { // never, as above
			yield(Piece{Text: text, Line: 1, Column: 1})
			return
		}
		switch {
		case t.EOF() || t.Value == ";":
			more := first == nil || yield(Piece{Text: text[first.Pos.Offset:end], Line: first.Pos.Line, Column: first.Pos.Column, Ended: !t.EOF()})
			if t.EOF() || !more {
				return
			}
			first = nil
		case t.Type == spaceToken || t.Type == commentToken:
		default:
			if first == nil {
				first = &t
			}
			end = t.Pos.Offset + len(t.Value)
		}
	}
}

// OneLine writes a text on one line: comments are left out, and white space between
// tokens is one space. It is not ok where a string, or a name in backticks, goes over
// lines.
func OneLine(text string) (line string, ok bool) {
	l, err := tokens.LexString("", text)
	if err != nil {
		return "", false
	}
	var b strings.Builder
	for space := false; ; {
		t, err := l.Next()
		switch {
		case err != nil || strings.ContainsAny(t.Value, "\r\n") && t.Type != spaceToken && t.Type != commentToken:
			return "", false
		case t.EOF():
			return b.String(), true
		case t.Type == spaceToken || t.Type == commentToken:
			space = b.Len() > 0
			continue
		case space:
			b.WriteByte(' ')
		}
		b.WriteString(t.Value)
		space = false
	}
}

// In moves an error of a piece to where the piece stands in its text.
func (p Piece) In(e *Error) *Error {
	moved := *e
	if e.Line == 1 {
		moved.Column += p.Column - 1
	}
	moved.Line += p.Line - 1
	return &moved
}
