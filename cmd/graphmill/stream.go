package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/api"
)

func (a *app) streamCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "stream",
		Aliases: []string{"streams"},
		Short:   "Streams: create, list, show, check, start, stop, drop",
		Long: `A stream reads topics in batches, passes each batch through a transformation and
executes what comes back in the graph. Look at what it would do before it does
it: stream check reads beside the stream and executes nothing.`,
	}
	c := a.clientFlag(cmd)
	cmd.AddCommand(
		a.streamCreateCommand(c),
		a.streamListCommand(c),
		a.streamShowCommand(c),
		a.streamCheckCommand(c),
		a.streamChangeCommand(c, startChange),
		a.streamChangeCommand(c, stopChange),
		a.streamDropCommand(c),
	)
	return cmd
}

func (a *app) streamListCommand(c *client) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List streams and their states",
		Args:    takes(),
	}
	out := a.outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		var streams api.Streams
		if err := c.call(cmd.Context(), http.MethodGet, apiPath("streams"), nil, &streams); err != nil {
			return err
		}
		return out.print(streams.Streams, func(w io.Writer) error {
			if len(streams.Streams) == 0 {
				fmt.Fprintln(w, "no streams; create one: graphmill stream create NAME --topics TOPIC --transform MODULE.FUNCTION")
				return nil
			}
			t := newTable(w, "name", "state", "topics", "transform", "reason")
			for _, s := range streams.Streams {
				reason := ""
				if s.Reason != nil {
					reason = s.Reason.Code + ": " + s.Reason.Text
				}
				t.AppendRow([]any{s.Name, s.State, strings.Join(s.Topics, ","), s.Transform, clip(reason, 80)})
			}
			t.Render()
			return nil
		})
	}
	return cmd
}

// change is starting or stopping: the same command but for its words.
type change struct {
	verb, action, short, long, example string
}

var (
	startChange = change{
		verb: "start", action: ":start",
		short: "Start streams",
		long: `Answers once the start positions are settled: what is produced after the answer
is not missed. Where the broker is not reached in time the stream is waiting, and
starts by itself when it is there.`,
		example: `  graphmill stream start ratings
  graphmill stream start --all`,
	}
	stopChange = change{
		verb: "stop", action: ":stop",
		short: "Stop streams, once the batches under way are in the graph",
		long: `Answers once the batches under way are in the graph and acknowledged. Starting
again goes on exactly there.`,
		example: `  graphmill stream stop ratings
  graphmill stream stop --all`,
	}
)

func (a *app) streamChangeCommand(c *client, ch change) *cobra.Command {
	cmd := &cobra.Command{
		Use:     ch.verb + " NAME... | --all",
		Short:   ch.short,
		Long:    ch.long,
		Example: ch.example,
	}
	all := cmd.Flags().Bool("all", false, "every stream")
	out := a.outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		if *all == (len(names) > 0) {
			return wrongUsage("name the streams to %s, or say --all", ch.verb)
		}
		changed, err := c.change(cmd.Context(), ch, names, *all)
		if err != nil {
			return err
		}
		if err := out.print(changed.Streams, func(w io.Writer) error {
			for _, s := range changed.Streams {
				if s.Error == nil {
					fmt.Fprintf(w, "%s: %s\n", s.Name, s.State)
				}
			}
			return nil
		}); err != nil {
			return err
		}
		return a.reportChanged(changed, ch)
	}
	return cmd
}

// change starts or stops the named streams, or all. One that cannot be does
// not keep the others.
func (c *client) change(ctx context.Context, ch change, names []string, all bool) (api.Changed, error) {
	var changed api.Changed
	if all {
		err := c.call(ctx, http.MethodPost, apiPath("streams")+ch.action, nil, &changed)
		return changed, err
	}
	for _, name := range names {
		var s api.Stream
		err := c.call(ctx, http.MethodPost, apiPath("streams", name)+ch.action, nil, &s)
		one := api.ChangedStream{Name: name, State: s.State}
		if p := asProblem(err); p != nil {
			one.Error = p
		} else if err != nil {
			return changed, err // the server is away: the others would fail too
		}
		changed.Streams = append(changed.Streams, one)
	}
	return changed, nil
}

func (a *app) reportChanged(changed api.Changed, ch change) error {
	failed := false
	for _, s := range changed.Streams {
		switch {
		case s.Error != nil:
			failed = true
			fmt.Fprintf(a.err, "error: %s: %s\n", s.Name, s.Error.Detail)
			if s.Error.NextStep != "" {
				fmt.Fprintf(a.err, "next:  %s\n", s.Error.NextStep)
			}
		case s.State == graphmill.StateFailed:
			failed = true
			fmt.Fprintf(a.err, "error: %s has failed\nnext:  graphmill stream show %s\n", s.Name, s.Name)
		case s.State == graphmill.StateWaiting && ch.verb == startChange.verb:
			fmt.Fprintf(a.err, "%s is waiting and goes on by itself; for what: graphmill stream show %s\n", s.Name, s.Name)
		}
	}
	if failed {
		return &silentError{}
	}
	return nil
}

func (a *app) streamDropCommand(c *client) *cobra.Command {
	return &cobra.Command{
		Use:     "drop NAME",
		Aliases: []string{"rm", "delete"},
		Short:   "Stop a stream and forget its definition",
		Long: `Stops the stream and forgets its definition. The graph stays as it is, and so does
the consumer group: a stream created anew with the same group goes on there.`,
		Args: takes("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := c.call(cmd.Context(), http.MethodDelete, apiPath("streams", args[0]), nil, nil); err != nil {
				return err
			}
			fmt.Fprintf(a.out, "dropped %s\n", args[0])
			return nil
		},
	}
}
