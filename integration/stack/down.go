package stack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// DownConfig says how Down ends servers.
type DownConfig struct {
	Log    io.Writer // gets lines about what is done; nil: none
	Kill   bool      // with SIGKILL, as a power cut would
	Remove bool      // their directories too, data and all
}

// Down ends the servers whose directories are dir/kafka, dir/pulsar and
// dir/neo4j, whoever started them. A process is ended only if its command line
// shows that it is that server. What does not run, or was never there, is passed
// over.
func Down(ctx context.Context, dir string, cfg DownConfig) error {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("find the directory of the servers: %w", err)
	}
	var errs []error
	for _, name := range Names() {
		a, err := loadArtifact(name)
		if err != nil {
			return err
		}
		errs = append(errs, downOne(ctx, a, filepath.Join(abs, name), cfg))
	}
	return errors.Join(errs...)
}

func downOne(ctx context.Context, a artifact, dir string, cfg DownConfig) error {
	st, err := readState(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("stop %s: %w", a.name, err)
	}
	log := newProgress(a.name, cfg.Log)
	if !isServer(st.PID, a.mainClass, dir) {
		log.printf("does not run")
	} else {
		begin := time.Now()
		if err := log.during("stopping", func() error { return endServer(ctx, a, dir, st.PID, cfg.Kill) }); err != nil {
			return fmt.Errorf("stop %s (process %d): %w", a.name, st.PID, err)
		}
		log.printf("process %d stopped after %s", st.PID, time.Since(begin).Round(100*time.Millisecond))
	}
	if !cfg.Remove {
		return nil
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove the directory of %s: %w", a.name, err)
	}
	return nil
}

// endServer signals a server that is no child of this program and polls until
// it is gone. The last word is SIGKILL.
func endServer(ctx context.Context, a artifact, dir string, pid int, kill bool) error {
	sig := syscall.SIGTERM
	if kill {
		sig = syscall.SIGKILL
	}
	poll := time.NewTicker(readyPoll)
	defer poll.Stop()
	limit := time.NewTimer(stopLimit)
	defer limit.Stop()
	if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	for isServer(pid, a.mainClass, dir) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-limit.C:
			// Once more: the pid may have changed hands since the last look.
			if isServer(pid, a.mainClass, dir) {
				if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
					return err
				}
			}
		case <-poll.C:
		}
	}
	return nil
}
