// Package boltserver is a Bolt 5.4 server that records what it is told and
// executes nothing. Tests point the real driver at it: it lets them see each
// transaction with its statements, and fail at the moments that matter, such as
// a connection that is lost after a COMMIT has been applied.
package boltserver

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"

	"github.com/graphmill/graphmill/integration/ports"
)

// DefaultAgent is what a server calls itself where Options say nothing.
const DefaultAgent = "Neo4j/5.26.0"

// Options of a server. The zero value is a server on a free loopback port that
// lets everybody in and knows every database.
type Options struct {
	Agent   string // the name and version that it tells; default DefaultAgent
	Address string // default: a free port of 127.0.0.1

	// User and Password that a client has to log in with. An empty User lets
	// everybody in.
	User, Password string

	// Databases that there are. Empty: every name is one.
	Databases []string

	TLS *tls.Config // nil: no encryption

	Hooks Hooks
}

// Server is a running server. All its methods may be called at any time and
// from any goroutine.
type Server struct {
	opts    Options
	hooks   atomic.Pointer[Hooks]
	agent   atomic.Pointer[string]
	frozen  atomic.Pointer[chan struct{}] // closed when it thaws; nil: it is not
	flights atomic.Int64
	logons  atomic.Int64
	ids     atomic.Int64 // of transactions and connections

	mu         sync.Mutex
	address    string // the same after Stop and Listen
	listener   net.Listener
	closed     bool
	conns      map[*conn]struct{}
	userAgents []string
	committed  []Transaction
	rolledBack []Transaction
	autocommit []Transaction

	running sync.WaitGroup // the accept loop and the connections
}

// New starts a server. The caller closes it.
func New(opts Options) (*Server, error) {
	s := &Server{opts: opts, address: opts.Address, conns: map[*conn]struct{}{}}
	s.SetHooks(opts.Hooks)
	s.SetAgent(cmp.Or(opts.Agent, DefaultAgent))
	return s, s.Listen()
}

// TB is what Start needs of a testing.TB.
type TB interface {
	Helper()
	Fatalf(format string, args ...any)
	Cleanup(func())
}

// Start starts a server that is closed when the test ends.
func Start(tb TB, opts Options) *Server {
	tb.Helper()
	s, err := New(opts)
	if err != nil {
		tb.Fatalf("%v", err)
	}
	tb.Cleanup(s.Close)
	return s
}

// Listen takes connections again after Stop, on the port of before.
func (s *Server) Listen() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errors.New("the Bolt server is closed")
	}
	if s.listener != nil {
		return nil
	}
	l, err := ports.Listen(s.address)
	if err != nil {
		return fmt.Errorf("start a Bolt server: %w", err)
	}
	s.address = l.Addr().String()
	if s.opts.TLS != nil {
		l = tls.NewListener(l, s.opts.TLS)
	}
	s.listener = l
	s.running.Go(func() { s.accept(l) })
	return nil
}

func (s *Server) accept(l net.Listener) {
	for {
		nc, err := l.Accept()
		if err != nil {
			return // closed by Stop
		}
		c := newConn(s, nc)
		if !s.add(c, l) {
			nc.Close()
			continue
		}
		s.running.Go(func() {
			defer s.remove(c)
			c.serve()
		})
	}
}

// add registers a connection, unless the server has stopped since l took it.
func (s *Server) add(c *conn, l net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener != l {
		return false
	}
	s.conns[c] = struct{}{}
	return true
}

func (s *Server) remove(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

// Stop takes no more connections and cuts those that there are, as a database
// that is killed does: open transactions are rolled back. It returns when all
// have ended. What has been recorded stays.
func (s *Server) Stop() {
	s.mu.Lock()
	if s.listener != nil {
		s.listener.Close()
		s.listener = nil
	}
	s.mu.Unlock()
	s.CutConnections()
	s.running.Wait()
}

// CutConnections cuts all connections; new ones are taken.
func (s *Server) CutConnections() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.cut()
	}
}

// Close stops the server for good.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.Stop()
}

// Freeze stops answering, as a database whose process is stopped (SIGSTOP) or
// hangs: connections stay open, new ones are taken, and what comes is kept. It is
// answered after thaw, which may be called more than once.
func (s *Server) Freeze() (thaw func()) {
	thawed := make(chan struct{})
	s.frozen.Store(&thawed)
	return sync.OnceFunc(func() {
		s.frozen.CompareAndSwap(&thawed, nil)
		close(thawed)
	})
}

// Address returns host:port.
func (s *Server) Address() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.address
}

// URI returns the address for the driver, with bolt:// or bolt+ssc://.
func (s *Server) URI() string {
	if s.opts.TLS != nil {
		return "bolt+ssc://" + s.Address()
	}
	return "bolt://" + s.Address()
}

// SetHooks replaces all hooks. A hook that is being called goes on.
func (s *Server) SetHooks(h Hooks) { s.hooks.Store(&h) }

// SetAgent changes what the server calls itself on connections made from now on,
// as a member of a cluster that has been upgraded.
func (s *Server) SetAgent(agent string) { s.agent.Store(&agent) }

// Flights counts the times that a client sent something and then waited for the
// answer: round trips. Logging in and leaving do not count. Messages that come
// together are one flight, and so are a RUN and the PULL or DISCARD behind it.
func (s *Server) Flights() int64 { return s.flights.Load() }

// Logons counts attempts to log in, the refused ones too.
func (s *Server) Logons() int64 { return s.logons.Load() }

// Connections returns the number of connections that are open now.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}
