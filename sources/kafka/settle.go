package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/graphmill/graphmill"
)

// Where reading starts in a partition is decided here, for the Source and for
// the Reader alike. First that exists:
//
//  1. the group's commit, whoever made it;
//  2. the last acknowledged position of the catalog (a group's commits expire);
//  3. the beginning, where the partition is younger than the group's reading;
//  4. Config.Start.
//
// A partition is younger if its number is at or beyond the number of partitions
// that the topic had when the group's first position in it was settled. Every
// commit carries that number on, and nobody raises it: two members that settle
// two new partitions at the same time would otherwise take each other's for old
// ones, resolve latest, and lose what came before. A topic that was absent when
// the source was opened is younger as a whole.

// settled is the start position of one partition.
type settled struct {
	graphmill.Position
	epoch int32  // leader epoch of the commit, to detect truncation; -1: not known
	note  note   // for this commit and all later ones
	store bool   // the group has no commit that says just this
	why   string // for the log
}

// facts is what the brokers say that decides where reading starts.
type facts struct {
	topics  map[string]topicInfo
	commits kadm.OffsetResponses
	first   listing // first offsets there are
	start   listing // where Config.Start leads
	last    listing // high watermarks
}

// gather asks the brokers for the facts about partitions.
func gather(ctx context.Context, cl *kgo.Client, cfg *Config, tps []graphmill.TopicPartition) (facts, error) {
	topics := topicsOf(tps)
	var f facts
	var err error
	if f.topics, err = describeTopics(ctx, cl, topics); err != nil {
		return f, err
	}
	if fault := complaint(topics, f.topics); fault != nil && fault.Code != codeUnreachable {
		return f, fault // partitions without a leader concern those who need them
	}
	f.commits, err = kadm.NewClient(cl).FetchOffsets(ctx, cfg.Group)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) { // a group that has never been joined
		return f, fmt.Errorf("fetch the commits of group %q: %w", cfg.Group, err)
	}
	f.first = listOffsets(ctx, cl, tps, firstOffset, readUncommitted)
	switch {
	case cfg.Start.Earliest:
		f.start = f.first
	case !cfg.Start.Time.IsZero():
		f.start = listOffsets(ctx, cl, tps, cfg.Start.Time.UnixMilli(), readUncommitted)
	default:
		// The last stable offset: messages of a transaction that is open now
		// become visible later, so they are later messages.
		f.start = listOffsets(ctx, cl, tps, lastOffset, readCommitted)
	}
	// Last, so that no position that was valid a moment ago lies beyond it.
	f.last = listOffsets(ctx, cl, tps, lastOffset, readUncommitted)
	return f, nil
}

// settle decides the position of tp. A fault means that the position that is
// known cannot be read any more; other errors, that facts are missing.
func (f *facts) settle(cfg *Config, tp graphmill.TopicPartition, younger bool) (settled, error) {
	info := f.topics[tp.Topic]
	s := settled{
		Position: graphmill.Position{TopicPartition: tp, TopicID: info.id},
		epoch:    -1,
		note:     note{topicID: info.id, partitions: max(info.partitions, tp.Partition+1)},
		store:    true,
	}
	if base := f.base(tp.Topic, info.id); base > 0 {
		s.note.partitions = base
		younger = younger || tp.Partition >= base
	}

	commit, committed := f.commits.Lookup(tp.Topic, tp.Partition)
	known, isKnown := lookupKnown(cfg.Known, tp)
	var err error
	switch {
	case committed && commit.Err != nil:
		return s, fmt.Errorf("fetch the commit of %s: %w", tp, commit.Err)
	case committed && commit.At >= 0:
		own, isOwn := parseNote(commit.Metadata)
		if isOwn && differ(own.topicID, info.id) {
			return s, recreated(cfg, tp, own.topicID, info.id)
		}
		s.Offset, s.epoch, s.why = commit.At, commit.LeaderEpoch, "the group's commit"
		s.note.more = own.more
		s.store = !isOwn || own != s.note
	case isKnown:
		if differ(known.TopicID, info.id) {
			return s, recreated(cfg, tp, known.TopicID, info.id)
		}
		s.Offset, s.why = known.Offset, "the last acknowledged position"
	case younger:
		s.why = "a new partition"
		if s.Offset, err = f.first.at(tp); err != nil {
			return s, err
		}
	default:
		s.why = "the start option"
		if s.Offset, err = f.start.at(tp); err != nil {
			return s, err
		}
		if s.Offset < 0 { // a time after the last message
			if s.Offset, err = f.last.at(tp); err != nil {
				return s, err
			}
		}
	}
	return s, f.inRange(cfg, s.Position)
}

