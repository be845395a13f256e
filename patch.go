package graphmill

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Patched returns the definition changed by a JSON merge patch (RFC 7396): an
// option that the patch names gets its value, null gives it its default, and of
// configs, credentials and settings only the entries that the patch names change,
// null removing one. Secrets that the patch does not name stay.
//
// Errors are of KindInvalid and name the option: one that is not known, a value
// that does not fit, a change of name or source, which a stream keeps. The
// definition is checked as a whole. No value stands in an error.
func (s StreamSpec) Patched(patch []byte) (StreamSpec, error) {
	var changes map[string]json.RawMessage
	if err := json.Unmarshal(patch, &changes); err != nil || changes == nil {
		return s, Invalid("", "a patch is a JSON object with the options that change")
	}
	patched := s
	options := patched.options()
	for _, name := range slices.Sorted(maps.Keys(changes)) {
		option, ok := options[name]
		if !ok {
			e := Invalid(name, "a stream has no such option")
			if near := Nearest(name, slices.Sorted(maps.Keys(options))); near != "" {
				e.Text += "; did you mean " + near + "?"
			}
			return s, e
		}
		if err := patchOption(name, option, changes[name]); err != nil {
			return s, err
		}
	}
	patched = patched.WithDefaults()
	switch {
	case patched.Name != s.Name:
		return s, Invalid("name", "a stream keeps its name; create another one under the new name")
	case patched.Source != s.Source:
		return s, Invalid("source", "a stream keeps its source; create another one")
	}
	if patched.TopicsPattern != "" && len(patched.Topics) > 0 {
		return s, topicsTwice(changes)
	}
	return patched, patched.Validate()
}

// topicsTwice is the error of a patch that leaves a stream with topics and a pattern
// of them.
func topicsTwice(changes map[string]json.RawMessage) error {
	brought, there := "topics_pattern", "topics"
	_, patternGiven := changes[brought]
	_, topicsGiven := changes[there]
	switch {
	case topicsGiven && patternGiven:
		return Invalid(brought, "topics are given too; only one of the two can be meant").advise("give topics, or the pattern in their place")
	case topicsGiven:
		brought, there = there, brought
	}
	return Invalid(brought, "the stream has %s, and can have one of the two only", there).
		advise(fmt.Sprintf("take the other one out by the same change: --unset %s (%q: null; in a statement %s NULL)", strings.ReplaceAll(there, "_", "-"), there, strings.ToUpper(there)))
}

// Differences lists the options in which two definitions differ, in the order of
// the definition. Of maps it lists the entries, as settings.NAME.
func (s StreamSpec) Differences(other StreamSpec) []string {
	differ := []string{}
	a, b := reflect.ValueOf(s), reflect.ValueOf(other)
	for i := range a.NumField() {
		name := optionName(a.Type().Field(i))
		x, y := a.Field(i).Interface(), b.Field(i).Interface()
		was, isMap := x.(map[string]string)
		switch {
		case isMap:
			differ = append(differ, differentEntries(name, was, y.(map[string]string))...)
		case a.Field(i).Kind() == reflect.Slice && a.Field(i).Len() == 0 && b.Field(i).Len() == 0:
		case !reflect.DeepEqual(x, y):
			differ = append(differ, name)
		}
	}
	return differ
}

func differentEntries(option string, a, b map[string]string) []string {
	var differ []string
	all := maps.Clone(a)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, b)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		was, had := a[name]
		is, has := b[name]
		if had != has || was != is {
			differ = append(differ, option+"."+name)
		}
	}
	return differ
}

// options returns the fields of the definition by the names that they have in
// JSON.
func (s *StreamSpec) options() map[string]reflect.Value {
	v := reflect.ValueOf(s).Elem()
	options := make(map[string]reflect.Value, v.NumField())
	for i := range v.NumField() {
		options[optionName(v.Type().Field(i))] = v.Field(i)
	}
	return options
}

func optionName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// patchOption gives an option the value of a patch.
func patchOption(name string, option reflect.Value, change json.RawMessage) error {
	if bytes.Equal(bytes.TrimSpace(change), []byte("null")) {
		option.SetZero()
		return nil
	}
	if entries, ok := option.Interface().(map[string]string); ok {
		patched, err := patchEntries(name, entries, change)
		if err == nil {
			option.Set(reflect.ValueOf(patched))
		}
		return err
	}
	value := reflect.New(option.Type())
	if err := json.Unmarshal(change, value.Interface()); err != nil {
		return misfit(name, err)
	}
	if value.Elem().CanInt() && value.Elem().IsZero() {
		return Invalid(name, "0 is no value for it; null gives it its default")
	}
	if value.Elem().Kind() == reflect.String && value.Elem().IsZero() {
		return Invalid(name, "an empty text is no value for it; null gives it its default")
	}
	option.Set(value.Elem())
	return nil
}

func patchEntries(option string, entries map[string]string, change json.RawMessage) (map[string]string, error) {
	var changes map[string]*string
	if err := json.Unmarshal(change, &changes); err != nil {
		return nil, misfit(option, err)
	}
	entries = maps.Clone(entries)
	if entries == nil {
		entries = map[string]string{}
	}
	for name, value := range changes {
		if value == nil {
			delete(entries, name)
		} else {
			entries[name] = *value
		}
	}
	if len(entries) == 0 {
		return nil, nil
	}
	return entries, nil
}

// misfit tells that a value is of the wrong type, without the value.
func misfit(option string, err error) error {
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) {
		return Invalid(option, "the value cannot be read as JSON")
	}
	kind, _, _ := strings.Cut(wrong.Value, " ") // "number 1.5" tells the value
	return Invalid(option, "a JSON %s does not fit there", kind)
}
