package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/api"
)

// write writes a file below the directory of the commands.
func (c *cli) write(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(c.dir, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

// definitions returns all streams as the server tells them, without what time
// changes.
func (c *cli) definitions(t *testing.T) []api.Stream {
	t.Helper()
	var all []api.Stream
	require.NoError(t, json.Unmarshal([]byte(c.must(t, "stream", "list", "-o", "json")), &all))
	for i := range all {
		all[i].CreatedAt, all[i].Reason = all[i].CreatedAt.Truncate(1<<62), nil
	}
	return all
}

const deployed = `
modules:
- {name: movies, file: movies.module}
streams:
- name: ratings
  topics: [ratings]
  transform: movies
  start_from: earliest
  batch_interval_ms: 20
  configs: {session.timeout.ms: 7000, fetch.min.bytes: 1}
  credentials: {client.id: hidden-one}
  state: running
- name: idle
  topics: [ratings]
  transform: movies.transform
`

func TestAppliedTwiceNothingChanges(t *testing.T) {
	c := newCLI(t)
	server := c.dev(t)
	module, err := os.ReadFile(moviesFile)
	require.NoError(t, err)
	c.write(t, "deploy/movies.module", string(module))
	c.write(t, "deploy/streams.yaml", deployed)
	c.write(t, "deploy/old.cypher", "CREATE KAFKA STREAM old TOPICS ratings TRANSFORM movies.transform;\n")
	require.Equal(t, exitDone, c.run(t, rating+"\n", "produce", "ratings").status)

	planned := c.must(t, "apply", "-f", "deploy", "--dry-run")
	require.Contains(t, planned, "module movies: create\n  sha256: ")
	require.Contains(t, planned, "stream old: create\n  topics: ratings\n  transform: movies.transform\n  consumer_group: mg_consumer\n")
	require.Contains(t, planned, "  configs.fetch.min.bytes: 1\n  configs.session.timeout.ms: 7000\n  credentials.client.id: ********\n  state: running\n")
	require.Contains(t, planned, "4 to create, 0 to change, 0 unchanged; nothing was done (--dry-run)\n")
	require.Empty(t, c.definitions(t))

	first := c.must(t, "apply", "-f", "deploy")
	require.Contains(t, first, "created module movies\ncreated stream old: stopped\ncreated stream ratings: running\ncreated stream idle: stopped\n4 created, 0 changed, 0 unchanged\n")
	c.awaitMessages(t, "ratings", 1)
	const nothing = "module movies: unchanged\nstream old: unchanged\nstream ratings: unchanged\nstream idle: unchanged\nnothing to change\n"
	before := c.definitions(t)
	require.Equal(t, nothing, c.must(t, "apply", "-f", "deploy"))
	require.Equal(t, nothing, c.must(t, "apply", "-f", "deploy", "--dry-run", "--prune"))
	require.Equal(t, before, c.definitions(t))

	// A definition is the whole of it; what is new to a stream begins where its
	// group is, or as it says.
	require.Equal(t, exitDone, c.run(t, rating+"\n"+rating+"\n", "produce", "more").status)
	changed := strings.NewReplacer("[ratings]\n  transform: movies\n", "[ratings, more]\n  transform: movies\n", "session.timeout.ms: 7000, ", "", "hidden-one", "hidden-two").Replace(deployed)
	c.write(t, "deploy/streams.yaml", changed)
	c.write(t, "deploy/old.cypher", "CREATE KAFKA STREAM old TOPICS ratings TRANSFORM movies.transform BATCH_SIZE 7;\nSTART STREAM old;")
	shown := c.must(t, "apply", "-f", "deploy")
	require.Contains(t, shown, "stream old: change\n  batch_size: 1000 -> 7\n  state: stopped -> running\n")
	require.Contains(t, shown, "stream ratings: change\n  topics: ratings -> ratings, more\n  configs.session.timeout.ms: 7000 -> (none)\n  credentials.client.id: another value\n")
	require.Contains(t, shown, "changed stream old: running\nchanged stream ratings: running\n0 created, 2 changed, 2 unchanged\n")
	c.awaitMessages(t, "ratings", 2)
	require.Contains(t, c.must(t, "apply", "-f", "deploy"), "nothing to change\n")

	// What is in no file goes only when that is wanted.
	require.NoError(t, os.Remove(filepath.Join(c.dir, "deploy/old.cypher")))
	require.Contains(t, c.must(t, "apply", "-f", "deploy"), "nothing to change\n")
	pruned := c.must(t, "apply", "-f", "deploy", "--prune")
	require.Contains(t, pruned, "stream old: drop, it is in no file\ndropped stream old\n0 created, 0 changed, 1 dropped, 3 unchanged\n")
	require.Len(t, c.definitions(t), 2)

	// An earlier version of a module becomes active again.
	c.write(t, "deploy/movies.module", string(module)+"\x00\x04\x03abc")
	require.Contains(t, c.must(t, "apply", "-f", "deploy"), "module movies: change\n  sha256: ")
	c.write(t, "deploy/movies.module", string(module))
	require.Contains(t, c.must(t, "apply", "-f", "deploy"), "  version: 2 -> 1\n")
	var m api.ModuleVersions
	require.NoError(t, json.Unmarshal([]byte(c.must(t, "module", "show", "movies", "-o", "json")), &m))
	require.Equal(t, 1, m.Active)
	require.Len(t, m.Versions, 2)
	server.stop(t)
}

func TestCase41AStreamThatAFileStopsIsStoppedAndStaysSo(t *testing.T) {
	c := newCLI(t)
	server := c.dev(t)
	definition := func(state string) string {
		return fmt.Sprintf("streams: [{name: s, topics: [t], transform: movies, batch_size: 7, state: %s}]\n", state)
	}
	c.must(t, "module", "push", "movies", moviesFile)
	require.Equal(t, exitDone, c.run(t, rating+"\n", "produce", "t").status)
	c.write(t, "s.yaml", definition("running"))
	require.Contains(t, c.must(t, "apply", "-f", "s.yaml"), "created stream s: running\n")
	c.write(t, "s.yaml", strings.Replace(definition("stopped"), "7", "8", 1))
	shown := c.must(t, "apply", "-f", "s.yaml")
	require.Contains(t, shown, "  batch_size: 7 -> 8\n  state: running -> stopped\nchanged stream s: stopped\n")
	require.Contains(t, c.must(t, "apply", "-f", "s.yaml"), "nothing to change\n")
	server.stop(t)
	server = c.dev(t)
	s := c.definitions(t)[0]
	require.Equal(t, graphmill.StateStopped, s.State)
	require.Equal(t, graphmill.StateStopped, s.Desired)
	require.Equal(t, 8, s.BatchSize)
	c.write(t, "s.yaml", strings.Replace(definition(""), "7", "8", 1))
	c.must(t, "stream", "start", "s")
	require.Contains(t, c.must(t, "apply", "-f", "s.yaml"), "nothing to change\n", "without a state it stays as it is")
	server.stop(t)
}

func TestAStreamThatHasFailedDoesNotRun(t *testing.T) {
	c := newCLI(t)
	server := c.dev(t)
	c.must(t, "module", "push", "movies", moviesFile)
	require.Equal(t, exitDone, c.run(t, "no JSON\n", "produce", "t").status)
	const definition = "streams: [{name: s, topics: [t], transform: movies, start_from: earliest, batch_interval_ms: 10, state: running}]\n"
	c.write(t, "s.yaml", definition)
	awaitFailed := func() {
		require.Eventually(t, func() bool { return c.definitions(t)[0].State == graphmill.StateFailed }, time.Minute, 50*time.Millisecond)
	}
	c.must(t, "apply", "-f", "s.yaml")
	awaitFailed()
	require.Contains(t, c.must(t, "apply", "-f", "s.yaml"), "  state: failed -> running\nchanged stream s: running\n", "it is tried again")
	awaitFailed()
	c.write(t, "s.yaml", strings.Replace(definition, "running", "stopped", 1))
	require.Contains(t, c.must(t, "apply", "-f", "s.yaml"), "  state: failed -> stopped\nchanged stream s: stopped\n")
	require.Contains(t, c.must(t, "apply", "-f", "s.yaml"), "nothing to change\n")
	server.stop(t)
}

func TestCase40OfBrokenFilesTheOthersAreApplied(t *testing.T) {
	c := newCLI(t)
	server := c.dev(t)
	c.write(t, "d/a.yaml", "streams:\n- {name: a, topics: [absent], transform: absent.f}\n- {name: b, topics: [t], transform: m, bach_size: 1}\n- {name: c, topics: [t], transform: m,\n   memory_limit: 1}\n")
	c.write(t, "d/b.yaml", "streams: [\n")
	c.write(t, "d/c.cypher", "CREATE KAFKA STREAM e TOPICS t TRANSFORM m;\nDROP STREAM x;\n")
	c.write(t, "d/broken.wasm", "no module")
	c.write(t, "d/gone.yaml", "modules: [{name: gone, sha256: "+strings.Repeat("0a", 32)+"}, {name: broken, file: broken.wasm}]\n")
	c.must(t, "stream", "create", "kept", "--topics", "t", "--transform", "m", "--no-check")
	r := c.run(t, "", "apply", "-f", "d", "--prune")
	require.Equal(t, exitFailed, r.status, "%s%s", r.out, r.err)
	require.Contains(t, r.out, "created stream a: stopped\ncreated stream e: stopped\n2 created, 0 changed, 0 unchanged, 6 failed\n")
	for _, want := range []string{
		`error: d/a.yaml:3: stream b: the key "bach_size" is not known there; did you mean batch_size?`,
		"error: d/a.yaml:5: stream c: memory_limit: 1 is outside of",
		"error: d/b.yaml:1: it is no YAML", "error: d/c.cypher:2: DROP STREAM: apply takes", "next:  execute other statements with: graphmill query\n",
		"error: d/gone.yaml:1: module gone: the server has no version of it with the SHA-256 0a0a0a0a0a0a, and no file is named\n",
		"error: d/gone.yaml:1: module broken: ",
		"nothing is pruned: what is broken in the files may define a stream\n",
		"warning: a: the transformation absent.f cannot be used yet",
	} {
		require.Contains(t, r.err, want)
	}
	require.Len(t, c.definitions(t), 3)

	r = c.run(t, "", "apply", "-f", "d", "-o", "json")
	require.Equal(t, exitFailed, r.status)
	var answer applied
	require.NoError(t, json.Unmarshal([]byte(r.out), &answer))
	require.Equal(t, summary{Unchanged: 2, Failed: 6}, answer.Summary)

	for args, want := range map[string]string{"": "-f FILE", "-f d/x.txt": "no such file", "-f nowhere": "no such file", "-f empty": "there is no file in empty that apply takes", "-f graphmill-data": "there is no file"} {
		require.NoError(t, os.MkdirAll(filepath.Join(c.dir, "empty"), 0o700))
		r := c.run(t, "", append([]string{"apply", "--prune"}, strings.Fields(args)...)...)
		require.NotEqual(t, exitDone, r.status)
		require.Contains(t, r.err, want)
		require.Empty(t, r.out)
	}
	require.Len(t, c.definitions(t), 3)
	server.stop(t)
}

func TestAppliesAtOnceEndInWhatTheFilesSay(t *testing.T) {
	c := newCLI(t)
	server := c.dev(t)
	var text strings.Builder
	text.WriteString("streams:\n")
	for i := range 10 {
		fmt.Fprintf(&text, "- {name: s%d, topics: [t], transform: m, batch_size: 7}\n", i)
	}
	c.write(t, "s.yaml", text.String())
	results := make([]result, 3)
	var all sync.WaitGroup
	for i := range results {
		all.Go(func() { results[i] = c.run(t, "", "apply", "-f", "s.yaml") })
	}
	all.Wait()
	for _, r := range results {
		require.Equal(t, exitDone, r.status, "%s%s", r.out, r.err)
	}
	require.Len(t, c.definitions(t), 10)
	require.Contains(t, c.must(t, "apply", "-f", "s.yaml"), "nothing to change\n")
	server.stop(t)
}

func TestAChangeThatARunningTransformationRefusesIsNotApplied(t *testing.T) {
	c := newCLI(t)
	server := c.dev(t)
	c.must(t, "module", "push", "movies", moviesFile)
	require.Equal(t, exitDone, c.run(t, rating+"\n", "produce", "t").status)
	const definition = "streams: [{name: s, topics: [t], transform: movies, state: running}]\n"
	c.write(t, "s.yaml", definition)
	c.must(t, "apply", "-f", "s.yaml")
	c.write(t, "s.yaml", strings.Replace(definition, "state", "settings: {a: b}, state", 1))
	r := c.run(t, "", "apply", "-f", "s.yaml")
	require.Equal(t, exitFailed, r.status)
	require.Contains(t, r.err, `stream "s" stays as it was`)
	require.Equal(t, graphmill.StateRunning, c.definitions(t)[0].State)

	// A topic or a secret that is absent is told, and does not keep it.
	c.write(t, "s.yaml", strings.NewReplacer("[t]", "[t, absent-yet]", "state", "credentials: {client.id: secret:absent}, state").Replace(definition))
	r = c.run(t, "", "apply", "-f", "s.yaml")
	require.Contains(t, r.out, "  topics: t -> t, absent-yet\n  credentials.client.id: (none) -> secret:absent\n")
	require.Contains(t, r.err, "absent")
	require.Equal(t, []string{"t", "absent-yet"}, c.definitions(t)[0].Topics)
	server.stop(t)
}
