package setting

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/graphmill/graphmill"
)

// Property is a setting with what it sets in S, the settings of a client.
type Property[S any] struct {
	Setting
	Set func(s *S, v Value) // of an applied setting; else nil
}

// Applied makes a setting that takes effect.
func Applied[S any](p Setting, says string, set func(*S, Value)) Property[S] {
	p.Use, p.Says = UseApplied, says
	return Property[S]{p, set}
}

// Fixed makes a setting that has one value here.
func Fixed[S any](p Setting, only, says string) Property[S] {
	p.Use, p.Only, p.Says = UseFixed, only, says
	return Property[S]{Setting: p}
}

// Ignored makes settings without effect.
func Ignored[S any](says string, ps ...Setting) []Property[S] { return used[S](UseIgnored, says, ps) }

// Refused makes settings that cannot be set.
func Refused[S any](says string, ps ...Setting) []Property[S] { return used[S](UseRefused, says, ps) }

func used[S any](use Use, says string, ps []Setting) []Property[S] {
	made := make([]Property[S], 0, len(ps))
	for _, p := range ps {
		p.Use, p.Says = use, says
		made = append(made, Property[S]{Setting: p})
	}
	return made
}

// Foreign are names that users bring along from clients that have others, and
// what to use in their place.
type Foreign struct {
	Clients string // whose names they are
	Instead map[string]string
}

// Table is all settings of a client, each once.
type Table[S any] struct {
	Client     string // whose names these are: "librdkafka"
	Properties []Property[S]
	Foreign    []Foreign
	index      map[string]*Property[S] // by name and alias
}

// NewTable makes a table. The names of properties and their aliases are all
// different, and none of them is foreign.
func NewTable[S any](client string, properties []Property[S], foreign ...Foreign) *Table[S] {
	t := &Table[S]{Client: client, Properties: properties, Foreign: foreign, index: make(map[string]*Property[S], 2*len(properties))}
	for i := range properties {
		p := &properties[i]
		t.index[p.Name] = p
		for _, name := range p.Aliases {
			t.index[name] = p
		}
	}
	return t
}

// Given tells where settings were given.
type Given[S any] struct {
	table *Table[S]
	by    map[*Property[S]]entry
}

// Has says whether the setting was given, by whichever of its names.
func (g Given[S]) Has(name string) bool {
	_, ok := g.by[g.table.index[name]]
	return ok
}

// Field returns "configs" or "credentials": where the setting was given, or would
// be.
func (g Given[S]) Field(name string) string {
	return cmp.Or(g.by[g.table.index[name]].field, "configs")
}

// File reads the file that a setting names. An error is about the setting.
func (g Given[S]) File(name, path string, vault Vault) ([]byte, error) {
	content, err := vault.File(path)
	if err != nil {
		return nil, AboutEntry(g.Field(name), name, err)
	}
	return content, nil
}

// entry is one entry of CONFIGS or CREDENTIALS.
type entry struct{ field, name, value string }

// Take sets in s what CONFIGS and CREDENTIALS say, which differ in nothing but what
// is shown of them. Notifications name what has no effect here.
//
// Errors are *graphmill.Error: of KindInvalid, with the field ("configs" or
// "credentials") and the name of the entry, never its value; or what the vault
// says.
func (t *Table[S]) Take(s *S, configs, credentials map[string]string, vault Vault) (Given[S], []string, error) {
	given := Given[S]{t, map[*Property[S]]entry{}}
	var notes []string
	for _, e := range entriesOf(configs, credentials) {
		p, err := t.find(e.field, e.name)
		if err != nil {
			return given, nil, err
		}
		if before, twice := given.by[p]; twice {
			return given, nil, graphmill.Invalid(e.field, "%s is given twice: %s of %s is the same setting", e.name, before.name, before.field)
		}
		given.by[p] = e
		note, err := p.take(s, e, vault)
		if err != nil {
			return given, nil, err
		}
		if note != "" {
			notes = append(notes, note)
		}
	}
	return given, notes, nil
}

// entriesOf lists all entries, sorted, so that of several mistakes always the
// same one is told.
func entriesOf(configs, credentials map[string]string) []entry {
	entries := make([]entry, 0, len(configs)+len(credentials))
	for field, m := range map[string]map[string]string{"configs": configs, "credentials": credentials} {
		for name, value := range m {
			entries = append(entries, entry{field, name, value})
		}
	}
	slices.SortFunc(entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.field, b.field), cmp.Compare(a.name, b.name))
	})
	return entries
}

// take puts one entry into the settings. A note says that it has no effect.
func (p *Property[S]) take(s *S, e entry, vault Vault) (note string, err error) {
	if p.Use == UseRefused {
		return "", graphmill.Invalid(e.field, "%s cannot be set: %s", e.name, p.Says)
	}
	value := e.value
	name, isRef := graphmill.SecretRef(value)
	if isRef && p.Use == UseApplied && p.Kind == KindText {
		if value, err = vault.Value(name); err != nil {
			return "", AboutEntry(e.field, e.name, err)
		}
	}
	v, err := p.Parse(value)
	if err != nil {
		return "", graphmill.Invalid(e.field, "the value of %s cannot be used: %v", e.name, err)
	}
	v.Hidden = isRef || e.field == "credentials"
	switch p.Use {
	case UseApplied:
		p.Set(s, v)
	case UseFixed:
		if v.Text != p.Only {
			return "", graphmill.Invalid(e.field, "%s is %s here: %s", e.name, p.Only, p.Says)
		}
	case UseIgnored:
		return fmt.Sprintf("%s: %s has no effect: %s", e.field, e.name, p.Says), nil
	}
	return "", nil
}

// find returns the property of that name, or an error of KindInvalid about field
// that says what was meant.
func (t *Table[S]) find(field, name string) (*Property[S], error) {
	if p := t.index[name]; p != nil {
		return p, nil
	}
	for _, foreign := range t.Foreign {
		if instead, ok := foreign.Instead[name]; ok {
			return nil, graphmill.Invalid(field, "%s is a name of %s; here it is %s", name, foreign.Clients, instead)
		}
	}
	known := make([]string, 0, len(t.index))
	for n := range t.index {
		known = append(known, n)
	}
	slices.Sort(known)
	e := graphmill.Invalid(field, "%s is not a setting of %s", clipName(name), t.Client)
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
