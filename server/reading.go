package server

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/graphmill/graphmill"
)

// reading is what a definition reads: at which broker, as whom, which topics.
type reading struct {
	source    string        // graphmill.SourceNameKafka, graphmill.SourceNamePulsar
	addresses []string      // of the broker as they were given, or the server's own; for people
	servers   []string      // the same as host:port, by which two brokers are one
	group     string        // the consumer group, or the subscription
	topics    []string      // by their whole names
	pattern   *topicPattern // of topics, in their place
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
func (r *reading) groupWord() string { return groupWord(r.source) }

func groupWord(source string) string {
	if source == graphmill.SourceNamePulsar {
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
func (r *reading) covers(topic string) bool {
	return slices.Contains(r.topics, topic) || r.pattern != nil && r.pattern.matches(topic)
}

// meets names what both read, or may: "topic ...", or topics of a pattern that can
// match those of the other one.
func (r *reading) meets(other *reading) (what string, ok bool) {
	for _, t := range r.topics {
		if other.covers(t) {
			return fmt.Sprintf("topic %q", t), true
		}
	}
	for _, t := range other.topics {
		if r.covers(t) {
			return fmt.Sprintf("topic %q", t), true
		}
	}
	if r.pattern != nil && other.pattern != nil && r.pattern.mayMeet(other.pattern) {
		return fmt.Sprintf("topics of the pattern %q", other.pattern.text), true
	}
	return "", false
}

// topicPattern is a pattern of Pulsar's topics.
type topicPattern struct {
	text   string         // as the definition has it
	prefix string         // that the names of all topics of its namespace have
	begins string         // with which every name behind it that matches begins, as far as that is told
	name   *regexp.Regexp // what is behind the prefix, as a whole
}

// newTopicPattern reads a pattern of a definition that is valid.
func newTopicPattern(text string) *topicPattern {
	namespace, name, err := graphmill.SplitTopicsPattern(text)
	if err != nil {
		return nil // not valid: refused before anything is read
	}
	p := &topicPattern{text: text, prefix: graphmill.PulsarTopic(namespace + "/"), name: name}
	expression := strings.TrimSuffix(strings.TrimPrefix(name.String(), "^"), "$")
	if alone, err := regexp.Compile(expression); err == nil {
		p.begins, _ = alone.LiteralPrefix()
	}
	return p
}

func (p *topicPattern) matches(topic string) bool {
	name, ok := strings.CutPrefix(topic, p.prefix)
	return ok && p.name.MatchString(name)
}

// mayMeet says that a topic may be there that both match. Whether expressions can
// match the same text is not decided further than by what both begin with.
func (p *topicPattern) mayMeet(other *topicPattern) bool {
	return p.prefix == other.prefix &&
		(strings.HasPrefix(p.begins, other.begins) || strings.HasPrefix(other.begins, p.begins))
}
