package main

import (
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/graphmill/graphmill/api"
)

func (a *app) streamCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "stream",
		Aliases: []string{"streams"},
		Short:   "Streams: create, list, show, check, start, stop, edit, offsets, drop",
		Long: `A stream reads topics in batches, passes each batch through a transformation and
executes what comes back in the graph. Look at what it would do before it does
it: stream check reads beside the stream and executes nothing.`,
	}
	c := a.clientFlag(cmd)
	one := func(cmd *cobra.Command) *cobra.Command {
		return a.completes(cmd, c, streamNames, 1, cobra.ShellCompDirectiveNoFileComp)
	}
	many := func(cmd *cobra.Command) *cobra.Command {
		return a.completes(cmd, c, streamNames, math.MaxInt, cobra.ShellCompDirectiveNoFileComp)
	}
	create, edit := a.streamCreateCommand(c), one(a.streamEditCommand(c))
	a.completesFlag(create, c, "transform", transformationNames)
	a.completesFlag(edit, c, "transform", transformationNames)
	cmd.AddCommand(
		create,
		a.streamListCommand(c),
		one(a.streamShowCommand(c)),
		one(a.streamCheckCommand(c)),
		many(a.streamStartCommand(c)),
		many(a.streamStopCommand(c)),
		edit,
		one(a.streamOffsetsCommand(c)),
		one(a.streamDropCommand(c)),
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
		streams, err := c.streams(cmd.Context())
		if err != nil {
			return err
		}
		return out.print(streams, func(w io.Writer) error {
			if len(streams) == 0 {
				fmt.Fprintln(w, "no streams; create one: graphmill stream create NAME --topics TOPIC --transform MODULE.FUNCTION")
				return nil
			}
			t := newTable(w, "name", "source", "state", "topics", "transform", "reason")
			for _, s := range streams {
				reason := ""
				if s.Reason != nil {
					reason = s.Reason.Code + ": " + s.Reason.Text
				}
				t.AppendRow([]any{s.Name, s.Source, s.State, topicsText(&s.StreamDefinition, ","), s.Transform, clip(reason, 80)})
			}
			t.Render()
			return nil
		})
	}
	return cmd
}

func (a *app) streamDropCommand(c *client) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "drop NAME",
		Aliases: []string{"rm", "delete"},
		Short:   "Stop a stream and forget its definition",
		Long: `Stops the stream and forgets its definition. The graph stays as it is, and so does
the consumer group, or the subscription: a stream created anew with the same one
goes on there.

Pulsar keeps messages for a subscription as long as there is one. --unsubscribe ends
it with the stream, unless another stream reads by it or a consumer is connected to
it. One that was kept is ended by: pulsar-admin topics unsubscribe -s NAME TOPIC`,
		Example: `  graphmill stream drop ratings
  graphmill stream drop clicks --unsubscribe      # of Pulsar: its subscription, too`,
		Args: takes("NAME"),
	}
	unsubscribe := cmd.Flags().Bool("unsubscribe", false, "end the subscription of a Pulsar stream, too: its position is lost, and no more messages are kept for it")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		path := apiPath("streams", args[0])
		if *unsubscribe {
			path += "?unsubscribe=true"
		}
		var dropped api.Dropped
		if err := c.call(cmd.Context(), http.MethodDelete, path, nil, &dropped); err != nil {
			return err
		}
		for _, n := range dropped.Notices {
			fmt.Fprintf(a.err, "note: %s\n", n)
		}
		fmt.Fprintf(a.out, "dropped %s\n", args[0])
		return nil
	}
	return cmd
}

// topicsText lists what a stream reads: topics, or a pattern of them.
func topicsText(s *api.StreamDefinition, separator string) string {
	if s.TopicsPattern != "" {
		return s.TopicsPattern
	}
	return strings.Join(s.Topics, separator)
}
