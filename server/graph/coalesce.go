package graph

import (
	"strings"
)

// Of the coalesced form. A text that uses rowVariable itself is never
// coalesced.
const (
	rowVariable   = "__gm"
	rowsParameter = "rows"
)

// maxCoalescedText bounds the texts that are looked at, in bytes: a text this
// long holds data, and data does not repeat.
const maxCoalescedText = 100_000

// coalesced is a query text made ready to be run for many rows in one
// statement:
//
//	UNWIND $rows AS __gm CALL (__gm) { text } FINISH
//
// with each parameter $x of the text written __gm.`x`. The subquery runs once
// for each row, in the order of the rows, and each run sees what the earlier
// ones wrote: the same graph as from the text one by one.
//
// Rows are maps. Lists (__gm[0], __gm[1]) would spare the client the map of each
// statement that carries its values by position; they cost the database the
// same, and maps are what an operator can read in its query log.
type coalesced struct {
	query  string
	params []string // the names that each row has to hold, in order of their first use

	// mentions holds every name that stands in the text: labels, types,
	// properties, variables, keywords.
	mentions map[string]bool
	dynamic  bool // a label or type is worked out: $(expression)
}

// coalesce rewrites a query text. Where it must not be, it gives the reason.
//
// It looks at tokens only: that the text means something to the database at
// all, alone and within the subquery, is for EXPLAIN to say.
func coalesce(text string) (c coalesced, why string) {
	if len(text) > maxCoalescedText {
		return c, "the text is too long to be worth it"
	}
	tokens, why := lex(text)
	if why != "" {
		return c, why
	}
	options, tokens := cutOptions(trimEnd(tokens))
	if why := refusal(tokens); why != "" {
		return c, why
	}
	c.mentions = map[string]bool{}
	var out strings.Builder
	out.Grow(len(text) + 128)
	out.WriteString(options)
	out.WriteString("UNWIND $" + rowsParameter + " AS " + rowVariable + " CALL (" + rowVariable + ") { ")
	imports := scopedCalls(tokens)
	seen := map[string]bool{}
	for i, t := range tokens {
		switch {
		case t.kind == tokenParam:
			if !seen[t.name] {
				seen[t.name] = true
				c.params = append(c.params, t.name)
			}
			out.WriteString(rowVariable + ".`" + strings.ReplaceAll(t.name, "`", "``") + "`")
			if i+1 < len(tokens) && tokens[i+1].kind == tokenQuoted {
				out.WriteByte(' ') // or the two names would become one
			}
			continue
		case t.kind == tokenWord || t.kind == tokenQuoted:
			c.mentions[t.name] = true
		case t.mark('$'):
			c.dynamic = true
		}
		out.WriteString(imports[i])
		out.WriteString(t.text)
	}
	out.WriteString("\n} FINISH") // the line's end closes a comment at the text's end
	c.query = out.String()
	return c, ""
}

// trimEnd drops white space, comments and one semicolon from the end.
func trimEnd(tokens []token) []token {
	trimmed := tokens
	for semicolon := false; len(trimmed) > 0; trimmed = trimmed[:len(trimmed)-1] {
		last := trimmed[len(trimmed)-1]
		if last.mark(';') && !semicolon {
			semicolon = true
			continue
		}
		if last.kind == tokenSpace {
			continue
		}
		if semicolon {
			return trimmed
		}
		break
	}
	return tokens // nothing is cut that need not be: comments stay
}

// cutOptions splits off "CYPHER 25 runtime=slotted" and the like, which may
// stand at the front of a statement only. What is returned of it ends with a
// space or is empty.
func cutOptions(tokens []token) (options string, rest []token) {
	rest = trimStart(tokens)
	var b strings.Builder
	for len(rest) > 0 && rest[0].word("CYPHER") {
		b.WriteString("CYPHER ")
		rest = trimStart(rest[1:])
		if number(rest) { // 5, 25, 4.4
			b.WriteString(rest[0].text)
			rest = rest[1:]
			if len(rest) > 0 && rest[0].mark('.') && number(rest[1:]) {
				b.WriteString("." + rest[1].text)
				rest = rest[2:]
			}
			b.WriteByte(' ')
			rest = trimStart(rest)
		}
		for {
			key, value, after, ok := option(rest)
			if !ok {
				break
			}
			b.WriteString(key + "=" + value + " ")
			rest = after
		}
	}
	if b.Len() == 0 {
		return "", tokens
	}
	return b.String(), rest
}

