package pulsar

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	"github.com/apache/pulsar-client-go/pulsar/backoff"

	"github.com/graphmill/graphmill"
)

// consumer is one consumer of the client: one subscription of one partition, over
// one connection. It is never used again after its connection has ended, nor when
// the partition comes back to it after something had arrived. So whatever comes of
// it belongs to one unbroken time in which the partition was ours, and begins with
// the first message that the subscription had not acknowledged then (see
// docs/decisions/0023-a-pulsar-consumer-serves-one-time-of-ownership.md).
//
// It is the client's listener and interceptor. The client calls both from the
// goroutine that reads the connection, so in the order in which the broker sent
// them: what arrives after BecameActive was sent after it.
type consumer struct {
	p     *partition
	cl    pulsar.Consumer // once subscribed
	queue int             // messages that the client asks for beforehand
	most  int64           // bytes of messages on their way at which it has outgrown its place

	lost     chan struct{} // closed when the connection has ended
	loseOnce sync.Once
	asking   atomic.Int32 // calls for the last message that have not begun yet (see reconnecting)

	// using is held for reading while the client is asked for the last message, or has
	// something to acknowledge: what meets the client's Close is never answered.
	using  sync.RWMutex
	closed bool          // guarded by using
	gone   chan struct{} // closed when close begins
	acking chan struct{} // holds one while an acknowledgement is under way: others would only wait in the client

	mu       sync.Mutex
	standing standing
	promised bool                // the admin REST says that it is the active one, or is to be
	begun    time.Time           // it has been subscribed then
	some     bool                // something has arrived
	since    time.Time           // the first of it
	first    graphmill.MessageID // the entry of what has arrived first
	stale    bool                // the partition has come back: what has arrived is from before and after; or see turn
	outgrown bool                // it asks for more messages than memory is meant for
	arrived  []arrival
	head     int     // of arrived
	latest   arrival // to arrive, out of arrived or not
	count    int     // messages that have arrived and not come out
	bytes    int64   // of them
}

// standing is what the broker has told a consumer.
type standing uint8

const (
	unknown standing = iota // it is told late where another one is active, and its first word may be missed
	active
	passive
)

// arrival is an entry on its way through the client.
type arrival struct {
	ledger, entry int64
	messages      int32 // that are still to come out of the client
	gap           bool  // entries are missing between it and the one before
}

// follows tells whether nothing can be missing between two entries.
func (a *arrival) follows(before *arrival) bool {
	return a.ledger == before.ledger && a.entry == before.entry+1 || a.ledger > before.ledger && a.entry == 0
}

func (a *arrival) is(id pulsar.MessageID) bool {
	return a.ledger == id.LedgerID() && a.entry == id.EntryID()
}

var (
	_ pulsar.ConsumerEventListener = (*consumer)(nil)
	_ pulsar.ConsumerInterceptor   = (*consumer)(nil)
)

// BecameActive implements pulsar.ConsumerEventListener.
func (c *consumer) BecameActive(pulsar.Consumer, string, int32) {
	c.mu.Lock()
	c.standing, c.stale = active, c.some
	c.mu.Unlock()
	c.p.kick()
}

// BecameInactive implements pulsar.ConsumerEventListener.
func (c *consumer) BecameInactive(pulsar.Consumer, string, int32) {
	c.mu.Lock()
	c.standing = passive
	c.mu.Unlock()
	c.p.kick()
}

// BeforeConsume implements pulsar.ConsumerInterceptor. The client calls it for all
// messages of an entry before it passes on the first one.
func (c *consumer) BeforeConsume(m pulsar.ConsumerMessage) {
	id := m.ID()
	c.mu.Lock()
	first := c.notice(id)
	if n := len(c.arrived); n > c.head && c.arrived[n-1].is(id) {
		c.arrived[n-1].messages++
	} else {
		a := arrival{ledger: id.LedgerID(), entry: id.EntryID(), messages: 1}
		a.gap = !first && !a.follows(&c.latest)
		c.arrived, c.latest = append(c.arrived, a), a
	}
	c.count++
	c.bytes += int64(len(m.Payload()))
	heavy := !c.outgrown && c.bytes > c.most
	weight := float64(c.bytes) / float64(c.count)
	if heavy {
		c.most *= 2 // not each message is worth a thought
	}
	c.mu.Unlock()
	if first {
		c.p.s.introduce(m.Consumer, c)
	}
	// What has come out of the client and is not taken yet is not asked for beforehand,
	// so a consumer that asks for as few as it can may have more on the way.
	outgrown := heavy && c.p.s.heavier(weight) < c.queue
	if outgrown {
		c.mu.Lock()
		c.outgrown = true
		c.mu.Unlock()
	}
	if first || outgrown {
		c.p.kick()
	}
}

// notice notes that something has arrived. The lock is held.
func (c *consumer) notice(id pulsar.MessageID) (first bool) {
	if c.some {
		return false
	}
	c.some, c.since = true, time.Now()
	c.first = graphmill.MessageID{Ledger: id.LedgerID(), Entry: id.EntryID()}
	return true
}

// arrive is notice for what the client has not shown to the interceptor.
func (c *consumer) arrive(id pulsar.MessageID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.notice(id)
}

// OnAcknowledge implements pulsar.ConsumerInterceptor.
func (c *consumer) OnAcknowledge(pulsar.Consumer, pulsar.MessageID) {}

// OnNegativeAcksSend implements pulsar.ConsumerInterceptor.
func (c *consumer) OnNegativeAcksSend(pulsar.Consumer, []pulsar.MessageID) {}

