package scan

import (
	"encoding/binary"
	"math"
	"unsafe"
)

// Keys reads documents of one shape, and learns from each what the next one looks like:
// which names stand in it, those that the shape does not want too, and in which order.
// The producer of a topic writes its fields in one order, whichever that is, so that a
// name is mostly found by one comparison. Where it is not, the others are tried in the
// order in which they stood last.
//
// What is read is kept in MessagePack until Write, in the order in which it came.
type Keys struct {
	Plan     *Plan
	required uint64 // bit i: value i must be there

	// The names of the fields in MessagePack, if they have at most maxFixed bytes.
	labels    [MaxFields][labelSize + 8]byte
	longNames bool

	first uint8 // the number of the name expected first; the others follow by next, in a ring
	table [maxKeys]Key
	used  int // of the table; those of the shape come first
	spare Key // stands for a name that is not in the table
	stale int // names that were not in the table when it was full

	// The document in hand.
	at           int       // where the brace or the comma before the next field stands
	expected     uint8     // the number of the name expected next
	out          []byte    // values
	written      int       // bytes of them
	seen, late   uint64    // bit i: value i is there; it was late
	nested       bool      // there is a nested value
	high         uint64    // bytes beyond ASCII have been seen if one of its high bits is set
	values       [64]value // of wanted fields
	order        [maxOrder]uint8
	count        uint // fields, of which the first maxOrder are in order
	tries        uint // comparisons with names that did not stand there
	sinceLearned int  // documents
}

// Key is a name that stands in documents.
type Key struct {
	// What a field of this name begins with, as numbers to compare bytes with: a comma,
	// the name in quotes, and a colon. What stands in place of the comma is masked.
	begin, mask [6]uint64
	length      int
	long        uint64 // not 0 if it has more than 16 bytes

	takes  takes
	index  uint8 // of its value
	number uint8 // in the table
	next   uint8 // the one that mostly follows
	name   string
}

// value is where in Keys.out a value stands: where it starts, and behind 32 bits its
// length. One that is nested stands in the document, as JSON.
type value uint64

const (
	nested value = 1 << 63

	// late marks a float that has yet to be made: of a sign and the number of decimals in
	// one byte, and all of its digits, reversed.
	late value = 1 << 62
)

const (
	maxKeys  = 64
	maxOrder = 128 // a power of two

	// maxKeysDocument is how long a document may be, in bytes.
	maxKeysDocument = 1 << 20

	// maxKeyName is the longest name that is compared so. The others are read as any
	// JSON is.
	maxKeyName = 44

	unwanted = 63 // the index of all values that nobody wants
)

// takes is which values a field may have.
type takes uint8

const (
	takesText takes = 1 << iota
	takesInt
	takesFraction
	takesBool
	takesNull
	toFloat  // integers are made floats
	takesAll = takesText | takesInt | takesFraction | takesBool | takesNull
)

var takesOf = [...]takes{WantInt: takesInt, WantFloat: takesInt | takesFraction | toFloat, WantBool: takesBool, WantText: takesText, WantRaw: takesAll}

// NewKeys makes ready for documents of a shape. It begins with the order in which that
// declares its fields.
func NewKeys(plan *Plan) *Keys {
	k := &Keys{Plan: plan, sinceLearned: pause}
	k.spare = Key{takes: takesAll, index: unwanted, number: maxKeys}
	for _, f := range plan.All {
		if !f.Opt {
			k.required |= 1 << f.Index
		}
		k.longNames = k.longNames || len(f.Name) > maxFixed
		label := &k.labels[f.Index]
		label[0] = 0xa0 | byte(min(len(f.Name), maxFixed))
		copy(label[1:1+maxFixed], f.Name)
	}
	k.forget()
	return k
}

// forget goes back to what the shape declares.
func (k *Keys) forget() {
	k.used, k.stale = 0, 0
	k.first = 0
	k.table[0] = Key{begin: noName}
	for _, f := range k.Plan.All {
		t := takesOf[f.Want]
		if f.Opt {
			t |= takesNull
		}
		k.add(f.Name, t, uint8(f.Index), 0)
	}
}

// noName is not equal to any bytes, as nothing is masked.
var noName = [6]uint64{1}

