package graph

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/graphmill/graphmill"
)

// What a text does beside reading and writing data is decided by its tokens,
// before it runs for the first time. docs/decisions/0009 says why this way.

// need is one thing that a text does beside reading and writing data.
type need struct {
	what  string // "LOAD CSV", "CREATE USER", "the procedure dbms.listConfig"
	allow string // the word of ALLOW that permits it; empty: nothing does
	graph string // not empty: a USE clause, fine where it names the stream's own database
}

// dataClauses are the words that a statement which reads or writes data may
// begin with. CREATE, SET and USE need a second look. A list of what is harmless,
// and not of what is not: commands are added with every version of a database.
var dataClauses = map[string]bool{
	"MATCH": true, "OPTIONAL": true, "UNWIND": true, "WITH": true, "RETURN": true, "FINISH": true,
	"CREATE": true, "INSERT": true, "MERGE": true, "SET": true, "REMOVE": true,
	"DELETE": true, "DETACH": true, "NODETACH": true, "FOREACH": true, "CALL": true, "LOAD": true,
	"ORDER": true, "SKIP": true, "OFFSET": true, "LIMIT": true, "FILTER": true, "LET": true, "WHEN": true,
}

// loadFormats are what follows LOAD: Neo4j has CSV, Memgraph the others too.
var loadFormats = []string{"CSV", "PARQUET", "JSONL", "JSON"}

// indexKinds may stand between CREATE or DROP and INDEX, in Neo4j or Memgraph.
var indexKinds = []string{"BTREE", "RANGE", "TEXT", "POINT", "LOOKUP", "FULLTEXT", "VECTOR", "EDGE", "GLOBAL"}

// needsOf finds everything that a text does beside reading and writing data, as
// any of the databases might read it. A text of which it is not sure how it is
// read is refused as a whole.
func needsOf(text string) []need {
	if !hasUnicodeEscape(text) {
		return needsOfView(text)
	}
	// Neo4j replaces \uXXXX before it looks for tokens, Memgraph does so within
	// strings only, and refuses a backslash anywhere else.
	needs := needsOfView(decodeEscapes(text))
	if tokens, _ := lexAsItStands(text); !slices.ContainsFunc(tokens, isBackslash) {
		needs = append(needs, needsOfView(text)...)
	}
	return needs
}

func isBackslash(t token) bool { return t.mark('\\') }

func needsOfView(text string) []need {
	tokens, why := lexAsItStands(text)
	if why == "" {
		why = oddCharacter(tokens)
	}
	if why != "" {
		return []need{{what: "something unknown, because it cannot be told how the database reads the text (" + why + ")"}}
	}
	c := clauses{tokens: significant(tokens)}
	for start := 0; start < len(c.tokens); {
		end := start
		for end < len(c.tokens) && !c.tokens[end].mark(';') {
			end++
		}
		c.command(start, end)
		start = end + 1
	}
	c.within()
	return c.needs
}

// oddCharacter looks for characters outside of strings, comments and backticks
// that one database takes as part of a name and another as white space.
func oddCharacter(tokens []token) string {
	for _, t := range tokens {
		if t.kind != tokenWord {
			continue
		}
		for _, r := range t.text {
			if r >= utf8.RuneSelf && !unicode.In(r, unicode.L, unicode.N, unicode.M, unicode.Pc, unicode.Sc) {
				return fmt.Sprintf("the character %U stands in a name", r)
			}
		}
	}
	return ""
}

func significant(tokens []token) []token {
	return slices.DeleteFunc(tokens, func(t token) bool { return t.kind == tokenSpace })
}

// decodeEscapes replaces \uXXXX as Neo4j does. Two backslashes are not the
// beginning of one.
func decodeEscapes(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); {
		if text[i] != '\\' || i+1 == len(text) {
			b.WriteByte(text[i])
			i++
			continue
		}
		r, size := unicodeEscape(text[i:])
		if size == 0 {
			b.WriteString(text[i : i+2])
			i += 2
			continue
		}
		b.WriteRune(r)
		i += size
	}
	return b.String()
}

// clauses looks through the tokens of a text, spaces and comments left out.
type clauses struct {
	tokens []token
	needs  []need
}

func (c *clauses) add(allow, format string, args ...any) {
	c.needs = append(c.needs, need{what: fmt.Sprintf(format, args...), allow: allow})
}

// at returns the i-th token; behind the end there are empty ones.
func (c *clauses) at(i int) token {
	if i < 0 || i >= len(c.tokens) {
		return token{kind: tokenSpace}
	}
	return c.tokens[i]
}

// isName reports whether a token can be a name: a word or in backticks.
func (t token) isName() bool { return t.kind == tokenWord || t.kind == tokenQuoted }

