package api_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/api"
	"github.com/graphmill/graphmill/server"
)

// seenVersion is seenModule with other bytes: a custom section behind the rest.
func seenVersion(n int) string {
	return seenModule + string(section(0, sized([]byte("version")), []byte{byte(n)}))
}

func TestVersionsAreRolledBackAndRemoved(t *testing.T) {
	w := newWorld(t)
	for n := range 3 {
		w.do(t, 201, "PUT", "/modules/seen", seenVersion(n))
	}
	back := w.do(t, 200, "POST", "/modules/seen:rollback", "")
	require.Equal(t, 2.0, back["version"], "no body: the one before")
	require.Equal(t, true, back["active"])
	require.Equal(t, 1.0, w.do(t, 200, "POST", "/modules/seen:rollback", "{}")["version"])
	require.Equal(t, "no_earlier_version", w.do(t, 409, "POST", "/modules/seen:rollback", "{}")["code"])
	require.Equal(t, 3.0, w.do(t, 200, "POST", "/modules/seen:rollback", `{"version":3}`)["version"], "forward")
	require.Equal(t, 3.0, w.do(t, 200, "GET", "/modules/seen", "")["active"])
	absent := w.do(t, 404, "POST", "/modules/seen:rollback", `{"version":4}`)
	require.Equal(t, "version_not_found", absent["code"])
	require.Equal(t, "there are: 3, 2, 1", absent["next_step"])
	for body, field := range map[string]string{`{"version":0}`: "version", `{"version":null}`: "version", ` {"version" : null }`: "version", `{"version":-1}`: "version", `{"version":"2"}`: "version", `{"versoin":2}`: "versoin"} {
		require.Equal(t, field, w.do(t, 422, "POST", "/modules/seen:rollback", body)["field"], body)
	}

	require.Equal(t, "version_active", w.do(t, 409, "DELETE", "/modules/seen/versions/3", "")["code"])
	w.do(t, 204, "DELETE", "/modules/seen/versions/2", "")
	require.Equal(t, "version_not_found", w.do(t, 404, "DELETE", "/modules/seen/versions/2", "")["code"])
	require.Equal(t, "version_not_found", w.do(t, 404, "GET", "/modules/seen/versions/2", "")["code"])
	require.Equal(t, 1.0, w.do(t, 200, "GET", "/modules/seen/versions/1", "")["version"])

	w.do(t, 201, "POST", "/streams", `{"name":"s","topics":["t"],"transform":"seen","check":false}`)
	require.Equal(t, []any{map[string]any{"stream": "s", "function": "transform", "state": "stopped"}}, w.do(t, 200, "GET", "/modules/seen", "")["streams"])
	w.do(t, 204, "DELETE", "/modules/seen/versions/1", "")
	require.Equal(t, "module_in_use", w.do(t, 409, "DELETE", "/modules/seen/versions/3", "")["code"], "the only one is the module")
	w.do(t, 204, "DELETE", "/streams/s", "")
	w.do(t, 204, "DELETE", "/modules/seen/versions/3", "")
	require.Equal(t, "module_not_found", w.do(t, 404, "POST", "/modules/seen:rollback", "")["code"])
}

func TestTwentyUploadsAtOnce(t *testing.T) {
	w := newWorld(t)
	var uploads sync.WaitGroup
	var mu sync.Mutex
	answers := map[string]map[float64]int{} // by name: how often each version was answered
	upload := func(name, body string) {
		uploads.Go(func() {
			status, _, answer := send(t, w.base, request{method: "PUT", path: "/api/v1/modules/" + name, contentType: server.ContentTypeWasm, body: body})
			if !assert.Contains(t, []int{200, 201}, status, "%v", answer) {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if answers[name] == nil {
				answers[name] = map[float64]int{}
			}
			answers[name][answer["version"].(float64)]++
		})
	}
	for n := range 20 {
		upload("versions", seenVersion(n))
		upload("same", seenModule)
		upload(fmt.Sprintf("name-%d", n), seenVersion(n))
	}
	uploads.Wait()

	require.Equal(t, map[float64]int{1: 20}, answers["same"], "one version of the same bytes")
	require.Len(t, answers["versions"], 20, "a number each")
	shown := w.do(t, 200, "GET", "/modules/versions", "")
	require.Len(t, shown["versions"], 20)
	require.Equal(t, 20.0, shown["active"], "the one that was stored last")
	sums := map[any]bool{}
	for _, v := range shown["versions"].([]any) {
		sums[v.(map[string]any)["sha256"]] = true
	}
	require.Len(t, sums, 20)
	require.Len(t, w.do(t, 200, "GET", "/modules", "")["modules"], 22)
}

func TestUploadsWaitWhereTheyWouldFillTheMemory(t *testing.T) {
	const limit, uploads = 1 << 20, 20
	arrived, release := make(chan struct{}), make(chan struct{})
	e := &stub{push: func(r server.PushRequest) (server.PushResult, error) {
		arrived <- struct{}{}
		<-release
		return server.PushResult{Module: graphmill.Module{Name: r.Name, Version: 1}, Created: true}, nil
	}}
	base := serve(t, e, api.Config{MaxModuleBytes: limit})
	upload := func(size int, header map[string]string) int {
		status, _, _ := send(t, base, request{method: http.MethodPut, path: "/api/v1/modules/m", contentType: server.ContentTypeWasm, body: strings.Repeat("x", size), header: header})
		return status
	}
	for _, c := range []struct {
		name   string
		size   int
		header map[string]string
		atOnce int
	}{
		{"large ones", limit, nil, 4},
		{"ones that do not tell their size", 100, map[string]string{"X-Streamed": "yes"}, 4},
		{"small ones", 100, nil, uploads},
	} {
		t.Run(c.name, func(t *testing.T) {
			var all sync.WaitGroup
			for range uploads {
				all.Go(func() { assert.Equal(t, http.StatusCreated, upload(c.size, c.header)) })
			}
			for range c.atOnce {
				<-arrived
			}
			require.Equal(t, http.StatusRequestEntityTooLarge, upload(limit+1, nil), "what is refused does not wait")
			if c.atOnce < uploads {
				select {
				case <-arrived:
					assert.Fail(t, "one more is taken in hand")
				case <-time.After(50 * time.Millisecond):
				}
			}
			for range c.atOnce {
				release <- struct{}{}
			}
			for range uploads - c.atOnce {
				<-arrived
				release <- struct{}{}
			}
			all.Wait()
		})
	}
}

func TestModuleIsDownloadedAsItWasUploaded(t *testing.T) {
	w := newWorld(t)
	w.do(t, 201, "PUT", "/modules/seen", seenModule)
	resp, err := http.Get(w.base + "/api/v1/modules/seen/versions/1/content")
	require.NoError(t, err)
	content, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, 200, resp.StatusCode)
	require.Equal(t, "application/wasm", resp.Header.Get("Content-Type"))
	require.Equal(t, seenModule, string(content))
	require.Equal(t, "version_not_found", w.do(t, 404, "GET", "/modules/seen/versions/2/content", "")["code"])
	require.Equal(t, "module_not_found", w.do(t, 404, "GET", "/modules/absent/versions/1/content", "")["code"])
	require.Equal(t, "version", w.do(t, 422, "GET", "/modules/seen/versions/0/content", "")["field"])
}
