package scan

// Wanted is the type that a field of a shape is declared with.
type Wanted uint8

// The types. Strings and raw values come last.
const (
	WantInt Wanted = iota
	WantFloat
	WantBool
	WantText
	WantRaw
)

// String returns the type in words.
func (w Wanted) String() string {
	return [...]string{"an integer", "a number", "a boolean", "a string", "any value"}[w]
}

// MaxFields is how many fields a shape may have.
const MaxFields = 32

// Field is a field of a shape.
type Field struct {
	// What the field begins with in a document, as two numbers to compare bytes with: a
	// comma, the name in quotes, and a colon. A name that does not fit, or that JSON has
	// to escape, has bytes that are never equal. Length is without the comma.
	Begin, Mask [2]uint64
	Length      int

	Next  *Field // the one declared after it; of the last one, the first
	Index uint
	Want  Wanted
	Opt   bool // it may be absent or null
	Last  bool // it was declared last
	Name  string
}

// Plan is the fields of a shape as Row needs them.
type Plan struct {
	First *Field
	Count uint32
	Room  int // bytes that Row needs besides those of the document
	All   []*Field
}

// Add adds a field behind the others.
func (p *Plan) Add(f *Field) {
	f.Last = true
	if p.Count == 0 {
		p.First = f
	} else {
		before := p.All[p.Count-1]
		before.Next, before.Last = f, false
	}
	f.Next = p.First
	p.All = append(p.All, f)
	p.Count++
	p.Room = 9*len(p.All) + 32
}

// never as Begin is not equal to any bytes if Mask is 0.
var never = [2]uint64{1 << 8, 1}

// NewField makes a field, whose Next is itself.
func NewField(name string, index uint, want Wanted, opt bool) *Field {
	f := &Field{Name: name, Index: index, Want: want, Opt: opt, Begin: never}
	f.Next = f
	if begin := []byte(`,"` + name + `":`); len(begin) <= 16 && Plain([]byte(name), 0) == len(name) {
		f.Length = len(begin) - 1
		f.Begin = [2]uint64{Load(begin, 0), Load(begin, 8)}
		for i := range begin {
			f.Mask[i/8] |= 0xff << (8 * (i % 8))
		}
	}
	return f
}

// NoField stands for the first field of a shape without any: no name in a document is
// its own.
var NoField = noField()

func noField() *Field {
	f := &Field{Begin: never}
	f.Next = f
	return f
}