// command looks at what the statement of tokens start to end begins with.
func (c *clauses) command(start, end int) {
	i := c.skipPrefix(start, end)
	if i >= end {
		return // empty: the database says so
	}
	first := strings.ToUpper(c.at(i).text)
	switch next := c.at(i + 1); {
	case c.at(i).kind != tokenWord || !dataClauses[first]:
		if first == "DROP" && c.isSchema(i+1) || first == "ALTER" && next.word("CURRENT") && c.at(i+2).word("GRAPH") {
			c.add(graphmill.AllowSchema, "%s", c.shown(i))
			return
		}
		c.add("", "%s", c.shown(i))
	case first == "CREATE" && c.isSchema(i+1):
		c.add(graphmill.AllowSchema, "%s", c.shown(i))
	case first == "CREATE" && next.isName() && !c.at(i+2).mark('='): // but a path has a name
		c.add("", "%s", c.shown(i))
	case first == "SET" && next.kind == tokenWord && c.at(i+2).kind != tokenMark: // SET PASSWORD, SET DATABASE SETTING
		c.add("", "%s", c.shown(i))
	}
}

// skipPrefix passes over what may stand before a statement: EXPLAIN, PROFILE,
// options of CYPHER, USE, and the braces of a query in braces.
func (c *clauses) skipPrefix(i, end int) int {
	for i < end {
		switch t := c.tokens[i]; {
		case t.word("EXPLAIN"), t.word("PROFILE"), t.mark('{'):
			i++
		case t.word("CYPHER"):
			_, rest := cutOptions(c.tokens[i:end])
			i = end - len(rest)
		case t.word("USE") && c.at(i+1).isName():
			i = c.nameEnd(i + 1)
			if c.at(i).mark('(') {
				return end // USE graph.byName(...): refused as such
			}
		default:
			return i
		}
	}
	return i
}

// isSchema reports whether what is behind CREATE or DROP is of the schema.
func (c *clauses) isSchema(i int) bool {
	if c.at(i).word("OR") && c.at(i+1).word("REPLACE") {
		i += 2
	}
	for slices.ContainsFunc(indexKinds, c.at(i).word) {
		i++
	}
	return c.at(i).word("INDEX") || c.at(i).word("CONSTRAINT") || c.at(i).word("ENUM")
}

// shown are the first words of a command, for people.
func (c *clauses) shown(i int) string {
	words := clip(strings.ToUpper(c.at(i).text), 40)
	for n := 1; n < 3 && c.at(i+n).kind == tokenWord; n++ {
		words += " " + clip(strings.ToUpper(c.at(i+n).text), 40)
	}
	return words
}

// within looks for what may stand anywhere in a text. It looks back at a few
// tokens only: a text may have hundreds of thousands, and nothing interrupts it.
func (c *clauses) within() {
	var subquery []bool // of each open brace: whether it is one of CALL
	list := -1          // where the last parenthesis was opened
	options := false    // the options of CYPHER may still go on: CYPHER 5 runtime=slotted USE ...
	for i, t := range c.tokens {
		switch {
		case t.word("LOAD") && slices.ContainsFunc(loadFormats, c.at(i+1).word):
			c.add(graphmill.AllowLoadCSV, "LOAD %s", strings.ToUpper(c.at(i+1).text))
		case t.word("USING") && c.at(i+1).word("PERIODIC"):
			c.add("", "USING PERIODIC COMMIT")
		case t.word("USE") && (options || c.beginsQuery(i)):
			c.use(i)
		case t.word("CALL") && c.at(i+1).isName():
			c.invoke(i + 1)
		case t.isName() && c.at(i+1).mark('.') && !c.at(i-1).mark('.') && !c.at(i-1).word("CALL"):
			if c.at(c.nameEnd(i)).mark('(') {
				c.invoke(i)
			}
		case t.mark('{'):
			subquery = append(subquery, c.opensSubquery(i, list))
			if end := c.importsEnd(i + 1); c.at(end).word("USE") {
				c.use(end)
			}
		case t.mark('}') && len(subquery) > 0:
			if subquery[len(subquery)-1] && c.inTransactions(i+1) {
				c.add("", "CALL { ... } IN TRANSACTIONS")
			}
			subquery = subquery[:len(subquery)-1]
		case t.mark('('):
			list = i
		}
		options = t.word("CYPHER") || options && (t.kind == tokenWord || t.mark('=') || t.mark('.'))
	}
}

// beginsQuery reports whether the i-th token is the first one of a query, the
// options of CYPHER left aside.
func (c *clauses) beginsQuery(i int) bool {
	before := c.at(i - 1)
	switch {
	case i == 0, before.mark(';'), before.mark('{'), before.word("UNION"), before.word("NEXT"),
		before.word("EXPLAIN"), before.word("PROFILE"):
		return true
	case before.word("ALL"), before.word("DISTINCT"):
		return c.at(i - 2).word("UNION")
	}
	return false
}

