package statement

import (
	"slices"
	"strings"
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
	pieces := Split(text)
	if len(pieces) == 0 || pieces[len(pieces)-1].Ended {
		text = ""
	} else {
		text = text[strings.LastIndex(text, pieces[len(pieces)-1].Text):]
	}
	all, err := lex(text)
	if err != nil || nesting(all) != nil || len(all) > maxProbed || len(text) > maxProbedBytes {
		return Completion{}
	}
	all = all[:len(all)-1] // without the end
	var c Completion
	// A word that reaches the end is being written, together with the parts of its
	// name before it.
	begins := len(all)
	if begins > 0 {
		last := all[begins-1]
		if last.Type != wordToken && !strings.ContainsAny(last.Value, ".-") && last.Pos.Offset+len(last.Value) == len(text) || last.Type == unendedToken {
			return Completion{} // right behind a string, a number, a bracket
		}
	}
	end := len(text)
	for begins > 0 {
		t := all[begins-1]
		part := t.Type == wordToken || t.Value == "." || t.Value == "-"
		if !part || t.Pos.Offset+len(t.Value) != end {
			break
		}
		begins, end = begins-1, t.Pos.Offset
	}
	c.Begun = text[end:]
	before := all[:begins]
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
