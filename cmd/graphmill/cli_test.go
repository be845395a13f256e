package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill/integration/boltserver"
)

// The program under test, and the plugin movies, built once for all tests.
var program, moviesFile string

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "graphmill-cli-test")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	program = filepath.Join(dir, "graphmill")
	// A name of its own, so that it is no ready module in some tests.
	moviesFile = filepath.Join(dir, "pushed", "movies.wasm")
	for _, build := range []struct {
		env  []string
		args []string
	}{
		{nil, []string{"build", "-o", program, "."}},
		{[]string{"GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0"}, []string{"build", "-C", "../../plugins", "-buildmode=c-shared", "-o", moviesFile, "./movies"}},
	} {
		cmd := exec.Command("go", build.args...)
		cmd.Env = append(os.Environ(), build.env...)
		if text, err := cmd.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "go %v: %v\n%s", build.args, err, text)
			return 1
		}
	}
	return m.Run()
}

// result is what a finished command left.
type result struct {
	status   int
	out, err string
}

// cli runs commands in a directory, with its own environment.
type cli struct {
	dir string
	env []string
}

func newCLI(t *testing.T, env ...string) *cli {
	t.Helper()
	return &cli{dir: t.TempDir(), env: append([]string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH")}, env...)}
}

func (c *cli) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = c.dir
	cmd.Env = c.env
	return cmd
}

// run runs a command to its end.
func (c *cli) run(t *testing.T, stdin string, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := c.command(ctx, args...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	return result{status: cmd.ProcessState.ExitCode(), out: out.String(), err: errs.String()}
}

// must runs a command that has to succeed, and returns what it printed.
func (c *cli) must(t *testing.T, args ...string) string {
	t.Helper()
	r := c.run(t, "", args...)
	require.Equal(t, exitDone, r.status, "graphmill %s\n%s%s", strings.Join(args, " "), r.out, r.err)
	return r.out
}

// process is a server that runs.
type process struct {
	cmd    *exec.Cmd
	banner string // what it printed before it was ready
	after  *lockedBuffer
	log    *lockedBuffer
	done   chan error
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// start runs a server until its banner holds the last line that is waited for.
func (c *cli) start(t *testing.T, lastLine string, args ...string) *process {
	t.Helper()
	p := &process{cmd: c.command(context.Background(), args...), after: &lockedBuffer{}, log: &lockedBuffer{}, done: make(chan error, 1)}
	stdout, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	p.cmd.Stderr = p.log
	require.NoError(t, p.cmd.Start())
	lines := make(chan string, 100)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(stdout); s.Scan(); {
			lines <- s.Text()
		}
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		if t.Failed() {
			t.Logf("log of graphmill %s:\n%s", strings.Join(args, " "), p.log)
		}
	})
	limit := time.After(time.Minute)
	for {
		select {
		case line, ok := <-lines:
			require.True(t, ok, "it ended before %q: %s%s", lastLine, p.banner, p.log)
			p.banner += line + "\n"
			if !strings.Contains(line, lastLine) {
				continue
			}
			go func() {
				for line := range lines {
					_, _ = fmt.Fprintln(p.after, line)
				}
				p.done <- p.cmd.Wait() // after its output has been read to the end
			}()
			return p
		case <-limit:
			require.Fail(t, "no banner", "%s%s", p.banner, p.log)
		}
	}
}

// find returns the part of the banner that the pattern's group matches.
func (p *process) find(t *testing.T, pattern string) string {
	t.Helper()
	m := regexp.MustCompile(pattern).FindStringSubmatch(p.banner)
	require.NotNil(t, m, "%s in %s", pattern, p.banner)
	return m[1]
}

// stop asks it to end, and requires that it does so well.
func (p *process) stop(t *testing.T) {
	t.Helper()
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case err := <-p.done:
		require.NoError(t, err, "%s", p.log)
	case <-time.After(time.Minute):
		require.Fail(t, "it does not end", "%s", p.log)
	}
}

// dev starts graphmill dev on free ports, and points the client at it.
func (c *cli) dev(t *testing.T, args ...string) *process {
	t.Helper()
	p := c.start(t, "Nothing is stored in a graph", append([]string{
		"dev", "--listen", "127.0.0.1:0", "--dev-kafka-listen", "127.0.0.1:0", "--create-timeout", "30s",
	}, args...)...)
	c.env = append(c.env,
		"GRAPHMILL_SERVER="+p.find(t, `API +(http://\S+)`),
		"GRAPHMILL_KAFKA_BOOTSTRAP_SERVERS="+p.find(t, `broker +(\S+)`))
	return p
}

