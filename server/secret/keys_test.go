package secret_test

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/server/secret"
)

func requireCode(t *testing.T, err error, code string) *graphmill.Error {
	t.Helper()
	var e *graphmill.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, code, e.Code, "%v", err)
	return e
}

func newKey() string {
	raw := make([]byte, 32)
	rand.Read(raw)
	return base64.StdEncoding.EncodeToString(raw)
}

func keyFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// always says that nothing is sealed yet.
func always() bool { return true }

func TestASealedValueIsUnreadableAndComesBack(t *testing.T) {
	keys := secret.NewKeys(keyFile(t, newKey()), false)
	for _, plain := range []string{"", "pl4nted", "gr\u00fc\u00df dich\n\x00", strings.Repeat("long ", 20_000), "sealed:1:looks:so"} {
		sealed, err := keys.Seal(plain, "here", always)
		require.NoError(t, err)
		require.True(t, secret.IsSealed(sealed))
		if plain != "" {
			require.NotContains(t, sealed, plain)
		}
		again, err := keys.Seal(plain, "here", always)
		require.NoError(t, err)
		require.NotEqual(t, sealed, again, "equal secrets must not be seen to be equal")
		opened, err := keys.Open(sealed, "here")
		require.NoError(t, err)
		require.Equal(t, plain, opened)
	}
}

func TestASealedValueOpensOnlyUnchangedAndInItsPlace(t *testing.T) {
	keys := secret.NewKeys(keyFile(t, newKey()), false)
	sealed, err := keys.Seal("pl4nted", "here", always)
	require.NoError(t, err)
	_, err = keys.Open(sealed, "there")
	requireCode(t, err, "secret_key")
	for i := range sealed {
		changed := []byte(sealed)
		changed[i] ^= 1
		if _, err := keys.Open(string(changed), "here"); i < len(sealed)-1 { // the last character has spare bits
			requireCode(t, err, "secret_key")
		}
		_, err = keys.Open(sealed[:i], "here")
		requireCode(t, err, "secret_key")
	}
}

func TestTheFirstKeySealsAndAllOfThemOpen(t *testing.T) {
	old, fresh := newKey(), newKey()
	sealed, err := secret.NewKeys(keyFile(t, old), false).Seal("pl4nted", "here", always)
	require.NoError(t, err)

	both := secret.NewKeys(keyFile(t, "# rotated\n\n"+fresh+" # new\r\n  "+old+"\n"), false)
	opened, err := both.Open(sealed, "here")
	require.NoError(t, err)
	require.Equal(t, "pl4nted", opened)
	sealed, err = both.Seal("pl4nted", "here", always)
	require.NoError(t, err)
	opened, err = secret.NewKeys(keyFile(t, fresh), false).Open(sealed, "here")
	require.NoError(t, err)
	require.Equal(t, "pl4nted", opened)

	_, err = secret.NewKeys(keyFile(t, old), false).Open(sealed, "here")
	require.Contains(t, requireCode(t, err, "secret_key").Next, "add that key")
}

func TestAKeyFileIsMadeWithTheFirstSecretAndForItsOwnerOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret.key")
	keys := secret.NewKeys(path, true)
	require.NoError(t, keys.Check())
	_, err := keys.Open("sealed:1:00000000:AAAA", "here")
	requireCode(t, err, "secret_key")
	require.NoFileExists(t, path)

	// Two processes, many streams at once: one key.
	var wg sync.WaitGroup
	sealed := make([]string, 8)
	for i := range sealed {
		wg.Go(func() {
			var err error
			if sealed[i], err = secret.NewKeys(path, true).Seal("pl4nted", "here", always); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	for _, s := range sealed {
		_, err := secret.NewKeys(path, false).Open(s, "here")
		require.NoError(t, err)
	}
	left, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, left, 1, "no temporary files")
}

func TestAKeyThatAnotherProcessMakesMeanwhileIsUsed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret.key")
	sealed, err := secret.NewKeys(path, true).Seal("pl4nted", "here", func() bool {
		_, err := secret.NewKeys(path, true).Seal("the first", "there", always)
		require.NoError(t, err)
		return false // something is sealed by now
	})
	require.NoError(t, err)
	opened, err := secret.NewKeys(path, false).Open(sealed, "here")
	require.NoError(t, err)
	require.Equal(t, "pl4nted", opened)
}

func TestALostKeyIsNotReplacedByAnother(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret.key")
	sealed, err := secret.NewKeys(path, true).Seal("pl4nted", "here", always)
	require.NoError(t, err)
	require.NoError(t, os.Rename(path, path+".away"))

	keys := secret.NewKeys(path, true)
	require.NoError(t, keys.Check())
	_, err = keys.Seal("other", "there", func() bool { return false })
	require.Contains(t, requireCode(t, err, "secret_key").Next, "openssl rand -base64 32 > "+path)
	require.NoFileExists(t, path)

	// A person makes another: it seals, and the old one opens again behind it, in
	// the same process.
	require.NoError(t, os.WriteFile(path, []byte(newKey()+"\n"), 0o600))
	_, err = keys.Seal("other", "there", func() bool { return false })
	require.NoError(t, err)
	_, err = keys.Open(sealed, "here")
	require.Contains(t, requireCode(t, err, "secret_key").Next, "add that key")
	old, err := os.ReadFile(path + ".away")
	require.NoError(t, err)
	fresh, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, append(fresh, old...), 0o600))
	opened, err := keys.Open(sealed, "here")
	require.NoError(t, err)
	require.Equal(t, "pl4nted", opened)
}

func TestAKeyThatIsInUseOutlivesItsFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret.key")
	keys := secret.NewKeys(path, true)
	sealed, err := keys.Seal("pl4nted", "here", always)
	require.NoError(t, err)
	require.NoError(t, os.Remove(path))
	_, err = keys.Open("sealed:1:00000000:AAAA", "here") // looks for the file again
	requireCode(t, err, "secret_key")
	opened, err := keys.Open(sealed, "here")
	require.NoError(t, err)
	require.Equal(t, "pl4nted", opened)
	_, err = keys.Seal("more", "here", func() bool { t.Error("a key is there"); return true })
	require.NoError(t, err)
	require.NoFileExists(t, path)
}

func TestAKeyFileThatWillNotDoIsToldWithoutItsText(t *testing.T) {
	for name, text := range map[string]string{
		"empty":         "",
		"only comments": "# no key here\n",
		"too short":     base64.StdEncoding.EncodeToString([]byte("pl4nted")),
		"not base64":    "pl4nted pl4nted pl4nted",
		"second line":   newKey() + "\npl4nted",
		"huge":          strings.Repeat("pl4nted\n", 100_000),
		"binary":        string(bytes.Repeat([]byte{0, 255}, 16)),
	} {
		t.Run(name, func(t *testing.T) {
			keys := secret.NewKeys(keyFile(t, text), true)
			e := requireCode(t, keys.Check(), "secret_key")
			require.NotContains(t, e.Error()+e.Next, "pl4nted")
			_, err := keys.Seal("x", "here", always)
			requireCode(t, err, "secret_key")
		})
	}
	t.Run("absent where it is named", func(t *testing.T) {
		requireCode(t, secret.NewKeys(filepath.Join(t.TempDir(), "none"), false).Check(), "secret_key")
	})
	t.Run("a folder", func(t *testing.T) {
		requireCode(t, secret.NewKeys(t.TempDir(), true).Check(), "secret_key")
	})
}
