//go:build wasip1

package main

import (
	"math"
	"math/bits"
	"strconv"
	"unicode/utf8"
	"unsafe"
)

// rating is what a document says.
type rating struct {
	userID    int64
	title     []byte // nil: absent or null
	rating    float64
	hasUser   bool
	hasRating bool
}

// parse reads a document. It returns what is wrong with it, or "".
func (r *rating) parse(d []byte) (problem string) {
	if r.usual(d) {
		return ""
	}
	*r = rating{}
	p := parser{d: d}
	p.object(r)
	if p.space(); p.at < len(d) {
		p.fail("more stands behind the document")
	}
	switch {
	case p.problem != "":
	case !r.hasUser:
		p.fail("userId is missing")
	case !r.hasRating:
		p.fail("rating is missing")
	}
	return p.problem
}

// load returns eight bytes from i on; there must be so many.
func load(d []byte, i int) uint64 { return *(*uint64)(unsafe.Pointer(&d[i : i+8][0])) }

const (
	ones  = 0x0101010101010101
	highs = 0x80 * ones
)

// usual reads a document of the form that almost all have: fields in any order, others
// among them, no white space but for single ones behind colons and commas, short numbers,
// strings without escapes. It is false for any other.
func (r *rating) usual(d []byte) bool {
	last := len(d) - 1
	if last < 1 || d[0] != '{' || d[last] != '}' {
		return false
	}
	r.title, r.hasUser, r.hasRating = nil, false, false
	for i := 1; ; i++ {
		if d[i] == ' ' {
			i++
		}
		if i+10 > last {
			return false
		}
		field := other
		switch x := load(d, i); {
		case x == userIDWord && d[i+8] == ':':
			field, i = userID, i+9
		case x == titleWord:
			field, i = title, i+8
		case x == ratingWord && d[i+8] == ':':
			field, i = score, i+9
		default:
			if d[i] != '"' {
				return false
			}
			if i = plain(d, i+1); i < 0 || d[i+1] != ':' {
				return false
			}
			i += 2
		}
		if d[i] == ' ' {
			i++
		}
		switch c := d[i]; {
		case c == '"':
			start := i + 1
			if i = plain(d, start); i < 0 {
				return false
			}
			if field == title {
				r.title = d[start:i:i]
			} else if field != other {
				return false
			}
			i++
		case c-'0' <= 9:
			start := i
			var v uint64
			for ; d[i]-'0' <= 9; i++ {
				v = v*10 + uint64(d[i]-'0')
			}
			digits := i - start
			if digits > 19 || v > math.MaxInt64 || c == '0' && digits > 1 {
				return false
			}
			number, scale := start, 1.0
			if d[i] == '.' {
				if field == userID {
					return false
				}
				i++
				start = i
				for ; d[i]-'0' <= 9; i++ {
					v = v*10 + uint64(d[i]-'0')
					scale *= 10
				}
				if i == start {
					return false
				}
				digits += i - start
			}
			switch field {
			case userID:
				r.userID, r.hasUser = int64(v), true
			case score:
				r.rating, r.hasRating = float64(v)/scale, true
				if digits > 15 {
					v, err := strconv.ParseFloat(unsafe.String(&d[number], i-number), 64)
					if r.rating = v; err != nil {
						return false
					}
				}
			case title:
				return false
			}
		case field == other && i+5 <= last:
			switch word := *(*uint32)(unsafe.Pointer(&d[i : i+4][0])); {
			case word == nullWord || word == trueWord:
				i += 4
			case word == falsWord && d[i+4] == 'e':
				i += 5
			default:
				return false
			}
		default:
			return false
		}
		if i == last {
			return r.hasUser && r.hasRating
		}
		if d[i] != ',' {
			return false
		}
	}
}

// plain returns where the string ends whose first character is at i, -1 if it has escapes
// or is not right.
func plain(d []byte, i int) int {
	start, high := i, uint64(0)
	for i+8 <= len(d) {
		x := load(d, i)
		high |= x
		if marks := ((x ^ '"'*ones - ones) | (x ^ '\\'*ones - ones) | (x - ' '*ones)) &^ x & highs; marks != 0 {
			i += bits.TrailingZeros64(marks) / 8
			if d[i] != '"' || high&highs != 0 && !utf8.Valid(d[start:i]) {
				return -1
			}
			return i
		}
		i += 8
	}
	return -1
}

// What a field is.
const (
	other = iota
	userID
	title
	score
)

// What stands in documents, as numbers to compare eight and four bytes with.
var (
	userIDWord = load([]byte(`"userId"`), 0)
	titleWord  = load([]byte(`"title":`), 0)
	ratingWord = load([]byte(`"rating"`), 0)
)

const (
	nullWord = 'n' | 'u'<<8 | 'l'<<16 | 'l'<<24
	trueWord = 't' | 'r'<<8 | 'u'<<16 | 'e'<<24
	falsWord = 'f' | 'a'<<8 | 'l'<<16 | 's'<<24
)

// parser reads any document.
type parser struct {
	d       []byte
	at      int
	depth   int
	problem string
}

const maxDepth = 1000

func (p *parser) fail(text string) {
	if p.problem == "" {
		p.problem = text
	}
	p.at = len(p.d)
}

func (p *parser) next() byte {
	if p.at < len(p.d) {
		return p.d[p.at]
	}
	return 0
}

