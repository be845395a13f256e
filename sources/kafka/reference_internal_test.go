package kafka

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

//go:generate go test -run TestSettingsReferenceIsCurrent -update .

var update = flag.Bool("update", false, "write the table of docs/kafka.md")

const (
	referenceFile  = "../../docs/kafka.md"
	referenceBegin = "<!-- made from the code: go generate ./sources/kafka -->\n"
	referenceEnd   = "<!-- end of what is made from the code -->\n"
)

// The tables of settings are made of the one in the code, so they cannot say
// anything else.
func TestSettingsReferenceIsCurrent(t *testing.T) {
	have, err := os.ReadFile(referenceFile)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(have), referenceBegin)
	require.True(t, ok, "%s has no place for the tables", referenceFile)
	_, after, ok := strings.Cut(rest, referenceEnd)
	require.True(t, ok, "%s has no end of the tables", referenceFile)
	want := before + referenceBegin + settingsReference() + referenceEnd + after
	if *update {
		require.NoError(t, os.WriteFile(referenceFile, []byte(want), 0o644))
		return
	}
	require.Equal(t, want, string(have), "run: go generate ./sources/kafka")
}

func settingsReference() string {
	var b bytes.Buffer
	for _, section := range []struct {
		use           use
		title, column string
	}{
		{useApplied, "### Settings that take effect", "here"},
		{useFixed, "### Settings that have one value here\n\nThe value is taken, any other is refused.", "here"},
		{useIgnored, "### Settings without effect\n\nThey are taken, and CREATE answers with a warning for each.", "why it has no effect"},
		{useRefused, "### Settings that are refused", "why"},
	} {
		fmt.Fprintf(&b, "\n%s\n\n| setting | value | librdkafka's default | %s |\n|---|---|---|---|\n", section.title, section.column)
		var ps []property
		for _, p := range properties {
			if p.use == section.use {
				ps = append(ps, p)
			}
		}
		if section.use != useApplied {
			slices.SortFunc(ps, func(a, b property) int { return cmp.Compare(a.name, b.name) })
		}
		for _, p := range ps {
			names := "`" + strings.Join(append([]string{p.name}, p.aliases...), "`, `") + "`"
			says := p.says
			if p.use == useFixed {
				says = "`" + p.only + "`: " + says
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", names, p.describe(), quoted(p.def), says)
		}
	}
	b.WriteString("\n")
	return b.String()
}

// describe tells what a value may be.
func (p *property) describe() string {
	switch p.kind {
	case kindInteger, kindDecimal:
		return fmt.Sprintf("%s, %d to %d", p.kind, p.min, p.max)
	case kindWord:
		return "`" + strings.Join(p.words, "`, `") + "`"
	}
	return string(p.kind)
}

func quoted(s string) string {
	if s == "" {
		return ""
	}
	return "`" + s + "`"
}

func TestEverySettingStandsOnceInTheTable(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range properties {
		for _, name := range append([]string{p.name}, p.aliases...) {
			require.False(t, seen[name], "%s is there twice", name)
			seen[name] = true
			require.NotContains(t, javaNames, name)
		}
		require.NotEmpty(t, p.use, p.name)
		require.NotEmpty(t, p.says, p.name)
		require.Equal(t, p.use == useApplied, p.set != nil, p.name)
		if p.use == useFixed {
			v, err := p.parse(p.only)
			require.NoError(t, err, p.name)
			require.Equal(t, p.only, v.text, p.name)
		}
		// What librdkafka does by default must be a value, but for what is refused
		// and for those whose range is narrower here.
		narrower := []string{"connections.max.idle.ms"}
		if p.def != "" && p.use != useRefused && !slices.Contains(narrower, p.name) {
			_, err := p.parse(p.def)
			require.NoError(t, err, p.name)
		}
	}
	documented, err := os.ReadFile("testdata/librdkafka-2.12-names.txt") // of its CONFIGURATION.md
	require.NoError(t, err)
	for _, name := range strings.Fields(string(documented)) {
		require.True(t, seen[name], "%s is documented by librdkafka and not in the table", name)
		delete(seen, name)
	}
	require.Empty(t, seen, "in the table, and not documented by librdkafka")
}