// importsEnd returns where an importing WITH ends that begins at i, as in
// CALL { WITH a, b USE ... }; -1: none begins there.
func (c *clauses) importsEnd(i int) int {
	if !c.at(i).word("WITH") {
		return -1
	}
	for {
		if i++; !c.at(i).isName() && !c.at(i).mark('*') {
			return -1
		}
		if i++; c.at(i).word("AS") && c.at(i+1).isName() {
			i += 2
		}
		if !c.at(i).mark(',') {
			return i
		}
	}
}

// use looks at a USE clause.
func (c *clauses) use(i int) {
	switch next := c.at(i + 1); {
	case next.mark('('):
		c.add("", "USE of a graph that is worked out")
	case next.isName():
		end := c.nameEnd(i + 1)
		if c.at(end).mark('(') {
			c.add("", "USE of a graph that is worked out")
			return
		}
		name := c.name(i+1, end)
		c.needs = append(c.needs, need{what: "USE " + clip(name, 80), graph: name})
	}
}

// invoke looks at the name of a procedure or function, which begins at i.
func (c *clauses) invoke(i int) {
	name := c.name(i, c.nameEnd(i))
	if allow, denied := deniedProcedure(name); denied {
		c.add(allow, "%s()", clip(name, 80))
	}
}

// nameEnd returns where a name with dots ends that begins at i.
func (c *clauses) nameEnd(i int) int {
	for i++; c.at(i).mark('.') && c.at(i+1).isName(); {
		i += 2
	}
	return i
}

func (c *clauses) name(i, end int) string {
	var b strings.Builder
	for ; i < end; i++ {
		if t := c.tokens[i]; t.isName() {
			b.WriteString(t.name)
		} else {
			b.WriteByte('.')
		}
	}
	return b.String()
}

// opensSubquery reports whether the brace at i is that of CALL { or CALL (a, b) {.
// The last parenthesis before it was opened at list.
func (c *clauses) opensSubquery(i, list int) bool {
	if i--; c.at(i).mark(')') {
		i = list - 1
	}
	return c.at(i).word("CALL")
}

// inTransactions reads IN TRANSACTIONS, IN 4 CONCURRENT TRANSACTIONS.
func (c *clauses) inTransactions(i int) bool {
	if !c.at(i).word("IN") {
		return false
	}
	for n := 1; n <= 3; n++ {
		if c.at(i + n).word("TRANSACTIONS") {
			return true
		}
	}
	return false
}

// refused returns the first of needs that neither the words of allow permit nor
// the stream's own database makes harmless.
func refused(needs []need, database string, allow []string) (need, bool) {
	for _, n := range needs {
		switch {
		case n.graph != "" && database != "" && ownGraph(n.graph, database):
		case n.allow != "" && slices.Contains(allow, n.allow):
		default:
			return n, true
		}
	}
	return need{}, false
}

// ownGraph reports whether a USE clause names the database of the stream, or a
// part of it where that is a composite one. Neo4j takes its names in any case.
func ownGraph(graph, database string) bool {
	graph, database = strings.ToLower(graph), strings.ToLower(database)
	return graph == database || strings.HasPrefix(graph, database+".")
}

// NotAllowed returns a fault for each message of w with a statement that its stream's
// ALLOW does not permit, as far as the texts tell: the database is not asked, and
// nothing is executed. It is about the first such statement of the message.
func (s *Sink) NotAllowed(w graphmill.Work) []*graphmill.Fault {
	type verdict struct {
		need    need
		refused bool
	}
	verdicts := map[string]verdict{} // of texts, which mostly come many times
	told := map[int]bool{}           // of messages
	var faults []*graphmill.Fault
	for i := range w.Statements {
		text := w.Statements[i].Query.Text
		v, known := verdicts[text]
		if !known {
			v.need, v.refused = refused(needsOf(text), s.database(w.Database), w.Allow)
			verdicts[text] = v
		}
		if message := w.Statements[i].Message; v.refused && !told[message] {
			told[message] = true
			faults = append(faults, notAllowed(v.need, &w, &w.Statements[i]))
		}
	}
	return faults
}

// notAllowed is the fault of a text that does what its stream may not. It is of
// the message: a transformation may have made the text of what a message holds.
func notAllowed(n need, w *graphmill.Work, st *graphmill.Statement) *graphmill.Fault {
	f := &graphmill.Fault{
		Class: graphmill.FaultMessage, Code: codeNotAllowed, Message: st.Message,
		Text: fmt.Sprintf("the stream's statements may not use %s (in the statement %s)", n.what, shownText(st.Query.Text)),
		Next: "mend the transformation: statements may read and write data only",
	}
	switch {
	case n.allow != "":
		all := strings.Join(append(slices.Clone(w.Allow), n.allow), ",") // the option is set as a whole
		f.Next = "mend the transformation, or permit this: graphmill stream edit " + w.Stream + " --allow " + all
	case n.graph != "":
		f.Next = "leave out USE, and name the database by the stream: graphmill stream edit " + w.Stream + " --database NAME"
	}
	return f
}
