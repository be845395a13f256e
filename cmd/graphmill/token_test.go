package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCommandsSendTheTokenThatTheServerAsksFor(t *testing.T) {
	const token = "pl4nted-token-of-anne"
	c := newCLI(t)
	file := filepath.Join(c.dir, "tokens")
	require.NoError(t, os.WriteFile(file, []byte("# operators\nanne:"+token+"\n"), 0o644))
	p := c.dev(t, "--token-file", file, "--log-level", "debug")
	require.Contains(t, p.log.String(), "everybody on this machine can read", "the file's mode is told")

	refused := c.run(t, "", "stream", "list")
	require.Equal(t, exitFailed, refused.status)
	require.Contains(t, refused.err, "--token-file")
	require.Contains(t, c.must(t, "stream", "list", "--token-file", file), "no streams")
	c.env = append(c.env, "GRAPHMILL_TOKEN_FILE="+file)
	require.Contains(t, c.must(t, "module", "list"), "no modules")

	wrong := filepath.Join(c.dir, "wrong")
	require.NoError(t, os.WriteFile(wrong, []byte("pl4nted-but-another-one"), 0o600))
	refused = c.run(t, "", "stream", "list", "--token-file", wrong)
	require.Equal(t, exitFailed, refused.status)
	require.Contains(t, refused.err, "not one of this server's")
	unusable := c.run(t, "", "stream", "list", "--token-file", filepath.Join(c.dir, "absent"))
	require.Equal(t, exitUsage, unusable.status)
	require.Contains(t, unusable.err, "--token-file")
	for _, r := range []result{refused, unusable} {
		require.NotContains(t, r.out+r.err, "pl4nted")
	}
	p.stop(t)
	require.NotContains(t, p.log.String()+p.banner, "pl4nted")
}

func TestAServerIsNotOpenedToOthersByAccident(t *testing.T) {
	c := newCLI(t)
	open := c.run(t, "", "serve", "--graph-uri", "ledger:l.jsonl", "--listen", "0.0.0.0:0")
	require.Equal(t, exitUsage, open.status)
	require.Contains(t, open.err, "--token-file")
	for _, args := range [][]string{
		{"--token-file", "absent"},
		{"--metrics-auth"},
		{"--secret-key-file", "absent"},
	} {
		r := c.run(t, "", append([]string{"serve", "--graph-uri", "ledger:l.jsonl", "--listen", "127.0.0.1:0"}, args...)...)
		require.NotEqual(t, exitDone, r.status, args)
		require.Contains(t, r.err, args[0])
	}
}
