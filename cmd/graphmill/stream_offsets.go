package main

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/api"
)

func (a *app) streamOffsetsCommand(c *client) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "offsets NAME",
		Short: "Show where a stream begins, or set it",
		Long: `Shows the position in each partition, and why it is there. With --set it moves
them, in all partitions or in the one of --partition, while the stream is stopped
or has failed and nobody else is in its consumer group or subscription.

Messages that are left out are not applied; those before the old position are
applied again. A bare integer is an offset, of Pulsar LEDGER:ENTRY:INDEX is a
message id; a time is in RFC 3339.`,
		Example: `  graphmill stream offsets ratings
  graphmill stream offsets ratings --set earliest
  graphmill stream offsets ratings --set 2026-01-31T12:00:00Z

  # go past the message at offset 1199
  graphmill stream offsets ratings --set 1200 --partition ratings/0

  # the same of a Pulsar stream, in partition 3 of a topic, and in one that has none
  graphmill stream offsets clicks --set 12:5:1 --partition persistent://public/default/clicks/3
  graphmill stream offsets clicks --set 12:5:1 --partition persistent://public/default/clicks`,
		Args: takes("NAME"),
	}
	set := cmd.Flags().String("set", "", "where the stream goes on: earliest, latest, a time, an offset, or a message id")
	partition := cmd.Flags().String("partition", "", "the partition to move, as topic/number; of Pulsar the topic alone where it is not partitioned (default all)")
	out := a.outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		only, err := parsePartition(*partition)
		switch {
		case err != nil:
			return err
		case !cmd.Flags().Changed("set") && only != nil:
			return wrongUsage("--partition has a meaning with --set only")
		}
		path := apiPath("streams", args[0], "offsets")
		progress := a.startProgress("asking the broker")
		defer progress.stop()
		var before, after graphmill.OffsetsInfo
		if err := c.call(cmd.Context(), http.MethodGet, path, nil, &before); err != nil {
			return err
		}
		if !cmd.Flags().Changed("set") {
			progress.stop()
			return out.print(before, func(w io.Writer) error {
				printOffsets(w, &before, nil)
				return nil
			})
		}
		if err := c.call(cmd.Context(), http.MethodPut, path, api.SetOffsets{Set: *set, Partition: only}, &after); err != nil {
			return err
		}
		progress.stop()
		return out.print(after, func(w io.Writer) error {
			printOffsets(w, &after, &before)
			return nil
		})
	}
	return cmd
}

// parsePartition reads topic/number, or the name of a topic of Pulsar that is not
// partitioned; "" means none.
func parsePartition(s string) (*graphmill.TopicPartition, error) {
	if s == "" {
		return nil, nil
	}
	if _, name, whole := strings.Cut(s, "://"); whole && strings.Count(name, "/") == 2 || !strings.Contains(s, "/") {
		return &graphmill.TopicPartition{Topic: s, Partition: -1}, nil
	}
	slash := strings.LastIndexByte(s, '/')
	topic, number, ok := s[:max(slash, 0)], s[slash+1:], slash > 0
	n, err := strconv.ParseInt(number, 10, 32)
	if !ok || topic == "" || err != nil || n < 0 {
		return nil, wrongUsage("--partition %q is not of the form topic/number, such as ratings/0; a topic of Pulsar that is not partitioned is named without a number", s)
	}
	return &graphmill.TopicPartition{Topic: topic, Partition: int32(n)}, nil
}

// printOffsets shows positions, and what they were before.
func printOffsets(w io.Writer, info, before *graphmill.OffsetsInfo) {
	was := map[graphmill.TopicPartition]graphmill.PartitionOffsets{}
	ofPulsar := len(info.Partitions) > 0 && info.Partitions[0].LagFrom != ""
	columns := []any{"partition"}
	if before != nil {
		for _, p := range before.Partitions {
			was[p.TopicPartition] = p
		}
		columns = append(columns, "before")
	}
	columns = append(columns, "position")
	if !ofPulsar { // which has no word for its first message
		columns = append(columns, "first")
	}
	t := newTable(w, append(columns, "end", "lag", "known from")...)
	for _, p := range info.Partitions {
		row := []any{p.String()}
		if before != nil {
			old, known := was[p.TopicPartition]
			if !known {
				old.Offset = -1
			}
			row = append(row, placeText(old.Offset, old.MessageID))
		}
		row = append(row, placeText(p.Offset, p.MessageID))
		origin := string(p.Origin)
		if !ofPulsar {
			row = append(row, knownText(p.First))
		} else if p.Origin == graphmill.OriginGroup {
			origin = "subscription"
		}
		t.AppendRow(append(row, placeText(p.End, p.LastMessageID), knownText(p.Lag), origin))
	}
	t.Render()
	group := "consumer group"
	if ofPulsar {
		printLagFrom(w, info.Partitions[0].LagFrom)
		group = "subscription"
	}
	for _, p := range info.Partitions {
		if p.Problem != nil {
			fmt.Fprintf(w, "\n%s: %s: %s\n", p.String(), p.Problem.Code, p.Problem.Text)
			if p.Problem.NextStep != "" {
				fmt.Fprintf(w, "next: %s\n", p.Problem.NextStep)
			}
		}
	}
	fmt.Fprintf(w, "\n%s %s: %s\n", group, info.Group, count(len(info.Members), "member", "members"))
	for _, m := range info.Members {
		fmt.Fprintf(w, "  %s at %s\n", m.ClientID, m.Host)
	}
}

// knownText writes a number, or ? for -1.
func knownText(n int64) string {
	if n < 0 {
		return "?"
	}
	return strconv.FormatInt(n, 10)
}
