package statement_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/api/statement"
)

func TestPrintedStatementsAreRead(t *testing.T) {
	for _, text := range []string{
		"CREATE KAFKA STREAM s\n  TOPICS t\n  TRANSFORM m.f\n  CONSUMER_GROUP mg_consumer\n  BATCH_INTERVAL 100\n  BATCH_SIZE 1000",
		"CREATE KAFKA STREAM my-stream.v2\n  TOPICS a.b-c, '2nd', 'topic-3', 'a-', 'NULL'\n  TRANSFORM `` m",
		"CREATE KAFKA STREAM s\n  TOPICS t\n  TRANSFORM m.f\n  CONSUMER_GROUP 'a b\\'c\\\\d\\u0001\\n'\n  BATCH_INTERVAL 1\n  BATCH_SIZE 2\n  BATCH_BYTES 3\n  BOOTSTRAP_SERVERS 'h1:1,h2:2'\n" +
			"  CONFIGS {'a': 'b', 'c': 'secret:d'}\n  CREDENTIALS {'sasl.password': '********'}\n  START_FROM '2026-01-31T12:00:00Z'\n  DATABASE movies\n  COALESCE off\n  ALLOW schema, load_csv\n" +
			"  SETTINGS {'query': 'MERGE (n {a: \\'b\\'})\\n'}\n  MEMORY_LIMIT 1\n  TIME_LIMIT 2\n  RESPONSE_LIMIT 3",
		"ALTER STREAM s SET TOPICS a, 'NULL' BATCH_SIZE NULL CONFIGS {'a': NULL, 'b': 'c'} FROM committed",
		"START STREAM s", "START STREAM null BATCH_LIMIT 1 TIMEOUT 2", "START ALL STREAMS", "STOP STREAM 'a b'", "STOP ALL STREAMS", "DROP STREAM größe",
		"SHOW STREAMS", "SHOW CREATE STREAM s", "CHECK STREAM s", "CHECK STREAM s BATCH_LIMIT 1 TIMEOUT 2 FROM earliest", "CHECK STREAM s FROM '2026-01-31T12:00:00Z'",
		"CALL mg.load_all()", "CALL `a b`.c(1, -2, 1.5, 1e+20, 3.0, TRUE, NULL, ['a', []], {'k': {}}) YIELD a, b AS `c d`",
	} {
		first, err := statement.Parse(strings.ReplaceAll(text, "`` m", "m"), nil)
		require.NoError(t, err, text)
		printed := statement.Print(first)
		again, err := statement.Parse(printed, nil)
		require.NoError(t, err, printed)
		require.Equal(t, sameDefaults(first), sameDefaults(again), printed)
		require.Equal(t, printed, statement.Print(again))
	}
}

func TestADefinitionIsPrintedAsItIsWritten(t *testing.T) {
	spec := graphmill.StreamSpec{
		Name: "ratings", Source: "kafka", Topics: []string{"ratings", "2nd"}, Transform: "movies.rating", BootstrapServers: []string{"a:1", "b:2"},
		Credentials: map[string]string{"sasl.password": "********"}, Settings: map[string]string{"query": "RETURN 'x'"},
	}
	require.Equal(t, `CREATE KAFKA STREAM ratings
  TOPICS ratings, '2nd'
  TRANSFORM movies.rating
  CONSUMER_GROUP graphmill.ratings
  BATCH_INTERVAL 100
  BATCH_SIZE 1000
  BOOTSTRAP_SERVERS 'a:1,b:2'
  CREDENTIALS {'sasl.password': '********'}
  SETTINGS {'query': 'RETURN \'x\''}`, statement.Print(&statement.Create{Spec: spec}))
}

// sameDefaults makes definitions that mean the same equal.
func sameDefaults(s statement.Statement) statement.Statement {
	if c, ok := s.(*statement.Create); ok {
		return &statement.Create{Spec: c.Spec.WithDefaults()}
	}
	return s
}

