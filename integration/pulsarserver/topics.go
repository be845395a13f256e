package pulsarserver

import (
	"fmt"
	"maps"
	"slices"
)

// maxPartitions keeps a request from taking all memory.
const maxPartitions = 10_000

// CreateTopic makes a topic: with 0 partitions one that is not partitioned. The
// name may be short. It is an error where the topic exists, or its namespace does
// not.
func (s *Server) CreateTopic(name string, partitions int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	full, err := fullName(name)
	switch {
	case err != nil:
		return err
	case partitions < 0 || partitions > maxPartitions:
		return fmt.Errorf("topic %s: %d partitions", name, partitions)
	case !s.namespaces[namespaceOf(full)]:
		return fmt.Errorf("topic %s: there is no namespace %s", name, namespaceOf(full))
	case s.exists(full):
		return fmt.Errorf("topic %s exists", name)
	}
	s.create(full, partitions)
	return nil
}

// AddPartitions gives a partitioned topic more partitions, total in all. The new
// ones have the durable subscriptions of the first, so that nothing sent to them
// is missed.
func (s *Server) AddPartitions(name string, total int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	full, err := fullName(name)
	if err != nil {
		return err
	}
	if n, ok := s.partitioned[full]; !ok || total <= n || total > maxPartitions {
		return fmt.Errorf("topic %s has %d partitions: it cannot have %d", name, n, total)
	}
	s.addPartitions(full, total)
	return nil
}

func (s *Server) addPartitions(full string, total int) {
	s.create(full, total)
	for name, sub := range s.topics[partitionName(full, 0)].subs {
		for i := range total {
			if t := s.topics[partitionName(full, i)]; sub.durable && t.subs[name] == nil {
				t.subs[name] = newSubscription(t, name, true, 0)
			}
		}
	}
}

// DeleteTopic deletes a topic with all its partitions and subscriptions, under
// the producers and consumers that there are: they are closed.
func (s *Server) DeleteTopic(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	full, err := fullName(name)
	if err != nil {
		return err
	}
	if !s.exists(full) {
		return fmt.Errorf("topic %s does not exist", name)
	}
	s.delete(full)
	return nil
}

func (s *Server) delete(full string) {
	s.deleteOne(full)
	for i := range s.partitioned[full] {
		s.deleteOne(partitionName(full, i))
	}
	delete(s.partitioned, full)
}

// users returns how many producers and consumers a topic has.
func (s *Server) users(full string) (n int) {
	for _, t := range s.partsOf(full) {
		n += len(t.producers)
		for _, sub := range t.subs {
			n += len(sub.consumers)
		}
	}
	return n
}

// deleteOne deletes one topic or partition.
func (s *Server) deleteOne(full string) {
	t := s.topics[full]
	if t == nil {
		return
	}
	delete(s.topics, full)
	for p := range t.producers {
		delete(p.conn.producers, p.id)
		m, body := newCommand("CLOSE_PRODUCER", "close_producer")
		body.setUint("producer_id", p.id).setUint("request_id", brokersOwn)
		p.conn.send(m)
	}
	clear(t.producers)
	for _, sub := range t.subs {
		sub.closeConsumers()
	}
	clear(t.subs)
}

// Topics returns the full names of all topics, partitions one by one, in order.
func (s *Server) Topics() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.topics))
}

func (s *Server) exists(full string) bool {
	_, partitioned := s.partitioned[full]
	return partitioned || s.topics[full] != nil
}

// create makes a topic, or those partitions of it that there are not.
func (s *Server) create(full string, partitions int) {
	if partitions == 0 {
		s.createOne(full)
		return
	}
	s.partitioned[full] = partitions
	for i := range partitions {
		if name := partitionName(full, i); s.topics[name] == nil {
			s.createOne(name)
		}
	}
}

func (s *Server) createOne(full string) *topic {
	s.lastLedger++
	_, partition := splitPartition(full)
	t := &topic{
		s: s, name: full, partition: partition, ledger: s.lastLedger,
		subs: map[string]*subscription{}, producers: map[*producer]struct{}{},
	}
	s.topics[full] = t
	return t
}

// resolve returns the number of partitions that a client is to be told. Asking
// for a topic makes it where it would be a partitioned one; others are made when
// a producer or consumer comes.
func (s *Server) resolve(full string) (int, *Failure) {
	if !s.namespaces[namespaceOf(full)] {
		return 0, &Failure{"TopicNotFound", "Namespace not found"}
	}
	if n, ok := s.partitioned[full]; ok {
		return n, nil
	}
	if s.topics[full] != nil {
		return 0, nil
	}
	base, partition := splitPartition(full)
	_, partitioned := s.partitioned[base] // that has no such partition
	switch {
	case s.opts.NoAutoCreate || partitioned:
		return 0, &Failure{"TopicNotFound", ""} // it says no more
	case partition >= 0:
		return 0, nil
	case s.opts.AutoPartitions > 0:
		s.create(full, s.opts.AutoPartitions)
	}
	return s.opts.AutoPartitions, nil
}

// topicFor returns the topic that a producer or consumer asks for, and makes it
// where that is allowed.
func (s *Server) topicFor(full string, create bool) (*topic, *Failure) {
	if t := s.topics[full]; t != nil {
		return t, nil
	}
	base, _ := splitPartition(full)
	_, partitioned := s.partitioned[base] // which has not this partition, or is meant itself
	if partitioned || !create || s.opts.NoAutoCreate || !s.namespaces[namespaceOf(full)] {
		return nil, &Failure{"TopicNotFound", fmt.Sprintf("Topic %s does not exist", full)}
	}
	return s.createOne(full), nil
}
