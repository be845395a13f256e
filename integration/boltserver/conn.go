package boltserver

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"
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
		if !ok {
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
	if handshake(r, c.nc) != nil {
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
	case r.Failure != nil:
		return true, c.refuse(*r.Failure)
	}
	return false, nil
}

func (c *conn) hello(m structure) error {
	if c.phase != phaseHello || len(m.fields) != 1 {
		return c.misplaced(m.tag)
	}
	fields, _ := m.fields[0].(map[string]any)
	agent, _ := fields["user_agent"].(string)
	c.s.mu.Lock()
	c.s.userAgents = append(c.s.userAgents, agent)
	c.s.mu.Unlock()
	c.phase = phaseLogon
	return c.success(map[string]any{
		"server":        *c.s.agent.Load(),
		"connection_id": fmt.Sprintf("bolt-%d", c.s.ids.Add(1)),
		"hints":         map[string]any{},
	})
}

func (c *conn) logon(m structure) error {
	if c.phase != phaseLogon || len(m.fields) != 1 {
		return c.misplaced(m.tag)
	}
	c.s.logons.Add(1)
	token, _ := m.fields[0].(map[string]any)
	user, _ := token["principal"].(string)
	password, _ := token["credentials"].(string)
	refusal := c.refusal(user, password)
	if refusal != nil {
		return errors.Join(c.refuse(*refusal), errCut)
	}
	c.phase = phaseReady
	return c.success(nil)
}

func (c *conn) refusal(user, password string) *Failure {
	if want := c.s.opts.User; want != "" && (user != want || password != c.s.opts.Password) {
		return &Failure{"Neo.ClientError.Security.Unauthorized", "The client is unauthorized due to authentication failure."}
	}
	if hook := c.s.hooks.Load().OnLogon; hook != nil {
		return hook(user)
	}
	return nil
}

// route answers that this server does everything itself.
func (c *conn) route() error {
	self := []string{c.s.Address()}
	servers := []any{}
	for _, role := range []string{"WRITE", "READ", "ROUTE"} {
		servers = append(servers, map[string]any{"role": role, "addresses": self})
	}
	return c.success(map[string]any{"rt": map[string]any{"ttl": 300, "db": "neo4j", "servers": servers}})
}

// open reads the extra map of BEGIN or RUN. It returns a failure where the
// database does not exist.
func (c *conn) open(extra map[string]any) (*Transaction, *Failure) {
	tx := &Transaction{ID: c.s.ids.Add(1)}
	tx.Database, _ = extra["db"].(string)
	tx.Metadata, _ = extra["tx_metadata"].(map[string]any)
	ms, _ := extra["tx_timeout"].(int64)
	tx.Timeout = time.Duration(ms) * time.Millisecond
	mode, _ := extra["mode"].(string)
	tx.ReadOnly = mode == "r"
	bookmarks, _ := extra["bookmarks"].([]any)
	for _, b := range bookmarks {
		if s, ok := b.(string); ok {
			tx.Bookmarks = append(tx.Bookmarks, s)
		}
	}
	known := c.s.opts.Databases
	if len(known) > 0 && tx.Database != "" && !slices.Contains(known, tx.Database) {
		return nil, &Failure{"Neo.ClientError.Database.DatabaseNotFound",
			fmt.Sprintf("Database does not exist. Database name: '%s'.", tx.Database)}
	}
	return tx, nil
}

func (c *conn) begin(m structure) error {
	if c.phase != phaseReady || c.auto != nil || len(m.fields) != 1 {
		return c.misplaced(m.tag)
	}
	extra, _ := m.fields[0].(map[string]any)
	tx, failure := c.open(extra)
	if failure != nil {
		return c.refuse(*failure)
	}
	var reply Reply
	if hook := c.s.hooks.Load().OnBegin; hook != nil {
		reply = hook(*tx)
	}
	if done, err := c.obey(reply); done {
		return err
	}
	c.tx, c.phase = tx, phaseTx
	if reply.Cut == CutAfter {
		return errCut
	}
	return c.success(nil)
}

func (c *conn) run(m structure) error {
	if c.auto != nil || len(m.fields) != 3 {
		return c.misplaced(m.tag)
	}
	query, ok := m.fields[0].(string)
	params, ok2 := m.fields[1].(map[string]any)
	extra, ok3 := m.fields[2].(map[string]any)
	if !ok || !ok2 || !ok3 {
		return c.misplaced(m.tag)
	}
	tx := c.tx
	if tx == nil {
		var failure *Failure
		if tx, failure = c.open(extra); failure != nil {
			return c.refuse(*failure)
		}
	}
	statement := Statement{Query: query, Params: params, Database: tx.Database}
	var reply Reply
	if hook := c.s.hooks.Load().OnRun; hook != nil {
		reply = hook(statement)
	}
	if reply.FailPull {
		c.again = reply.Failure
	}
	if done, err := c.obey(reply); done {
		return err
	}
	if c.tx == nil {
		c.auto = tx
	}
	tx.Statements = append(tx.Statements, statement)
	c.results = append(c.results, &result{rows: reply.Rows, failed: reply.LateFailure})
	if reply.Cut == CutAfter {
		if c.auto != nil {
			c.end(true)
		}
		return errCut
	}
	fields := append([]string{}, reply.Fields...)
	return c.success(map[string]any{"fields": fields, "t_first": 0, "qid": len(c.results) - 1})
}

// pull answers PULL and DISCARD.
func (c *conn) pull(m structure) error {
	if len(m.fields) != 1 {
		return c.misplaced(m.tag)
	}
	extra, _ := m.fields[0].(map[string]any)
	n, id := int64(-1), int64(len(c.results)-1)
	if v, ok := extra["n"].(int64); ok {
		n = v
	}
	if v, ok := extra["qid"].(int64); ok && v >= 0 {
		id = v
	}
	if id < 0 || id >= int64(len(c.results)) {
		return c.misplaced(m.tag)
	}
	r := c.results[id]
	if r.failed != nil {
		return c.refuse(*r.failed)
	}
	rows := r.rows
	if n >= 0 && n < int64(len(rows)) {
		rows = rows[:n]
	}
	r.rows = r.rows[len(rows):]
	if m.tag == msgPull {
		for _, row := range rows {
			if err := writeMessage(c.w, msgRecord, row); err != nil {
				return err
			}
		}
	}
	if len(r.rows) > 0 {
		return c.success(map[string]any{"has_more": true})
	}
	summary := map[string]any{"type": statementType(c), "t_last": 0, "db": "neo4j"}
	if c.auto != nil {
		summary["bookmark"] = fmt.Sprintf("boltserver:%d", c.auto.ID)
		c.end(true)
	}
	return c.success(summary)
}

// statementType calls everything a write, but what cannot be one.
func statementType(c *conn) string {
	if c.auto != nil && strings.HasPrefix(strings.ToUpper(c.auto.Statements[0].Query), "SHOW ") {
		return "r"
	}
	return "w"
}

func (c *conn) commit() error {
	if c.phase != phaseTx {
		return c.misplaced(msgCommit)
	}
	var reply Reply
	if hook := c.s.hooks.Load().OnCommit; hook != nil {
		reply = hook(*c.tx)
	}
	if done, err := c.obey(reply); done {
		return err
	}
	bookmark := fmt.Sprintf("boltserver:%d", c.tx.ID)
	c.end(true)
	if reply.Cut == CutAfter {
		return errCut
	}
	return c.success(map[string]any{"bookmark": bookmark})
}
