package pulsar

import (
	"context"
	"slices"
	"time"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/sources/patience"
)

const (
	// standingTimeout is how long a consumer that has been told nothing is taken for
	// one that may still be told. Brokers wait a second by default
	// (activeConsumerFailoverDelayTimeMillis).
	standingTimeout = 3 * time.Second

	// usualGaps is how many gaps among the entries of a partition turn out to be none
	// before they are not waited for any more.
	usualGaps = 3

	firstPause = 100 * time.Millisecond // between two tries to subscribe
	longPause  = 2 * time.Second
)

// partition is one partition of a topic, which this source reads whenever the
// broker gives it to it. One goroutine (run) subscribes, and tells the Observer;
// Fetch and Acknowledge work on what is guarded by the source's lock.
type partition struct {
	s    *Source
	tp   graphmill.TopicPartition
	wake chan struct{} // a token when the consumer's standing has changed
	end  context.CancelFunc

	subscribed bool // once; run's own

	// Guarded by s.mu.
	young    bool // it came after the stream had begun: nothing of it may be left out
	settled  bool // the subscription exists
	told     bool // whose the partition is was known once, or did not become known in time
	current  *consumer
	attached bool                // current is subscribed
	owned    bool                // between Assigned and Revoked
	at       graphmill.Position  // all before it is acknowledged, as far as is known here
	half     graphmill.MessageID // messages before it are done, of its own entry
	messages []graphmill.Message // that have come out of the client, oldest first
	fresh    []incoming          // that are about to become messages; empty but for a moment
	entries  []entry             // that the messages are of
	out      []entry             // handed out and not acknowledged, oldest first
	renewed  bool                // the partition has been away since something was handed out
	broken   *graphmill.Fault    // what comes behind the messages cannot be read
	chunks   assembly
	held     time.Time // of the next entry; see there
	gaps     int       // at which nothing was to come, in a row

	turn turn // of what comes out of current
}

func (p *partition) kick() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// run keeps a consumer on the partition until ctx ends.
func (p *partition) run(ctx context.Context) {
	defer p.s.recoveredFrom(p.tp.String())
	wait := firstPause
	for ctx.Err() == nil {
		c, err := p.subscribe(ctx)
		if err != nil {
			f := p.s.links.fault("subscribe to "+p.tp.String(), err)
			// Another server that is just beginning has it to itself for a moment.
			brief := wait == firstPause && (f.Code == codeBusy || f.Code == codeOtherType)
			if ctx.Err() == nil && !brief {
				p.s.troubledBy(p.tp.String(), f)
			}
			_ = patience.Pause(ctx, wait)
			wait = min(2*wait, longPause)
			continue
		}
		p.s.recoveredFrom(p.tp.String())
		began := time.Now()
		lost := p.hold(ctx, c)
		p.letGo(c)
		if lost {
			// What it has been asked is not answered any more, and ends by the operation
			// timeout: the next consumer does not wait for that.
			p.s.workers.Go(func() { p.retire(c) })
		} else {
			p.retire(c) // the broker must know it no more when the next one comes
		}
		if time.Since(began) > longPause {
			wait = firstPause
			continue
		}
		// A broker that lets in and throws out at once is not to be asked all the time.
		_ = patience.Pause(ctx, wait)
		wait = min(2*wait, longPause)
	}
}

// subscribe makes a consumer, which begins to receive at once. The call of the
// client ends by the operation timeout.
func (p *partition) subscribe(ctx context.Context) (*consumer, error) {
	if err := p.settle(ctx); err != nil {
		return nil, err
	}
	if p.subscribed {
		if err := p.stillThere(ctx); err != nil {
			return nil, err
		}
	}
	s := p.s
	c := &consumer{p: p, lost: make(chan struct{}), gone: make(chan struct{}), acking: make(chan struct{}, 1)}
	if s.cfg.Exclusive {
		c.standing = active
	}
	s.mu.Lock()
	c.queue, c.most = s.queueSize(), s.queueBytes()
	initial := p.foundation().initial()
	p.current, p.turn = c, turn{}
	s.mu.Unlock()
	cl, err := s.cl.Subscribe(c.options(initial))
	if err != nil {
		s.mu.Lock()
		p.current = nil
		s.mu.Unlock()
		s.forget(c)
		return nil, err
	}
	p.subscribed = true
	c.noteSubscribed()
	s.introduce(cl, c)
	s.workers.Go(c.verify)
	s.mu.Lock()
	p.settled, p.attached = true, true
	s.mu.Unlock()
	return c, nil
}

