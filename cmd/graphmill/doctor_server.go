package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/api"
)

// serverAt is a client of the server at an address.
func (d *doctor) serverAt(address string) *client {
	return &client{
		server: address, tokenFile: d.settings.tokenFile, readTimeout: time.Minute, // the check's own limit is shorter
		http: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
	}
}

// runningServer asks the server that runs, if one does, for its streams, and
// looks whether the one that is to run finds its address free.
func (d *doctor) runningServer(ctx context.Context) []finding {
	named := d.server != ""
	address := d.server
	if !named {
		address = d.settings.listen
	}
	c := d.serverAt(address)
	streams, err := c.streams(ctx)
	nobody := graphmill.KindOf(err) == graphmill.KindUnavailable && asProblem(err) == nil
	var findings []finding
	switch {
	case err == nil:
		findings = streamFindings(address, streams)
	case ctx.Err() != nil:
		findings = []finding{silentFinding("the server at "+address, c.takesConnections(ctx))}
	case nobody && !named:
		findings = []finding{ok("none runs at %s", address)}
	default:
		findings = []finding{failed(err)}
	}
	if named || nobody {
		findings = append(findings, d.listenAddress(ctx)...)
	}
	return findings
}

// listenAddress looks whether a server finds its address free, by taking it for a
// moment.
func (d *doctor) listenAddress(ctx context.Context) []finding {
	address := d.settings.listen
	if _, _, err := net.SplitHostPort(address); err != nil {
		return nil // told among the settings
	}
	l, err := listen(ctx, "listen", address)
	if err == nil {
		_ = l.Close()
		return []finding{ok("%s is free to listen on", address)}
	}
	_, asked := d.serverAt(address).streams(ctx)
	if asked == nil || asProblem(asked) != nil {
		return []finding{ok("a server listens on %s already; another one needs an address of its own (--listen)", address)}
	}
	return []finding{failed(err)}
}

// silentFinding tells what answers nothing from what cannot be connected to.
func silentFinding(what string, connects bool) finding {
	if connects {
		return fail("see whether it is overloaded, or whether another program listens there", "%s takes the connection, and answers nothing within %s", what, checkLimit)
	}
	return fail("see whether it runs, and whether a firewall lets nothing through", "%s does not take a connection within %s", what, checkLimit)
}

// takesConnections tells whether something listens at the server's address.
func (c *client) takesConnections(ctx context.Context) bool {
	base, err := c.base()
	if err != nil {
		return false
	}
	port := base.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[base.Scheme]
	}
	return connects(ctx, net.JoinHostPort(base.Hostname(), port))
}

// connects tells whether something listens at host:port, also where the check's
// time is over.
func connects(ctx context.Context, address string) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

func streamFindings(server string, streams []api.Stream) []finding {
	counts := map[graphmill.State]int{}
	var trouble []finding
	for _, s := range streams {
		counts[s.State]++
		r := s.Reason
		if r == nil {
			continue
		}
		f := warn(r.NextStep, "stream %s is %s, %s: %s", s.Name, s.State, r.Code, r.Text)
		if s.State == graphmill.StateFailed || s.State == graphmill.StateBroken {
			f.Result = isFail
		}
		trouble = append(trouble, f)
	}
	states := make([]string, 0, len(counts))
	for state, n := range counts {
		states = append(states, fmt.Sprintf("%d %s", n, state))
	}
	slices.Sort(states)
	text := "no streams"
	if len(streams) > 0 {
		text = count(len(streams), "stream", "streams") + ": " + strings.Join(states, ", ")
	}
	findings := []finding{ok("the server at %s answers; %s", server, text)}
	if len(trouble) > manyShown {
		more := len(trouble) - manyShown
		trouble = append(trouble[:manyShown], warn("graphmill stream list shows all", "%s more with trouble", count(more, "stream", "streams")))
	}
	return append(findings, trouble...)
}
