package graph

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// form is the coalesced form of body.
func form(body string) string {
	return "UNWIND $rows AS __gm CALL (__gm) { " + body + "\n} FINISH"
}

func TestCoalesceRewritesParameters(t *testing.T) {
	for _, tc := range []struct {
		name, text, want string
		params           []string
	}{
		{"create", "CREATE (n:P {id: $id, name: $name})", form("CREATE (n:P {id: __gm.`id`, name: __gm.`name`})"), []string{"id", "name"}},
		{"the same one twice", "MERGE (n {id: $id}) SET n.id = $id", form("MERGE (n {id: __gm.`id`}) SET n.id = __gm.`id`"), []string{"id"}},
		{"none", "MATCH (n) SET n.x = 1", form("MATCH (n) SET n.x = 1"), nil},
		{"map entries and list elements", "SET n.a = $m.a.b, n.b = $l[0]", form("SET n.a = __gm.`m`.a.b, n.b = __gm.`l`[0]"), []string{"m", "l"}},
		{"as an index", "RETURN n[$p] AS v", form("RETURN n[__gm.`p`] AS v"), []string{"p"}},
		{"set from a map", "CREATE (n:X) SET n += $props", form("CREATE (n:X) SET n += __gm.`props`"), []string{"props"}},
		{"in backticks", "CREATE ({x: $`a b`})", form("CREATE ({x: __gm.`a b`})"), []string{"a b"}},
		{"with a backtick in it", "CREATE ({x: $`a``b`})", form("CREATE ({x: __gm.`a``b`})"), []string{"a`b"}},
		{"before a name in backticks", "RETURN $a`b`", form("RETURN __gm.`a` `b`"), []string{"a"}},
		{"a number", "CREATE ({x: $0, y: $1a})", form("CREATE ({x: __gm.`0`, y: __gm.`1a`})"), []string{"0", "1a"}},
		{"letters beyond ASCII", "CREATE ({x: $größe, y: $名前})", form("CREATE ({x: __gm.`größe`, y: __gm.`名前`})"), []string{"größe", "名前"}},
		{"a keyword as a name", "CREATE ({x: $match})", form("CREATE ({x: __gm.`match`})"), []string{"match"}},
		{"space behind the dollar", "CREATE ({x: $ a, y: $/* c */b})", form("CREATE ({x: __gm.`a`, y: __gm.`b`})"), []string{"a", "b"}},
		{"a space that is not ASCII ends a name", "RETURN $a\u00a0AS x", form("RETURN __gm.`a`\u00a0AS x"), []string{"a"}},

		{"dollar in a string", `CREATE ({x: '$a', y: "$b", z: $c})`, form("CREATE ({x: '$a', y: \"$b\", z: __gm.`c`})"), []string{"c"}},
		{"escaped quotes", `CREATE ({x: 'it\'s $a', y: "\"$b", z: $c})`, form(`CREATE ({x: 'it\'s $a', y: "\"$b", z: ` + "__gm.`c`})"), []string{"c"}},
		{"a backslash at a string's end", `CREATE ({x: 'a\\', z: $c})`, form(`CREATE ({x: 'a\\', z: ` + "__gm.`c`})"), []string{"c"}},
		{"the other quotes in a string", `CREATE ({x: '"', y: $a, z: "'"})`, form(`CREATE ({x: '"', y: ` + "__gm.`a`" + `, z: "'"})`), []string{"a"}},
		{"dollar in a name in backticks", "CREATE (n:`$a``$b` {x: $c})", form("CREATE (n:`$a``$b` {x: __gm.`c`})"), []string{"c"}},
		{"dollar in comments", "CREATE (n) // $a\nSET n.x = $c /* $d } */", form("CREATE (n) // $a\nSET n.x = __gm.`c` /* $d } */"), []string{"c"}},
		{"comment at the end", "CREATE ({x: $a}) // done", form("CREATE ({x: __gm.`a`}) // done"), []string{"a"}},
		{"quote in a comment", "CREATE ({x: $a}) // it's\nSET x = $b", form("CREATE ({x: __gm.`a`}) // it's\nSET x = __gm.`b`"), []string{"a", "b"}},
		{"comment signs in strings", "CREATE ({x: 'http://x/*', y: $a})", form("CREATE ({x: 'http://x/*', y: __gm.`a`})"), []string{"a"}},
		{"a comment that only looks closed", "RETURN $a /*/ + $b */ AS x", form("RETURN __gm.`a` /*/ + $b */ AS x"), []string{"a"}},

		{"labels and types that are worked out", "MATCH (n:$($l)) CREATE (n)-[:$ ($t)]->(:$(toUpper($l)))",
			form("MATCH (n:$(__gm.`l`)) CREATE (n)-[:$ (__gm.`t`)]->(:$(toUpper(__gm.`l`)))"), []string{"l", "t"}},
		{"labels of a list", "MATCH (n:$all($l)|$ANY (['A', $b])) RETURN n", form("MATCH (n:$all(__gm.`l`)|$ANY (['A', __gm.`b`])) RETURN n"), []string{"l", "b"}},
		{"a parameter named all", "UNWIND $all AS x CREATE ({x: $any})", form("UNWIND __gm.`all` AS x CREATE ({x: __gm.`any`})"), []string{"all", "any"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, why := coalesce(tc.text)
			require.Empty(t, why)
			require.Equal(t, tc.want, c.query)
			require.Equal(t, tc.params, c.params)
		})
	}
}

