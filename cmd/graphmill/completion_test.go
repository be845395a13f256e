package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/api"
)

// offered asks as the scripts of graphmill completion do, and returns the names.
func offered(t *testing.T, server string, args ...string) (names []string, directive string) {
	t.Helper()
	t.Chdir(t.TempDir())
	var out, errs bytes.Buffer
	a := &app{in: strings.NewReader(""), out: &out, err: &errs, environ: []string{"GRAPHMILL_SERVER=" + server, "GRAPHMILL_TYPO=x"}}
	require.Equal(t, exitDone, a.run(t.Context(), append([]string{"__complete"}, args...)))
	require.NotContains(t, errs.String(), "error")
	require.NotContains(t, errs.String(), "warning")
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	return lines[:len(lines)-1], lines[len(lines)-1]
}

func TestTheShellOffersNamesOfTheServer(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", jsonType)
		var answer any = api.Modules{Modules: []graphmill.Module{
			{Name: "movies", Transformations: []string{"transform"}}, {Name: "cypher", Transformations: []string{"event", "batch"}},
		}}
		if r.URL.Path == "/api/v1/streams" {
			answer = api.Streams{Streams: []api.Stream{
				{StreamDefinition: api.StreamDefinition{Name: "ratings"}}, {StreamDefinition: api.StreamDefinition{Name: "people"}}, {StreamDefinition: api.StreamDefinition{Name: "places"}},
			}}
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	defer srv.Close()
	const noFiles, files = ":4", ":0"
	for _, c := range []struct {
		line, want, directive string
	}{
		{"stream show |", "people places ratings", noFiles},
		{"stream check p|", "people places", noFiles},
		{"stream offsets |", "people places ratings", noFiles},
		{"stream edit r|", "ratings", noFiles},
		{"stream drop x|", "", noFiles},
		{"stream show people |", "", noFiles},
		{"stream start people |", "places ratings", noFiles},
		{"stream stop people places ratings |", "", noFiles},
		{"stream create new --transform cy|", "cypher.batch cypher.event", noFiles},
		{"events --stream ra|", "ratings", noFiles},
		{"module show |", "cypher movies", noFiles},
		{"module rollback m|", "movies", noFiles},
		{"module rm |", "cypher movies", noFiles},
		{"module push |", "cypher movies", noFiles},
		{"module push movies |", "", files},
	} {
		names, directive := offered(t, srv.URL, strings.Split(strings.TrimSuffix(c.line, "|"), " ")...)
		require.Equal(t, c.want, strings.Join(names, " "), c.line)
		require.Equal(t, c.directive, directive, c.line)
	}
}

func TestTheShellIsNotHeldUpByAServerThatIsAwayOrSilent(t *testing.T) {
	began := time.Now()
	for _, server := range []string{unusedAddress(t), silentListener(t), "no address"} {
		names, _ := offered(t, server, "stream", "show", "")
		require.Empty(t, names)
	}
	require.Less(t, time.Since(began), time.Minute)
}
