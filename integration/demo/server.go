package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	readyLimit = time.Minute
	stopLimit  = 45 * time.Second // longer than the server's own --drain-timeout
)

// server is a running "graphmill serve" or "graphmill dev".
type server struct {
	address string // host:port of the API
	port    int
	logFile string

	cmd   *exec.Cmd
	ended chan struct{} // closed once it has ended
	err   error         // how; to be read once ended is closed
}

// defaultPort is that of graphmill serve: with it the commands of the demo need
// no address.
const defaultPort = 7480

func (d *demo) startServer(ctx context.Context) error {
	port, err := freePort(defaultPort)
	if err != nil {
		return err
	}
	s := &server{address: fmt.Sprintf("127.0.0.1:%d", port), port: port, logFile: filepath.Join(d.dir, "graphmill.log"), ended: make(chan struct{})}
	args := []string{"serve", "--kafka-bootstrap-servers", d.broker.address}
	if d.broker.embedded {
		args = []string{"dev", "--dev-kafka-listen", d.broker.address}
	}
	args = append(args, "--listen", s.address, "--data-dir", filepath.Join(d.dir, "data"))
	args = append(args, d.graph.flags()...)
	d.say("$ bin/graphmill %s", strings.Join(args, " "))

	log, err := os.Create(s.logFile)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the server has a copy of its own
	// Not bound to ctx: the server is stopped in order, by cleanUp.
	s.cmd = command(context.WithoutCancel(ctx), filepath.Join(d.root, "bin", "graphmill"), args...)
	s.cmd.Dir = d.dir // no graphmill.yaml of the user's is there
	s.cmd.Env = environment()
	s.cmd.Stdout, s.cmd.Stderr = log, log
	if err := s.cmd.Start(); err != nil {
		return fmt.Errorf("start graphmill: %w", err)
	}
	go func() { // ends with the server, which cleanUp waits for
		s.err = s.cmd.Wait()
		close(s.ended)
	}()
	d.server = s
	d.onEnd(s.stop)
	if err := s.awaitReady(ctx); err != nil {
		return err
	}
	d.say("  ready at http://%s, its log in %s", s.address, s.logFile)
	return nil
}

func (s *server) awaitReady(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	poll := time.NewTicker(pollInterval / 5)
	defer poll.Stop()
	for {
		select {
		case <-s.ended:
			return s.endError()
		case <-limited.Done():
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fmt.Errorf("graphmill is not ready after %s; the end of its log:\n%s", readyLimit, s.logTail())
		case <-poll.C:
		}
		req, err := http.NewRequestWithContext(limited, http.MethodGet, "http://"+s.address+"/readyz", nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			continue // not listening yet
		}
		_ = resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			return nil
		}
	}
}

// endError tells how a server that should run has ended.
func (s *server) endError() error {
	how := "status 0"
	if s.err != nil {
		how = s.err.Error()
	}
	return fmt.Errorf("graphmill ended (%s); the end of its log:\n%s", how, s.logTail())
}

func (s *server) logTail() string {
	const lines = 15
	b, err := os.ReadFile(s.logFile)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(b)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// stop ends the server in order, and with force if that takes too long.
func (s *server) stop() error {
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop graphmill: %w", err)
	}
	limit := time.NewTimer(stopLimit)
	defer limit.Stop()
	select {
	case <-s.ended:
		return nil
	case <-limit.C:
	}
	if err := s.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill graphmill: %w", err)
	}
	<-s.ended
	return fmt.Errorf("graphmill did not stop within %s and was killed", stopLimit)
}

// environment is that of this program without Graphmill's own variables: the
// demo's settings are all on its command lines.
func environment() []string {
	var kept []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "GRAPHMILL_") {
			kept = append(kept, v)
		}
	}
	return kept
}

// freePort returns the preferred port of this machine, or another where that is
// taken.
func freePort(preferred int) (int, error) {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(preferred)))
	if err != nil {
		if l, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return 0, fmt.Errorf("look for a free port: %w", err)
		}
	}
	port := l.Addr().(*net.TCPAddr).Port
	return port, l.Close()
}
