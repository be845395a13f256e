package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// program is a running graphmill, with the plugins beside it.
type program struct {
	cmd *exec.Cmd
	url string
}

// serve starts graphmill on a data directory in dir and returns once it is ready.
func serve(ctx context.Context, dir string, args ...string) (*program, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	address := l.Addr().String()
	l.Close()
	log, err := os.Create(filepath.Join(dir, "graphmill.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p := &program{url: "http://" + address}
	p.cmd = exec.CommandContext(ctx, filepath.Join("bin", "graphmill"),
		append([]string{"serve", "--listen", address, "--data-dir", filepath.Join(dir, "data")}, args...)...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	ready := func() bool {
		resp, err := http.Get(p.url + "/readyz")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	}
	if err := poll(ctx, time.Minute, ready); err != nil {
		p.close()
		text, _ := os.ReadFile(log.Name())
		return nil, fmt.Errorf("graphmill does not answer: %w\n%s", err, text)
	}
	return p, nil
}

// cpu is the processor time that it has used so far.
func (p *program) cpu() time.Duration { return cpuTime(p.cmd.Process.Pid) }

// call makes a request of the API.
func (p *program) call(ctx context.Context, method, path string, body any) error {
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		content = bytes.NewReader(text)
	}
	_, err := p.ask(ctx, method, "/api/v1"+path, content)
	return err
}

// metrics are in Prometheus' text form.
func (p *program) metrics(ctx context.Context) (string, error) {
	text, err := p.ask(ctx, http.MethodGet, "/metrics", nil)
	return string(text), err
}

func (p *program) ask(ctx context.Context, method, path string, content io.Reader) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, p.url+path, content)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode >= 300 {
		err = fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, text)
	}
	return text, err
}

// close ends it. A nil program has ended.
func (p *program) close() {
	if p == nil {
		return
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	_ = p.cmd.Wait()
}

// poll asks every 10 ms until done or the limit.
func poll(ctx context.Context, limit time.Duration, done func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
