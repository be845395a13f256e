package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// between puts a handler between commands and the server, and returns its address.
// What the handler does not answer itself it passes on.
func (p *process) between(t *testing.T, handle func(w http.ResponseWriter, r *http.Request, pass http.HandlerFunc)) string {
	t.Helper()
	target, err := url.Parse(p.find(t, `API +(http://\S+)`))
	require.NoError(t, err)
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target); r.Out.Host = target.Host }}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handle(w, r, proxy.ServeHTTP) }))
	t.Cleanup(s.Close)
	return s.URL
}

// creates says whether a request creates a stream, and not in a dry run.
func creates(r *http.Request) bool {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	return r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/streams") && !bytes.Contains(body, []byte("dry_run"))
}

// manyStreams defines so many streams; more is added to each.
func manyStreams(n int, more string) (definitions, told string) {
	var b, out strings.Builder
	b.WriteString("streams:\n")
	for i := range n {
		fmt.Fprintf(&b, "- {name: s%d, topics: [t], transform: movies.transform, state: running%s}\n", i, more)
		fmt.Fprintf(&out, "created stream s%d: running\n", i)
	}
	return b.String(), out.String()
}

func TestStreamsAreStartedSixteenAtOnceAndToldInOrder(t *testing.T) {
	c := newCLI(t)
	server := c.dev(t)
	c.must(t, "module", "push", "movies", moviesFile)
	require.Equal(t, exitDone, c.run(t, rating+"\n", "produce", "t").status)
	var starting, most atomic.Int32
	var once sync.Once
	all := make(chan struct{})
	address := server.between(t, func(w http.ResponseWriter, r *http.Request, pass http.HandlerFunc) {
		if strings.HasSuffix(r.URL.Path, ":start") {
			n := starting.Add(1)
			for was := most.Load(); n > was && !most.CompareAndSwap(was, n); was = most.Load() {
			}
			if n == streamsAtOnce {
				once.Do(func() { close(all) })
			}
			select {
			case <-all:
			case <-time.After(time.Minute): // they do not come
				once.Do(func() { close(all) })
			}
			defer starting.Add(-1)
		}
		pass(w, r)
	})
	text, told := manyStreams(20, "")
	c.write(t, "s.yaml", text)
	r := c.run(t, "", "apply", "-f", "s.yaml", "--server", address)
	require.Equal(t, exitDone, r.status, r.err)
	require.EqualValues(t, streamsAtOnce, most.Load())
	require.Contains(t, r.out, "\n"+told+"20 created, 0 changed, 0 unchanged\n")
	server.stop(t)
}

func TestOfTwoStreamsThatCannotRunTogetherTheFirstRuns(t *testing.T) {
	c := newCLI(t)
	server := c.dev(t)
	c.must(t, "module", "push", "movies", moviesFile)
	require.Equal(t, exitDone, c.run(t, rating+"\n", "produce", "t").status)
	second := make(chan struct{})
	address := server.between(t, func(w http.ResponseWriter, r *http.Request, pass http.HandlerFunc) {
		switch {
		case strings.HasSuffix(r.URL.Path, "s0:start"):
			select {
			case <-second: // it has overtaken
			case <-time.After(500 * time.Millisecond):
			}
		case strings.HasSuffix(r.URL.Path, "s1:start"):
			pass(w, r)
			select {
			case <-second:
			default:
				close(second)
			}
			return
		}
		pass(w, r)
	})
	text, _ := manyStreams(2, ", consumer_group: g")
	c.write(t, "s.yaml", text)
	r := c.run(t, "", "apply", "-f", "s.yaml", "--server", address)
	require.Equal(t, exitFailed, r.status)
	require.Contains(t, r.out, "created stream s0: running\n1 created, 0 changed, 0 unchanged, 1 failed\n")
	require.Contains(t, r.err, `error: s.yaml:3: stream s1: stream "s0" is running and reads topic "t"`)
	server.stop(t)
}

func TestAServerThatGoesAwayEndsAnApplyAndTheNextGoesOn(t *testing.T) {
	c := newCLI(t)
	server := c.dev(t)
	var created atomic.Int32
	address := server.between(t, func(w http.ResponseWriter, r *http.Request, pass http.HandlerFunc) {
		if creates(r) && created.Add(1) > 1 {
			panic(http.ErrAbortHandler)
		}
		pass(w, r)
	})
	text, _ := manyStreams(100, "")
	text = strings.ReplaceAll(text, ", state: running", "")
	c.write(t, "s.yaml", text)
	r := c.run(t, "", "apply", "-f", "s.yaml", "--server", address)
	require.Equal(t, exitFailed, r.status)
	require.Regexp(t, `(?m)^created stream s\d+: stopped$`, r.out)
	require.Regexp(t, `(?m)^1 created, 0 changed, 0 unchanged, \d+ failed, [6-9]\d not done$`, r.out)
	require.Equal(t, 1, strings.Count(r.err, "error: no server is reached at "+address), r.err)
	require.Contains(t, r.err, "next:  apply again")
	require.Contains(t, c.must(t, "apply", "-f", "s.yaml"), "99 created, 0 changed, 1 unchanged\n")
	none := c.run(t, "", "apply", "-f", "s.yaml", "--server", "127.0.0.1:1")
	require.Equal(t, exitFailed, none.status)
	require.Empty(t, none.out)
	server.stop(t)
}

func TestAnInterruptEndsAnApply(t *testing.T) {
	c := newCLI(t)
	server := c.dev(t)
	started := make(chan struct{}, 100)
	address := server.between(t, func(w http.ResponseWriter, r *http.Request, pass http.HandlerFunc) {
		if !creates(r) {
			pass(w, r)
			return
		}
		started <- struct{}{}
		<-r.Context().Done()
	})
	text, _ := manyStreams(100, "")
	c.write(t, "s.yaml", text)
	cmd := c.command(t.Context(), "apply", "-f", "s.yaml", "--server", address)
	var out, told bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &told
	require.NoError(t, cmd.Start())
	<-started
	require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		var exit *exec.ExitError
		require.True(t, errors.As(err, &exit))
		require.Equal(t, exitFailed, exit.ExitCode())
	case <-time.After(time.Minute):
		_ = cmd.Process.Kill()
		require.Fail(t, "it does not end")
	}
	require.Equal(t, 1, strings.Count(told.String(), "error: "), told.String())
	require.Contains(t, told.String(), "error: interrupted\n")
	require.Contains(t, out.String(), " not done\n")
	server.stop(t)
}
