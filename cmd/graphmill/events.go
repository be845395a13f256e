package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/graphmill/graphmill"
)

const (
	eventsType = "text/event-stream"

	// silentFor is how long a server may say nothing, which sends a comment every
	// 15 s, until the connection is taken for dead.
	silentFor = 45 * time.Second

	// comeBackAfter is the pause between attempts to go on.
	comeBackAfter = 2 * time.Second

	maxEventLine = 4 << 20 // bytes
)

func (a *app) eventsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "events",
		Short: "Follow what happens to the streams",
		Long: `Prints changes of state with their reasons, what the batches did (summed up once a
second), failures, new versions of modules and warnings, as they happen, until it is
interrupted. Where the connection is lost it comes back and goes on behind what it
has printed; what is missing is told.`,
		Example: `  graphmill events --stream ratings
  graphmill events --types state,failure -o json | jq .`,
		Args: takes(),
	}
	c := a.clientFlag(cmd)
	var stream, format string
	var types []string
	var all []string
	for _, t := range graphmill.EventTypes {
		all = append(all, string(t))
	}
	cmd.Flags().StringVar(&stream, "stream", "", "only of this stream")
	a.completesFlag(cmd, c, "stream", streamNames)
	cmd.Flags().StringSliceVar(&types, "types", nil, "only of these types: "+strings.Join(all, ", "))
	cmd.Flags().VarP(newOneOf(&format, "table", "json"), "output", "o", "how to print: for people, or a JSON object a line")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		query := url.Values{}
		if stream != "" {
			query.Set("stream", stream)
		}
		if len(types) > 0 {
			query.Set("types", strings.Join(types, ","))
		}
		path := apiPath("events")
		if len(query) > 0 {
			path += "?" + query.Encode()
		}
		f := follower{c: c, path: path, note: plainText{a.err}, print: printEvents(a.out, format)}
		err := f.follow(cmd.Context())
		if cmd.Context().Err() != nil {
			return nil // that is how it ends
		}
		return err
	}
	return cmd
}

// follower reads events, and comes back where the connection is lost.
type follower struct {
	c     *client
	path  string
	note  io.Writer // for what people should know of the connection
	print func(*graphmill.Event) error

	last string // id of the last event that was printed
}

// follow returns when ctx ends, when the first connection cannot be made, when
// the server refuses for good, or when nothing can be printed.
func (f *follower) follow(ctx context.Context) error {
	for attempt := 0; ; attempt++ {
		err := f.read(ctx)
		var gone *lostConnection
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &gone):
			fmt.Fprintf(f.note, "the connection is lost (%s); coming back\n", gone.why)
			attempt = 0
		case f.last == "" && attempt == 0, !passes(err):
			return err
		}
		timer := time.NewTimer(comeBackAfter)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

// passes says whether a refused attempt to come back may be accepted later: the
// server may be starting.
func passes(err error) bool {
	if p := asProblem(err); p != nil {
		return p.Status == http.StatusServiceUnavailable
	}
	return graphmill.KindOf(err) == graphmill.KindUnavailable
}

// lostConnection says that events had come, and come no longer.
type lostConnection struct{ why string }

func (l *lostConnection) Error() string { return "the connection is lost: " + l.why }

// read prints the events of one connection.
func (f *follower) read(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	silence := time.AfterFunc(silentFor, cancel)
	defer silence.Stop()
	header := http.Header{"Accept": {eventsType}}
	if f.last != "" {
		header.Set("Last-Event-ID", f.last)
	}
	resp, err := f.c.open(ctx, f.path, eventsType, header)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, maxEventLine)
	for lines.Scan() {
		silence.Reset(silentFor)
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue // the id and the type stand in the data, too
		}
		var e graphmill.Event
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			return fmt.Errorf("read an event: %w", err)
		}
		if err := f.print(&e); err != nil {
			return fmt.Errorf("write the output: %w", rootCause(err))
		}
		if e.ID != "" {
			f.last = e.ID
		}
	}
	switch {
	case lines.Err() == nil:
		return &lostConnection{"the server has closed it"}
	case ctx.Err() != nil:
		return &lostConnection{fmt.Sprintf("nothing has come for %s", silentFor)}
	}
	return &lostConnection{rootCause(lines.Err()).Error()}
}

// printEvents returns what prints one event.
func printEvents(w io.Writer, format string) func(*graphmill.Event) error {
	if format == "json" {
		enc := json.NewEncoder(w)
		enc.SetEscapeHTML(false)
		return func(e *graphmill.Event) error { return enc.Encode(e) }
	}
	plain := plainText{w}
	return func(e *graphmill.Event) error {
		text := strings.ReplaceAll(eventText(e), "\n", " ")
		_, err := fmt.Fprintf(plain, "%s  %-20s %s\n", e.At.Local().Format(time.TimeOnly), e.Stream, text)
		return err
	}
}

// eventText tells an event in a line.
func eventText(e *graphmill.Event) string {
	switch {
	case e.State != nil:
		text := string(e.State.State)
		if r := e.State.Reason; r != nil {
			text += fmt.Sprintf(": %s: %s", r.Code, r.Text)
			if r.NextStep != "" {
				text += " (next: " + r.NextStep + ")"
			}
		}
		return text
	case e.Batches != nil:
		b := e.Batches
		return fmt.Sprintf("%s, %s, %s", count(b.Batches, "batch", "batches"), count(b.Messages, "message", "messages"), count(b.Statements, "statement", "statements"))
	case e.Failure != nil:
		text := fmt.Sprintf("failure: %s: %s", e.Failure.Code, e.Failure.Text)
		switch m := e.Failure.Message; {
		case m == nil:
		case e.Failure.Offset != nil:
			text += fmt.Sprintf(" (message %s@%d)", m, *e.Failure.Offset)
		case e.Failure.MessageID != nil:
			text += fmt.Sprintf(" (message %s@%s)", m, e.Failure.MessageID)
		}
		return text
	case e.Module != nil:
		return fmt.Sprintf("module %s version %d from here on", e.Module.Name, e.Module.Version)
	case e.Lagged != nil && e.Lagged.Lost < 0:
		return "events are missing here: the server has been restarted, or remembers less"
	case e.Lagged != nil:
		return count(e.Lagged.Lost, "event is", "events are") + " missing here"
	case e.Type == graphmill.EventWarning:
		return "warning: " + e.Text
	}
	return string(e.Type) // of a newer server
}
