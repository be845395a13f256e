package pulsarserver

import (
	"bufio"
	"net"
	"sync"
	"time"
)

// lastWords is how long a client has to take the error behind which the server
// hangs up.
const lastWords = 5 * time.Second

// conn is a connection of a client. One goroutine reads it and one writes what
// the broker's state brings about: nothing that holds the server's lock ever
// waits for a client.
type conn struct {
	s    *Server
	nc   net.Conn
	id   int64
	gone chan struct{} // closed by cut
	cut  func()        // closes it at once; may be called by anybody, and again

	// of the reading goroutine
	connected bool   // CONNECT has been answered
	role      string // of its token
	mute      bool   // the command under way is not to be answered

	// under the server's lock
	producers map[uint64]*producer
	consumers map[uint64]*consumer

	mu     sync.Mutex
	queue  []frame
	hangup bool          // close behind the last frame
	wake   chan struct{} // holds one
}

// frame is one that waits to be written.
type frame struct {
	head, rest []byte
	delivery   *Delivery // nil: it holds no entry
}

func newConn(s *Server, nc net.Conn, id int64) *conn {
	c := &conn{
		s: s, nc: nc, id: id,
		gone:      make(chan struct{}),
		producers: map[uint64]*producer{},
		consumers: map[uint64]*consumer{},
		wake:      make(chan struct{}, 1),
	}
	c.cut = sync.OnceFunc(func() {
		close(c.gone)
		nc.Close()
	})
	return c
}

// serve runs the connection until it ends, and lets go of all it has.
func (c *conn) serve() {
	var writer sync.WaitGroup
	writer.Go(c.write)
	if c.read() {
		c.finish() // the writer closes it
	} else {
		c.cut()
	}
	writer.Wait()
	c.cut()

	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	for _, p := range c.producers {
		delete(p.topic.producers, p)
	}
	for _, cons := range c.consumers {
		cons.sub.detach(cons)
	}
}

// read takes commands until the connection ends. It returns true where the
// client has yet to be told why.
func (c *conn) read() (tell bool) {
	r := bufio.NewReaderSize(c.nc, 64<<10)
	for {
		cmd, rest, err := readFrame(r, c.s.opts.MaxMessageSize+frameMargin)
		if err != nil || !c.s.awake(c.gone) {
			return false
		}
		if goOn, tell := c.handle(cmd, rest); !goOn {
			return tell
		}
	}
}

// send queues a command for the client, whatever is being handled.
func (c *conn) send(m message) { c.enqueue(m, frame{}) }

// answer sends what answers the command under way, from the reading goroutine.
func (c *conn) answer(m message) {
	if !c.mute {
		c.send(m)
	}
}

// deliver queues an entry.
func (c *conn) deliver(to *consumer, e *entry) {
	m, body := newCommand("MESSAGE", "message")
	body.setUint("consumer_id", to.id)
	body.sub("message_id").setMessageID(e.id, to.sub.topic.partition)
	c.enqueue(m, frame{rest: e.data, delivery: &Delivery{
		Connection: c.id, Topic: to.sub.topic.name, Subscription: to.sub.name, Consumer: to.name,
		ID: e.id, Messages: e.messages,
	}})
}

func (c *conn) enqueue(m message, f frame) {
	head, err := frameHead(m, len(f.rest))
	if err != nil {
		c.cut() // a name that is not UTF-8 has come in a path of the admin interface
		return
	}
	f.head = head
	c.mu.Lock()
	c.queue = append(c.queue, f)
	c.mu.Unlock()
	c.notify()
}

// finish lets the writer close the connection behind what is queued.
func (c *conn) finish() {
	c.nc.SetWriteDeadline(time.Now().Add(lastWords))
	c.mu.Lock()
	c.hangup = true
	c.mu.Unlock()
	c.notify()
}

func (c *conn) notify() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// write writes what is queued until the connection ends.
func (c *conn) write() {
	defer c.cut()
	w := bufio.NewWriterSize(c.nc, 64<<10)
	for {
		select {
		case <-c.wake:
		case <-c.gone:
			return
		}
		c.mu.Lock()
		frames, hangup := c.queue, c.hangup
		c.queue = nil
		c.mu.Unlock()
		for _, f := range frames {
			if !c.s.awake(c.gone) || !c.writeFrame(w, f) {
				return
			}
		}
		if w.Flush() != nil || hangup {
			return
		}
	}
}

// writeFrame returns false where the connection is to end.
func (c *conn) writeFrame(w *bufio.Writer, f frame) bool {
	cut := CutNever
	if hook := c.s.hooks.Load().OnDeliver; hook != nil && f.delivery != nil {
		w.Flush() // those before it do arrive, however long the hook takes
		cut = hook(*f.delivery)
	}
	if cut == CutBefore {
		return false
	}
	w.Write(f.head) // an error shows at Flush
	w.Write(f.rest)
	if cut == CutAfter {
		w.Flush()
		return false
	}
	return true
}
