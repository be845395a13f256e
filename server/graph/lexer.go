package graph

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// tokenKind is what a piece of a query text is, as far as coalescing needs to
// know.
type tokenKind uint8

const (
	tokenSpace  tokenKind = iota // white space and comments
	tokenString                  // '...' or "..."
	tokenWord                    // a keyword, name or number
	tokenQuoted                  // a name in backticks
	tokenParam                   // $name, $`name`, $0
	tokenMark                    // one character of anything else
)

// token is a piece of a query text. The tokens of a text are all of it, in
// order, without gaps.
type token struct {
	kind tokenKind
	text string // as it stands
	name string // of a word, a quoted name or a parameter: the bare name
}

// maxTokens bounds the memory that a look at a text takes, of 40 bytes a token: a
// text may be as long as what a transformation returns. Databases take minutes
// and gigabytes for texts like that.
const maxTokens = 500_000

// mark reports whether t is the one character c.
func (t token) mark(c byte) bool { return t.kind == tokenMark && t.text[0] == c }

// word reports whether t is the keyword w, in any case.
func (t token) word(w string) bool { return t.kind == tokenWord && strings.EqualFold(t.text, w) }

// lex cuts a query text into tokens. Instead of an error it gives the reason
// why it cannot be sure how a database reads the text: servers and versions
// differ at the edges (which characters may stand in a name, what ends a
// comment), and a guess there could change what the text does.
func lex(text string) (tokens []token, why string) {
	if hasUnicodeEscape(text) {
		return nil, `a \u escape may stand for a quote or a bracket`
	}
	return lexAsItStands(text)
}

// lexAsItStands is lex without a thought for \u escapes.
func lexAsItStands(text string) (tokens []token, why string) {
	if !utf8.ValidString(text) {
		return nil, "the text is not valid UTF-8"
	}
	l := lexer{text: text}
	for l.at < len(text) && l.why == "" {
		if len(l.tokens) == maxTokens {
			return nil, fmt.Sprintf("it has more than %d words and signs; data belongs into parameters", maxTokens)
		}
		l.next()
	}
	if l.why != "" {
		return nil, l.why
	}
	return l.tokens, ""
}

// hasUnicodeEscape looks for \uXXXX anywhere. Neo4j replaces these before it
// looks for tokens, in comments and names too.
func hasUnicodeEscape(text string) bool {
	for i := strings.Index(text, `\u`); i >= 0; {
		if _, size := unicodeEscape(text[i:]); size > 0 {
			return true
		}
		next := strings.Index(text[i+2:], `\u`)
		if next < 0 {
			return false
		}
		i += 2 + next
	}
	return false
}

// unicodeEscape reads \uXXXX at the front of s, with any number of u's. size is
// 0 where there is none.
func unicodeEscape(s string) (r rune, size int) {
	digits := strings.TrimLeft(s[1:], "u")
	size = len(s) - len(digits) + 4
	if len(digits) < 4 || s[1] != 'u' {
		return 0, 0
	}
	n, err := strconv.ParseUint(digits[:4], 16, 16)
	if err != nil {
		return 0, 0
	}
	return rune(n), size
}

type lexer struct {
	text   string
	at     int // the next byte to look at
	tokens []token
	why    string
}

// next reads one token, or sets why.
func (l *lexer) next() {
	start := l.at
	switch c := l.text[l.at]; {
	case c == '\'' || c == '"':
		l.quoted(c)
		l.emit(tokenString, start, "")
	case c == '`':
		name := l.backticks()
		l.emit(tokenQuoted, start, name)
	case c == '$':
		l.dollar()
	case l.skipSpace():
		l.emit(tokenSpace, start, "")
	case isNamePart(l.rune()):
		name := l.name()
		if strings.HasPrefix(l.text[l.at:], "$") {
			l.why = "a $ stands inside of a name" // Neo4j 5 takes a$b as one name
		}
		l.emit(tokenWord, start, name)
	case c < ' ' || c == 0x7f:
		l.why = "a control character stands in the text"
	default:
		l.at++ // not a letter, so ASCII
		l.emit(tokenMark, start, "")
	}
}

func (l *lexer) emit(kind tokenKind, start int, name string) {
	l.tokens = append(l.tokens, token{kind, l.text[start:l.at], name})
}

func (l *lexer) rune() rune {
	r, _ := utf8.DecodeRuneInString(l.text[l.at:])
	return r
}