// status returns a stream's definition and status.
func (c *cli) status(t *testing.T, stream string) shown {
	t.Helper()
	var s shown
	require.NoError(t, json.Unmarshal([]byte(c.must(t, "stream", "show", stream, "-o", "json")), &s))
	return s
}

// awaitMessages waits until so many messages of a stream are done and nothing
// is left.
func (c *cli) awaitMessages(t *testing.T, stream string, n int64) {
	t.Helper()
	var last shown
	require.Eventually(t, func() bool {
		last = c.status(t, stream)
		if last.Status.Counters.Messages != n || len(last.Status.Partitions) == 0 {
			return false
		}
		for _, p := range last.Status.Partitions {
			if p.Lag != 0 {
				return false
			}
		}
		return true
	}, time.Minute, 50*time.Millisecond, "%+v", &last)
}

const rating = `{"userId":7,"movieId":1,"rating":4.5,"title":"Heat"}`

func TestMessagesGoFromProduceThroughAStreamIntoTheLedger(t *testing.T) {
	c := newCLI(t)
	first := c.dev(t)
	require.Contains(t, c.must(t, "module", "list"), "no modules")
	pushed := c.must(t, "module", "push", "movies", moviesFile)
	require.Contains(t, pushed, "pushed movies version 1")
	require.Contains(t, pushed, "movies.transform")
	require.Contains(t, pushed, "checked:")
	require.Contains(t, c.must(t, "module", "push", "movies", moviesFile), "no new version")

	create := []string{"stream", "create", "ratings", "--topics", "ratings", "--transform", "movies", "--start-from", "earliest", "--batch-interval", "20ms"}
	absent := c.run(t, "", create...)
	require.Equal(t, exitFailed, absent.status)
	require.Contains(t, absent.err, `"ratings"`)
	require.Contains(t, absent.err, "--no-check")

	require.Equal(t, "2 messages sent to ratings\n", c.run(t, rating+"\n\n"+rating+"\n", "produce", "ratings").out)
	created := c.must(t, create...)
	require.Contains(t, created, "created ratings")
	require.Contains(t, created, "it begins:            with the first message of the topics\n")
	again := c.run(t, "", create...)
	require.Equal(t, exitFailed, again.status)
	require.Contains(t, again.err, "already")

	checked := c.must(t, "stream", "check", "ratings")
	require.Contains(t, checked, "batch 1: 2 messages, 2 statements, 0 failures; nothing was executed")
	require.Contains(t, checked, "ratings/0 offset 0: "+rating)
	require.Contains(t, checked, "    MERGE (u:User {id: $userId})")
	require.Contains(t, checked, `        {"movieId":1,"rating":4.5,"title":"Heat","userId":7}`)
	ledger := filepath.Join(c.dir, "graphmill-data", "ledger.jsonl")
	require.Empty(t, readIfThere(t, ledger), "a check executes nothing")

	require.Equal(t, "ratings: running\n", c.must(t, "stream", "start", "ratings"))
	c.awaitMessages(t, "ratings", 2)
	require.Equal(t, "3 messages sent to ratings\n", c.run(t, strings.Repeat(rating+"\n", 3), "produce", "ratings").out)
	c.awaitMessages(t, "ratings", 5)
	require.Equal(t, 5, strings.Count(readIfThere(t, ledger), `"userId":7`))

	show := c.must(t, "stream", "show", "ratings")
	for _, want := range []string{"running", "5 messages", "movies version 1", "ratings/0"} {
		require.Contains(t, show, want)
	}
	require.Contains(t, c.must(t, "stream", "list"), "running")
	require.Contains(t, c.run(t, "", "module", "rm", "movies").err, "ratings", "what uses it is named")

	// A restart resumes what was running, with the topics and where it was.
	first.stop(t)
	second := c.dev(t)
	require.Equal(t, "1 message sent to ratings\n", c.run(t, rating+"\n", "produce", "ratings").out)
	c.awaitMessages(t, "ratings", 1)
	require.Equal(t, 6, strings.Count(readIfThere(t, ledger), `"userId":7`))
	require.Equal(t, "ratings: stopped\n", c.must(t, "stream", "stop", "--all"))
	require.Equal(t, "dropped ratings\n", c.must(t, "stream", "drop", "ratings"))
	require.Equal(t, "removed movies\n", c.must(t, "module", "rm", "movies"))
	second.stop(t)
}

