package stack

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/graphmill/graphmill/integration/ports"
)

const (
	defaultReadyTimeout = 3 * time.Minute
	stopLimit           = time.Minute // then a server that was asked to stop is killed
	readyPoll           = 100 * time.Millisecond
	probeLimit          = 5 * time.Second
)

// Files in the directory of a server.
const (
	stateFile = "state.json"
	logFile   = "server.log"
	dataDir   = "data"
	tmpDir    = "tmp"
)

// Server is one JVM with a directory of its own. Its methods are safe for
// concurrent use; they take turns.
type Server struct {
	program   program
	log       *progress
	dir       string // absolute
	temporary bool   // dir is removed by Close
	detached  bool   // the JVM outlives this program
	limit     time.Duration

	jvmArgs   []string
	prepare   func(ctx context.Context, s *Server) error // makes what a first start needs
	configure func(s *Server) error                      // writes the configuration of each start
	ready     string                                     // this text in the log says that it is up
	answers   func(ctx context.Context) error            // asks it something as a client would
	address   func() string                              // for progress lines

	mu    sync.Mutex
	state state
	proc  *process // nil: never started, or stopped by us
}

// state is what a server needs to start again as it was, and what another
// program needs to stop it.
type state struct {
	Prepared bool           `json:"prepared"` // what is needed before a first start is complete
	Ports    map[string]int `json:"ports"`
	PID      int            `json:"pid"` // of the last start
}

// options are the fields that the configurations of all servers have.
type options struct {
	dir          string
	log          io.Writer
	readyTimeout time.Duration
	detached     bool
	jvmArgs      []string
}

// newServer builds the program and opens the directory of a server: a new one,
// or one with a server of the same kind that is not running.
func newServer(ctx context.Context, name string, o options, portNames ...string) (*Server, error) {
	if o.detached && o.dir == "" {
		return nil, fmt.Errorf("start %s: a detached server needs a directory, or nobody could find it again", name)
	}
	s := &Server{log: newProgress(name, o.log), detached: o.detached, limit: o.readyTimeout, jvmArgs: o.jvmArgs}
	if s.limit <= 0 {
		s.limit = defaultReadyTimeout
	}
	var err error
	if s.program, err = build(ctx, name, s.log); err != nil {
		return nil, err
	}
	if err := s.openDir(o.dir, portNames); err != nil {
		return nil, err
	}
	return s, nil
}

// openDir makes the directory and chooses the ports, or finds both as an
// earlier start has left them.
func (s *Server) openDir(dir string, portNames []string) error {
	name := s.program.name
	if dir == "" {
		tmp, err := os.MkdirTemp("", "graphmill-"+name+"-")
		if err != nil {
			return fmt.Errorf("make a directory for %s: %w", name, err)
		}
		s.dir, s.temporary = tmp, true
	} else {
		abs, err := filepath.Abs(dir)
		if err != nil {
			return fmt.Errorf("find the directory of %s: %w", name, err)
		}
		if err := os.MkdirAll(abs, 0o700); err != nil {
			return fmt.Errorf("make the directory of %s: %w", name, err)
		}
		s.dir = abs
	}

	st, err := readState(s.dir)
	switch {
	case err == nil && isServer(st.PID, s.program.mainClass, s.dir):
		return fmt.Errorf("%s runs in %s already, as process %d", name, s.dir, st.PID)
	case err == nil && st.Prepared:
		s.state = st
		return nil
	case err == nil: // a first start that was broken off
	case errors.Is(err, os.ErrNotExist):
		if err := requireEmpty(s.dir); err != nil {
			return fmt.Errorf("start %s: %w", name, err)
		}
	default:
		return fmt.Errorf("start %s: %w", name, err)
	}
	chosen, err := ports.Free(len(portNames))
	if err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	s.state = state{Ports: map[string]int{}}
	for i, p := range portNames {
		s.state.Ports[p] = chosen[i]
	}
	return s.writeState()
}

