package statement

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The grammar and the table of options know the same options.
func TestEveryOptionIsInTheGrammar(t *testing.T) {
	for _, o := range options {
		require.Contains(t, keywords(), o.keyword)
	}
	statements := []string{"ALL", "ALTER", "AS", "BATCH_LIMIT", "CALL", "CHECK", "CREATE", "DROP", "FALSE", "FROM", "KAFKA", "NULL", "PULSAR", "SET", "SHOW", "START", "STOP", "STREAM", "STREAMS", "TIMEOUT", "TRUE", "YIELD"}
	for _, k := range keywords() {
		require.True(t, slices.Contains(statements, k) || kindOf(k) >= 0, "%s is an option without an entry in options", k)
	}
}

// Whatever option is added can be printed, too, and is read as it was.
func TestEveryOptionIsPrintedAsItIsRead(t *testing.T) {
	values := map[kind]string{
		kindTopics: "a-b.c, 'NULL', '2nd'", kindServers: "'h:1,i:2'", kindWords: "schema, load_csv", kindWord: "off", kindName: "'null'",
		kindStart: "'2026-01-31T12:00:00Z'", kindInteger: "7", kindString: "'a\\'b'", kindMap: "{'a.b': 'c\\n', '': ''}",
	}
	for _, o := range options {
		if o.field == "" {
			continue
		}
		t.Run(o.keyword, func(t *testing.T) {
			value := values[o.kind]
			require.NotEmpty(t, value)
			create := "CREATE KAFKA STREAM s"
			if o.sources != nil {
				create = "CREATE " + o.sources[0] + " STREAM s"
			}
			for _, needed := range []string{"TOPICS t", "TRANSFORM m.f"} {
				if !strings.HasPrefix(needed, o.keyword+" ") {
					create += " " + needed
				}
			}
			for _, text := range []string{create + " " + o.keyword + " " + value, "ALTER STREAM s SET " + o.keyword + " " + value, "ALTER STREAM s SET " + o.keyword + " NULL"} {
				first, err := Parse(text, nil)
				require.NoError(t, err, text)
				printed := Print(first)
				require.Contains(t, printed, " "+o.keyword+" ")
				again, err := Parse(printed, nil)
				require.NoError(t, err, printed)
				if c, ok := again.(*Create); ok {
					require.Equal(t, first.(*Create).Spec.WithDefaults(), c.Spec.WithDefaults(), printed)
					continue
				}
				require.Equal(t, first, again, printed)
			}
		})
	}
}
