package statement

import (
	"errors"
	"strconv"
	"strings"

	"github.com/alecthomas/participle/v2/lexer"

	"github.com/graphmill/graphmill"
)

const fromCommitted = "committed"

// foldStart takes the words for a start in any case, as keywords are taken.
func foldStart(s string) string {
	for _, w := range []string{graphmill.StartEarliest, graphmill.StartLatest, fromCommitted} {
		if strings.EqualFold(s, w) {
			return w
		}
	}
	return s
}

// name returns what a word names, where exactly one name may stand.
func (r *resolver) name(w *word) (string, error) {
	x, err := r.word(w)
	if err != nil {
		return "", err
	}
	switch x := x.(type) {
	case string:
		return x, nil
	case []any:
		return "", r.semantic(w.Pos, "one name stands there, not a list")
	}
	return "", r.semantic(w.Pos, "a name is a string")
}

// word returns what stands where names may stand: a string, or a list or another
// value that a parameter holds.
func (r *resolver) word(w *word) (any, error) {
	switch {
	case w.String != "":
		return r.string(w.Pos, w.String)
	case w.Parameter != "":
		return r.parameter(w.Pos, w.Parameter)
	}
	var b strings.Builder
	for _, p := range w.Parts {
		b.WriteString(name(p))
	}
	return b.String(), nil
}

// isNull says whether a word is a bare NULL.
func (w *word) isNull() bool { return len(w.Parts) == 1 && strings.EqualFold(w.Parts[0], "NULL") }

// value returns the value of a literal: nil, bool, int64, float64, string, []any
// or map[string]any.
func (r *resolver) value(l *literal, signed bool) (any, error) {
	switch {
	case l.String != "":
		return r.string(l.Pos, l.String)
	case l.Parameter != "":
		return r.parameter(l.Pos, l.Parameter)
	case l.Word != "":
		switch strings.ToUpper(l.Word) {
		case "TRUE":
			return true, nil
		case "FALSE":
			return false, nil
		}
		return nil, nil
	case l.List != nil:
		return r.list(l.List)
	case l.Map != nil:
		return r.mapping(l.Map)
	}
	if l.Minus && !signed {
		return nil, r.syntax(l.Pos, "found '-', expected a number without a sign")
	}
	return r.number(l)
}

// number returns an int64 of decimal, octal (017, 0o17) or hexadecimal digits, or a
// float64.
func (r *resolver) number(l *literal) (any, error) {
	digits := l.Number
	if l.Minus {
		digits = "-" + digits
	}
	told := clip(digits)
	if r.inMap > 0 {
		told = "a value"
	}
	hex := strings.ContainsAny(digits, "xX")
	if strings.ContainsRune(digits, '_') || !hex && strings.ContainsAny(digits, "bB") { // Go's, not Cypher's
		return nil, r.syntax(l.Pos, "%s is no number", told)
	}
	i, err := strconv.ParseInt(digits, 0, 64)
	if err == nil {
		return i, nil
	}
	if errors.Is(err, strconv.ErrRange) {
		return nil, r.semantic(l.Pos, "%s is outside of the integers of 64 bits", told)
	}
	if f, err := strconv.ParseFloat(digits, 64); err == nil && strings.ContainsAny(digits, ".eE") && !hex {
		return f, nil
	}
	return nil, r.syntax(l.Pos, "%s is no number", told)
}

func (r *resolver) string(pos lexer.Position, token string) (string, error) {
	s, err := unquote(token)
	if err != nil {
		return "", r.syntax(pos, "%v", err)
	}
	return s, nil
}

func (r *resolver) parameter(pos lexer.Position, token string) (any, error) {
	n := name(token[1:])
	x, ok := r.params[n]
	if !ok {
		return nil, r.semantic(pos, "Parameter $%s not provided.", cut(n))
	}
	return x, nil
}

func (r *resolver) list(l *listNode) ([]any, error) {
	all := make([]any, 0, len(l.Items))
	for _, item := range l.Items {
		x, err := r.value(item, true)
		if err != nil {
			return nil, err
		}
		all = append(all, x)
	}
	return all, nil
}

func (r *resolver) mapping(m *mapNode) (map[string]any, error) {
	r.inMap++
	defer func() { r.inMap-- }()
	all := make(map[string]any, len(m.Entries))
	for _, e := range m.Entries {
		if e.Key.String == "" {
			return nil, r.semantic(e.Key.Pos, "the keys of a map are strings")
		}
		k, err := r.string(e.Key.Pos, e.Key.String)
		if err != nil {
			return nil, err
		}
		if _, twice := all[k]; twice {
			return nil, r.semantic(e.Key.Pos, "the key is in the map twice")
		}
		if all[k], err = r.value(e.Value, true); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// integer returns the value of a literal that is to be an integer; otherwise is
// the text of the error.
func (r *resolver) integer(l *literal, otherwise string) (int64, error) {
	x, err := r.value(l, false)
	if err != nil {
		return 0, err
	}
	n, ok := x.(int64)
	if !ok {
		return 0, r.semantic(l.Pos, "%s", otherwise)
	}
	return n, nil
}
