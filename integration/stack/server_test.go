package stack

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill/integration/ports"
)

// upUntilItsProgramEnds says that it is ready and lives until its standard
// input ends or a signal ends it.
const upUntilItsProgramEnds = `echo up; read line`

// newFakeServer makes a server of the fake Java of m.
func newFakeServer(t *testing.T, dir string) *Server {
	t.Helper()
	s, err := newServer(t.Context(), nameKafka, options{dir: dir}, "a", "b")
	require.NoError(t, err)
	s.configure = func(*Server) error { return nil }
	s.prepare = func(context.Context, *Server) error { return nil }
	s.ready = "up"
	s.answers = func(context.Context) error { return nil }
	s.address = func() string { return ports.Loopback(s.state.Ports["a"]) }
	return s
}

func TestServerThatDiesAtItsStart(t *testing.T) {
	m := newMachine(t)
	m.installAll("echo 'java.net.BindException: Address already in use'; exit 3")
	_, err := StartKafka(t.Context(), KafkaConfig{})
	require.ErrorContains(t, err, "kafka ended while it was starting (exit status 3)")
	require.ErrorContains(t, err, "java.net.BindException: Address already in use")
	m.requireNothingLeft()
}

func TestServerThatIsNeverReady(t *testing.T) {
	m := newMachine(t)
	m.installAll(`echo "pid $$"; echo 'Recovering the log'; read line`)
	log := &buffer{}
	_, err := StartNeo4j(t.Context(), Neo4jConfig{ReadyTimeout: 4500 * time.Millisecond, Log: log})
	require.ErrorContains(t, err, "neo4j is not ready after 4.5s")
	require.ErrorContains(t, err, "Recovering the log")
	require.Contains(t, log.lines(), "neo4j: waiting until it is ready (1s)")
	m.requireNothingLeft()
}

func TestServerThatIsReadyButDoesNotAnswer(t *testing.T) {
	m := newMachine(t)
	m.installAll(`echo READY; read line`)
	_, err := StartNeo4j(t.Context(), Neo4jConfig{ReadyTimeout: 4 * time.Second})
	require.ErrorContains(t, err, "last answer: ")
	m.requireNothingLeft()
}

func TestStartIsGivenUpWithTheContext(t *testing.T) {
	m := newMachine(t)
	m.installAll(`read line`)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	_, err := StartKafka(ctx, KafkaConfig{})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	m.requireNothingLeft()
}

func TestFormatErrorIsShown(t *testing.T) {
	m := newMachine(t)
	m.installAll("")
	m.install("java", `case $1 in -version) echo 'version "17"'; exit 0 ;; esac; echo 'Formatting failed'; exit 1`)
	_, err := StartKafka(t.Context(), KafkaConfig{})
	require.ErrorContains(t, err, "prepare the directory of kafka")
	require.ErrorContains(t, err, "Formatting failed")
	m.requireNothingLeft()
}

func TestServerStopsGoesOnAndLeavesNothing(t *testing.T) {
	m := newMachine(t)
	m.installAll(`trap 'echo stopped in order; exit 0' TERM; ` + upUntilItsProgramEnds)
	s := newFakeServer(t, "")
	require.NoError(t, s.firstStart(t.Context()))
	first, ports := s.PID(), s.state.Ports
	require.NotZero(t, first)
	require.NoError(t, os.WriteFile(filepath.Join(s.Dir(), "kept"), nil, 0o600))

	require.NoError(t, s.Stop(t.Context()))
	require.Zero(t, s.PID())
	require.ErrorIs(t, syscall.Kill(first, 0), syscall.ESRCH, "the process is gone")
	log, err := os.ReadFile(s.LogFile())
	require.NoError(t, err)
	require.Contains(t, string(log), "stopped in order")
	require.NoError(t, s.Stop(t.Context()), "once more does nothing")

	require.NoError(t, s.Restart(t.Context()))
	require.NotZero(t, s.PID())
	require.Equal(t, ports, s.state.Ports)
	require.FileExists(t, filepath.Join(s.Dir(), "kept"))
	require.FileExists(t, s.LogFile()+".1", "the log of the start before")

	second := s.PID()
	require.NoError(t, s.Restart(t.Context()), "of a server that runs")
	require.NotEqual(t, second, s.PID())
	require.ErrorIs(t, syscall.Kill(second, 0), syscall.ESRCH)

	require.NoError(t, s.Close())
	require.NoError(t, s.Close(), "twice does no harm")
	m.requireNothingLeft()
}

