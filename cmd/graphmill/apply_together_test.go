package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAStreamTakesTheGroupOfOneThatTheSameApplyStopsOrDrops(t *testing.T) {
	c := newCLI(t)
	server := c.dev(t, "--start-timeout", "100ms")
	c.must(t, "module", "push", "movies", moviesFile)
	const stream = ", topics: [t], transform: movies.transform, consumer_group: g, state: "
	for _, step := range []struct{ text, said string }{
		{"streams: [{name: one" + stream + "running}]", "1 created, 0 changed, 0 unchanged\n"},
		{"streams: [{name: a" + stream + "running}, {name: one" + stream + "stopped}]", "1 created, 1 changed, 0 unchanged\n"},
		{"streams: [{name: b" + stream + "running}]", "1 created, 0 changed, 2 dropped, 0 unchanged\n"},
	} {
		c.write(t, "s.yaml", step.text)
		r := c.run(t, "", "apply", "-f", "s.yaml", "--prune")
		require.Equal(t, exitDone, r.status, r.err)
		require.Contains(t, r.out, step.said)
		require.Contains(t, c.must(t, "apply", "-f", "s.yaml", "--prune"), "nothing to change\n")
	}
	c.write(t, "s.yaml", "streams: [{name: a"+stream+"running}, {name: b"+stream+"running}]")
	r := c.run(t, "", "apply", "-f", "s.yaml")
	require.Equal(t, exitFailed, r.status)
	require.Contains(t, r.err, `error: s.yaml:1: stream a: stream "b" is running and reads topic "t" in the same consumer group "g"`)
	require.Contains(t, r.out, "0 created, 0 changed, 1 unchanged, 1 failed\n")
	server.stop(t)
}

func TestAnEmptyEntryIsToldFromOneThatIsNotThere(t *testing.T) {
	options := map[string]any{"settings": map[string]any{"empty": "", "full": "x"}}
	require.Equal(t, `""`, valueOf(options, "settings.empty"))
	require.Equal(t, "x", valueOf(options, "settings.full"))
	require.Empty(t, valueOf(options, "settings.absent"))
}

func TestFilesWithoutAListOfStreamsPruneNothing(t *testing.T) {
	c := newCLI(t)
	server := c.dev(t)
	c.must(t, "stream", "create", "kept", "--topics", "t", "--transform", "m", "--no-check")
	for _, text := range []string{"streams:\n", "modules: []\n", "streams: ~\n---\nmodules:\n"} {
		r := c.run(t, text, "apply", "-f", "-", "--prune")
		require.Equal(t, exitDone, r.status, r.err)
		require.Contains(t, r.out, "nothing to change\n", text)
		require.Contains(t, r.err, "nothing is pruned: the files hold no list of streams")
	}
	require.Len(t, c.definitions(t), 1)
	require.Contains(t, c.run(t, "streams: []\n", "apply", "-f", "-", "--prune").out, "dropped stream kept\n")
	server.stop(t)
}

func TestNothingIsPrunedWhereSomethingElseFails(t *testing.T) {
	c := newCLI(t)
	server := c.dev(t)
	c.must(t, "stream", "create", "kept", "--topics", "t", "--transform", "m", "--no-check")
	for name, x := range map[string]struct{ text, said, told string }{
		"a stream that cannot be started": {
			"streams: [{name: a, topics: [t], transform: absent.f, state: running}]",
			"stream kept: drop, it is in no file\n0 created, 0 changed, 0 unchanged, 1 failed, 1 not done\n",
			"nothing is pruned: not all else has succeeded\n",
		},
		"a module that the comparison refuses": {
			"streams: []\nmodules: [{name: gone, sha256: " + strings.Repeat("0a", 32) + "}]",
			"0 created, 0 changed, 0 unchanged, 1 failed\n",
			"nothing is pruned: not all that the files say can be done\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := c.run(t, x.text, "apply", "-f", "-", "--prune")
			require.Equal(t, exitFailed, r.status)
			require.Contains(t, r.out, x.said)
			require.Contains(t, r.err, x.told)
			require.Contains(t, c.must(t, "stream", "list"), "kept")
		})
	}

	// What is refused for another stream's sake does not go before what is pruned:
	// that stream may be the other one.
	c.must(t, "module", "push", "movies", moviesFile)
	require.Equal(t, exitDone, c.run(t, rating+"\n", "produce", "t").status)
	const stream = ", topics: [t], transform: movies.transform, consumer_group: g, state: running}"
	c.must(t, "stream", "drop", "a")
	require.Equal(t, exitDone, c.run(t, "streams: [{name: one"+stream+"]", "apply", "-f", "-").status)
	r := c.run(t, "streams: [{name: a"+stream+", {name: b"+stream+"]", "apply", "-f", "-", "--prune")
	require.Contains(t, r.out, "dropped stream kept\ndropped stream one\ncreated stream a: running\n1 created, 0 changed, 2 dropped, 0 unchanged, 1 failed\n")
	require.Contains(t, r.err, `stream b: stream "a" is running`)
	c.must(t, "stream", "create", "kept", "--topics", "t", "--transform", "m", "--no-check")
	r = c.run(t, "streams: [{name: a"+stream+", {name: b"+stream+"]", "apply", "-f", "-", "--prune")
	require.Contains(t, r.out, "0 created, 0 changed, 1 unchanged, 1 failed, 1 not done\n", "none that is to be dropped keeps b from it")
	server.stop(t)
}
