package graphmill

import (
	"errors"

	"github.com/graphmill/graphmill/sdk/go/internal/scan"
)

// JSON gives a JSON document as a value: an object as a map, an array as a list,
// a number without fraction and exponent as an integer, any other as a float, and
// strings, booleans and null as they are. What is no JSON, and a number that
// neither an integer of 64 bits nor a float holds, make the message fail. Of a
// field that stands twice the last one counts. A nil document is null.
//
// Options change this, see [JSONOption]. Package json says what is JSON, and reads
// single fields.
func (s Statement) JSON(document []byte, options ...JSONOption) Statement {
	j := jsonReader{r: s.r, generation: s.generation, d: document}
	for _, o := range options {
		j.bigText = j.bigText || o.bigText
		if o.fields != nil {
			j.fields, j.plan = o.fields, o.plan
		}
	}
	j.give()
	return s
}

// JSONOption says how [Statement.JSON] is to read a document. Make it once.
type JSONOption struct {
	bigText bool
	fields  []string
	plan    *scan.Plan // of the fields, unless there are too many
}

// BigIntegersAsText makes strings of the digits of integers beyond 64 bits.
func BigIntegersAsText() JSONOption { return JSONOption{bigText: true} }

// jsonReader gives a document to a statement, value by value, while it reads it: no
// token is made in between. What it opens and closes are the lists and maps of the
// response.
type jsonReader struct {
	r          *response
	generation uint64
	d          []byte
	bigText    bool

	fields  []string // the fields wanted of the outermost object; nil: all
	plan    *scan.Plan
	outside int // the depth of the response around the document
	next    int // the number of the field expected next
}

func (j *jsonReader) give() {
	if j.d == nil {
		j.r.null(j.generation)
		return
	}
	if j.plan != nil && j.selected() || j.plain() {
		return
	}
	j.outside = j.r.depth
	if err := j.document(); err != nil {
		j.r.fail(err)
	}
}

// wants tells whether a field of the object now open is to be given.
func (j *jsonReader) wants(name []byte) bool {
	if j.fields == nil || j.r.depth != j.outside+1 {
		return true
	}
	for range j.fields { // most often the first one looked at is it, or none is
		if j.next >= len(j.fields) {
			j.next = 0
		}
		f := j.fields[j.next]
		j.next++
		if scan.Equal(name, f) {
			return true
		}
	}
	return false
}

// plain gives a document that is nothing but a short number or a plain string, as the
// fields of an object mostly are. It is false, and nothing is given, for any other.
func (j *jsonReader) plain() bool {
	d := j.d
	if last := len(d) - 1; scan.At(d, 0) == '"' {
		if last > 0 && scan.Plain(d, 1) == last && d[last] == '"' {
			j.r.string(j.generation, view(d[1:last]))
			return true
		}
		return false
	}
	var s scan.Short
	if s.Scan(d, 0) != len(d) || len(d) == 0 {
		return false
	}
	if s.Decimals == 0 {
		j.r.int(j.generation, s.V)
	} else {
		j.r.float(j.generation, s.Float())
	}
	return true
}

// document reads the whole document.
func (j *jsonReader) document() error {
	i := 0
	for {
		var opened bool
		var err error
		if i, opened, err = j.value(i); err != nil {
			return err
		}
		if !opened {
			if i, err = j.behind(i); err != nil || i == over {
				return err
			}
		}
		if j.r.problem != nil {
			return nil // the rest does not matter
		}
	}
}

// over is what behind returns when the document has ended.
const over = -1

// value reads the value at i, before which there may be white space, and returns
// where it ends. Of an object or an array that is not empty it reads the beginning:
// opened says that a value follows.
func (j *jsonReader) value(i int) (end int, opened bool, err error) {
	d := j.d
	if scan.At(d, i) <= ' ' {
		i = scan.Space(d, i)
	}
	switch c := scan.At(d, i); c {
	case '"':
		end, err := j.string(i + 1)
		return end, false, err
	case '{':
		j.r.beginLevel(j.generation, 0xdf, 0)
		if i = scan.Space(d, i+1); scan.At(d, i) == '}' {
			return i, false, nil
		}
		return j.key(i)
	case '[':
		j.r.beginLevel(j.generation, 0xdd, j.generation)
		i = scan.Space(d, i+1)
		return i, scan.At(d, i) != ']', nil
	case 'n':
		j.r.null(j.generation)
		return j.word(i, "null")
	case 't':
		j.r.bool(j.generation, true)
		return j.word(i, "true")
	case 'f':
		j.r.bool(j.generation, false)
		return j.word(i, "false")
	default:
		end, err := j.number(i)
		return end, false, err
	}
}

// behind reads what stands behind a value: what ends there, and a comma, with the
// name behind it in an object. It returns where the next value is, or over.
func (j *jsonReader) behind(i int) (next int, err error) {
	r, d := j.r, j.d
	for {
		if scan.At(d, i) <= ' ' {
			i = scan.Space(d, i)
		}
		if r.depth == j.outside {
			if i < len(d) {
				return 0, scan.Fail(i, "more stands behind the document")
			}
			return over, nil
		}
		inObject := r.after == 0
		switch c := scan.At(d, i); {
		case c == ',' && inObject:
			var opened bool
			if i, opened, err = j.key(i + 1); opened || err != nil {
				return i, err
			}
		case c == ',':
			return i + 1, nil
		case c == '}' && inObject, c == ']' && !inObject:
			r.endLevel(j.generation)
			i++
		case inObject:
			return 0, scan.Unexpected(d, i, "',' or '}'")
		default:
			return 0, scan.Unexpected(d, i, "',' or ']'")
		}
	}
}

