package statement

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/alecthomas/participle/v2"
	"github.com/alecthomas/participle/v2/lexer"

	"github.com/graphmill/graphmill"
)

// Bounds of a text. The nesting is bounded because the parser, like whoever walks
// over a value, uses stack for it.
const (
	MaxBytes   = 1 << 20 // of one statement
	maxTokens  = 10_000  // of one statement; white space and comments count
	maxNesting = 32      // of lists and maps
)

// Parse reads one statement; a ';' may end it. Params are the values of its
// parameters by name: nil, bool, int64, float64, string, []any and
// map[string]any. All errors are of type *Error.
func Parse(text string, params map[string]any) (Statement, error) {
	return parse(text, params, true)
}

// ParseBriefly is Parse where many texts may be wrong: its errors do not tell what
// could stand in place of what is wrong. To find that out takes some fifty times as
// long as all the rest.
func ParseBriefly(text string, params map[string]any) (Statement, error) {
	return parse(text, params, false)
}

func parse(text string, params map[string]any, probe bool) (Statement, error) {
	switch {
	case len(text) > MaxBytes:
		return nil, whole("the statement has %d bytes, %d are the most", len(text), MaxBytes)
	case !utf8.ValidString(text):
		return nil, whole("the statement is not text in UTF-8")
	}
	all, err := lex(text)
	if err != nil {
		return nil, err
	}
	if err := nesting(all); err != nil {
		return nil, err
	}
	if err := refused(all); err != nil {
		return nil, err
	}
	tree, err := parser().ParseString("", text)
	if err != nil {
		return nil, explain(text, all, err, probe)
	}
	r := resolver{tokens: all, params: params}
	s, err := r.statement(tree.Verb)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func nesting(all []lexer.Token) error {
	depth := 0
	for _, t := range all {
		switch t.Value {
		case "[", "{":
			if depth++; depth > maxNesting {
				return at(t, CodeSyntax, "lists and maps are nested deeper than %d", maxNesting)
			}
		case "]", "}":
			depth--
		}
	}
	return nil
}

// refused tells what is no statement although people write it with good reason.
func refused(all []lexer.Token) error {
	first := strings.ToUpper(all[0].Value)
	switch {
	case first == "EXPLAIN" || first == "PROFILE":
		return at(all[0], CodeSyntax, "%s goes before the queries of a database; a stream statement has no plan", first)
	case first == "CREATE" && strings.EqualFold(all[1].Value, "STREAM"):
		e := at(all[1], CodeSyntax, "found %s, expected KAFKA or PULSAR", found(all[1], false))
		e.Next = "write CREATE KAFKA STREAM; the form without KAFKA ended with Memgraph 2.1"
		return e
	}
	return nil
}

// maxProbed and maxProbedBytes are how much may stand before an error of which it is
// found out what could stand in its place: the parser reads that again some fifty
// times.
const (
	maxProbed      = 500     // tokens
	maxProbedBytes = 8 << 10 // with white space and comments
)

// explain turns an error of the parser into ours: what was found and, where that is
// to be probed, what may stand there and what was meant.
func explain(text string, all []lexer.Token, err error, probe bool) error {
	var p participle.Error
	if !errors.As(err, &p) {
		return whole("%v", err)
	}
	k := slices.IndexFunc(all, func(t lexer.Token) bool { return t.Pos.Offset >= p.Position().Offset })
	if k < 0 {
		k = len(all) - 1
	}
	t := all[k]
	if k == 0 && (t.EOF() || t.Value == ";") {
		return at(t, CodeSyntax, "there is no statement")
	}
	maps := 0
	for _, before := range all[:k] {
		switch before.Value {
		case "{":
			maps++
		case "}":
			maps--
		}
	}
	if !probe || k > maxProbed || t.Pos.Offset > maxProbedBytes {
		return at(t, CodeSyntax, "found %s, which does not fit there", found(t, maps > 0 || forMap(all, k)))
	}
	want := expected(all[:k], text[:t.Pos.Offset], maps > 0)
	if t.Value == "," && slices.Contains(want.things, aComma) {
		k++ // it is what follows the comma that does not fit
		t = all[k]
		want = expected(all[:k], text[:t.Pos.Offset], maps > 0)
	}
	e := at(t, CodeSyntax, "found %s, expected %s", found(t, maps > 0 || forMap(all, k)), want)
	e.Next = want.advice(all[:k], t, maps > 0)
	return e
}

// forMap says whether token k stands where a map should be.
func forMap(all []lexer.Token, k int) bool {
	return k > 0 && kindOf(all[k-1].Value) == kindMap
}

// resolver turns what was written into a Statement.
type resolver struct {
	tokens []lexer.Token
	params map[string]any
	inMap  int // how deep within maps: what stands there may be secret
}

func (r *resolver) syntax(pos lexer.Position, format string, args ...any) *Error {
	return r.at(pos, CodeSyntax, format, args...)
}

func (r *resolver) semantic(pos lexer.Position, format string, args ...any) *Error {
	return r.at(pos, CodeSemantic, format, args...)
}

func (r *resolver) at(pos lexer.Position, code, format string, args ...any) *Error {
	for _, t := range r.tokens {
		if t.Pos.Offset >= pos.Offset {
			return at(t, code, format, args...)
		}
	}
	return at(lexer.Token{Pos: pos}, code, format, args...)
}

func (r *resolver) statement(v verb) (Statement, error) {
	switch v := v.(type) {
	case *create:
		return r.create(v)
	case *alter:
		return r.alter(v)
	case *start:
		if v.All {
			return &StartAll{}, nil
		}
		return r.start(v)
	case *stop:
		if v.All {
			return &StopAll{}, nil
		}
		n, err := r.name(v.Name)
		return &Stop{n}, err
	case *drop:
		n, err := r.name(v.Name)
		return &Drop{n}, err
	case *show:
		if v.Streams {
			return &Show{}, nil
		}
		n, err := r.name(v.Create)
		return &ShowCreate{n}, err
	case *check:
		return r.check(v)
	case *call:
		return r.call(v)
	}
	return nil, fmt.Errorf("a statement of type %T is not known", v)
}

func (r *resolver) start(v *start) (Statement, error) {
	n, err := r.name(v.Name)
	if err != nil {
		return nil, err
	}
	if v.Limit == nil && v.Timeout != nil {
		return nil, r.semantic(v.Timeout.Pos, "Parameter TIMEOUT can only be defined if BATCH_LIMIT is defined")
	}
	limits, err := r.limits(v.Limit, v.Timeout)
	return &Start{n, limits}, err
}

func (r *resolver) check(v *check) (Statement, error) {
	n, err := r.name(v.Name)
	if err != nil {
		return nil, err
	}
	limits, err := r.limits(v.Limit, v.Timeout)
	if err != nil {
		return nil, err
	}
	from, err := r.from(v.From)
	return &Check{Name: n, Limits: limits, From: from}, err
}

// from returns where reading begins; empty where the statement does not say it.
func (r *resolver) from(w *word) (string, error) {
	if w == nil {
		return "", nil
	}
	from, err := r.name(w)
	if err != nil {
		return "", err
	}
	if from = foldStart(from); from == fromCommitted {
		return from, nil
	}
	if _, err := graphmill.ParseStart("FROM", from); err != nil {
		e := r.semantic(w.Pos, "FROM is committed, earliest, latest or a time such as '2026-01-31T12:00:00Z'")
		if told, ok := errors.AsType[*graphmill.Error](err); ok {
			e.Next = told.Next
		}
		return "", e
	}
	return from, nil
}

func (r *resolver) limits(limit, timeout *literal) (l Limits, err error) {
	for _, given := range []struct {
		literal       *literal
		to            **int64
		keyword, kind string
	}{
		{limit, &l.BatchLimit, "BATCH_LIMIT", "Batch limit should be an integer literal!"},
		{timeout, &l.TimeoutMS, "TIMEOUT", "Timeout should be an integer literal!"},
	} {
		if given.literal == nil {
			continue
		}
		n, err := r.integer(given.literal, given.kind)
		if err != nil {
			return l, err
		}
		if n < 0 { // of a parameter
			return l, r.semantic(given.literal.Pos, "Parameter %s cannot hold negative value", given.keyword)
		}
		*given.to = &n
	}
	return l, nil
}

func (r *resolver) call(v *call) (Statement, error) {
	var parts []string
	for _, p := range v.Procedure {
		parts = append(parts, name(p))
	}
	c := &Call{Procedure: strings.Join(parts, ".")}
	for _, a := range v.Arguments {
		x, err := r.value(a, true)
		if err != nil {
			return nil, err
		}
		c.Arguments = append(c.Arguments, x)
	}
	for _, y := range v.Yield {
		item := Yield{Name: name(y.Name), As: name(y.Name)}
		if y.As != "" {
			item.As = name(y.As)
		}
		if slices.ContainsFunc(c.Yield, func(other Yield) bool { return other.As == item.As }) {
			return nil, r.semantic(y.Pos, "%s is there twice: columns have names of their own", clip(item.As))
		}
		c.Yield = append(c.Yield, item)
	}
	return c, nil
}
