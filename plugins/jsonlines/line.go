package main

import (
	"errors"
	"strconv"

	"github.com/graphmill/graphmill/sdk/go/json"
)

// field is a field of an object, flattened.
type field struct {
	name string
	kind json.Kind // of its value; BeginArray for arrays
	raw  []byte    // its value as JSON text
}

// read reads an object into p.fields. Of a field that stands twice both are there.
func (p *plan) read(line []byte) error {
	p.fields = p.fields[:0]
	var r json.Reader
	r.Reset(line)
	switch kind := r.Next(); kind {
	case json.BeginObject:
	case json.Invalid:
		return r.Err()
	default:
		return errors.New("it is " + kind.String() + ", not an object")
	}
	if err := p.readObject(&r, line, ""); err != nil {
		return err
	}
	if r.Next() == json.Invalid {
		return r.Err()
	}
	return nil
}

// readObject reads the fields of an object whose brace has been read. Names begin with
// prefix.
func (p *plan) readObject(r *json.Reader, line []byte, prefix string) error {
	for {
		switch r.Next() {
		case json.Invalid:
			return r.Err()
		case json.EndObject:
			return nil
		}
		name := p.name(prefix, r.Text())
		if len(name) == len(prefix) {
			return errors.New("a field has an empty name, which no property can have")
		}
		start := r.Offset()
		kind := r.Next()
		switch kind {
		case json.Invalid:
			return r.Err()
		case json.BeginObject:
			switch {
			case p.wanted(name) && !p.flatten:
				return errors.New("field " + quote(name) + " is an object; the setting nested may be flatten")
			case p.flatten:
				if r.Depth() > maxDepth {
					return errors.New("objects are nested more than 64 deep")
				}
				if err := p.readObject(r, line, name+p.separator); err != nil {
					return err
				}
				continue
			}
			if r.Skip(); r.Err() != nil {
				return r.Err()
			}
			continue
		case json.BeginArray:
			if r.Skip(); r.Err() != nil {
				return r.Err()
			}
		}
		p.fields = append(p.fields, field{name, kind, line[start:r.Offset()]})
	}
}

// maxDepth is how deep objects may be nested to be flattened.
const maxDepth = 64

func quote(name string) string { return strconv.Quote(clip(name)) }

// maxNames bounds the names that are remembered.
const maxNames = 1000

// name returns the name of a field, whose text is good until the next token only. The
// same few come with every object: they are made once.
func (p *plan) name(prefix string, text []byte) string {
	p.scratch = append(append(p.scratch[:0], prefix...), text...)
	if name, ok := p.names[string(p.scratch)]; ok {
		return name
	}
	if len(p.names) >= maxNames {
		clear(p.names)
	}
	name := string(p.scratch)
	p.names[name] = name
	return name
}
