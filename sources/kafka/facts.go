package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/graphmill/graphmill"
)

// facts is what the brokers say that decides where reading starts.
type facts struct {
	topics  map[string]topicInfo
	commits kadm.OffsetResponses
	past    map[string]past // by topic
	first   listing         // first offsets there are
	start   listing         // where Config.Start leads; a time after the last message has no offset
	before  listing         // where Config.Start is a time: high watermarks of before it was looked for
	stable  listing         // last stable offsets
	last    listing         // high watermarks
	ends    listing         // where the leader epochs of the commits end
}

// gather asks the brokers for the facts about partitions. Without a group
// there are no commits.
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
	f.first = listOffsets(ctx, cl, tps, firstOffset, readUncommitted)
	// Messages of a transaction that is open now become visible later, so they
	// are later messages: latest is the last stable offset.
	f.stable = listOffsets(ctx, cl, tps, lastOffset, readCommitted)
	switch {
	case cfg.Start.Earliest:
		f.start = f.first
	case !cfg.Start.Time.IsZero():
		// First, so that a message that comes while the time is looked for, and is
		// of that time or later, lies beyond it.
		f.before = listOffsets(ctx, cl, tps, lastOffset, readUncommitted)
		f.start = listOffsets(ctx, cl, tps, cfg.Start.Time.UnixMilli(), readUncommitted)
	default:
		f.start = f.stable
	}
	// Behind the offsets above: who finds no commit has listed them before there
	// was one, so before anybody could take the group for settled (see awaitGroup).
	if cfg.Group != "" {
		if f.commits, err = commitsOf(ctx, cl, cfg.Group, topics); err != nil {
			return f, err
		}
	}
	f.past = make(map[string]past, len(topics))
	for _, t := range topics {
		f.past[t] = f.pastOf(cfg, t)
	}
	f.ends = epochEnds(ctx, cl, f.commits, tps)
	// Last, so that no position that was valid a moment ago lies beyond it.
	f.last = listOffsets(ctx, cl, tps, lastOffset, readUncommitted)
	return f, nil
}

// commitsOf returns a group's commits. One of topics that cannot be told is an
// error: it changes what the others mean (see pastOf).
func commitsOf(ctx context.Context, cl *kgo.Client, group string, topics []string) (kadm.OffsetResponses, error) {
	commits, err := kadm.NewClient(cl).FetchOffsets(ctx, group)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) { // a group that has never been joined
		return nil, fmt.Errorf("fetch the commits of group %q: %w", group, err)
	}
	for _, t := range topics {
		for p, c := range commits[t] {
			if c.Err != nil {
				return nil, fmt.Errorf("fetch the commit of %s: %w", graphmill.TopicPartition{Topic: t, Partition: p}, c.Err)
			}
		}
	}
	return commits, nil
}

// past is what the positions that are stored tell of a topic as a whole.
type past struct {
	settled bool   // reading has begun in the topic that is there now
	base    int32  // partitions from this number on begin at their beginning if they have no position
	former  string // id of an earlier topic of this name that some position is of
}

// pastOf looks at all positions of a topic. Where notes differ the least number
// counts: two members that began at the same time may have seen the topic before
// and after it was given more partitions.
//
// The catalog may know a position of which the group has no commit with a note:
// the commits have expired, or somebody has deleted or replaced them. Then nobody
// knows any more how many partitions there were, and whatever has no position
// begins at its beginning. That repeats what other servers of the group have read,
// whose positions are in their catalogs; to take it for old would lose what came
// to new partitions.
func (f *facts) pastOf(cfg *Config, topic string) past {
	var p past
	id := f.topics[topic].id
	noted := map[int32]bool{} // partitions that have a note of the topic that is there now
	for partition, c := range f.commits[topic] {
		n, own := parseNote(c.Metadata)
		switch {
		case !own || c.At < 0:
		case differ(n.topicID, id):
			p.former = n.topicID
		case !p.settled:
			noted[partition], p.settled, p.base = true, true, n.partitions
		default:
			noted[partition], p.base = true, min(p.base, n.partitions)
		}
	}
	for _, k := range cfg.Known {
		if k.Topic != topic || noted[k.Partition] {
			continue
		}
		if !differ(k.TopicID, id) {
			p.settled, p.base = true, 0
			continue
		}
		if c, committed := f.commits.Lookup(k.Topic, k.Partition); !committed || c.At < 0 { // else the group knows better
			p.former = k.TopicID
		}
	}
	return p
}

// startOf returns where Config.Start leads for tp.
func (f *facts) startOf(tp graphmill.TopicPartition) (listedOffset, error) {
	o, err := f.start.of(tp)
	if err == nil && o.offset < 0 { // a time after the last message
		return f.before.of(tp)
	}
	return o, err
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
