package statement

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/alecthomas/participle/v2"
	"github.com/alecthomas/participle/v2/lexer"

	"github.com/graphmill/graphmill"
)

// keywords are the words of the grammar, sorted.
var keywords = sync.OnceValue(func() []string {
	var words []string
	for _, m := range regexp.MustCompile(`"([A-Z_]+)"`).FindAllStringSubmatch(parser().String(), -1) {
		words = append(words, m[1])
	}
	slices.Sort(words)
	return slices.Compact(words)
})

const (
	aName  = "a name"
	aComma = "','"
)

// things are what can stand in a statement beside keywords: a sample, and what it
// is called. Commas and brackets come with what may follow them: within a list the
// parser does not take one that ends the text.
var things = []struct{ sample, name string }{
	{"`n`", aName}, {"''", "a string"}, {"1", "a number"}, {"$p", "a parameter"}, {"[]", "a list"}, {"{}", "a map"},
	{", '': ''", aComma}, {", ''", aComma}, {", `n`", aComma}, {"(", "'('"}, {")", "')'"}, {"]", "']'"}, {"}", "'}'"}, {":", "':'"}, {"*", "'*'"},
}

// expectation is what may stand behind the beginning of a statement.
type expectation struct {
	keywords []string // beside options, sorted; none where a name may stand: each could be one
	options  []string // of the kind of stream, and not given before, in the order of options
	things   []string // in the order of things
	end      bool     // the statement may end there
}

// expected tells what may stand behind a prefix, which ends between two tokens:
// before, and perhaps within a map. It asks the parser itself, with each word and thing in turn.
func expected(before []lexer.Token, prefix string, inMap bool) expectation {
	var e expectation
	_, err := parser().ParseString("", prefix)
	e.end = err == nil
	for _, t := range things {
		if !slices.Contains(e.things, t.name) && goesOn(prefix, t.sample) {
			e.things = append(e.things, t.name)
		}
	}
	if slices.Contains(e.things, aName) {
		return e
	}
	// The value of an option, or of a limit, is of one type, whatever else a
	// literal may be.
	if n := len(before); n > 0 {
		switch last := strings.ToUpper(before[n-1].Value); {
		case inMap && last == "{":
			return expectation{things: []string{"a string", "'}'"}}
		case inMap && last == ",":
			return expectation{things: []string{"a string"}}
		case inMap && last == ":" && before[0].Type == wordToken && !strings.EqualFold(before[0].Value, "CALL"):
			return expectation{things: []string{"a string", "a parameter"}}
		case last == "BATCH_LIMIT" || last == "TIMEOUT" || kindOf(last) == kindInteger:
			return expectation{things: []string{"an integer", "a parameter"}}
		case kindOf(last) == kindString || kindOf(last) == kindServers:
			return expectation{things: []string{"a string", "a parameter"}}
		case kindOf(last) == kindMap:
			return expectation{things: []string{"a map", "a parameter"}}
		}
	}
	for _, k := range keywords() {
		if kindOf(k) < 0 && goesOn(prefix, k) {
			e.keywords = append(e.keywords, k)
		}
	}
	for _, o := range options {
		if o.ready() && o.fits(before) && goesOn(prefix, o.keyword) {
			e.options = append(e.options, o.keyword)
		}
	}
	return e
}

// ready says whether an option is offered: not what is refused as not available yet.
func (o *optionInfo) ready() bool { return o.field != "" || o.sources != nil }

// fits says whether an option may still be given.
func (o *optionInfo) fits(before []lexer.Token) bool {
	if o.sources != nil && len(before) > 1 && strings.EqualFold(before[0].Value, "CREATE") && !strings.EqualFold(before[1].Value, o.sources[0]) {
		return false
	}
	return !slices.ContainsFunc(before, func(t lexer.Token) bool { return strings.EqualFold(t.Value, o.keyword) })
}

// kindOf returns the kind of an option; -1 for other words.
func kindOf(keyword string) kind {
	if o := infoOf(keyword); o != nil {
		return o.kind
	}
	return -1
}

// goesOn says whether the parser takes next behind prefix.
func goesOn(prefix, next string) bool {
	prefix += " "
	_, err := parser().ParseString("", prefix+next)
	var p participle.Error
	return err == nil || errors.As(err, &p) && p.Position().Offset >= len(prefix+next)
}

