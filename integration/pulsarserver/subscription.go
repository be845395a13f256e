package pulsarserver

import (
	"slices"
	"time"
)

// Types of subscriptions, by the names that the protocol has for them.
const (
	Exclusive = "Exclusive"
	Failover  = "Failover"
)

// subscription is a cursor on a topic and the consumers that are attached to it.
// Entries are meant by their index in the topic.
type subscription struct {
	name    string
	kind    string
	durable bool
	topic   *topic

	mark  int              // all before it are acknowledged, itself is not
	acked map[int]struct{} // those acknowledged beyond mark
	read  int              // the next to be sent; never less than mark

	consumers []*consumer
	active    *consumer // the only one that gets messages; nil where there is none
	turning   bool      // a new one is the active one, and has to wait
	lost      int       // entries that are sent to nobody (see Server.RunAhead)
	early     int       // entries from mark to one that is sent before its turn; -1: none (see Server.ReadBeforeTurn)
}

func newSubscription(t *topic, name string, durable bool, start int) *subscription {
	return &subscription{name: name, durable: durable, topic: t, mark: start, read: start, early: -1, acked: map[int]struct{}{}}
}

// consumer is one consumer of a connection.
type consumer struct {
	id       uint64 // of the connection's choice
	name     string
	priority int64
	conn     *conn
	sub      *subscription
	permits  int64 // messages that it still takes; below 0 after a batch that was larger
}

// attach adds a consumer. The consumers are told of the active one where it
// changes, else the new one alone is.
func (sub *subscription) attach(c *consumer) {
	sub.consumers = append(sub.consumers, c)
	if !sub.choose() && sub.kind == Failover {
		c.tellActive()
	}
}

// detach takes a consumer away. What it has not acknowledged goes to the next
// active one, or to the next to come.
func (sub *subscription) detach(c *consumer) {
	sub.consumers = slices.DeleteFunc(sub.consumers, func(other *consumer) bool { return other == c })
	if !sub.durable && len(sub.consumers) == 0 {
		delete(sub.topic.subs, sub.name)
	}
	sub.choose()
}

// choose settles which consumer is the active one. A new one gets everything that
// is not acknowledged, whoever has it in hand.
func (sub *subscription) choose() (changed bool) {
	active := pick(sub.consumers, sub.topic.name, sub.topic.partition)
	if active == sub.active {
		return false
	}
	sub.active = active
	if active == nil {
		return true
	}
	switch delay := sub.topic.s.opts.FailoverDelay; {
	case sub.kind != Failover || delay == 0:
		sub.turn()
	case !sub.turning:
		sub.turning = true
		sub.turnAfter(delay)
	}
	return true
}

func (sub *subscription) turnAfter(delay time.Duration) {
	time.AfterFunc(delay, func() {
		sub.topic.s.mu.Lock()
		defer sub.topic.s.mu.Unlock()
		sub.turning, sub.lost = false, 0
		sub.turn()
	})
}

// turn tells who is the active one, and sends to it.
func (sub *subscription) turn() {
	if sub.kind == Failover && sub.active != nil {
		for _, c := range sub.consumers {
			c.tellActive()
		}
	}
	sub.rewind()
}

func (c *consumer) tellActive() {
	m, body := newCommand("ACTIVE_CONSUMER_CHANGE", "active_consumer_change")
	body.setUint("consumer_id", c.id).setBool("is_active", c.sub.active == c)
	c.conn.send(m)
}

// rewind makes the active consumer get everything that is not acknowledged.
func (sub *subscription) rewind() {
	sub.read = sub.mark
	sub.dispatch()
}

// dispatch sends the active consumer what it has permits for. Permits count
// messages; an entry is sent whole where there is one left.
func (sub *subscription) dispatch() {
	c := sub.active
	if c == nil || sub.turning {
		return
	}
	if i := sub.mark + sub.early; sub.early >= 0 && c.permits > 0 && i < len(sub.topic.entries) {
		sub.early, sub.read = -1, sub.mark
		c.deliver(i)
	}
	for ; c.permits > 0 && sub.read < len(sub.topic.entries); sub.read++ {
		if _, done := sub.acked[sub.read]; done {
			continue
		}
		if sub.lost > 0 {
			sub.lost--
			continue
		}
		c.deliver(sub.read)
	}
}

func (c *consumer) deliver(i int) {
	e := &c.sub.topic.entries[i]
	c.permits -= int64(e.messages)
	c.conn.deliver(c, e)
}

// ack acknowledges one entry.
func (sub *subscription) ack(i int) {
	if i < sub.mark {
		return
	}
	sub.acked[i] = struct{}{}
	sub.advance()
}

// ackBefore acknowledges all entries before an index.
func (sub *subscription) ackBefore(i int) {
	for ; sub.mark < i; sub.mark++ {
		delete(sub.acked, sub.mark)
	}
	sub.advance()
}

// advance moves the mark over what is acknowledged behind it.
func (sub *subscription) advance() {
	for {
		if _, done := sub.acked[sub.mark]; !done {
			break
		}
		delete(sub.acked, sub.mark)
		sub.mark++
	}
	sub.read = max(sub.read, sub.mark)
}

// reset makes an index the next to be sent: all before it count as acknowledged,
// nothing else does. The active consumer is closed, and comes back by itself. Until
// one comes or goes, as in the broker, none is active.
func (sub *subscription) reset(i int) {
	if c := sub.active; c != nil {
		sub.consumers = slices.DeleteFunc(sub.consumers, func(other *consumer) bool { return other == c })
		sub.active = nil
		c.close()
	}
	sub.mark, sub.read = i, i
	clear(sub.acked)
}

// closeConsumers closes all consumers.
func (sub *subscription) closeConsumers() {
	for _, c := range sub.consumers {
		c.close()
	}
	sub.consumers, sub.active = nil, nil
}

// close tells a consumer that the broker has closed it.
func (c *consumer) close() {
	delete(c.conn.consumers, c.id)
	m, body := newCommand("CLOSE_CONSUMER", "close_consumer")
	body.setUint("consumer_id", c.id).setUint("request_id", brokersOwn)
	c.conn.send(m)
}

// backlog returns the number of entries that are not acknowledged.
func (sub *subscription) backlog() int { return len(sub.topic.entries) - sub.mark - len(sub.acked) }
