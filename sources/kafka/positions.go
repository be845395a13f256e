package kafka

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/sources/patience"
)

// positionsTimeout is how long brokers, topics and the group's coordinator are
// waited for when positions are shown or set.
const positionsTimeout = 10 * time.Second

// Offsets tells where a stream that is stopped would begin, partition by
// partition, and who is in its group. It joins and changes nothing. A position
// with which START would fail stands there with its problem. It tries for ten
// seconds at most; errors are a *graphmill.Fault, or of KindInvalid for a Config
// that cannot be right.
func Offsets(ctx context.Context, cfg Config) (graphmill.OffsetsInfo, error) {
	var info graphmill.OffsetsInfo
	err := withPositions(ctx, cfg, func(ctx context.Context, g *groupPositions) error {
		f, err := gather(ctx, g.cl, &g.cfg, g.partitions)
		if err != nil {
			return err
		}
		members, err := g.members(ctx)
		if err != nil {
			return err
		}
		info = graphmill.OffsetsInfo{Group: g.cfg.Group, Members: members, Partitions: make([]graphmill.PartitionOffsets, 0, len(g.partitions))}
		for _, tp := range g.partitions {
			info.Partitions = append(info.Partitions, f.show(&g.cfg, tp))
		}
		return nil
	})
	return info, err
}

// show is what is known of one partition.
func (f *facts) show(cfg *Config, tp graphmill.TopicPartition) graphmill.PartitionOffsets {
	start, err := f.settle(cfg, tp, false, cfg.accepted())
	p := graphmill.PartitionOffsets{
		TopicPartition: tp, TopicID: start.TopicID, Offset: start.Offset, Origin: start.origin,
		First: -1, End: -1, Lag: -1,
	}
	if fault := (*graphmill.Fault)(nil); errors.As(err, &fault) {
		p.Problem = &graphmill.OffsetProblem{Code: fault.Code, Text: fault.Text, NextStep: fault.Next}
	}
	if first, err := f.first.at(tp); err == nil {
		p.First = first
	}
	if end, err := f.stable.at(tp); err == nil {
		p.End = end
		if p.Offset >= 0 && p.Problem == nil {
			p.Lag = max(0, p.End-p.Offset)
		}
	}
	return p
}

// SetOffsets moves the positions of a stream that is stopped, in all partitions
// of its topics or in one, and returns what it has written to the group, sorted,
// so that the caller can store it too. An error means that it has to be done
// again: nothing was written, or the answer to it was lost.
//
// The group must be empty: else the error is of KindConflict, "group_active",
// and names the members. An offset that a partition does not have, and a
// partition that does not exist, are of KindInvalid with the fields "set" and
// "partition". A time after the last message means latest. It tries for ten
// seconds at most; what the brokers do is a *graphmill.Fault.
func SetOffsets(ctx context.Context, cfg Config, to graphmill.OffsetTarget, only *graphmill.TopicPartition) ([]graphmill.Position, error) {
	if to.MessageID != nil {
		return nil, graphmill.Invalid("set", "%s is a message id of Pulsar's; this stream reads Kafka, which has offsets", to)
	}
	// Where there is no position START would begin there, so it begins there.
	cfg.Start = to.Start
	var set []graphmill.Position
	err := withPositions(ctx, cfg, func(ctx context.Context, g *groupPositions) error {
		partitions, err := g.choose(only)
		if err != nil {
			return err
		}
		if err := g.refuseMembers(ctx); err != nil {
			return err
		}
		f, err := gather(ctx, g.cl, &g.cfg, partitions)
		if err != nil {
			return err
		}
		offsets := make([]settled, 0, len(partitions))
		for _, tp := range partitions {
			one, err := f.move(tp, to)
			if err != nil {
				return err
			}
			offsets = append(offsets, one)
		}
		if err := g.write(ctx, offsets); err != nil {
			return err
		}
		set = make([]graphmill.Position, 0, len(offsets))
		for _, one := range offsets {
			set = append(set, one.Position)
		}
		return nil
	})
	return set, err
}

// move decides the position that is set. What the commit notes of the topic and
// of the group's first reading is kept.
func (f *facts) move(tp graphmill.TopicPartition, to graphmill.OffsetTarget) (settled, error) {
	info, past := f.topics[tp.Topic], f.past[tp.Topic]
	s := settled{
		Position: graphmill.Position{TopicPartition: tp, TopicID: info.id},
		epoch:    -1,
		note:     note{topicID: info.id, partitions: info.partitions},
	}
	if past.settled {
		s.note.partitions = past.base
	}
	if c, ok := f.commits.Lookup(tp.Topic, tp.Partition); ok && c.Err == nil {
		if own, isOwn := parseNote(c.Metadata); isOwn && !differ(own.topicID, info.id) {
			s.note.more = own.more
		}
	}
	if to.Offset == nil {
		return s, s.begin(f.startOf(tp))
	}
	first, err := f.first.at(tp)
	if err != nil {
		return s, err
	}
	last, err := f.last.at(tp)
	if err != nil {
		return s, err
	}
	if *to.Offset < first || *to.Offset > last {
		e := graphmill.Invalid("set", "%s has the offsets %d to %d, %d is not among them", tp, first, last, *to.Offset)
		e.Next = "give an offset of that range, earliest, latest or a time; --partition limits it to one partition"
		return s, e
	}
	s.Offset = *to.Offset
	return s, nil
}

// groupPositions is a look at a group from outside.
type groupPositions struct {
	cfg        Config
	links      *links
	cl         *kgo.Client
	partitions []graphmill.TopicPartition // all of the topics', sorted
}

