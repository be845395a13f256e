package statement

import (
	"slices"
	"strings"

	"github.com/alecthomas/participle/v2/lexer"
)

// Names is a kind of names that only the server knows.
type Names int

// The kinds of names.
const (
	NoNames             Names = iota
	StreamNames               // of the streams that there are
	TransformationNames       // MODULE.FUNCTION
	ProcedureNames            // of the procedures that can be called
)

// Completion is what may stand at the end of an unfinished statement.
type Completion struct {
	Begun    string   // the beginning of the word, as it is written; may be empty
	Keywords []string // that may stand there, whether they begin so or not
	Names    Names    // and names of this kind
}

// Complete tells how a statement may go on behind a text.
func Complete(text string) Completion {
	if len(text) > MaxBytes {
		return Completion{}
	}
	text = lastStatement(text)
	all, err := lex(text)
	if err != nil || nesting(all) != nil || len(all) > maxProbed || len(text) > maxProbedBytes {
		return Completion{}
	}
	before, end, ok := untilBegun(all[:len(all)-1], len(text))
	if !ok {
		return Completion{}
	}
	c := Completion{Begun: text[end:]}
	want := expected(before, text[:end], false)
	c.Keywords = slices.Concat(want.keywords, want.options)
	if !slices.Contains(want.things, aName) || len(before) == 0 {
		return c
	}
	switch last := strings.ToUpper(before[len(before)-1].Value); {
	case last == "STREAM" && !strings.EqualFold(before[0].Value, "CREATE"):
		c.Names = StreamNames
	case last == "TRANSFORM":
		c.Names = TransformationNames
	case last == "CALL":
		c.Names = ProcedureNames
	}
	return c
}

// untilBegun returns the tokens before the word that is being written at the end of
// a text of the given length, together with the parts of its name, and where that
// begins. It is not ok right behind a string, a number or a bracket.
func untilBegun(all []lexer.Token, length int) (before []lexer.Token, end int, ok bool) {
	isPart := func(t lexer.Token) bool { return t.Type == wordToken || t.Value == "." || t.Value == "-" }
	end = length
	for n := len(all) - 1; n >= 0; n-- {
		t := all[n]
		if t.Type == unendedToken {
			return nil, 0, false
		}
		if touches := t.Pos.Offset+len(t.Value) == end; !touches || !isPart(t) {
			return all[:n+1], end, !touches || end < length
		}
		end = t.Pos.Offset
	}
	return nil, end, true
}

// lastStatement returns what stands behind the last ';' that ends a statement.
func lastStatement(text string) string {
	all, err := lex(text)
	if err != nil {
		return text
	}
	for _, t := range slices.Backward(all) {
		if t.Value == ";" {
			return text[t.Pos.Offset+1:]
		}
	}
	return text
}