// String lists what is expected, for an error.
func (e expectation) String() string {
	all := slices.Clone(e.keywords)
	if len(e.options) > 0 {
		all = append(all, "an option")
	}
	all = append(all, e.things...)
	if e.end {
		all = append(all, "the end")
	}
	switch n := len(all); n {
	case 0:
		return "nothing more"
	case 1:
		return all[0]
	default:
		return strings.Join(all[:n-1], ", ") + " or " + all[n-1]
	}
}

// lateLimit says whether the token is a limit of CHECK or START, behind what it
// should stand before.
func lateLimit(before []lexer.Token, t lexer.Token) bool {
	is := func(of lexer.Token, words ...string) bool {
		return slices.Contains(words, strings.ToUpper(of.Value))
	}
	given := slices.ContainsFunc(before, func(b lexer.Token) bool { return is(b, strings.ToUpper(t.Value)) })
	return len(before) > 0 && is(before[0], "CHECK", "START") && is(t, "BATCH_LIMIT", "TIMEOUT") && !given
}

// advice guesses what was meant by a token that does not fit behind others.
func (e expectation) advice(before []lexer.Token, t lexer.Token, inMap bool) string {
	var last string
	var behindWord bool
	if n := len(before); n > 0 {
		last, behindWord = strings.ToUpper(before[n-1].Value), before[n-1].Type == wordToken
	}
	switch name := slices.Contains(e.things, aName); {
	case inMap && t.Type == wordToken && (last == "{" || last == ","):
		return "the keys of a map are strings: put it into quotes"
	case t.Type == digitsToken && (name || last == "-" || last == "."),
		t.Type == floatToken && (name || behindWord && strings.HasPrefix(t.Value, ".")):
		return "a name of which a part begins with a digit is written in quotes, as in 'topic-2'"
	case kindOf(last) >= 0 && len(before) > 1 && before[len(before)-2].Value == ",":
		return last + " is read as a name there: leave out the ',' before it"
	case len(before) > 1 && (last == "''" || last == `""`) && kindOf(before[len(before)-2].Value) >= 0:
		return "the quotes are doubled: an empty string is read, and an address behind it"
	case e.end && lateLimit(before, t) && strings.EqualFold(before[0].Value, "START"):
		return "the order is BATCH_LIMIT, TIMEOUT"
	case e.end && lateLimit(before, t):
		return "the order is BATCH_LIMIT, TIMEOUT, FROM"
	case strings.EqualFold(t.Value, "UNSUBSCRIBE") && len(before) > 2 && strings.EqualFold(before[0].Value, "DROP"):
		return "the statement keeps the subscription; a command ends both: graphmill stream drop NAME --unsubscribe"
	case last == "BOOTSTRAP_SERVERS":
		return "an address is a string: put it into quotes, as in 'localhost:9092'"
	case last == "SERVICE_URL":
		return "an address is a string: put it into quotes, as in 'pulsar://localhost:6650'"
	case (last == "PERSISTENT" || last == "NON-PERSISTENT") && t.Value == ":":
		return "the whole name of a topic is a string: put it into quotes, as in 'persistent://public/default/topic'"
	case strings.EqualFold(t.Value, "RETURN") && slices.ContainsFunc(before, func(t lexer.Token) bool { return strings.EqualFold(t.Value, "CALL") }):
		return "the results of a procedure are chosen and named by YIELD: YIELD name AS column"
	case t.Type != wordToken:
	default:
		for _, k := range slices.Concat(e.keywords, e.options) {
			if strings.HasPrefix(k, strings.ToUpper(t.Value)+"_") {
				return "did you mean " + k + "? It is one word"
			}
		}
		if near := graphmill.Nearest(t.Value, slices.Concat(e.keywords, e.options)); near != "" {
			return "did you mean " + near + "?"
		}
	}
	switch {
	case last == ";":
		return "one statement is executed at a time; graphmill query takes several on standard input"
	case len(before) == 0:
		return "this takes the stream statements; queries are for the database itself"
	case len(e.options) > 0:
		return "the options are " + strings.Join(e.options, ", ")
	}
	return ""
}
