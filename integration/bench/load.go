package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"
)

// handwritten runs the program of integration/bench/handwritten.
func handwritten(ctx context.Context, b *bench, round, rows int) (measured, error) {
	if err := b.wipe(ctx); err != nil {
		return measured{}, err
	}
	cmd := exec.CommandContext(ctx, b.limit,
		"-brokers", b.kafka.Brokers()[0], "-topic", topic, "-group", fmt.Sprintf("handwritten-%d", round),
		"-uri", b.neo4j.URI(), "-user", b.neo4j.User(), "-rows", fmt.Sprint(rows))
	cmd.Env = append(os.Environ(), "GRAPH_PASSWORD="+b.neo4j.Password())
	var errs bytes.Buffer
	cmd.Stderr = &errs
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return measured{}, err
	}
	if err := cmd.Start(); err != nil {
		return measured{}, err
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if strings.TrimSpace(line) != "READY" {
		_ = cmd.Wait() // its message tells more than its status
		return measured{}, fmt.Errorf("it did not get ready: %w\n%s", err, &errs)
	}
	began, cpu := time.Now(), cpuTime(cmd.Process.Pid)
	if err := b.awaitRows(ctx, rows); err != nil {
		return measured{}, err
	}
	m := measured{rows: rows, elapsed: time.Since(began), cpu: cpuTime(cmd.Process.Pid) - cpu}
	if err := cmd.Wait(); err != nil {
		return measured{}, fmt.Errorf("%w\n%s", err, &errs)
	}
	if m.cpu <= 0 { // it had ended when it was asked: all that it used, less its start
		m.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime() - cpu
	}
	return m, nil
}

// coalesced runs a stream as it is by default.
func coalesced(ctx context.Context, b *bench, round, rows int) (measured, error) {
	return stream(ctx, b, fmt.Sprintf("coalesced-%d", round), "on", rows)
}

// oneByOne runs a stream that sends each statement by itself.
func oneByOne(ctx context.Context, b *bench, round, rows int) (measured, error) {
	return stream(ctx, b, fmt.Sprintf("one-by-one-%d", round), "off", rows)
}

// stream runs a new stream over the topic until rows are in the graph, then
// drops it.
func stream(ctx context.Context, b *bench, name, coalesce string, rows int) (measured, error) {
	if err := b.wipe(ctx); err != nil {
		return measured{}, err
	}
	err := b.call(ctx, "POST", "/streams", map[string]any{
		"name": name, "topics": []string{topic}, "start_from": "earliest", "transform": "movies", "coalesce": coalesce,
	})
	if err != nil {
		return measured{}, err
	}
	if err := b.call(ctx, "POST", "/streams/"+name+":start", nil); err != nil {
		return measured{}, err
	}
	began, cpu := time.Now(), cpuTime(b.server.Process.Pid)
	if err := b.awaitRows(ctx, rows); err != nil {
		return measured{}, err
	}
	m := measured{rows: rows, elapsed: time.Since(began), cpu: cpuTime(b.server.Process.Pid) - cpu}
	return m, b.call(ctx, "DELETE", "/streams/"+name, nil)
}

// call makes a request of the server's API.
func (b *bench) call(ctx context.Context, method, path string, body any) error {
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		content = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, b.url+"/api/v1"+path, content)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode >= 300 {
		err = fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, answer)
	}
	return err
}
