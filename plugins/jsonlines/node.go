package main

import (
	"bytes"
	"errors"
	"strconv"
	"unicode/utf8"

	graphmill "github.com/graphmill/graphmill/sdk/go"
	"github.com/graphmill/graphmill/sdk/go/json"
)

// apply is the handler of messages.
func (p *plan) apply(m graphmill.Message, out graphmill.Output) error {
	payload := m.Payload()
	if payload == nil {
		if p.deletes {
			return p.delete(m, out)
		}
		return nil
	}
	if i := bytes.IndexByte(payload, '\n'); i >= 0 && p.isObject(payload[:i]) {
		return p.lines(payload, out)
	}
	return p.node(payload, out)
}

// isObject tells whether a line is a whole object, and not the beginning of one that
// goes on in the next lines; or blank.
func (p *plan) isObject(line []byte) bool {
	var r json.Reader
	r.Reset(line)
	kind := r.Next()
	r.Skip()
	return len(bytes.TrimSpace(line)) == 0 || kind == json.BeginObject && r.Next() == json.End
}

// lines makes a node of each line that is not blank.
func (p *plan) lines(payload []byte, out graphmill.Output) error {
	found := false
	for number := 1; len(payload) > 0; number++ {
		line, rest, _ := bytes.Cut(payload, []byte("\n"))
		payload = rest
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		found = true
		if err := p.node(line, out); err != nil {
			return errors.New("line " + strconv.Itoa(number) + ": " + err.Error())
		}
	}
	if !found {
		return errors.New("the payload is blank")
	}
	return nil
}

// node adds the statement of one object.
func (p *plan) node(line []byte, out graphmill.Output) error {
	if err := p.read(line); err != nil {
		return err
	}
	label, err := p.find()
	if err != nil {
		return err
	}
	s := out.Statement(p.query(label))
	for i, key := range p.keys {
		if err := p.giveKey(s, key, p.found[i]); err != nil {
			return err
		}
	}
	s.Map()
	for i := range p.fields {
		f := &p.fields[i]
		if f.property == "" || f.kind == json.Null && p.nullsStay {
			continue
		}
		if err := p.give(s.Key(f.property), f); err != nil {
			return err
		}
	}
	s.End()
	return nil
}

// find looks for the label and for the fields of the key. Of a field that stands twice
// the last one counts.
func (p *plan) find() (label string, err error) {
	label = p.label
	for i := range p.found {
		p.found[i] = -1
	}
	for i := range p.fields {
		f := &p.fields[i]
		if f.isLabel && f.kind != json.Null {
			if f.kind != json.String {
				return "", errors.New("field " + quote(f.name) + " is " + f.kind.String() + " where a label is needed")
			}
			if label, err = quoted(text(f.raw)); err != nil {
				return "", errors.New("field " + quote(f.name) + " is no label: " + err.Error())
			}
		}
		if f.key >= 0 {
			p.found[f.key] = i
		}
	}
	if label == "" {
		return "", errors.New("field " + quote(p.labelField) + ", which holds the label, is missing or null; the setting label may be one for such objects")
	}
	return label, nil
}

// giveKey gives the value of a field of the key; number is that of the field, or -1.
func (p *plan) giveKey(s graphmill.Statement, key string, number int) error {
	if number < 0 {
		return errors.New("field " + quote(key) + " of the key is missing")
	}
	f := &p.fields[number]
	if f.kind == json.Null || f.kind == json.BeginArray {
		return errors.New("field " + quote(key) + " of the key is " + f.kind.String())
	}
	return p.give(s, f)
}

// give gives the value of a field.
func (p *plan) give(s graphmill.Statement, f *field) error {
	switch f.kind {
	case json.Number:
		return p.giveNumber(s, f.name, f.raw, false)
	case json.BeginArray:
		return p.giveArray(s, f)
	case json.String:
		if bytes.IndexByte(f.raw, '\\') < 0 {
			s.Text(f.raw[1 : len(f.raw)-1])
			return nil
		}
	}
	s.JSON(f.raw) // checked to be JSON, and nothing in it can fail
	return nil
}