func TestKeptLogOutlivesItsServer(t *testing.T) {
	m := newMachine(t)
	m.installAll(`echo "start $$"; ` + upUntilItsProgramEnds)
	s := newFakeServer(t, "")
	require.NoError(t, s.firstStart(t.Context()))
	first := s.PID()
	require.NoError(t, s.Restart(t.Context()))
	second := s.PID()
	kept, err := s.KeepLog()
	require.NoError(t, err)
	require.NoError(t, s.Close())
	log, err := os.ReadFile(kept)
	require.NoError(t, err)
	require.Equal(t, fmt.Sprintf("start %d\nup\nstart %d\nup\n", first, second), string(log))
	require.NoError(t, os.Remove(kept))
	m.requireNothingLeft()
}

func TestKill(t *testing.T) {
	m := newMachine(t)
	m.installAll(`trap 'echo stopped in order; exit 0' TERM; ` + upUntilItsProgramEnds)
	s := newFakeServer(t, "")
	require.NoError(t, s.firstStart(t.Context()))
	pid := s.PID()
	require.NoError(t, s.Kill())
	require.Zero(t, s.PID())
	require.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH)
	log, err := os.ReadFile(s.LogFile())
	require.NoError(t, err)
	require.NotContains(t, string(log), "stopped in order")
	require.NoError(t, s.Kill(), "once more does nothing")
	require.NoError(t, s.Close())
	m.requireNothingLeft()
}

func TestServerThatIgnoresStopIsKilledWithTheContext(t *testing.T) {
	m := newMachine(t)
	m.installAll(`trap '' TERM; ` + upUntilItsProgramEnds)
	s := newFakeServer(t, "")
	require.NoError(t, s.firstStart(t.Context()))
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, s.Stop(ctx), context.DeadlineExceeded)
	require.Zero(t, s.PID())
	require.NoError(t, s.Close())
	m.requireNothingLeft()
}

func TestServerOfADirectoryGoesOnWithItsPorts(t *testing.T) {
	newMachine(t).installAll(upUntilItsProgramEnds)
	dir := filepath.Join(t.TempDir(), "kafka")
	s := newFakeServer(t, dir)
	require.NoError(t, s.firstStart(t.Context()))

	_, err := newServer(t.Context(), nameKafka, options{dir: dir}, "a", "b")
	require.ErrorContains(t, err, "kafka runs in "+dir+" already, as process")

	ports := s.state.Ports
	require.NoError(t, s.Close())
	require.DirExists(t, dir, "a directory that was given stays")
	again := newFakeServer(t, dir)
	again.prepare = func(context.Context, *Server) error { t.Error("prepared twice"); return nil }
	require.NoError(t, again.firstStart(t.Context()))
	require.Equal(t, ports, again.state.Ports)
	require.NoError(t, again.Close())
}

func TestFirstStartThatBrokeOffIsBegunAnew(t *testing.T) {
	newMachine(t).installAll(upUntilItsProgramEnds)
	dir := t.TempDir()
	s := newFakeServer(t, dir)
	s.prepare = func(context.Context, *Server) error { return context.Canceled }
	require.ErrorIs(t, s.firstStart(t.Context()), context.Canceled)

	again := newFakeServer(t, dir)
	prepared := false
	again.prepare = func(context.Context, *Server) error { prepared = true; return nil }
	require.NoError(t, again.firstStart(t.Context()))
	require.True(t, prepared)
	require.NoError(t, again.Close())
}

