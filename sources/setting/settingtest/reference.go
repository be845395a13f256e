// Package settingtest holds what the tests of every table of settings have in
// common: the reference in the documents is made of the table, and the table is
// sound.
package settingtest

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill/sources/setting"
)

// RequireReference fails where the tables of settings in a document are not those
// of the table in the code, or with update writes them. They stand between two
// lines of comment; command is what makes them.
func RequireReference[S any](t *testing.T, table *setting.Table[S], file, command string, update bool) {
	t.Helper()
	begin := "<!-- made from the code: " + command + " -->\n"
	const end = "<!-- end of what is made from the code -->\n"
	have, err := os.ReadFile(file)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(have), begin)
	require.True(t, ok, "%s has no place for the tables", file)
	_, after, ok := strings.Cut(rest, end)
	require.True(t, ok, "%s has no end of the tables", file)
	want := before + begin + reference(table) + end + after
	if update {
		require.NoError(t, os.WriteFile(file, []byte(want), 0o644))
		return
	}
	require.Equal(t, want, string(have), "run: "+command)
}

func reference[S any](table *setting.Table[S]) string {
	var b bytes.Buffer
	for _, section := range []struct {
		use           setting.Use
		title, column string
	}{
		{setting.UseApplied, "### Settings that take effect", "here"},
		{setting.UseFixed, "### Settings that have one value here\n\nThe value is taken, any other is refused.", "here"},
		{setting.UseIgnored, "### Settings without effect\n\nThey are taken, and CREATE answers with a warning for each.", "why it has no effect"},
		{setting.UseRefused, "### Settings that are refused", "why"},
	} {
		fmt.Fprintf(&b, "\n%s\n\n| setting | value | %s's default | %s |\n|---|---|---|---|\n", section.title, table.Client, section.column)
		var ps []setting.Setting
		for _, p := range table.Properties {
			if p.Use == section.use {
				ps = append(ps, p.Setting)
			}
		}
		if section.use != setting.UseApplied {
			slices.SortFunc(ps, func(a, b setting.Setting) int { return cmp.Compare(a.Name, b.Name) })
		}
		for _, p := range ps {
			names := "`" + strings.Join(append([]string{p.Name}, p.Aliases...), "`, `") + "`"
			says := p.Says
			if p.Use == setting.UseFixed {
				says = "`" + p.Only + "`: " + says
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", names, describe(p), quoted(p.Default), says)
		}
	}
	b.WriteString("\n")
	return b.String()
}

// describe tells what a value may be.
func describe(p setting.Setting) string {
	switch p.Kind {
	case setting.KindInteger, setting.KindDecimal:
		return fmt.Sprintf("%s, %d to %d", p.Kind, p.Min, p.Max)
	case setting.KindWord:
		return "`" + strings.Join(p.Words, "`, `") + "`"
	}
	return string(p.Kind)
}

func quoted(s string) string {
	if s == "" {
		return ""
	}
	return "`" + s + "`"
}

// RequireSound fails where a table says one thing twice, or half of it, or where
// its names are not exactly those that the client documents. The defaults of what
// has a narrower range here are not looked at.
func RequireSound[S any](t *testing.T, table *setting.Table[S], documented, narrower []string) {
	t.Helper()
	seen := map[string]bool{}
	for _, p := range table.Properties {
		for _, name := range append([]string{p.Name}, p.Aliases...) {
			require.False(t, seen[name], "%s is there twice", name)
			seen[name] = true
			for _, foreign := range table.Foreign {
				require.NotContains(t, foreign.Instead, name)
			}
		}
		require.NotEmpty(t, p.Use, p.Name)
		require.NotEmpty(t, p.Says, p.Name)
		require.Equal(t, p.Use == setting.UseApplied, p.Set != nil, p.Name)
		if p.Use == setting.UseFixed {
			v, err := p.Parse(p.Only)
			require.NoError(t, err, p.Name)
			require.Equal(t, p.Only, v.Text, p.Name)
		}
		// What the client does by default must be a value, but for what is refused.
		if p.Default != "" && p.Use != setting.UseRefused && !slices.Contains(narrower, p.Name) {
			_, err := p.Parse(p.Default)
			require.NoError(t, err, p.Name)
		}
	}
	for _, name := range documented {
		require.True(t, seen[name], "%s is documented by %s and not in the table", name, table.Client)
		delete(seen, name)
	}
	require.Empty(t, seen, "in the table, and not documented by "+table.Client)
}