// stillThere is the fault that the topic has been deleted. The client's subscribing
// would make it again, as loose partitions, where the broker makes topics that are
// asked for. Once the topics are looked for the next time the partition ends.
func (p *partition) stillThere(ctx context.Context) error {
	one := p.s.cfg
	one.Topics, one.Pattern = []string{p.tp.Topic}, ""
	there, err := one.existing(ctx, p.s.links)
	if err != nil || slices.Contains(there, p.tp) {
		return err
	}
	return waits(codeTopicAbsent, p.tp.String()+" does not exist", "create it", nil)
}

// retire ends a consumer. What still comes of it is known to be of no more use.
func (p *partition) retire(c *consumer) {
	c.close()
	p.s.forget(c)
}

// hold serves the partition by a consumer for as long as that is of use. It tells
// whether the connection is lost.
func (p *partition) hold(ctx context.Context, c *consumer) (lost bool) {
	timer := time.NewTimer(standingTimeout)
	defer timer.Stop()
	if is, _ := c.look(); is == unknown {
		p.askStanding(ctx, c)
	}
	for {
		if wait := c.suppose(time.Now()); wait > 0 {
			timer.Reset(wait)
		}
		is, usable := c.look()
		switch {
		case is == active && !usable:
			return false
		case is == active && !p.isOwned():
			p.assign(c)
		case is == passive && p.isOwned():
			p.revoke()
		}
		if is != unknown {
			p.standingKnown()
		}
		select {
		case <-p.wake:
		case <-timer.C:
			p.standingKnown()
		case <-c.lost:
			return true
		case <-ctx.Done():
			return false
		}
	}
}

// askStanding asks whose the partition is, where there is somebody to ask. The broker
// tells the active consumer after activeConsumerFailoverDelayTimeMillis, and others
// nothing that the client would notice; where that time is 0, nobody.
func (p *partition) askStanding(ctx context.Context, c *consumer) {
	if p.s.admin == nil {
		return
	}
	at, err := p.s.admin.cursor(ctx, p.tp, p.s.cfg.Subscription)
	switch {
	case err != nil:
		p.s.cfg.Logger.Debug("whose a partition is cannot be asked for", "partition", p.tp.String(), "error", err)
	case at != nil && at.active == p.s.name:
		c.promise()
	default:
		p.standingKnown()
	}
}

func (p *partition) standingKnown() {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	if !p.told {
		p.told = true
		p.s.openIfSettled()
	}
}

func (p *partition) isOwned() bool {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	return p.owned
}

// assign makes the partition owned. Fetch hands out nothing of it before the
// Observer has heard where it begins.
func (p *partition) assign(c *consumer) {
	s := p.s
	s.mu.Lock()
	at := p.at
	s.mu.Unlock()
	s.tell(func() { s.obs.Assigned([]graphmill.Position{at}) })
	s.mu.Lock()
	p.owned = p.current == c
	s.mu.Unlock()
	s.cfg.Logger.Debug("partition assigned", "partition", p.tp.String(), "consumer", s.name)
	s.more()
}

// revoke gives the partition up. The broker has given it to somebody else already,
// or may have done so while nobody could tell us.
func (p *partition) revoke() {
	s := p.s
	s.mu.Lock()
	was := p.owned
	p.owned = false
	if slices.ContainsFunc(p.entries, func(e entry) bool { return e.waits() }) {
		p.gaps = 0
	}
	p.forget()
	// What another one has done of an entry is not known.
	p.at.MessageID.Index, p.half, p.renewed = 0, graphmill.MessageID{}, true
	s.mu.Unlock()
	if !was {
		return
	}
	s.tell(func() { s.obs.Revoked(s.life, []graphmill.TopicPartition{p.tp}, true) })
}

// forget drops what has come out of the client and is not handed out. The lock is held.
func (p *partition) forget() {
	p.messages, p.entries, p.broken = nil, nil, nil
	clear(p.fresh)
	p.fresh = p.fresh[:0]
	p.chunks.clear()
	p.held = time.Time{}
}

