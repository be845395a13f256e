package pulsar

import (
	"time"

	"github.com/graphmill/graphmill"
)

// turn is how far the messages have come that come out of one consumer. The broker
// sends a new active consumer what is not acknowledged from the first on, but for one
// case: a read that is under way when it goes back is not called off, and what was read
// is sent first. So the first entry that comes may be a later one, and come again in its
// turn.
type turn struct {
	begun bool
	came  graphmill.MessageID // the latest message
	given bool                // something of it has been handed out
	until time.Time           // what comes first is not what was to come, and it waits until then for that; else zero
}

// waits tells whether it is to be seen yet that what was to come first does not come.
func (t *turn) waits() bool { return time.Now().Before(t.until) }

// inTurn notes the next message that has come out of the current consumer, and tells
// whether it is of use. Where it is not behind the one before, the broker has begun
// anew: we do, too, unless that would be seen, for which a new consumer is needed. The
// lock is held.
func (p *partition) inTurn(id graphmill.MessageID) bool {
	t := &p.turn
	if t.begun && id.Compare(t.came) > 0 {
		t.came = id
		return true
	}
	if t.begun && t.given {
		p.current.spoil()
		p.kick()
		return false
	}
	if t.begun {
		p.forget()
	}
	*t = turn{begun: true, came: id}
	if skips(p.at.MessageID, id) {
		t.until = time.Now().Add(standingTimeout)
		time.AfterFunc(standingTimeout, p.s.more)
		p.askWhatComes(p.current, id)
	}
	return true
}

// askWhatComes ends the wait for what was to come before id where the admin REST tells
// that another one has done it. The lock is held.
func (p *partition) askWhatComes(c *consumer, id graphmill.MessageID) {
	s := p.s
	if s.admin == nil || s.closed {
		return
	}
	s.workers.Go(func() {
		at, err := s.admin.cursor(s.life, p.tp, s.cfg.Subscription)
		if err != nil || at == nil || skips(at.next, id) {
			return
		}
		s.mu.Lock()
		if p.current == c && !p.turn.until.IsZero() {
			p.turn.until = time.Time{}
		}
		s.mu.Unlock()
		s.more()
	})
}

// skips tells whether there may be messages at or behind a position, of those that are
// before the entry of id. Of a position that is not known nothing is told.
func skips(at, id graphmill.MessageID) bool {
	switch {
	case at == graphmill.MessageID{} || id.Compare(entryOf(at)) <= 0 || id.SameEntry(at):
		return false
	case id.Ledger > at.Ledger:
		return id.Entry > 0 || at.Index > 0 // a position may lie behind the last entry of a ledger
	}
	return true
}
