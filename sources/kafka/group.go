package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/graphmill/graphmill"
)

// The client calls the functions here from its group goroutines, never two at
// a time, in this order: assigned, settleAssigned for what is new, revoked or
// lost. Heartbeats go on meanwhile.

// owned is a partition that belongs to this member, from its settling until
// Observer.Revoked has returned.
type owned struct {
	progress
	next    int64 // of what has been handed out
	leaving bool  // being revoked: may be acknowledged, is not fetched
	beyond  bool  // the last look at it, after the broker had refused next, found the end before it
}

func (s *Source) membership() []kgo.Opt {
	return []kgo.Opt{
		kgo.WithHooks(groupHook{s}),
		kgo.ConsumerGroup(s.cfg.Group),
		kgo.ConsumeTopics(s.cfg.Topics...),
		kgo.Balancers(kgo.CooperativeStickyBalancer()),
		kgo.SessionTimeout(s.cfg.SessionTimeout),
		kgo.RebalanceTimeout(s.cfg.RebalanceTimeout),
		kgo.HeartbeatInterval(s.cfg.heartbeat()),
		kgo.DisableAutoCommit(),
		kgo.AdjustFetchOffsetsFn(s.settleAssigned),
		kgo.OnPartitionsAssigned(s.assigned),
		kgo.OnPartitionsRevoked(s.revoked),
		kgo.OnPartitionsLost(s.lost),
	}
}

// assigned begins a round in which this member is in the group.
func (s *Source) assigned(_ context.Context, _ *kgo.Client, added map[string][]int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, tp := range flatten(added) {
		s.unsettled[tp] = struct{}{}
	}
	s.groupFault, s.groupErrors = nil, 0
	s.links.signal() // to have Recovered told
	s.openedIfSettled()
}

// openedIfSettled lets Open return. The lock is held.
func (s *Source) openedIfSettled() {
	if len(s.unsettled) == 0 && !s.isOpen {
		s.isOpen = true
		s.links.hasRun.Store(true)
		close(s.opened)
	}
}

// settleAssigned decides where new partitions begin, before the client fetches
// anything of them, and makes them owned. The client leaves out partitions whose
// commits it could not fetch; they are settled here with the others, since
// nothing else would tell why they do not begin.
func (s *Source) settleAssigned(ctx context.Context, fetched map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	s.mu.Lock()
	tps := make([]graphmill.TopicPartition, 0, len(s.unsettled))
	for tp := range s.unsettled {
		tps = append(tps, tp)
	}
	s.mu.Unlock()
	if len(tps) == 0 {
		return fetched, nil
	}
	sortPartitions(tps)
	all, err := s.settle(ctx, tps)
	var f *graphmill.Fault
	if errors.As(err, &f) {
		// The stream ends by this. The client gets nothing to fetch rather than
		// an error, which would make it give up what it has and join anew.
		s.fail(f)
		return nil, nil
	}
	if err != nil {
		return nil, err
	}

	positions := make([]graphmill.Position, 0, len(all))
	for _, one := range all {
		positions = append(positions, one.Position)
		log := s.cfg.Logger.With("partition", one.TopicPartition.String(), "offset", one.Offset)
		if one.origin == graphmill.OriginAccepted {
			log.Warn("the position is gone; reading begins elsewhere, as START was told to accept", "why", one.instead)
		} else {
			log.Debug("start position settled", "from", one.origin)
		}
	}
	graphmill.SortPositions(positions)
	s.tell(func() { s.obs.Assigned(positions) })

	out := make(map[string]map[int32]kgo.Offset, len(fetched))
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range all {
		s.owned[one.TopicPartition] = &owned{
			progress: progress{note: one.note, epochs: epochs{{one.Offset - 1, one.epoch}}, acknowledged: one.Offset, promised: one.Offset},
			next:     one.Offset,
		}
		s.begun[one.TopicPartition] = struct{}{}
		delete(s.lately, one.TopicPartition)
		delete(s.unsettled, one.TopicPartition)
		if out[one.Topic] == nil {
			out[one.Topic] = make(map[int32]kgo.Offset)
		}
		out[one.Topic][one.Partition] = kgo.NewOffset().At(one.Offset).WithEpoch(one.epoch)
	}
	s.openedIfSettled()
	return out, nil
}

// revoked gives partitions up. The client has thrown away what it had buffered
// of them; the group waits until this returns.
func (s *Source) revoked(_ context.Context, _ *kgo.Client, parts map[string][]int32) {
	s.giveUp(flatten(parts), false)
}

