package api_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/api"
	"github.com/graphmill/graphmill/server"
)

const (
	annesToken  = "pl4nted-token-of-anne"
	nameless    = "pl4nted-token-with/odd+chars=~"
	wrongTokens = "pl4nted-token-of-anni"
)

func tokenFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tokens")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// guarded serves a stub to callers with a token, and returns its log.
func guarded(t *testing.T, path string) (base string, started *int, log *bytes.Buffer) {
	t.Helper()
	log = &bytes.Buffer{}
	logger := slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	tokens, err := api.OpenTokens(path, logger)
	require.NoError(t, err)
	started = new(int)
	e := &stub{stream: func(string) (server.StreamInfo, error) { *started++; return server.StreamInfo{}, nil }}
	return serve(t, e, api.Config{Tokens: tokens, Logger: logger}), started, log
}

func TestOnlyATokenLetsIn(t *testing.T) {
	base, started, log := guarded(t, tokenFile(t, "# operators\nanne:"+annesToken+"\r\n\n  nobody.in-particular@x:"+nameless+"\n"))
	start := func(authorization string) int {
		*started = 0
		header := map[string]string{"Authorization": authorization}
		if authorization == "" {
			header = nil
		}
		status, got, body := send(t, base, request{method: "POST", path: "/api/v1/streams/s:start", header: header})
		require.Equal(t, status == 200, *started == 1, "what is refused does nothing")
		if status == 401 {
			require.Equal(t, "Bearer", got.Get("WWW-Authenticate"))
			require.Equal(t, "unauthorized", body["code"])
			require.NotContains(t, fmt.Sprint(body), "pl4nted")
		}
		return status
	}
	require.Equal(t, 200, start("Bearer "+annesToken))
	require.Equal(t, 200, start("bearer  "+nameless))
	for _, a := range []string{
		"", "Bearer", "Bearer ", annesToken, "Basic " + annesToken, "Bearer " + wrongTokens, "Bearer anne:" + annesToken,
		"Bearer " + annesToken[:len(annesToken)-1], "Bearer " + annesToken + "x", "Bearer " + strings.Repeat("x", 10_000),
	} {
		require.Equal(t, 401, start(a), a)
	}
	*started = 0
	r, err := http.NewRequest("POST", base+"/api/v1/streams/s:start", nil)
	require.NoError(t, err)
	r.Header["Authorization"] = []string{"Bearer " + annesToken, "Bearer " + wrongTokens}
	resp, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, 401, resp.StatusCode, "of two headers, a proxy in front may have looked at the other")
	require.Zero(t, *started)
	require.Contains(t, log.String(), "caller=anne")
	require.NotContains(t, log.String(), "pl4nted")
	require.Equal(t, 1, strings.Count(log.String(), "were refused"), "a flood of tries does not fill the log")
}

func TestWithATokenEverythingButTheProbesNeedsIt(t *testing.T) {
	base, _, _ := guarded(t, tokenFile(t, annesToken))
	for path, want := range map[string]int{
		"/healthz": 200, "/readyz": 200,
		"/docs": 401, "/openapi.json": 401, "/api/v1/streams": 401, "/api/v1/modules": 401, "/nothing": 401,
		"/healthz/../api/v1/streams": 401, "//healthz": 401, "/healthz%2f..%2fapi": 401,
	} {
		status, _, _ := send(t, base, request{method: "GET", path: path})
		require.Equal(t, want, status, path)
	}
}