// look tells whether the partition is ours, and whether this consumer can serve it.
func (c *consumer) look() (at standing, usable bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.standing, !c.stale && !c.outgrown
}

// spoil notes that what comes of it is not what follows.
func (c *consumer) spoil() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stale = true
}

// promise notes that the admin REST calls it the active one.
func (c *consumer) promise() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.promised = true
}

// noteSubscribed notes that the consumer is subscribed.
func (c *consumer) noteSubscribed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.begun = time.Now()
}

// suppose takes the consumer for the active one where that is likely, and the broker
// would have told so by now if it told it at all. wait is how long that is still to
// go; 0 where nothing speaks for it.
//
// That messages come, or that the admin REST says so, is not enough: with a delay of
// failover the broker may send some of what comes next before it has gone back to
// what is not acknowledged, and only then tells (see arrival.gap).
func (c *consumer) suppose(now time.Time) (wait time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	from := c.begun
	if c.some {
		from = c.since
	}
	if c.standing != unknown || !c.some && !c.promised {
		return 0
	}
	if wait = from.Add(standingTimeout).Sub(now); wait > 0 {
		return wait
	}
	c.standing = active
	return 0
}

// admit takes a message that has come out of the client, and tells how many follow
// in its entry, and whether entries are missing before that. ok is false where it is
// of no more use, because the partition has gone away since.
func (c *consumer) admit(id pulsar.MessageID, size int) (rest int32, gap, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.standing == passive || c.stale {
		return 0, false, false
	}
	c.count--
	c.bytes -= int64(size)
	for c.head < len(c.arrived) {
		a := &c.arrived[c.head]
		if !a.is(id) {
			c.head++ // the client has dropped it
			continue
		}
		gap, a.gap = a.gap, false // it is before the first of its messages
		if a.messages--; a.messages > 0 {
			return a.messages, gap, true
		}
		c.head++
		if c.head == len(c.arrived) {
			c.arrived, c.head = c.arrived[:0], 0
		} else if c.head > len(c.arrived)/2 && c.head > 1000 {
			c.arrived, c.head = append(c.arrived[:0], c.arrived[c.head:]...), 0
		}
		return 0, gap, true
	}
	return 0, false, true
}

// reconnecting is what the client asks for a policy by which to connect again: when
// it has lost the connection, and before each call for the last message. There is
// no other sign of a lost connection. The client is told not to connect again (see
// options), so that is all that comes of it.
func (c *consumer) reconnecting() backoff.Policy {
	if c.asking.Add(-1) < 0 {
		c.asking.Add(1)
		c.lose()
	}
	return backoff.NewDefaultBackoff()
}

// last returns the id of the last message of the partition; some is false where there
// is none. It ends by the operation timeout.
func (c *consumer) last() (id graphmill.MessageID, some bool, err error) {
	c.using.RLock()
	defer c.using.RUnlock()
	if c.closed {
		return id, false, errClosed()
	}
	c.asking.Add(1)
	ids, err := c.cl.GetLastMessageIDs()
	if err != nil || len(ids) != 1 || ids[0].EntryID() < 0 {
		return id, false, err
	}
	return idOf(ids[0]), true, nil
}

// verify takes the consumer for lost where the broker does not know it. The client
// listens to what becomes of a consumer only once it has seen the answer to its
// subscribing: a broker that closes it between the two, as it does when partitions are
// added or a topic is deleted, would not be heard, and the partition never be read.
func (c *consumer) verify() {
	if _, _, err := c.last(); err != nil {
		c.lose()
	}
}

func (c *consumer) lose() { c.loseOnce.Do(func() { close(c.lost) }) }

// acknowledge tells the broker that entries are done, and waits for its answer. It ends
// by the operation timeout.
func (c *consumer) acknowledge(ids []pulsar.MessageID) error {
	select {
	case c.acking <- struct{}{}:
		defer func() { <-c.acking }()
	case <-c.gone:
		return errLeft
	}
	c.using.RLock()
	defer c.using.RUnlock()
	if c.closed {
		return errLeft
	}
	return c.cl.AckIDList(ids)
}

// errLeft tells that a consumer is not in use any more.
var errLeft = errors.New("the consumer has been closed")

// close ends the consumer once nothing is asked of it any more, which takes as long
// as last and acknowledge do.
func (c *consumer) close() {
	close(c.gone)
	c.using.Lock()
	c.closed = true
	c.using.Unlock()
	c.cl.Close()
}

// options are those of the client's consumer. A subscription that exists stays where
// it is, whatever initial says.
func (c *consumer) options(initial pulsar.SubscriptionInitialPosition) pulsar.ConsumerOptions {
	cfg := &c.p.s.cfg
	o := pulsar.ConsumerOptions{
		Topic:                       partitionName(c.p.tp),
		SubscriptionName:            cfg.Subscription,
		SubscriptionInitialPosition: initial,
		Name:                        c.p.s.name,
		Type:                        c.p.s.kind(),
		EventListener:               c,
		Interceptors:                pulsar.ConsumerInterceptors{c},
		MessageChannel:              c.p.s.incoming,
		ReceiverQueueSize:           c.queue,
		AckWithResponse:             true,
		MaxReconnectToBroker:        never(),
		BackOffPolicyFunc:           c.reconnecting,
		AutoDiscoveryPeriod:         noDiscovery,
		// An encrypted message comes as it is, and ends the stream; else the client
		// would leave it out, and have the broker send everything again and again.
		Decryption: passEncrypted(),
	}
	cfg.Client.consumer(&o)
	return o
}

// never is how often the client shall connect a consumer again.
func never() *uint { return new(uint) }
