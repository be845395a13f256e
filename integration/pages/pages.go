// Package pages holds the pages of docs to what the code says.
package pages

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Hold requires that a part of a page, which stands between two comments with its
// name, is want; with update it is written. By is the package whose go generate
// does that.
func Hold(t *testing.T, file, part, by, want string, update bool) {
	t.Helper()
	begin := fmt.Sprintf("<!-- %s: made by go generate %s -->\n", part, by)
	end := fmt.Sprintf("<!-- %s: end -->\n", part)
	have, err := os.ReadFile(file)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(have), begin)
	require.True(t, ok, "%s has no line %s", file, begin)
	made, after, ok := strings.Cut(rest, end)
	require.True(t, ok, "%s has no line %s", file, end)
	if update {
		require.NoError(t, os.WriteFile(file, []byte(before+begin+want+end+after), 0o644))
		return
	}
	require.Equal(t, want, made, "%s: run go generate %s", file, by)
}

// Blocks returns the blocks of code of a page that begin with ``` and kind, each
// without these lines.
func Blocks(t *testing.T, file, kind string) []string {
	t.Helper()
	page, err := os.ReadFile(file)
	require.NoError(t, err)
	var blocks []string
	for _, rest := range strings.Split("\n"+string(page), "\n```"+kind+"\n")[1:] {
		block, _, ok := strings.Cut(rest, "```\n")
		require.True(t, ok, "%s: a block of %s has no end", file, kind)
		blocks = append(blocks, block)
	}
	return blocks
}
