package statement

import (
	"strings"
	"unicode"

	"github.com/alecthomas/participle/v2/lexer"
	"github.com/mattn/go-runewidth"
)

// maxExcerpt bounds how much of a line Excerpt repeats, in columns of a terminal:
// indented it fits one of 80, so that the caret stands below its place. Of characters
// that take none it repeats no more than twice as many.
const maxExcerpt = 76

// Excerpt returns the line of the text that is wrong, cut where it is long, and
// below it a caret at the place. Both are as a terminal shows them: wide characters
// take two columns, and what a terminal would obey is a question mark. Values that
// may be secret are stars: those of CONFIGS and CREDENTIALS, and of every map but
// SETTINGS, since these keywords are mistyped, too.
func (e *Error) Excerpt(text string) string {
	lines := strings.Split(masked(text), "\n")
	if e.Line < 1 || e.Line > len(lines) {
		return ""
	}
	line := []rune(strings.Map(tame, strings.TrimSuffix(lines[e.Line-1], "\r")))
	at := min(max(e.Column-1, 0), len(line))
	from, to := at, at
	for from > 0 && at-from < maxExcerpt && width(line[from-1:at]) <= maxExcerpt*2/3 {
		from--
	}
	for to < len(line) && to-from < 2*maxExcerpt && width(line[from:to+1]) <= maxExcerpt {
		to++
	}
	var b strings.Builder
	b.WriteString(string(line[from:to]))
	b.WriteByte('\n')
	for i, part := range strings.Split(string(line[from:at]), "\t") {
		if i > 0 { // a tab stays one, so that the caret stands below
			b.WriteByte('\t')
		}
		b.WriteString(strings.Repeat(" ", runewidth.StringWidth(part)))
	}
	wrong := line[at:max(at, min(at+e.Length, to))]
	b.WriteString(strings.Repeat("^", max(1, width(wrong))))
	return b.String()
}

// width is how many columns characters take; a tab counts as one.
func width(chars []rune) int {
	return runewidth.StringWidth(strings.ReplaceAll(string(chars), "\t", " "))
}

func tame(r rune) rune {
	if r != '\t' && unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
		return '?'
	}
	return r
}

// mask copies a text token by token and puts stars in place of what may be secret.
type mask struct {
	b      strings.Builder
	within bool   // where secrets may stand
	plain  int    // depth of the brackets of SETTINGS; 0: not within
	depth  int    // of the brackets where secrets may stand
	last   string // sign or word, without white space
	key    string // a word or string, and white space behind it, that is a key if a ':' follows
}

// masked returns a text of the same lines and characters. A quotation mark within a
// value cuts the text into other tokens than were meant, so whatever is not sure to
// be a key is masked.
func masked(text string) string {
	l, err := tokens.LexString("", text)
	if err != nil {
		return stars(text)
	}
	var m mask
	for {
		t, err := l.Next()
		if err != nil || t.EOF() {
			m.unsure()
			return m.b.String()
		}
		m.token(t)
	}
}

func (m *mask) token(t lexer.Token) {
	switch {
	case t.Type == spaceToken && m.key != "":
		m.key += t.Value
		return
	case t.Type == spaceToken:
		m.b.WriteString(t.Value)
		return
	case !m.within:
		m.outside(t)
	case m.key != "" && t.Value == ":":
		m.b.WriteString(m.key + t.Value)
		m.key = ""
	case m.depth == 0 && (t.Value == ";" || kindOf(t.Value) >= 0):
		m.unsure()
		m.b.WriteString(t.Value)
		m.within = opensSecrets(t)
	default:
		m.unsure()
		m.inside(t)
	}
	m.last = t.Value
}

// outside copies a token that stands where no secrets do, and sees whether they begin
// there.
func (m *mask) outside(t lexer.Token) {
	m.within, m.depth = opensSecrets(t), 0
	switch {
	case t.Value == "{" && (m.plain > 0 || strings.EqualFold(m.last, "SETTINGS")):
		m.plain++
	case t.Value == "}" && m.plain > 0:
		m.plain--
	case t.Value == "{":
		m.within = true
		m.inside(t)
		return
	}
	m.b.WriteString(t.Value)
}

// opensSecrets says whether secrets follow a token: the keyword, or a string that
// has swallowed it.
func opensSecrets(t lexer.Token) bool {
	for _, k := range []string{"CONFIGS", "CREDENTIALS"} {
		upper := strings.ToUpper(t.Value)
		if upper == k || t.Type != wordToken && strings.Contains(upper, k) {
			return true
		}
	}
	return false
}

// inside copies a token that stands where secrets do.
func (m *mask) inside(t lexer.Token) {
	switch {
	case strings.Contains("{[(", t.Value):
		m.depth++
	case strings.Contains("}])", t.Value):
		m.depth--
		m.within = m.depth > 0
	case (t.Type == wordToken || t.Type == stringToken) && m.depth == 1 && (m.last == "{" || m.last == ","):
		m.key = t.Value
		return
	case t.Type == otherToken, t.Type == parameterToken:
	default:
		m.b.WriteString(stars(t.Value))
		return
	}
	m.b.WriteString(t.Value)
}

// unsure masks what looked like a key, and is none.
func (m *mask) unsure() {
	m.b.WriteString(stars(m.key))
	m.key = ""
}

func stars(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return r
		}
		return '*'
	}, s)
}
