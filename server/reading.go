package server

import (
	"fmt"
	"slices"

	"github.com/graphmill/graphmill"
)

// reading is what a definition reads: at which broker, as whom, which topics.
type reading struct {
	source    string   // graphmill.SourceNameKafka, graphmill.SourceNamePulsar
	addresses []string // of the broker as they were given, or the server's own; for people
	servers   []string // the same as host:port, by which two brokers are one
	group     string   // the consumer group, or the subscription
	topics    []string // by their whole names
}

// reads is what a definition reads.
func (s *Server) reads(spec graphmill.StreamSpec) reading { return s.broker(spec).reads() }

// kindOf is the source of a definition as transformations are told it.
func kindOf(spec graphmill.StreamSpec) graphmill.SourceKind {
	if spec.Source == graphmill.SourceNamePulsar {
		return graphmill.SourcePulsar
	}
	return graphmill.SourceKafka
}

// groupWord is what the broker calls what the group is.
func (r *reading) groupWord() string {
	if r.source == graphmill.SourceNamePulsar {
		return "subscription"
	}
	return "consumer group"
}

// inGroup says that another stream reads as the same one.
func (r *reading) inGroup() string {
	if r.source == graphmill.SourceNamePulsar {
		return fmt.Sprintf("by the same subscription %q", r.group)
	}
	return fmt.Sprintf("in the same consumer group %q", r.group)
}

// sharesBroker says that both are given a server in common.
func (r *reading) sharesBroker(other *reading) bool {
	return r.source == other.source &&
		slices.ContainsFunc(r.servers, func(server string) bool { return slices.Contains(other.servers, server) })
}

// covers says that a topic, by its whole name, is read.
func (r *reading) covers(topic string) bool { return slices.Contains(r.topics, topic) }

// meets names a topic that both read.
func (r *reading) meets(other *reading) (topic string, ok bool) {
	for _, t := range r.topics {
		if slices.Contains(other.topics, t) {
			return t, true
		}
	}
	return "", false
}
