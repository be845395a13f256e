package main

import (
	"errors"
	"strings"
	"unicode/utf8"

	graphmill "github.com/graphmill/graphmill/sdk/go"
)

// plan is how a message becomes a statement.
type plan struct {
	query      *graphmill.Query
	parameters []parameter // in the order of the query's names
	usesEvent  bool

	options    []graphmill.JSONOption // how the event is read
	tombstones string                 // fail, drop, null
}

// parameter is one of the parameters that a message gives.
type parameter struct {
	name string
	give func(p *plan, m graphmill.Message, s graphmill.Statement)
}

// known are all parameters.
var known = []parameter{
	{"event", func(p *plan, m graphmill.Message, s graphmill.Statement) { s.JSON(m.Payload(), p.options...) }},
	{"key", func(_ *plan, m graphmill.Message, s graphmill.Statement) { textOrBytes(s, m.Key()) }},
	{"topic", func(_ *plan, m graphmill.Message, s graphmill.Statement) { s.String(m.Topic()) }},
	{"partition", func(_ *plan, m graphmill.Message, s graphmill.Statement) { position(s, int64(m.Partition())) }},
	{"offset", func(_ *plan, m graphmill.Message, s graphmill.Statement) { position(s, m.Offset()) }},
	{"timestamp", func(_ *plan, m graphmill.Message, s graphmill.Statement) { s.Int(m.Timestamp()) }},
	{"headers", func(_ *plan, m graphmill.Message, s graphmill.Statement) { giveHeaders(m, s) }},
}

const maxQuery = 1 << 20 // bytes

// newPlan reads the settings.
func newPlan(s graphmill.Settings) (*plan, error) {
	if err := s.Only("query", "big_integers", "tombstones"); err != nil {
		return nil, err
	}
	text, ok := s["query"]
	switch {
	case !ok:
		return nil, errors.New("the setting query is missing: the Cypher to run for each message, such as " +
			"{'query': 'MERGE (u:User {id: $event.userId}) SET u.name = $event.name'}")
	case len(text) > maxQuery:
		return nil, errors.New("setting query: it is longer than 1 MiB")
	case !utf8.ValidString(text):
		return nil, errors.New("setting query: it is not UTF-8")
	}
	read, err := readQuery(text)
	if err != nil {
		return nil, errors.New("setting query: " + err.Error())
	}
	p := &plan{}
	big, err := s.Choice("big_integers", "fail", "string")
	if err != nil {
		return nil, err
	}
	if big == "string" {
		p.options = append(p.options, graphmill.BigIntegersAsText())
	}
	if p.tombstones, err = s.Choice("tombstones", "fail", "drop", "null"); err != nil {
		return nil, err
	}
	if err := p.take(read); err != nil {
		return nil, errors.New("setting query: " + err.Error())
	}
	return p, nil
}

// take makes the plan of a query.
func (p *plan) take(q queryText) error {
	for _, name := range q.parameters {
		parameter, ok := find(name)
		if !ok {
			return errors.New("it uses $" + name + ", and a message gives " + knownNames())
		}
		p.parameters = append(p.parameters, parameter)
		p.usesEvent = p.usesEvent || name == "event"
	}
	p.query = graphmill.NewQuery(q.text, q.parameters...)
	if len(q.fields) > 0 {
		p.options = append(p.options, graphmill.OnlyFields(q.fields...))
	}
	return nil
}

func find(name string) (parameter, bool) {
	for _, p := range known {
		if p.name == name {
			return p, true
		}
	}
	return parameter{}, false
}

func knownNames() string {
	names := make([]string, len(known))
	for i, p := range known {
		names[i] = "$" + p.name
	}
	return strings.Join(names, ", ")
}

// apply is the handler of messages.
func (p *plan) apply(m graphmill.Message, out graphmill.Output) error {
	if p.usesEvent && m.Payload() == nil {
		switch p.tombstones {
		case "drop":
			return nil
		case "fail":
			return errors.New("the message has no payload (a tombstone), and the query uses $event; the setting tombstones may be drop or null")
		}
	}
	s := out.Statement(p.query)
	for i := range p.parameters {
		p.parameters[i].give(p, m, s)
	}
	return nil
}

// textOrBytes gives a string if b is UTF-8, else bytes, and null where it is nil.
func textOrBytes(s graphmill.Statement, b []byte) {
	if utf8.Valid(b) {
		s.Text(b)
	} else {
		s.Bytes(b)
	}
}

// position gives a partition or an offset, which are -1 where there are none.
func position(s graphmill.Statement, n int64) {
	if n < 0 {
		s.Null()
	} else {
		s.Int(n)
	}
}

// giveHeaders gives the headers as a map. Of several of one name the last one
// counts, as it does in the map of a statement.
func giveHeaders(m graphmill.Message, s graphmill.Statement) {
	s.Map()
	for key, value := range m.Headers() {
		textOrBytes(s.Key(key), value)
	}
	s.End()
}
