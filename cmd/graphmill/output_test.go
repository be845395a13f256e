package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTextForPeopleCannotCommandTheirTerminal(t *testing.T) {
	for text, want := range map[string]string{
		"plain\n\ttext, ünï…":            "plain\n\ttext, ünï…",
		"\x1b]0;title\a\x1b[2J":          `\x1b]0;title\x07\x1b[2J`,
		"back\b\rover\x7f":               `back\x08\x0dover\x7f`,
		"one character of C1: \u009b31m": `one character of C1: \x9b31m`,
	} {
		var b bytes.Buffer
		n, err := plainText{&b}.Write([]byte(text))
		require.NoError(t, err)
		require.Equal(t, len(text), n)
		require.Equal(t, want, b.String())
	}
}

func TestOutputThatCannotBeWrittenIsAFailure(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("there is no /dev/full here")
	}
	t.Cleanup(func() { _ = full.Close() })
	c := newCLI(t)
	for _, args := range [][]string{{"version"}, {"version", "-o", "json"}, {"version", "-o", "yaml"}, {"help"}, {"completion", "bash"}} {
		cmd := c.command(t.Context(), args...)
		var errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = full, &errs
		_ = cmd.Run()
		require.Equal(t, exitFailed, cmd.ProcessState.ExitCode(), "graphmill %s", strings.Join(args, " "))
		require.Contains(t, errs.String(), "no space left on device")
	}
}
