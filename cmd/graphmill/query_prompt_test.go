package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"
	"golang.org/x/term"
)

// screen is a terminal in which graphmill query runs.
type screen struct {
	t     *testing.T
	cmd   *exec.Cmd
	pty   *os.File
	ended chan error
	state *term.State // before the prompt

	mu   sync.Mutex
	text strings.Builder
	seen int // of text, by what was waited for
}

func newScreen(t *testing.T, q *queried, args ...string) *screen {
	t.Helper()
	s := &screen{t: t, ended: make(chan error, 1)}
	s.cmd = exec.Command(program, append([]string{"query"}, args...)...)
	s.cmd.Env = []string{"GRAPHMILL_SERVER=" + q.url, "HOME=" + q.dir, "TERM=xterm", "PATH=" + os.Getenv("PATH")}
	s.cmd.Dir = q.dir
	master, slave, err := pty.Open()
	require.NoError(t, err)
	require.NoError(t, pty.Setsize(master, &pty.Winsize{Rows: 30, Cols: 100}))
	s.pty = master
	s.state, err = term.GetState(int(slave.Fd()))
	require.NoError(t, err)
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = slave, slave, slave
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(t, s.cmd.Start())
	read := make(chan struct{})
	go func() {
		defer close(read)
		s.read()
	}()
	go func() { s.ended <- s.cmd.Wait() }()
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		require.NoError(t, slave.Close())
		require.NoError(t, master.Close())
		<-read
		if t.Failed() {
			t.Logf("the terminal:\n%q", s.text.String())
		}
	})
	s.await("graphmill> ")
	return s
}

// read keeps what the program writes, and answers as a terminal does when it is
// asked where its cursor is.
func (s *screen) read() {
	b := make([]byte, 4096)
	for {
		n, err := s.pty.Read(b)
		if n > 0 {
			s.mu.Lock()
			s.text.Write(b[:n])
			s.mu.Unlock()
			for range strings.Count(string(b[:n]), "\x1b[6n") {
				_, _ = s.pty.WriteString("\x1b[1;1R")
			}
		}
		if err != nil {
			return
		}
	}
}

func (s *screen) types(keys string) {
	s.t.Helper()
	_, err := s.pty.WriteString(keys)
	require.NoError(s.t, err)
}

// await waits until the program has written a text behind what was waited for last.
func (s *screen) await(text string) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		at := strings.Index(s.text.String()[s.seen:], text)
		if at >= 0 {
			s.seen += at + len(text)
		}
		return at >= 0
	}, time.Minute, 5*time.Millisecond, text)
}

// end waits for the end of the program and requires its status, and that the
// terminal is as it was.
func (s *screen) end(status int) {
	s.t.Helper()
	select {
	case <-s.ended:
	case <-time.After(time.Minute):
		require.Fail(s.t, "it does not end")
	}
	require.Equal(s.t, status, s.cmd.ProcessState.ExitCode())
	state, err := term.GetState(int(s.pty.Fd()))
	require.NoError(s.t, err)
	require.Equal(s.t, s.state, state, "the terminal is given back as it was")
}

func TestThePrompt(t *testing.T) {
	q := newQueried(t, "a")
	s := newScreen(t, q)
	s.types("SHOW STR\t")
	s.await("EAMS")
	s.types(";\r")
	s.await("│ a    │ kafka │")
	s.await("1 row, ")
	s.await("graphmill> ")

	s.types("drop stream\r") // over two lines
	s.await("-> ")
	s.types("a;\r")
	s.await("Dropped stream a.")
	s.await("graphmill> ")
	s.types("DROP STREAM a; DROP STREAM x; DROP STREAM a;\r")
	s.await("Dropped stream a.")
	s.await("Couldn't find stream 'x'")
	s.await("graphmill> ")
	s.types("DRP STREAM '流れ';\r")
	s.await("^^^")
	s.await("did you mean DROP?")
	s.await("graphmill> ")

	s.types("SHOW \x03") // given up
	s.await("graphmill> ")
	s.types("help\r")
	s.await("Statements end with ';'")
	s.await("graphmill> ")
	s.types("CREATE KAFKA STREAM s TOPICS t TRANSFORM m.f CREDENTIALS {'sasl.password': 's3cr3t'};\r")
	s.await("Created stream s.")
	s.await("graphmill> ")
	s.types("CREATE KAFKA STREAM s TOPICS t TRANSFORM m.f CREDENTIALS {'sasl.password':\r")
	s.await("-> ")
	s.types("'s3cr3t' x};\r")
	s.await("^")
	s.await("graphmill> ")
	s.types("\x1b[A") // what was remembered last
	s.await("DRP STREAM")
	s.types("\x03")
	s.await("graphmill> ")
	s.types("exit\r")
	s.end(exitDone)

	path := filepath.Join(q.dir, ".local", "state", "graphmill", "history")
	history, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "SHOW STREAMS ;\ndrop stream a;\nDROP STREAM a; DROP STREAM x; DROP STREAM a;\n", strings.Split(string(history), "DRP")[0])
	require.NotContains(t, string(history), "s3cr3t")
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	s = newScreen(t, q)
	s.types("\x1b[A")
	s.await("DRP STREAM '流れ'")
	s.types("\x03")
	s.await("graphmill> ")
	s.types("\x04") // end of input
	s.end(exitDone)
}

// A signal ends the prompt, and the terminal is given back.
func TestASignalEndsThePrompt(t *testing.T) {
	s := newScreen(t, newQueried(t))
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGTERM))
	s.await("interrupted")
	s.end(exitFailed)
}

// ^C ends the statement that is being executed, and not the prompt.
func TestAnInterruptEndsTheStatementOnly(t *testing.T) {
	q := newQueried(t, "s")
	q.checking = make(chan struct{}, 2)
	s := newScreen(t, q)
	for range 2 {
		s.types("CHECK STREAM s;\r")
		<-q.checking
		s.types("\x03")
		s.await("interrupted; what the server has begun may go on")
		s.await("graphmill> ")
	}
	s.types("exit\r")
	s.end(exitDone)
}