func TestSplit(t *testing.T) {
	for text, want := range map[string][]statement.Piece{
		"":                   nil,
		" ;; // a\n/* b; */": nil,
		"SHOW STREAMS":       {{"SHOW STREAMS", 1, 1, false}},
		"A;B":                {{"A", 1, 1, true}, {"B", 1, 3, false}},
		"// first\n\nA\n 'x;\n' `;` \"\\\";\" /* ; */;\n  B // ;\n;": {{"A\n 'x;\n' `;` \"\\\";\"", 3, 1, true}, {"B", 6, 3, true}},
		"A 'b;": {{"A 'b;", 1, 1, false}},
	} {
		require.Equal(t, want, statement.Split(text), text)
	}
}

func TestOneLine(t *testing.T) {
	for text, want := range map[string]string{
		"":                             "",
		"  SHOW\n\t STREAMS ;\n":       "SHOW STREAMS ;",
		"A 'x  y' // why\nB /* c */;":  "A 'x  y' B ;",
		"A 'pulsar://x' /* \n */ `//`": "A 'pulsar://x' `//`",
		"A /*":                         "A /*",
	} {
		line, ok := statement.OneLine(text)
		require.True(t, ok, text)
		require.Equal(t, want, line, text)
	}
	for _, text := range []string{"A 'x\ny'", "A `x\ny`", "A 'x\n", "A /*\n"} {
		_, ok := statement.OneLine(text)
		require.False(t, ok, text)
	}
}

func TestAnErrorOfAPieceIsToldInItsText(t *testing.T) {
	const text = "SHOW STREAMS;  SHOW\n  STREAM;\tSHOW ALL; SHOW; SHOW ALL"
	var places []string
	for _, p := range statement.Split(text) {
		_, err := statement.Parse(p.Text, nil)
		var e *statement.Error
		if err != nil {
			require.ErrorAs(t, err, &e)
			e = p.In(e)
			places = append(places, place(e)+"\n"+e.Excerpt(text))
		}
	}
	require.Equal(t, []string{
		"2:3\n  STREAM;\tSHOW ALL; SHOW; SHOW ALL\n  ^^^^^^",
		"2:16\n  STREAM;\tSHOW ALL; SHOW; SHOW ALL\n         \t     ^^^",
		"2:25\n  STREAM;\tSHOW ALL; SHOW; SHOW ALL\n         \t              ^",
		"2:32\n  STREAM;\tSHOW ALL; SHOW; SHOW ALL\n         \t                     ^^^",
	}, places)
}

func TestExcerptsOfLongLinesAreCut(t *testing.T) {
	text := "SHOW STREAMS /* " + strings.Repeat("ä", 200) + " */ ALL /* " + strings.Repeat("ö", 200) + " */"
	_, err := statement.Parse(text, nil)
	var e *statement.Error
	require.ErrorAs(t, err, &e)
	lines := strings.Split(e.Excerpt(text), "\n")
	require.Len(t, lines, 2)
	require.Len(t, []rune(lines[0]), 76, "with its indentation it fits a terminal")
	require.Equal(t, "ALL", string([]rune(lines[0])[strings.Index(lines[1], "^"):][:3]))
	require.Empty(t, (&statement.Error{Line: 9}).Excerpt("a"))
}

// The caret stands below what is wrong, whatever stands before it.
func TestTheCaretIsBelowThePlace(t *testing.T) {
	for text, want := range map[string]string{
		"SHOW ALL":                        "SHOW ALL\n     ^^^",
		"DROP STREAM 流れ x":                "DROP STREAM 流れ x\n                 ^",
		"DROP STREAM s 流れ":                "DROP STREAM s 流れ\n              ^^^^",
		"DROP\tSTREAM\t'流'\tx":            "DROP\tSTREAM\t'流'\tx\n    \t      \t    \t^",
		"DROP STREAM 'e\u0301' x":         "DROP STREAM 'e\u0301' x\n                ^",
		"DROP STREAM '\x1b[31m\x00' x":    "DROP STREAM '?[31m?' x\n                     ^",
		"DROP STREAM '\u202egnp\u202c' x": "DROP STREAM '?gnp?' x\n                    ^",
		"DROP STREAM\r\n  s x\r\n":        "  s x\n    ^",
	} {
		_, err := statement.Parse(text, nil)
		var e *statement.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, want, e.Excerpt(text), "%q", text)
	}
}

