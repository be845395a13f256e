package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// contenders in the order of a round; the first is the limit.
func (b *toGraph) contenders(rows int) []contender {
	oneByOne := max(1, rows/5)
	return []contender{
		{"handwritten", func(ctx context.Context, round int) (measured, error) {
			return b.handwritten(ctx, round, rows)
		}},
		{"graphmill", func(ctx context.Context, round int) (measured, error) {
			return b.stream(ctx, fmt.Sprintf("coalesced-%d", round), "on", rows)
		}},
		{"one by one", func(ctx context.Context, round int) (measured, error) {
			return b.stream(ctx, fmt.Sprintf("one-by-one-%d", round), "off", oneByOne)
		}},
	}
}

// handwritten runs the program of integration/bench/handwritten.
func (b *toGraph) handwritten(ctx context.Context, round, rows int) (measured, error) {
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

// stream runs a new stream over the topic until rows are in the graph, then
// drops it.
func (b *toGraph) stream(ctx context.Context, name, coalesce string, rows int) (measured, error) {
	if err := b.wipe(ctx); err != nil {
		return measured{}, err
	}
	err := b.server.call(ctx, "POST", "/streams", map[string]any{
		"name": name, "topics": []string{topic}, "start_from": "earliest", "transform": "movies", "coalesce": coalesce,
	})
	if err != nil {
		return measured{}, err
	}
	if err := b.server.call(ctx, "POST", "/streams/"+name+":start", nil); err != nil {
		return measured{}, err
	}
	began, cpu := time.Now(), b.server.cpu()
	if err := b.awaitRows(ctx, rows); err != nil {
		return measured{}, err
	}
	m := measured{rows: rows, elapsed: time.Since(began), cpu: b.server.cpu() - cpu}
	return m, b.server.call(ctx, "DELETE", "/streams/"+name, nil)
}
