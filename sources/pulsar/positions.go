package pulsar

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	"golang.org/x/sync/errgroup"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/sources/patience"
)

const (
	// positionsTimeout is how long Offsets, SetOffsets and the first Fetch of a
	// Reader try.
	positionsTimeout = 10 * time.Second

	// lookersAtOnce is how many partitions are looked at side by side.
	lookersAtOnce = 8
)

// Offsets tells where each partition of cfg's topics would begin, and who is
// connected to the subscription. It subscribes to nothing and changes nothing.
//
// With an admin URL the position is the subscription's cursor
// (graphmill.OriginGroup), the lag is the broker's backlog, and the members are the
// consumers that are connected. Without one, or while nobody answers there, nobody
// can be asked for the cursor without disturbing those who read: the position is
// the last one known here (graphmill.OriginCatalog), the lag is reckoned of message
// ids, and no members are told. A partition of which nothing is known here, though of
// its topic there is, is a new one (graphmill.OriginNewPartition) and begins at its
// beginning. Where nothing is known of the topic either, the origin is
// graphmill.OriginStartFrom; the message id is then that of the beginning for
// earliest, and not known, the zero value, otherwise: a subscription that CREATE
// made has a cursor, and only an admin URL could tell it.
//
// It tries for ten seconds. Errors are of KindInvalid, the context's or a
// *graphmill.Fault.
func Offsets(ctx context.Context, cfg Config) (graphmill.OffsetsInfo, error) {
	info := graphmill.OffsetsInfo{Group: cfg.Subscription, Members: []graphmill.GroupMember{}}
	err := withPositions(ctx, cfg, func(ctx context.Context, s *subscription) error {
		info.Partitions = make([]graphmill.PartitionOffsets, len(s.partitions))
		members := make([][]graphmill.GroupMember, len(s.partitions))
		err := s.each(ctx, s.partitions, func(ctx context.Context, i int, l looker) (err error) {
			info.Partitions[i], members[i], err = s.offsets(ctx, l)
			return err
		})
		info.Members = distinct(members)
		return err
	})
	return info, err
}

// SetOffsets moves the subscription of cfg in all partitions, or in the one given
// by only, and returns the new positions, which the catalog has to hold: a message
// id within an entry stands there alone, since the cursor is that of the whole
// entry. The subscription must be idle: a partition that a consumer is connected to
// is an error of KindConflict with the code group_active. That is decided by the
// broker, which lets no second consumer of type Exclusive in. The subscription
// keeps no memory of it: the next consumer may be of type Failover again.
//
// All partitions are held while any is moved. Where it fails half way, some have
// moved and others have not; calling again is right.
//
// A message id must be of one partition: only, or the only one there is. It may lie
// one behind the last message of a ledger, where positions come to lie. Errors are
// as those of Offsets; a target that cannot be is of KindInvalid with the field set
// or partition.
func SetOffsets(ctx context.Context, cfg Config, to graphmill.OffsetTarget, only *graphmill.TopicPartition) ([]graphmill.Position, error) {
	if to.Offset != nil {
		e := graphmill.Invalid("set", "%d is an offset, and this stream reads Pulsar, which has message ids", *to.Offset)
		e.Next = "give earliest, latest, a time, or a message id such as 12:5:0"
		return nil, e
	}
	var set []graphmill.Position
	err := withPositions(ctx, cfg, func(ctx context.Context, s *subscription) error {
		partitions, err := s.choose(only)
		if err != nil {
			return err
		}
		if partitions, err = nameable(partitions, to); err != nil {
			return err
		}
		if to.MessageID != nil && len(partitions) > 1 {
			e := graphmill.Invalid("partition", "a message id is of one partition, and this stream reads %d", len(partitions))
			e.Next = "say which by partition, as topic/number"
			return e
		}
		// Before anything is moved, so that a target that cannot be moves nothing.
		set = make([]graphmill.Position, len(partitions))
		if err := s.each(ctx, partitions, func(ctx context.Context, i int, l looker) error {
			id, err := l.resolve(ctx, to)
			set[i] = graphmill.Position{TopicPartition: l.tp, Offset: -1, MessageID: id}
			return err
		}); err != nil {
			return err
		}
		return s.move(ctx, set)
	})
	if err != nil {
		return nil, err
	}
	return set, nil
}

// subscription is a look at a subscription from outside.
type subscription struct {
	cfg        Config
	links      *links
	cl         pulsar.Client
	admin      *admin                     // nil: no admin URL is known
	partitions []graphmill.TopicPartition // all of the topics', sorted
}

// each calls do for all partitions, some side by side, and returns the first error.
func (s *subscription) each(ctx context.Context, tps []graphmill.TopicPartition, do func(ctx context.Context, i int, l looker) error) error {
	var next atomic.Int64
	g, ctx := errgroup.WithContext(ctx)
	for range min(lookersAtOnce, len(tps)) {
		g.Go(func() error {
			a, err := s.cfg.ask(ctx, s.links)
			if err != nil {
				return err
			}
			defer a.close()
			for {
				i := int(next.Add(1)) - 1
				if i >= len(tps) {
					return nil
				}
				if err := do(ctx, i, looker{a, s.cl, tps[i]}); err != nil {
					return err
				}
			}
		})
	}
	return g.Wait()
}

