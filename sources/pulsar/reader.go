package pulsar

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/sources"
	"github.com/graphmill/graphmill/sources/patience"
)

// FromCommitted makes a Reader begin where START would.
const FromCommitted = sources.FromCommitted

// readerQueue is how many messages all partitions of a Reader ask for beforehand.
// With 5 MB each, the most that a broker takes by default, they are half a gigabyte:
// a Reader is made for a few batches, and goes on as quickly with few.
const readerQueue = 100

// Reader reads the topics of a stream outside of its subscription: by readers of
// the client, whose own subscriptions are not durable and gone when it is closed.
// It acknowledges nothing and disturbs nobody. It is for one goroutine.
//
// Partitions and topics that are added while it reads are not noticed.
type Reader struct {
	cfg       Config
	committed bool

	look    *subscription // from the first Fetch on
	begun   bool
	life    context.Context
	end     context.CancelFunc
	pumps   sync.WaitGroup
	entries chan []graphmill.Message // whole ones, each of one partition
	faults  chan *graphmill.Fault    // by which it ends

	inChunks atomic.Int64 // bytes of messages that are not whole
}

// NewReader makes a Reader over all partitions of cfg's topics. It begins where
// from says: FromCommitted, "earliest", "latest" (what comes after the first Fetch
// has begun) or a time in RFC 3339, which counts by publish time. Errors are of
// KindInvalid.
//
// Committed is where Offsets tells that START would begin. With an admin URL that is
// the subscription's cursor. Without one it is the position that is known here; a
// partition of which none is known is read from cfg.Start on, though its
// subscription, made by CREATE, may have a cursor before that.
func NewReader(cfg Config, from string) (*Reader, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	r := &Reader{committed: from == FromCommitted, entries: make(chan []graphmill.Message), faults: make(chan *graphmill.Fault)}
	if r.committed {
		if cfg.Subscription == "" {
			return nil, graphmill.Invalid("subscription", "a subscription is needed to begin at its cursor")
		}
	} else {
		start, err := graphmill.ParseStart("from", from)
		if err != nil {
			return nil, err
		}
		cfg.Start, cfg.Known = start, nil
	}
	r.cfg = cfg.impatient()
	r.life, r.end = context.WithCancel(context.Background())
	return r, nil
}

// Fetch waits until there is something and returns at most max messages, more only
// where the first entry holds more: entries are returned whole, as
// sources.Source.Fetch does. The first call looks for brokers and topics, for ten
// seconds at most. Errors are the context's or a *graphmill.Fault.
func (r *Reader) Fetch(ctx context.Context, max int) ([]graphmill.Fetch, error) {
	if !r.begun {
		if err := r.startPumps(ctx); err != nil {
			return nil, err
		}
		r.begun = true
	}
	var out []graphmill.Fetch
	for count := 0; count < max; {
		entry, err := r.nextEntry(ctx, len(out) == 0)
		if err != nil {
			return nil, err
		}
		if entry == nil {
			break
		}
		out = appendEntry(out, entry)
		count += len(entry)
	}
	return out, nil
}

