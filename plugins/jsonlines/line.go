package main

import (
	"errors"
	"slices"
	"strconv"

	"github.com/graphmill/graphmill/sdk/go/json"
)

// field is a field of an object, flattened.
type field struct {
	*column
	kind json.Kind // of its value; BeginArray for arrays
	raw  []byte    // its value as JSON text
}

// column is what the settings say about the fields of one name.
type column struct {
	name     string
	property string // that it becomes; "" if it becomes none
	key      int    // which field of the key it is, or -1
	isLabel  bool
}

// read reads an object into p.fields. Of a field that stands twice both are there.
func (p *plan) read(line []byte) error {
	p.fields = p.fields[:0]
	r := &p.reader
	r.Reset(line)
	switch kind := r.Next(); kind {
	case json.BeginObject:
	case json.Invalid:
		return r.Err()
	default:
		return errors.New("it is " + kind.String() + ", not an object")
	}
	if err := p.readObject(line, ""); err != nil {
		return err
	}
	if r.Next() == json.Invalid {
		return r.Err()
	}
	return nil
}

// readObject reads the fields of an object whose brace has been read. Names begin with
// prefix.
func (p *plan) readObject(line []byte, prefix string) error {
	r := &p.reader
	for {
		name, raw, kind := r.Field()
		switch kind {
		case json.Invalid:
			return r.Err()
		case json.EndObject:
			return nil
		}
		if len(name) == 0 {
			return errors.New("a field has an empty name, which no property can have")
		}
		c := p.column(prefix, name)
		switch kind {
		case json.BeginObject:
			switch {
			case p.wanted(c.name) && !p.flatten:
				return errors.New("field " + quote(c.name) + " is an object; the setting nested may be flatten")
			case p.flatten:
				if r.Depth() > maxDepth {
					return errors.New("objects are nested more than 64 deep")
				}
				if err := p.readObject(line, c.name+p.separator); err != nil {
					return err
				}
				continue
			}
			if r.Skip(); r.Err() != nil {
				return r.Err()
			}
			continue
		case json.BeginArray:
			start := r.Offset() - 1
			if r.Skip(); r.Err() != nil {
				return r.Err()
			}
			raw = line[start:r.Offset()]
		}
		p.fields = append(p.fields, field{c, kind, raw})
	}
}

// maxDepth is how deep objects may be nested to be flattened.
const maxDepth = 64

func quote(name string) string { return strconv.Quote(clip(name)) }

// maxColumns bounds the names that are remembered.
const maxColumns = 1000

// column returns the column of a field. The same few come with every object, and mostly at
// the same place: the one that stood there last is looked at first.
func (p *plan) column(prefix string, name []byte) *column {
	place := len(p.fields)
	if place < len(p.fields[:cap(p.fields)]) && prefix == "" {
		if c := p.fields[:cap(p.fields)][place].column; c != nil && c.name == string(name) {
			return c
		}
	}
	p.scratch = append(append(p.scratch[:0], prefix...), name...)
	if c, ok := p.columns[string(p.scratch)]; ok {
		return c
	}
	if len(p.columns) >= maxColumns {
		clear(p.columns)
	}
	c := &column{name: string(p.scratch), key: slices.Index(p.keys, string(p.scratch))}
	c.isLabel = c.name == p.labelField
	if !c.isLabel && c.key < 0 && p.wanted(c.name) {
		c.property = p.property(c.name)
	}
	p.columns[c.name] = c
	return c
}
