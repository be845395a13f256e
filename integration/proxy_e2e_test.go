//go:build e2e

package integration_test

import (
	"bytes"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// boltCommit is a whole COMMIT as a driver writes it: a chunk of two bytes, the
// message, the end of the message.
var boltCommit = []byte{0x00, 0x02, 0xb0, 0x12, 0x00, 0x00}

// commitProxy stands between a server and the database, and knows when a COMMIT
// comes by.
type commitProxy struct {
	listener net.Listener

	mu       sync.Mutex
	atCommit func(*crossing) // given the next COMMIT, in place of passing it on; nil: nothing
}

// crossing is a COMMIT on its way. Its answer, and whatever comes after it, is
// kept from the client.
type crossing struct {
	forward  func()          // lets it go on; else it never arrives
	answered <-chan struct{} // closed once the database has answered
}

func startCommitProxy(t *testing.T) *commitProxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() }) // the connections end with the program that made them
	p := &commitProxy{listener: l}
	go p.serve(strings.TrimPrefix(world.neo4j.URI(), "bolt://"))
	return p
}

func (p *commitProxy) uri() string { return "bolt://" + p.listener.Addr().String() }

// next has at called with the next COMMIT.
func (p *commitProxy) next(at func(*crossing)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.atCommit = at
}

func (p *commitProxy) serve(database string) {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // closed
		}
		server, err := net.Dial("tcp", database)
		if err != nil { // the database is down: so is its proxy
			client.Close()
			continue
		}
		c := &proxied{proxy: p, client: client, server: server, answered: make(chan struct{})}
		go c.questions()
		go c.answers()
	}
}

// proxied is a connection through the proxy.
type proxied struct {
	proxy          *commitProxy
	client, server net.Conn
	held           atomic.Bool
	answered       chan struct{}
}

// questions passes on what the client sends, until one of the two sides is gone.
func (c *proxied) questions() {
	defer c.server.Close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := c.client.Read(buffer)
		if err != nil {
			return
		}
		forward := func() { _, _ = c.server.Write(buffer[:n]) }
		if at := c.proxy.take(buffer[:n]); at != nil {
			c.held.Store(true)
			at(&crossing{forward, c.answered})
		} else {
			forward()
		}
	}
}

// answers passes on what the database sends.
func (c *proxied) answers() {
	defer c.client.Close()
	buffer := make([]byte, 64<<10)
	for told := false; ; {
		n, err := c.server.Read(buffer)
		if err != nil {
			return
		}
		switch {
		case !c.held.Load():
			_, _ = c.client.Write(buffer[:n])
		case !told:
			told = true
			close(c.answered)
		}
	}
}

// take returns what is to be done if this is the COMMIT that is waited for.
func (p *commitProxy) take(sent []byte) func(*crossing) {
	if !bytes.HasSuffix(sent, boltCommit) {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.atCommit
	p.atCommit = nil
	return at
}
