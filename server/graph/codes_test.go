package graph

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

//go:generate go test -run TestPageOfFaultsIsCurrent -update .

var update = flag.Bool("update", false, "write docs/faults.md")

const pageOfFaults = "../../docs/faults.md"

func TestEveryCodeOfNeo4jIsPlaced(t *testing.T) {
	f, err := os.Open("testdata/neo4j-5.26-codes.txt")
	require.NoError(t, err)
	defer f.Close()
	n := 0
	for lines := bufio.NewScanner(f); lines.Scan(); {
		code, ok := strings.CutPrefix(lines.Text(), "Neo.")
		if !ok {
			continue // a comment
		}
		n++
		require.True(t, isPlaced(code), "%s is not placed", code)
	}
	require.Greater(t, n, 100)
}

func TestCodesArePlacedOnce(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range placed {
		require.True(t, slices.IsSorted(p.codes), "%v", p.codes)
		for _, c := range p.codes {
			require.False(t, seen[c], "%s is there twice", c)
			seen[c] = true
		}
	}
}

func isPlaced(code string) bool {
	for _, p := range placed {
		if slices.Contains(p.codes, code) {
			return true
		}
	}
	return false
}

// The page is made of the tables, so it cannot say anything else.
func TestPageOfFaultsIsCurrent(t *testing.T) {
	page := writePageOfFaults()
	if *update {
		require.NoError(t, os.WriteFile(pageOfFaults, page, 0o644))
	}
	have, err := os.ReadFile(pageOfFaults)
	require.NoError(t, err)
	require.Equal(t, string(page), string(have), "run: go generate ./server/graph")
}

func writePageOfFaults() []byte {
	var b bytes.Buffer
	b.WriteString(`# Errors of the database

Made from the tables of server/graph/codes.go (` + "`go generate ./server/graph`" + `). A batch's error is of one of four classes, and the class decides what becomes of the batch; the reason stands in the status of the stream, with the database's own words.

| class | what happens |
|---|---|
| transient | the same statements again: after a conflict a limited number of times, after an outage without limit |
| too big | smaller batches are tried |
| set-up | the stream stops (` + "`failed`" + `) until somebody has mended the cause; START tries again |
| message | a statement is refused for good: ` + "`ON_FAILURE`" + ` decides |

A connection that is lost at COMMIT, or a database that goes away then, leaves it open whether the batch was committed. The batch is executed again, so its effects may be in the graph twice with at_least_once. An error at any other moment means that nothing of the batch was applied.

## By reason
`)
	for _, f := range []fault{
		faultConflict, faultAway, faultExhausted, faultUnwell, faultReadOnly, faultTooBig, faultAuth, faultForbidden, faultNoDatabase, faultTLS, faultIncompatible,
		faultMessage, faultDoubtful,
	} {
		title := "`" + f.code + "`"
		if f.doubtful {
			title += ", but it may be something else"
		}
		fmt.Fprintf(&b, "\n### %s\n\nClass: %s. %s", title, strings.NewReplacer("too_big", "too big", "set_up", "set-up").Replace(string(f.class)), f.about)
		if f.next != "" {
			fmt.Fprintf(&b, " What to do: %s.", f.next)
		}
		b.WriteString("\n")
		writeCodes(&b, f)
	}
	b.WriteString("\n## Codes that are not listed\n\n| begins with | reason |\n|---|---|\n")
	for _, f := range families {
		fmt.Fprintf(&b, "| `%s` | `%s` |\n", f.prefix, f.fault.code)
	}
	b.WriteString("| anything else | `message`, but it may be something else |\n")
	return b.Bytes()
}

func writeCodes(b *bytes.Buffer, f fault) {
	for _, p := range placed {
		if p.fault == f {
			fmt.Fprintf(b, "\n- `%s`\n", strings.Join(p.codes, "`\n- `"))
		}
	}
	var texts []string
	for _, m := range memgraphTexts {
		if m.fault == f {
			texts = append(texts, "\""+m.text+"\"")
		}
	}
	if texts != nil {
		fmt.Fprintf(b, "\nMemgraph, whose message holds: %s.\n", strings.Join(texts, ", "))
	}
}
