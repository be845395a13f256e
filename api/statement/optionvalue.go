package statement

import (
	"cmp"
	"strings"

	"github.com/alecthomas/participle/v2/lexer"
)

// optionValue returns the value of an option as JSON has it; nil for a NULL.
// NULL has a meaning where a definition is changed: the default.
func (r *resolver) optionValue(o option, info *optionInfo, change bool) (any, error) {
	var (
		given []any // what stands in the list of values
		pos   lexer.Position
	)
	switch o := o.(type) {
	case *topicsOption:
		return r.names(o.List, info, change)
	case *wordsOption:
		return r.names(o.List, info, change)
	case *serversOption:
		pos = o.List[0].Pos
		for _, l := range o.List {
			x, err := r.value(l, false)
			if err != nil {
				return nil, err
			}
			given = append(given, x)
		}
	case *wordOption:
		if change && o.Word.isNull() {
			return nil, nil
		}
		x, err := r.word(o.Word)
		if err != nil {
			return nil, err
		}
		pos, given = o.Word.Pos, []any{x}
	case *literalOption:
		x, err := r.value(o.Literal, false)
		if err != nil {
			return nil, err
		}
		pos, given = o.Literal.Pos, []any{x}
	case *mapOption:
		return r.optionMap(o, info, change)
	}
	return r.fit(pos, given, info, change)
}

// names returns the value of an option that lists names.
func (r *resolver) names(list []*words, info *optionInfo, change bool) (any, error) {
	var given []any
	var pos lexer.Position
	for _, w := range list {
		var x any
		var err error
		switch {
		case w.List != nil:
			x, err = r.list(w.List)
			pos = cmp.Or(pos, w.List.Pos)
		case change && len(list) == 1 && w.Word.isNull():
			return nil, nil
		default:
			x, err = r.word(w.Word)
			pos = cmp.Or(pos, w.Word.Pos)
		}
		if err != nil {
			return nil, err
		}
		given = append(given, x)
	}
	return r.fit(pos, given, info, change)
}

// fit checks what was given, and brings it into the form of the option.
func (r *resolver) fit(pos lexer.Position, given []any, info *optionInfo, change bool) (any, error) {
	if change && len(given) == 1 && given[0] == nil {
		return nil, nil
	}
	switch info.kind {
	case kindInteger:
		n, ok := given[0].(int64)
		if !ok {
			return nil, r.semantic(pos, "%s", info.label)
		}
		if n <= 0 {
			name, _, _ := strings.Cut(info.label, " must")
			return nil, r.semantic(pos, "%s has to be positive!", name)
		}
		return n, nil
	case kindTopics, kindServers, kindWords:
		all, ok := flatten(given, info.kind)
		if !ok {
			return nil, r.semantic(pos, "%s", info.label)
		}
		if len(all) == 0 || info.kind == kindServers && len(all) == 1 && all[0] == "" {
			return nil, r.semantic(pos, "%s must not be an empty string!", sentence(info.keyword))
		}
		return all, nil
	}
	s, ok := given[0].(string)
	switch {
	case !ok:
		return nil, r.semantic(pos, "%s", info.label)
	case s == "":
		return nil, r.semantic(pos, "%s must not be an empty string!", sentence(info.keyword))
	case info.kind == kindWord:
		return strings.ToLower(s), nil
	case info.kind == kindStart:
		return foldStart(s), nil
	}
	return s, nil
}

// sentence writes a keyword as Memgraph's errors do: Bootstrap servers, Service
// URL.
func sentence(keyword string) string {
	return strings.ReplaceAll(capital(strings.ReplaceAll(keyword, "_", " ")), " url", " URL")
}

// flatten makes one list of strings of strings, each of which may hold several
// with commas between, and of lists of strings.
func flatten(given []any, k kind) ([]string, bool) {
	all := []string{}
	for _, x := range given {
		switch x := x.(type) {
		case string:
			for _, s := range strings.Split(x, ",") {
				s = strings.TrimSpace(s)
				if k == kindWords {
					s = strings.ToLower(s)
				}
				all = append(all, s)
			}
		case []any:
			for _, item := range x {
				s, ok := item.(string)
				if !ok {
					return nil, false
				}
				more, _ := flatten([]any{s}, k)
				all = append(all, more...)
			}
		default:
			return nil, false
		}
	}
	return all, true
}

// optionMap returns a map of strings; under ALTER an entry may be NULL, which
// removes it.
func (r *resolver) optionMap(o *mapOption, info *optionInfo, change bool) (any, error) {
	var (
		given any
		pos   lexer.Position
		err   error
	)
	if o.Map == nil {
		pos = o.Other.Pos
		if o.Other.Parameter != "" {
			given, err = r.parameter(pos, o.Other.Parameter)
		}
	} else {
		pos = o.Map.Pos
		for _, e := range o.Map.Entries {
			if e.Key.String == "" {
				return nil, r.semantic(e.Key.Pos, "%s", info.label)
			}
		}
		given, err = r.mapping(o.Map)
	}
	if err != nil {
		return nil, err
	}
	if given == nil && change {
		return nil, nil
	}
	m, ok := given.(map[string]any)
	if !ok {
		return nil, r.semantic(pos, "%s", info.label)
	}
	for _, x := range m {
		if _, ok := x.(string); !ok && !(x == nil && change) {
			return nil, r.semantic(pos, "%s", info.label)
		}
	}
	return m, nil
}
