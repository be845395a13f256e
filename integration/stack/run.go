package stack

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// errHung is the error of a command that had to be ended at its time limit.
var errHung = errors.New("no end within the time limit")

// runLimited runs a command that ends by itself and returns the end of what it
// printed. At the limit, or when ctx ends, the command and all that it started
// are killed.
func runLimited(ctx context.Context, limit time.Duration, program string, args ...string) (string, error) {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(limited, program, args...)
	out := &tail{}
	cmd.Stdout, cmd.Stderr = out, out
	// A group of its own: mvn is a script whose Java would outlive it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second

	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		err = ctx.Err()
	case limited.Err() != nil:
		err = fmt.Errorf("%w of %s", errHung, limit)
	}
	return out.String(), err
}

// tailBytes is how much of a command's output, or of a log, an error shows.
const tailBytes = 4 << 10

// tail is a writer that keeps the last tailBytes bytes written to it. One
// goroutine may write at a time, which is what exec.Cmd does when stdout and
// stderr are the same writer.
type tail struct{ kept []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p...)
	if cut := len(t.kept) - tailBytes; cut > 0 {
		t.kept = append(t.kept[:0], t.kept[cut:]...)
	}
	return len(p), nil
}

func (t *tail) String() string { return strings.TrimSpace(string(t.kept)) }
