package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill/integration/pages"
)

const statementsPage = "../../docs/statements.md"

// The session on the page of statements is what the program answers: it is typed
// anew, line by line.
func TestTheSessionOnThePageOfStatementsIsCurrent(t *testing.T) {
	c := newCLI(t)
	p := c.dev(t, "--create-timeout", "30s", "--plugins-dir", filepath.Dir(moviesFile))
	c.env = append(c.env, "PATH="+filepath.Dir(program)+string(filepath.ListSeparator)+os.Getenv("PATH"))
	told, err := os.ReadFile(statementsPage)
	require.NoError(t, err)
	page := string(told)
	for _, block := range pages.Blocks(t, statementsPage, "console") {
		var session strings.Builder
		for _, typed := range typedIn(block) {
			session.WriteString(typed + "\n" + c.answer(t, typed))
		}
		page = strings.Replace(page, "```console\n"+block+"```\n", "```console\n"+session.String()+"```\n", 1)
	}
	p.stop(t)
	if *update {
		require.NoError(t, os.WriteFile(statementsPage, []byte(page), 0o644))
		return
	}
	require.Equal(t, page, string(told), "run: go generate ./cmd/graphmill")
}

// typedIn returns what is typed in a session: commands behind $, and statements
// behind the prompt, which may go over several lines.
func typedIn(block string) []string {
	var typed []string
	for line := range strings.Lines(block) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, "$ "), strings.HasPrefix(line, firstPrompt):
			typed = append(typed, line)
		case strings.HasPrefix(line, nextPrompt):
			typed[len(typed)-1] += "\n" + line
		}
	}
	return typed
}

var took = regexp.MustCompile(`\b[0-9]+ ms\b`)

// answer is what the program says to a line, with one time in place of all.
func (c *cli) answer(t *testing.T, typed string) string {
	t.Helper()
	if line, ok := strings.CutPrefix(typed, "$ "); ok {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, "sh", "-c", line)
		cmd.Dir, cmd.Env = c.dir, c.env
		said, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", said)
		return string(said)
	}
	statement := strings.TrimPrefix(strings.ReplaceAll(typed, "\n"+nextPrompt, "\n"), firstPrompt)
	r := c.run(t, "", "query", statement)
	return took.ReplaceAllString(r.out+r.err, "2 ms")
}
