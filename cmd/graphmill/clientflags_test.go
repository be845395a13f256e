package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestClientFlagsReadValuesAndFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(file, []byte("one\ntwo=3\n"), 0o600))
	f := clientFlags{
		configs:     []string{"a=1", "b=", "c=x=y", "d=@@home", "e=a,b"},
		credentials: []string{"sasl.password=@" + file},
	}
	configs, credentials, err := f.read()
	require.NoError(t, err)
	require.Equal(t, map[string]string{"a": "1", "b": "", "c": "x=y", "d": "@home", "e": "a,b"}, configs)
	require.Equal(t, map[string]string{"sasl.password": "one\ntwo=3"}, credentials)

	configs, credentials, err = (&clientFlags{}).read()
	require.NoError(t, err)
	require.Nil(t, configs)
	require.Nil(t, credentials)
}

func TestClientFlagsThatAreWrongRepeatNoValue(t *testing.T) {
	const planted = "PLANTED-16180"
	for name, f := range map[string]clientFlags{
		"no name":         {credentials: []string{"=" + planted}},
		"no value":        {credentials: []string{planted}},
		"a name twice":    {credentials: []string{"sasl.password=" + planted, "sasl.password=" + planted}},
		"an absent file":  {credentials: []string{"sasl.password=@/nonexistent/file"}},
		"an empty @":      {configs: []string{"a=@"}},
		"a value unknown": {configs: []string{"sasl.mechanismus=" + planted}},
	} {
		_, _, err := f.settings(&app{})
		require.Error(t, err, name)
		require.NotContains(t, err.Error(), planted, name)
	}
}

func TestProduceTakesSecretsOfItsOwnMachine(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "ca.pem"), []byte("no certificate"), 0o600))
	f := clientFlags{
		configs:     []string{"security.protocol=sasl_plaintext", "sasl.mechanism=PLAIN", "sasl.username=u"},
		credentials: []string{"sasl.password=secret:kafka"},
	}
	_, _, err := f.settings(&app{})
	require.ErrorContains(t, err, "GRAPHMILL_SECRET_KAFKA")
	_, notes, err := f.settings(&app{environ: []string{"GRAPHMILL_SECRET_KAFKA=x"}})
	require.NoError(t, err)
	require.Len(t, notes, 1, "PLAIN without TLS")
	f.configs = []string{"security.protocol=ssl", "ssl.ca.location=" + filepath.Join(dir, "ca.pem")}
	f.credentials = nil
	_, _, err = f.settings(&app{})
	require.ErrorContains(t, err, "no certificate in PEM")
}
