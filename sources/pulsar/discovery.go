package pulsar

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/graphmill/graphmill"
)

const (
	looksAtOnce  = 8           // topics that are asked for side by side
	absentPause  = time.Second // between two looks while a topic is missing, or nobody answers
	troubleTopic = "topics"    // the key of troubles with looking for topics
)

// discover looks for topics and partitions until the source is closed. Those that
// are there at the first look begin where the stream begins; later ones at their
// beginning, since all that they hold is later than the stream's start.
func (s *Source) discover() {
	for s.life.Err() == nil {
		pause := s.cfg.DiscoveryInterval
		if !s.lookForTopics() {
			pause = min(pause, absentPause)
		}
		if sleep(s.life, pause) != nil {
			return
		}
	}
}

// found is what a look for one topic has brought.
type found struct {
	topic string
	names []string // of its partitions, as the client has them
	err   error
}

// lookForTopics tells whether all went well and every topic is there.
func (s *Source) lookForTopics() bool {
	topics, err := s.topics(s.life)
	if err != nil {
		s.troubledBy(troubleTopic, s.links.fault("list the topics of "+s.cfg.Pattern, err))
		return false
	}
	all := make([]found, len(topics))
	var g errgroup.Group
	g.SetLimit(looksAtOnce)
	for i, topic := range topics {
		g.Go(func() error {
			names, err := s.cl.TopicPartitions(topic)
			all[i] = found{topic, names, err}
			return nil
		})
	}
	_ = g.Wait() // the errors are in all
	return s.compare(all)
}

// compare takes in what a look has found.
func (s *Source) compare(all []found) bool {
	var trouble *graphmill.Fault
	var absent []string
	sure := true // of every topic it is known whether it is there
	for _, f := range all {
		if f.err == nil {
			continue
		}
		fault := s.links.fault("look for topic "+f.topic, f.err)
		if fault.Code == codeTopicAbsent {
			absent = append(absent, f.topic)
		} else {
			sure = false
		}
		if trouble == nil || trouble.Code == codeTopicAbsent {
			trouble = fault
		}
	}
	if s.life.Err() != nil {
		return false
	}
	s.noteAbsent(absent)
	for _, f := range all {
		if f.err == nil {
			s.adopt(f.topic, f.names)
		}
	}
	if trouble != nil {
		s.troubledBy(troubleTopic, trouble)
	} else {
		s.recoveredFrom(troubleTopic)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if sure {
		s.looked = true
		s.openIfSettled()
	}
	return trouble == nil
}

// noteAbsent remembers topics that are absent, and tells of those that have never
// been read: whatever they will hold once they are created is later than this
// stream's start.
func (s *Source) noteAbsent(topics []string) {
	var begin []graphmill.Position
	s.mu.Lock()
	for _, topic := range topics {
		if _, noted := s.absent[topic]; noted {
			continue
		}
		s.absent[topic] = struct{}{}
		if !s.cfg.Start.Earliest && !s.knows(topic) {
			begin = append(begin, graphmill.Position{TopicPartition: graphmill.TopicPartition{Topic: topic, Partition: -1}, Offset: -1})
		}
	}
	s.mu.Unlock()
	if len(begin) > 0 {
		graphmill.SortPositions(begin)
		s.tell(func() { s.obs.Absent(begin) })
	}
}

// knows tells whether the catalog has anything of a topic.
func (s *Source) knows(topic string) bool {
	return slices.ContainsFunc(s.cfg.Known, func(k graphmill.Position) bool { return k.Topic == topic })
}

// adopt makes the partitions of a topic those that there are. A topic may have been
// deleted and made anew with fewer.
func (s *Source) adopt(topic string, names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	tps := partitionsOf(topic, names)
	for tp, p := range s.partitions {
		if tp.Topic == topic && !slices.Contains(tps, tp) {
			p.end()
			delete(s.partitions, tp)
		}
	}
	for _, tp := range tps {
		if s.partitions[tp] == nil {
			s.start(tp)
		}
	}
	s.order = s.order[:0:0]
	for _, p := range s.partitions {
		s.order = append(s.order, p)
	}
	slices.SortFunc(s.order, func(a, b *partition) int {
		return cmp.Or(strings.Compare(a.tp.Topic, b.tp.Topic), cmp.Compare(a.tp.Partition, b.tp.Partition))
	})
}

// partitionsOf are the partitions of a topic by the client's names for them. That of
// a topic that is not partitioned is the topic's own.
func partitionsOf(topic string, names []string) []graphmill.TopicPartition {
	tps := make([]graphmill.TopicPartition, 0, len(names))
	for _, name := range names {
		tp := graphmill.TopicPartition{Topic: topic, Partition: -1}
		if name != topic {
			tp = partitionOf(name)
		}
		tps = append(tps, tp)
	}
	return tps
}

// start begins to read a partition. The lock is held.
func (s *Source) start(tp graphmill.TopicPartition) {
	ctx, end := context.WithCancel(s.life)
	p := s.newPartition(tp)
	p.end = end
	s.partitions[tp] = p
	s.workers.Go(func() { defer end(); p.run(ctx) })
}

// newPartition makes a partition with what the catalog knows of it. The lock is held,
// or nobody else has the source.
func (s *Source) newPartition(tp graphmill.TopicPartition) *partition {
	p := &partition{
		s:    s,
		tp:   tp,
		wake: make(chan struct{}, 1),
		at:   graphmill.Position{TopicPartition: tp, Offset: -1},
	}
	for _, k := range s.cfg.Known {
		if k.TopicPartition == tp {
			p.at.MessageID, p.half = k.MessageID, k.MessageID
		}
	}
	_, was := s.absent[tp.Topic]
	p.young = s.isOpen || was || s.knows(tp.Topic)
	return p
}

// topics are those to read.
func (s *Source) topics(ctx context.Context) ([]string, error) {
	if s.cfg.Pattern == "" {
		return s.cfg.Topics, nil
	}
	return s.matching(ctx)
}

// matching lists the topics that the pattern matches.
func (s *Source) matching(context.Context) ([]string, error) {
	return nil, nil
}
