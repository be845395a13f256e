package json

import "github.com/graphmill/graphmill/sdk/go/internal/scan"

// Reader goes through a document token by token. The zero value is ready for
// Reset.
//
//	var r json.Reader
//	r.Reset(payload)
//	for kind := r.Next(); kind != json.End; kind = r.Next() {
//		if kind == json.Invalid {
//			return r.Err()
//		}
//		...
//	}
//
// A document has one value; End comes after it and all white space. After Invalid
// every further token is Invalid.
type Reader struct {
	data []byte
	at   int // where the next token is looked for

	// The current token.
	start, end int // a string or a key without its quotes
	escaped    bool
	scratch    []byte // of a string with escapes

	state   state
	depth   int
	objects [(MaxDepth + 63) / 64]uint64 // bit n: level n is an object, not an array

	err *SyntaxError
}

// state is what may stand next.
type state uint8

const (
	wantValue    state = iota
	wantFirst          // a value, or the end of the array that has just begun
	wantFirstKey       // a key, or the end of the object that has just begun
	wantMore           // a comma, or the end of the innermost array or object
	wantEnd            // nothing but the end of the document
)

// Reset begins with a document. It must not change while it is read.
func (r *Reader) Reset(document []byte) {
	r.data, r.at, r.state, r.depth, r.err = document, 0, wantValue, 0, nil
	r.start, r.end = 0, 0
}

// Next reads the next token.
func (r *Reader) Next() Kind {
	if r.err != nil {
		return Invalid
	}
	i := scan.Space(r.data, r.at)
	switch r.state {
	case wantFirst:
		if i < len(r.data) && r.data[i] == ']' {
			return r.close(i, EndArray)
		}
	case wantFirstKey:
		if i < len(r.data) && r.data[i] == '}' {
			return r.close(i, EndObject)
		}
		return r.key(i)
	case wantMore:
		return r.more(i)
	case wantEnd:
		if i < len(r.data) {
			return r.fail(scan.Fail(i, "more stands behind the document"))
		}
		r.at = i
		return End
	}
	return r.value(i)
}

// more reads what follows a value within an array or an object.
func (r *Reader) more(i int) Kind {
	object := r.inObject()
	if i < len(r.data) {
		switch c := r.data[i]; {
		case c == ',' && object:
			return r.key(scan.Space(r.data, i+1))
		case c == ',':
			return r.value(scan.Space(r.data, i+1))
		case c == '}' && object:
			return r.close(i, EndObject)
		case c == ']' && !object:
			return r.close(i, EndArray)
		}
	}
	if object {
		return r.fail(scan.Unexpected(r.data, i, "',' or '}'"))
	}
	return r.fail(scan.Unexpected(r.data, i, "',' or ']'"))
}

// key reads a name and the colon behind it.
func (r *Reader) key(i int) Kind {
	if i >= len(r.data) || r.data[i] != '"' {
		return r.fail(scan.Unexpected(r.data, i, "a field name in quotes"))
	}
	if !r.string(i) {
		return Invalid
	}
	i = scan.Space(r.data, r.at)
	if i >= len(r.data) || r.data[i] != ':' {
		return r.fail(scan.Unexpected(r.data, i, "':'"))
	}
	r.at, r.state = i+1, wantValue
	return Key
}

// value reads a value, of an object or an array its beginning.
func (r *Reader) value(i int) Kind {
	if i >= len(r.data) {
		return r.fail(scan.Unexpected(r.data, i, "a value"))
	}
	var kind Kind
	var word string
	switch c := r.data[i]; {
	case c == '"':
		if !r.string(i) {
			return Invalid
		}
		r.passed()
		return String
	case c-'0' <= 9, c == '-':
		end, err := scan.Number(r.data, i)
		if err != nil {
			return r.fail(err)
		}
		r.start, r.end, r.escaped, r.at = i, end, false, end
		r.passed()
		return Number
	case c == '{':
		return r.open(i, BeginObject, wantFirstKey)
	case c == '[':
		return r.open(i, BeginArray, wantFirst)
	case c == 'n':
		kind, word = Null, "null"
	case c == 't':
		kind, word = True, "true"
	case c == 'f':
		kind, word = False, "false"
	default:
		return r.fail(scan.Unexpected(r.data, i, "a value"))
	}
	end, err := scan.Word(r.data, i, word)
	if err != nil {
		return r.fail(err)
	}
	r.start, r.end, r.escaped, r.at = i, end, false, end
	r.passed()
	return kind
}

// passed sets what may stand behind a value.
func (r *Reader) passed() {
	r.state = wantMore
	if r.depth == 0 {
		r.state = wantEnd
	}
}

// string reads the string at i as the current token.
func (r *Reader) string(i int) bool {
	end, escaped, err := scan.String(r.data, i+1)
	if err != nil {
		r.fail(err)
		return false
	}
	r.start, r.end, r.escaped, r.at = i+1, end, escaped, end+1
	return true
}

func (r *Reader) open(i int, kind Kind, next state) Kind {
	if r.depth == MaxDepth {
		return r.fail(scan.Fail(i, "nested more than 1,000 deep"))
	}
	bit := uint64(1) << (r.depth % 64)
	r.objects[r.depth/64] &^= bit
	if kind == BeginObject {
		r.objects[r.depth/64] |= bit
	}
	r.depth++
	r.start, r.end, r.escaped, r.at, r.state = i, i+1, false, i+1, next
	return kind
}

func (r *Reader) close(i int, kind Kind) Kind {
	r.depth--
	r.start, r.end, r.escaped, r.at = i, i+1, false, i+1
	r.passed()
	return kind
}

func (r *Reader) inObject() bool {
	return r.objects[(r.depth-1)/64]&(1<<((r.depth-1)%64)) != 0
}

func (r *Reader) fail(err *SyntaxError) Kind {
	r.err = err
	return Invalid
}

// Text returns the characters of the current String or Key with escapes resolved,
// or the text of any other token as it stands. It is valid until the next call of
// Next.
func (r *Reader) Text() []byte {
	t := r.data[r.start:r.end:r.end]
	if r.escaped {
		r.scratch = scan.Unescape(r.scratch[:0], t)
		return r.scratch
	}
	return t
}

// Skip goes to the end of the value whose first token has just been read; after a
// Key to the end of the field. What is passed over is checked all the same.
func (r *Reader) Skip() {
	if r.state == wantValue && r.depth > 0 { // a Key came last
		r.Next()
	}
	if r.state != wantFirst && r.state != wantFirstKey {
		return
	}
	for outside := r.depth - 1; r.depth > outside; {
		if r.Next() == Invalid {
			return
		}
	}
}

// Depth is the number of objects and arrays that are open.
func (r *Reader) Depth() int { return r.depth }

// Offset is the position behind the current token in bytes; of a Key, behind its
// colon.
func (r *Reader) Offset() int { return r.at }

// Err returns what is wrong with the document, a *[SyntaxError], once Next has
// returned Invalid; else nil.
func (r *Reader) Err() error {
	if r.err == nil {
		return nil
	}
	return r.err
}
