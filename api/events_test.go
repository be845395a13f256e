package api_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/api"
	"github.com/graphmill/graphmill/server/events"
)

// follow opens the events and returns the blocks of lines as they come.
func follow(t *testing.T, base, query string, header map[string]string) (<-chan string, *http.Response) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/api/v1/events"+query, nil)
	require.NoError(t, err)
	for k, v := range header {
		req.Header.Set(k, v)
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Equal(t, "text/event-stream", resp.Header.Get("Content-Type"))
	blocks, done := make(chan string), make(chan struct{})
	go func() {
		defer close(done)
		defer close(blocks)
		lines := bufio.NewScanner(resp.Body)
		block := ""
		for lines.Scan() {
			if lines.Text() != "" {
				block += lines.Text() + "\n"
				continue
			}
			select {
			case blocks <- block:
			case <-ctx.Done():
				return
			}
			block = ""
		}
	}()
	t.Cleanup(func() {
		cancel()
		_ = resp.Body.Close()
		<-done
	})
	require.Equal(t, "retry: 2000\n", next(t, blocks))
	return blocks, resp
}

func next(t *testing.T, blocks <-chan string) string {
	t.Helper()
	select {
	case b, ok := <-blocks:
		require.True(t, ok, "the events have ended")
		return b
	case <-time.After(time.Minute):
		require.FailNow(t, "no event comes")
		return ""
	}
}

func warning(stream, text string) graphmill.Event {
	return graphmill.Event{At: time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC), Type: graphmill.EventWarning, Stream: stream, Text: text}
}

func TestEventsAreSentAsTheyHappen(t *testing.T) {
	hub := events.NewHub()
	base := serve(t, &stub{hub: hub}, api.Config{})
	blocks, _ := follow(t, base, "?stream=a&types=warning,state", nil)
	hub.Publish(warning("b", "of another stream"))
	hub.Publish(graphmill.Event{Type: graphmill.EventFailure, Stream: "a", Failure: &graphmill.FailureStatus{}})
	hub.Publish(warning("a", "<two>\nlines"))
	block := next(t, blocks)
	lines := strings.Split(block, "\n")
	require.Regexp(t, `^id: \w+-3$`, lines[0])
	require.Equal(t, "event: warning", lines[1])
	id := strings.TrimPrefix(lines[0], "id: ")
	require.Equal(t, fmt.Sprintf(`data: {"id":%q,"at":"2026-01-31T12:00:00Z","type":"warning","stream":"a","text":"<two>\nlines"}`, id), lines[2])

	hub.Publish(warning("a", "missed"))
	require.Contains(t, next(t, blocks), `"missed"`)
	back, _ := follow(t, base, "?stream=a", map[string]string{"Last-Event-ID": id})
	require.Contains(t, next(t, back), `"missed"`)
	lost, _ := follow(t, base, "", map[string]string{"Last-Event-ID": strings.Repeat("x", 1000)})
	require.Regexp(t, `^event: lagged\ndata: .*"lagged":\{"lost":-1\}\}\n$`, next(t, lost))
}

func TestEventsThatCannotBeFollowed(t *testing.T) {
	hub := events.NewHub()
	base := serve(t, &stub{hub: hub}, api.Config{LocalOnly: true})
	for name, c := range map[string]struct {
		path   string
		header map[string]string
		status int
		says   string
	}{
		"a type that there is not": {"?types=state,birthday", nil, 422, "birthday"},
		"no name of a stream":      {"?stream=%2e%2e", nil, 422, "stream"},
		"an unknown parameter":     {"?strem=s", nil, 422, "stream"},
		"given twice":              {"?types=state&types=module", nil, 422, "twice"},
		"a foreign host":           {"", map[string]string{"Host": "evil.example"}, 403, "host"},
	} {
		t.Run(name, func(t *testing.T) {
			status, _, problem := send(t, base, request{method: "GET", path: "/api/v1/events" + c.path, header: c.header})
			require.Equal(t, c.status, status)
			require.Contains(t, fmt.Sprint(problem), c.says)
		})
	}
	require.Equal(t, 0, hub.Readers())
	status, header, _ := send(t, base, request{method: "HEAD", path: "/api/v1/events"})
	require.Equal(t, 200, status, "HEAD ends at once")
	require.Equal(t, "text/event-stream", header.Get("Content-Type"))
}

