package secret_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/server/secret"
)

func TestFilesAreThoseOfTheFolderAndNothingElse(t *testing.T) {
	base := t.TempDir()
	dir := filepath.Join(base, "secrets")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "kafka"), 0o700))
	write := func(path, content string) {
		require.NoError(t, os.WriteFile(filepath.Join(base, path), []byte(content), 0o600))
	}
	write("secrets/ca.pem", "authority")
	write("secrets/kafka/key.pem", "key")
	write("outside", "not for streams")
	write("secrets-too", "not for streams")
	write("secrets/large", string(make([]byte, 1<<20+1)))
	link := func(to, path string) { require.NoError(t, os.Symlink(to, filepath.Join(dir, path))) }
	link("kafka/key.pem", "inner")
	link("../outside", "outer")
	link(filepath.Join(base, "outside"), "absolute")
	link("..", "up")
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	r := secret.References{Dir: dir}

	for path, want := range map[string]string{
		"ca.pem": "authority", "kafka/key.pem": "key", "./ca.pem": "authority", "kafka/../ca.pem": "authority",
		filepath.Join(dir, "ca.pem"): "authority", "inner": "key",
	} {
		got, err := r.File(path)
		require.NoError(t, err, path)
		require.Equal(t, want, string(got), path)
	}
	for path, code := range map[string]string{
		"../outside":                       "file_not_allowed",
		"kafka/../../outside":              "file_not_allowed",
		filepath.Join(base, "outside"):     "file_not_allowed",
		filepath.Join(base, "secrets-too"): "file_not_allowed",
		dir + "/../outside":                "file_not_allowed",
		"/etc/passwd":                      "file_not_allowed",
		"":                                 "file_not_allowed",
		"outer":                            "file_unreadable",
		"absolute":                         "file_unreadable",
		"up/outside":                       "file_unreadable",
		"pipe":                             "file_unreadable",
		"kafka":                            "file_unreadable",
		"large":                            "file_unreadable",
		"absent":                           "file_unreadable",
		"ca.pem\x00":                       "file_unreadable",
		filepath.Join(dir, "outer"):        "file_unreadable",
	} {
		_, err := r.File(path)
		var e *graphmill.Error
		require.ErrorAs(t, err, &e, path)
		require.Equal(t, graphmill.KindConflict, e.Kind, path)
		require.Equal(t, code, e.Code, path)
		require.NotContains(t, err.Error(), "not for streams")
	}
	_, err := secret.References{}.File("ca.pem")
	require.ErrorContains(t, err, "--secrets-dir")
}