// nameable returns those of the partitions that a message id may be of: all where it
// names none.
func nameable(partitions []graphmill.TopicPartition, to graphmill.OffsetTarget) ([]graphmill.TopicPartition, error) {
	if to.MessageID == nil || to.Partition == nil {
		return partitions, nil
	}
	those := slices.DeleteFunc(slices.Clone(partitions), func(tp graphmill.TopicPartition) bool {
		return max(0, tp.Partition) != max(0, *to.Partition)
	})
	if len(those) == 0 && len(partitions) == 1 {
		return nil, otherPartition(graphmill.Invalid("set", "the id %s is of partition %d, not of %s", to, *to.Partition, partitions[0]), to)
	}
	if len(those) == 0 {
		return nil, otherPartition(graphmill.Invalid("set", "the id %s is of partition %d, and this stream reads none of that number", to, *to.Partition), to)
	}
	return those, nil
}

// otherPartition adds what to do about an id that names a partition in which it is
// not wanted.
func otherPartition(e *graphmill.Error, to graphmill.OffsetTarget) error {
	e.Next = fmt.Sprintf("see which partitions there are with stream offsets; an id without one is %s, and its partition is named by --partition", to.MessageID)
	return e
}

// choose returns the partitions that are meant. The one partition of a topic that
// is not partitioned may be called 0, too, and a partition as Pulsar itself calls it.
func (s *subscription) choose(only *graphmill.TopicPartition) ([]graphmill.TopicPartition, error) {
	if only == nil {
		return s.partitions, nil
	}
	topic := graphmill.PulsarTopic(only.Topic)
	if tp := partitionOf(topic); only.Partition < 0 && tp.Partition >= 0 {
		topic, only = tp.Topic, &tp
	}
	var numbers []int32
	for _, tp := range s.partitions {
		if tp.Topic != topic {
			continue
		}
		if tp.Partition == only.Partition || tp.Partition < 0 && only.Partition == 0 {
			return []graphmill.TopicPartition{tp}, nil
		}
		numbers = append(numbers, tp.Partition)
	}
	switch {
	case len(numbers) == 0:
		return nil, graphmill.Invalid("partition", "%s is not of this stream, which reads %s", only, s.cfg.reads())
	case numbers[0] < 0:
		return nil, graphmill.Invalid("partition", "%s does not exist: topic %s is not partitioned", only, topic)
	}
	if only.Partition < 0 {
		e := graphmill.Invalid("partition", "topic %s has the partitions 0 to %d", topic, slices.Max(numbers))
		e.Next = "say which, as " + only.Topic + "/0"
		return nil, e
	}
	return nil, graphmill.Invalid("partition", "%s does not exist: topic %s has the partitions 0 to %d", only, topic, slices.Max(numbers))
}

// reads tells what the stream reads, for people.
func (c *Config) reads() string {
	if c.Pattern != "" {
		return "what matches " + c.Pattern
	}
	return strings.Join(c.Topics, ", ")
}

// resolve returns the position that a target means in a partition.
func (l looker) resolve(ctx context.Context, to graphmill.OffsetTarget) (graphmill.MessageID, error) {
	if to.MessageID == nil {
		return l.startOf(ctx, to.Start)
	}
	id := *to.MessageID
	last, some, err := l.last(ctx)
	if err != nil {
		return id, err
	}
	if !some {
		e := graphmill.Invalid("set", "%s holds no messages, so there is no %s", l.tp, id)
		e.Next = "give earliest or latest"
		return id, e
	}
	if id == behind(last) {
		return id, nil
	}
	there, some, err := l.firstFrom(ctx, id)
	switch {
	case err != nil:
		return id, err
	case some && there.id.SameEntry(id) && id.Index < there.messages:
		return id, nil
	case some && there.id.SameEntry(id):
		e := graphmill.Invalid("set", "entry %d:%d of %s holds the indexes 0 to %d, %d is not among them", id.Ledger, id.Entry, l.tp, there.messages-1, id.Index)
		e.Next = fmt.Sprintf("for the first message of the entry: %d:%d:0; for what is behind it: %d:%d:0", id.Ledger, id.Entry, id.Ledger, id.Entry+1)
		return id, e
	}
	if id.Index == 0 && id.Entry > 0 { // it may be behind the last entry of a ledger that others follow
		before := graphmill.MessageID{Ledger: id.Ledger, Entry: id.Entry - 1}
		there, some, err := l.firstFrom(ctx, before)
		if err != nil || some && there.id == before {
			return id, err
		}
	}
	return id, l.noSuchMessage(ctx, id, last)
}