func readIfThere(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if !errors.Is(err, os.ErrNotExist) {
		require.NoError(t, err)
	}
	return string(b)
}

func TestServeExecutesInTheDatabase(t *testing.T) {
	const password = "open-sesame-314"
	bolt := boltserver.Start(t, boltserver.Options{User: "neo4j", Password: password})
	c := newCLI(t)
	require.NoError(t, os.WriteFile(filepath.Join(c.dir, "password.txt"), []byte(password+"\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(c.dir, "graphmill.yaml"), []byte("graph-user: neo4j\ngraph-password-file: password.txt\nlog-level: debug\n"), 0o600))

	dev := newCLI(t)
	broker := dev.dev(t).find(t, `broker +(\S+)`)
	p := c.start(t, "  data", "serve", "--listen", "127.0.0.1:0", "--graph-uri", bolt.URI(), "--kafka-bootstrap-servers", broker)
	c.env = append(c.env, "GRAPHMILL_SERVER="+p.find(t, `API +(http://\S+)`), "GRAPHMILL_KAFKA_BOOTSTRAP_SERVERS="+broker)
	require.Contains(t, p.banner, bolt.Address())

	require.Equal(t, exitDone, c.run(t, strings.Repeat(rating+"\n", 10), "produce", "ratings").status)
	c.must(t, "module", "push", "movies", moviesFile)
	c.must(t, "stream", "create", "ratings", "--topics", "ratings", "--transform", "movies", "--start-from", "earliest")
	c.must(t, "stream", "start", "ratings")
	c.awaitMessages(t, "ratings", 10)
	rows := 0
	for _, tx := range bolt.Committed() {
		for _, s := range tx.Statements {
			rows += len(s.Rows())
		}
	}
	require.Equal(t, 10, rows)
	p.stop(t)
	require.NotContains(t, p.banner+p.log.String(), password)
}

func TestRunNeedsNoServer(t *testing.T) {
	c := newCLI(t, "GRAPHMILL_SERVER=http://127.0.0.1:1")
	message := `{"payload":` + quoted(t, rating) + `,"topic":"ratings","partition":2,"offset":40}` + "\n"
	out := c.run(t, message+`{"payload":"no JSON"}`+"\n", "run", moviesFile, "--messages", "-")
	require.Equal(t, exitFailed, out.status, "one message has failed")
	require.Contains(t, out.out, "2 messages, 1 statement, 1 failure")
	require.Contains(t, out.out, "ratings/2 offset 40: "+rating)
	require.Contains(t, out.out, `{"movieId":1,"rating":4.5,"title":"Heat","userId":7}`)
	require.Contains(t, out.out, "failed: ")

	file := filepath.Join(c.dir, "in.jsonl")
	require.NoError(t, os.WriteFile(file, []byte(message), 0o600))
	golden := []string{"run", moviesFile + ".transform", "--messages", file, "--golden", "want.json"}
	require.Contains(t, c.run(t, "", golden...).err, "--update")
	require.Contains(t, c.must(t, append(golden, "--update")...), "wrote want.json: 1 statement")
	require.Contains(t, c.must(t, golden...), "as expected")
	require.NoError(t, os.WriteFile(file, []byte(strings.ReplaceAll(message, "4.5", "3.5")), 0o600))
	differs := c.run(t, "", golden...)
	require.Equal(t, exitFailed, differs.status)
	require.Contains(t, differs.err, "-         \"rating\": 4.5,\n+         \"rating\": 3.5,\n")

	require.Equal(t, exitFailed, c.run(t, message, "run", moviesFile+".rows", "--messages", "-").status)
	require.Equal(t, exitUsage, c.run(t, "", "run", moviesFile).status)

	verified := c.must(t, "module", "verify", moviesFile)
	require.Contains(t, verified, "can be pushed")
	text := filepath.Join(c.dir, "transform.py")
	require.NoError(t, os.WriteFile(text, []byte("def transform(messages): pass"), 0o600))
	refused := c.run(t, "", "module", "verify", text)
	require.Equal(t, exitFailed, refused.status)
	require.Contains(t, refused.err, "transform.py")
}

func quoted(t *testing.T, s string) string {
	t.Helper()
	b, err := json.Marshal(s)
	require.NoError(t, err)
	return string(b)
}

func TestWrongCommandLinesSayWhatToDo(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = taken.Close() }) // after the subtests, which run beside each other
	other := startOther(t)

	c := newCLI(t)
	missing := "no-such-file.wasm"
	for name, tc := range map[string]struct {
		args   []string
		env    string
		status int
		err    []string
	}{
		"unknown command":         {args: []string{"strem"}, status: exitUsage, err: []string{`no command "strem"; did you mean "stream"?`}},
		"unknown subcommand":      {args: []string{"stream", "strat", "x"}, status: exitUsage, err: []string{`did you mean "start"?`}},
		"unknown flag":            {args: []string{"serve", "--data-dri", "x"}, status: exitUsage, err: []string{"did you mean --data-dir?"}},
		"argument missing":        {args: []string{"module", "push", "m"}, status: exitUsage, err: []string{"takes NAME and FILE"}},
		"argument too many":       {args: []string{"version", "x"}, status: exitUsage, err: []string{"takes no argument"}},
		"no sink":                 {args: []string{"serve"}, status: exitUsage, err: []string{"--graph-uri is needed", "graphmill dev"}},
		"scheme of a web page":    {args: []string{"serve", "--listen", "127.0.0.1:0", "--graph-uri", "http://x"}, status: exitUsage, err: []string{"--graph-uri", "bolt"}},
		"password file missing":   {args: []string{"serve", "--listen", "127.0.0.1:0", "--graph-uri", "bolt://x", "--graph-user", "u", "--graph-password-file", "nowhere"}, status: exitUsage, err: []string{"--graph-password-file", "nowhere"}},
		"beyond loopback":         {args: []string{"serve", "--listen", ":7480", "--graph-uri", "ledger:x"}, status: exitUsage, err: []string{"--insecure-no-auth"}},
		"port taken":              {args: []string{"dev", "--listen", taken.Addr().String(), "--dev-kafka-listen", "127.0.0.1:0"}, status: exitFailed, err: []string{"another program listens on " + taken.Addr().String(), "--listen"}},
		"limit over the whole":    {args: []string{"dev", "--listen", "127.0.0.1:0", "--dev-kafka-listen", "127.0.0.1:0", "--limit-max-memory", "5GiB"}, status: exitUsage, err: []string{"--limit-max-memory"}},
		"brokers of dev":          {args: []string{"dev", "--kafka-bootstrap-servers", "x:1"}, status: exitUsage, err: []string{"a broker of its own"}},
		"transactions too short":  {args: []string{"serve", "--listen", "127.0.0.1:0", "--graph-uri", "bolt://x", "--transaction-timeout", "20ms"}, status: exitUsage, err: []string{"--transaction-timeout: 20ms is below 1s"}},
		"the same by variable":    {args: []string{"serve", "--listen", "127.0.0.1:0", "--graph-uri", "bolt://x"}, env: "GRAPHMILL_TRANSACTION_TIMEOUT=20ms", status: exitUsage, err: []string{"--transaction-timeout: 20ms is below 1s"}},
		"wrong variable":          {args: []string{"serve"}, env: "GRAPHMILL_DRAIN_TIMEOUT=soon", status: exitUsage, err: []string{`GRAPHMILL_DRAIN_TIMEOUT: "soon"`}},
		"unknown variable":        {args: []string{"serve"}, env: "GRAPHMILL_LISTNE=x", status: exitUsage, err: []string{"warning: ", "did you mean GRAPHMILL_LISTEN?"}},
		"no transform":            {args: []string{"stream", "create", "s", "--topics", "t"}, status: exitUsage, err: []string{"--transform"}},
		"no topics":               {args: []string{"stream", "create", "s", "--transform", "m"}, status: exitUsage, err: []string{"--topics"}},
		"bad name":                {args: []string{"stream", "create", "a b", "--topics", "t", "--transform", "m"}, status: exitUsage, err: []string{"NAME"}},
		"size 0":                  {args: []string{"stream", "create", "s", "--topics", "t", "--transform", "m", "--batch-size", "0"}, status: exitUsage, err: []string{"--batch-size"}},
		"part of a millisecond":   {args: []string{"stream", "create", "s", "--topics", "t", "--transform", "m", "--batch-interval", "1us"}, status: exitUsage, err: []string{"--batch-interval"}},
		"setting without a value": {args: []string{"stream", "create", "s", "--topics", "t", "--transform", "m", "--setting", "x"}, status: exitUsage, err: []string{"NAME=VALUE"}},
		"timeout alone":           {args: []string{"stream", "start", "s", "--timeout", "1s"}, status: exitUsage, err: []string{"--batch-limit"}},
		"limit of nothing":        {args: []string{"stream", "start", "s", "--batch-limit", "0"}, status: exitUsage, err: []string{"--batch-limit 0"}},
		"limit of all":            {args: []string{"stream", "start", "--all", "--batch-limit", "1"}, status: exitUsage, err: []string{"--batch-limit goes with names", "graphmill stream start NAME... --batch-limit 1"}},
		"accept for all":          {args: []string{"stream", "start", "--all", "--accept", "recreated"}, status: exitUsage, err: []string{"--accept goes with names", "graphmill stream start NAME... --accept recreated"}},
		"edit nothing":            {args: []string{"stream", "edit", "s"}, status: exitUsage, err: []string{"nothing to change"}},
		"no partition":            {args: []string{"stream", "offsets", "s", "--set", "1", "--partition", "t/"}, status: exitUsage, err: []string{"topic/number"}},
		"partition of nothing":    {args: []string{"stream", "offsets", "s", "--partition", "t/0"}, status: exitUsage, err: []string{"--set"}},
		"start nothing":           {args: []string{"stream", "start"}, status: exitUsage, err: []string{"--all"}},
		"output":                  {args: []string{"stream", "list", "-o", "xml"}, status: exitUsage, err: []string{"table, json, yaml"}},
		"no server":               {args: []string{"stream", "list", "--server", "127.0.0.1:1"}, status: exitFailed, err: []string{"no server is reached at http://127.0.0.1:1", "graphmill dev"}},
		"password of a server":    {args: []string{"stream", "list", "--server", "http://ann:hunter2@127.0.0.1:1"}, status: exitFailed, err: []string{"http://ann:xxxxx@127.0.0.1:1"}},
		"password, no address":    {args: []string{"stream", "list", "--server", "ftp://ann:hunter2@h"}, status: exitUsage, err: []string{"--server"}},
		"empty file":              {args: []string{"module", "push", "m", os.DevNull}, status: exitFailed, err: []string{os.DevNull + " is empty"}},
		"another server":          {args: []string{"stream", "list", "--server", other}, status: exitFailed, err: []string{"not Graphmill"}},
		"no address":              {args: []string{"stream", "list", "--server", "ftp://x"}, status: exitUsage, err: []string{"--server"}},
		"no file":                 {args: []string{"module", "push", "m", missing}, status: exitFailed, err: []string{missing}},
		"no broker":               {args: []string{"produce", "t", "--kafka-bootstrap-servers", "127.0.0.1:1"}, status: exitFailed, err: []string{"127.0.0.1:1", "--kafka-bootstrap-servers"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &cli{dir: t.TempDir(), env: c.env}
			if tc.env != "" {
				c.env = append(c.env[:len(c.env):len(c.env)], tc.env)
			}
			r := c.run(t, "", tc.args...)
			require.Equal(t, tc.status, r.status, "%s%s", r.out, r.err)
			for _, want := range tc.err {
				require.Contains(t, r.err, want)
			}
			require.NotContains(t, r.err, "goroutine", "no stack for a user")
			require.NotContains(t, r.err, "hunter2")
		})
	}
}

// startOther runs a web server that is not Graphmill.
func startOther(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	srv := &http.Server{Handler: http.NotFoundHandler()}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(l)
	}()
	t.Cleanup(func() {
		_ = srv.Close()
		<-done
	})
	return l.Addr().String()
}

