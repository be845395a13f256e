package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/sources/patience"
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
// the source was opened is younger as a whole: the number is 0 then. So it is
// after START was told to accept a topic that was created anew, and where the
// group has lost its commits (see pastOf).
//
// A position that is of another topic of the same name, or that the broker
// cannot read any more, ends the stream, unless START was told what to do.

// settled is the start position of one partition.
type settled struct {
	graphmill.Position
	epoch   int32 // of the leader that wrote the message before it; -1: not known
	note    note  // for this commit and all later ones
	store   bool  // the group has no commit that says just this
	origin  graphmill.OffsetOrigin
	instead string // origin is accepted: what would have ended the stream
}

// acceptance is what START was told to go on with though the position is gone.
type acceptance struct {
	recreated bool
	lost      string // as Config.AcceptLost
}

func (c *Config) accepted() acceptance { return acceptance{c.AcceptRecreated, c.AcceptLost} }

// settle decides the position of tp. A fault means that the position that is
// known cannot be read any more, in which case it stands in what is returned;
// other errors, that facts are missing.
func (f *facts) settle(cfg *Config, tp graphmill.TopicPartition, younger bool, accept acceptance) (settled, error) {
	info, past := f.topics[tp.Topic], f.past[tp.Topic]
	s := settled{
		Position: graphmill.Position{TopicPartition: tp, TopicID: info.id, Offset: -1},
		epoch:    -1,
		note:     note{topicID: info.id, partitions: max(info.partitions, tp.Partition+1)},
		store:    true,
	}
	switch {
	case past.settled:
		s.note.partitions = past.base
		younger = younger || tp.Partition >= past.base
	case younger:
		s.note.partitions = 0 // whatever this topic has came after the start
	}

	commit, committed := f.commits.Lookup(tp.Topic, tp.Partition)
	known, isKnown := lookupKnown(cfg.Known, tp)
	switch {
	case committed && commit.At >= 0:
		own, isOwn := parseNote(commit.Metadata)
		s.Offset, s.epoch, s.origin = commit.At, commit.LeaderEpoch, graphmill.OriginGroup
		if isOwn && differ(own.topicID, info.id) {
			return f.anew(cfg, s, own.topicID, accept)
		}
		s.note.more = own.more
		s.store = !isOwn || own != s.note
	case isKnown:
		s.Offset, s.origin = known.Offset, graphmill.OriginCatalog
		if differ(known.TopicID, info.id) {
			return f.anew(cfg, s, known.TopicID, accept)
		}
	case past.former != "" && !past.settled:
		// The others of this topic stand in an earlier one. Latest would leave
		// out what this one had before it was noticed.
		return f.anew(cfg, s, past.former, accept)
	case younger:
		s.origin = graphmill.OriginNewPartition
		return s, s.begin(f.first.of(tp))
	default:
		s.origin = graphmill.OriginStartFrom
		return s, s.begin(f.startOf(tp))
	}
	return f.reachable(cfg, s, accept)
}

// begin sets the position to an offset that the broker has listed.
func (s *settled) begin(o listedOffset, err error) error {
	if err != nil {
		return err
	}
	s.Offset, s.epoch = o.offset, o.epoch
	return nil
}

// anew is settle for a position that is of an earlier topic of this name.
func (f *facts) anew(cfg *Config, s settled, was string, accept acceptance) (settled, error) {
	fault := recreated(cfg, s.TopicPartition, was, s.TopicID)
	if !accept.recreated {
		return s, fault
	}
	s.origin, s.instead = graphmill.OriginAccepted, fault.Text
	if past := f.past[s.Topic]; !past.settled {
		s.note.partitions = 0 // all partitions of the new topic begin at their beginning
	}
	return s, s.begin(f.first.of(s.TopicPartition))
}

// reachable checks a position against what the broker has. Where a leader has
// not answered there is no complaint: fetching will tell.
func (f *facts) reachable(cfg *Config, s settled, accept acceptance) (settled, error) {
	first, err := f.first.of(s.TopicPartition)
	if err != nil {
		return s, nil
	}
	last, err := f.last.of(s.TopicPartition)
	if err != nil {
		return s, nil
	}
	var fault *graphmill.Fault
	end, isEnd := f.ends[s.TopicPartition]
	switch {
	case s.Offset < first.offset || s.Offset > last.offset:
		fault = lost(cfg, s.Position, first.offset, last.offset)
	case s.origin == graphmill.OriginGroup && isEnd && end.offset < s.Offset:
		fault = truncated(cfg, s.Position, end.offset)
	default:
		return s, nil
	}
	if accept.lost == "" {
		return s, fault
	}
	s.origin, s.instead, s.store = graphmill.OriginAccepted, fault.Text, true
	if accept.lost == graphmill.StartEarliest {
		return s, s.begin(first, nil)
	}
	return s, s.begin(f.stable.of(s.TopicPartition))
}

func lookupKnown(known []graphmill.Position, tp graphmill.TopicPartition) (graphmill.Position, bool) {
	i := slices.IndexFunc(known, func(p graphmill.Position) bool { return p.TopicPartition == tp })
	if i < 0 {
		return graphmill.Position{}, false
	}
	return known[i], true
}

