package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A script, or a plugin's CI, sees only the status.
func TestRunFailsWhereAMessageFails(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, lines ...string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600))
		return path
	}
	const good, bad = `{"payload": "{\"userId\":7,\"movieId\":1,\"rating\":5}"}`, `{"payload": "no JSON"}`
	mixed := file("mixed.jsonl", good, bad)
	golden := filepath.Join(dir, "want.json")
	for _, c := range []struct {
		name   string
		args   []string
		status int
		errs   string
	}{
		{"all well", []string{"--messages", file("good.jsonl", good)}, exitDone, ""},
		{"one fails", []string{"--messages", mixed}, exitFailed, "error: 1 of 2 messages failed\n"},
		{"one fails, as JSON", []string{"--messages", mixed, "-o", "json"}, exitFailed, "error: 1 of 2 messages failed\n"},
		{"the failure is written down", []string{"--messages", mixed, "--golden", golden, "--update"}, exitDone, ""},
		{"the failure is what is expected", []string{"--messages", mixed, "--golden", golden}, exitDone, ""},
	} {
		var out, errs bytes.Buffer
		a := &app{in: strings.NewReader(""), out: &out, err: &errs}
		require.Equal(t, c.status, a.run(t.Context(), append([]string{"run", moviesFile}, c.args...)), "%s: %s%s", c.name, &out, &errs)
		require.Equal(t, c.errs, errs.String(), c.name)
		require.NotEmpty(t, out.String(), "%s: what came back is shown all the same", c.name)
	}
}

func TestCheckFailsWhereAMessageFails(t *testing.T) {
	c := newCLI(t)
	p := c.dev(t)
	c.must(t, "module", "push", "movies", moviesFile)
	require.Equal(t, exitDone, c.run(t, rating+"\nno JSON\n", "produce", "ratings").status)
	c.must(t, "stream", "create", "ratings", "--topics", "ratings", "--transform", "movies", "--start-from", "earliest", "--batch-size", "1")
	first := c.run(t, "", "stream", "check", "ratings")
	require.Equal(t, exitDone, first.status, "the first batch is well: %s", first.err)
	both := c.run(t, "", "stream", "check", "ratings", "--batch-limit", "2")
	require.Equal(t, exitFailed, both.status)
	require.Contains(t, both.out, "failed: ")
	require.Contains(t, both.err, "error: 1 of 2 messages failed\n")
	p.stop(t)
}

func TestExitStatusesAreInTheHelp(t *testing.T) {
	var out, errs bytes.Buffer
	a := &app{in: strings.NewReader(""), out: &out, err: &errs}
	require.Equal(t, exitDone, a.run(t.Context(), []string{"help", "exit-status"}), errs.String())
	require.Contains(t, out.String(), "stream check")
}
