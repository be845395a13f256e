package pulsarserver

import (
	"cmp"
	"fmt"
	"sort"
)

// MessageID is the place of an entry: a message that was sent alone, or a batch.
type MessageID struct {
	Ledger, Entry int64 // Entry is -1 before the first of a ledger
}

// String returns ledger:entry, as the admin interface writes places.
func (id MessageID) String() string { return fmt.Sprintf("%d:%d", id.Ledger, id.Entry) }

// Compare orders places as they were written.
func (id MessageID) Compare(other MessageID) int {
	return cmp.Or(cmp.Compare(id.Ledger, other.Ledger), cmp.Compare(id.Entry, other.Entry))
}

// entry is what one SEND brought.
type entry struct {
	id        MessageID
	data      []byte // as it came, from the magic number on
	messages  int    // 1, or those of a batch
	batched   bool
	published uint64 // ms since 1970, by the producer's clock
}

// topic is a topic that is not partitioned, or one partition. Its entries never
// go away, so their indices are their order over all ledgers.
type topic struct {
	s         *Server
	name      string // in full
	partition int    // -1: it is not one
	ledger    int64  // that entries are written to
	next      int64  // the id of the next entry in it
	entries   []entry
	subs      map[string]*subscription
	producers map[*producer]struct{}
}

// append stores an entry and offers it to all subscriptions.
func (t *topic) append(e entry) MessageID {
	e.id = MessageID{t.ledger, t.next}
	t.next++
	t.entries = append(t.entries, e)
	for _, sub := range t.subs {
		sub.dispatch()
	}
	return e.id
}

// roll makes what is sent from now on go to another ledger.
func (t *topic) roll(ledger int64) { t.ledger, t.next = ledger, 0 }

// at returns the index of the first entry at or behind id.
func (t *topic) at(id MessageID) int {
	return sort.Search(len(t.entries), func(i int) bool { return t.entries[i].id.Compare(id) >= 0 })
}

// after returns the index of the first entry behind id.
func (t *topic) after(id MessageID) int {
	return sort.Search(len(t.entries), func(i int) bool { return t.entries[i].id.Compare(id) > 0 })
}

// since returns the index of the first entry that was not published before ms,
// if, as the broker takes it, times never go back.
func (t *topic) since(ms uint64) int {
	return sort.Search(len(t.entries), func(i int) bool { return t.entries[i].published >= ms })
}

// before returns the place of the entry before an index.
func (t *topic) before(i int) MessageID {
	switch {
	case i > 0:
		return t.entries[i-1].id
	case len(t.entries) > 0:
		return MessageID{t.entries[0].id.Ledger, -1}
	}
	return MessageID{t.ledger, -1}
}

// last returns the place of the last entry.
func (t *topic) last() MessageID { return t.before(len(t.entries)) }