func (p *parser) space() {
	for p.at < len(p.d) && (p.d[p.at] == ' ' || p.d[p.at] == '\n' || p.d[p.at] == '\r' || p.d[p.at] == '\t') {
		p.at++
	}
}

func (p *parser) want(c byte) {
	if p.space(); p.next() != c {
		p.fail("not JSON: " + string(rune(c)) + " should stand at byte " + strconv.Itoa(p.at))
		return
	}
	p.at++
}

// object reads the document's own object into r, another one where r is nil.
func (p *parser) object(r *rating) {
	p.want('{')
	if p.space(); p.next() == '}' {
		p.at++
		return
	}
	for p.problem == "" {
		p.space()
		name := string(p.string())
		p.want(':')
		p.space()
		switch {
		case r != nil && name == "userId":
			var ok bool
			r.userID, ok = integer(p.number())
			if r.hasUser = true; !ok {
				p.fail("userId is not an integer of 64 bits")
			}
		case r != nil && name == "rating":
			v, err := strconv.ParseFloat(string(p.number()), 64)
			if r.rating, r.hasRating = v, true; err != nil {
				p.fail("rating is too large")
			}
		case r != nil && name == "title":
			if r.title = nil; p.next() == 'n' {
				p.word("null")
			} else {
				r.title = p.string()
			}
		default:
			p.value()
		}
		if p.space(); p.next() == '}' {
			p.at++
			return
		}
		p.want(',')
	}
}

// value passes a value of any kind.
func (p *parser) value() {
	if p.depth++; p.depth > maxDepth {
		p.fail("nested too deep")
	}
	p.space()
	switch p.next() {
	case '{':
		p.object(nil)
	case '[':
		p.at++
		if p.space(); p.next() == ']' {
			p.at++
			break
		}
		for p.problem == "" {
			p.value()
			if p.space(); p.next() == ']' {
				p.at++
				break
			}
			p.want(',')
		}
	case '"':
		p.string()
	case 'n':
		p.word("null")
	case 't':
		p.word("true")
	case 'f':
		p.word("false")
	default:
		p.number()
	}
	p.depth--
}

func (p *parser) word(w string) {
	if p.at+len(w) > len(p.d) || string(p.d[p.at:p.at+len(w)]) != w {
		p.fail("not JSON: " + w + " should stand at byte " + strconv.Itoa(p.at))
		return
	}
	p.at += len(w)
}

func (p *parser) digits() {
	start := p.at
	for p.next()-'0' <= 9 {
		p.at++
	}
	if p.at == start {
		p.fail("a number is needed at byte " + strconv.Itoa(start))
	}
}

// number passes a number and returns its text.
func (p *parser) number() []byte {
	start := p.at
	if p.next() == '-' {
		p.at++
	}
	if p.next() == '0' {
		p.at++
	} else {
		p.digits()
	}
	if p.next() == '.' {
		p.at++
		p.digits()
	}
	if p.next()|0x20 == 'e' {
		if p.at++; p.next() == '+' || p.next() == '-' {
			p.at++
		}
		p.digits()
	}
	return p.d[start:p.at]
}

func integer(text []byte) (int64, bool) {
	v, err := strconv.ParseInt(string(text), 10, 64)
	return v, err == nil
}

// string passes a string and returns its characters, never nil.
func (p *parser) string() []byte {
	p.want('"')
	start := p.at
	var unescaped []byte
	for p.problem == "" {
		switch c := p.next(); {
		case c == '"':
			text := append(unescaped, p.d[start:p.at]...)
			p.at++
			if !utf8.Valid(text) {
				p.fail("a string is not UTF-8")
			}
			return append([]byte{}, text...)
		case c == '\\':
			unescaped = p.escape(append(unescaped, p.d[start:p.at]...))
			start = p.at
		case c < ' ':
			p.fail("a control character, or the end, in a string")
		default:
			p.at++
		}
	}
	return nil
}

// escape passes an escape and appends its character.
func (p *parser) escape(b []byte) []byte {
	p.at++
	c := p.next()
	p.at++
	switch c {
	case '"', '\\', '/':
		return append(b, c)
	case 'b':
		return append(b, '\b')
	case 'f':
		return append(b, '\f')
	case 'n':
		return append(b, '\n')
	case 'r':
		return append(b, '\r')
	case 't':
		return append(b, '\t')
	case 'u':
		high := p.hex4()
		if high < 0xd800 || high > 0xdfff {
			return utf8.AppendRune(b, high)
		}
		if p.next() == '\\' {
			if p.at++; p.next() == 'u' {
				p.at++
				if low := p.hex4(); high < 0xdc00 && low >= 0xdc00 && low <= 0xdfff {
					return utf8.AppendRune(b, (high-0xd800)<<10|(low-0xdc00)+0x10000)
				}
			}
		}
		p.fail("half of a surrogate pair")
	default:
		p.fail("an unknown escape")
	}
	return b
}

func (p *parser) hex4() rune {
	if p.at+4 > len(p.d) {
		p.fail("\\u without four hexadecimal digits")
		return 0
	}
	v, err := strconv.ParseUint(string(p.d[p.at:p.at+4]), 16, 16)
	if err != nil {
		p.fail("\\u without four hexadecimal digits")
		return 0
	}
	p.at += 4
	return rune(v)
}