// nextEntry returns one entry; nil, where it shall not wait and there is none.
func (r *Reader) nextEntry(ctx context.Context, wait bool) ([]graphmill.Message, error) {
	if !wait {
		select {
		case entry := <-r.entries:
			return entry, nil
		default:
			return nil, nil
		}
	}
	select {
	case entry := <-r.entries:
		return entry, nil
	case f := <-r.faults:
		return nil, f
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// appendEntry adds an entry to the last fetch where it is of the same partition, so
// that they stay in order.
func appendEntry(out []graphmill.Fetch, entry []graphmill.Message) []graphmill.Fetch {
	tp := entry[0].TopicPartition()
	for i := range out {
		if out[i].Next.TopicPartition == tp {
			out[i].Messages = append(out[i].Messages, entry...)
			out[i].Next.Pass(&entry[len(entry)-1])
			return out
		}
	}
	f := graphmill.Fetch{Next: graphmill.Position{TopicPartition: tp, Offset: -1}, Messages: entry}
	f.Next.Pass(&entry[len(entry)-1])
	return append(out, f)
}

// startPumps decides where every partition starts, and starts to read.
func (r *Reader) startPumps(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, positionsTimeout)
	defer cancel()
	if r.look == nil {
		var err error
		if r.look, err = r.cfg.outside(); err != nil {
			return err
		}
	}
	return r.look.untilDone(ctx, "find where to begin", func(ctx context.Context, s *subscription) error {
		starts := make([]graphmill.MessageID, len(s.partitions))
		if err := s.each(ctx, s.partitions, func(ctx context.Context, i int, l looker) (err error) {
			starts[i], err = r.startOf(ctx, s, l)
			return err
		}); err != nil {
			return err
		}
		for i, tp := range s.partitions {
			p := &pump{r: r, tp: tp, next: starts[i], queue: max(1, readerQueue/len(s.partitions)), chunks: r.cfg.assembly(tp, &r.inChunks)}
			r.pumps.Go(p.run)
		}
		return nil
	})
}

func (r *Reader) startOf(ctx context.Context, s *subscription, l looker) (graphmill.MessageID, error) {
	if !r.committed {
		return l.startOf(ctx, r.cfg.Start)
	}
	b, err := s.beginning(ctx, l)
	if err != nil || b.sure {
		return b.at, err
	}
	return l.startOf(ctx, r.cfg.Start)
}

// pump reads one partition and hands over whole entries.
type pump struct {
	r     *Reader
	tp    graphmill.TopicPartition
	queue int
	next  graphmill.MessageID // the next to be handed over; the zero value: the first there is

	chunks assembly // over all readers: what is whole may have begun before next

	// entry is what has come of the entry in hand, at its next message.
	entry []incoming
	at    graphmill.MessageID
}

// errHole tells that something is missing between two messages.
var errHole = errors.New("messages are missing")

// run reads until the Reader is closed.
//
// When the client's reader connects anew it goes on behind what it had in its queue,
// and forgets what it had taken out of it and not handed over yet. Such a hole in
// the ids is looked at again by a new reader, from the first id that is missing on:
// what that one gives first is what there is. (Ledgers end, and brokers keep entries
// of their own, so there are true holes.)
func (p *pump) run() {
	for p.r.life.Err() == nil {
		err := p.read()
		if err != nil && !errors.Is(err, errHole) && patience.Pause(p.r.life, time.Second) != nil {
			return
		}
	}
}

// read reads by one reader until something is missing or the Reader is closed.
func (p *pump) read() error {
	p.entry, p.at = nil, p.next
	l := looker{cl: p.r.look.cl, tp: p.tp}
	options := beginAt(p.tp, p.next)
	options.ReceiverQueueSize = p.queue
	in, err := l.open(options)
	if err != nil {
		return err
	}
	defer in.Close()
	for fresh := true; ; fresh = false {
		m, err := in.Next(p.r.life)
		for err == nil && idOf(m.ID()).Compare(p.at) < 0 { // done, or had twice
			m, err = in.Next(p.r.life)
		}
		if err != nil {
			return err
		}
		if f := obstacle(p.tp, m); f != nil {
			return p.fail(f)
		}
		id := idOf(m.ID())
		if id != p.at && !fresh {
			return errHole
		}
		got := incoming{tp: p.tp, msg: m, rest: max(0, m.ID().BatchSize()-1-id.Index)}
		if c, is := chunkOf(m); is {
			var f *graphmill.Fault
			if got.whole, f = p.chunks.add(m, c); f != nil {
				return p.fail(f)
			}
			if got.whole == nil {
				p.at = behind(id)
				continue
			}
		}
		p.entry = append(p.entry, got)
		p.at = id
		if got.rest > 0 {
			p.at.Index++
			continue
		}
		p.at = behind(id)
		select {
		case p.r.entries <- convert(nil, p.entry):
			p.entry, p.next = nil, p.at
		case <-p.r.life.Done():
			return p.r.life.Err()
		}
	}
}

// fail makes Fetch return a fault, now and from now on.
func (p *pump) fail(f *graphmill.Fault) error {
	for {
		select {
		case p.r.faults <- f:
		case <-p.r.life.Done():
			return p.r.life.Err()
		}
	}
}

// Close ends the reader.
func (r *Reader) Close() {
	r.end()
	r.pumps.Wait()
	if r.look != nil {
		r.look.cl.Close()
	}
}