// lost is told when the group has thrown this member out, and when no broker
// can be reached to tell it that we live: others may own the partitions by now.
func (s *Source) lost(_ context.Context, _ *kgo.Client, parts map[string][]int32) {
	s.giveUp(flatten(parts), true)
}

func (s *Source) giveUp(tps []graphmill.TopicPartition, lost bool) {
	s.mu.Lock()
	var held []graphmill.TopicPartition
	for _, tp := range tps {
		delete(s.unsettled, tp)
		if s.readFault != nil && s.readFaultOf == tp {
			s.readFault = nil
		}
		own := s.owned[tp]
		if own == nil {
			continue // the Observer has never heard of it
		}
		held = append(held, tp)
		own.leaving = true
		if lost {
			delete(s.owned, tp)
			s.lately[tp] = &own.progress
		}
	}
	// A poll that began before may hold messages of these partitions. It is
	// waited for, so that all it brings is seen with leaving set, and what
	// comes of them after a later assignment is not mistaken for old.
	p := s.poll
	if p != nil && len(held) > 0 {
		p.cancel()
	}
	s.mu.Unlock()
	if len(held) == 0 {
		return
	}
	if p != nil {
		<-p.done
	}

	ctx, cancel := context.WithTimeout(s.life, s.cfg.RebalanceTimeout/2)
	defer cancel()
	s.tell(func() { s.obs.Revoked(ctx, held, lost) })

	s.mu.Lock()
	defer s.mu.Unlock()
	for _, tp := range held {
		s.remember(tp)
		delete(s.owned, tp)
	}
}

// remember keeps how far a partition that is given up has been acknowledged
// among the known positions. A broker forgets a group's commits with the topic:
// if the partition comes back as one of a topic that was created anew, this is
// all that tells. The lock is held; settle reads the known positions without it,
// and never at the same time: the client revokes nothing while it settles.
func (s *Source) remember(tp graphmill.TopicPartition) {
	own := s.lately[tp]
	if o := s.owned[tp]; o != nil {
		own = &o.progress
	}
	if own == nil {
		return
	}
	p := graphmill.Position{TopicPartition: tp, TopicID: own.note.topicID, Offset: own.acknowledged}
	if i := slices.IndexFunc(s.cfg.Known, func(k graphmill.Position) bool { return k.TopicPartition == tp }); i >= 0 {
		s.cfg.Known[i] = p
		return
	}
	s.cfg.Known = append(s.cfg.Known, p)
}

// groupHook hears of rounds that end in an error; the client joins anew after a
// pause.
type groupHook struct{ s *Source }

// OnGroupManageError implements kgo.HookGroupManageError.
func (h groupHook) OnGroupManageError(err error) {
	s := h.s
	if answer := (*kerr.Error)(nil); !errors.As(err, &answer) {
		return // the connection's fault, which the watcher sees
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.groupErrors++
	var text string
	switch {
	case isRefusal(err):
		s.failLocked(s.links.fault(fmt.Sprintf("join group %q", s.cfg.Group), err))
		return
	case errors.Is(err, kerr.InvalidSessionTimeout), errors.Is(err, kerr.InvalidGroupID):
		s.failLocked(ends("group_invalid", fmt.Sprintf("the broker does not take group %q with a session timeout of %v", s.cfg.Group, s.cfg.SessionTimeout),
			"give the stream another group, or allow the session timeout on the broker (group.min.session.timeout.ms)", err))
		return
	case errors.Is(err, kerr.InconsistentGroupProtocol):
		text = fmt.Sprintf("group %q has members of another kind (they do not know cooperative-sticky)", s.cfg.Group)
	case errors.Is(err, kerr.GroupMaxSizeReached):
		text = fmt.Sprintf("group %q is full", s.cfg.Group)
	case s.groupErrors < 2:
		return // a session that timed out, a coordinator that moved: joining again mends it
	default:
		text = fmt.Sprintf("group %q cannot be joined", s.cfg.Group)
	}
	f := waits(codeGroupRefused, text, err)
	f.Next = "stop the other members, or give the stream a consumer group of its own"
	s.groupFault = f
	s.links.signal()
}

func flatten(parts map[string][]int32) []graphmill.TopicPartition {
	var tps []graphmill.TopicPartition
	for topic, ps := range parts {
		for _, p := range ps {
			tps = append(tps, graphmill.TopicPartition{Topic: topic, Partition: p})
		}
	}
	sortPartitions(tps)
	return tps
}

func sortPartitions(tps []graphmill.TopicPartition) {
	slices.SortFunc(tps, func(a, b graphmill.TopicPartition) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
}