func TestCoalesceFitsTheTextIn(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"a semicolon at the end", "CREATE (n);", form("CREATE (n)")},
		{"and what may follow it", "CREATE (n) ; // done\n\t", form("CREATE (n)")},
		{"white space around", "  CREATE (n)\n", form("  CREATE (n)\n")},
		{"language", "CYPHER 25 CREATE ({x: $a})", "CYPHER 25 " + form("CREATE ({x: __gm.`a`})")},
		{"language, small letters and a comment", "/* c */ cypher\n5 CREATE (n)", "CYPHER 5 " + form("CREATE (n)")},
		{"old version number", "CYPHER 4.4 CREATE (n)", "CYPHER 4.4 " + form("CREATE (n)")},
		{"a bracket behind the language", "CYPHER 5[$a]", "CYPHER 5 " + form("[__gm.`a`]")},
		{"options", "CYPHER runtime=slotted planner = cost CREATE (n)", "CYPHER runtime=slotted planner=cost " + form("CREATE (n)")},
		{"language and options, twice", "CYPHER 5 runtime=slotted CYPHER planner=cost CREATE (n)", "CYPHER 5 runtime=slotted CYPHER planner=cost " + form("CREATE (n)")},
		{"a variable called cypher", "MATCH (cypher) SET cypher.x = 5", form("MATCH (cypher) SET cypher.x = 5")},

		{"own subquery", "MATCH (n) CALL (n) { SET n.x = $a }", form("MATCH (n) CALL (n, __gm) { SET n.x = __gm.`a` }")},
		{"own subquery of several variables", "CALL ( a , b ) { RETURN 1 AS x }", form("CALL ( a , b , __gm) { RETURN 1 AS x }")},
		{"own subquery of none", "CALL () { RETURN $a AS x } RETURN x", form("CALL (__gm) { RETURN __gm.`a` AS x } RETURN x")},
		{"own subquery of none, with a comment", "call(/* none */)\n{ RETURN 1 AS x }", form("call(/* none */__gm)\n{ RETURN 1 AS x }")},
		{"own subquery of all", "CALL (*) { RETURN $a AS x }", form("CALL (*) { RETURN __gm.`a` AS x }")},
		{"own subqueries within each other", "CALL (n) { CALL (n) { SET n.x = $a } }", form("CALL (n, __gm) { CALL (n, __gm) { SET n.x = __gm.`a` } }")},
		{"optional subquery", "OPTIONAL CALL (n) { RETURN 1 AS x }", form("OPTIONAL CALL (n, __gm) { RETURN 1 AS x }")},
		{"a variable in backticks", "CALL (`a)b`) { RETURN 1 AS x }", form("CALL (`a)b`, __gm) { RETURN 1 AS x }")},
		{"own subquery without a list", "CALL { CREATE (n) }", form("CALL { CREATE (n) }")},
		{"a procedure", "CALL db.create.setLabels(n, $l) YIELD node", form("CALL db.create.setLabels(n, __gm.`l`) YIELD node")},
		{"subqueries that see everything", "MATCH (n) WHERE EXISTS { (n)-->({id: $a}) } SET n.c = COUNT { (n)-->() }",
			form("MATCH (n) WHERE EXISTS { (n)-->({id: __gm.`a`}) } SET n.c = COUNT { (n)-->() }")},
		{"call in a string", "CREATE ({x: 'CALL (n) {'})", form("CREATE ({x: 'CALL (n) {'})")},
		{"brackets in strings, comments and names", "CREATE (n:`}` {x: ')', y: \"]\"}) /* { */", form("CREATE (n:`}` {x: ')', y: \"]\"}) /* { */")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, why := coalesce(tc.text)
			require.Empty(t, why)
			require.Equal(t, tc.want, c.query)
		})
	}
}

