package secret_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/server/secret"
)

func TestAReferenceIsAFileOfTheFolderElseAVariable(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	write("kafka-password", "from the file\n")
	write("two.lines", "one\ntwo\r\n")
	write("empty", "")
	// As Kubernetes mounts secrets.
	require.NoError(t, os.Mkdir(filepath.Join(dir, "..2026_01"), 0o700))
	write("..2026_01/mounted", "mounted")
	require.NoError(t, os.Symlink("..2026_01", filepath.Join(dir, "..data")))
	require.NoError(t, os.Symlink("..data/mounted", filepath.Join(dir, "mounted")))

	variables := map[string]string{"GRAPHMILL_SECRET_KAFKA_PASSWORD": "from the variable", "GRAPHMILL_SECRET_ONLY_HERE": "variable\n", "PATH": "/bin"}
	refs := secret.References{Dir: dir, Variable: func(name string) (string, bool) { v, ok := variables[name]; return v, ok }}
	for name, want := range map[string]string{
		"kafka-password": "from the file",
		"two.lines":      "one\ntwo",
		"empty":          "",
		"mounted":        "mounted",
		"only-here":      "variable\n",
		"only.here":      "variable\n",
	} {
		value, err := refs.Value(name)
		require.NoError(t, err, name)
		require.Equal(t, want, value, name)
	}
}

func TestAReferenceReachesNothingElse(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "outside")
	require.NoError(t, os.WriteFile(outside, []byte("pl4nted"), 0o600))
	dir := t.TempDir()
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, "link")))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "folder"), 0o700))
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600)) // nobody writes: not to be waited for
	require.NoError(t, os.Symlink("loop", filepath.Join(dir, "loop")))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "huge"), []byte(strings.Repeat("pl4nted", 20_000)), 0o600))
	refs := secret.References{Dir: dir, Variable: func(name string) (string, bool) { return "pl4nted", name == "PATH" || name == "GRAPHMILL_TOKEN_FILE" }}
	for name, code := range map[string]string{
		"":                       "invalid",
		".":                      "invalid",
		"..":                     "invalid",
		"../outside":             "invalid",
		outside:                  "invalid",
		"a/b":                    "invalid",
		`a\b`:                    "invalid",
		"a b":                    "invalid",
		"a\x00b":                 "invalid",
		strings.Repeat("a", 201): "invalid",
		"PATH":                   "secret_not_found",
		"absent":                 "secret_not_found",
		"link":                   "secret_unreadable",
		"pipe":                   "secret_unreadable",
		"loop":                   "secret_unreadable",
		"folder":                 "secret_unreadable",
		"huge":                   "secret_unreadable",
	} {
		value, err := refs.Value(name)
		e := requireCode(t, err, code)
		require.Empty(t, value, name)
		require.NotContains(t, e.Error()+e.Next, "pl4nted")
	}
	_, err := secret.References{}.Value("absent")
	require.Equal(t, graphmill.KindConflict, graphmill.KindOf(err))
}

func TestASecretThatIsExchangedCountsAtOnce(t *testing.T) {
	dir := t.TempDir()
	refs := secret.References{Dir: dir}
	for _, v := range []string{"old", "new"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "s"), []byte(v), 0o600))
		got, err := refs.Value("s")
		require.NoError(t, err)
		require.Equal(t, v, got)
	}
}