func TestTwoServersDoNotShareADataDirectory(t *testing.T) {
	c := newCLI(t)
	first := c.dev(t)
	second := c.run(t, "", "dev", "--listen", "127.0.0.1:0", "--dev-kafka-listen", "127.0.0.1:0")
	require.Equal(t, exitFailed, second.status)
	require.Contains(t, second.err, "graphmill-data")
	first.stop(t)
}

func TestTakenBrokerPortGivesAFreeOneAndSaysSo(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = taken.Close() }()
	c := newCLI(t)
	p := c.start(t, "Nothing is stored", "dev", "--listen", "127.0.0.1:0", "--dev-kafka-listen", taken.Addr().String())
	broker := p.find(t, `broker +(\S+)`)
	require.NotEqual(t, taken.Addr().String(), broker)
	require.Contains(t, p.banner, taken.Addr().String()+" is taken")
	require.Contains(t, p.banner, "export GRAPHMILL_KAFKA_BOOTSTRAP_SERVERS="+broker)
	p.stop(t)
}

// loopModule logs "looping" and never comes back from its transformation:
//
//	(module
//	  (import "graphmill" "log" (func $log (param i32 i32 i32)))
//	  (memory (export "memory") 1)
//	  (func (export "graphmill_abi_v1"))
//	  (func (export "graphmill_alloc") (param i32) (result i32) (i32.const 1024))
//	  (func (export "transform") (param i32 i32) (result i64)
//	    (call $log (i32.const 1) (i32.const 0) (i32.const 7))
//	    (loop (br 0)) (unreachable))
//	  (data (i32.const 0) "looping"))
const loopModule = "\x00asm\x01\x00\x00\x00" +
	"\x01\x15\x04`\x00\x00`\x01\x7f\x01\x7f`\x02\x7f\x7f\x01~`\x03\x7f\x7f\x7f\x00" +
	"\x02\x11\x01\x09graphmill\x03log\x00\x03" +
	"\x03\x04\x03\x00\x01\x02" +
	"\x05\x03\x01\x00\x01" +
	"\x07;\x04\x06memory\x02\x00\x10graphmill_abi_v1\x00\x01\x0fgraphmill_alloc\x00\x02\x09transform\x00\x03" +
	"\x0a\x1b\x03\x02\x00\x0b\x05\x00A\x80\x08\x0b\x10\x00A\x01A\x00A\x07\x10\x00\x03@\x0c\x00\x0b\x00\x0b" +
	"\x0b\x0d\x01\x00A\x00\x0b\x07looping"