func TestCoalesceRefuses(t *testing.T) {
	for _, tc := range []struct{ name, text, why string }{
		{"nothing", "", "empty"},
		{"white space and comments", " /* a */ // b", "empty"},
		{"options alone", "CYPHER 25 ", "empty"},
		{"explain", "EXPLAIN CREATE (n)", "begins with EXPLAIN"},
		{"profile behind options", "CYPHER 5 profile CREATE (n)", "begins with PROFILE"},
		{"two statements", "CREATE (n); CREATE (m)", "several statements"},
		{"two semicolons", "CREATE (n);;", "several statements"},
		{"a semicolon alone", ";", "several statements"},
		{"our variable", "MATCH (__gm) RETURN __gm", "uses the name __gm"},
		{"our variable in backticks", "MATCH (`__gm`) RETURN 1", "uses the name __gm"},
		{"our variable as a shadow", "RETURN [__gm IN $l | __gm.x] AS l", "uses the name __gm"},
		{"our variable as a parameter", "CREATE ({x: $__gm})", "uses the name __gm"},
		{"our variable as a property", "SET n.__gm = 1", "uses the name __gm"},
		{"groups by everything", "MATCH (:A {k: $k}) WITH *, count(*) AS c CREATE (:B {c: c})", "WITH *, groups"},
		{"groups by everything that differs", "MATCH (:A {k: $k}) with /* c */ distinct *\n, count(*) AS c CREATE (:B {c: c})", "WITH *, groups"},
		{"a bracket too many", "CREATE (n) } CREATE (m) //", "not balanced"},
		{"a bracket too few", "CREATE (n {x: 1)", "not balanced"},
		{"brackets crossed", "CREATE (n {x: [1)]}", "not balanced"},
		{"closes our subquery and opens one", "CREATE (n) } CALL { CREATE (m)", "not balanced"},
		{"string without an end", "CREATE ({x: 'a})", "string has no end"},
		{"string that ends with a backslash", `CREATE ({x: 'a\`, "string has no end"},
		{"name without an end", "CREATE (n:`a)", "backticks has no end"},
		{"parameter without an end", "CREATE ({x: $`a})", "backticks has no end"},
		{"comment without an end", "CREATE (n) /* a", "comment has no end"},
		{"comment behind a dollar without an end", "RETURN $ /* a", "comment has no end"},
		{"a dollar at the end", "RETURN $", "no name"},
		{"a dollar before a bracket", "RETURN $]", "no name"},
		{"a dollar in a name", "RETURN a$b AS x", "inside of a name"},
		{"a dollar in a parameter", "RETURN $a$b AS x", "inside of a name"},
		{"no space before a dollar", "RETURN$x AS y", "inside of a name"},
		{"an escape that is a quote", `RETURN 'a\u0027 + $x + '`, `\u escape`},
		{"an escape in a name", `MATCH (n:\u0041 {x: $x}) RETURN n`, `\u escape`},
		{"an escape with more than one u", `RETURN '\uu0027'`, `\u escape`},
		{"carriage return in a comment", "RETURN 1 // a\r+ $x AS y", "carriage return"},
		{"control character", "RETURN \x01 AS y", "control character"},
		{"not UTF-8", "RETURN '\xff' AS y", "UTF-8"},
		{"very long", "CREATE (n {x: '" + strings.Repeat("a", maxCoalescedText) + "'})", "too long"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, why := coalesce(tc.text)
			require.Contains(t, why, tc.why)
		})
	}
}

