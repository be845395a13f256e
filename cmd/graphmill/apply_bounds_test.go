package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOfAFileWithoutMuchThatIsRightTheFirstErrorsAreTold(t *testing.T) {
	const right = "CREATE KAFKA STREAM right TOPICS t TRANSFORM m;\n"
	for name, c := range map[string]struct {
		file, text, first, more string
		names                   string
	}{
		"statements that are none": {"a.cypher", strings.Repeat("CREATE X;\n", 100_000) + right, "a.cypher:20: found \"X\", expected KAFKA or PULSAR", "and 99980 definitions more are wrong", "right"},
		"other statements":         {"a.cypher", strings.Repeat("DROP STREAM x;\n", 20_000) + right, "a.cypher:20: DROP STREAM: apply takes", "and 19980 definitions more are wrong", "right"},
		"one stream many times":    {"a.cypher", strings.Repeat(right, 20_000), "a.cypher:21: stream right: it is defined twice", "and 19979 definitions more are wrong", ""},
		"many streams twice":       {"a.cypher", strings.Repeat(manyCreated(10_000), 2), "a.cypher:10020: stream s19: it is defined twice", "and 9980 definitions more are wrong", ""},
		"items of no streams":      {"a.yaml", "streams:\n" + strings.Repeat("- x\n", 300_000), "a.yaml:21: stream: a stream is a map", "and 299980 definitions more are wrong", ""},
		"a list of items":          {"a.yaml", "modules: [" + strings.Repeat("x,", 200_000) + "x]\n", "a.yaml:1: module: a module is a map", "and 199981 definitions more are wrong", ""},
		"many wrong options":       {"a.yaml", "streams:\n" + strings.Repeat("- {name: s, x: 1, y: 1, z: 1}\n", 1000), "a.yaml:8: stream s: the key \"z\"", "and 993 definitions more are wrong", ""},
	} {
		t.Run(name, func(t *testing.T) {
			d, told := readFolder(t, folder(t, map[string]string{c.file: c.text}))
			lines := strings.Split(strings.TrimSpace(told), "\n")
			require.LessOrEqual(t, len(lines), 2*maxTold+2)
			require.Contains(t, told, c.first)
			require.Contains(t, lines[len(lines)-1], c.file+": "+c.more)
			require.Equal(t, c.names, d.names())
		})
	}
}

func manyCreated(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "CREATE KAFKA STREAM s%d TOPICS t TRANSFORM m;\n", i)
	}
	return b.String()
}

func TestWhatIsWrongInEachFileIsCountedOnItsOwn(t *testing.T) {
	wrong := strings.Repeat("CREATE X;\n", 30)
	_, told := readFolder(t, folder(t, map[string]string{"a.cypher": wrong, "b.cypher": wrong}))
	require.Contains(t, told, "a.cypher: and 10 definitions more are wrong")
	require.Contains(t, told, "b.cypher:20: found")
	require.Contains(t, told, "b.cypher: and 10 definitions more are wrong")

	c := newCLI(t)
	server := c.dev(t)
	r := c.run(t, wrong, "apply", "-f", "-")
	require.Equal(t, exitFailed, r.status)
	require.Contains(t, r.out, "0 created, 0 changed, 0 unchanged, 30 failed\n")
	r = c.run(t, wrong, "apply", "-f", "-", "-o", "json")
	require.Contains(t, r.out, `"count": 10`)
	require.Contains(t, r.out, `"failed": 30`)
	server.stop(t)
}

func TestAnErrorAtTheEndOfALongYAMLFileIsFoundSoon(t *testing.T) {
	const item = "- {name: s, topics: [t], transform: m}\n"
	n := 1 << 20 / len(item)
	for name, c := range map[string]struct {
		text string
		line int
	}{
		"on the last line":        {"streams:\n" + strings.Repeat(item, n) + "  - x\n", n + 2},
		"before blank lines":      {"streams:\n" + strings.Repeat(item, n-100) + "  - x\n" + strings.Repeat("\n", 100), n - 98},
		"a list that never ends":  {"# all\nstreams: [s\n" + strings.Repeat(","+item[1:], n), 2},
		"a quote without its end": {"streams:\n" + strings.Repeat(item, n-1) + "- {name: 's}\n\n", n + 1},
	} {
		t.Run(name, func(t *testing.T) {
			once, all := &counted{Context: t.Context()}, &counted{Context: t.Context()}
			_, _, err := yamlDocuments(once, c.text)
			require.Error(t, err)
			_, told := readFolderWithin(t, all, folder(t, map[string]string{"a.yaml": c.text}))
			require.Less(t, all.looks, 12*once.looks, "twenty times and more where it is searched for among all lines")
			require.Contains(t, told, fmt.Sprintf("a.yaml:%d: it is no YAML", c.line))
		})
	}
}

// counted counts how often something looks whether it has ended: once a line, where
// lines are read. It ends after so many looks; 0: never.
type counted struct {
	context.Context
	looks, ends int
}

func (c *counted) Err() error {
	c.looks++
	if c.ends > 0 && c.looks > c.ends {
		return context.Canceled
	}
	return c.Context.Err()
}

func TestReadingEndsWithItsContext(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		ends int
	}{
		"a.cypher": {strings.Repeat("CREATE X;\n", 300_000), 1000},
		"a.yaml":   {"streams:\n" + strings.Repeat("- x\n", 900_000), 1000},
		"b.yaml":   {"streams:\n" + strings.Repeat("- x\n", 900_000), 901_000},                   // amid the items
		"c.yaml":   {"streams:\n" + strings.Repeat("- x\n", 900_000) + "  - - x: y: z", 901_000}, // amid the search for the line
	} {
		t.Run(name, func(t *testing.T) {
			ctx := &counted{Context: t.Context(), ends: c.ends}
			_, err := (&app{err: io.Discard}).readDefinitions(ctx, []string{folder(t, map[string]string{name: c.text})})
			require.ErrorIs(t, err, context.Canceled)
			require.Greater(t, ctx.looks, c.ends)
			require.Less(t, ctx.looks, c.ends+200, "it goes on")
		})
	}
}