// inRange checks a position against what the broker has. Where a leader has
// not answered there is no complaint: fetching will tell.
func (f *facts) inRange(cfg *Config, p graphmill.Position) error {
	first, err := f.first.at(p.TopicPartition)
	if err != nil {
		return nil
	}
	last, err := f.last.at(p.TopicPartition)
	if err != nil || (p.Offset >= first && p.Offset <= last) {
		return nil
	}
	return lost(cfg, p, first, last)
}

// base returns how many partitions the topic had when the group's first
// position in it was settled; 0: no commit says so.
func (f *facts) base(topic, id string) int32 {
	var base int32
	for _, c := range f.commits[topic] {
		if n, ok := parseNote(c.Metadata); ok && c.At >= 0 && !differ(n.topicID, id) {
			base = max(base, n.partitions)
		}
	}
	return base
}

// differ tells whether two topic ids are of two topics. An id that one side
// does not know says nothing: brokers learn to give ids by an upgrade.
func differ(a, b string) bool { return a != "" && b != "" && a != b }

// topicsOf returns each topic of tps once.
func topicsOf(tps []graphmill.TopicPartition) []string {
	var topics []string
	for _, tp := range tps {
		if !slices.Contains(topics, tp.Topic) {
			topics = append(topics, tp.Topic)
		}
	}
	return topics
}

func lookupKnown(known []graphmill.Position, tp graphmill.TopicPartition) (graphmill.Position, bool) {
	i := slices.IndexFunc(known, func(p graphmill.Position) bool { return p.TopicPartition == tp })
	if i < 0 {
		return graphmill.Position{}, false
	}
	return known[i], true
}

// moveOn is the sentence for a position that somebody has to choose anew. A
// commit of another tool has no note, so it is taken as it is.
func moveOn(cfg *Config, topic string) string {
	return fmt.Sprintf("decide where to go on and set it in the group while the stream is stopped, for example with kafka-consumer-groups --bootstrap-server %s --group %s --topic %s --reset-offsets --to-earliest (or --to-latest) --execute, or with rpk group seek",
		cfg.Brokers[0], cfg.Group, topic)
}

func lost(cfg *Config, at graphmill.Position, first, last int64) *graphmill.Fault {
	what := "the messages in between are gone (retention, or records were deleted)"
	if at.Offset > last {
		what = "the broker has lost messages that it had"
	}
	return ends(codePositionLost,
		fmt.Sprintf("%s stands at offset %d, but the broker has %d to %d: %s", at.TopicPartition, at.Offset, first, last, what),
		moveOn(cfg, at.Topic), nil)
}

func recreated(cfg *Config, tp graphmill.TopicPartition, was, is string) *graphmill.Fault {
	return ends(codeTopicRecreate,
		fmt.Sprintf("topic %q was deleted and created anew: the position of %s is of the topic with id %s, now it has %s", tp.Topic, tp, was, is),
		moveOn(cfg, tp.Topic), nil)
}

// settle settles the partitions of a new assignment and commits what is not in
// the group yet. It tries until ctx ends, which happens when the group goes
// into its next round.
func (s *Source) settle(ctx context.Context, tps []graphmill.TopicPartition) ([]settled, error) {
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		out, err := s.trySettle(ctx, tps)
		if err == nil {
			return out, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if f := s.links.fault("settle the start positions", err); f.Class == graphmill.FaultSetup {
			return nil, f
		}
		s.cfg.Logger.Debug("start positions cannot be settled yet", "error", err)
		s.links.signal()
		if err := pause(ctx, wait); err != nil {
			return nil, err
		}
	}
}

func (s *Source) trySettle(ctx context.Context, tps []graphmill.TopicPartition) ([]settled, error) {
	asked, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	f, err := gather(asked, s.cl, &s.cfg, tps)
	if err != nil {
		return nil, err
	}
	leaders := map[int32]struct{}{}
	out := make([]settled, 0, len(tps))
	var store []settled
	for _, tp := range tps {
		one, err := f.settle(&s.cfg, tp, s.wasAbsent(tp.Topic))
		if err != nil {
			return nil, err
		}
		s.goOn(&one)
		out = append(out, one)
		if one.store {
			store = append(store, one)
		}
		for id := range f.topics[tp.Topic].leaders {
			leaders[id] = struct{}{}
		}
	}
	s.budget.among(len(leaders))
	if len(store) == 0 {
		return out, nil
	}
	offsets := make([]offset, 0, len(store))
	for _, one := range store {
		offsets = append(offsets, offset{one.TopicPartition, one.Offset, one.epoch, one.note})
	}
	if err := s.commit(ctx, offsets, func(graphmill.TopicPartition) bool { return true }); err != nil {
		return nil, fmt.Errorf("commit the start positions: %w", err)
	}
	return out, nil
}
