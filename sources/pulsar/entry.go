package pulsar

import (
	"time"

	"github.com/graphmill/graphmill"
)

// entry is an entry that has come out of the client.
type entry struct {
	ledger, entry int64
	messages      int       // of it that are to be handed out
	whole         bool      // all of them are there
	others        []place   // that are acknowledged with it: chunks of its message, and of such as were given up
	held          time.Time // entries are missing before it, and it waits until then; else zero
}

// waits tells whether it is to be seen yet that the entries before it do not come.
func (e *entry) waits() bool { return !e.held.IsZero() && time.Now().Before(e.held) }

// before tells whether the entry lies before a position as a whole.
func (e *entry) before(id graphmill.MessageID) bool {
	return e.ledger < id.Ledger || e.ledger == id.Ledger && e.entry < id.Entry
}

// follows tells whether the entry lies behind another one.
func (e *entry) follows(other *entry) bool {
	return e.ledger > other.ledger || e.ledger == other.ledger && e.entry > other.entry
}

// next is the position behind the entry.
func (e *entry) next(tp graphmill.TopicPartition) graphmill.Position {
	return graphmill.Position{TopicPartition: tp, Offset: -1, MessageID: graphmill.MessageID{Ledger: e.ledger, Entry: e.entry + 1}}
}
