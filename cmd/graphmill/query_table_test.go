package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/creack/pty"
	"github.com/mattn/go-runewidth"
	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill/api"
)

// onScreen is a table as a terminal of that many columns gets it.
func onScreen(t *testing.T, width int, answer api.Queried) string {
	t.Helper()
	master, slave, err := pty.Open()
	require.NoError(t, err)
	defer func() { require.NoError(t, master.Close()) }()
	defer func() { require.NoError(t, slave.Close()) }()
	require.NoError(t, pty.Setsize(slave, &pty.Winsize{Rows: 30, Cols: uint16(width)}))
	var out bytes.Buffer
	printRows(&out, answer, slave)
	return out.String()
}

func answered(t *testing.T, columns []string, rows ...string) api.Queried {
	t.Helper()
	a := api.Queried{Columns: columns}
	for _, r := range rows {
		var values []json.RawMessage
		require.NoError(t, json.Unmarshal([]byte(r), &values))
		a.Rows = append(a.Rows, values)
	}
	return a
}

func TestTablesFitTheTerminal(t *testing.T) {
	streams := answered(t, []string{"name", "transformation_name", "is running"},
		`["ratings", "movies.transform", false]`, `["流れ", "cypher.event", true]`)
	definition := answered(t, []string{"name", "statement"},
		`["r", "CREATE KAFKA STREAM r\n  TOPICS ratings\n  SETTINGS {'query': 'MERGE (n:N {id: $event.id})'}"]`)
	messages := answered(t, []string{"raw messages"}, `[["{\"userId\":1,\"title\":\"流れる流れる流れる\"}", "`+strings.Repeat("x", 40)+`"]]`)
	for name, c := range map[string]struct {
		width  int
		answer api.Queried
		want   string
	}{
		"wide enough": {60, streams, `
┌─────────┬─────────────────────┬────────────┐
│ name    │ transformation_name │ is running │
├─────────┼─────────────────────┼────────────┤
│ ratings │ movies.transform    │ false      │
│ 流れ    │ cypher.event        │ true       │
└─────────┴─────────────────────┴────────────┘
`},
		"columns that would be too narrow stand below one another": {45, streams, `
┌─────────────────────┬──────────────────┐
│ name                │ ratings          │
│ transformation_name │ movies.transform │
│ is running          │ false            │
├─────────────────────┼──────────────────┤
│ name                │ 流れ             │
│ transformation_name │ cypher.event     │
│ is running          │ true             │
└─────────────────────┴──────────────────┘
`},
		"no row, and too narrow": {30, answered(t, streams.Columns), ""},
		"a long value goes over lines, indented as it is": {40, definition, `
┌──────┬─────────────────────────────┐
│ name │ statement                   │
├──────┼─────────────────────────────┤
│ r    │ CREATE KAFKA STREAM r       │
│      │   TOPICS ratings            │
│      │   SETTINGS {'query': 'MERGE │
│      │   (n:N {id: $event.id})'}   │
└──────┴─────────────────────────────┘
`},
		"JSON is cut at its commas, what has neither blank nor comma at the width": {30, messages, `
┌────────────────────────────┐
│ raw messages               │
├────────────────────────────┤
│ {"userId":1,"title":"流れ  │
│ る流れる流れる"}           │
│ xxxxxxxxxxxxxxxxxxxxxxxxxx │
│ xxxxxxxxxxxxxx             │
└────────────────────────────┘
`},
	} {
		t.Run(name, func(t *testing.T) {
			out := onScreen(t, c.width, c.answer)
			require.Equal(t, strings.TrimPrefix(c.want, "\n"), out)
			for line := range strings.SplitSeq(out, "\n") {
				require.LessOrEqual(t, runewidth.StringWidth(line), c.width)
			}
		})
	}
}

// However narrow the terminal is, the whole of a value is there, in order.
func TestFoldedValuesAreWhole(t *testing.T) {
	value := "      MERGE (流:User {id: $userId}) 流れる流れる, " + strings.Repeat("e\u0301", 30) + "\n\n \n" + strings.Repeat(" ", 40) + "x"
	bare := strings.NewReplacer(" ", "", "\n", "")
	for width := 1; width < 80; width++ {
		folded := fold(value, width)
		require.Equal(t, bare.Replace(value), bare.Replace(folded), width)
		for line := range strings.SplitSeq(folded, "\n") {
			require.LessOrEqual(t, runewidth.StringWidth(line), max(width, 2), "%d: %q", width, line)
		}
	}
}
