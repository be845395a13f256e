package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/api"
	"github.com/graphmill/graphmill/server"
)

func (a *app) streamCheckCommand(c *client) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check NAME",
		Short: "Show the statements that a stream would execute",
		Long: `Reads live messages beside the stream, from where a start would begin, passes them
through the transformation and shows what comes back. Nothing is executed and no
position moves, whether the stream runs or not. The exit status is 1 where a message
fails, and where none comes within --timeout.`,
		Example: `  graphmill stream check ratings
  graphmill stream check ratings --batch-limit 3 --from earliest`,
		Args: takes("NAME"),
	}
	var req api.CheckRequest
	cmd.Flags().IntVar(&req.BatchLimit, "batch-limit", server.DefaultCheckBatches, "batches to show")
	timeout := cmd.Flags().Duration("timeout", server.DefaultCheckTimeout, "how long to wait for them")
	cmd.Flags().StringVar(&req.From, "from", server.DefaultCheckFrom, "where to read from: committed, earliest, latest, or a time in RFC 3339")
	out := a.outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if req.BatchLimit < 1 {
			return wrongUsage("--batch-limit %d is not at least 1", req.BatchLimit)
		}
		if *timeout < time.Millisecond {
			return wrongUsage("--timeout %s is not at least 1ms", *timeout)
		}
		req.TimeoutMS = timeout.Milliseconds()
		var checked api.Checked
		progress := a.startProgress("waiting for messages")
		err := c.call(cmd.Context(), http.MethodPost, apiPath("streams", args[0])+":check", req, &checked)
		progress.stop()
		if err != nil {
			return err
		}
		if err := out.print(checked, func(w io.Writer) error {
			for i, b := range checked.Batches {
				if i > 0 {
					fmt.Fprintln(w)
				}
				fmt.Fprintf(w, "batch %d: %s, %s; nothing was executed\n",
					i+1, count(len(b.RawMessages), "message", "messages"), outcome(len(b.Statements), len(b.Failures)))
				printOutcome(w, b.RawMessages, b.Statements, b.Failures)
			}
			return nil
		}); err != nil {
			return err
		}
		messages, failures := 0, []api.Failure(nil)
		for _, b := range checked.Batches {
			messages += len(b.RawMessages)
			failures = append(failures, b.Failures...)
		}
		return messagesFailed(messages, failures)
	}
	return cmd
}

// messagesFailed is the error of a trial in which not all went well; what failed
// has been shown. nil: all went well.
func messagesFailed(messages int, failures []api.Failure) error {
	if len(failures) == 0 {
		return nil
	}
	for _, f := range failures {
		if f.Message == nil {
			return errors.New("a batch as a whole failed")
		}
	}
	return fmt.Errorf("%d of %s failed", len(failures), count(messages, "message", "messages"))
}

// printOutcome shows each message with what was made of it, in order.
func printOutcome(w io.Writer, messages []api.Message, statements []api.Statement, failures []api.Failure) {
	refs := make([]api.MessageRef, len(messages))
	for i, m := range messages {
		refs[i] = api.MessageRef{Topic: m.Topic, Partition: m.Partition, Offset: int64(i), MessageID: m.MessageID}
		if m.Offset != nil {
			refs[i].Offset = *m.Offset
		}
	}
	made := map[api.MessageRef][]api.Statement{}
	var whole []api.Statement
	for _, s := range statements {
		if s.Message == nil {
			whole = append(whole, s)
		} else {
			made[*s.Message] = append(made[*s.Message], s)
		}
	}
	failed := map[api.MessageRef]api.Failure{}
	for _, f := range failures {
		if f.Message == nil {
			fmt.Fprintf(w, "\nthe batch as a whole failed: %s\n", f.Text)
		} else {
			failed[*f.Message] = f
		}
	}
	for i, m := range messages {
		fmt.Fprintf(w, "\n%s\n", messageText(refs[i], m))
		if f, ok := failed[refs[i]]; ok {
			fmt.Fprintf(w, "    failed: %s\n", f.Text) // and the statement, where it is not allowed
		} else if len(made[refs[i]]) == 0 {
			fmt.Fprintln(w, "    dropped: no statement")
		}
		printStatements(w, made[refs[i]])
	}
	if len(whole) > 0 {
		fmt.Fprintln(w, "\nof the batch as a whole")
		printStatements(w, whole)
	}
}

func printStatements(w io.Writer, statements []api.Statement) {
	for _, s := range statements {
		for l := range strings.Lines(strings.TrimSpace(s.Query)) {
			fmt.Fprintf(w, "    %s\n", strings.TrimRight(l, "\r\n"))
		}
		if p := string(s.Parameters); p != "{}" {
			fmt.Fprintf(w, "        %s\n", p)
		}
	}
}

func messageText(ref api.MessageRef, m api.Message) string {
	var b strings.Builder
	switch {
	case ref.MessageID != graphmill.MessageID{}:
		fmt.Fprintf(&b, "%s message %s", graphmill.TopicPartition{Topic: ref.Topic, Partition: ref.Partition}, ref.MessageID)
	case ref.Topic == "": // given by hand: its place in the file, unless it says
		fmt.Fprintf(&b, "message %d", ref.Offset)
	default:
		fmt.Fprintf(&b, "%s/%d offset %d", ref.Topic, ref.Partition, ref.Offset)
	}
	switch {
	case m.Key != nil:
		fmt.Fprintf(&b, ", key %s", clip(*m.Key, 60))
	case m.KeyBase64 != nil:
		fmt.Fprintf(&b, ", key of bytes %s", clip(*m.KeyBase64, 60))
	}
	switch {
	case m.Payload != nil:
		fmt.Fprintf(&b, ": %s", clip(*m.Payload, 200))
	case m.PayloadBase64 != nil:
		fmt.Fprintf(&b, ": bytes %s", clip(*m.PayloadBase64, 200))
	default:
		b.WriteString(": null (a tombstone)")
	}
	return b.String()
}
