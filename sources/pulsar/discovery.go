package pulsar

import (
	"context"
	"slices"
	"time"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/sources/patience"
)

const (
	absentPause  = time.Second // between two looks while a topic is missing, or nobody answers
	troubleTopic = "topics"    // the key of troubles with looking for topics
)

// discover looks for topics and partitions until the source is closed. Those that
// are there at the first look begin where the stream begins; later ones at their
// beginning, since all that they hold is later than the stream's start.
func (s *Source) discover() {
	for s.life.Err() == nil {
		wait := s.cfg.DiscoveryInterval
		if !s.lookForTopics() {
			wait = min(wait, absentPause)
		}
		if patience.Pause(s.life, wait) != nil {
			return
		}
	}
}

// lookForTopics tells whether all went well and every topic is there.
func (s *Source) lookForTopics() bool {
	there, absent, err := s.cfg.survey(s.life, s.links)
	if s.life.Err() != nil {
		return false
	}
	if err != nil {
		s.troubledBy(troubleTopic, s.links.fault("look for the topics", err))
		return false
	}
	s.noteAbsent(absent)
	s.adopt(there)
	f := s.cfg.missing(there, absent)
	if f != nil {
		s.troubledBy(troubleTopic, f)
	} else {
		s.recoveredFrom(troubleTopic)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looked = true
	s.openIfSettled()
	return f == nil
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
		whole := graphmill.TopicPartition{Topic: topic, Partition: -1}
		if _, known := s.cfg.known(whole); !known && !s.cfg.Start.Earliest {
			begin = append(begin, graphmill.Position{TopicPartition: whole, Offset: -1})
		}
	}
	s.mu.Unlock()
	if len(begin) > 0 {
		graphmill.SortPositions(begin)
		s.tell(func() { s.obs.Absent(begin) })
	}
}

// adopt makes the partitions those that there are. Those of a topic that has been
// deleted end: subscribing to it might make it again. It is young when it comes back.
func (s *Source) adopt(there []graphmill.TopicPartition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	for tp, p := range s.partitions {
		if !slices.Contains(there, tp) {
			p.end()
			delete(s.partitions, tp)
		}
	}
	for _, tp := range there {
		if s.partitions[tp] == nil {
			s.start(tp)
		}
	}
	s.order = s.order[:0:0]
	for _, tp := range there {
		s.order = append(s.order, s.partitions[tp])
	}
}

// start begins to read a partition. The lock is held.
func (s *Source) start(tp graphmill.TopicPartition) {
	ctx, end := context.WithCancel(s.life)
	p := s.newPartition(tp)
	p.end = end
	s.partitions[tp] = p
	s.workers.Go(func() { defer end(); p.run(ctx) })
}

// newPartition makes a partition with what the catalog knows of it. The lock is held.
func (s *Source) newPartition(tp graphmill.TopicPartition) *partition {
	p := &partition{
		s:    s,
		tp:   tp,
		wake: make(chan struct{}, 1),
		at:   graphmill.Position{TopicPartition: tp, Offset: -1},

		chunks: s.cfg.assembly(tp, &s.inChunks),
	}
	known, ofTopic := s.cfg.known(tp)
	if known != nil {
		p.at.MessageID, p.half = *known, *known
	}
	_, was := s.absent[tp.Topic]
	p.young = s.isOpen || was || ofTopic
	return p
}
