package api_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/api"
	"github.com/graphmill/graphmill/server"
	"github.com/graphmill/graphmill/server/events"
)

// stub stands in for the engine where a test is about HTTP alone, or needs an
// error that a real server cannot be brought to. What a test does not set is a
// nil call, and so a panic.
type stub struct {
	api.Engine
	push   func(server.PushRequest) (server.PushResult, error)
	run    func(server.RunRequest) (server.RunResult, error)
	create func(graphmill.StreamSpec, bool) (server.StreamInfo, error)
	stream func(name string) (server.StreamInfo, error)
	list   func() ([]server.StreamInfo, error)
	check  func(string, server.CheckRequest) ([]server.CheckBatch, error)
	all    func() ([]server.Changed, error)
	ready  error
	hub    *events.Hub
}

func (s *stub) PushModule(_ context.Context, r server.PushRequest) (server.PushResult, error) {
	return s.push(r)
}

func (s *stub) RunTransformation(_ context.Context, r server.RunRequest) (server.RunResult, error) {
	return s.run(r)
}

func (s *stub) CreateStream(_ context.Context, r server.CreateRequest) (server.StreamInfo, error) {
	return s.create(r.Spec, r.Check)
}

func (s *stub) Stream(_ context.Context, name string) (server.StreamInfo, error) {
	return s.stream(name)
}

func (s *stub) StartStream(_ context.Context, name string, _ server.StartRequest) (server.StartResult, error) {
	info, err := s.stream(name)
	return server.StartResult{StreamInfo: info}, err
}

func (s *stub) Streams(context.Context) ([]server.StreamInfo, error) { return s.list() }

func (s *stub) StartAll(context.Context) ([]server.Changed, error) { return s.all() }

func (s *stub) CheckStream(_ context.Context, name string, r server.CheckRequest) ([]server.CheckBatch, error) {
	return s.check(name, r)
}

func (s *stub) Events(_ context.Context, f events.Filter) (*events.Subscription, error) {
	return s.hub.Subscribe(f)
}

func (s *stub) Ready(context.Context) error { return s.ready }

// serve runs the API in front of e and returns its address.
func serve(t *testing.T, e api.Engine, cfg api.Config) string {
	t.Helper()
	h, err := api.New(e, cfg)
	require.NoError(t, err)
	return serveHandler(t, h)
}

func serveHandler(t *testing.T, h http.Handler) string {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv.URL
}

type request struct {
	method, path, contentType, body string
	header                          map[string]string
}

// send sends r and returns the status, the header, and the body as JSON.
func send(t *testing.T, base string, r request) (int, http.Header, map[string]any) {
	t.Helper()
	var body io.Reader
	if r.body != "" {
		body = strings.NewReader(r.body)
	}
	if r.header["X-Streamed"] != "" {
		body = struct{ io.Reader }{body} // its length is not known beforehand
	}
	req, err := http.NewRequest(r.method, base+r.path, body)
	require.NoError(t, err)
	if r.contentType != "" {
		req.Header.Set("Content-Type", r.contentType)
	}
	for k, v := range r.header {
		if k == "Host" {
			req.Host = v
		}
		req.Header.Set(k, v)
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	var out map[string]any
	if len(data) > 0 {
		require.NoError(t, json.Unmarshal(data, &out), "%s", data)
	}
	return resp.StatusCode, resp.Header, out
}

const jsonType = "application/json"

// logTo returns a logger that writes all lines to w.
func logTo(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug}))
}
