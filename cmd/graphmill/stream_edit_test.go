package main

import (
	"encoding/json"
	"io"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
)

func TestFlagsBecomeAPatch(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string
		err  string
	}{
		"sizes and times":           {args: []string{"--batch-size", "5", "--batch-bytes", "1MiB", "--batch-interval", "2s", "--time-limit", "1500ms"}, want: `{"batch_bytes":1048576,"batch_interval_ms":2000,"batch_size":5,"time_limit_ms":1500}`},
		"lists with spaces":         {args: []string{"--topics", "a, b", "--allow", "schema"}, want: `{"allow":["schema"],"topics":["a","b"]}`},
		"an empty text":             {args: []string{"--database", ""}, err: "--database is given, and empty"},
		"entries":                   {args: []string{"--setting", "a=1", "--credential", "sasl.username=u", "--unset", "setting.b", "--unset", "config.ssl.ca.pem"}, want: `{"configs":{"ssl.ca.pem":null},"credentials":{"sasl.username":"u"},"settings":{"a":"1","b":null}}`},
		"defaults":                  {args: []string{"--unset", "batch-size", "--unset", "batch_interval", "--unset", "--settings"}, want: `{"batch_interval_ms":null,"batch_size":null,"settings":null}`},
		"zero":                      {args: []string{"--batch-size", "0"}, err: "--batch-size"},
		"unset what is none":        {args: []string{"--unset", "bach-size"}, err: "did you mean batch-size?"},
		"unset what is given":       {args: []string{"--batch-size", "5", "--unset", "batch-size"}, err: "is given, too"},
		"unset an entry given":      {args: []string{"--setting", "a=1", "--unset", "setting.a"}, err: "is given, too"},
		"unset an entry of no map":  {args: []string{"--unset", "topics.a"}, err: "only settings, configs and credentials"},
		"unset an entry without":    {args: []string{"--unset", "setting."}, err: "only settings, configs and credentials"},
		"a setting without a value": {args: []string{"--setting", "a"}, err: "NAME=VALUE"},
	} {
		t.Run(name, func(t *testing.T) {
			f := createFlags{edit: true}
			cmd := &cobra.Command{Use: "edit", SilenceUsage: true, SilenceErrors: true}
			cmd.SetOut(io.Discard)
			f.add(cmd)
			unset := cmd.Flags().StringArray("unset", nil, "")
			require.NoError(t, cmd.ParseFlags(c.args))
			patch, err := f.patch(cmd.Flags(), *unset)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				return
			}
			require.NoError(t, err)
			doc, err := json.Marshal(patch)
			require.NoError(t, err)
			require.JSONEq(t, c.want, string(doc))
		})
	}
}

func TestEveryOptionIsAFlagOfEdit(t *testing.T) {
	f := createFlags{edit: true}
	cmd := &cobra.Command{Use: "edit"}
	f.add(cmd)
	flags := map[string]bool{}
	for _, name := range []string{"topics", "transform", "setting", "start-from", "batch-size", "batch-bytes", "batch-interval", "bootstrap-servers", "config", "credential",
		"consumer-group", "database", "delivery", "on-failure", "coalesce", "allow", "memory-limit", "time-limit", "response-limit"} {
		require.NotNil(t, cmd.Flags().Lookup(name), name)
		flags[optionOf(name)] = true
	}
	full := graphmill.StreamSpec{Topics: []string{"t"}, Transform: "m", BootstrapServers: []string{"b"}, Configs: map[string]string{"a": "b"}, Credentials: map[string]string{"a": "b"},
		Database: "d", Allow: []string{"schema"}, Settings: map[string]string{"a": "b"}, MemoryLimit: 1, TimeLimitMS: 1, ResponseLimit: 1}.WithDefaults()
	options, err := optionsOf(full)
	require.NoError(t, err)
	for option := range options {
		require.True(t, flags[option] || option == "name" || option == "source", "no flag gives %s", option)
	}
}

func TestAStreamIsTriedEditedAndMoved(t *testing.T) {
	c := newCLI(t)
	server := c.dev(t)
	c.must(t, "module", "push", "movies", moviesFile)
	require.Equal(t, "3 messages sent to ratings\n", c.run(t, rating+"\n"+rating+"\n"+rating+"\n", "produce", "ratings").out)
	c.must(t, "stream", "create", "ratings", "--topics", " ratings", "--transform", "movies", "--start-from", "earliest", "--batch-interval", "20ms", "--batch-size", "2")

	require.Equal(t, "ratings: stopped; 1 batch of 2 messages applied, 2 statements executed\n", c.must(t, "stream", "start", "ratings", "--batch-limit", "1", "--timeout", "1m"))
	late := c.run(t, "", "stream", "start", "ratings", "--batch-limit", "5", "--timeout", "5s")
	require.Equal(t, exitFailed, late.status)
	require.Contains(t, late.err, "committed: 1 batch of 1 message, up to ratings/0@3")

	edited := c.must(t, "stream", "edit", "ratings", "--batch-size", "500", "--setting", "b=2")
	require.Equal(t, "changed ratings: stopped\n  batch_size: 2 -> 500\n  settings.b: (none) -> 2\n", edited)
	require.Equal(t, "changed ratings: stopped\n  settings.b: 2 -> (none)\n", c.must(t, "stream", "edit", "ratings", "--unset", "setting.b"))
	require.Equal(t, "ratings: nothing has changed\n", c.must(t, "stream", "edit", "ratings", "--batch-size", "500"))
	c.must(t, "stream", "start", "ratings")
	require.Contains(t, c.must(t, "stream", "edit", "ratings", "--unset", "batch-size"), "changed ratings: running\n  batch_size: 500 -> 1000\n")
	for args, want := range map[[3]string]string{
		{"edit", "ratings", "--topics=more"}:             "--from",
		{"edit", "ratings", "--transform=movies.absent"}: `no function "absent"`,
		{"offsets", "ratings", "--set=1"}:                "graphmill stream stop ratings",
	} {
		refused := c.run(t, "", "stream", args[0], args[1], args[2])
		require.Equal(t, exitFailed, refused.status)
		require.Contains(t, refused.err, want)
	}
	require.Contains(t, c.must(t, "stream", "offsets", "ratings"), "consumer group graphmill.ratings: 1 member\n")
	require.Equal(t, "ratings: running\n", c.must(t, "stream", "start", "--all"), "it runs already")
	for _, change := range []struct{ command, state string }{{"start", "running"}, {"stop", "stopped"}} {
		if change.command == "stop" {
			c.must(t, "stream", "stop", "ratings")
		}
		refused := c.run(t, "", "stream", change.command, "ratings")
		require.Equal(t, exitFailed, refused.status, "as the statement, so that nobody is misled")
		require.Contains(t, refused.err, "is already "+change.state)
		require.Equal(t, "ratings: "+change.state+"\n", c.must(t, "stream", change.command, "ratings", "--if-needed"))
		require.Equal(t, exitFailed, c.run(t, "", "stream", change.command, "absent", "--if-needed").status)
	}
	require.Equal(t, exitUsage, c.run(t, "", "stream", "start", "ratings", "--if-needed", "--batch-limit", "1").status)

	moved := c.must(t, "stream", "offsets", "ratings", "--set", "1", "--partition", "ratings/0")
	require.Regexp(t, `PARTITION +BEFORE +POSITION +FIRST +END +LAG`, moved)
	require.Regexp(t, `ratings/0 +3 +1 +0 +3 +2 +group`, moved)
	require.Equal(t, exitFailed, c.run(t, "", "stream", "offsets", "ratings", "--set", "sometime").status)
	server.stop(t)
}
