package boltserver

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"sync"
)

// message is one message of a client.
type message struct {
	structure
	first bool // the client had been waiting: nothing lay unread before it
}

// phase is where a connection stands.
type phase uint8

const (
	phaseHello  phase = iota // nothing has been said
	phaseLogon               // not logged in
	phaseReady               // may BEGIN or RUN
	phaseTx                  // in a transaction
	phaseFailed              // everything is ignored until RESET
)

// conn is one connection. It is served by one goroutine; a second one reads
// ahead, so that a client that leaves is noticed while a hook holds its
// statement.
type conn struct {
	s        *Server
	nc       net.Conn
	w        *bufio.Writer
	messages chan message
	ended    chan struct{} // closed when nothing more can be read
	severed  chan struct{} // closed by cut
	cutOnce  sync.Once

	phase   phase
	ran     bool         // the message before was a RUN
	again   *Failure     // of the PULL behind a RUN that has been refused
	tx      *Transaction // in phaseTx
	auto    *Transaction // of a RUN outside of transactions, until its result has been read
	results []*result    // of the transaction, by query id
}

// result is what has not been pulled of a statement.
type result struct {
	rows   [][]any
	kind   string // of statement, where the hook has said it
	cut    bool   // in place of an answer
	raw    [][]byte
	failed *Failure
}

// readAhead is how many messages are read before they are looked at. A client
// that sends more and leaves is noticed late.
const readAhead = 16

// errCut ends a connection on purpose.
var errCut = errors.New("cut")

func newConn(s *Server, nc net.Conn) *conn {
	return &conn{
		s: s, nc: nc, w: bufio.NewWriter(nc),
		messages: make(chan message, readAhead), ended: make(chan struct{}), severed: make(chan struct{}),
	}
}

// cut ends the connection, from whatever goroutine.
func (c *conn) cut() {
	c.cutOnce.Do(func() {
		close(c.severed)
		c.nc.Close()
	})
}

// serve runs the connection to its end.
func (c *conn) serve() {
	var reader sync.WaitGroup
	reader.Go(c.read)
	defer reader.Wait()
	defer c.cut()
	defer c.end(false)
	for {
		m, ok := c.next()
		if !ok || !c.thawed() {
			return
		}
		if err := c.handle(m); err != nil {
			c.w.Flush() // what had been answered before
			return
		}
	}
}

// read hands on messages until the connection ends.
func (c *conn) read() {
	defer close(c.ended)
	r := bufio.NewReaderSize(c.nc, 64<<10)
	if !c.thawed() || handshake(r, c.nc) != nil {
		return
	}
	for {
		first := r.Buffered() == 0
		s, err := readMessage(r)
		if err != nil {
			return
		}
		select {
		case c.messages <- message{s, first}:
		case <-c.severed:
			return
		}
	}
}

// next returns the next message. Answers are flushed before it has to wait.
func (c *conn) next() (message, bool) {
	select {
	case m := <-c.messages:
		return m, true
	default:
	}
	if c.w.Flush() != nil {
		return message{}, false
	}
	select {
	case m := <-c.messages:
		return m, true
	case <-c.severed:
		return message{}, false
	case <-c.ended:
	}
	select {
	case m := <-c.messages: // the last ones that came before the end
		return m, true
	default:
		return message{}, false
	}
}

// thawed waits while the server is frozen. It reports whether the connection is
// still to be served.
func (c *conn) thawed() bool {
	frozen := c.s.frozen.Load()
	if frozen == nil {
		return true
	}
	select {
	case <-*frozen:
		return true
	case <-c.severed:
		return false
	}
}

// count counts a flight. A large RUN may arrive in pieces, the PULL behind it
// later: that is the same flight.
func (c *conn) count(m message) {
	result := m.tag == msgPull || m.tag == msgDiscard
	if m.first && !(result && c.ran) {
		c.s.flights.Add(1)
	}
	c.ran = m.tag == msgRun
}

// handle answers one message. An error ends the connection.
func (c *conn) handle(m message) error {
	switch m.tag {
	case msgHello:
		return c.hello(m.structure)
	case msgLogon:
		return c.logon(m.structure)
	case msgGoodbye:
		return errCut
	}
	c.count(m)
	again := c.again
	c.again = nil
	switch {
	case m.tag == msgReset && c.phase >= phaseReady:
		c.end(false)
		c.phase = phaseReady
		return c.success(nil)
	case c.phase == phaseFailed && again != nil && m.tag == msgPull:
		return c.refuse(*again)
	case c.phase == phaseFailed:
		return writeMessage(c.w, msgIgnored)
	case c.phase < phaseReady:
		return c.misplaced(m.tag)
	}
	switch m.tag {
	case msgTelemetry:
		return c.success(nil)
	case msgLogoff:
		c.phase = phaseLogon
		return c.success(nil)
	case msgRoute:
		return c.route()
	case msgRun:
		return c.run(m.structure)
	case msgPull, msgDiscard:
		return c.pull(m.structure)
	case msgBegin:
		return c.begin(m.structure)
	case msgCommit:
		return c.commit()
	case msgRollback:
		if c.phase != phaseTx {
			return c.misplaced(m.tag)
		}
		c.end(false)
		return c.success(nil)
	}
	return c.misplaced(m.tag)
}

func (c *conn) success(metadata map[string]any) error {
	if metadata == nil {
		metadata = map[string]any{}
	}
	return writeMessage(c.w, msgSuccess, metadata)
}

// refuse answers with a failure; the transaction, if any, is over.
func (c *conn) refuse(f Failure) error {
	c.end(false)
	c.phase = phaseFailed
	return writeMessage(c.w, msgFailure, map[string]any{"code": f.Code, "message": f.Message})
}

// misplaced refuses a message that cannot stand here and, as Neo4j does, ends
// the connection.
func (c *conn) misplaced(tag byte) error {
	err := c.refuse(Failure{"Neo.ClientError.Request.Invalid", fmt.Sprintf("message %#x cannot stand here", tag)})
	return errors.Join(err, errCut)
}

// end ends the transaction of the connection, if there is one, and records it.
func (c *conn) end(commit bool) {
	switch {
	case c.tx != nil && commit:
		c.s.record(&c.s.committed, c.tx)
	case c.tx != nil:
		c.s.record(&c.s.rolledBack, c.tx)
	case c.auto != nil && !commit:
		c.s.record(&c.s.rolledBack, c.auto)
	case c.auto != nil:
		c.s.record(&c.s.autocommit, c.auto)
	}
	c.tx, c.auto, c.results = nil, nil, nil
	if c.phase == phaseTx {
		c.phase = phaseReady
	}
}

// obey does the part of a reply that is the same for all hooks. It reports
// whether the message has been dealt with.
func (c *conn) obey(r Reply) (bool, error) {
	if r.Wait != nil {
		if c.w.Flush() != nil {
			return true, errCut
		}
		select {
		case <-r.Wait:
		case <-c.severed:
			return true, errCut
		case <-c.ended:
			return true, errCut
		}
	}
	switch {
	case r.Cut == CutBefore:
		return true, errCut
	case r.Raw != nil:
		return true, c.say(r.Raw)
	case r.Failure != nil:
		return true, c.refuse(*r.Failure)
	}
	return false, nil
}

// say sends messages as they are.
func (c *conn) say(messages [][]byte) error {
	for _, m := range messages {
		if err := writeChunks(c.w, m); err != nil {
			return err
		}
	}
	return nil
}