// key reads the name of a field and its colon, after the fields that compact takes and
// those that are not wanted. opened says that a value follows; else those were the
// last ones.
func (j *jsonReader) key(i int) (value int, opened bool, err error) {
	d := j.d
	for {
		if scan.At(d, i) <= ' ' {
			i = scan.Space(d, i)
		}
		if i, opened = j.compact(i); !opened {
			return i, false, nil
		}
		if scan.At(d, i) != '"' {
			return 0, false, scan.Unexpected(d, i, "a field name in quotes")
		}
		end, escaped, bad := scan.String(d, i+1)
		if bad != nil {
			return 0, false, bad
		}
		name := d[i+1 : end]
		if escaped {
			name = scan.Unescape(nil, name)
		}
		if i = scan.Space(d, end+1); scan.At(d, i) != ':' {
			return 0, false, scan.Unexpected(d, i, "':'")
		}
		i++
		if j.wants(name) {
			j.r.key(j.generation, view(name))
			return i, true, nil
		}
		if i, bad = scan.Skip(d, i); bad != nil {
			return 0, false, bad
		}
		if i = scan.Space(d, i); scan.At(d, i) != ',' {
			return i, false, nil
		}
		i++
	}
}

// compact gives the fields from i on as long as they are plain: names and strings of
// up to 31 bytes of ASCII without escapes, short numbers, at most one space behind
// colons and commas. It returns where it stopped: at a name that it did not take, or
// behind the last field if no name follows there.
//
// It does nothing that the rest does not do, at a third of the cost: see package
// scan. Texts are copied into the frame eight bytes at a time while they are looked
// at; what comes along too much is overwritten by what follows.
func (j *jsonReader) compact(i int) (stopped int, atName bool) {
	const most = 2*(maxShort+9) + slack // a name and a value, and the slack again
	r, d := j.r, j.d
	for r.n+most <= len(r.buf) {
		if scan.At(d, i) != '"' {
			break
		}
		b := r.buf[r.n:]
		name := shortText(b, d, i+1)
		end := i + 1 + name
		x := scan.Load(d, end)
		if name < 0 || x&0xffff != '"'|':'<<8 {
			break
		}
		wanted := j.fields == nil || j.wants(d[i+1:end])
		end += 2
		if x >>= 16; byte(x) == ' ' {
			end++
			x >>= 8
		}
		if byte(x) == '"' {
			text := shortText(b[1+name:], d, end+1)
			end += 1 + text
			if x = scan.Load(d, end); text < 0 || byte(x) != '"' {
				break
			}
			end++
			x >>= 8
			if wanted {
				r.n += 1 + name + 1 + text
				r.count++
			}
		} else {
			var s scan.Short
			if end = s.Scan(d, end); end < 0 {
				break
			}
			if wanted {
				r.n += 1 + name
				r.ready = j.generation
				if s.Decimals == 0 {
					r.int(j.generation, s.V)
				} else {
					r.float(j.generation, s.Float())
				}
			}
			x = scan.Load(d, end)
		}
		i = end
		if byte(x) != ',' {
			return i, false
		}
		after := i + 1
		if byte(x>>8) == ' ' {
			after++
			x >>= 8
		}
		if byte(x>>8) != '"' {
			return i, false
		}
		i = after
	}
	return i, true
}

// shortText writes the characters of the string whose opening quote is before i, up to
// the first byte that needs a look, and the head of a string of this length. It
// returns the length, -1 if it is more than maxShort. b must have room for a byte
// more than eight times the next number of eights.
func shortText(b, d []byte, i int) int {
	for n := 0; n <= maxShort; n += 8 {
		x := scan.Load(d, i+n)
		le.PutUint64(b[1+n:], x)
		if marks := scan.Special(x); marks != 0 {
			n += scan.FirstMarked(marks)
			b[0] = 0xa0 | byte(n)
			return n
		}
	}
	return -1
}

// string gives the string whose opening quote is before i.
func (j *jsonReader) string(i int) (end int, err error) {
	end, escaped, bad := scan.String(j.d, i)
	if bad != nil {
		return 0, bad
	}
	text := j.d[i:end]
	if escaped {
		text = scan.Unescape(nil, text)
	}
	j.r.string(j.generation, view(text))
	return end + 1, nil
}

func (j *jsonReader) word(i int, word string) (end int, opened bool, err error) {
	end, bad := scan.Word(j.d, i, word)
	if bad != nil {
		return 0, false, bad
	}
	return end, false, nil
}

// number gives the number at i, if there is one.
func (j *jsonReader) number(i int) (end int, err error) {
	var s scan.Short
	if end = s.Scan(j.d, i); end >= 0 {
		if s.Decimals == 0 {
			j.r.int(j.generation, s.V)
		} else {
			j.r.float(j.generation, s.Float())
		}
		return end, nil
	}
	if c := scan.At(j.d, i); c != '-' && c-'0' > 9 {
		return 0, scan.Unexpected(j.d, i, "a value")
	}
	end, bad := scan.Number(j.d, i)
	if bad != nil {
		return 0, bad
	}
	return end, j.longNumber(j.d[i:end])
}

func (j *jsonReader) longNumber(text []byte) error {
	if !scan.IsInt(text) {
		v, ok := scan.ParseFloat(text)
		if !ok {
			return errors.New("the number " + clip(string(text)) + " does not fit into a float of 64 bits")
		}
		j.r.float(j.generation, v)
		return nil
	}
	v, ok := scan.ParseInt(text)
	switch {
	case ok:
		j.r.int(j.generation, v)
	case j.bigText:
		j.r.string(j.generation, view(text))
	default:
		return errors.New("the integer " + clip(string(text)) + " does not fit into 64 bits")
	}
	return nil
}