func TestTokensAreExchangedWithoutARestart(t *testing.T) {
	path := tokenFile(t, annesToken)
	base, _, log := guarded(t, path)
	let := func(token string) bool {
		status, _, _ := send(t, base, request{method: "GET", path: "/nothing", header: map[string]string{"Authorization": "Bearer " + token}})
		return status != 401
	}
	require.True(t, let(annesToken))
	const fresh = "pl4nted-fresh-token"
	require.NoError(t, os.WriteFile(path, []byte("bert:"+fresh), 0o600))
	require.Eventually(t, func() bool { return let(fresh) }, time.Minute, 50*time.Millisecond)
	require.False(t, let(annesToken))

	require.NoError(t, os.WriteFile(path, []byte("short"), 0o600))
	require.Eventually(t, func() bool { let(fresh); return strings.Contains(log.String(), "cannot be read anew") }, time.Minute, 50*time.Millisecond)
	require.True(t, let(fresh), "a file that will not do leaves the tokens as they were")
	require.NotContains(t, log.String(), "pl4nted")
}

// Each in place of the file must neither let anybody in nor hold up those who
// have a token.
func TestWhatTakesThePlaceOfTheTokensLeavesThemAsTheyWere(t *testing.T) {
	for name, put := range map[string]func(path string) error{
		"nothing":                  func(string) error { return nil },
		"a folder":                 func(path string) error { return os.Mkdir(path, 0o700) },
		"a pipe that nobody fills": func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"a link to itself":         func(path string) error { return os.Symlink(path, path) },
		"an endless device":        func(path string) error { return os.Symlink("/dev/zero", path) },
		"an empty file":            func(path string) error { return os.WriteFile(path, nil, 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := tokenFile(t, annesToken)
			base, _, log := guarded(t, path)
			require.NoError(t, os.Remove(path))
			require.NoError(t, put(path))
			require.Eventually(t, func() bool {
				status, _, _ := send(t, base, request{method: "GET", path: "/api/v1/nothing", header: map[string]string{"Authorization": "Bearer " + annesToken}})
				require.Equal(t, 404, status)
				return strings.Contains(log.String(), "cannot be read anew")
			}, time.Minute, 50*time.Millisecond)
			status, _, _ := send(t, base, request{method: "GET", path: "/api/v1/nothing", header: map[string]string{"Authorization": "Bearer " + wrongTokens}})
			require.Equal(t, 401, status)
		})
	}
}

func TestTokensOfTheSameTimeAndSizeAreReadAnewToo(t *testing.T) {
	path := tokenFile(t, annesToken)
	base, _, _ := guarded(t, path)
	info, err := os.Stat(path)
	require.NoError(t, err)
	other := tokenFile(t, wrongTokens)
	require.NoError(t, os.Chtimes(other, info.ModTime(), info.ModTime()))
	require.NoError(t, os.Rename(other, path))
	require.Eventually(t, func() bool {
		status, _, _ := send(t, base, request{method: "GET", path: "/api/v1/nothing", header: map[string]string{"Authorization": "Bearer " + annesToken}})
		return status == 401
	}, time.Minute, 50*time.Millisecond)
}

func TestAFileOfTokensThatWillNotDoIsToldWithoutItsText(t *testing.T) {
	for name, text := range map[string]string{
		"empty":              "",
		"only comments":      "# pl4nted\n",
		"a short token":      "anne:pl4nted",
		"a blank in a token": "pl4nted pl4nted pl4nted",
		"not text":           "pl4nted-token-of-anne\xff\x00\x01",
		"too large":          strings.Repeat("pl4nted-token-of-anne\n", 60_000),
		"too many":           strings.Repeat("pl4nted-token-of-anne\n", 1001),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := api.OpenTokens(tokenFile(t, text), nil)
			require.Equal(t, graphmill.KindInvalid, graphmill.KindOf(err))
			require.NotContains(t, err.Error(), "pl4nted")
		})
	}
	for _, path := range []string{filepath.Join(t.TempDir(), "absent"), t.TempDir()} {
		_, err := api.OpenTokens(path, nil)
		require.Equal(t, graphmill.KindInvalid, graphmill.KindOf(err))
		_, err = api.FirstToken(path)
		require.Equal(t, graphmill.KindInvalid, graphmill.KindOf(err))
	}
}