func requireEmpty(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	if len(entries) > 0 {
		return fmt.Errorf("%s holds other files; name a new or empty directory", dir)
	}
	return nil
}

func readState(dir string) (state, error) {
	b, err := os.ReadFile(filepath.Join(dir, stateFile))
	if err != nil {
		return state{}, err
	}
	var st state
	if err := json.Unmarshal(b, &st); err != nil {
		return state{}, fmt.Errorf("read %s: %w", filepath.Join(dir, stateFile), err)
	}
	return st, nil
}

func (s *Server) writeState() error {
	b, err := json.Marshal(s.state)
	if err != nil {
		return err
	}
	if err := writeFileAtomic(s.path(stateFile), b, 0o600); err != nil {
		return fmt.Errorf("write %s: %w", s.path(stateFile), err)
	}
	return nil
}

func (s *Server) path(name string) string { return filepath.Join(s.dir, name) }

// Dir returns the server's directory: configuration, data and log.
func (s *Server) Dir() string { return s.dir }

// LogFile returns the path of the server's own log, which each start begins
// anew; the one before has the suffix .1.
func (s *Server) LogFile() string { return s.path(logFile) }

// PID returns the process id of the JVM, 0 while none runs.
func (s *Server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil || !s.proc.running() {
		return 0
	}
	return s.proc.pid
}

// KeepLog copies the server's log, behind that of the start before, into a new
// temporary file that outlives Close, and returns its path.
func (s *Server) KeepLog() (string, error) {
	fail := func(err error) (string, error) {
		return "", fmt.Errorf("keep the log of %s: %w", s.program.name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	kept, err := os.CreateTemp("", "graphmill-"+s.program.name+"-*.log")
	if err != nil {
		return fail(err)
	}
	defer func() { _ = kept.Close() }() // written to without a buffer of ours
	for _, from := range []string{s.LogFile() + ".1", s.LogFile()} {
		b, err := os.ReadFile(from)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return fail(err)
		}
		if _, err := kept.Write(b); err != nil {
			return fail(err)
		}
	}
	return kept.Name(), nil
}

// Restart starts the server again on the same data, ports and credentials. A
// server that runs is stopped first. When ctx ends before the server is ready,
// it is killed.
func (s *Server) Restart(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.stop(ctx); err != nil {
		return err
	}
	return s.start(ctx)
}

// Stop ends the server in order and keeps its directory, so that Restart can go
// on. When ctx ends first, or after a minute, it is killed. Stopping a server
// that does not run does nothing.
func (s *Server) Stop(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stop(ctx)
}

// Kill ends the server with SIGKILL, as a power cut would end its process, and
// keeps its directory. Killing a server that does not run does nothing.
func (s *Server) Kill() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kill()
}

// Close stops the server and removes its directory if that is a temporary one.
// It may be called more than once.
func (s *Server) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.stop(context.Background()) // stopLimit bounds it
	return errors.Join(err, s.removeTemporary())
}

func (s *Server) removeTemporary() error {
	if !s.temporary {
		return nil
	}
	if err := os.RemoveAll(s.dir); err != nil {
		return fmt.Errorf("remove the directory of %s: %w", s.program.name, err)
	}
	return nil
}

// firstStart starts a server that newServer has made; where that fails, nothing
// is left of it.
func (s *Server) firstStart(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.start(ctx); err != nil {
		return errors.Join(err, s.removeTemporary())
	}
	return nil
}

func (s *Server) start(ctx context.Context) error {
	name := s.program.name
	if err := s.configure(s); err != nil {
		return fmt.Errorf("configure %s: %w", name, err)
	}
	if !s.state.Prepared {
		if err := s.log.during("preparing its directory", func() error { return s.prepare(ctx, s) }); err != nil {
			return fmt.Errorf("prepare the directory of %s: %w", name, err)
		}
		s.state.Prepared = true
	}
	if err := os.Rename(s.LogFile(), s.LogFile()+".1"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("set the log of %s aside: %w", name, err)
	}

	if err := s.emptyTmp(); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}

	begin := time.Now()
	proc, err := startProcess(s.command(), s.LogFile(), s.detached)
	if err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	s.proc = proc
	s.state.PID = proc.pid
	if err := s.writeState(); err != nil {
		return errors.Join(err, s.kill())
	}
	s.log.printf("started as process %d, log in %s", proc.pid, s.LogFile())
	if err := s.log.during("waiting until it is ready", func() error { return s.awaitReady(ctx) }); err != nil {
		return errors.Join(err, s.kill())
	}
	s.log.printf("ready at %s after %s", s.address(), time.Since(begin).Round(100*time.Millisecond))
	return nil
}

