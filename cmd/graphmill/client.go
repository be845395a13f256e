package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/api"
)

const (
	defaultServer = "http://127.0.0.1:7480"
	serverVar     = "GRAPHMILL_SERVER"
	tokenVar      = "GRAPHMILL_TOKEN_FILE" // the same for a server and for its callers
	jsonType      = "application/json"

	// readTimeout ends a GET that nobody answers; all that Graphmill answers to
	// one is at hand. What changes something may have to wait for its batches.
	readTimeout = 30 * time.Second

	maxAnswerBytes = 256 << 20
)

// client talks to the REST API of a server.
type client struct {
	server      string
	tokenFile   string // empty: no token is sent
	http        *http.Client
	readTimeout time.Duration
}

// clientFlag adds --server and --token-file to a command and everything below
// it, and makes them settings as those of a server are.
func (a *app) clientFlag(cmd *cobra.Command) *client {
	c := a.newClient(cmd.PersistentFlags())
	cmd.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { return a.loadClientSettings(cmd) }
	return c
}

// newClient adds the flags only: whoever calls it loads the settings.
func (a *app) newClient(fs *pflag.FlagSet) *client {
	c := &client{readTimeout: readTimeout, http: &http.Client{Transport: &http.Transport{
		DialContext:         (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
		TLSHandshakeTimeout: 10 * time.Second,
	}}}
	fs.StringVar(&c.server, "server", defaultServer, "address of the server (or "+serverVar+")")
	fs.StringVar(&c.tokenFile, "token-file", "", "file that holds the token of the server (or "+tokenVar+")")
	return c
}

// apiPath returns the path of something under /api/v1, its parts escaped.
func apiPath(parts ...string) string {
	var b strings.Builder
	b.WriteString("/api/v1")
	for _, p := range parts {
		b.WriteString("/" + url.PathEscape(p))
	}
	return b.String()
}

// streams returns all streams of the server.
func (c *client) streams(ctx context.Context) ([]api.Stream, error) {
	var all api.Streams
	err := c.call(ctx, http.MethodGet, apiPath("streams"), nil, &all)
	return all.Streams, err
}

// modules returns the active versions of all modules of the server.
func (c *client) modules(ctx context.Context) ([]graphmill.Module, error) {
	var all api.Modules
	err := c.call(ctx, http.MethodGet, apiPath("modules"), nil, &all)
	return all.Modules, err
}

// call sends in, if it is not nil, as JSON, and reads the answer into out, if
// that is not nil. What the server refuses is an *api.Problem.
func (c *client) call(ctx context.Context, method, path string, in, out any) error {
	if in == nil {
		return c.send(ctx, method, path, "", nil, out)
	}
	body, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("encode the request: %w", err)
	}
	return c.send(ctx, method, path, jsonType, body, out)
}

func (c *client) send(ctx context.Context, method, path, contentType string, body []byte, out any) error {
	return c.stream(ctx, method, path, contentType, bytes.NewReader(body), int64(len(body)), out)
}

// stream sends a body of so many bytes as it is read.
func (c *client) stream(ctx context.Context, method, path, contentType string, body io.Reader, size int64, out any) error {
	limited := ctx
	if method == http.MethodGet {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, c.readTimeout)
		defer cancel()
	}
	req, base, err := c.request(limited, method, path, body)
	if err != nil {
		return err
	}
	if req.ContentLength = size; size == 0 {
		req.Body = http.NoBody
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return c.unreachable(ctx, base, err)
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswerBytes+1))
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return fmt.Errorf("read the answer of %s: %w", base.Redacted(), err)
	case len(answer) > maxAnswerBytes:
		return fmt.Errorf("the answer of %s has more than %d MiB; ask for less at once", base.Redacted(), maxAnswerBytes>>20)
	case resp.StatusCode >= 400:
		return c.refused(base, resp, answer)
	case out == nil || resp.StatusCode == http.StatusNoContent:
		return nil
	}
	if media := mediaType(resp); media != jsonType || json.Unmarshal(answer, out) != nil {
		return c.notGraphmill(base, resp)
	}
	return nil
}

