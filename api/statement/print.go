package statement

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/graphmill/graphmill"
)

// Print writes a statement, without a ';' behind it. Parse of it gives the
// statement again; of a Create, a definition that WithDefaults makes the same.
// Secrets are written as they stand: give it a definition that is Redacted.
func Print(s Statement) string {
	switch s := s.(type) {
	case *Create:
		return printCreate(s.Spec)
	case *Alter:
		return "ALTER STREAM " + Name(s.Name) + " SET" + printOptions(members(s.Patch), false) + printFrom(s.From)
	case *Start:
		return "START STREAM " + Name(s.Name) + s.Limits.print()
	case *StartAll:
		return "START ALL STREAMS"
	case *Stop:
		return "STOP STREAM " + Name(s.Name)
	case *StopAll:
		return "STOP ALL STREAMS"
	case *Drop:
		return "DROP STREAM " + Name(s.Name)
	case *Show:
		return "SHOW STREAMS"
	case *ShowCreate:
		return "SHOW CREATE STREAM " + Name(s.Name)
	case *Check:
		return "CHECK STREAM " + Name(s.Name) + s.Limits.print() + printFrom(s.From)
	case *Call:
		return s.print()
	}
	return ""
}

// alwaysWritten are the options that a CREATE statement shows even where they
// have their default: of those that the source has.
var alwaysWritten = []string{"consumer_group", "subscription", "batch_interval_ms", "batch_size"}

func printCreate(spec graphmill.StreamSpec) string {
	written, whole := optionsOf(spec.WithoutDefaults()), optionsOf(spec.WithDefaults())
	for _, field := range alwaysWritten {
		if value, ok := whole[field]; ok {
			written[field] = value
		}
	}
	return "CREATE " + strings.ToUpper(spec.Source) + " STREAM " + Name(spec.Name) + printOptions(written, true)
}

func optionsOf(spec graphmill.StreamSpec) map[string]json.RawMessage {
	doc, _ := json.Marshal(spec) // strings, numbers, lists and maps of strings: no error
	return members(doc)
}

func members(doc []byte) map[string]json.RawMessage {
	var m map[string]json.RawMessage
	_ = json.Unmarshal(doc, &m) // what is no object has no members
	return m
}

// printOptions writes options in the order of options, each on a line of its own
// or all on one.
func printOptions(given map[string]json.RawMessage, lines bool) string {
	var b strings.Builder
	for _, o := range options {
		value, ok := given[o.field]
		if !ok || o.field == "" {
			continue
		}
		if lines {
			b.WriteString("\n  ")
		} else {
			b.WriteByte(' ')
		}
		b.WriteString(o.keyword + " " + o.print(value))
	}
	return b.String()
}

func (o *optionInfo) print(doc json.RawMessage) string {
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	var value any
	_ = d.Decode(&value) // made by Marshal
	switch value := value.(type) {
	case nil:
		return "NULL"
	case []any:
		all := make([]string, len(value))
		for i, x := range value {
			all[i] = fmt.Sprint(x)
		}
		if o.kind == kindServers { // one string, as in Memgraph
			return printString(strings.Join(all, ","))
		}
		for i, s := range all {
			all[i] = Name(s)
		}
		return strings.Join(all, ", ")
	case map[string]any:
		return printValue(value)
	case string:
		if o.kind == kindString {
			return printString(value)
		}
		return Name(value)
	}
	return fmt.Sprint(value)
}

func printFrom(from string) string {
	if from == "" {
		return ""
	}
	return " FROM " + Name(from)
}

func (l Limits) print() string {
	text := ""
	if l.BatchLimit != nil {
		text += " BATCH_LIMIT " + strconv.FormatInt(*l.BatchLimit, 10)
	}
	if l.TimeoutMS != nil {
		text += " TIMEOUT " + strconv.FormatInt(*l.TimeoutMS, 10)
	}
	return text
}

func (c *Call) print() string {
	arguments := make([]string, len(c.Arguments))
	for i, a := range c.Arguments {
		arguments[i] = printValue(a)
	}
	text := "CALL " + printProcedure(c.Procedure) + "(" + strings.Join(arguments, ", ") + ")"
	if c.Yield == nil {
		return text
	}
	items := make([]string, len(c.Yield))
	for i, y := range c.Yield {
		items[i] = printPart(y.Name)
		if y.As != y.Name {
			items[i] += " AS " + printPart(y.As)
		}
	}
	return text + " YIELD " + strings.Join(items, ", ")
}

// bareWord is what can be written as one word, bareName what can be written without
// quotes where a name may have dots and dashes.
var (
	bareWord = regexp.MustCompile(`^` + wordPattern + `$`)
	bareName = regexp.MustCompile(`^` + wordPattern + `(?:[.-]` + wordPattern + `)*$`)
)

// Name writes a name as a statement has it: bare, where that is possible, else as a
// string. NULL is written as a string, since it means the default where an option is
// changed.
func Name(s string) string {
	if !bareName.MatchString(s) || strings.EqualFold(s, "NULL") {
		return printString(s)
	}
	return s
}

// printPart writes one symbol: bare, or in backticks.
func printPart(s string) string {
	if bareWord.MatchString(s) {
		return s
	}
	return "`" + strings.ReplaceAll(s, "`", "``") + "`"
}

func printProcedure(s string) string {
	parts := strings.Split(s, ".")
	for i := range parts {
		parts[i] = printPart(parts[i])
	}
	return strings.Join(parts, ".")
}

func printString(s string) string {
	var b strings.Builder
	b.WriteByte('\'')
	for _, r := range s {
		switch r {
		case '\\', '\'':
			b.WriteByte('\\')
			b.WriteRune(r)
		case '\n':
			b.WriteString(`\n`)
		case '\r':
			b.WriteString(`\r`)
		case '\t':
			b.WriteString(`\t`)
		default:
			if r < ' ' || r == 0x7f {
				fmt.Fprintf(&b, `\u%04x`, r)
				continue
			}
			b.WriteRune(r)
		}
	}
	b.WriteByte('\'')
	return b.String()
}

// printValue writes a value of the types of Parse's params.
func printValue(x any) string {
	switch x := x.(type) {
	case nil:
		return "NULL"
	case string:
		return printString(x)
	case float64:
		s := strconv.FormatFloat(x, 'g', -1, 64)
		if !strings.ContainsAny(s, ".e") {
			s += ".0"
		}
		return s
	case []any:
		items := make([]string, len(x))
		for i, item := range x {
			items[i] = printValue(item)
		}
		return "[" + strings.Join(items, ", ") + "]"
	case map[string]any:
		items := make([]string, 0, len(x))
		for _, k := range slices.Sorted(maps.Keys(x)) {
			items = append(items, printString(k)+": "+printValue(x[k]))
		}
		return "{" + strings.Join(items, ", ") + "}"
	}
	return fmt.Sprint(x) // bool, int64, json.Number
}
