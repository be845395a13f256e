//go:build e2e

package graph_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// evasions write a forbidden text in ways that somebody may hope to be read as
// the text by the database, and as something else here.
var evasions = map[string]func(string) string{
	"as it is":             func(s string) string { return s },
	"lower case":           strings.ToLower,
	"comments for spaces":  func(s string) string { return strings.ReplaceAll(s, " ", "/* ' */") },
	"line comments":        func(s string) string { return strings.ReplaceAll(s, " ", "// `\n") },
	"carriage returns":     func(s string) string { return strings.ReplaceAll(s, " ", "//\r") },
	"tabs and feeds":       func(s string) string { return strings.ReplaceAll(s, " ", "\t\f") },
	"no-break spaces":      func(s string) string { return strings.ReplaceAll(s, " ", "\u00a0") },
	"ideographic spaces":   func(s string) string { return strings.ReplaceAll(s, " ", "\u3000") },
	"separators":           func(s string) string { return strings.ReplaceAll(s, " ", "\x1c\u2028") },
	"next lines":           func(s string) string { return strings.ReplaceAll(s, " ", "\u0085") },
	"zero width spaces":    func(s string) string { return strings.ReplaceAll(s, " ", "\u200b") },
	"byte order mark":      func(s string) string { return "\ufeff" + s },
	"escapes":              escaped,
	"escaped spaces":       func(s string) string { return strings.ReplaceAll(s, " ", `\u0020`) },
	"escaped comment":      func(s string) string { return `/\u002a *\u002f` + s },
	"behind a string":      func(s string) string { return `WITH '\u0027 AS zz ` + s + ` //'` },
	"behind two quotes":    func(s string) string { return `WITH "\\" AS zz ` + s + ` //"` },
	"in a subquery":        func(s string) string { return "CALL () { " + s + " }" },
	"in an old subquery":   func(s string) string { return "CALL { " + s + " }" },
	"in an expression":     func(s string) string { return "RETURN COUNT { " + s + " } AS zz" },
	"behind a clause":      func(s string) string { return "WITH 1 AS zz " + s },
	"behind a statement":   func(s string) string { return "RETURN 1 AS zz; " + s },
	"in a union":           func(s string) string { return "RETURN 1 AS zz UNION " + s },
	"explained":            func(s string) string { return "EXPLAIN " + s },
	"profiled":             func(s string) string { return "PROFILE " + s },
	"with options":         func(s string) string { return "CYPHER 5 planner = cost " + s },
	"with empty options":   func(s string) string { return "CYPHER " + s },
	"with braces":          func(s string) string { return "{ " + s + " }" },
	"in a loop":            func(s string) string { return "FOREACH (zz IN [1] | " + s + ")" },
	"with USE":             func(s string) string { return "USE neo4j " + s },
	"as a part of a batch": func(s string) string { return s + " ;" },
}

func escaped(s string) string {
	var b strings.Builder
	for i, r := range s {
		if r < 0x80 && i%3 == 0 {
			fmt.Fprintf(&b, `\u%04x`, r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// testForbidden sends each forbidden text, in every disguise, to the real
// database: it does not run. One that is not refused here has to be refused
// there.
func (db *database) testForbidden(t *testing.T) {
	db.wipe(t)
	sink := openURI(t, db.URI(), db.login) // one that has not seen any text yet
	here, there := 0, 0
	for _, tc := range forbidden {
		for name, disguise := range evasions {
			text := disguise(tc.text)
			w := work(plainly(text, 0))
			w.Database = "neo4j"
			_, err := sink.Execute(t.Context(), w)
			if !assert.Error(t, err, "%s: %q", name, text) {
				continue
			}
			f := faultOf(t, err)
			require.Equal(t, message, f.Class, "%s: %q: %v", name, text, err)
			if f.Code == "not_allowed" {
				here++
				continue
			}
			there++
			t.Logf("left to the database, %s: %.100q: %.100s", name, text, f.Text)
		}
	}
	t.Logf("%d texts were refused before they were sent, %d by the database", here, there)
	require.Greater(t, here, there)
	users := db.ask(t, "SHOW USERS YIELD user RETURN user", nil)
	require.Len(t, users, 1, "%v", users)
}

// testForbiddenWouldRun shows that the refusal is needed: within a transaction on
// the stream's own database, Neo4j runs these.
func (db *database) testForbiddenWouldRun(t *testing.T) {
	defer db.ask(t, "DROP USER eve IF EXISTS", nil)
	for _, text := range []string{
		"CREATE USER eve SET PASSWORD 'abcdefgh1'",
		"ALTER USER eve SET PASSWORD 'hgfedcba1'",
		"SHOW USERS",
		"SHOW SETTINGS YIELD name, value RETURN name, value",
		"CALL dbms.listConfig() YIELD name RETURN name",
		"call `dbms` /* a */ . // b\n `listConfig`() YIELD name RETURN name",
		`CALL db\u006ds.listConfig() YIELD name RETURN name`,
		"RETURN COLLECT { CALL dbms.listConfig() YIELD name RETURN name } AS x",
		"CALL tx.setMetaData({stream: 'innocent'})",
		"CALL db.clearQueryCaches()",
		"LOAD CSV FROM 'file:///etc/passwd' AS l RETURN l",
		"LOAD // x\rCSV FROM 'file:///etc/passwd' AS l RETURN l",
		`L\u004fAD CSV FROM 'file:///etc/passwd' AS l RETURN l`,
		`WITH '\u0027 AS x LOAD CSV FROM "file:///etc/passwd" AS l RETURN l // '`,
		"RETURN EXISTS { LOAD CSV FROM 'file:///etc/passwd' AS l RETURN l } AS x",
	} {
		session := db.session(t)
		tx, err := session.BeginTransaction(t.Context())
		require.NoError(t, err)
		result, err := tx.Run(t.Context(), text, nil)
		require.NoError(t, err, text)
		_, err = result.Consume(t.Context())
		require.NoError(t, err, text)
		require.NoError(t, tx.Commit(t.Context()), text)
	}
}

func (db *database) testPermitted(t *testing.T) {
	db.wipe(t)
	for _, text := range permitted {
		w := work(plainly(text, 0))
		w.Database = "neo4j"
		for range 3 { // it is examined on the way
			_, err := db.sink.Execute(t.Context(), w)
			require.NoError(t, err, text)
		}
	}
}

// testAllowed runs what ALLOW permits, and asks the database for its opinion of
// what is of the schema.
func (db *database) testAllowed(t *testing.T) {
	db.wipe(t)
	for _, tc := range []struct{ text, allow string }{
		{"CREATE INDEX hx1 IF NOT EXISTS FOR (n:HX) ON (n.k)", "schema"},
		{"CREATE CONSTRAINT hx3 IF NOT EXISTS FOR (n:HY) REQUIRE n.k IS UNIQUE", "schema"},
		{"DROP INDEX hx1 IF EXISTS", "schema"},
		{"DROP CONSTRAINT hx3 IF EXISTS", "schema"},
		{"LOAD CSV FROM 'file:///etc/hostname' AS l CREATE (:Line {l: l})", "load_csv"},
	} {
		w := work(plainly(tc.text, 0))
		w.Stream = "allowed"
		w.Allow = []string{tc.allow}
		for range 4 {
			_, err := db.sink.Execute(t.Context(), w)
			require.NoError(t, err, tc.text)
		}
	}
}
