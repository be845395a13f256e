package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/api"
)

// shown is a stream's definition and status together.
type shown struct {
	Definition api.Stream             `json:"definition"`
	Status     graphmill.StreamStatus `json:"status"`
}

func (a *app) streamShowCommand(c *client) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "show NAME",
		Aliases: []string{"status"},
		Short:   "Show what a stream is, what it does, and why",
		Example: `  graphmill stream show ratings --watch
  graphmill stream show ratings -o json | jq '[.status.partitions[].lag] | add'`,
		Args: takes("NAME"),
	}
	watch := cmd.Flags().BoolP("watch", "w", false, "show it again every second until interrupted")
	out := a.outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		if err := a.showStream(ctx, c, out, args[0], *watch && a.onTerminal()); err != nil || !*watch {
			return err
		}
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
				if err := a.showStream(ctx, c, out, args[0], a.onTerminal()); err != nil {
					if ctx.Err() != nil {
						return nil
					}
					return err
				}
			}
		}
	}
	return cmd
}

func (a *app) showStream(ctx context.Context, c *client, out *output, name string, clear bool) error {
	var s shown
	if err := c.call(ctx, http.MethodGet, apiPath("streams", name), nil, &s.Definition); err != nil {
		return err
	}
	if err := c.call(ctx, http.MethodGet, apiPath("streams", name, "status"), nil, &s.Status); err != nil {
		return err
	}
	if clear && out.format == "table" {
		fmt.Fprint(a.out, "\x1b[H\x1b[2J")
	}
	return out.print(s, func(w io.Writer) error {
		if s.Definition.State == graphmill.StateBroken {
			line(w, "name", "%s", s.Definition.Name)
		} else {
			printDefinition(w, &s.Definition)
		}
		printStatus(w, s.Definition.Source, &s.Status, time.Now())
		return nil
	})
}

func line(w io.Writer, name, format string, args ...any) {
	fmt.Fprintf(w, "%-16s %s\n", name+":", fmt.Sprintf(format, args...))
}

func printDefinition(w io.Writer, s *api.Stream) {
	line(w, "name", "%s", s.Name)
	if s.TopicsPattern != "" {
		line(w, "topics pattern", "%s", s.TopicsPattern)
	} else {
		line(w, "topics", "%s", strings.Join(s.Topics, ", "))
	}
	line(w, "transform", "%s", s.Transform)
	line(w, "batch", "%s, %s or %s", count(s.BatchSize, "message", "messages"), sizeText(s.BatchBytes), time.Duration(s.BatchIntervalMS)*time.Millisecond)
	line(w, "delivery", "%s, on failure %s", s.Delivery, s.OnFailure)
	if s.Source == graphmill.SourceNamePulsar {
		line(w, "subscription", "%s (%s), from %s where no position is known", s.Subscription, s.SubscriptionType, s.StartFrom)
	} else {
		line(w, "consumer group", "%s, from %s where no position is known", s.ConsumerGroup, s.StartFrom)
	}
	if len(s.BootstrapServers) > 0 {
		line(w, "brokers", "%s", strings.Join(s.BootstrapServers, ", "))
	}
	if s.ServiceURL != "" {
		line(w, "service url", "%s", s.ServiceURL)
	}
	if s.Database != "" {
		line(w, "database", "%s", s.Database)
	}
	if s.Coalesce == graphmill.CoalesceOff {
		line(w, "coalesce", "off")
	}
	if len(s.Allow) > 0 {
		line(w, "allow", "%s", strings.Join(s.Allow, ", "))
	}
	printEntries(w, "config", s.Configs) // secrets are not among what a server tells
	printEntries(w, "credential", s.Credentials)
	printEntries(w, "setting", s.Settings)
	line(w, "created", "%s", timeText(s.CreatedAt))
}

func printEntries(w io.Writer, name string, entries map[string]string) {
	for _, k := range slices.Sorted(maps.Keys(entries)) {
		line(w, name, "%s = %s", k, clip(strings.Join(strings.Fields(entries[k]), " "), 200)) // a certificate, or a query, may have many lines
	}
}

// agoText says how long ago a moment was, in the largest unit that tells
// something.
func agoText(t, now time.Time) string {
	d := now.Sub(t)
	for _, u := range []struct {
		unit      time.Duration
		one, many string
	}{
		{24 * time.Hour, "day", "days"}, {time.Hour, "hour", "hours"}, {time.Minute, "minute", "minutes"}, {time.Second, "second", "seconds"},
	} {
		if n := int64(d / u.unit); n > 0 {
			return count(n, u.one, u.many) + " ago"
		}
	}
	return "just now" // also where the clocks of server and client differ
}

// whenText is a moment as people ask for it, and as logs tell it.
func whenText(t, now time.Time) string {
	return fmt.Sprintf("%s, %s", agoText(t, now), timeText(t))
}

