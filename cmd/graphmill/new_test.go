package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestNewPluginIsBuiltByMakeAndRunsOnItsMessages(t *testing.T) {
	sdk, err := filepath.Abs("../../sdk/go")
	require.NoError(t, err)
	c := newCLI(t)
	out := c.must(t, "new", "go", "people-plugin", "--sdk", sdk)
	require.Contains(t, out, "wrote the plugin people-plugin:\n  people-plugin/main.go\n")
	require.Contains(t, out, "  cd people-plugin\n  make\n  graphmill run people-plugin.wasm --messages messages.jsonl\n")

	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	build := exec.CommandContext(ctx, "make", "-C", filepath.Join(c.dir, "people-plugin"))
	build.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off", "GOPROXY=off")
	text, err := build.CombinedOutput()
	require.NoError(t, err, "%s", text)

	out = c.must(t, "run", "people-plugin/people-plugin.wasm", "--messages", "people-plugin/messages.jsonl")
	require.Contains(t, out, "3 messages, 2 statements, 1 failure")
	require.Contains(t, out, `{"city":"London","name":"Ada","userId":7}`)
	require.Contains(t, out, `failed: field "userId" is missing`)
}

func TestNewFindsTheSDKOfTheCloneAroundIt(t *testing.T) {
	c := newCLI(t)
	r := c.run(t, "", "new", "go", "mine")
	require.Equal(t, exitFailed, r.status)
	require.Contains(t, r.err, "error: the SDK for Go is not found in or above "+c.dir)
	require.Contains(t, r.err, "next:  name the directory sdk/go of a clone of Graphmill: --sdk DIR")
	require.NoDirExists(t, filepath.Join(c.dir, "mine"))

	require.NoError(t, os.MkdirAll(filepath.Join(c.dir, "sdk", "go"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(c.dir, "sdk", "go", "go.mod"), []byte("module github.com/graphmill/graphmill/sdk/go\n\ngo 1.24\n"), 0o600))
	c.must(t, "new", "go", "mine")
	mod, err := readFile(filepath.Join(c.dir, "mine", "go.mod"))
	require.NoError(t, err)
	require.Contains(t, string(mod), "=> ../sdk/go\n")
}

func TestNewRefusesWhatItCannotWrite(t *testing.T) {
	c := newCLI(t)
	require.NoError(t, os.WriteFile(filepath.Join(c.dir, "notes.txt"), nil, 0o600))
	for _, test := range []struct {
		about  string
		args   []string
		status int
		want   string
	}{
		{"no directory", []string{"new", "go"}, exitUsage, "takes LANGUAGE and DIR"},
		{"an unknown language", []string{"new", "cobol", "p"}, exitUsage, `in "cobol", only in: go`},
		{"a mistyped language", []string{"new", "og", "p", "--sdk", "."}, exitUsage, `did you mean "go"?`},
		{"a directory that is not empty", []string{"new", "go", ".", "--sdk", "."}, exitFailed, "is not empty: it holds notes.txt"},
		{"a wrong SDK", []string{"new", "go", "p", "--sdk", "."}, exitFailed, "the SDK for Go is not in "},
	} {
		t.Run(test.about, func(t *testing.T) {
			r := c.run(t, "", test.args...)
			require.Equal(t, test.status, r.status, r.err)
			require.Contains(t, r.err, test.want)
			require.Contains(t, r.err, "next:  ")
			require.Empty(t, r.out)
			require.NoDirExists(t, filepath.Join(c.dir, "p"))
		})
	}
}

func TestDirectoryToChangeIntoIsOneWordOfTheShell(t *testing.T) {
	for dir, want := range map[string]string{
		"people-plugin": "people-plugin",
		"../größe/p_1":  "../größe/p_1",
		"my plugin":     `'my plugin'`,
		"it's $HOME":    `'it'\''s $HOME'`,
		"~x":            `'~x'`,
	} {
		require.Equal(t, want, shellWord(dir))
	}
}
