package server

import (
	"context"
	"fmt"

	"github.com/graphmill/graphmill"
)

// Streams that read one topic in one consumer group, or by one subscription, get a
// part of its messages each, which nobody wants: CREATE warns of it, and START
// refuses it while the other one runs.

// twins names what both read in one group of the same brokers: "topic ...".
func (s *Server) twins(a, b graphmill.StreamSpec) (what string, are bool) {
	x, y := s.reads(a), s.reads(b)
	if a.Name == b.Name || x.group != y.group || !x.sharesBroker(&y) {
		return "", false
	}
	return x.meets(&y)
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
		if what, are := s.twins(spec, other.record().Spec); are {
			r := s.reads(spec)
			refused = &graphmill.Error{Kind: graphmill.KindConflict, Code: "group_shared",
				Text: fmt.Sprintf("stream %q is running and reads %s %s; each would get a part of the messages", other.name(), what, r.inGroup()),
				Next: fmt.Sprintf("stop that stream, or create this one with a %s of its own", r.groupWord())}
		}
	})
	return refused
}

// twinWarnings tells of streams that the new one cannot run beside.
func (s *Server) twinWarnings(spec graphmill.StreamSpec) []string {
	var warnings []string
	s.each(func(other *stream) {
		if what, are := s.twins(spec, other.record().Spec); are {
			r := s.reads(spec)
			warnings = append(warnings, fmt.Sprintf("stream %q reads %s %s: each would get a part of the messages, so they cannot run together",
				other.name(), what, r.inGroup()))
		}
	})
	return warnings
}
