package pulsar

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/graphmill/graphmill"
)

// offsets tells where START would begin in one partition, and who is connected.
func (s *subscription) offsets(ctx context.Context, l looker) (graphmill.PartitionOffsets, []graphmill.GroupMember, error) {
	out := graphmill.PartitionOffsets{TopicPartition: l.tp, Offset: -1, First: -1, End: -1, Lag: -1, LagFrom: graphmill.LagFromClient}
	last, some, err := l.last(ctx)
	if err != nil {
		return out, nil, err
	}
	if some {
		out.LastMessageID = last
	}
	b, err := s.beginning(ctx, l)
	if err != nil {
		return out, nil, err
	}
	out.MessageID, out.Origin = b.at, b.origin
	switch {
	case b.cursor != nil:
		out.Lag, out.LagFrom = b.cursor.backlog, graphmill.LagFromAdmin
		return out, b.cursor.consumers, nil
	case b.sure:
		out.Lag = lag(b.at, last, some)
	}
	return out, nil, nil
}

// beginning is where START would begin in a partition.
type beginning struct {
	at     graphmill.MessageID
	origin graphmill.OffsetOrigin
	sure   bool    // at is known
	cursor *cursor // what the admin interface tells; nil: nothing
}

// beginning finds out where START would begin.
func (s *subscription) beginning(ctx context.Context, l looker) (beginning, error) {
	known, topicKnown := s.cfg.known(l.tp)
	c, told := s.cursor(ctx, l.tp)
	beginnings := graphmill.Start{Earliest: true}
	switch {
	case c != nil:
		b := beginning{at: c.next, origin: graphmill.OriginGroup, sure: true, cursor: c}
		if known == nil || known.Index == 0 || known.Compare(c.next) < 0 {
			return b, nil
		}
		first, some, err := l.firstFrom(ctx, c.next)
		if some && first.id.SameEntry(*known) { // half of the entry that comes is done
			b.at = *known
		}
		return b, err
	case known != nil && *known != (graphmill.MessageID{}):
		return beginning{at: *known, origin: graphmill.OriginCatalog, sure: true}, nil
	case known != nil:
		at, err := l.startOf(ctx, beginnings)
		return beginning{at: at, origin: graphmill.OriginCatalog, sure: true}, err
	case topicKnown:
		at, err := l.startOf(ctx, beginnings)
		return beginning{at: at, origin: graphmill.OriginNewPartition, sure: true}, err
	case !told && !s.cfg.Start.Earliest:
		return beginning{origin: graphmill.OriginStartFrom}, nil
	}
	at, err := l.startOf(ctx, s.cfg.Start)
	return beginning{at: at, origin: graphmill.OriginStartFrom, sure: true}, err
}

// cursor asks the admin interface; told is false where there is none, or it does not
// answer. Nil and told: the subscription does not exist.
func (s *subscription) cursor(ctx context.Context, tp graphmill.TopicPartition) (c *cursor, told bool) {
	if s.admin == nil {
		return nil, false
	}
	c, err := s.admin.cursor(ctx, tp, s.cfg.Subscription)
	if err == nil {
		return c, true
	}
	if s.admin.fault("", err).Code == codeTopicAbsent { // of a partition to which nobody has come yet
		return nil, true
	}
	s.cfg.Logger.Warn("the admin interface does not tell where the subscription is", "partition", tp.String(), "error", err)
	return nil, false
}

// members are the consumers that are connected, of all partitions, as far as the
// admin interface tells.
func (s *subscription) members(ctx context.Context) []graphmill.GroupMember {
	var members [][]graphmill.GroupMember
	for _, tp := range s.partitions {
		if c, _ := s.cursor(ctx, tp); c != nil {
			members = append(members, c.consumers)
		}
	}
	return distinct(members)
}

// distinct returns each member once, sorted. A member is connected to several
// partitions.
func distinct(members [][]graphmill.GroupMember) []graphmill.GroupMember {
	all := slices.Concat(members...)
	slices.SortFunc(all, func(a, b graphmill.GroupMember) int {
		return cmp.Or(strings.Compare(a.ClientID, b.ClientID), strings.Compare(a.Host, b.Host))
	})
	if all = slices.Compact(all); all == nil {
		all = []graphmill.GroupMember{}
	}
	return all
}