// emptyTmp makes the temporary directory of the JVM, without what the last one
// has left.
func (s *Server) emptyTmp() error {
	if err := os.RemoveAll(s.path(tmpDir)); err != nil {
		return err
	}
	return os.Mkdir(s.path(tmpDir), 0o700)
}

func (s *Server) command() *exec.Cmd {
	// Native libraries are unpacked into the temporary directory, and a JVM that
	// is killed leaves them there; so it gets one that goes with the server.
	args := append([]string{"-Djava.io.tmpdir=" + s.path(tmpDir), "-XX:-UsePerfData"}, s.jvmArgs...)
	switch {
	case s.detached:
	case s.temporary:
		args = append(args, "-Dgraphmill.stack.watch=remove")
	default:
		args = append(args, "-Dgraphmill.stack.watch=exit")
	}
	cmd := exec.Command(s.program.java, append(args, s.program.mainClass, s.dir)...)
	cmd.Dir = s.dir
	// By the environment, since 200 jars make a command line that nobody can read.
	cmd.Env = append(os.Environ(), "CLASSPATH="+s.program.classpath)
	return cmd
}

// awaitReady returns once the log says that the server is up and it answers a
// client. The error holds the end of the log.
func (s *Server) awaitReady(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	name := s.program.name
	poll := time.NewTicker(readyPoll)
	defer poll.Stop()
	var last error // of the client's question
	for {
		select {
		case <-s.proc.ended:
			return fmt.Errorf("%s ended while it was starting (%v); the end of its log:\n%s", name, s.proc.err, s.logTail())
		case <-limited.Done():
			if ctx.Err() != nil {
				return fmt.Errorf("wait until %s is ready: %w", name, ctx.Err())
			}
			why := ""
			if last != nil {
				why = fmt.Sprintf(" (last answer: %v)", last)
			}
			return fmt.Errorf("%s is not ready after %s%s; the end of its log:\n%s", name, s.limit, why, s.logTail())
		case <-poll.C:
		}
		log, err := os.ReadFile(s.LogFile())
		if err != nil || !bytes.Contains(log, []byte(s.ready)) {
			continue
		}
		probe, cancelProbe := context.WithTimeout(limited, probeLimit)
		last = s.answers(probe)
		cancelProbe()
		if last == nil {
			return nil
		}
	}
}

func (s *Server) logTail() string {
	b, err := os.ReadFile(s.LogFile())
	if err != nil {
		return err.Error()
	}
	if cut := len(b) - tailBytes; cut > 0 {
		b = b[cut:]
	}
	return strings.TrimSpace(string(b))
}

func (s *Server) stop(ctx context.Context) error {
	if s.proc == nil {
		return nil
	}
	if err := s.proc.signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop %s: %w", s.program.name, err)
	}
	limited, cancel := context.WithTimeout(ctx, stopLimit)
	defer cancel()
	return s.log.during("stopping", func() error {
		select {
		case <-s.proc.ended:
			s.proc = nil
			return nil
		case <-limited.Done():
			return errors.Join(fmt.Errorf("stop %s in order: %w; it has been killed", s.program.name, limited.Err()), s.kill())
		}
	})
}

func (s *Server) kill() error {
	if s.proc == nil {
		return nil
	}
	if err := s.proc.signal(syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill %s: %w", s.program.name, err)
	}
	<-s.proc.ended
	s.proc = nil
	return nil
}
