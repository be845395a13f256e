package main

import (
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/graphmill/graphmill"
)

// optionNames are the options of a definition as REST and YAML name them, in
// their order.
var optionNames = func() []string {
	var names []string
	for _, field := range reflect.VisibleFields(reflect.TypeFor[graphmill.StreamSpec]()) {
		name, _, _ := strings.Cut(field.Tag.Get("yaml"), ",")
		names = append(names, name)
	}
	return names
}()

// optionFields returns pointers to the fields of a definition, by the names of
// the options.
func optionFields(spec *graphmill.StreamSpec) map[string]any {
	fields := make(map[string]any, len(optionNames))
	v := reflect.ValueOf(spec).Elem()
	for i, name := range optionNames {
		fields[name] = v.Field(i).Addr().Interface()
	}
	return fields
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// resolve returns what a value stands for. It fails where the file has more
// values than are taken, each counted wherever an alias repeats it.
func (f *yamlFile) resolve(n *yaml.Node) (*yaml.Node, error) {
	if f.values--; f.values < 0 {
		return nil, f.wrong(n.Line, "the file has more than %d values, aliases counted wherever they stand", maxYAMLValues)
	}
	if n.Kind == yaml.AliasNode {
		n = n.Alias // none itself: an alias has no anchor
	}
	return n, nil
}

// fields returns the entries of a map: its own, and those that '<<' takes from
// others, which it may write over. what says what it is to be.
func (f *yamlFile) fields(n *yaml.Node, what string) ([]yamlField, error) {
	return f.fieldsWithin(n, what, 0)
}

func (f *yamlFile) fieldsWithin(n *yaml.Node, what string, depth int) ([]yamlField, error) {
	line := n.Line
	n, err := f.resolve(n)
	switch {
	case err != nil:
		return nil, err
	case n.Kind != yaml.MappingNode:
		return nil, f.wrong(line, "%s", what)
	case depth > maxYAMLMerges:
		return nil, f.wrong(line, "maps are merged (<<) into each other more than %d deep", maxYAMLMerges)
	}
	var fields, merged []yamlField
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, err := f.resolve(n.Content[i])
		if err != nil {
			return nil, err
		}
		value, err := f.resolve(n.Content[i+1])
		switch {
		case err != nil:
			return nil, err
		case key.Kind != yaml.ScalarNode:
			return nil, f.wrong(key.Line, "a key is a word")
		case key.ShortTag() == "!!merge":
			more, err := f.merge(value, depth)
			if err != nil {
				return nil, err
			}
			merged = append(merged, more...)
		case seen[key.Value]:
			return nil, f.wrong(n.Content[i].Line, "the key %q stands there twice", clip(key.Value, 60))
		default:
			seen[key.Value] = true
			fields = append(fields, yamlField{key.Value, n.Content[i].Line, value})
		}
	}
	for _, m := range merged { // of several maps the first counts
		if !seen[m.name] {
			seen[m.name] = true
			fields = append(fields, m)
		}
	}
	return fields, nil
}

// merge returns the entries of a map, or of each of a list of maps, in its order.
func (f *yamlFile) merge(n *yaml.Node, depth int) ([]yamlField, error) {
	const what = "behind '<<' stands the alias of a map, or a list of such"
	if n.Kind != yaml.SequenceNode {
		return f.fieldsWithin(n, what, depth+1)
	}
	var all []yamlField
	for _, item := range n.Content {
		fields, err := f.fieldsWithin(item, what, depth+1)
		if err != nil {
			return nil, err
		}
		all = append(all, fields...)
	}
	return all, nil
}

// list returns the items of a list; none of null.
func (f *yamlFile) list(n *yaml.Node, what string) ([]*yaml.Node, error) {
	line := n.Line
	n, err := f.resolve(n)
	switch {
	case err != nil:
		return nil, err
	case n.Kind == yaml.SequenceNode:
		return n.Content, nil
	case isNull(n):
		return nil, nil
	}
	return nil, f.wrong(line, "%s", what)
}

// text returns a value that is a text. Numbers and truth values are taken as they
// are written: in configs and settings people write them without quotes.
func (f *yamlFile) text(n *yaml.Node, name string) (string, error) {
	line := n.Line
	n, err := f.resolve(n)
	if err != nil {
		return "", err
	}
	if n.Kind == yaml.ScalarNode {
		switch n.ShortTag() {
		case "!!str", "!!int", "!!float", "!!bool", "!!timestamp", "!!merge": // '<<' is none there
			return n.Value, nil
		case "!!null":
			return "", nil
		}
	}
	return "", f.wrong(line, "%s is a text", name)
}

func (f *yamlFile) texts(n *yaml.Node, name string) ([]string, error) {
	items, err := f.list(n, name+" is a list, such as [a, b]")
	if err != nil {
		return nil, err
	}
	var texts []string
	for _, item := range items {
		text, err := f.text(item, name+": each item")
		if err != nil {
			return nil, err
		}
		texts = append(texts, text)
	}
	return texts, nil
}

// number returns a value that is a positive integer; 0 of null.
func (f *yamlFile) number(n *yaml.Node, name string) (int64, error) {
	line := n.Line
	n, err := f.resolve(n)
	if err != nil {
		return 0, err
	}
	if isNull(n) {
		return 0, nil
	}
	var value int64
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!int" || n.Decode(&value) != nil {
		return 0, f.wrong(line, "%s is an integer", name)
	}
	if value < 1 {
		return 0, f.wrong(line, "%s is at least 1; leave it out for the default", name)
	}
	return value, nil
}