// giveNumber gives a number, as a float if it is to be one in any case.
func (p *plan) giveNumber(s graphmill.Statement, name string, number []byte, float bool) error {
	if !float {
		if n, ok := json.ParseInt(number); ok {
			s.Int(n)
			return nil
		}
		if json.IsInt(number) {
			if !p.bigText {
				return errors.New("field " + quote(name) + ": the integer " + clip(string(number)) + " does not fit into 64 bits; the setting big_integers may be string")
			}
			s.Text(number)
			return nil
		}
	}
	v, ok := json.ParseFloat(number)
	if !ok {
		return errors.New("field " + quote(name) + ": the number " + clip(string(number)) + " does not fit into a float of 64 bits")
	}
	s.Float(v)
	return nil
}

// giveArray gives an array of one type.
func (p *plan) giveArray(s graphmill.Statement, f *field) error {
	kind, floats, err := elements(f)
	if err != nil {
		return err
	}
	s.List()
	var r json.Reader
	r.Reset(f.raw)
	r.Next() // its bracket
	for {
		switch r.Next() {
		case json.EndArray:
			s.End()
			return nil
		case json.Number:
			number := r.Text()
			if n, ok := json.ParseInt(number); kind == json.Number && !floats && !ok && p.bigText {
				return errors.New("field " + quote(f.name) + ": the integer " + clip(string(number)) + " does not fit into 64 bits, and as a string it would not go with the others")
			} else if ok && !floats {
				s.Int(n)
			} else if err := p.giveNumber(s, f.name, number, floats); err != nil {
				return err
			}
		case json.String:
			s.Text(r.Text())
		case json.True:
			s.Bool(true)
		case json.False:
			s.Bool(false)
		}
	}
}

// elements returns the kind of an array's elements, and whether numbers among them have
// a fraction or an exponent.
func elements(f *field) (kind json.Kind, floats bool, err error) {
	var r json.Reader
	r.Reset(f.raw)
	r.Next() // its bracket
	for {
		k := r.Next()
		switch k {
		case json.EndArray:
			return kind, floats, nil
		case json.False:
			k = json.True // a boolean
		case json.Number:
			floats = floats || !json.IsInt(r.Text())
		case json.Null, json.BeginObject, json.BeginArray:
			return kind, false, errors.New("field " + quote(f.name) + ": an array holds " + k.String() + ", which no property can")
		}
		if kind != json.Invalid && k != kind {
			return kind, false, errors.New("field " + quote(f.name) + ": an array holds " + kind.String() + " and " + k.String() + "; a property holds values of one type")
		}
		kind = k
	}
}

// delete adds the statement of a tombstone.
func (p *plan) delete(m graphmill.Message, out graphmill.Output) error {
	key := m.Key()
	if key == nil {
		return errors.New("a tombstone without a key: there is nothing to delete by")
	}
	switch p.messageKey {
	case "text":
		if !utf8.Valid(key) {
			return errors.New("the message's key is not UTF-8")
		}
		out.Statement(p.remove).Text(key)
		return nil
	case "integer":
		n, err := strconv.ParseInt(string(key), 10, 64)
		if err != nil {
			return errors.New("the message's key " + quote(string(key)) + " is not an integer of 64 bits")
		}
		out.Statement(p.remove).Int(n)
		return nil
	}
	if err := p.deleteJSON(key, out.Statement(p.remove)); err != nil {
		return errors.New("the message's key: " + err.Error())
	}
	return nil
}

// deleteJSON gives the parameters of a tombstone whose key is JSON.
func (p *plan) deleteJSON(key []byte, s graphmill.Statement) error {
	var r json.Reader
	r.Reset(key)
	if kind := r.Next(); kind != json.BeginObject {
		r.Skip()
		if r.Next() == json.Invalid {
			return r.Err()
		}
		if len(p.keys) > 1 {
			return errors.New("it is " + kind.String() + ", not an object with the fields of the key")
		}
		p.fields = append(p.fields[:0], field{p.column("", []byte(p.keys[0])), kind, bytes.TrimSpace(key)})
		return p.giveKey(s, p.keys[0], 0)
	}
	if err := p.read(key); err != nil {
		return err
	}
	for i, name := range p.keys {
		p.found[i] = -1
		for k, f := range p.fields {
			if f.key == i {
				p.found[i] = k
			}
		}
		if err := p.giveKey(s, name, p.found[i]); err != nil {
			return err
		}
	}
	return nil
}

// text returns the characters of a string that is JSON.
func text(raw []byte) string {
	var r json.Reader
	r.Reset(raw)
	r.Next()
	return string(r.Text())
}
