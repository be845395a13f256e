package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill/api"
)

// server answers every GET with no streams, and tells the token that it got.
func emptyServer(t *testing.T) (address string, token func() string) {
	var got string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Get("Authorization")
		w.Header().Set("Content-Type", jsonType)
		_ = json.NewEncoder(w).Encode(api.Streams{Streams: []api.Stream{}})
	}))
	t.Cleanup(srv.Close)
	return srv.URL, func() string { return got }
}

func TestCommandsTakeTheServerFromFlagsThenVariablesThenTheFile(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	fromFile, fileToken := emptyServer(t)
	fromVariable, variableToken := emptyServer(t)
	fromFlag, flagToken := emptyServer(t)
	for _, who := range []string{"file", "variable", "flag"} {
		write(who+".token", "token-of-the-"+who+"-1234567890\n")
	}
	// A server's settings stand in it, too.
	write("graphmill.yaml", "server: "+fromFile+"\ntoken-file: file.token\nlisten: 127.0.0.1:1\n")
	list := func(environ []string, args ...string) (int, string) {
		var out, errs bytes.Buffer
		a := &app{in: strings.NewReader(""), out: &out, err: &errs, environ: environ}
		return a.run(t.Context(), append([]string{"stream", "list"}, args...)), errs.String()
	}

	status, errs := list(nil)
	require.Equal(t, exitDone, status, errs)
	require.Equal(t, "Bearer token-of-the-file-1234567890", fileToken())

	variables := []string{"GRAPHMILL_SERVER=" + fromVariable, "GRAPHMILL_TOKEN_FILE=variable.token"}
	status, errs = list(variables)
	require.Equal(t, exitDone, status, errs)
	require.Equal(t, "Bearer token-of-the-variable-1234567890", variableToken())

	status, errs = list(variables, "--server", fromFlag, "--token-file", "flag.token")
	require.Equal(t, exitDone, status, errs)
	require.Equal(t, "Bearer token-of-the-flag-1234567890", flagToken())

	other := write("other.yaml", "server: "+fromFlag+"\n")
	status, errs = list([]string{"GRAPHMILL_CONFIG=" + other})
	require.Equal(t, exitDone, status, errs)
	require.Empty(t, flagToken(), "the file that is named is read in place of graphmill.yaml")

	status, errs = list([]string{"GRAPHMILL_SERVR=x"})
	require.Equal(t, exitDone, status)
	require.Contains(t, errs, "did you mean GRAPHMILL_SERVER?")

	write("graphmill.yaml", "sever: "+fromFile+"\n")
	status, errs = list(nil)
	require.Equal(t, exitUsage, status)
	require.Contains(t, errs, "did you mean server?")
	verified := (&app{in: strings.NewReader(""), out: &bytes.Buffer{}, err: &bytes.Buffer{}}).run(t.Context(), []string{"module", "verify", moviesFile})
	require.Equal(t, exitDone, verified, "what asks no server does not read its settings")
}

func TestProduceTakesItsBrokersFromTheFile(t *testing.T) {
	c := newCLI(t)
	p := c.dev(t)
	broker := p.find(t, `broker +(\S+)`)
	c.env = c.env[:2] // without its variables
	require.NoError(t, os.WriteFile(filepath.Join(c.dir, settingsFile), []byte("kafka-bootstrap-servers: ["+broker+"]\n"), 0o600))
	r := c.run(t, "one\n", "produce", "topic")
	require.Equal(t, exitDone, r.status, r.err)
	require.NoError(t, os.Remove(filepath.Join(c.dir, settingsFile)))
	p.stop(t)
}