// noSuchMessage is the error about a message id that does not exist, with the range
// of those that do.
func (l looker) noSuchMessage(ctx context.Context, id, last graphmill.MessageID) error {
	first, some, err := l.firstFrom(ctx, graphmill.MessageID{})
	if err != nil {
		return err
	}
	e := graphmill.Invalid("set", "%s has no message %s", l.tp, id)
	if some {
		e.Text += fmt.Sprintf("; it has those from %s to %s", first.id, last)
	}
	e.Next = "give the id of a message that is there, earliest, latest or a time"
	return e
}

// move holds all partitions of the positions as their only consumer, and moves the
// cursors then.
func (s *subscription) move(ctx context.Context, to []graphmill.Position) error {
	a, err := s.cfg.ask(ctx, s.links)
	if err != nil {
		return err
	}
	defer a.close()
	held := make([]hold, 0, len(to))
	defer func() {
		for _, h := range held { // a consumer whose cursor has moved is closed
			h.at.closeConsumer(context.WithoutCancel(ctx), h.consumer)
		}
	}()
	for _, p := range to {
		h, err := a.holdOne(ctx, partitionName(p.TopicPartition))
		if busy := (*graphmill.Error)(nil); errors.As(err, &busy) {
			return s.active(ctx)
		}
		if err != nil {
			return err
		}
		if h.at == nil {
			return waits(codeTopicAbsent, p.TopicPartition.String()+" does not exist any more", "", nil)
		}
		held = append(held, h)
	}
	for _, p := range to {
		h := held[0]
		held = held[1:]
		if err := h.at.seek(ctx, seekCommand{ConsumerID: h.consumer, MessageID: seekID(p.MessageID)}); err != nil {
			return fmt.Errorf("move the subscription %q of %s: %w", s.cfg.Subscription, p.TopicPartition, err)
		}
	}
	return nil
}

// seekID is a position as the broker takes it, which goes to the entry itself, where
// that is gone to the first one behind it. The beginning of a partition is the
// protocol's earliest, -1:-1.
func seekID(id graphmill.MessageID) *placeID {
	if id == (graphmill.MessageID{}) {
		id.Ledger, id.Entry = -1, -1
	}
	return &placeID{Ledger: uint64(id.Ledger), Entry: uint64(id.Entry), Index: -1}
}

// active is the refusal to move a subscription that is in use, with the consumers
// as far as the admin interface tells them.
func (s *subscription) active(ctx context.Context) error {
	names := make([]string, 0, 1)
	for _, m := range s.members(ctx) {
		names = append(names, fmt.Sprintf("%s at %s", m.ClientID, m.Host))
	}
	who := "consumers"
	if len(names) > 0 {
		who += ": " + strings.Join(names, ", ")
	}
	e := graphmill.Conflict("group_active", "positions cannot be set while subscription %q has %s", s.cfg.Subscription, who)
	e.Next = "stop what reads with this subscription; a consumer whose machine is gone leaves it when the broker notices, within a minute by default"
	return e
}

// withPositions connects, and calls do as untilDone does, for ten seconds at most.
func withPositions(ctx context.Context, cfg Config, do func(ctx context.Context, s *subscription) error) error {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return err
	}
	if cfg.Subscription == "" {
		return graphmill.Invalid("subscription", "a subscription is needed")
	}
	ctx, cancel := context.WithTimeout(ctx, positionsTimeout)
	defer cancel()
	s, err := cfg.impatient().outside()
	if err != nil {
		return err
	}
	defer s.cl.Close()
	return s.untilDone(ctx, fmt.Sprintf("look at the positions of subscription %q", cfg.Subscription), do)
}

// untilDone finds the partitions and calls do until it succeeds, fails for good, or
// ctx ends. What do has done must not be half done.
func (s *subscription) untilDone(ctx context.Context, doing string, do func(ctx context.Context, s *subscription) error) error {
	var f *graphmill.Fault // the last one that was no end of ctx
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		err := s.try(ctx, do)
		var refused *graphmill.Error
		if err == nil || errors.As(err, &refused) || errors.Is(err, context.Canceled) {
			return err
		}
		if f == nil || ctx.Err() == nil {
			f = s.links.fault(doing, err)
		}
		if f.Class != graphmill.FaultTransient || patience.Pause(ctx, wait) != nil {
			return f
		}
	}
}

func (s *subscription) try(ctx context.Context, do func(ctx context.Context, s *subscription) error) (err error) {
	if s.partitions, err = s.cfg.existing(ctx, s.links); err != nil {
		return err
	}
	return do(ctx, s)
}

// outside makes a look at the subscription. Nothing is dialled yet. The caller closes
// its client.
func (c Config) outside() (*subscription, error) {
	s := &subscription{cfg: c}
	s.links = newLinks(&s.cfg)
	var err error
	if s.admin, err = s.cfg.admin(s.links); err != nil {
		return nil, err
	}
	s.cl, err = s.cfg.connect(s.links)
	return s, err
}

// impatient is a Config whose client gives each call up in time for another try.
func (c Config) impatient() Config {
	c.Client.operationTimeout = min(cmp.Or(c.Client.operationTimeout, defaultOperationTimeout), positionsTimeout/2)
	return c
}