// request makes a request, with what all of them have in common.
func (c *client) request(ctx context.Context, method, path string, body io.Reader) (*http.Request, *url.URL, error) {
	base, err := c.base()
	if err != nil {
		return nil, nil, err
	}
	req, err := http.NewRequestWithContext(ctx, method, base.String()+path, body)
	if err != nil {
		return nil, nil, wrongUsage("--server is no address such as %s", defaultServer)
	}
	req.Header.Set("User-Agent", "graphmill/"+version())
	if c.tokenFile != "" {
		token, err := api.FirstToken(c.tokenFile)
		if err != nil {
			return nil, nil, asFlagOf(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return req, base, nil
}

// open sends a GET whose answer, of the wanted media type, is read as it comes.
// The caller closes its body.
func (c *client) open(ctx context.Context, path, wanted string, header http.Header) (*http.Response, error) {
	req, base, err := c.request(ctx, http.MethodGet, path, http.NoBody)
	if err != nil {
		return nil, err
	}
	for name, values := range header {
		req.Header[name] = values
	}
	resp, err := c.http.Do(req)
	switch {
	case err != nil:
		return nil, c.unreachable(ctx, base, err)
	case resp.StatusCode >= 400:
		defer func() { _ = resp.Body.Close() }()
		answer, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswerBytes)) // what cannot be read tells nothing
		return nil, c.refused(base, resp, answer)
	case mediaType(resp) != wanted:
		defer func() { _ = resp.Body.Close() }()
		return nil, c.notGraphmill(base, resp)
	}
	return resp, nil
}

func mediaType(resp *http.Response) string {
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return media
}

// base returns the server's URL without a slash at its end; host:port alone
// means http. It may hold a password, and is printed redacted only.
func (c *client) base() (*url.URL, error) {
	s := cmp.Or(c.server, defaultServer) // a variable may be set, and empty
	if !strings.Contains(s, "://") {
		s = "http://" + s
	}
	u, err := url.Parse(strings.TrimRight(s, "/"))
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, wrongUsage("--server is no address such as %s", defaultServer)
	}
	return u, nil
}

// shown is the server's address for people.
func (c *client) shown() string {
	base, err := c.base()
	if err != nil {
		return c.server
	}
	return base.Redacted()
}

func (c *client) unreachable(ctx context.Context, base *url.URL, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err // without method and path, which tell nothing here
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("nothing is answered within %s", c.readTimeout)
	}
	return &graphmill.Error{
		Kind: graphmill.KindUnavailable, Code: "server_unreachable",
		Text: "no server is reached at " + base.Redacted(),
		Next: "start one with 'graphmill dev' or 'graphmill serve', or name it with --server, " + serverVar + " or the line server of " + settingsFile,
		Err:  err,
	}
}

func (c *client) refused(base *url.URL, resp *http.Response, answer []byte) error {
	var p api.Problem
	if mediaType(resp) != "application/problem+json" || json.Unmarshal(answer, &p) != nil || p.Detail == "" {
		return c.notGraphmill(base, resp)
	}
	return &p
}

func (c *client) notGraphmill(base *url.URL, resp *http.Response) error {
	return &graphmill.Error{
		Kind: graphmill.KindUnavailable, Code: "no_graphmill",
		Text: fmt.Sprintf("what answers at %s is not Graphmill, or another version of it (status %s, %s)", base.Redacted(), resp.Status, resp.Header.Get("Content-Type")),
		Next: "look at --server, " + serverVar + " and the line server of " + settingsFile,
	}
}

// asProblem returns the problem in err's chain, or nil.
func asProblem(err error) *api.Problem {
	var p *api.Problem
	errors.As(err, &p)
	return p
}
