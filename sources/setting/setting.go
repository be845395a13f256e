// Package setting reads the settings of a broker's client from CONFIGS and
// CREDENTIALS, by the names that its users know from elsewhere: each package that
// adapts a broker has a table of all such names, which says of each what it is
// here, and from which the reference in the documents is made.
package setting

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Setting is one name that a client of the broker knows, and what it is here.
type Setting struct {
	Name    string
	Aliases []string
	Kind    Kind
	Min     int64    // of integers and decimals
	Max     int64    //
	Words   []string // of words: those that may stand; of a fixed setting: one of what it may be
	Default string   // that of the client whose names these are

	Use  Use
	Only string // of a fixed setting: the value that it has
	Says string // what it does here, or why it does not
}

// Kind is the form of a setting's value.
type Kind string

// The kinds.
const (
	KindText     Kind = "string"
	KindInteger  Kind = "integer"
	KindDecimal  Kind = "float"
	KindBool     Kind = "boolean"
	KindWord     Kind = "enum"
	KindFlags    Kind = "CSV flags"
	KindFunction Kind = "function" // set by a program through the client's interface, never as text
)

// Use is what becomes of a setting.
type Use string

// The uses.
const (
	UseApplied Use = "applied"
	UseFixed   Use = "fixed"   // taken with the one value that it has here
	UseIgnored Use = "ignored" // taken with a notification
	UseRefused Use = "refused"
)

// Value is a value in the form of its kind.
type Value struct {
	Text   string // words in lower case
	Number int64
	On     bool
	Hidden bool // it stands in CREDENTIALS, or is what a reference stands for
}

// Milliseconds is the value of a setting of that unit.
func (v Value) Milliseconds() time.Duration { return time.Duration(v.Number) * time.Millisecond }

// Seconds is the value of a setting of that unit.
func (v Value) Seconds() time.Duration { return time.Duration(v.Number) * time.Second }

// Parse checks a value. No error repeats it: it may be a secret, and it stands
// in the definition.
func (p *Setting) Parse(value string) (Value, error) {
	v := Value{Text: value}
	switch p.Kind {
	case KindInteger:
		n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		if err != nil || n < p.Min || n > p.Max {
			return v, fmt.Errorf("it is a whole number from %d to %d", p.Min, p.Max)
		}
		v.Number = n
	case KindDecimal:
		n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if err != nil || n < float64(p.Min) || n > float64(p.Max) {
			return v, fmt.Errorf("it is a number from %d to %d", p.Min, p.Max)
		}
	case KindBool:
		switch strings.ToLower(value) {
		case "true", "t", "1":
			v.On = true
		case "false", "f", "0":
		default:
			return v, fmt.Errorf("it is true or false")
		}
		v.Text = strconv.FormatBool(v.On)
	case KindWord:
		v.Text = strings.ToLower(value)
		if !slices.ContainsFunc(p.Words, func(w string) bool { return strings.EqualFold(w, value) }) {
			return v, fmt.Errorf("it is one of %s", strings.Join(p.Words, ", "))
		}
	case KindText:
		if value == "" {
			return v, fmt.Errorf("it is empty")
		}
	}
	return v, nil
}

// Text makes a setting of that kind, as the functions below do of theirs.
func Text(name, def string) Setting { return Setting{Name: name, Kind: KindText, Default: def} }

// Flags makes a list of words with commas between them.
func Flags(name, def string) Setting { return Setting{Name: name, Kind: KindFlags, Default: def} }

// Integer makes a whole number from least to most.
func Integer(name string, least, most int64, def string) Setting {
	return Setting{Name: name, Kind: KindInteger, Min: least, Max: most, Default: def}
}

// Decimal makes a number from least to most.
func Decimal(name string, least, most int64, def string) Setting {
	return Setting{Name: name, Kind: KindDecimal, Min: least, Max: most, Default: def}
}

// Boolean makes one of true and false.
func Boolean(name, def string) Setting { return Setting{Name: name, Kind: KindBool, Default: def} }

// Word makes one of a few words, in any case.
func Word(name, def string, words ...string) Setting {
	return Setting{Name: name, Kind: KindWord, Words: words, Default: def}
}

// Functions makes what only a program could set.
func Functions(names ...string) []Setting {
	ps := make([]Setting, 0, len(names))
	for _, n := range names {
		ps = append(ps, Setting{Name: n, Kind: KindFunction})
	}
	return ps
}

// Alias returns the setting with other names that mean it too.
func (p Setting) Alias(names ...string) Setting {
	p.Aliases = names
	return p
}