func TestReadersThatLeaveMakeRoomAndTooManyAreRefused(t *testing.T) {
	hub := events.NewHub()
	base := serve(t, &stub{hub: hub}, api.Config{})
	var last *http.Response
	for range events.MaxSubscribers {
		_, last = follow(t, base, "", nil)
	}
	status, _, problem := send(t, base, request{method: "GET", path: "/api/v1/events"})
	require.Equal(t, 503, status)
	require.Equal(t, "too_many_readers", problem["code"])
	_ = last.Body.Close()
	require.Eventually(t, func() bool { return hub.Readers() < events.MaxSubscribers }, time.Minute, 5*time.Millisecond,
		"one who has gone is noticed although nothing happens")
	follow(t, base, "", nil)
}

func TestReadersThatVanishKeepNoPlace(t *testing.T) {
	hub := events.NewHub()
	base := serve(t, &stub{hub: hub}, api.Config{})
	address := strings.TrimPrefix(base, "http://")
	vanish := func(n int) error {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			return err
		}
		defer conn.Close()
		if n%3 == 0 {
			_ = conn.(*net.TCPConn).SetLinger(0) // by a reset
		}
		if _, err := io.WriteString(conn, "GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			return err
		}
		if n%2 == 0 { // once the answer has begun
			_, _ = conn.Read(make([]byte, 1))
		}
		return nil
	}
	var readers errgroup.Group
	readers.SetLimit(32)
	for n := range 1000 {
		readers.Go(func() error { return vanish(n) })
	}
	require.NoError(t, readers.Wait())
	require.Eventually(t, func() bool { return hub.Readers() == 0 }, time.Minute, 5*time.Millisecond)
	blocks, _ := follow(t, base, "", nil)
	hub.Publish(warning("s", "for the one who stays"))
	require.Contains(t, next(t, blocks), "for the one who stays")
}

func TestEventsEndWithTheServer(t *testing.T) {
	hub := events.NewHub()
	base := serve(t, &stub{hub: hub}, api.Config{})
	blocks, _ := follow(t, base, "", nil)
	hub.Publish(warning("s", "the last"))
	hub.Close()
	require.Contains(t, next(t, blocks), "the last")
	_, more := <-blocks
	require.False(t, more)
}

func TestMetricsAreServedBesideTheAPI(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "graphmill_test", Help: "A test."}))
	get := func(base, host string) (int, string) {
		req, err := http.NewRequest(http.MethodGet, base+"/metrics", nil)
		require.NoError(t, err)
		if host != "" {
			req.Host = host
		}
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer func() { _ = resp.Body.Close() }()
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp.StatusCode, string(body)
	}
	base := serve(t, &stub{}, api.Config{Metrics: registry, LocalOnly: true})
	status, body := get(base, "")
	require.Equal(t, 200, status)
	require.Equal(t, "# HELP graphmill_test A test.\n# TYPE graphmill_test gauge\ngraphmill_test 0\n", body)
	status, _ = get(base, "evil.example")
	require.Equal(t, 403, status, "the guard of the API stands before it")

	tokens, err := api.OpenTokens(tokenFile(t, annesToken), nil)
	require.NoError(t, err)
	status, _ = get(serve(t, &stub{}, api.Config{Metrics: registry, Tokens: tokens}), "")
	require.Equal(t, 200, status, "open where nothing else is said")
	status, body = get(serve(t, &stub{}, api.Config{Metrics: registry, Tokens: tokens, MetricsAuth: true}), "")
	require.Equal(t, 401, status)
	require.NotContains(t, body, "graphmill_test")
	status, _ = get(serve(t, &stub{}, api.Config{}), "")
	require.Equal(t, 404, status)
}
