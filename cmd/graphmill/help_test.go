package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

func TestNoLineOfTheHelpIsWiderThanATerminal(t *testing.T) {
	var out bytes.Buffer
	root := (&app{out: &out, err: &out}).rootCommand()
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		out.Reset()
		require.NoError(t, cmd.Help())
		require.NotEmpty(t, out.String())
		for line := range strings.Lines(out.String()) {
			require.LessOrEqual(t, len([]rune(strings.TrimRight(line, "\n"))), maxHelpWidth, "%s: %s", cmd.CommandPath(), line)
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(root)
}