// Passwords are mistyped, too: what may be one is neither in the error nor in the
// line that is shown of the text.
func TestSecretsAreInNoError(t *testing.T) {
	const create = "CREATE KAFKA STREAM s TOPICS t TRANSFORM m.f "
	const secret = "s3cr3t"
	for _, text := range []string{
		create + "CREDENTIALS {'sasl.password': s3cr3t}",
		create + "CREDENTIALS {'sasl.password': 's3cr3t' 'x'}",
		create + "CREDENTIALS {'sasl.password': 's3cr3t",
		create + "CREDENTIALS {'sasl.password': 'a's3cr3t'}",
		create + "CREDENTIALS {'sasl.password': 'a's3cr3t', 'b': 'c'}",
		create + "CREDENTIALS {'sasl.password': 'a', 's3cr3t'}",
		create + "CREDENTIALS {'sasl.password': 's3cr3t'}, x",
		create + "CREDENTIALS {'sasl.password': 's3cr3t'} x",
		create + "CREDENTIALS {sasl.password: 's3cr3t'}",
		create + "CREDENTIALS {'sasl.password' 's3cr3t'}",
		create + "CREDENTIALS {'sasl.password': 's3cr3t': 'x'}",
		create + "CREDENTIALS {'sasl.password': ['s3cr3t']}",
		create + "CREDENTIALS {'sasl.password': 's3cr3t', 'sasl.password': 's3cr3t'}",
		create + "CREDENTIALS ['s3cr3t']",
		create + "CREDENTIALS 's3cr3t'",
		create + "CREDENTIALS s3cr3t",
		create + "CREDENTIALS sasl.password=s3cr3t",
		create + "CREDENTIALS ('sasl.password': 's3cr3t')",
		create + "CONFIGS s3cr3t",
		create + "CONFIGS {'sasl.password': s3cr3t}",
		create + "CONFIGS {'url': http://user:s3cr3t@host}",
		create + "CREDENTIALS {'url': /* s3cr3t",
		create + "CREDENTIALS\n{'sasl.password':\n s3cr3t}",
		create + "BATCH_SIZE x CREDENTIALS {'sasl.password': 's3cr3t'}",
		create + "CONSUMER_GROUP 'g CREDENTIALS {'sasl.password': 's3cr3t'}",
		"CREATE KAFKA STREAM s TOPICS 't TRANSFORM m.f CREDENTIALS {'sasl.password': 's3cr3t'}",
		"ALTER STREAM s SET CREDENTIALS {'sasl.password': 's3cr3t'} FROM x",
		"ALTER STREAM s SET CREDENTIALS s3cr3t",
		create + `CREDENTIALS {'sasl.password': 's3cr3t\x'}`,
		create + `CREDENTIALS {'sasl.password': '\us3cr3t'}`,
		create + "CREDENTIALS {'sasl.password': 0s3cr3t}",
		create + "CREDENTALS {'sasl.password': 's3cr3t'}",
		create + "CREDENTIAL {'sasl.password': {'a': ['s3cr3t']}}",
		create + "SETTINGS {'a': 'b'} CREDENTIAL {'a': 's3cr3t'}",
		"CALL mg.x({'password': 's3cr3t'}) x",
	} {
		_, err := statement.Parse(text, nil)
		var e *statement.Error
		require.ErrorAs(t, err, &e, text)
		require.NotContains(t, e.Error()+e.Next, secret, text)
		require.NotContains(t, e.Excerpt(text), secret, text)
		require.NotEmpty(t, e.Excerpt(text), text)
		// Nor in the line of another statement behind or before it.
		both := text + ";\nSHOW\n" + text
		for line := 1; line <= strings.Count(both, "\n")+1; line++ {
			require.NotContains(t, (&statement.Error{Line: line, Column: 1, Length: 1}).Excerpt(both), secret, both)
		}
	}
	const alter = "ALTER STREAM s SET "
	for text, want := range map[string]string{
		alter + "CREDENTIALS {sasl.password: 's3cr3t'}":                    alter + "CREDENTIALS {****.********: ********}",
		alter + "CREDENTIALS {'sasl.password': 's3cr3t' 'x'} CONFIGS":      alter + "CREDENTIALS {'sasl.password': ******** ***} CONFIGS",
		"ALTER STREAM s SET SETTINGS {'a': {'b': c}} CONFIG {'a': 'b'} x":  "ALTER STREAM s SET SETTINGS {'a': {'b': c}} CONFIG {'a': ***} x",
		alter + "CONFIGS {'a' : 'b', c: d} BATCH_SIZE x SETTINGS {'e': f}": alter + "CONFIGS {'a' : ***, c: *} BATCH_SIZE x SETTINGS {'e': f}",
	} {
		line, _, _ := strings.Cut((&statement.Error{Line: 1, Column: 1, Length: 1}).Excerpt(text), "\n")
		require.Equal(t, want[:min(len(want), 76)], line)
	}
}

