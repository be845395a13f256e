package graphmill

import "unicode/utf8"

// Query is a query text, and how its parameters are given. Make it once, as a
// package variable: a text then goes over to Graphmill once a batch, however
// many statements use it.
type Query struct {
	text   string
	names  []string
	wanted uint32 // len(names), or byKey
}

// NewQuery makes a query.
//
// With names, statements give their values by position, in the order of the
// names. That is the fast form: values go straight into one UNWIND, and no name
// is repeated.
//
//	var rated = graphmill.NewQuery("MERGE (u:User {id: $id}) SET u.name = $name", "id", "name")
//
// Without names, each value follows its [Statement.Key].
//
// It panics, which stops a module as soon as it is loaded, on an empty text, a
// text that is no UTF-8 or longer than 1 MiB, and on names that are empty, there
// twice or no UTF-8. For a text that is made from a message use [Output.Add].
func NewQuery(text string, names ...string) *Query {
	if err := checkText(text); err != "" {
		panic("graphmill.NewQuery: " + err)
	}
	for i, name := range names {
		if name == "" || !utf8.ValidString(name) {
			panic("graphmill.NewQuery: a parameter name is empty or no UTF-8 in: " + clip(text))
		}
		for _, earlier := range names[:i] {
			if earlier == name {
				panic("graphmill.NewQuery: the parameter name " + name + " is there twice in: " + clip(text))
			}
		}
	}
	wanted := uint32(len(names))
	if wanted == 0 {
		wanted = byKey
	}
	return &Query{text, names, wanted}
}

// Text returns the query text.
func (q *Query) Text() string { return q.text }

// checkText returns what is wrong with a query text, or "".
func checkText(text string) string {
	switch {
	case text == "":
		return "the query is empty"
	case len(text) > maxQueryText:
		return "the query is longer than 1 MiB: " + clip(text)
	case !utf8.ValidString(text):
		return "the query is not UTF-8"
	}
	return ""
}

// takes says in words which values a statement of the query needs.
func (q *Query) takes() string {
	s := itoa(len(q.names)) + " values are needed ("
	for i, name := range q.names {
		if i > 0 {
			s += ", "
		}
		s += name
	}
	return s + ")"
}

// queryTable numbers the queries that a response uses.
type queryTable struct {
	list   []*Query
	latest *Query            // the one asked for last, and
	last   uint32            // its number
	many   map[*Query]uint32 // once there are more than a few
}

func (t *queryTable) reset() {
	clear(t.list)
	t.list, t.latest, t.last = t.list[:0], nil, 0
	if len(t.many) > 0 {
		clear(t.many)
	}
}

// index returns the number of a query.
func (t *queryTable) index(q *Query) uint32 {
	if t.latest != q {
		t.latest, t.last = q, t.search(q)
	}
	return t.last
}

func (t *queryTable) search(q *Query) uint32 {
	const few = 8
	for i, known := range t.list[:min(few, len(t.list))] {
		if known == q {
			return uint32(i)
		}
	}
	if i, ok := t.many[q]; ok {
		return i
	}
	number := uint32(len(t.list))
	t.list = append(t.list, q)
	if len(t.list) > few {
		if t.many == nil {
			t.many = make(map[*Query]uint32)
		}
		t.many[q] = number
	}
	return number
}

// clip cuts a text for an error message.
func clip(s string) string {
	const most = 60
	if len(s) <= most {
		return s
	}
	cut := most
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "..."
}

// itoa spares the binary the package strconv.
func itoa(n int) string {
	if n < 0 {
		return "-" + itoa(-n)
	}
	if n < 10 {
		return string(rune('0' + n))
	}
	return itoa(n/10) + itoa(n%10)
}
