package pulsar

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"

	"github.com/graphmill/graphmill"
)

// A looker asks a broker what a partition holds, through subscriptions of its own,
// which are not durable and gone when it is done. It is for one goroutine.
type looker struct {
	a  *asker
	cl pulsar.Client // for what has to be read
	tp graphmill.TopicPartition
}

// last returns the id of the last message; some is false where there is none.
func (l looker) last(ctx context.Context) (id graphmill.MessageID, some bool, err error) {
	at, err := l.a.owner(ctx, partitionName(l.tp))
	if err != nil {
		return id, false, fmt.Errorf("find the broker of %s: %w", l.tp, err)
	}
	consumer, err := l.subscribe(ctx, at, lookName())
	if err != nil {
		return id, false, err
	}
	defer at.closeConsumer(ctx, consumer)
	is, err := at.lastMessage(ctx, consumer)
	if err != nil {
		return id, false, fmt.Errorf("ask for the last message of %s: %w", l.tp, err)
	}
	return is.Last.place(), is.Last.isEntry(), nil
}

// since returns the position behind all that was published before t, and whether
// anything is there.
func (l looker) since(ctx context.Context, t time.Time) (id graphmill.MessageID, some bool, err error) {
	at, err := l.a.owner(ctx, partitionName(l.tp))
	if err != nil {
		return id, false, fmt.Errorf("find the broker of %s: %w", l.tp, err)
	}
	name := lookName()
	consumer, err := l.subscribe(ctx, at, name)
	if err != nil {
		return id, false, err
	}
	if err := at.seek(ctx, seekCommand{ConsumerID: consumer, Published: uint64(max(1, t.UnixMilli()))}); err != nil {
		at.closeConsumer(ctx, consumer)
		return id, false, fmt.Errorf("look for %v in %s: %w", t, l.tp, err)
	}
	// The broker has closed the consumer, and kept the cursor.
	if consumer, err = l.subscribe(ctx, at, name); err != nil {
		return id, false, err
	}
	defer at.closeConsumer(ctx, consumer)
	is, err := at.lastMessage(ctx, consumer)
	if err != nil {
		return id, false, fmt.Errorf("look for %v in %s: %w", t, l.tp, err)
	}
	id = behind(is.MarkDelete.place())
	return id, is.Last.isEntry() && id.Compare(entryOf(is.Last.place())) <= 0, nil
}

// lookName is a name for a subscription of a looker.
func lookName() string { return "graphmill-look-" + rand.Text() }

// subscribe makes a consumer of a subscription that is not durable, and new unless
// it has had the name before. A partition of a topic that there is may be made by it.
func (l looker) subscribe(ctx context.Context, at *asker, name string) (consumer uint64, err error) {
	consumer, err = at.subscribe(ctx, subscribeCommand{
		Topic: partitionName(l.tp), Subscription: name, InitialPosition: initialEarliest, ForceTopicCreation: l.tp.Partition >= 0,
	})
	if err != nil {
		return 0, fmt.Errorf("look into %s: %w", l.tp, err)
	}
	return consumer, nil
}

// lastMessage asks for the last message of a consumer's topic, and for its cursor.
func (a *asker) lastMessage(ctx context.Context, consumer uint64) (*lastMessageAnswer, error) {
	reply, err := a.talk(ctx, command{Type: "GET_LAST_MESSAGE_ID", LastMessageID: &consumerCommand{consumer, a.request()}})
	if err == nil && reply.LastMessageIDIs == nil {
		err = &notPulsar{}
	}
	return reply.LastMessageIDIs, err
}

// seek moves the cursor of a consumer, whom the broker closes.
func (a *asker) seek(ctx context.Context, c seekCommand) error {
	c.RequestID = a.request()
	_, err := a.talk(ctx, command{Type: "SEEK", Seek: &c})
	return err
}

// closeConsumer ends a consumer. Where that fails it ends with the connection.
func (a *asker) closeConsumer(ctx context.Context, consumer uint64) {
	_, _ = a.talk(ctx, command{Type: "CLOSE_CONSUMER", CloseConsumer: &consumerCommand{consumer, a.request()}})
}

// isEntry tells a place from one before the first entry.
func (id placeID) isEntry() bool { return int64(id.Entry) >= 0 }

func (id placeID) place() graphmill.MessageID {
	return graphmill.MessageID{Ledger: int64(id.Ledger), Entry: int64(id.Entry), Index: max(0, id.Index)}
}

// span is an entry of a partition.
type span struct {
	id       graphmill.MessageID // of its first message
	messages int32
}

// firstFrom returns the first entry at or behind that of id, with the zero value
// the first there is; some is false where there is none.
func (l looker) firstFrom(ctx context.Context, id graphmill.MessageID) (first span, some bool, err error) {
	last, some, err := l.last(ctx)
	if err != nil || !some || last.Compare(entryOf(id)) < 0 {
		return first, false, err
	}
	r, err := l.open(beginAt(l.tp, id))
	if err != nil {
		return first, false, err
	}
	defer r.Close()
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
	last, some, err := l.last(ctx)
	if err != nil || !some {
		return graphmill.MessageID{}, err
	}
	from := behind(last)
	switch {
	case start.Earliest:
		from = graphmill.MessageID{}
	case !start.Time.IsZero():
		if from, some, err = l.since(ctx, start.Time); err != nil || !some {
			return behind(last), err
		}
	default:
		return from, nil
	}
	first, some, err := l.firstFrom(ctx, from)
	if err != nil || !some {
		return behind(last), err
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
