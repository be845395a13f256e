package main

import (
	"errors"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// queryText is what there is to know of a query without understanding it: strings,
// comments and quoted names are respected, all else is left to the database.
type queryText struct {
	text       string   // without a semicolon at its end
	parameters []string // names, in order of appearance

	// fields are the first names behind $event where all of its uses are of the form
	// $event.name; else there are none.
	fields []string
}

// readQuery reads a query.
func readQuery(text string) (queryText, error) {
	l := lexer{text: text}
	if err := l.read(); err != nil {
		return queryText{}, err
	}
	end := len(text)
	if l.semicolon >= 0 {
		end = l.semicolon
	}
	q := queryText{text: strings.TrimSpace(text[:end]), parameters: l.parameters}
	if q.text == "" || !l.anything {
		return queryText{}, errors.New("it is empty")
	}
	if !l.whole {
		q.fields = l.fields
	}
	return q, nil
}

// lexer goes through a query text.
type lexer struct {
	text string
	at   int

	parameters []string
	fields     []string
	whole      bool // $event is used in another way than $event.name
	anything   bool // there is more than white space and comments
	semicolon  int  // where the first one is, or -1
}

func (l *lexer) read() error {
	l.semicolon = -1
	for {
		if err := l.space(); err != nil || l.at == len(l.text) {
			return err
		}
		c := l.text[l.at]
		if c == ';' {
			if l.semicolon < 0 {
				l.semicolon = l.at
			}
			l.at++
			continue
		}
		if l.semicolon >= 0 {
			return errors.New("there are several statements; it must be one")
		}
		l.anything = true
		var err error
		switch c {
		case '\'', '"':
			err = l.string(c)
		case '`':
			_, err = l.quoted()
		case '$':
			err = l.parameter()
		default:
			l.word()
		}
		if err != nil {
			return err
		}
	}
}

// space passes white space and comments.
func (l *lexer) space() error {
	for l.at < len(l.text) {
		rest := l.text[l.at:]
		switch {
		case strings.HasPrefix(rest, "//"):
			end := strings.IndexAny(rest, "\r\n")
			if end < 0 {
				end = len(rest)
			}
			l.at += end
		case strings.HasPrefix(rest, "/*"):
			end := strings.Index(rest[2:], "*/")
			if end < 0 {
				return errors.New("a comment that begins with /* is not ended")
			}
			l.at += end + 4
		default:
			r, size := utf8.DecodeRuneInString(rest)
			if !unicode.IsSpace(r) {
				return nil
			}
			l.at += size
		}
	}
	return nil
}

// string passes a string in quotes, in which a backslash escapes.
func (l *lexer) string(quote byte) error {
	for i := l.at + 1; i < len(l.text); i++ {
		switch l.text[i] {
		case '\\':
			i++
		case quote:
			l.at = i + 1
			return nil
		}
	}
	return errors.New("a string that begins with " + string(quote) + " is not ended")
}

// quoted passes a name in backticks, of which two stand for one, and returns it.
func (l *lexer) quoted() (name string, err error) {
	for i := l.at + 1; i < len(l.text); i++ {
		if l.text[i] != '`' {
			continue
		}
		if i+1 < len(l.text) && l.text[i+1] == '`' {
			i++
			continue
		}
		name = strings.ReplaceAll(l.text[l.at+1:i], "``", "`")
		l.at = i + 1
		return name, nil
	}
	return "", errors.New("a name that begins with ` is not ended")
}

// word passes a name, a number or a keyword, or else one character, and returns it.
func (l *lexer) word() string {
	start := l.at
	for l.at < len(l.text) {
		r, size := utf8.DecodeRuneInString(l.text[l.at:])
		if r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.In(r, unicode.Pc, unicode.Mn, unicode.Mc) {
			if l.at == start {
				l.at += size
			}
			break
		}
		l.at += size
	}
	return l.text[start:l.at]
}

// name passes a name, in backticks or not. ok is false where there is none.
func (l *lexer) name() (name string, ok bool, err error) {
	if l.at == len(l.text) {
		return "", false, nil
	}
	if l.text[l.at] == '`' {
		name, err = l.quoted()
		return name, err == nil, err
	}
	r, _ := utf8.DecodeRuneInString(l.text[l.at:])
	if r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) {
		return "", false, nil
	}
	return l.word(), true, nil
}

// parameter passes a dollar sign, the name behind it and, behind $event, a point and
// the name of a field.
func (l *lexer) parameter() error {
	l.at++
	if err := l.space(); err != nil {
		return err
	}
	name, ok, err := l.name()
	if err != nil {
		return err
	}
	if !ok {
		return errors.New("a $ has no name behind it")
	}
	if !slices.Contains(l.parameters, name) {
		l.parameters = append(l.parameters, name)
	}
	if name != "event" {
		return nil
	}
	field, err := l.field()
	switch {
	case err != nil:
		return err
	case field == "":
		l.whole = true
	case !slices.Contains(l.fields, field):
		l.fields = append(l.fields, field)
	}
	return nil
}

// field passes a point and a name. Where something else stands it stays there, and
// returns "".
func (l *lexer) field() (name string, err error) {
	start := l.at
	if err := l.space(); err != nil {
		return "", err
	}
	if l.at < len(l.text) && l.text[l.at] == '.' {
		l.at++
		if err := l.space(); err != nil {
			return "", err
		}
		name, ok, err := l.name()
		if err != nil {
			return "", err
		}
		if ok && name != "" && !unicode.IsDigit(rune(name[0])) {
			return name, nil
		}
	}
	l.at = start
	return "", nil
}