// What is hostile ends soon, however slow the machine.
func TestHostileStatementsEndSoon(t *testing.T) {
	const size = 9 << 10 // bytes: more than what is looked at for advice
	long := strings.Repeat("x", size-200)
	began := time.Now()
	for what, text := range map[string]string{
		"one name":             "DROP STREAM " + long,
		"a name and more":      "DROP STREAM " + long + " y",
		"a string and more":    "DROP STREAM '" + long + "' y",
		"a comment and more":   "DROP /*" + long + "*/ STREAM y z",
		"no end of a string":   "DROP STREAM '" + long,
		"no end of a name":     "DROP STREAM `" + long,
		"no end of a comment":  "DROP STREAM /*" + long,
		"digits":               "CHECK STREAM s TIMEOUT " + strings.Repeat("9", size-200),
		"quotes":               strings.Repeat("'", size),
		"backslashes":          "DROP STREAM '" + strings.Repeat(`\`, size-200),
		"escapes":              "DROP STREAM '" + strings.Repeat(`\u0041`, size/7) + "'",
		"dollars":              strings.Repeat("$`", size/2),
		"slashes":              strings.Repeat("/", size),
		"stars":                strings.Repeat("/*", size/2),
		"white space":          strings.Repeat(" ", size-20) + "SHOW ALL",
		"lines":                strings.Repeat("\n", size-20) + "SHOW ALL",
		"lists":                "CALL x(" + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + ")",
		"maps":                 "CALL x(" + strings.Repeat("{'a':", 1000) + "1" + strings.Repeat("}", 1000) + ")",
		"options":              "CREATE KAFKA STREAM s " + strings.Repeat("BATCH_SIZE 1 ", 1000),
		"different options":    "CREATE KAFKA STREAM s TOPICS t" + strings.Repeat(", t", 1000) + " !",
		"columns":              "CALL x() YIELD a" + strings.Repeat(", a AS b", 500),
		"signs":                strings.Repeat("!", 2000),
		"parentheses":          "CALL x" + strings.Repeat("(", 2000),
		"marks of direction":   strings.Repeat("\u202e\u200f", 1000),
		"no characters at all": strings.Repeat("\x00", 2000),
		"no UTF-8":             strings.Repeat("\xff", 2000),
		"semicolons":           strings.Repeat(";", 2000),
	} {
		_, err := statement.Parse(text, nil)
		if what != "one name" && what != "escapes" {
			var e *statement.Error
			require.ErrorAs(t, err, &e, what)
			require.Less(t, len(e.Text), 2000, what)
			require.Less(t, len(e.Excerpt(text)), 3000, what)
		}
		statement.Complete(text)
		statement.Split(text)
	}
	require.Less(t, time.Since(began), 2*time.Minute)
}

func TestComplete(t *testing.T) {
	verbs := []string{"ALTER", "CALL", "CHECK", "CREATE", "DROP", "SHOW", "START", "STOP"}
	for text, want := range map[string]statement.Completion{
		"":                     {Keywords: verbs},
		"SHOW STREAMS;":        {Keywords: verbs},
		"  sh":                 {Begun: "sh", Keywords: verbs},
		"A; SHOW ":             {Keywords: []string{"CREATE", "STREAMS"}},
		"SHOW /* SHOW */ ":     {Keywords: []string{"CREATE", "STREAMS"}},
		"START ":               {Keywords: []string{"ALL", "STREAM"}},
		"START STREAM ":        {Names: statement.StreamNames},
		"start stream my-":     {Begun: "my-", Names: statement.StreamNames},
		"START STREAM s ":      {Keywords: []string{"BATCH_LIMIT", "TIMEOUT"}},
		"CREATE KAFKA STREAM ": {},
		"CREATE KAFKA STREAM s TOPICS a TRANSFORM movies.r": {Begun: "movies.r", Names: statement.TransformationNames},
		"CALL mg.":                          {Begun: "mg.", Names: statement.ProcedureNames},
		"CALL mg.load('":                    {},
		"CREATE KAFKA STREAM s TOPICS 'a'":  {},
		"STOP STREAM 'a.b'":                 {},
		"CREATE KAFKA STREAM s BATCH_SIZE ": {},
		"CREATE PULSAR STREAM s TOPICS a SERV": {Begun: "SERV", Keywords: []string{
			"TOPICS_PATTERN", "TRANSFORM", "SUBSCRIPTION", "SUBSCRIPTION_TYPE", "BATCH_INTERVAL", "BATCH_SIZE", "BATCH_BYTES", "SERVICE_URL", "CONFIGS", "CREDENTIALS", "START_FROM",
			"DELIVERY", "ON_FAILURE", "DATABASE", "COALESCE", "ALLOW", "SETTINGS", "MEMORY_LIMIT", "TIME_LIMIT", "RESPONSE_LIMIT",
		}},
		strings.Repeat("[", 1000): {},
	} {
		require.Equal(t, want, statement.Complete(text), text)
	}
}

// Whatever comes, Parse ends with a statement that can be printed and read again,
// or with an error whose place is in the text.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"CREATE KAFKA STREAM s TOPICS a-b.c, '2', $p TRANSFORM m.f CONFIGS {'a': 'b\\u00e4'} BOOTSTRAP_SERVERS ['a']",
		"CREATE PULSAR STREAM s TOPICS t TRANSFORM m.f SERVICE_URL 'x'", "ALTER STREAM `a``b` SET ALLOW a, b CONFIGS {'a': NULL}",
		"START STREAM s BATCH_LIMIT 0x1 TIMEOUT 017", "CALL mg.x(-1.5e3, [TRUE, {'a': NULL}]) YIELD a AS b", "CHECK STREAM s FROM latest; // c", "'\"`$/*[{.-",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		statement.Complete(text)
		for _, p := range statement.Split(text) {
			require.Contains(t, text, p.Text)
		}
		s, err := statement.Parse(text, map[string]any{"p": "x"})
		if err != nil {
			var e *statement.Error
			require.ErrorAs(t, err, &e)
			require.Positive(t, e.Line)
			require.Positive(t, e.Column)
			_ = e.Excerpt(text)
			return
		}
		printed := statement.Print(s)
		again, err := statement.Parse(printed, nil)
		require.NoError(t, err, printed)
		require.Equal(t, sameDefaults(s), sameDefaults(again), printed)
		if line, ok := statement.OneLine(text); ok {
			again, err = statement.Parse(line, map[string]any{"p": "x"})
			require.NoError(t, err, line)
			require.Equal(t, s, again, line)
		}
	})
}
