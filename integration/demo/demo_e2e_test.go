//go:build e2e

package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// runDemo runs the demo as "DEMO_ONCE=1 make demo" does, and returns what it has
// printed.
func runDemo(t *testing.T) string {
	t.Helper()
	t.Chdir("../..")
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	t.Setenv("GRAPHMILL_GRAPH_URI", "")
	var out bytes.Buffer
	require.Equal(t, 0, run(t.Context(), io.MultiWriter(&out, os.Stdout), true))
	left, err := filepath.Glob(filepath.Join(tmp, "graphmill-*"))
	require.NoError(t, err)
	require.Empty(t, left)
	return out.String()
}

func TestDemoOnRealServers(t *testing.T) {
	out := runDemo(t)
	require.Contains(t, out, "a real Kafka")
	require.Contains(t, out, "a real Neo4j")
	require.Contains(t, out, "lag is 0")
	require.Regexp(t, `\(:User\)-\[r:RATED\]->\(:Movie\) RETURN count\(r\) +10,000`, out)
}

func TestDemoWithoutJavaEndsOnTheLedger(t *testing.T) {
	bin := t.TempDir()
	for _, program := range []string{"java", "docker"} {
		require.NoError(t, os.WriteFile(filepath.Join(bin, program), []byte("#!/bin/sh\nexit 1\n"), 0o755))
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Setenv("JAVA_HOME", "")
	out := runDemo(t)
	require.Contains(t, out, "the broker embedded in graphmill")
	require.Contains(t, out, "10,000 statements in ")
}
