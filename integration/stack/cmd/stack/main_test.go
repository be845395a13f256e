package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill/integration/stack"
)

func TestStatusAndUsage(t *testing.T) {
	for name, tc := range map[string]struct {
		args   []string
		status int
		stdout string
		stderr string
	}{
		"no command":              {nil, statusUsage, "", "a command is needed"},
		"unknown command":         {[]string{"restart"}, statusUsage, "", `there is no command "restart"`},
		"unknown server":          {[]string{"up", "postgres"}, statusUsage, "", `there is no server "postgres"`},
		"up of nothing":           {[]string{"up", "--dir", "x"}, statusUsage, "", "up needs the names of servers"},
		"down of one":             {[]string{"down", "kafka"}, statusUsage, "", "takes no names"},
		"unknown flag":            {[]string{"down", "--force"}, statusUsage, "", "-force"},
		"flag of another command": {[]string{"up", "kafka", "--kill"}, statusUsage, "", "-kill"},
		"flag of another server":  {[]string{"up", "kafka", "neo4j", "--token"}, statusUsage, "", "are for pulsar"},
		"help":                    {[]string{"help"}, statusDone, "stack up kafka|pulsar|neo4j", ""},
		"the flag of help":        {[]string{"--help"}, statusDone, "stack up kafka|pulsar|neo4j", ""},
		"help on a command":       {[]string{"up", "kafka", "--help"}, statusDone, "stack up kafka|pulsar|neo4j", ""},
		"down where nothing is":   {[]string{"down", "--dir", filepath.Join(t.TempDir(), "none")}, statusDone, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			require.Equal(t, tc.status, run(t.Context(), tc.args, &stdout, &stderr))
			require.Contains(t, stdout.String(), tc.stdout)
			require.Contains(t, stderr.String(), tc.stderr)
			if tc.status == statusUsage {
				require.Contains(t, stderr.String(), "stack up kafka|pulsar|neo4j", "the usage")
			}
		})
	}
}

func TestDownRemovesTheAddressesAndNothingOfOthers(t *testing.T) {
	dir := t.TempDir()
	env, other := filepath.Join(dir, envFile), filepath.Join(dir, "other")
	for _, file := range []string{env, other} {
		require.NoError(t, os.WriteFile(file, nil, 0o600))
	}
	require.Equal(t, statusDone, run(t.Context(), []string{"down", "--remove", "--dir", dir}, &bytes.Buffer{}, &bytes.Buffer{}))
	require.NoFileExists(t, env)
	require.FileExists(t, other)
}

func TestAddressesOfAllServersAreInOneFile(t *testing.T) {
	dir := t.TempDir()
	path, err := joinEnv(dir)
	require.NoError(t, err)
	require.Empty(t, path, "there are no servers")

	for _, name := range []string{"kafka", "neo4j", "pulsar"} { // as runs of up leave them
		require.NoError(t, os.WriteFile(filepath.Join(dir, envFileOf(name)), []byte("export "+name+"='1'\n"), 0o600))
		path, err = joinEnv(dir)
		require.NoError(t, err)
	}
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "export kafka='1'\nexport pulsar='1'\nexport neo4j='1'\n", string(b))

	require.NoError(t, tearDown(t.Context(), dir, stack.DownConfig{}))
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestUpWithoutJavaFailsWithWhatToInstall(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("JAVA_HOME", "")
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	var stderr bytes.Buffer
	require.Equal(t, statusFailed, run(t.Context(), []string{"up", "kafka", "--dir", t.TempDir()}, &bytes.Buffer{}, &stderr))
	require.Contains(t, stderr.String(), "java is not installed: install a JDK (17 or newer)")
}