// isSpace is the white space that every database agrees on. What only some take
// as such counts as part of a name, where it can do no harm: a name that is too
// long is a parameter that no row has.
func isSpace(r rune) bool {
	switch {
	case r < utf8.RuneSelf:
		return r == ' ' || r >= '\t' && r <= '\r' || r >= 0x1c && r <= 0x1f
	case r == 0x85:
		return false // a letter to Neo4j 5
	}
	return unicode.In(r, unicode.Zs, unicode.Zl, unicode.Zp)
}

// isNamePart takes digits too: numbers need no telling apart.
func isNamePart(r rune) bool {
	if r < utf8.RuneSelf {
		return r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
	}
	return !isSpace(r)
}

// name reads the longest name that begins here. It may be empty.
func (l *lexer) name() string {
	start := l.at
	for l.at < len(l.text) {
		r, size := utf8.DecodeRuneInString(l.text[l.at:])
		if !isNamePart(r) {
			break
		}
		l.at += size
	}
	return l.text[start:l.at]
}

// quoted reads a string literal, of which the first quote is still there.
func (l *lexer) quoted(quote byte) {
	for l.at++; l.at < len(l.text); l.at++ {
		switch l.text[l.at] {
		case quote:
			l.at++
			return
		case '\\':
			l.at++ // whatever it is, it ends nothing
		}
	}
	l.at = len(l.text)
	l.why = "a string has no end"
}

// backticks reads a name in backticks, in which two of them mean one.
func (l *lexer) backticks() string {
	var name strings.Builder
	for l.at++; l.at < len(l.text); l.at++ {
		if l.text[l.at] == '`' {
			l.at++
			if l.at == len(l.text) || l.text[l.at] != '`' {
				return name.String()
			}
		}
		name.WriteByte(l.text[l.at])
	}
	l.why = "a name in backticks has no end"
	return ""
}

// skipSpace passes over white space and comments and reports whether there
// were any.
func (l *lexer) skipSpace() bool {
	start := l.at
	for l.at < len(l.text) && l.why == "" {
		rest := l.text[l.at:]
		r, size := utf8.DecodeRuneInString(rest)
		switch {
		case isSpace(r):
			l.at += size
		case strings.HasPrefix(rest, "//"):
			l.lineComment(rest)
		case strings.HasPrefix(rest, "/*"):
			end := strings.Index(rest[2:], "*/")
			if end < 0 {
				l.why = "a comment has no end"
				return true
			}
			l.at += 2 + end + 2
		default:
			return l.at > start
		}
	}
	return l.at > start
}

// lineComment leaves the line's end. Whether a carriage return alone is one
// depends on the database.
func (l *lexer) lineComment(rest string) {
	line, _, _ := strings.Cut(rest, "\n")
	if strings.Contains(strings.TrimSuffix(line, "\r"), "\r") {
		l.why = "a carriage return stands in a comment"
	}
	l.at += len(line)
}

// dollar reads what a $ begins: a parameter, or a label or type that is worked
// out, as in n:$(expression), n:$all(list), n:$any(list). White space and
// comments may stand behind the $.
func (l *lexer) dollar() {
	start := l.at
	l.at++
	l.skipSpace()
	var name string
	switch {
	case l.why != "":
		return
	case l.at == len(l.text):
		l.why = "a $ has no name"
		return
	case l.text[l.at] == '`':
		name = l.backticks()
	case l.text[l.at] == '(':
		l.at = start + 1
		l.emit(tokenMark, start, "")
		return
	default:
		name = l.name()
		if l.dynamicLabel(name) {
			l.at = start + 1
			l.emit(tokenMark, start, "")
			return
		}
	}
	switch {
	case name == "" && l.why == "":
		l.why = "a $ has no name"
	case strings.HasPrefix(l.text[l.at:], "$"):
		l.why = "a $ stands inside of a name"
	}
	l.emit(tokenParam, start, name)
}

// dynamicLabel reports whether a name behind a $ is the "all" or "any" of a
// label expression. A parameter is never followed by a parenthesis.
func (l *lexer) dynamicLabel(name string) bool {
	if !strings.EqualFold(name, "all") && !strings.EqualFold(name, "any") {
		return false
	}
	ahead := lexer{text: l.text, at: l.at}
	ahead.skipSpace()
	return strings.HasPrefix(l.text[ahead.at:], "(")
}