func TestDirectoryOfSomebodyElseIsRefused(t *testing.T) {
	newMachine(t).installAll("")
	dir := t.TempDir()
	precious := filepath.Join(dir, "thesis.txt")
	require.NoError(t, os.WriteFile(precious, nil, 0o600))
	_, err := StartNeo4j(t.Context(), Neo4jConfig{Dir: dir})
	require.ErrorContains(t, err, "holds other files; name a new or empty directory")
	require.FileExists(t, precious)
}

func TestDetachedServerNeedsADirectory(t *testing.T) {
	_, err := StartKafka(t.Context(), KafkaConfig{Detached: true})
	require.ErrorContains(t, err, "a detached server needs a directory")
}

func TestDownStopsWhatAnotherProgramHasStarted(t *testing.T) {
	for name, tc := range map[string]struct {
		cfg  DownConfig
		kept bool
	}{
		"in order, data kept":      {kept: true},
		"killed, data kept":        {cfg: DownConfig{Kill: true}, kept: true},
		"in order and all removed": {cfg: DownConfig{Remove: true}},
	} {
		t.Run(name, func(t *testing.T) {
			// Detached, there is no standard input to wait on: it waits for a
			// writer of a pipe that nobody opens.
			newMachine(t).installAll(`echo up; read line <"$dir/pipe"`)
			root := t.TempDir()
			dir := filepath.Join(root, nameKafka)
			require.NoError(t, os.Mkdir(dir, 0o700))
			s := newFakeServer(t, dir)
			s.detached = true
			require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
			require.NoError(t, s.firstStart(t.Context()))
			t.Cleanup(func() { require.NoError(t, s.Close()) })

			require.NoError(t, Down(t.Context(), root, tc.cfg))
			// It has ended; whoever started it may still be about to hear of it.
			require.Eventually(t, func() bool { return s.PID() == 0 }, time.Minute, time.Millisecond)
			if tc.kept {
				require.FileExists(t, filepath.Join(dir, stateFile))
			} else {
				require.NoDirExists(t, dir)
			}
			log := &buffer{}
			require.NoError(t, Down(t.Context(), root, DownConfig{Log: log}), "once more does nothing")
		})
	}
}

func TestDownLeavesAProcessThatIsNotTheServer(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, nameKafka)
	require.NoError(t, os.Mkdir(dir, 0o700))
	other := exec.Command("sh", "-c", "read line")
	in, err := other.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, other.Start())
	s := &Server{dir: dir, state: state{Prepared: true, PID: other.Process.Pid}}
	require.NoError(t, s.writeState())

	log := &buffer{}
	require.NoError(t, Down(t.Context(), root, DownConfig{Log: log}))
	require.Contains(t, log.lines(), "kafka: does not run")
	require.NoError(t, syscall.Kill(other.Process.Pid, 0), "the other process lives")
	require.NoError(t, in.Close())
	_ = other.Wait() // read has met the end of its input: status 1
}

func TestIsServer(t *testing.T) {
	const class = "graphmill.stack.KafkaMain"
	dir := t.TempDir()
	cmd := exec.Command("sh", "-c", "read line", class, dir)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	pid := cmd.Process.Pid

	// A process that has just begun may have no command line for a moment.
	require.Eventually(t, func() bool { return isServer(pid, class, dir) }, time.Minute, time.Millisecond)
	require.False(t, isServer(pid, class, dir+"-other"), "the same server of another directory")
	require.False(t, isServer(pid, "graphmill.stack.Neo4jMain", dir), "another server")
	require.False(t, isServer(0, class, dir))
	require.False(t, isServer(-1, class, dir), "-1 would be all processes")
	require.False(t, isServer(1, class, dir))

	require.NoError(t, in.Close())
	_ = cmd.Wait() // status 1: read has met the end of its input
	require.False(t, isServer(pid, class, dir), "it has ended")
}
