package pulsarserver

import (
	"cmp"
	"slices"
)

// SubscriptionState is what there is to know of a subscription.
type SubscriptionState struct {
	Topic, Name string // the topic's or partition's full name
	Type        string // Exclusive, Failover; empty before the first consumer
	Durable     bool
	MarkDelete  MessageID // the last entry before which all are acknowledged
	Backlog     int       // entries that are not acknowledged
	Consumers   []ConsumerState
}

// ConsumerState is a consumer that is connected.
type ConsumerState struct {
	Name       string
	Connection int64
	Active     bool // gets the messages
	Permits    int64
}

// Subscription returns the state of a subscription of a topic that is not
// partitioned, or of a partition ("t-partition-0"); false: there is none.
func (s *Server) Subscription(topic, name string) (SubscriptionState, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	full, err := fullName(topic)
	if err != nil {
		return SubscriptionState{}, false
	}
	t := s.topics[full]
	if t == nil || t.subs[name] == nil {
		return SubscriptionState{}, false
	}
	return t.subs[name].state(), true
}

// Subscriptions returns the states of all subscriptions, by topic and name.
func (s *Server) Subscriptions() []SubscriptionState {
	s.mu.Lock()
	defer s.mu.Unlock()
	var states []SubscriptionState
	for _, t := range s.topics {
		for _, sub := range t.subs {
			states = append(states, sub.state())
		}
	}
	slices.SortFunc(states, func(a, b SubscriptionState) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Name, b.Name))
	})
	return states
}

func (sub *subscription) state() SubscriptionState {
	state := SubscriptionState{
		Topic: sub.topic.name, Name: sub.name, Type: sub.kind, Durable: sub.durable,
		MarkDelete: sub.topic.before(sub.mark), Backlog: sub.backlog(),
	}
	for _, c := range sub.consumers {
		state.Consumers = append(state.Consumers, ConsumerState{
			Name: c.name, Connection: c.conn.id, Active: sub.active == c, Permits: c.permits,
		})
	}
	return state
}

// Acks returns the acknowledgements that have come, in that order, without those
// that a hook has refused.
func (s *Server) Acks() []Ack {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.acks)
}

// Entries returns the ids of all entries of a topic that is not partitioned, or of
// a partition, in order.
func (s *Server) Entries(topic string) []MessageID {
	s.mu.Lock()
	defer s.mu.Unlock()
	full, err := fullName(topic)
	if err != nil || s.topics[full] == nil {
		return nil
	}
	var out []MessageID
	for _, e := range s.topics[full].entries {
		out = append(out, e.id)
	}
	return out
}

// Connections returns the numbers of the connections that are open, in the order
// in which they came.
func (s *Server) Connections() []int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	numbers := []int64{}
	for c := range s.conns {
		numbers = append(numbers, c.id)
	}
	slices.Sort(numbers)
	return numbers
}