func printStatus(w io.Writer, source string, st *graphmill.StreamStatus, now time.Time) {
	state := string(st.State)
	if st.Standby {
		state += " (standby: " + standbyText(source) + ")"
	}
	line(w, "state", "%s", state)
	if r := st.Reason; r != nil {
		line(w, "reason", "%s: %s", r.Code, r.Text)
		line(w, "since", "%s", whenText(r.Since, now))
		if r.NextStep != "" {
			line(w, "next step", "%s", r.NextStep)
		}
	}
	if m := st.Module; m != nil {
		line(w, "module", "%s version %d, sha256 %.12s", m.Name, m.Version, m.SHA256)
	}
	if b := st.CurrentBatch; b != nil {
		retry := ""
		if b.NextRetryAt != nil {
			retry = fmt.Sprintf(", tried again in %s", max(0, b.NextRetryAt.Sub(now)).Round(100*time.Millisecond))
		}
		line(w, "current batch", "%s, %s, attempt %d%s; begun %s", count(b.Messages, "message", "messages"), count(b.Statements, "statement", "statements"), b.Attempt, retry, agoText(b.Since, now))
	}
	n := st.Counters
	line(w, "done", "%s in %s, %s sent as %d, %s dropped", count(n.Messages, "message", "messages"), count(n.Batches, "batch", "batches"),
		count(n.Statements, "statement", "statements"), n.StatementsSent, count(n.Dropped, "message", "messages"))
	if n.Since != nil {
		line(w, "counted since", "its last start, %s", whenText(*n.Since, now))
	}
	if st.State == graphmill.StateRunning || st.Rates.MessagesPerSecond1m > 0 {
		line(w, "rate", "%s messages/s over the last 10 s, %s over the last minute", rateText(st.Rates.MessagesPerSecond10s), rateText(st.Rates.MessagesPerSecond1m))
	}
	if n.Retries > 0 || n.Failures > 0 {
		line(w, "trouble", "%s, %s", count(n.Retries, "retry", "retries"), count(n.Failures, "failed batch", "failed batches"))
	}
	if n.Splits > 0 {
		line(w, "too big", "%s cut in two", count(n.Splits, "batch", "batches"))
	}
	if n.UnknownCommits > 0 {
		line(w, "unknown commits", "%d: batches that may be in the graph twice", n.UnknownCommits)
	}
	if st.BatchSize > 0 {
		line(w, "batch size", "%s for now, since a batch was too big", count(st.BatchSize, "message", "messages"))
	}
	if f := st.LastFailure; f != nil {
		line(w, "last failure", "%s: %s", f.Code, f.Text)
		line(w, "failed", "%s", whenText(f.At, now))
		switch {
		case f.Message == nil:
		case f.Offset != nil:
			line(w, "look first at", "%s offset %d", f.Message, *f.Offset)
		case f.MessageID != nil:
			line(w, "look first at", "%s message %s", f.Message, f.MessageID)
		}
	}
	printPartitions(w, st.Partitions)
	printTexts(w, st.Texts)
}

func printPartitions(w io.Writer, partitions []graphmill.PartitionStatus) {
	if len(partitions) == 0 {
		return
	}
	fmt.Fprintln(w)
	t := newTable(w, "partition", "position", "end", "lag", "lane")
	for _, p := range partitions {
		t.AppendRow([]any{p.String(), placeText(p.Acknowledged, p.MessageID), placeText(p.End, p.LastMessageID), knownText(p.Lag), knownText(int64(p.Lane))})
	}
	t.Render()
	printLagFrom(w, partitions[0].LagFrom)
	told := map[string]bool{}
	for _, p := range partitions {
		if p.Notice != "" && !told[p.Notice] { // that of its other partitions is the same
			told[p.Notice] = true
			fmt.Fprintf(w, "note: %s\n", p.Notice)
		}
	}
}

// standbyText says why a running stream reads nothing. Brokers of Pulsar that wait no
// time with a failover tell nobody that it has a partition, before a message comes.
func standbyText(source string) string {
	if source == graphmill.SourceNamePulsar {
		return "no partition is known to be this server's; another one has them, or nothing has come yet"
	}
	return "another server of the group has all partitions"
}

// placeText is a place in a partition: an offset, or a message id of Pulsar.
func placeText(offset int64, id graphmill.MessageID) string {
	if id != (graphmill.MessageID{}) {
		return id.String()
	}
	return knownText(offset)
}

// printLagFrom says what the lag of a Pulsar stream counts, and who tells it.
func printLagFrom(w io.Writer, from string) {
	switch from {
	case graphmill.LagFromAdmin:
		fmt.Fprintln(w, "lag in entries, of which one may hold a batch of a producer; the broker's own backlog")
	case graphmill.LagFromClient:
		fmt.Fprintln(w, "lag in entries, of which one may hold a batch of a producer; reckoned of message ids, for the broker's own set --pulsar-admin-url")
	}
}

// rateText writes a rate with the digits that tell something.
func rateText(perSecond float64) string {
	if perSecond < 10 {
		return strconv.FormatFloat(perSecond, 'f', 1, 64)
	}
	return strconv.FormatFloat(perSecond, 'f', 0, 64)
}

func printTexts(w io.Writer, texts []graphmill.TextStatus) {
	if len(texts) == 0 {
		return
	}
	fmt.Fprintln(w)
	t := newTable(w, "query", "sent", "why")
	for _, x := range texts {
		t.AppendRow([]any{clip(strings.Join(strings.Fields(x.Query), " "), 72), x.Form, cmp.Or(x.Why, "")})
	}
	t.Render()
}
