package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/graphmill/graphmill"
)

const (
	lagLimit    = 3 * time.Minute
	checkLines  = 14 // of the output of stream check; one batch is 1,000 messages
	reportEvery = 2000
)

// graphmill runs a command of the program as a user would, and shows both the
// command and what it prints.
func (d *demo) graphmill(ctx context.Context, args ...string) error {
	d.show(args)
	out, err := d.capture(ctx, nil, args...)
	d.say("%s", indent(out))
	return err
}

func (d *demo) show(args []string) {
	quoted := make([]string, len(args))
	for i, a := range args {
		quoted[i] = a
		if strings.ContainsAny(a, " ${}()'") {
			quoted[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
	}
	d.say("$ bin/graphmill %s", strings.Join(quoted, " "))
}

// capture runs a command and returns what it printed. A command that fails
// prints why; that is in the error too.
func (d *demo) capture(ctx context.Context, in io.Reader, args ...string) (string, error) {
	cmd := command(ctx, filepath.Join(d.root, "bin", "graphmill"), args...)
	cmd.Dir = d.root
	cmd.Env = append(environment(), "GRAPHMILL_SERVER=http://"+d.server.address, "GRAPHMILL_KAFKA_BOOTSTRAP_SERVERS="+d.broker.address)
	cmd.Stdin = in
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if ctx.Err() != nil {
		return stdout.String(), ctx.Err()
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("graphmill %s: %s", strings.Join(args[:min(2, len(args))], " "), strings.TrimPrefix(strings.TrimSpace(stderr.String()), "error: "))
	}
	return stdout.String(), err
}

// produce pipes the ratings into "graphmill produce", which also creates the
// topic. The key is the movie's id, so the ratings of a movie keep their order.
func (d *demo) produce(ctx context.Context) error {
	args := []string{"produce", topic, "--key-separator", ":", "--partitions", fmt.Sprint(partitions)}
	d.say("  each is a line such as  %s", ratingAt(0).line())
	d.show(args)
	begin := time.Now()
	r, w := io.Pipe()
	written := make(chan error, 1)
	go func() {
		err := writeRatings(w, ratings, func(n int64) { d.say("  %s of %s", thousands(n), thousands(ratings)) })
		written <- err
		_ = w.CloseWithError(err) // a pipe in the process: it cannot fail
	}()
	out, err := d.capture(ctx, r, args...)
	_ = r.CloseWithError(io.ErrClosedPipe) // so that the writer ends where the command did not read on
	if writeErr := <-written; err == nil && writeErr != nil {
		err = fmt.Errorf("write the ratings: %w", writeErr)
	}
	if err != nil {
		return err
	}
	d.say("%s  done in %s", indentLine(out), seconds(begin))
	return nil
}

func (d *demo) createAndCheck(ctx context.Context) error {
	if err := d.graphmill(ctx, "stream", "create", streamName, "--topics", topic, "--transform", "movies.transform", "--start-from", "earliest"); err != nil {
		return err
	}
	args := []string{"stream", "check", streamName}
	d.show(args)
	out, err := d.capture(ctx, nil, args...)
	if err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	more := len(lines) - checkLines
	d.say("%s", indent(strings.Join(lines[:min(checkLines, len(lines))], "\n")))
	if more > 0 {
		d.say("  ... and %s lines more; nothing has been executed or acknowledged", thousands(int64(more)))
	}
	return nil
}

// awaitNoLag polls the stream's status until all that was produced is
// acknowledged.
func (d *demo) awaitNoLag(ctx context.Context) error {
	begin := time.Now()
	limited, cancel := context.WithTimeout(ctx, lagLimit)
	defer cancel()
	poll := time.NewTicker(pollInterval)
	defer poll.Stop()
	last := int64(-1)
	for {
		out, err := d.capture(limited, nil, "stream", "show", streamName, "-o", "json")
		if err != nil {
			return d.lagError(ctx, err)
		}
		var shown struct {
			Status graphmill.StreamStatus `json:"status"`
		}
		if err := json.Unmarshal([]byte(out), &shown); err != nil {
			return fmt.Errorf("read the answer of graphmill stream show: %w", err)
		}
		st := shown.Status
		if done := st.Counters.Messages; done != last {
			d.say("  %s of %s messages are in %s (%s)", thousands(done), thousands(ratings), d.graph.name(), seconds(begin))
			last = done
		}
		switch {
		case st.State == graphmill.StateFailed:
			return fmt.Errorf("the stream has failed: %s", reasonText(st.Reason))
		case caughtUp(st):
			d.say("  lag is 0")
			return nil
		}
		select {
		case <-limited.Done():
			return d.lagError(ctx, fmt.Errorf("the stream is %s: %s", st.State, reasonText(st.Reason)))
		case <-poll.C:
		}
	}
}

// lagError tells an end of waiting by the user from one by the limit.
func (d *demo) lagError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = errors.New("graphmill did not answer")
	}
	return fmt.Errorf("wait until the lag is 0, for at most %s: %w", lagLimit, err)
}

// caughtUp says whether all partitions are known and none has a message left.
func caughtUp(st graphmill.StreamStatus) bool {
	if len(st.Partitions) < partitions || st.Counters.Messages < ratings {
		return false
	}
	for _, p := range st.Partitions {
		if p.Lag != 0 {
			return false
		}
	}
	return true
}

func reasonText(r *graphmill.Reason) string {
	if r == nil {
		return "no reason is known"
	}
	text := r.Code + ": " + r.Text
	if r.NextStep != "" {
		text += " (" + r.NextStep + ")"
	}
	return text
}

// indent sets what a command has printed off from the demo's own words.
func indent(s string) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	for i, l := range lines {
		if l != "" {
			lines[i] = "  " + l
		}
	}
	return strings.Join(lines, "\n")
}

func indentLine(s string) string { return indent(s) + "\n" }