func TestCoalesceTakesWhatOnlyLooksOdd(t *testing.T) {
	for _, text := range []string{
		`CREATE ({path: 'C:\\users\\x', y: $a})`,    // no escape: four hexadecimal digits are missing
		"CREATE (n) // Windows\r\nSET n.x = $a\r\n", // line ends of Windows
		"RETURN '__gm' AS x /* __gm */",
		"MATCH (n) WITH * WHERE n.x = $a WITH n.x * 2 AS y, count(*) AS c RETURN *",
		"MATCH (with) WITH",
		"RETURN 1.5e3 AS x, 0x1F AS y, .5 AS z",
		"MATCH (a)-[:R*1..3]->(b) WHERE a.x <> $a RETURN b",
	} {
		_, why := coalesce(text)
		require.Empty(t, why, text)
	}
}

func TestLexGivesBackTheText(t *testing.T) {
	const text = "CYPHER 25 MATCH (n:`a``b`) /* c */ SET n.x = $ p, n.y = 'it\\'s', n.z = \"$q\" // end"
	tokens, why := lex(text)
	require.Empty(t, why)
	var b strings.Builder
	for _, token := range tokens {
		b.WriteString(token.text)
	}
	require.Equal(t, text, b.String())
}

// undo is what turns the rewritten parameters back.
var undo = regexp.MustCompile("__gm\\.`((?:[^`]|``)*)`")

func FuzzCoalesce(f *testing.F) {
	for _, text := range []string{
		"", ";", "$", "$`", "'", "/*", "//", "CYPHER", "CYPHER 5 a=b", "CALL", "CALL (", "CALL (*) {}", "CALL ()", "CALL (n) {",
		"MERGE (n:P {id: $id}) SET n.v = $`a``b`, n.w = 'x\\'$y' // $z",
		"CALL (a, b) { RETURN $ x AS y } RETURN y;", "CREATE (n:$($l):$all($m)) ", "RETURN a$b", "RETURN \\u0027", "CYPHER 4.4 \u00a0RETURN $größe",
		"EXPLAIN RETURN 1", "RETURN __gm", "{[(", "}", "RETURN 1 // \r$x",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, why := coalesce(text)
		if why != "" {
			return
		}
		// The result is one balanced statement whose only parameter is our list.
		tokens, why := lex(c.query)
		require.Empty(t, why)
		var depth int
		for _, token := range tokens {
			switch {
			case token.kind == tokenParam:
				require.Equal(t, rowsParameter, token.name)
			case token.mark(';'):
				t.Fatalf("a semicolon stands in %q", c.query)
			case token.mark('(') || token.mark('[') || token.mark('{'):
				depth++
			case token.mark(')') || token.mark(']') || token.mark('}'):
				depth--
			}
			require.GreaterOrEqual(t, depth, 0)
		}
		require.Zero(t, depth)
		require.True(t, strings.HasSuffix(c.query, "\n} FINISH"))

		// A text without parameters and subqueries stands in it as it is.
		if len(c.params) == 0 && !strings.Contains(strings.ToUpper(text), "CALL") && !strings.Contains(strings.ToUpper(text), "CYPHER") &&
			!strings.Contains(text, ";") {
			require.Equal(t, form(text), c.query)
		}
		if strings.Contains(text, rowVariable) {
			return // in a string or comment
		}
		// With the parameters turned back it is a text of the same form.
		again, why := coalesce(undo.ReplaceAllString(body(c.query), "$$`$1`"))
		if !strings.Contains(strings.ToUpper(text), "CALL") {
			require.Empty(t, why)
			require.Equal(t, c.query[strings.Index(c.query, "UNWIND"):], again.query)
		}
	})
}

// body cuts the text out of its form.
func body(query string) string {
	_, rest, _ := strings.Cut(query, " CALL (__gm) { ")
	return strings.TrimSuffix(rest, "\n} FINISH")
}
