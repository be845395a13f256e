package server

import (
	"context"
	"fmt"
	"slices"

	"github.com/graphmill/graphmill"
)

// Streams that read one topic in one consumer group get a part of its messages
// each, which nobody wants: CREATE warns of it, and START refuses it while the
// other one runs.

// twins names a topic that both read in one consumer group of the same brokers.
func (s *Server) twins(a, b graphmill.StreamSpec) (topic string, are bool) {
	if a.Name == b.Name || a.ConsumerGroup != b.ConsumerGroup {
		return "", false
	}
	bs := s.brokers(b)
	if !slices.ContainsFunc(s.brokers(a), func(broker string) bool { return slices.Contains(bs, broker) }) {
		return "", false
	}
	for _, t := range a.Topics {
		if slices.Contains(b.Topics, t) {
			return t, true
		}
	}
	return "", false
}

// brokers are those that the stream names, or the server's default.
func (s *Server) brokers(spec graphmill.StreamSpec) []string {
	if len(spec.BootstrapServers) > 0 {
		return spec.BootstrapServers
	}
	return s.cfg.BootstrapServers
}

// startAlone begins a run of st with a definition, unless a twin of it runs. No
// other stream starts meanwhile.
func (s *Server) startAlone(ctx context.Context, st *stream, spec graphmill.StreamSpec, begin func() (*run, error)) (*run, error) {
	s.starting.Lock()
	defer s.starting.Unlock()
	if err := s.Ready(ctx); err != nil {
		return nil, err
	}
	if err := s.runningTwin(st, spec); err != nil {
		return nil, err
	}
	return begin()
}

// runningTwin is why st must not start with this definition, or nil.
func (s *Server) runningTwin(st *stream, spec graphmill.StreamSpec) error {
	var refused error
	s.each(func(other *stream) {
		if other == st || !other.active() {
			return
		}
		if topic, are := s.twins(spec, other.record().Spec); are {
			refused = &graphmill.Error{Kind: graphmill.KindConflict, Code: "group_shared",
				Text: fmt.Sprintf("stream %q is running and reads topic %q in the same consumer group %q; each would get a part of the messages",
					other.name(), topic, spec.ConsumerGroup),
				Next: "stop that stream, or create this one with a consumer group of its own"}
		}
	})
	return refused
}

// twinWarnings tells of streams that the new one cannot run beside.
func (s *Server) twinWarnings(spec graphmill.StreamSpec) []string {
	var warnings []string
	s.each(func(other *stream) {
		if topic, are := s.twins(spec, other.record().Spec); are {
			warnings = append(warnings, fmt.Sprintf("stream %q reads topic %q in the same consumer group %q: each would get a part of the messages, so they cannot run together",
				other.name(), topic, spec.ConsumerGroup))
		}
	})
	return warnings
}
