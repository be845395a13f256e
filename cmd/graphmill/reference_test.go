package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

//go:generate go test -run Current$ -update .

var update = flag.Bool("update", false, "write docs/cli.md, docs/settings.md and the session in docs/statements.md")

const referenceFile = "../../docs/cli.md"

// The reference of all commands is made of their own help, so it cannot say
// anything else.
func TestCommandReferenceIsCurrent(t *testing.T) {
	var b bytes.Buffer
	b.WriteString("# Commands\n\nMade from the program's own help (`go generate ./cmd/graphmill`); `graphmill COMMAND --help` tells the same.\n")
	writeReference(&b, (&app{}).rootCommand())
	if *update {
		require.NoError(t, os.WriteFile(referenceFile, b.Bytes(), 0o644))
	}
	have, err := os.ReadFile(referenceFile)
	require.NoError(t, err)
	require.Equal(t, b.String(), string(have), "run: go generate ./cmd/graphmill")
}

func writeReference(b *bytes.Buffer, cmd *cobra.Command) {
	if cmd.Hidden || cmd.Name() == "help" || cmd.Name() == "completion" {
		return
	}
	fmt.Fprintf(b, "\n## %s\n\n", cmd.CommandPath())
	text := cmd.Long
	if text == "" {
		text = cmd.Short + "."
	}
	if cmd.IsAdditionalHelpTopicCommand() {
		fmt.Fprintf(b, "```\n%s\n```\n", text)
		return
	}
	fmt.Fprintf(b, "%s\n\n```\n%s\n```\n", text, cmd.UseLine())
	if cmd.Example != "" {
		fmt.Fprintf(b, "\n```sh\n%s\n```\n", unindent(cmd.Example))
	}
	var flags []string
	cmd.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		usage := f.Usage
		if d := f.DefValue; d != "" && d != "[]" && d != "false" && d != "0" && d != "0s" && d != "-1" {
			usage += fmt.Sprintf(" (default `%s`)", strings.Trim(d, "[]"))
		}
		flags = append(flags, fmt.Sprintf("| `%s` | %s |\n", name, strings.ReplaceAll(usage, "|", `\|`)))
	})
	if len(flags) > 0 {
		fmt.Fprintf(b, "\n| flag | |\n|---|---|\n%s", strings.Join(flags, ""))
	}
	for _, sub := range cmd.Commands() {
		writeReference(b, sub)
	}
}

// unindent takes off the two spaces that indent examples in a help.
func unindent(s string) string {
	var out []string
	for l := range strings.Lines(s) {
		out = append(out, strings.TrimPrefix(strings.TrimRight(l, "\n"), "  "))
	}
	return strings.Join(out, "\n")
}
