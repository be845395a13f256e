package catalog_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
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

// lost is a catalog with a stream whose key has been taken away, and one without
// secrets.
func lost(t *testing.T) (c *catalog.Bolt, dir string, sealed, plain catalog.Stream) {
	t.Helper()
	dir = t.TempDir()
	c = open(t, dir)
	_, err := c.CreateStream(ctx, secured("sealed"))
	require.NoError(t, err)
	plain, err = c.CreateStream(ctx, stream("plain", "m.f"))
	require.NoError(t, err)
	require.NoError(t, c.Close())
	key := filepath.Join(dir, "secret.key")
	require.NoError(t, os.Rename(key, key+".away"))
	c = open(t, dir)
	sealed, err = c.Stream(ctx, "sealed")
	require.NoError(t, err)
	return c, dir, sealed, plain
}

var allLocked = []string{"configs.ssl.key.pem", "credentials.sasl.password", "credentials.sasl.username"}

func TestSecretsWhoseKeyIsLostAreLockedAndComeBackWithIt(t *testing.T) {
	c, dir, sealed, plain := lost(t)
	streams, broken, err := c.Streams(ctx)
	require.NoError(t, err)
	require.Empty(t, broken)
	require.Equal(t, []catalog.Stream{plain, sealed}, streams)
	require.Equal(t, allLocked, sealed.Locked.Settings)
	require.ErrorContains(t, sealed.Locked.Err, "secret.key is not there")
	m, _, err := c.PutModule(ctx, graphmill.Module{Name: "m", ContentType: "application/wasm", Transformations: []string{"f"}}, []byte("bytes"), true)
	require.NoError(t, err)
	requireCode(t, deletion(c.DeleteModule(ctx, m.Name, nil)), "module_in_use")

	// It can be written meanwhile, and that loses nothing.
	sealed.Desired = graphmill.StateRunning
	sealed, err = c.UpdateStream(ctx, sealed)
	require.NoError(t, err)
	require.Equal(t, allLocked, sealed.Locked.Settings)
	key := filepath.Join(dir, "secret.key")
	require.NoError(t, os.Rename(key+".away", key))
	back, err := c.Stream(ctx, "sealed")
	require.NoError(t, err)
	require.Nil(t, back.Locked)
	require.Equal(t, secured("sealed").Spec, back.Spec)
	require.Equal(t, graphmill.StateRunning, back.Desired)
}

func TestALostKeyIsNotReplacedWhileSomethingIsSealedWithIt(t *testing.T) {
	c, dir, sealed, plain := lost(t)
	key := filepath.Join(dir, "secret.key")

	_, err := c.CreateStream(ctx, secured("another"))
	requireCode(t, err, "secret_key")
	plain.Spec.Credentials = map[string]string{"sasl.password": planted}
	_, err = c.UpdateStream(ctx, plain)
	requireCode(t, err, "secret_key")
	part := sealed
	part.Spec.Credentials = map[string]string{"sasl.username": "new", "sasl.password": "new"}
	_, err = c.UpdateStream(ctx, part) // ssl.key.pem would stay locked
	requireCode(t, err, "secret_key")
	require.NoFileExists(t, key)

	// The last that needs it is set anew.
	whole := part
	whole.Spec.Configs = map[string]string{"ssl.key.pem": "new"}
	whole, err = c.UpdateStream(ctx, whole)
	require.NoError(t, err)
	require.Nil(t, whole.Locked)
	require.FileExists(t, key)
	back, err := c.Stream(ctx, "sealed")
	require.NoError(t, err)
	require.Equal(t, whole, back)
}

func TestALostKeyIsReplacedOnceNothingIsSealedWithIt(t *testing.T) {
	c, dir, _, plain := lost(t)
	require.NoError(t, c.DeleteStream(ctx, "sealed"))
	plain.Spec.Credentials = map[string]string{"sasl.password": planted}
	_, err := c.UpdateStream(ctx, plain)
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(dir, "secret.key"))
}

func TestLockedSecretsAreSetAnewOneByOneWithAnotherKey(t *testing.T) {
	c, dir, sealed, _ := lost(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "secret.key"), []byte("MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=\n"), 0o600))
	for left := len(allLocked); left > 0; left-- {
		field, name, _ := strings.Cut(sealed.Locked.Settings[0], ".")
		entries := map[string]map[string]string{"credentials": sealed.Spec.Credentials, "configs": sealed.Spec.Configs}[field]
		entries[name] = "new"
		var err error
		sealed, err = c.UpdateStream(ctx, sealed)
		require.NoError(t, err)
		if left > 1 {
			require.Len(t, sealed.Locked.Settings, left-1)
		}
	}
	require.Nil(t, sealed.Locked)
	back, err := reopen(t, c, dir).Stream(ctx, "sealed")
	require.NoError(t, err)
	require.Equal(t, sealed, back)
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

// keyFile puts keys into the file of a catalog's keys, in this order, and returns
// what stood there.
func keyFile(t *testing.T, dir string, keys ...string) (before string) {
	t.Helper()
	path := filepath.Join(dir, "secret.key")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, []byte(strings.Join(keys, "\n")), 0o600))
	return string(text)
}

const otherKey = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="

// TestAKeyIsChangedByARestart is the procedure of docs/security.md.
func TestAKeyIsChangedByARestart(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir)
	s, err := c.CreateStream(ctx, secured("s"))
	require.NoError(t, err)
	old := keyFile(t, dir)
	keyFile(t, dir, otherKey, old)
	c = reopen(t, c, dir)
	keyFile(t, dir, otherKey)
	c = reopen(t, c, dir)
	streams, _, err := c.Streams(ctx)
	require.NoError(t, err)
	require.Equal(t, []catalog.Stream{s}, streams, "nothing is locked, and nothing else has changed")
}

// TestWhatIsStoredIsSealedWithTheKeyOfTheFile is of a key file that is exchanged under
// a server: what it stores from then on can be opened with that file.
func TestWhatIsStoredIsSealedWithTheKeyOfTheFile(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir)
	s, err := c.CreateStream(ctx, secured("s"))
	require.NoError(t, err)
	keyFile(t, dir, otherKey)
	s.Desired = graphmill.StateRunning
	s, err = c.UpdateStream(ctx, s)
	require.NoError(t, err)
	other, err := c.CreateStream(ctx, secured("t"))
	require.NoError(t, err)
	c = reopen(t, c, dir)
	streams, _, err := c.Streams(ctx)
	require.NoError(t, err)
	require.Equal(t, []catalog.Stream{s, other}, streams)
}
