package main

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill/api"
)

func TestClientTellsWhatIsNoAnswerOfGraphmill(t *testing.T) {
	for name, tc := range map[string]struct {
		status      int
		contentType string
		body        string
		want        string
	}{
		"a web page":                {200, "text/html", "<html>", "is not Graphmill"},
		"JSON that says it is text": {200, "text/plain", `{"streams":[]}`, "is not Graphmill"},
		"broken JSON":               {200, jsonType, `{"streams":`, "is not Graphmill"},
		"an error page":             {500, "text/html", "<h1>boom</h1>", "is not Graphmill"},
		"an error of another kind":  {404, "application/problem+json", `{"title":"x"}`, "is not Graphmill"},
		"an answer that is cut":     {200, jsonType, "", "unexpected EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", tc.contentType)
				if tc.body == "" {
					w.Header().Set("Content-Length", "100")
				}
				w.WriteHeader(tc.status)
				_, _ = w.Write([]byte(tc.body))
			}))
			t.Cleanup(srv.Close)
			c := &client{server: srv.URL, http: srv.Client(), readTimeout: time.Minute}
			var streams api.Streams
			require.ErrorContains(t, c.call(t.Context(), http.MethodGet, apiPath("streams"), nil, &streams), tc.want)
		})
	}
}

func TestClientDoesNotWaitForEverForWhatIsAtHand(t *testing.T) {
	release := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	t.Cleanup(srv.Close)
	t.Cleanup(func() { close(release) })
	c := &client{server: srv.URL, http: srv.Client(), readTimeout: 50 * time.Millisecond}
	err := c.call(t.Context(), http.MethodGet, apiPath("streams"), nil, nil)
	require.ErrorContains(t, err, "nothing is answered within 50ms")
}