func TestSecondSignalEndsAtOnce(t *testing.T) {
	c := newCLI(t)
	p := c.dev(t, "--limit-time", "5m", "--drain-timeout", "5m")
	file := filepath.Join(c.dir, "loop.wasm")
	require.NoError(t, os.WriteFile(file, []byte(loopModule), 0o600))
	c.must(t, "module", "push", "loop", file)
	require.Equal(t, exitDone, c.run(t, "x\n", "produce", "events").status)
	c.must(t, "stream", "create", "loop", "--topics", "events", "--transform", "loop", "--start-from", "earliest", "--batch-interval", "1ms")
	c.must(t, "stream", "start", "loop")
	require.Eventually(t, func() bool { return strings.Contains(p.log.String(), "looping") }, time.Minute, 10*time.Millisecond)

	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	require.Eventually(t, func() bool { return strings.Contains(p.after.String(), "Stopping") }, time.Minute, 10*time.Millisecond)
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case <-p.done:
		state, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
		require.True(t, ok)
		require.True(t, state.Signaled(), "it ended by itself: %s", p.log)
	case <-time.After(time.Minute):
		require.Fail(t, "it does not end")
	}
}

func TestHelpTeaches(t *testing.T) {
	c := newCLI(t)
	root := c.must(t)
	for _, want := range []string{"graphmill dev", "stream check", "--graph-uri bolt://", "Run a server:", "Write transformations:"} {
		require.Contains(t, root, want)
	}
	require.Equal(t, root, c.must(t, "--help"))
	require.Contains(t, c.must(t, "stream", "create", "--help"), "cypher.event")
	require.Contains(t, c.must(t, "stream"), "Available Commands")
	require.Contains(t, c.must(t, "completion", "bash"), "graphmill")
	require.Contains(t, c.must(t, "version"), "graphmill ")

	var v versionAnswer
	require.NoError(t, json.Unmarshal([]byte(c.must(t, "version", "-o", "json")), &v))
	require.NotEmpty(t, v.Go)
}

func TestHealthAnswersFromTheServerItself(t *testing.T) {
	c := newCLI(t)
	p := c.dev(t)
	for _, path := range []string{"/healthz", "/readyz", "/docs", "/openapi.json"} {
		resp, err := http.Get(p.find(t, `API +(http://\S+)`) + path)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, 200, resp.StatusCode, path)
	}
	p.stop(t)
}
