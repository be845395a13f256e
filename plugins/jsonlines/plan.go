package main

import (
	"errors"
	"strconv"
	"strings"

	graphmill "github.com/graphmill/graphmill/sdk/go"
	"github.com/graphmill/graphmill/sdk/go/json"
)

// plan is what the settings say.
type plan struct {
	label      string // in backticks; "" where objects have to have one
	labelField string

	keys   []string // fields
	take   map[string]bool
	leave  map[string]bool
	rename map[string]string

	nullsStay bool
	flatten   bool
	separator string
	bigText   bool

	deletes    bool
	messageKey string // text, integer, json

	queries map[string]*graphmill.Query // by label in backticks
	latest  struct {                    // the one that was asked for last
		label string
		query *graphmill.Query
	}
	remove *graphmill.Query

	columns map[string]*column // of fields seen before, by name

	// Of the line in hand, kept for the next one.
	reader  json.Reader
	fields  []field
	found   []int // by key: the number of its field, -1 if there is none
	scratch []byte
}

// newPlan reads the settings.
func newPlan(s graphmill.Settings) (*plan, error) {
	if err := s.Only("label", "label_field", "key", "take", "leave", "rename", "null", "nested", "separator", "big_integers", "tombstones", "message_key"); err != nil {
		return nil, err
	}
	p := &plan{labelField: s["label_field"], separator: ".", queries: map[string]*graphmill.Query{}, columns: map[string]*column{}}
	if label, ok := s["label"]; ok {
		var err error
		if p.label, err = quoted(label); err != nil {
			return nil, errors.New("setting label: " + err.Error())
		}
	}
	if p.label == "" && p.labelField == "" {
		return nil, errors.New("the setting label is missing: the label of the nodes, such as {'label': 'User', 'key': 'id'}; or label_field, the field that holds it")
	}
	if err := p.readChoices(s); err != nil {
		return nil, err
	}
	if err := p.readNames(s); err != nil {
		return nil, err
	}
	return p, p.readTombstones(s)
}

func (p *plan) readChoices(s graphmill.Settings) error {
	null, err := s.Choice("null", "remove", "leave")
	if err != nil {
		return err
	}
	nested, err := s.Choice("nested", "fail", "flatten")
	if err != nil {
		return err
	}
	big, err := s.Choice("big_integers", "fail", "string")
	if err != nil {
		return err
	}
	p.nullsStay, p.flatten, p.bigText = null == "leave", nested == "flatten", big == "string"
	separator, ok := s["separator"]
	switch {
	case !ok:
	case !p.flatten:
		return errors.New("setting separator: it is for nested = flatten")
	default:
		p.separator = separator
	}
	return nil
}

// readNames reads the settings that are lists of fields.
func (p *plan) readNames(s graphmill.Settings) (err error) {
	if p.keys, err = list(s, "key"); err != nil {
		return err
	}
	take, err := list(s, "take")
	if err != nil {
		return err
	}
	leave, err := list(s, "leave")
	if err != nil {
		return err
	}
	if take != nil && leave != nil {
		return errors.New("settings take and leave: give one of them")
	}
	p.take, p.leave = set(take), set(leave)
	pairs, err := list(s, "rename")
	if err != nil {
		return err
	}
	p.rename = map[string]string{}
	for _, pair := range pairs {
		from, to, ok := strings.Cut(pair, "=")
		from, to = strings.TrimSpace(from), strings.TrimSpace(to)
		if !ok || from == "" || to == "" {
			return errors.New("setting rename: " + strconv.Quote(pair) + " is not of the form from=to")
		}
		if p.rename[from] != "" {
			return errors.New("setting rename: " + strconv.Quote(from) + " is there twice")
		}
		p.rename[from] = to
	}
	for _, key := range p.keys {
		if _, err := quoted(p.property(key)); err != nil {
			return errors.New("setting key: " + err.Error())
		}
		if key == p.labelField {
			return errors.New("setting key: " + strconv.Quote(key) + " is the label_field")
		}
	}
	p.found = make([]int, len(p.keys))
	return nil
}

func (p *plan) readTombstones(s graphmill.Settings) error {
	tombstones, err := s.Choice("tombstones", "drop", "delete")
	if err != nil {
		return err
	}
	if p.messageKey, err = s.Choice("message_key", "text", "integer", "json"); err != nil {
		return err
	}
	p.deletes = tombstones == "delete"
	switch {
	case !p.deletes:
		if _, ok := s["message_key"]; ok {
			return errors.New("setting message_key: it is for tombstones = delete")
		}
		return nil
	case len(p.keys) == 0:
		return errors.New("setting tombstones: delete needs the setting key, to know by what")
	case p.label == "":
		return errors.New("setting tombstones: delete needs the setting label, since a tombstone has no fields to read one from")
	case len(p.keys) > 1 && p.messageKey != "json":
		return errors.New("setting tombstones: delete by several fields needs message_key = json: an object with those fields")
	}
	p.remove = graphmill.NewQuery("MATCH "+p.pattern(p.label)+" DETACH DELETE n", keyNames(len(p.keys))...)
	return nil
}

// list reads a setting of names separated by commas, nil where it is not set.
func list(s graphmill.Settings, name string) ([]string, error) {
	text, ok := s[name]
	if !ok {
		return nil, nil
	}
	names := []string{}
	seen := map[string]bool{}
	for _, part := range strings.Split(text, ",") {
		part = strings.TrimSpace(part)
		switch {
		case part == "":
			return nil, errors.New("setting " + name + ": a name is empty in " + strconv.Quote(text))
		case seen[part]:
			return nil, errors.New("setting " + name + ": " + strconv.Quote(part) + " is there twice")
		}
		seen[part] = true
		names = append(names, part)
	}
	return names, nil
}

func set(names []string) map[string]bool {
	if names == nil {
		return nil
	}
	m := make(map[string]bool, len(names))
	for _, name := range names {
		m[name] = true
	}
	return m
}

// property is the name of the property that a field becomes.
func (p *plan) property(field string) string {
	if to, ok := p.rename[field]; ok {
		return to
	}
	return field
}

// wanted tells whether a field becomes a property.
func (p *plan) wanted(field string) bool {
	if p.take != nil {
		return p.take[field]
	}
	return !p.leave[field]
}
