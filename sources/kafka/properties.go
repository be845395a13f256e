package kafka

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/graphmill/graphmill"
)

// property is one of librdkafka's settings, and what it is here. All of them
// are in the table of propertytable.go, from which docs/kafka.md is made.
type property struct {
	name    string
	aliases []string
	kind    kind
	min     int64    // of integers and decimals
	max     int64    //
	words   []string // of words: those that may stand; of a fixed property: one of what it may be
	def     string   // librdkafka's default

	use  use
	only string                              // of a fixed property: the value that it has
	says string                              // what it does here, or why it does not
	set  func(s *ClientSettings, v setValue) // of an applied property
}

// kind is the form of a property's value.
type kind string

const (
	kindText     kind = "string"
	kindInteger  kind = "integer"
	kindDecimal  kind = "float"
	kindBool     kind = "boolean"
	kindWord     kind = "enum"
	kindFlags    kind = "CSV flags"
	kindFunction kind = "function" // set by a program through librdkafka's interface, never as text
)

// use is what becomes of a property.
type use string

const (
	useApplied use = "applied"
	useFixed   use = "fixed"   // taken with the one value that it has here
	useIgnored use = "ignored" // taken with a notification
	useRefused use = "refused"
)

// setValue is a value in the form of its kind.
type setValue struct {
	text   string // words in lower case
	number int64
	on     bool
	hidden bool // it stands in CREDENTIALS, or is what a reference stands for
}

// ms is the value of a property whose unit is milliseconds.
func (v setValue) ms() time.Duration { return time.Duration(v.number) * time.Millisecond }

// parse checks a value. No error repeats it: it may be a secret, and it stands
// in the definition.
func (p *property) parse(value string) (setValue, error) {
	v := setValue{text: value}
	switch p.kind {
	case kindInteger:
		n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		if err != nil || n < p.min || n > p.max {
			return v, fmt.Errorf("it is a whole number from %d to %d", p.min, p.max)
		}
		v.number = n
	case kindDecimal:
		n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if err != nil || n < float64(p.min) || n > float64(p.max) {
			return v, fmt.Errorf("it is a number from %d to %d", p.min, p.max)
		}
	case kindBool:
		switch strings.ToLower(value) {
		case "true", "t", "1":
			v.on = true
		case "false", "f", "0":
		default:
			return v, fmt.Errorf("it is true or false")
		}
		v.text = strconv.FormatBool(v.on)
	case kindWord:
		v.text = strings.ToLower(value)
		if !slices.ContainsFunc(p.words, func(w string) bool { return strings.EqualFold(w, value) }) {
			return v, fmt.Errorf("it is one of %s", strings.Join(p.words, ", "))
		}
	case kindText:
		if value == "" {
			return v, fmt.Errorf("it is empty")
		}
	}
	return v, nil
}

// Constructors of properties, by kind.

func text(name, def string) property { return property{name: name, kind: kindText, def: def} }

func flags(name, def string) property { return property{name: name, kind: kindFlags, def: def} }

func integer(name string, least, most int64, def string) property {
	return property{name: name, kind: kindInteger, min: least, max: most, def: def}
}

func decimal(name string, least, most int64, def string) property {
	return property{name: name, kind: kindDecimal, min: least, max: most, def: def}
}

func boolean(name, def string) property { return property{name: name, kind: kindBool, def: def} }

func word(name, def string, words ...string) property {
	return property{name: name, kind: kindWord, words: words, def: def}
}

func functions(names ...string) []property {
	ps := make([]property, 0, len(names))
	for _, n := range names {
		ps = append(ps, property{name: n, kind: kindFunction})
	}
	return ps
}

func (p property) alias(names ...string) property {
	p.aliases = names
	return p
}

// Constructors of what becomes of them.

func applied(p property, says string, set func(*ClientSettings, setValue)) property {
	p.use, p.says, p.set = useApplied, says, set
	return p
}

func fixed(p property, only, says string) property {
	p.use, p.only, p.says = useFixed, only, says
	return p
}

func ignored(says string, ps ...property) []property {
	for i := range ps {
		ps[i].use, ps[i].says = useIgnored, says
	}
	return ps
}

func refused(says string, ps ...property) []property {
	for i := range ps {
		ps[i].use, ps[i].says = useRefused, says
	}
	return ps
}

// propertyIndex finds properties by name and alias.
var propertyIndex = func() map[string]*property {
	index := make(map[string]*property, 2*len(properties))
	for i := range properties {
		p := &properties[i]
		for _, name := range append([]string{p.name}, p.aliases...) {
			index[name] = p
		}
	}
	return index
}()

// findProperty returns the property of that name, or an error of KindInvalid
// about field that says what was meant.
func findProperty(field, name string) (*property, error) {
	if p := propertyIndex[name]; p != nil {
		return p, nil
	}
	if instead, ok := javaNames[name]; ok {
		return nil, graphmill.Invalid(field, "%s is a name of Kafka's Java clients; here it is %s", name, instead)
	}
	known := make([]string, 0, len(propertyIndex))
	for n := range propertyIndex {
		known = append(known, n)
	}
	slices.Sort(known)
	e := graphmill.Invalid(field, "%s is not a setting of librdkafka", clipName(name))
	if near := graphmill.Nearest(name, known); near != "" {
		e.Text += "; did you mean " + near + "?"
	}
	return nil, e
}

// clipName quotes a name that may be anything.
func clipName(name string) string {
	const most = 80
	if len(name) > most {
		name = name[:most] + "..."
	}
	return strconv.Quote(name)
}
