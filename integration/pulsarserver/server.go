package pulsarserver

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/graphmill/graphmill/integration/ports"
)

// DefaultNamespace is the one that there is where Options name none.
const DefaultNamespace = "public/default"

// Options of a server. The zero value is a broker on free loopback ports that
// lets everybody in and makes topics, not partitioned, as they are used.
type Options struct {
	Address      string // of the binary protocol; default: a free port of 127.0.0.1
	AdminAddress string // of the admin interface; default: a free port of 127.0.0.1

	Namespaces []string // that there are, as tenant/name; default DefaultNamespace

	// NoAutoCreate leaves it to CreateTopic to make topics. AutoPartitions is how
	// many partitions those get that are made otherwise; 0: not partitioned.
	NoAutoCreate   bool
	AutoPartitions int

	MaxMessageSize int // of one SEND, in bytes; default DefaultMaxMessageSize

	// FailoverDelay is how long a new active consumer of a Failover subscription waits
	// for its first message, and to be told that it is the active one
	// (activeConsumerFailoverDelayTimeMillis, a second by default). With 0 the Go client
	// does not hear it: it comes before the answer to its subscribing.
	FailoverDelay time.Duration

	TLS *tls.Config // of both ports; nil: no encryption

	Hooks Hooks
}

// Server is a running broker. Its methods may be called at any time and from any
// goroutine.
type Server struct {
	opts     Options
	handlers map[string]handler
	hooks    atomic.Pointer[Hooks]
	frozen   atomic.Pointer[chan struct{}] // closed when it thaws; nil: it is not
	running  sync.WaitGroup                // listeners and connections

	mu           sync.Mutex
	closed       bool
	address      string // the same after Stop and Listen
	adminAddress string
	listener     net.Listener // nil: stopped
	web          *http.Server
	lastConn     int64
	lastLedger   int64
	lastProducer int
	conns        map[*conn]struct{}
	namespaces   map[string]bool
	partitioned  map[string]int    // by full name, the number of partitions
	topics       map[string]*topic // by full name, partitions one by one
	tokens       map[string]string // roles by token; empty: everybody is let in
	authorize    func(role, topic string, action Action) bool
	acks         []Ack
}

// New starts a server. The caller closes it.
func New(opts Options) (*Server, error) {
	if opts.MaxMessageSize == 0 {
		opts.MaxMessageSize = DefaultMaxMessageSize
	}
	if len(opts.Namespaces) == 0 {
		opts.Namespaces = []string{DefaultNamespace}
	}
	s := &Server{
		opts: opts, handlers: handlers(),
		address: opts.Address, adminAddress: opts.AdminAddress,
		conns:       map[*conn]struct{}{},
		namespaces:  map[string]bool{},
		partitioned: map[string]int{},
		topics:      map[string]*topic{},
	}
	for _, name := range opts.Namespaces {
		s.namespaces[name] = true
	}
	s.SetHooks(opts.Hooks)
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

// Listen takes connections again after Stop, on the ports of before. Topics and
// subscriptions are as they were; what is sent from now on goes to new ledgers.
func (s *Server) Listen() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errors.New("the Pulsar server is closed")
	}
	if s.listener != nil {
		return nil
	}
	l, err := s.listen(s.address)
	if err != nil {
		return fmt.Errorf("start a Pulsar server: %w", err)
	}
	admin, err := s.listen(s.adminAddress)
	if err != nil {
		l.Close()
		return fmt.Errorf("start the admin interface of a Pulsar server: %w", err)
	}
	s.address, s.adminAddress = l.Addr().String(), admin.Addr().String()
	for _, t := range s.topics {
		s.lastLedger++
		t.roll(s.lastLedger)
	}
	web := &http.Server{
		Handler: s.admin(), ReadHeaderTimeout: lastWords,
		ErrorLog: log.New(io.Discard, "", 0), // of clients that do not trust the certificate
	}
	s.listener, s.web = l, web
	s.running.Go(func() { s.accept(l) })
	s.running.Go(func() { web.Serve(admin) })
	return nil
}

func (s *Server) listen(address string) (net.Listener, error) {
	l, err := ports.Listen(address)
	if err == nil && s.opts.TLS != nil {
		l = tls.NewListener(l, s.opts.TLS)
	}
	return l, err
}

func (s *Server) accept(l net.Listener) {
	for {
		nc, err := l.Accept()
		if err != nil {
			return // closed by Stop
		}
		c := s.add(nc, l)
		if c == nil {
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
func (s *Server) add(nc net.Conn, l net.Listener) *conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener != l {
		return nil
	}
	s.lastConn++
	c := newConn(s, nc, s.lastConn)
	s.conns[c] = struct{}{}
	return c
}

func (s *Server) remove(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

// Stop takes no more connections and cuts those that there are, as a broker that
// is killed does. It returns when all have ended.
func (s *Server) Stop() {
	s.mu.Lock()
	if s.listener != nil {
		s.listener.Close()
		s.web.Close()
		s.listener, s.web = nil, nil
	}
	s.mu.Unlock()
	s.CutConnections()
	s.running.Wait()
}

// CutConnections cuts all connections of the binary protocol; new ones are taken.
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

// Freeze makes the server neither read nor write on both ports, as a broker whose
// process is stopped (SIGSTOP) or hangs: connections stay open, new ones are
// taken. It goes on after thaw, which may be called more than once.
func (s *Server) Freeze() (thaw func()) {
	thawed := make(chan struct{})
	s.frozen.Store(&thawed)
	return sync.OnceFunc(func() {
		s.frozen.CompareAndSwap(&thawed, nil)
		close(thawed)
	})
}

// awake waits while the server is frozen; false: given up.
func (s *Server) awake(giveUp <-chan struct{}) bool {
	for {
		thawed := s.frozen.Load()
		if thawed == nil {
			return true
		}
		select {
		case <-*thawed:
		case <-giveUp:
			return false
		}
	}
}

// SetHooks replaces all hooks. A hook that is being called goes on.
func (s *Server) SetHooks(h Hooks) { s.hooks.Store(&h) }

// URL returns the address for clients, pulsar:// or pulsar+ssl://.
func (s *Server) URL() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.url()
}

func (s *Server) url() string {
	if s.opts.TLS != nil {
		return "pulsar+ssl://" + s.address
	}
	return "pulsar://" + s.address
}

// AdminURL returns the address of the admin interface, http:// or https://.
func (s *Server) AdminURL() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opts.TLS != nil {
		return "https://" + s.adminAddress
	}
	return "http://" + s.adminAddress
}
