package graphmill

import "math"

// Statement takes the parameters of one statement, one call a value:
//
//	out.Statement(rated).Int(42).Text(title).Null()              // by position
//	out.Statement(named).Key("id").Int(42).Key("title").Null()   // by name
//
// Its methods return it, so that calls chain. It is complete, and good no
// longer, when the next statement is begun or the handler returns. Nothing has
// to be checked between calls: what is wrong, such as a value too many or a
// string that is no UTF-8, becomes the failure of the message.
type Statement struct {
	r          *response
	generation uint64
}

// Key names the value that comes next: a parameter of a query that was made
// without names, or an entry of a [Statement.Map]. Of a key given twice the last
// value counts.
func (s Statement) Key(name string) Statement {
	s.r.key(s.generation, name)
	return s
}

// Null gives null.
func (s Statement) Null() Statement {
	s.r.null(s.generation)
	return s
}

// Bool gives a boolean.
func (s Statement) Bool(v bool) Statement {
	s.r.bool(s.generation, v)
	return s
}

// Int gives an integer.
func (s Statement) Int(v int64) Statement {
	s.r.int(s.generation, v)
	return s
}

// Uint gives an integer. A graph database has none above 2^63-1: those make the
// message fail.
func (s Statement) Uint(v uint64) Statement {
	if v > math.MaxInt64 {
		s.r.fail(s.r.wrong("an integer above 9223372036854775807, which no database takes; give a string or a float"))
	}
	return s.Int(int64(v))
}

// Float gives a float.
func (s Statement) Float(v float64) Statement {
	s.r.float(s.generation, v)
	return s
}

// OptInt gives an integer, or null if there is none. It takes what json.Object.OptInt
// returns as it is:
//
//	out.Statement(q).OptInt(event.OptInt(age))
func (s Statement) OptInt(v int64, there bool) Statement {
	if !there {
		return s.Null()
	}
	return s.Int(v)
}

// OptFloat gives a float, or null if there is none.
func (s Statement) OptFloat(v float64, there bool) Statement {
	if !there {
		return s.Null()
	}
	return s.Float(v)
}

// OptBool gives a boolean, or null if there is none.
func (s Statement) OptBool(v, there bool) Statement {
	if !there {
		return s.Null()
	}
	return s.Bool(v)
}

// String gives a string, which must be UTF-8.
func (s Statement) String(v string) Statement {
	s.r.string(s.generation, v)
	return s
}

// Text gives a string from bytes, which must be UTF-8; null where they are nil.
func (s Statement) Text(v []byte) Statement {
	s.r.text(s.generation, v)
	return s
}

// Bytes gives a byte array; null where v is nil.
func (s Statement) Bytes(v []byte) Statement {
	s.r.bytes(s.generation, v)
	return s
}

// List begins a list: the values up to its End are the elements.
//
//	out.Statement(q).List().Int(1).Int(2).End()
func (s Statement) List() Statement {
	s.r.beginLevel(s.generation, 0xdd, s.generation)
	return s
}

// Map begins a map: each value up to its End follows its Key.
//
//	out.Statement(q).Map().Key("a").Int(1).Key("b").Null().End()
func (s Statement) Map() Statement {
	s.r.beginLevel(s.generation, 0xdf, 0)
	return s
}

// End ends the innermost List or Map.
func (s Statement) End() Statement {
	s.r.endLevel(s.generation)
	return s
}
