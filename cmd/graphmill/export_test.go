package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhatIsExportedMakesTheSameElsewhereAndChangesNothingHere(t *testing.T) {
	c := newCLI(t)
	server := c.dev(t)
	c.must(t, "module", "push", "movies", moviesFile)
	c.must(t, "module", "push", "unused", moviesFile)
	c.write(t, "s.yaml", `
streams:
- name: full
  topics: [a, b]
  transform: movies.transform
  batch_size: 7
  batch_bytes: 1048576
  batch_interval_ms: 20
  consumer_group: of-full
  start_from: 2026-01-31T12:00:00Z
  bootstrap_servers: ["127.0.0.1:1"]
  configs: {auto.offset.reset: earliest, ssl.ca.pem: "-----BEGIN CERTIFICATE-----\n"}
  credentials: {sasl.username: "secret:user", sasl.password: "secret:password"}
  database: on
  coalesce: off
  allow: [schema, load_csv]
  settings: {query: "MERGE (u)\nSET u.x = <1>\n", yes: no, number: "007", empty: "", "key: with": "# no comment"}
  memory_limit: 67108864
  time_limit_ms: 1000
  response_limit: 1048576
- {name: plain, topics: [a], transform: movies}
- {name: reset, topics: [a], transform: movies, configs: {auto.offset.reset: earliest}, start_from: latest}
`)
	r := c.run(t, "", "apply", "-f", "s.yaml")
	require.Contains(t, r.out, "3 created", r.err)
	r = c.run(t, "", "export", "--modules", "deploy")
	require.Equal(t, exitDone, r.status, r.err)
	require.Contains(t, r.out, "  - name: plain\n    topics:\n      - a\n    transform: movies\n    state: stopped\n", "nothing that is the default")
	require.Contains(t, r.out, "sasl.password: secret:password\n")
	require.Empty(t, r.err)
	c.write(t, "deploy/streams.yaml", r.out)
	require.Equal(t, readIfThere(t, moviesFile), readIfThere(t, filepath.Join(c.dir, "deploy/movies.wasm")))
	require.Contains(t, c.must(t, "apply", "-f", "deploy", "--prune"), "nothing to change\n")

	there := newCLI(t)
	other := there.dev(t)
	there.dir = c.dir
	require.Contains(t, there.run(t, "", "apply", "-f", "deploy").out, "5 created, 0 changed, 0 unchanged\n")
	require.Equal(t, c.definitions(t), there.definitions(t))
	for _, format := range []string{"yaml", "json"} {
		for _, names := range [][]string{nil, {"plain", "full"}} {
			args := append([]string{"export", "-o", format}, names...)
			exported := c.must(t, args...)
			require.Equal(t, exported, there.must(t, args...))
			require.Equal(t, names == nil, strings.Contains(exported, "unused"), "with names only the modules that are used")
			r := there.run(t, exported, "apply", "-f", "-")
			require.Contains(t, r.out, "nothing to change\n", r.err)
		}
	}
	typo := c.run(t, "", "export", "plian")
	require.Equal(t, exitFailed, typo.status)
	require.Contains(t, typo.err, `did you mean "plain"?`)
	require.Empty(t, typo.out)
	server.stop(t)
	other.stop(t)
}

func TestSecretsAreNotExportedAndHaveToBeFilledIn(t *testing.T) {
	c := newCLI(t)
	server := c.dev(t)
	c.write(t, "s.yaml", "streams: [{name: s, topics: [a], transform: m, credentials: {client.id: hunter2}}]\n")
	c.must(t, "apply", "-f", "s.yaml")
	r := c.run(t, "", "export")
	require.NotContains(t, r.out+r.err, "hunter2")
	require.Contains(t, r.out, "client.id: '********' # a secret, not exported: write secret:NAME, or the value\n")
	require.Equal(t, "1 secret is not exported; in place of ******** write secret:NAME, or the value:\n  s: credentials.client.id\n", r.err)
	refused := c.run(t, r.out, "apply", "-f", "-")
	require.Equal(t, exitFailed, refused.status)
	require.Contains(t, refused.err, `error: standard input:7: stream s: credentials: the value of "client.id" is ********, which stands for a secret`)
	filled := strings.Replace(r.out, "'********'", "hunter2", 1)
	require.Contains(t, c.run(t, filled, "apply", "-f", "-").out, "nothing to change\n", "the server compares what it does not tell")
	require.NoError(t, os.Remove(filepath.Join(c.dir, "s.yaml")))
	server.stop(t)
}