// moveOn is the sentence for a position that somebody has to choose anew.
func moveOn(cfg *Config, accept string) string {
	return fmt.Sprintf("go on with graphmill stream start %s --accept %s, or choose where with graphmill stream offsets %s --set earliest|latest|TIME|OFFSET",
		cfg.Stream, accept, cfg.Stream)
}

const acceptLost = "lost=earliest (or lost=latest)"

func lost(cfg *Config, at graphmill.Position, first, last int64) *graphmill.Fault {
	what := "the messages in between are gone (retention, or records were deleted)"
	if at.Offset > last {
		what = "the broker has lost messages that it had"
	}
	return ends(codePositionLost,
		fmt.Sprintf("%s stands at offset %d, but the broker has %d to %d: %s", at.TopicPartition, at.Offset, first, last, what),
		moveOn(cfg, acceptLost), nil)
}

// truncated is the fault of a position behind messages that were read and that
// the broker has lost, and has written others in their place since.
func truncated(cfg *Config, at graphmill.Position, end int64) *graphmill.Fault {
	return ends(codePositionLost,
		fmt.Sprintf("%s stands at offset %d, but the broker has lost the messages from offset %d on and goes on with others (an election of a leader that lacked them)", at.TopicPartition, at.Offset, end),
		fmt.Sprintf("read what is there now with graphmill stream offsets %s --set %d --partition %s and start the stream; or %s", cfg.Stream, end, at.TopicPartition, moveOn(cfg, acceptLost)), nil)
}

func recreated(cfg *Config, tp graphmill.TopicPartition, was, is string) *graphmill.Fault {
	return ends(codeTopicRecreate,
		fmt.Sprintf("topic %q was deleted and created anew: the position of %s is of the topic with id %s, now it has %s", tp.Topic, tp, was, is),
		moveOn(cfg, "recreated (reads the new topic from its beginning)"), nil)
}

// together makes one fault of those of several partitions, of which there is at
// least one. The first says what kind it is.
func together(cfg *Config, faults []*graphmill.Fault) *graphmill.Fault {
	const most = 10
	all := *faults[0]
	if len(faults) == 1 {
		return &all
	}
	texts := make([]string, 0, most+1)
	for i, f := range faults {
		if i == most {
			texts = append(texts, fmt.Sprintf("and %d more", len(faults)-most))
			break
		}
		texts = append(texts, f.Text)
	}
	all.Text = strings.Join(texts, "; ")
	if all.Code == codePositionLost {
		all.Next = moveOn(cfg, acceptLost)
	}
	return &all
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
		if err := patience.Pause(ctx, wait); err != nil {
			return nil, err
		}
	}
}

// accepts returns what START was told to accept, where it counts: a position
// that is lost after reading has begun is another one than those that START was
// told of.
func (s *Source) accepts(tp graphmill.TopicPartition) acceptance {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, begun := s.begun[tp]; begun {
		return acceptance{}
	}
	return s.cfg.accepted()
}

func (s *Source) trySettle(ctx context.Context, tps []graphmill.TopicPartition) ([]settled, error) {
	asked, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	all, leaders, err := s.decide(asked, &s.cfg, tps)
	if err != nil {
		return nil, err
	}
	s.budget.among(leaders)
	var changed []settled
	for _, one := range all {
		if one.store {
			changed = append(changed, one)
		}
	}
	return all, s.store(ctx, changed)
}

// decide decides the positions of partitions, and tells how many brokers lead
// their topics.
func (s *Source) decide(ctx context.Context, cfg *Config, tps []graphmill.TopicPartition) (all []settled, leaders int, err error) {
	f, err := gather(ctx, s.cl, cfg, tps)
	if err != nil {
		return nil, 0, err
	}
	leading := map[int32]struct{}{}
	all = make([]settled, 0, len(tps))
	var faults []*graphmill.Fault
	for _, tp := range tps {
		one, err := f.settle(cfg, tp, s.wasAbsent(tp.Topic), s.accepts(tp))
		if fault := (*graphmill.Fault)(nil); errors.As(err, &fault) {
			faults = append(faults, fault)
			continue
		}
		if err != nil {
			return nil, 0, err
		}
		s.goOn(&one)
		all = append(all, one)
		for id := range f.topics[tp.Topic].leaders {
			leading[id] = struct{}{}
		}
	}
	if len(faults) > 0 {
		return nil, 0, together(cfg, faults)
	}
	return all, len(leading), nil
}

// store commits positions.
func (s *Source) store(ctx context.Context, all []settled) error {
	if len(all) == 0 {
		return nil
	}
	offsets := make([]offset, 0, len(all))
	for _, one := range all {
		offsets = append(offsets, offset{one.TopicPartition, one.Offset, one.epoch, one.note})
	}
	if err := s.commit(ctx, offsets, func(graphmill.TopicPartition) bool { return true }); err != nil {
		return fmt.Errorf("commit the start positions: %w", err)
	}
	return nil
}
