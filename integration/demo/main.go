// Demo shows the whole of Graphmill's main job in a minute: it builds the
// program, starts a broker and a database, produces ratings, and lets a stream
// turn them into a graph. Run it with "make demo" in the repository's root.
//
// It uses the real things where it finds them, and says what it uses and why:
// the database of GRAPHMILL_GRAPH_URI, or a Neo4j in Docker, or a Neo4j by Java
// and Maven; where there is none of these, statements are recorded in a file.
// With DEMO_ONCE=1 it ends by itself; else it goes on for trying things, until it
// is interrupted. Whatever it has started, it ends.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	ratings    = 10_000
	topic      = "ratings"
	partitions = 3
	streamName = "ratings"

	buildReport = 5 * time.Second
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Stdout, os.Getenv("DEMO_ONCE") == "1"))
}

// run returns the status of the program. All that it has started has ended when
// it returns.
func run(ctx context.Context, out io.Writer, once bool) int {
	d := &demo{out: out, once: once}
	err := d.run(ctx)
	interrupted := err != nil && ctx.Err() != nil // once all is shown, an interrupt is the way to end
	err = errors.Join(err, d.cleanUp(err != nil && !interrupted))
	switch {
	case interrupted:
		d.say("\nInterrupted. All that was started has been stopped and removed.")
		return 130
	case err != nil:
		d.say("\nThe demo failed: %v", err)
		if d.dir != "" {
			d.say("The logs are in %s: graphmill.log, and those of the servers beside it.", d.dir)
		}
		return 1
	}
	d.say("\nAll that was started has been stopped and removed.")
	return 0
}

// demo is one run: what it has found and started.
type demo struct {
	out  io.Writer
	once bool

	root     string // of the repository
	dir      string // of this run: data and logs
	cleanups []func() error

	broker broker
	graph  graph
	server *server
}

func (d *demo) run(ctx context.Context) error {
	if err := d.prepare(); err != nil {
		return err
	}
	d.step("Building bin/graphmill and the plugins in bin/plugins")
	if err := d.build(ctx); err != nil {
		return err
	}

	d.step("Starting a broker")
	if err := d.startBroker(ctx); err != nil {
		return err
	}
	d.step("Starting a database")
	if err := d.startGraph(ctx); err != nil {
		return err
	}
	if err := d.addConstraints(ctx); err != nil {
		return err
	}
	d.step("Starting Graphmill")
	if err := d.startServer(ctx); err != nil {
		return err
	}

	d.step("Pushing the transformation: a plugin compiled to WebAssembly")
	if err := d.graphmill(ctx, "module", "push", "movies", "bin/plugins/movies.wasm"); err != nil {
		return err
	}
	d.step("Producing %s ratings", thousands(ratings))
	if err := d.produce(ctx); err != nil {
		return err
	}
	d.step("Creating a stream, and looking at the statements that it would execute")
	if err := d.createAndCheck(ctx); err != nil {
		return err
	}
	d.step("Starting the stream")
	if err := d.graphmill(ctx, "stream", "start", streamName); err != nil {
		return err
	}
	if err := d.awaitNoLag(ctx); err != nil {
		return err
	}
	d.step("Asking %s what it holds now", d.graph.name())
	if err := d.count(ctx); err != nil {
		return err
	}
	d.suggest()
	if d.once {
		return nil
	}
	d.say("\nAll of it goes on until you press Ctrl-C here.")
	select {
	case <-ctx.Done():
		return nil
	case <-d.server.ended:
		return fmt.Errorf("graphmill ended by itself: %w", d.server.endError())
	}
}

// prepare finds the repository and makes the directory of this run.
func (d *demo) prepare() error {
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(root, "cmd", "graphmill")); err != nil {
		return fmt.Errorf("%s is not the root of Graphmill's repository: run make demo there", root)
	}
	d.root = root
	if d.dir, err = os.MkdirTemp("", "graphmill-demo-"); err != nil {
		return err
	}
	return nil
}

// build makes the program and its plugins as the Makefile says. The compiler has
// much to do the first time, so there is a sign of life.
func (d *demo) build(ctx context.Context) error {
	begin := time.Now()
	cmd := command(ctx, "make", "--no-print-directory", "build", "plugins")
	cmd.Dir = d.root
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("make build plugins: %w", err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	alive := time.NewTicker(buildReport)
	defer alive.Stop()
	for {
		select {
		case err := <-done:
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				return fmt.Errorf("make build plugins: %w\n%s", err, strings.TrimSpace(out.String()))
			}
			d.say("  done in %s", seconds(begin))
			return nil
		case <-alive.C:
			d.say("  compiling (%s)", time.Since(begin).Round(time.Second))
		}
	}
}

// onEnd registers what cleanUp has to do; the last comes first.
func (d *demo) onEnd(f func() error) { d.cleanups = append(d.cleanups, f) }

// cleanUp ends all that was started. The directory with the logs is kept after a
// failure.
func (d *demo) cleanUp(keepLogs bool) error {
	var errs []error
	for i := len(d.cleanups) - 1; i >= 0; i-- {
		errs = append(errs, d.cleanups[i]())
	}
	if d.dir == "" {
		return errors.Join(errs...)
	}
	if !keepLogs {
		errs = append(errs, os.RemoveAll(d.dir))
		d.dir = ""
	} else if os.Remove(d.dir) == nil { // it was empty: nothing had been started
		d.dir = ""
	}
	return errors.Join(errs...)
}

// command is a command that ends with ctx. It has a process group of its own, so
// that an interrupt from the terminal reaches this program alone, which then ends
// things in order.
func command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// say writes a line. Where even that fails there is nobody to tell.
func (d *demo) say(format string, args ...any) { _, _ = fmt.Fprintf(d.out, format+"\n", args...) }

func (d *demo) step(format string, args ...any) { d.say("\n== "+format, args...) }

func seconds(begin time.Time) string { return time.Since(begin).Round(100 * time.Millisecond).String() }

// thousands writes a number for people: 10,000.
func thousands(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
