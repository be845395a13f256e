package boltserver

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// What each message does. A method returns an error to end the connection.

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
	c.results = append(c.results, &result{rows: reply.Rows, kind: reply.Type, failed: reply.LateFailure, cut: reply.CutPull, raw: reply.RawPull})
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
	if r.cut {
		return errCut
	}
	if r.raw != nil {
		return c.say(r.raw)
	}
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
	summary := map[string]any{"type": cmp.Or(r.kind, statementType(c)), "t_last": 0, "db": "neo4j"}
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