// withPositions connects, finds the partitions and calls do until it succeeds,
// fails for good, or the time is over: a coordinator that has just been elected
// does not answer for a moment. What do has done must not be half done.
func withPositions(ctx context.Context, cfg Config, do func(ctx context.Context, g *groupPositions) error) error {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return err
	}
	if cfg.Group == "" {
		return graphmill.Invalid("consumer_group", "a consumer group is needed")
	}
	ctx, cancel := context.WithTimeout(ctx, positionsTimeout)
	defer cancel()
	g := &groupPositions{cfg: cfg, links: newLinks(&cfg)}
	var err error
	if g.cl, err = cfg.connect(ctx, g.links); err != nil {
		return err
	}
	defer g.cl.Close()
	infos, err := awaitTopics(ctx, g.cl, g.links, cfg.Topics)
	if err != nil {
		return err
	}
	for topic, info := range infos {
		for p := range info.partitions {
			g.partitions = append(g.partitions, graphmill.TopicPartition{Topic: topic, Partition: p})
		}
	}
	sortPartitions(g.partitions)
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		err := do(ctx, g)
		var refused *graphmill.Error
		if err == nil || errors.As(err, &refused) {
			return err
		}
		f := g.links.fault(fmt.Sprintf("look at the positions of group %q", cfg.Group), err)
		if f.Class != graphmill.FaultTransient || patience.Pause(ctx, wait) != nil {
			return f
		}
	}
}

// choose returns the partitions that are meant.
func (g *groupPositions) choose(only *graphmill.TopicPartition) ([]graphmill.TopicPartition, error) {
	if only == nil {
		return g.partitions, nil
	}
	if slices.Contains(g.partitions, *only) {
		return []graphmill.TopicPartition{*only}, nil
	}
	if !slices.Contains(g.cfg.Topics, only.Topic) {
		return nil, graphmill.Invalid("partition", "%s is not of this stream, which reads %s", only, strings.Join(g.cfg.Topics, ", "))
	}
	count := 0
	for _, tp := range g.partitions {
		if tp.Topic == only.Topic {
			count++
		}
	}
	if only.Partition < 0 {
		e := graphmill.Invalid("partition", "topic %q has the partitions 0 to %d", only.Topic, count-1)
		e.Next = "say which, as " + only.Topic + "/0"
		return nil, e
	}
	return nil, graphmill.Invalid("partition", "%s does not exist: topic %q has the partitions 0 to %d", only, only.Topic, count-1)
}

// members returns who is in the group, of either kind of consumer group.
func (g *groupPositions) members(ctx context.Context) ([]graphmill.GroupMember, error) {
	adm := kadm.NewClient(g.cl)
	described, err := adm.DescribeGroups(ctx, g.cfg.Group)
	if err != nil {
		return nil, fmt.Errorf("describe group %q: %w", g.cfg.Group, err)
	}
	members := []graphmill.GroupMember{}
	group := described[g.cfg.Group]
	if group.Err != nil && !errors.Is(group.Err, kerr.GroupIDNotFound) {
		return nil, fmt.Errorf("describe group %q: %w", g.cfg.Group, group.Err)
	}
	for _, m := range group.Members {
		members = append(members, member(m.ClientID, m.ClientHost))
	}
	if len(members) > 0 {
		return members, nil
	}
	// A group of the newer protocol (KIP-848) does not exist for the request
	// above. Brokers that do not know the newer one have no such groups.
	newer, err := adm.DescribeConsumerGroups(ctx, g.cfg.Group)
	if err != nil {
		return members, nil
	}
	for _, m := range newer[g.cfg.Group].Members {
		members = append(members, member(m.ClientID, m.ClientHost))
	}
	return members, nil
}

// member strips a host of what brokers write around it: Java's slash, a port.
func member(clientID, host string) graphmill.GroupMember {
	host = strings.TrimPrefix(host, "/")
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return graphmill.GroupMember{ClientID: clientID, Host: host}
}

// refuseMembers returns an error if the group is not empty.
func (g *groupPositions) refuseMembers(ctx context.Context) error {
	members, err := g.members(ctx)
	if err != nil {
		return err
	}
	if len(members) == 0 {
		return nil
	}
	return g.active(members)
}

func (g *groupPositions) active(members []graphmill.GroupMember) error {
	names := make([]string, 0, len(members))
	for _, m := range members {
		names = append(names, fmt.Sprintf("%s at %s", m.ClientID, m.Host))
	}
	who := "members"
	if len(names) > 0 {
		slices.Sort(names)
		who += ": " + strings.Join(names, ", ")
	}
	e := graphmill.Conflict("group_active", "positions cannot be set while group %q has %s", g.cfg.Group, who)
	e.Next = fmt.Sprintf("stop what reads in this group; a member that was killed leaves it when its session times out (%v by default)", DefaultSessionTimeout)
	return e
}

// write commits as nobody's member, which the broker takes for an empty group
// only.
func (g *groupPositions) write(ctx context.Context, all []settled) error {
	var offsets kadm.Offsets
	for _, s := range all {
		offsets.Add(kadm.Offset{Topic: s.Topic, Partition: s.Partition, At: s.Offset, LeaderEpoch: s.epoch, Metadata: s.note.String()})
	}
	answers, err := kadm.NewClient(g.cl).CommitOffsets(ctx, g.cfg.Group, offsets)
	if err == nil {
		err = answers.Error()
	}
	for _, e := range []error{kerr.UnknownMemberID, kerr.IllegalGeneration, kerr.RebalanceInProgress} {
		if errors.Is(err, e) { // somebody has joined since the group was found empty
			members, _ := g.members(ctx) // who, if the broker tells
			return g.active(members)
		}
	}
	if err != nil {
		return fmt.Errorf("commit offsets of group %q: %w", g.cfg.Group, err)
	}
	return nil
}
