package main

import (
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"

	graphmill "github.com/graphmill/graphmill/sdk/go"
)

// maxName is the longest label or key property, in bytes: a longer one is data by
// mistake.
const maxName = 1000

// quoted returns a name as it may stand in a query, in backticks. Within them two
// backticks stand for one, and nothing else has a meaning but for one thing: Neo4j
// replaces \u0060 and its like anywhere in a query before it reads it. There is no way
// to write such a name, so it is refused.
func quoted(name string) (string, error) {
	switch {
	case name == "":
		return "", errors.New("a name is empty")
	case len(name) > maxName:
		return "", errors.New("the name " + strconv.Quote(clip(name)) + " is longer than 1,000 bytes")
	case !utf8.ValidString(name):
		return "", errors.New("the name " + strconv.Quote(clip(name)) + " is not UTF-8")
	case strings.ContainsRune(name, 0):
		return "", errors.New("the name " + strconv.Quote(clip(name)) + " holds a zero byte")
	case strings.Contains(name, `\u`):
		return "", errors.New("the name " + strconv.Quote(clip(name)) + ` holds \u, which a query cannot`)
	}
	return "`" + strings.ReplaceAll(name, "`", "``") + "`", nil
}

// pattern is the node of a label, by its key properties.
func (p *plan) pattern(label string) string {
	if len(p.keys) == 0 {
		return "(n:" + label + ")"
	}
	var b strings.Builder
	b.WriteString("(n:" + label + " {")
	for i, key := range p.keys {
		if i > 0 {
			b.WriteString(", ")
		}
		name, _ := quoted(p.property(key)) // looked at in newPlan
		b.WriteString(name + ": $" + keyName(i))
	}
	b.WriteString("})")
	return b.String()
}

// maxQueries bounds the labels that are remembered.
const maxQueries = 1000

// query returns the query for a label in backticks: always the same one, since equal
// texts are what the database gets in one go.
func (p *plan) query(label string) *graphmill.Query {
	if p.latest.query == nil || p.latest.label != label {
		p.latest.label, p.latest.query = label, p.queryOf(label)
	}
	return p.latest.query
}

func (p *plan) queryOf(label string) *graphmill.Query {
	if q := p.queries[label]; q != nil {
		return q
	}
	verb := "MERGE "
	if len(p.keys) == 0 {
		verb = "CREATE "
	}
	q := graphmill.NewQuery(verb+p.pattern(label)+" SET n += $props", append(keyNames(len(p.keys)), "props")...)
	if len(p.queries) >= maxQueries {
		clear(p.queries)
	}
	p.queries[label] = q
	return q
}

func keyName(i int) string { return "key" + strconv.Itoa(i+1) }

func keyNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = keyName(i)
	}
	return names
}

// clip cuts a text for an error message.
func clip(s string) string {
	const most = 60
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "..."
	}
	return s
}