// add adds a name to the table, and to the ring before another one.
func (k *Keys) add(name string, t takes, index uint8, before uint8) *Key {
	f := &k.table[k.used]
	*f = Key{name: name, takes: t, index: index, number: uint8(k.used), begin: noName, next: uint8(k.used)}
	if text := []byte(`,"` + name + `":`); len(name) <= maxKeyName && Plain([]byte(name), 0) == len(name) {
		f.length = len(text)
		if len(text) > 16 {
			f.long = 1
		}
		f.begin = [6]uint64{}
		for i, c := range text[1:] { // what stands before is a comma or a brace
			f.begin[(i+1)/8] |= uint64(c) << (8 * ((i + 1) % 8))
			f.mask[(i+1)/8] |= 0xff << (8 * ((i + 1) % 8))
		}
	}
	if k.used > 0 {
		last := &k.table[before]
		for last.next != before {
			last = &k.table[last.next]
		}
		f.next, last.next = before, f.number
	}
	k.used++
	return f
}

// find returns the name of a field as it stands in a document. One that is new is put
// before the one expected, if there is room.
func (k *Keys) find(name []byte) *Key {
	for i := range k.table[:k.used] {
		if f := &k.table[i]; Equal(name, f.name) {
			return f
		}
	}
	if k.used == maxKeys || len(name) > maxKeyName || Plain(name, 0) < len(name) {
		k.stale++
		return &k.spare
	}
	f := k.add(string(name), takesAll, unwanted, k.expected)
	if k.count == 0 {
		k.first = f.number
	}
	return f
}

const (
	pause    = 32   // documents: topics that mix orders must not pay for each
	patience = 1000 // names
)

// learn makes the order of the document in hand the one that is expected of the next,
// once in a while, and makes room in the table.
func (k *Keys) learn() {
	switch {
	case k.stale > patience:
		k.forget()
	case k.tries > k.count && k.count <= maxOrder && k.sinceLearned >= pause:
		k.sinceLearned = 0
		k.link()
	}
}

// link links the ring anew: the fields of the document in hand, then the others.
func (k *Keys) link() {
	var linked [maxKeys]bool
	var last *Key
	put := func(f *Key) {
		if linked[f.number] {
			return
		}
		linked[f.number] = true
		if last == nil {
			k.first = f.number
		} else {
			last.next = f.number
		}
		last = f
		f.next = k.first
	}
	for _, number := range k.order[:k.count] {
		if number < maxKeys { // else it is the spare one
			put(&k.table[number])
		}
	}
	for i := range k.table[:k.used] {
		put(&k.table[i])
	}
}

// Read reads a document. It is false where there is anything wrong with it: then
// another reader, which can tell what, has to look at it.
func (k *Keys) Read(document []byte) bool {
	d := Padded(document)
	end := len(d)
	for end > 0 && d[end-1] <= ' ' && isSpace(d[end-1]) {
		end--
	}
	if end < 2 || d[0] != '{' || d[end-1] != '}' || end > maxKeysDocument {
		return false
	}
	if need := 2*end + Pad; len(k.out) < need {
		k.out = make([]byte, max(need, 2*len(k.out), 4<<10))
	}
	k.at, k.written, k.seen, k.late, k.nested, k.high, k.count, k.tries = 0, 0, 0, 0, false, 0, 0, 0
	k.expected = k.first
	for {
		k.row(unsafe.Pointer(unsafe.SliceData(d)), end, unsafe.Pointer(unsafe.SliceData(k.out)))
		if k.at == end {
			break
		}
		if !k.odd(d[:end]) {
			return false
		}
		if k.at == end {
			break
		}
	}
	if k.high&highs != 0 && !UTF8(d[:end]) {
		return false
	}
	if k.late != 0 {
		k.makeFloats()
	}
	k.sinceLearned++
	if k.tries > k.count || k.stale > patience {
		k.learn()
	}
	return true
}

// makeFloats makes the floats that are late.
func (k *Keys) makeFloats() {
	for i, v := range k.values {
		if k.late>>i&1 == 0 || v&late == 0 || i == unwanted {
			continue
		}
		b := k.out[uint32(v):][:9]
		x := math.Float64bits(quotient(binary.BigEndian.Uint64(b[1:]), int(b[0]&0x7f))) | uint64(b[0]>>7)<<63
		b[0] = 0xcb
		binary.BigEndian.PutUint64(b[1:], x)
		k.values[i] = v &^ late
	}
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }
