package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/api"
)

// changedStream is what became of a stream that was started or stopped.
type changedStream struct {
	api.ChangedStream
	Committed *api.Committed `json:"committed,omitempty"` // by a start with a batch limit
}

func (a *app) streamStartCommand(c *client) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "start NAME... | --all",
		Short: "Start streams",
		Long: `Answers once the start positions are settled: what is produced after the answer
is not missed. Where the broker is not reached in time the stream is waiting, and
starts by itself when it is there. A stream that runs already is an error; with
--if-needed it is left as it is, as by --all.

With --batch-limit so many batches are applied, and the stream is stopped again.
When --timeout is over it stops after the batch that is being executed, and the
error tells what was committed.`,
		Example: `  graphmill stream start ratings
  graphmill stream start --all
  graphmill stream start ratings --if-needed      # in a script that may run twice
  graphmill stream start ratings --batch-limit 10 --timeout 1m
  graphmill stream start ratings --accept lost=earliest`,
	}
	all := cmd.Flags().Bool("all", false, "every stream")
	var body api.StartStream
	cmd.Flags().IntVar(&body.BatchLimit, "batch-limit", 0, "apply so many batches, and stop again (default no limit)")
	timeout := cmd.Flags().Duration("timeout", 0, "how long the batches of --batch-limit may take (default 30s)")
	cmd.Flags().StringSliceVar(&body.Accept, "accept", nil, "go on although a position is gone: recreated (a topic that was created anew, from its beginning), lost=earliest or lost=latest (in place of a position that the broker no longer has)")
	ifNeeded := cmd.Flags().Bool("if-needed", false, "leave streams as they are that run already")
	out := a.outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		limited := cmd.Flags().Changed("batch-limit")
		body.TimeoutMS = timeout.Milliseconds()
		switch {
		case *all == (len(names) > 0):
			return wrongUsage("name the streams to start, or say --all")
		case *all && limited:
			return &usageError{
				text: "--batch-limit goes with names, not with --all: a start with a limit is answered when its batches are done, for one stream at a time",
				next: "name the streams: graphmill stream start NAME... --batch-limit " + cmd.Flags().Lookup("batch-limit").Value.String(),
			}
		case *all && len(body.Accept) > 0:
			return &usageError{
				text: "--accept goes with names, not with --all: it gives up messages or reads them again, which is to be said for each stream",
				next: "see which streams have lost their position (graphmill stream list), and name them: graphmill stream start NAME... --accept " + strings.Join(body.Accept, ","),
			}
		case *ifNeeded && limited:
			return wrongUsage("--if-needed has no meaning with --batch-limit: a stream that runs already has no such limit")
		case limited && body.BatchLimit < 1:
			return wrongUsage("--batch-limit %d is not at least 1", body.BatchLimit)
		case !limited && cmd.Flags().Changed("timeout"):
			return wrongUsage("--timeout has a meaning with --batch-limit only")
		case cmd.Flags().Changed("timeout") && *timeout < time.Millisecond:
			return wrongUsage("--timeout %s is not at least 1ms", *timeout)
		}
		changed, err := a.eachStream(cmd.Context(), c, names, *all, ":start", func(ctx context.Context, name string) (changedStream, error) {
			stop := a.startingProgress(ctx, c, name, body.BatchLimit)
			defer stop()
			var s api.StartedStream
			err := c.call(ctx, http.MethodPost, apiPath("streams", name)+":start", body, &s)
			if *ifNeeded && isCode(err, "already_running") {
				err = c.call(ctx, http.MethodGet, apiPath("streams", name), nil, &s.Stream)
			}
			return changedStream{ChangedStream: api.ChangedStream{Name: name, State: s.State}, Committed: s.Committed}, err
		})
		if err != nil {
			return err
		}
		return a.printChanged(out, changed, true)
	}
	return cmd
}

func (a *app) streamStopCommand(c *client) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "stop NAME... | --all",
		Short: "Stop streams, once the batches under way are in the graph",
		Long: `Answers once the batches under way are in the graph and acknowledged. Starting
again goes on exactly there. A stream that is stopped already is an error; with
--if-needed it is left as it is, as by --all.`,
		Example: `  graphmill stream stop ratings
  graphmill stream stop ratings --if-needed       # in a script that may run twice
  graphmill stream stop --all`,
	}
	all := cmd.Flags().Bool("all", false, "every stream")
	ifNeeded := cmd.Flags().Bool("if-needed", false, "leave streams as they are that are stopped already")
	out := a.outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		if *all == (len(names) > 0) {
			return wrongUsage("name the streams to stop, or say --all")
		}
		changed, err := a.eachStream(cmd.Context(), c, names, *all, ":stop", func(ctx context.Context, name string) (changedStream, error) {
			progress := a.startProgress("stopping " + name + ": the batches under way are finished")
			defer progress.stop()
			var s api.Stream
			err := c.call(ctx, http.MethodPost, apiPath("streams", name)+":stop", nil, &s)
			if *ifNeeded && isCode(err, "already_stopped") {
				err = c.call(ctx, http.MethodGet, apiPath("streams", name), nil, &s)
			}
			return changedStream{ChangedStream: api.ChangedStream{Name: name, State: s.State}}, err
		})
		if err != nil {
			return err
		}
		return a.printChanged(out, changed, false)
	}
	return cmd
}

// isCode says whether a server has refused something with this code.
func isCode(err error, code string) bool {
	p := asProblem(err)
	return p != nil && p.Code == code
}

// eachStream does something with the named streams one by one, or an action with
// all. One that cannot be does not keep the others.
func (a *app) eachStream(ctx context.Context, c *client, names []string, all bool, action string, do func(context.Context, string) (changedStream, error)) ([]changedStream, error) {
	changed := []changedStream{}
	if all {
		progress := a.startProgress("waiting for all streams")
		defer progress.stop()
		var answer api.Changed
		err := c.call(ctx, http.MethodPost, apiPath("streams")+action, nil, &answer)
		for _, s := range answer.Streams {
			changed = append(changed, changedStream{ChangedStream: s})
		}
		return changed, err
	}
	for _, name := range names {
		one, err := do(ctx, name)
		if p := asProblem(err); p != nil {
			one.Error = p
		} else if err != nil {
			return changed, err // the server is away: the others would fail too
		}
		changed = append(changed, one)
	}
	return changed, nil
}

// startingProgress tells how far a start is, on a terminal.
func (a *app) startingProgress(ctx context.Context, c *client, name string, limit int) (stop func()) {
	progress := a.startProgress("starting " + name)
	if limit == 0 || !progress.shown() {
		return progress.stop
	}
	ctx, cancel := context.WithCancel(ctx)
	var done atomic.Pointer[graphmill.Counters]
	progress.say(func() string {
		n := done.Load()
		if n == nil {
			return "starting " + name
		}
		return fmt.Sprintf("%s: %d of %s, %s", name, n.Batches, count(limit, "batch", "batches"), count(n.Messages, "message", "messages"))
	})
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			var st graphmill.StreamStatus
			if c.call(ctx, http.MethodGet, apiPath("streams", name, "status"), nil, &st) == nil {
				done.Store(&st.Counters)
			}
		}
	}()
	return func() {
		cancel()
		<-asked
		progress.stop()
	}
}

// printChanged shows what became of each stream, and fails where one could not be
// changed.
func (a *app) printChanged(out *output, changed []changedStream, started bool) error {
	if err := out.print(changed, func(w io.Writer) error {
		for _, s := range changed {
			if s.Error != nil {
				continue
			}
			fmt.Fprintf(w, "%s: %s%s\n", s.Name, s.State, committedText(s.Committed))
		}
		return nil
	}); err != nil {
		return err
	}
	failed := false
	for _, s := range changed {
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
		case s.State == graphmill.StateWaiting && started:
			fmt.Fprintf(a.err, "%s is waiting and goes on by itself; for what: graphmill stream show %s\n", s.Name, s.Name)
		}
	}
	if failed {
		return &silentError{}
	}
	return nil
}

// committedText tells what a start with a batch limit has applied.
func committedText(c *api.Committed) string {
	if c == nil {
		return ""
	}
	return fmt.Sprintf("; %s of %s applied, %s executed", count(c.Batches, "batch", "batches"), count(c.Messages, "message", "messages"), count(c.Statements, "statement", "statements"))
}