// number reports whether the first token begins like a number.
func number(tokens []token) bool {
	return len(tokens) > 0 && tokens[0].kind == tokenWord && tokens[0].text[0] >= '0' && tokens[0].text[0] <= '9'
}

// option reads key = value.
func option(tokens []token) (key, value string, rest []token, ok bool) {
	if len(tokens) == 0 || tokens[0].kind != tokenWord {
		return "", "", nil, false
	}
	rest = trimStart(tokens[1:])
	if len(rest) == 0 || !rest[0].mark('=') {
		return "", "", nil, false
	}
	rest = trimStart(rest[1:])
	if len(rest) == 0 || rest[0].kind != tokenWord {
		return "", "", nil, false
	}
	return tokens[0].text, rest[0].text, trimStart(rest[1:]), true
}

func trimStart(tokens []token) []token {
	for len(tokens) > 0 && tokens[0].kind == tokenSpace {
		tokens = tokens[1:]
	}
	return tokens
}

// refusal gives the reason why a text must not stand within a subquery.
func refusal(tokens []token) string {
	first := trimStart(tokens)
	switch {
	case len(first) == 0:
		return "the text is empty"
	case first[0].word("EXPLAIN") || first[0].word("PROFILE"):
		return "the text begins with " + strings.ToUpper(first[0].text)
	}
	var open []byte // the closing brackets that are awaited
	for _, t := range tokens {
		if t.name == rowVariable {
			return "the text uses the name " + rowVariable
		}
		if t.kind != tokenMark {
			continue
		}
		switch c := t.text[0]; c {
		case '(':
			open = append(open, ')')
		case '[':
			open = append(open, ']')
		case '{':
			open = append(open, '}')
		case ')', ']', '}':
			if len(open) == 0 || open[len(open)-1] != c {
				return "the brackets are not balanced"
			}
			open = open[:len(open)-1]
		case ';':
			return "the text holds several statements"
		}
	}
	if len(open) > 0 {
		return "the brackets are not balanced"
	}
	if groupsByAll(tokens) {
		return "WITH *, groups by everything in scope, and the row would be in scope too"
	}
	return ""
}

// groupsByAll looks for WITH *, and more: where one of the items that follow
// aggregates, the star stands for the grouping keys. The variable of the row is
// then one of them. That changes nothing as long as there is another key; where
// there is none, MATCH (:Nothing {k: $k}) WITH *, count(*) AS c makes one row of
// no rows, and by a key it makes none. EXPLAIN accepts both.
func groupsByAll(tokens []token) bool {
	for i, t := range tokens {
		if !t.word("WITH") {
			continue
		}
		next := skipSpace(tokens, i+1)
		if next < len(tokens) && tokens[next].word("DISTINCT") {
			next = skipSpace(tokens, next+1)
		}
		if next == len(tokens) || !tokens[next].mark('*') {
			continue
		}
		if next = skipSpace(tokens, next+1); next < len(tokens) && tokens[next].mark(',') {
			return true
		}
	}
	return false
}

// scopedCalls finds the text's own subqueries with a list of variables, CALL
// (a, b) {, and returns what has to be written before the token of each list's
// end so that the row is handed on. CALL (*) { hands on everything as it is.
// The forms without a list, CALL { and CALL { WITH a, hand on nothing more;
// where such a subquery uses a parameter, EXPLAIN refuses the form.
func scopedCalls(tokens []token) map[int]string {
	var imports map[int]string
	for i, t := range tokens {
		if !t.word("CALL") {
			continue
		}
		list := skipSpace(tokens, i+1)
		if list == len(tokens) || !tokens[list].mark('(') {
			continue
		}
		empty, all := true, false
		end := list + 1
		for ; end < len(tokens) && !tokens[end].mark(')'); end++ {
			empty = empty && tokens[end].kind == tokenSpace
			all = all || tokens[end].mark('*')
		}
		body := skipSpace(tokens, end+1)
		if all || body >= len(tokens) || !tokens[body].mark('{') {
			continue
		}
		if imports == nil {
			imports = map[int]string{}
		}
		if imports[end] = ", " + rowVariable; empty {
			imports[end] = rowVariable
		}
	}
	return imports
}

// skipSpace returns the index of the first token from i on that is no space, or
// the number of tokens where there is none.
func skipSpace(tokens []token, i int) int {
	for i < len(tokens) && tokens[i].kind == tokenSpace {
		i++
	}
	return min(i, len(tokens))
}
