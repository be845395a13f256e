package stack

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPropertyLines(t *testing.T) {
	lines, err := propertyLines(map[string]string{"b.c": `C:\x`, "a": "1 = 2"})
	require.NoError(t, err)
	require.Equal(t, "a=1 = 2\nb.c=C:\\\\x\n", lines)

	for name, bad := range map[string]map[string]string{
		"a second setting hidden in a value": {"a": "1\nauth=false"},
		"no name":                            {"": "1"},
		"a name that is a comment":           {"#a": "1"},
		"a name with a separator":            {"a=b": "1"},
	} {
		_, err := propertyLines(bad)
		require.Error(t, err, name)
	}
}

func TestKafkaConfTakesSettingsThatWin(t *testing.T) {
	dir := t.TempDir()
	s := &Server{dir: dir, state: state{Ports: map[string]int{}}}
	for i, name := range kafkaPorts {
		s.state.Ports[name] = 1001 + i
	}
	require.NoError(t, writeKafkaConf(s, map[string]string{"num.partitions": "7"}))
	b, err := os.ReadFile(filepath.Join(dir, kafkaConfFile))
	require.NoError(t, err)
	conf := string(b)
	require.Contains(t, conf, "listeners=PLAINTEXT://127.0.0.1:1001,SASL://127.0.0.1:1002,TLS://127.0.0.1:1003,")
	require.Greater(t, strings.Index(conf, "num.partitions=7"), strings.Index(conf, "num.partitions=3"), "of two lines Kafka takes the last")
	require.NotContains(t, conf, "<no value>")
}

func TestCertificatesAreGoodForATLSListenerOnLoopback(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	require.NoError(t, writeCertificates(path))
	ca, err := os.ReadFile(path(caFile))
	require.NoError(t, err)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(ca))
	for _, file := range []string{serverFile, clientFile, expiredFile, misnamedFile, foreignClientFile} {
		pair, err := tls.LoadX509KeyPair(path(file), path(file))
		require.NoError(t, err)
		for _, name := range []string{"localhost", "127.0.0.1"} {
			_, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: name})
			require.Equal(t, file == serverFile, err == nil, "%s for %s: %v", file, name, err)
		}
	}
	info, err := os.Stat(path(serverFile))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), "it holds the key")
}

func TestWriteEnvIsReadByAShell(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stack.env")
	require.NoError(t, os.WriteFile(path, []byte("export OLD='1'\n"), 0o644))
	values := map[string]string{
		"PLAIN":  "127.0.0.1:9092",
		"QUOTED": `it's "here"; $(rm -rf x) \ ` + "`id`",
		"LINES":  "a\nb",
		"EMPTY":  "",
	}
	var vars []EnvVar
	for name, value := range values {
		vars = append(vars, EnvVar{name, value})
	}
	require.NoError(t, WriteEnv(path, vars))
	for name, want := range values {
		got, err := exec.Command("sh", "-c", `. "$0" && sh -c 'printf %s "$`+name+`"'`, path).Output()
		require.NoError(t, err)
		require.Equal(t, want, string(got), name)
	}
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NotContains(t, string(b), "OLD")
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	require.Error(t, WriteEnv(path, []EnvVar{{"A B", ""}}))
	require.Error(t, WriteEnv(path, []EnvVar{{"A", "\x00"}}))
}
