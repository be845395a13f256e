package stack

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// process is a JVM that this program has started.
type process struct {
	pid   int
	ended chan struct{} // closed once the JVM is gone and has been waited for
	err   error         // how it ended; to be read once ended is closed

	proc *os.Process
}

// startProcess starts a JVM whose output goes to a file. Unless detached, its
// standard input is a pipe that ends with this program (see ParentWatch.java).
func startProcess(cmd *exec.Cmd, logFile string, detached bool) (*process, error) {
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // the JVM has a copy of its own
	cmd.Stdout, cmd.Stderr = log, log
	// A session of its own: an interrupt from the terminal is for this program,
	// which then stops its servers in order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}

	var ours *os.File // the end of the pipe that is closed when this program ends
	if !detached {
		theirs, w, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		defer func() { _ = theirs.Close() }()
		cmd.Stdin, ours = theirs, w
	}
	if err := cmd.Start(); err != nil {
		if ours != nil {
			_ = ours.Close()
		}
		return nil, err
	}
	p := &process{pid: cmd.Process.Pid, ended: make(chan struct{}), proc: cmd.Process}
	go func() { // ends with the JVM; whoever stops that waits for ended
		p.err = cmd.Wait()
		if ours != nil {
			_ = ours.Close()
		}
		close(p.ended)
	}()
	return p, nil
}

// running says whether the JVM has not ended yet.
func (p *process) running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// signal sends a signal to the JVM, unless it has ended: its pid is never that
// of another process.
func (p *process) signal(sig os.Signal) error {
	if err := p.proc.Signal(sig); !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// isServer says whether a pid, read from a file, still is the server that was
// started with this main class and directory. The system gives pids again, so a
// pid alone may be anybody's. A process that has ended and not been waited for
// has no command line and is no server.
func isServer(pid int, mainClass, dir string) bool {
	if pid <= 1 {
		return false
	}
	args, err := commandLine(pid)
	if err != nil {
		return false
	}
	return strings.Contains(args, mainClass) && strings.Contains(args, dir)
}

// commandLine returns the arguments of a process, separated by spaces.
func commandLine(pid int) (string, error) {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	if err == nil {
		return strings.ReplaceAll(string(b), "\x00", " "), nil
	}
	if isDir("/proc/self") {
		return "", err
	}
	out, err := exec.Command("ps", "-ww", "-o", "command=", "-p", strconv.Itoa(pid)).Output() // macOS
	if err != nil {
		return "", fmt.Errorf("ask ps for process %d: %w", pid, err)
	}
	return string(out), nil
}