// letGo takes the partition from a consumer that is of no more use.
func (p *partition) letGo(c *consumer) {
	p.s.mu.Lock()
	if p.current == c {
		p.current = nil
	}
	p.attached = false
	p.s.mu.Unlock()
	p.revoke()
}

// position is the next message to read after what is acknowledged. The broker sends
// what is not from the first one on. The lock is held.
func (p *partition) position() graphmill.MessageID {
	at := p.at.MessageID
	if c := p.current; c != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.some && c.first.Compare(at) > 0 {
			return c.first
		}
	}
	return at
}

// add takes a message of the partition that has come out of the client, each in its
// turn. It has to be converted before the lock, which is held, is let go.
func (p *partition) add(in incoming, gap bool) {
	if gap && p.gaps < usualGaps {
		p.held = time.Now().Add(standingTimeout)
		time.AfterFunc(standingTimeout, p.s.more)
	}
	if c, is := chunkOf(in.msg); is {
		if in.whole, p.broken = p.chunks.add(in.msg, c); in.whole == nil {
			return
		}
	}
	id := idOf(in.msg.ID())
	last := len(p.entries) - 1
	if last < 0 || p.entries[last].whole || p.entries[last].ledger != id.Ledger || p.entries[last].entry != id.Entry {
		if last >= 0 {
			p.entries[last].whole = true
		}
		p.chunks.giveUp(in.msg.PublishTime())
		e := entry{ledger: id.Ledger, entry: id.Entry, others: p.chunks.takeSpare(), held: p.held}
		if in.whole != nil {
			e.others = append(e.others, in.whole.others...)
		}
		p.held = time.Time{}
		p.entries = append(p.entries, e)
		last++
	}
	if !id.SameEntry(p.half) || id.Compare(p.half) >= 0 {
		p.fresh = append(p.fresh, in)
		p.entries[last].messages++
	}
	p.entries[last].whole = in.rest == 0
}

// convert makes messages of what has been added. The lock is held.
func (p *partition) convert() {
	if len(p.fresh) == 0 {
		return
	}
	p.messages = convert(p.messages, p.fresh)
	clear(p.fresh)
	p.fresh = p.fresh[:0]
}

// handOut takes whole entries of the partition's beginning, with at most room
// messages; with more where the first one has more and alone allows it. The lock is
// held.
func (p *partition) handOut(room int, alone bool) (f graphmill.Fetch, ok bool) {
	if p.turn.waits() {
		return f, false
	}
	n, count := 0, 0
	for _, e := range p.entries {
		if !e.whole || e.waits() || count+e.messages > room && !(alone && n == 0) {
			break
		}
		if !e.held.IsZero() {
			p.gaps++
		}
		n, count = n+1, count+e.messages
	}
	if n == 0 {
		return f, false
	}
	p.turn.given = true
	f = graphmill.Fetch{Next: p.entries[n-1].next(p.tp), Messages: p.messages[:count:count]}
	p.given(p.entries[:n])
	p.entries, p.messages = p.entries[n:], p.messages[count:]
	if len(p.entries) == 0 {
		p.entries, p.messages = nil, nil // those that were handed out are the caller's
	}
	return f, true
}

// given notes entries as handed out. What was handed out before the partition went
// away and came back comes again first, if nobody else has acknowledged any of it; if
// somebody has, he has read on, and our notes of that time are worth nothing. The
// lock is held.
func (p *partition) given(entries []entry) {
	if p.renewed && len(p.out) > 0 && (p.out[0].follows(&entries[0]) || entries[0].follows(&p.out[0])) {
		p.out = nil
	}
	p.renewed = false
	for _, e := range entries {
		if len(p.out) == 0 || e.follows(&p.out[len(p.out)-1]) {
			p.out = append(p.out, e)
		}
	}
}

// pass drops what lies before a position: it has been acknowledged. The lock is held.
func (p *partition) pass(id graphmill.MessageID) {
	for len(p.out) > 0 && p.out[0].before(id) {
		p.out = p.out[1:]
	}
	for len(p.entries) > 0 && p.entries[0].whole && p.entries[0].before(id) { // that came again
		p.messages = p.messages[p.entries[0].messages:]
		p.entries = p.entries[1:]
	}
}
