package statement

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/alecthomas/participle/v2/lexer"
)

const wordPattern = `[\p{L}_][\p{L}\p{N}_]*`

// The tokens of a statement. What cannot be a token of its own falls to Other, so
// that everything can be cut into tokens and each error is one of the parser. A
// word that begins with a digit is one token, Digits, whether it is a number or
// not: whoever writes 2nd-topic is told to quote it.
var tokens = lexer.MustSimple([]lexer.SimpleRule{
	{Name: "Comment", Pattern: `//[^\n]*|/\*(?s:.*?)\*/`},
	{Name: "Space", Pattern: `[\s\p{Z}]+`},
	{Name: "String", Pattern: `'(?s:[^'\\]|\\.)*'|"(?s:[^"\\]|\\.)*"`},
	{Name: "Quoted", Pattern: "`(?:[^`]|``)*`"},
	{Name: "Parameter", Pattern: "\\$(?:[\\p{L}\\p{N}_]+|`(?:[^`]|``)*`)"},
	{Name: "Float", Pattern: `[0-9]+\.[0-9]+(?:[eE][-+]?[0-9]+)?|\.[0-9]+(?:[eE][-+]?[0-9]+)?|[0-9]+[eE][-+]?[0-9]+`},
	{Name: "Digits", Pattern: `[0-9][\p{L}\p{N}_]*`},
	{Name: "Word", Pattern: wordPattern},
	{Name: "Unended", Pattern: "(?s:['\"`].*|/\\*.*)"},
	{Name: "Other", Pattern: `(?s:.)`},
})

var (
	commentToken   = tokens.Symbols()["Comment"]
	spaceToken     = tokens.Symbols()["Space"]
	stringToken    = tokens.Symbols()["String"]
	parameterToken = tokens.Symbols()["Parameter"]
	floatToken     = tokens.Symbols()["Float"]
	digitsToken    = tokens.Symbols()["Digits"]
	wordToken      = tokens.Symbols()["Word"]
	unendedToken   = tokens.Symbols()["Unended"]
	otherToken     = tokens.Symbols()["Other"]
)

// lex cuts a text into its tokens, without comments and white space. The last one
// is the end of the text. The error is of type *Error.
func lex(text string) ([]lexer.Token, error) {
	l, err := tokens.LexString("", text)
	if err != nil {
		return nil, whole("%v", err)
	}
	var all []lexer.Token
	for n := 0; ; n++ {
		t, err := l.Next()
		switch {
		case err != nil:
			return nil, whole("%v", err)
		case n >= maxTokens:
			return nil, at(t, CodeSyntax, "the statement has more than %d words and signs", maxTokens)
		case t.Type != commentToken && t.Type != spaceToken:
			all = append(all, t)
		}
		if t.EOF() {
			return all, nil
		}
	}
}

// name returns what a Word or a Quoted token names.
func name(token string) string {
	if !strings.HasPrefix(token, "`") {
		return token
	}
	return strings.ReplaceAll(token[1:len(token)-1], "``", "`")
}

var escapes = map[byte]byte{'\\': '\\', '\'': '\'', '"': '"', '`': '`', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

var errEscape = errors.New("a backslash in a string begins an escape, one of \\\\ \\' \\\" \\` \\b \\f \\n \\r \\t \\u \\U; a backslash itself is written \\\\")

// unquote returns the content of a String token: Cypher's escapes are a backslash
// and one of \ ' " ` b f n r t, uXXXX or UXXXXXXXX. Errors repeat nothing of it: it
// may be a password.
func unquote(token string) (string, error) {
	inside := token[1 : len(token)-1]
	if !strings.Contains(inside, `\`) {
		return inside, nil
	}
	var b strings.Builder
	for len(inside) > 0 {
		before, after, escaped := strings.Cut(inside, `\`)
		b.WriteString(before)
		if !escaped {
			break
		}
		if c, ok := escapes[after[0]]; ok {
			b.WriteByte(c)
			inside = after[1:]
			continue
		}
		digits := map[byte]int{'u': 4, 'U': 8}[after[0]]
		if digits == 0 {
			return "", errEscape
		}
		if len(after) <= digits {
			return "", fmt.Errorf(`\%c needs %d hexadecimal digits`, after[0], digits)
		}
		r, err := strconv.ParseUint(after[1:1+digits], 16, 32)
		if err != nil {
			return "", fmt.Errorf(`\%c needs %d hexadecimal digits`, after[0], digits)
		}
		inside = after[1+digits:]
		if low, ok := surrogate(r, inside); ok {
			r, inside = 0x10000+(r-0xD800)<<10+(low-0xDC00), inside[6:]
		}
		if r > utf8.MaxRune || !utf8.ValidRune(rune(r)) {
			return "", fmt.Errorf(`the digits behind a \%c of the string stand for no character`, after[0])
		}
		b.WriteRune(rune(r))
	}
	return b.String(), nil
}

// surrogate reads the second half of a character that is written as two \u.
func surrogate(high uint64, after string) (low uint64, ok bool) {
	if high < 0xD800 || high > 0xDBFF || len(after) < 6 || after[:2] != `\u` {
		return 0, false
	}
	low, err := strconv.ParseUint(after[2:6], 16, 32)
	return low, err == nil && low >= 0xDC00 && low <= 0xDFFF
}
