package pulsar

import (
	"context"
	"fmt"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"

	"github.com/graphmill/graphmill"
)

// A looker asks a broker what a partition holds, by readers: consumers of
// subscriptions of their own, which are not durable and gone once they are closed.
type looker struct {
	cl pulsar.Client
	tp graphmill.TopicPartition
}

// last returns the id of the last message; some is false where there is none.
func (l looker) last() (id graphmill.MessageID, some bool, err error) {
	r, err := l.open(pulsar.ReaderOptions{StartMessageID: pulsar.LatestMessageID()})
	if err != nil {
		return id, false, err
	}
	defer r.Close()
	return l.lastOf(r)
}

func (l looker) lastOf(r pulsar.Reader) (id graphmill.MessageID, some bool, err error) {
	last, err := r.GetLastMessageID()
	if err != nil {
		return id, false, fmt.Errorf("ask for the last message of %s: %w", l.tp, err)
	}
	if last.EntryID() < 0 {
		return id, false, nil
	}
	return idOf(last), true, nil
}

// span is an entry of a partition.
type span struct {
	id       graphmill.MessageID // of its first message
	messages int32
}

// firstFrom returns the first entry at or behind that of id, with the zero value
// the first there is; some is false where there is none.
func (l looker) firstFrom(ctx context.Context, id graphmill.MessageID) (first span, some bool, err error) {
	r, err := l.open(beginAt(l.tp, id))
	if err != nil {
		return first, false, err
	}
	defer r.Close()
	last, some, err := l.lastOf(r)
	if err != nil || !some || last.Compare(entryOf(id)) < 0 {
		return first, false, err
	}
	first, err = l.next(ctx, r)
	return first, err == nil, err
}

// since returns the first entry that was published at t or later.
func (l looker) since(ctx context.Context, t time.Time) (first span, some bool, err error) {
	r, err := l.open(beginAt(l.tp, graphmill.MessageID{}))
	if err != nil {
		return first, false, err
	}
	defer r.Close()
	if err := r.SeekByTime(t); err != nil {
		return first, false, fmt.Errorf("look for %v in %s: %w", t, l.tp, err)
	}
	// HasNext is false where the broker does not answer, too: an answer in between
	// tells that it does.
	if !r.HasNext() {
		if _, _, err := l.lastOf(r); err != nil {
			return first, false, err
		}
		if !r.HasNext() {
			return first, false, nil
		}
	}
	first, err = l.next(ctx, r)
	return first, err == nil, err
}

// next reads one message, of which there must be one.
func (l looker) next(ctx context.Context, r pulsar.Reader) (span, error) {
	ctx, cancel := context.WithTimeout(ctx, positionsTimeout)
	defer cancel()
	m, err := r.Next(ctx)
	if err != nil {
		return span{}, fmt.Errorf("read a message of %s: %w", l.tp, err)
	}
	return span{id: entryOf(idOf(m.ID())), messages: max(1, m.ID().BatchSize())}, nil
}

func (l looker) open(options pulsar.ReaderOptions) (pulsar.Reader, error) {
	options.Topic = partitionName(l.tp)
	options.ReceiverQueueSize = max(1, options.ReceiverQueueSize)
	options.Decryption = passEncrypted()
	r, err := l.cl.CreateReader(options)
	if err != nil {
		return nil, fmt.Errorf("look into %s: %w", l.tp, err)
	}
	return r, nil
}

// startOf returns where a start leads in the partition as it is now: the position
// of what comes next, if nothing is there any more. That of a partition that has
// never held anything is its beginning, the zero value.
func (l looker) startOf(ctx context.Context, start graphmill.Start) (graphmill.MessageID, error) {
	// Before the search, so that a message that comes meanwhile lies behind it.
	last, some, err := l.last()
	if err != nil || !some {
		return graphmill.MessageID{}, err
	}
	end := behind(last)
	var first span
	switch {
	case start.Earliest:
		first, some, err = l.firstFrom(ctx, graphmill.MessageID{})
	case !start.Time.IsZero():
		first, some, err = l.since(ctx, start.Time)
	default:
		return end, nil
	}
	if err != nil || !some {
		return end, err
	}
	return first.id, nil
}

// beginAt makes a reader begin with the entry of id, with the zero value at the
// beginning of the partition.
func beginAt(tp graphmill.TopicPartition, id graphmill.MessageID) pulsar.ReaderOptions {
	if id == (graphmill.MessageID{}) {
		return pulsar.ReaderOptions{StartMessageID: pulsar.EarliestMessageID()}
	}
	return pulsar.ReaderOptions{
		StartMessageID:          pulsar.NewMessageID(id.Ledger, id.Entry, 0, max(0, tp.Partition)),
		StartMessageIDInclusive: true,
	}
}

// behind is the position behind a message's entry.
func behind(id graphmill.MessageID) graphmill.MessageID {
	return graphmill.MessageID{Ledger: id.Ledger, Entry: id.Entry + 1}
}

// entryOf is the position of the first message of an entry.
func entryOf(id graphmill.MessageID) graphmill.MessageID {
	return graphmill.MessageID{Ledger: id.Ledger, Entry: id.Entry}
}
