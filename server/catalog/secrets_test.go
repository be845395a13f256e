package catalog_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/server/catalog"
)

const planted = "pl4nted-s3cret"

func secured(name string) catalog.Stream {
	s := stream(name, "m.f")
	s.Spec.Credentials = map[string]string{"sasl.username": planted + "-user", "sasl.password": planted, "ssl.key.password": "secret:key"}
	s.Spec.Configs = map[string]string{"security.protocol": "SASL_SSL", "ssl.key.pem": planted + "-pem"}
	return s
}

// requireNowhere looks into every byte of a folder.
func requireNowhere(t *testing.T, dir, text string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		require.False(t, bytes.Contains(content, []byte(text)), "%s holds it", path)
		return err
	}))
}

func TestCase39SecretsAreUnreadableInTheDataDirectory(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir)
	created, err := c.CreateStream(ctx, secured("s"))
	require.NoError(t, err)
	require.Equal(t, secured("s").Spec, created.Spec, "the caller keeps the definition as it is")
	created.Desired = graphmill.StateRunning
	updated, err := c.UpdateStream(ctx, created)
	require.NoError(t, err)
	requireNowhere(t, dir, planted)

	c = reopen(t, c, dir)
	streams, broken, err := c.Streams(ctx)
	require.NoError(t, err)
	require.Empty(t, broken)
	require.Equal(t, []catalog.Stream{updated}, streams)
	requireNowhere(t, dir, planted)
}

func TestAnEntryWhoseKeyIsLostIsReportedAndTheOthersLoad(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir)
	_, err := c.CreateStream(ctx, secured("sealed"))
	require.NoError(t, err)
	open1, err := c.CreateStream(ctx, stream("open", "m.f"))
	require.NoError(t, err)
	key := filepath.Join(dir, "secret.key")
	require.NoError(t, c.Close())
	require.NoError(t, os.Rename(key, key+".away"))

	c = open(t, dir)
	streams, broken, err := c.Streams(ctx)
	require.NoError(t, err)
	require.Equal(t, []catalog.Stream{open1}, streams)
	require.Len(t, broken, 1)
	require.Equal(t, "sealed", broken[0].Name)
	require.ErrorContains(t, broken[0].Err, "secret.key is not there")
	m, _, err := c.PutModule(ctx, graphmill.Module{Name: "m", ContentType: "application/wasm", Transformations: []string{"f"}}, []byte("bytes"), true)
	require.NoError(t, err)
	requireCode(t, c.DeleteModule(ctx, m.Name, nil), "module_in_use")

	require.NoError(t, c.Close())
	require.NoError(t, os.Rename(key+".away", key))
	streams, broken, err = open(t, dir).Streams(ctx)
	require.NoError(t, err)
	require.Empty(t, broken)
	require.Len(t, streams, 2)
}

func TestAValueThatOnlyLooksSealedComesBackAsItIs(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir)
	s := stream("s", "m.f")
	s.Spec.Configs = map[string]string{"client.id": "sealed:1:00000000:AAAA"}
	_, err := c.CreateStream(ctx, s)
	require.NoError(t, err)
	streams, broken, err := reopen(t, c, dir).Streams(ctx)
	require.NoError(t, err)
	require.Empty(t, broken)
	require.Equal(t, s.Spec.Configs, streams[0].Spec.Configs)
}
