//go:build e2e

package integration_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/integration/ports"
)

// patience is how long a test waits for what must happen. The machine may be
// busy: it is a limit against hanging, not a promise of speed.
const patience = 2 * time.Minute

// program is one graphmill serve with a data directory of its own.
type program struct {
	t      *testing.T
	listen string
	dir    string
	log    string
	args   []string
	cmd    *exec.Cmd
	ended  chan struct{}
}

// serve starts the program and waits until it takes requests. It ends with the
// test.
func serve(t *testing.T, args ...string) *program {
	t.Helper()
	dir := t.TempDir()
	p := &program{t: t, listen: freeAddress(t), dir: filepath.Join(dir, "data"), log: filepath.Join(dir, "log")}
	p.args = append([]string{
		"serve", "--listen", p.listen, "--data-dir", p.dir,
		"--kafka-bootstrap-servers", world.kafka.Brokers()[0],
		"--graph-uri", world.neo4j.URI(), "--graph-user", world.neo4j.User(), "--graph-password-file", world.neo4j.PasswordFile(),
	}, args...)
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			tail(t, p.log)
		}
	})
	p.start()
	return p
}

func (p *program) start() {
	p.t.Helper()
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(p.t, err)
	defer log.Close()
	p.cmd = exec.Command(world.binary, p.args...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	require.NoError(p.t, p.cmd.Start())
	ended := make(chan struct{})
	p.ended = ended
	go func(cmd *exec.Cmd) {
		defer close(ended)
		_ = cmd.Wait() // how it ended is the test's business
	}(p.cmd)
	require.Eventually(p.t, func() bool {
		resp, err := http.Get("http://" + p.listen + "/readyz")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	}, patience, 20*time.Millisecond, "the program does not answer; its log is %s", p.log)
}

// kill ends the program as a power cut would.
func (p *program) kill() { p.end(syscall.SIGKILL) }

// terminate asks the program to end in order.
func (p *program) terminate() { p.end(syscall.SIGTERM) }

func (p *program) end(sig syscall.Signal) {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Signal(sig) // it may have ended by itself
	<-p.ended
	p.cmd = nil
}

// call makes a request and decodes the answer into out, if that is not nil.
func (p *program) call(method, path string, body, out any) (status int, answer string) {
	p.t.Helper()
	var content io.Reader
	contentType := "application/json"
	switch b := body.(type) {
	case nil:
	case []byte:
		content, contentType = bytes.NewReader(b), "application/wasm"
	default:
		text, err := json.Marshal(b)
		require.NoError(p.t, err)
		content = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(p.t.Context(), method, "http://"+p.listen+path, content)
	require.NoError(p.t, err)
	if content != nil {
		req.Header.Set("Content-Type", contentType)
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(p.t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(p.t, err)
	if out != nil && resp.StatusCode < 300 {
		require.NoError(p.t, json.Unmarshal(text, out), "%s", text)
	}
	return resp.StatusCode, string(text)
}

// do makes a request that must succeed.
func (p *program) do(method, path string, body, out any) {
	p.t.Helper()
	status, answer := p.call(method, "/api/v1"+path, body, out)
	require.Less(p.t, status, 300, "%s %s: %s", method, path, answer)
}

func (p *program) status(stream string) graphmill.StreamStatus {
	p.t.Helper()
	var s graphmill.StreamStatus
	p.do("GET", "/streams/"+stream+"/status", nil, &s)
	return s
}

// await waits until the status is as wanted, and returns it.
func (p *program) await(stream, what string, wanted func(graphmill.StreamStatus) bool) graphmill.StreamStatus {
	p.t.Helper()
	deadline := time.After(patience)
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for {
		s := p.status(stream)
		if wanted(s) {
			return s
		}
		select {
		case <-look.C:
		case <-deadline:
			text, _ := json.MarshalIndent(s, "", "  ")
			require.FailNow(p.t, "waited in vain until "+what, "the status is %s", text)
		}
	}
}

// awaitDone waits until everything in the topics has been acknowledged.
func (p *program) awaitDone(stream string, partitions int) graphmill.StreamStatus {
	p.t.Helper()
	return p.await(stream, "lag is 0", func(s graphmill.StreamStatus) bool {
		if len(s.Partitions) != partitions || s.State != graphmill.StateRunning {
			return false
		}
		for _, part := range s.Partitions {
			if part.Lag != 0 {
				return false
			}
		}
		return true
	})
}

func inState(state graphmill.State) func(graphmill.StreamStatus) bool {
	return func(s graphmill.StreamStatus) bool { return s.State == state }
}

func freeAddress(t *testing.T) string {
	t.Helper()
	free, err := ports.Free(1)
	require.NoError(t, err)
	return ports.Loopback(free[0])
}

func tail(t *testing.T, file string) {
	text, _ := os.ReadFile(file)
	const most = 8 << 10
	if len(text) > most {
		text = text[len(text)-most:]
	}
	t.Logf("the end of the program's log:\n%s", text)
}

// command is the program as a client of p, ready to run.
func (p *program) command(stdin string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(p.t.Context(), world.binary, args...)
	cmd.Env = append(os.Environ(), "GRAPHMILL_SERVER=http://"+p.listen)
	cmd.Stdin = bytes.NewBufferString(stdin)
	return cmd
}

// run runs the program as a client of p and returns what it printed.
func (p *program) run(stdin string, args ...string) string {
	p.t.Helper()
	cmd := p.command(stdin, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	require.NoError(p.t, cmd.Run(), "graphmill %v\n%s", args, fmt.Sprint(&out, &errs))
	return out.String()
}
