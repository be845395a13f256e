package statement_test

import (
	"strings"
	"testing"

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
		"SHOW STREAMS":       {{"SHOW STREAMS", 1, false}},
		"A;B":                {{"A", 1, true}, {"B", 1, false}},
		"// first\n\nA\n 'x;\n' `;` \"\\\";\" /* ; */;\n  B // ;\n;": {{"A\n 'x;\n' `;` \"\\\";\"", 3, true}, {"B", 6, true}},
		"A 'b;": {{"A 'b;", 1, false}},
	} {
		require.Equal(t, want, statement.Split(text), text)
	}
}

func TestAnErrorOfAPieceIsToldInItsText(t *testing.T) {
	const text = "SHOW STREAMS;  SHOW\n  STREAM;\tSHOW ALL;"
	var places []string
	for _, p := range statement.Split(text) {
		_, err := statement.Parse(p.Text, nil)
		var e *statement.Error
		if err != nil {
			require.ErrorAs(t, err, &e)
			e = p.In(text, e)
			places = append(places, place(e)+"\n"+e.Excerpt(text))
		}
	}
	require.Equal(t, []string{
		"2:3\n  STREAM;\tSHOW ALL;\n  ^^^^^^",
		"2:16\n  STREAM;\tSHOW ALL;\n         \t     ^^^",
	}, places)
}

func TestExcerptsOfLongLinesAreCut(t *testing.T) {
	text := "SHOW STREAMS /* " + strings.Repeat("ä", 200) + " */ ALL /* " + strings.Repeat("ö", 200) + " */"
	_, err := statement.Parse(text, nil)
	var e *statement.Error
	require.ErrorAs(t, err, &e)
	lines := strings.Split(e.Excerpt(text), "\n")
	require.Len(t, lines, 2)
	require.Len(t, []rune(lines[0]), 100)
	require.Equal(t, "ALL", string([]rune(lines[0])[strings.Index(lines[1], "^"):][:3]))
	require.Empty(t, (&statement.Error{Line: 9}).Excerpt("a"))
}

func TestComplete(t *testing.T) {
	verbs := []string{"ALTER", "CALL", "CHECK", "CREATE", "DROP", "SHOW", "START", "STOP"}
	for text, want := range map[string]statement.Completion{
		"":                     {Keywords: verbs},
		"SHOW STREAMS;":        {Keywords: verbs},
		"  sh":                 {Begun: "sh", Keywords: verbs},
		"A; SHOW ":             {Keywords: []string{"CREATE", "STREAMS"}},
		"START ":               {Keywords: []string{"ALL", "STREAM"}},
		"START STREAM ":        {Names: statement.StreamNames},
		"start stream my-":     {Begun: "my-", Names: statement.StreamNames},
		"START STREAM s ":      {Keywords: []string{"BATCH_LIMIT", "TIMEOUT"}},
		"CREATE KAFKA STREAM ": {},
		"CREATE KAFKA STREAM s TOPICS a TRANSFORM movies.r": {Begun: "movies.r", Names: statement.TransformationNames},
		"CALL mg.":                          {Begun: "mg.", Names: statement.ProcedureNames},
		"CALL mg.load('":                    {},
		"CREATE KAFKA STREAM s TOPICS 'a'":  {},
		"CREATE KAFKA STREAM s BATCH_SIZE ": {},
		"CREATE PULSAR STREAM s TOPICS a SERV": {Begun: "SERV", Keywords: []string{
			"TOPICS_PATTERN", "TRANSFORM", "SUBSCRIPTION", "SUBSCRIPTION_TYPE", "BATCH_INTERVAL", "BATCH_SIZE", "BATCH_BYTES", "SERVICE_URL", "CONFIGS", "CREDENTIALS", "START_FROM",
			"DELIVERY", "CHECKPOINT_ID", "ON_FAILURE", "DEAD_LETTER_TOPIC", "ISOLATION_LIMIT", "PARALLELISM", "DATABASE", "COALESCE", "ALLOW", "SETTINGS", "MEMORY_LIMIT", "TIME_LIMIT", "RESPONSE_LIMIT",
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
	})
}
