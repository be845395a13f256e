package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/server/catalog"
)

// CreateStream stores a definition, stopped. Unless check is false, broker and
// topics must be there within the create timeout; a subscription, where the broker
// needs one for keeping messages, is made. Warnings tell what will keep
// it from starting, such as a module that is not there yet. A dry run stores
// nothing, and is refused by what would refuse the creation.
//
// Errors: KindInvalid with the field; KindConflict (stream_exists,
// secret_not_found, or what the broker refuses: auth, forbidden, tls_authority);
// KindNotFound (topic_absent, namespace_absent); KindUnavailable
// (broker_unreachable).
func (s *Server) CreateStream(ctx context.Context, r CreateRequest) (StreamInfo, error) {
	spec := r.Spec
	told := spec.StartFrom
	if told == "" {
		_, spec.StartFrom = s.broker(spec).startFrom()
	}
	spec = spec.WithDefaults()
	if err := spec.Validate(); err != nil {
		return StreamInfo{}, err
	}
	if err := s.broker(spec).validate(); err != nil {
		return StreamInfo{}, err
	}
	notes, err := s.clientNotes(spec, told, r.Check)
	if err != nil {
		return StreamInfo{}, err
	}
	if err := s.withinLimits(spec); err != nil {
		return StreamInfo{}, err
	}
	if _, err := s.stream(spec.Name); graphmill.KindOf(err) != graphmill.KindNotFound {
		return StreamInfo{}, cmp.Or(err, error(streamExists(spec.Name)))
	}
	if r.Check {
		if err := s.probe(ctx, spec); err != nil {
			return StreamInfo{}, err
		}
	}
	warnings := append(notes, s.warnings(ctx, spec)...)
	if r.Check {
		warnings = append(warnings, s.groupWarnings(ctx, spec)...)
	}
	if r.DryRun {
		return StreamInfo{Spec: spec, Desired: graphmill.StateStopped, State: graphmill.StateStopped, Owner: r.Owner, Warnings: warnings}, nil
	}
	positions, more, err := s.prepare(ctx, spec, r.Check)
	if err != nil {
		return StreamInfo{}, err
	}
	warnings = append(warnings, more...)
	st, err := s.define(ctx, spec, r.Owner, positions)
	if err != nil {
		return StreamInfo{}, err
	}
	s.log.Info("stream created", "stream", spec.Name, "topics", spec.Topics, "transform", spec.Transform)
	info := st.info()
	info.Warnings = warnings
	return info, nil
}

// define stores a new stream, with the positions at which it is to begin, and adds
// it to the list.
func (s *Server) define(ctx context.Context, spec graphmill.StreamSpec, owner string, positions []graphmill.Position) (*stream, error) {
	s.defining.Lock()
	defer s.defining.Unlock()
	rec, err := s.catalog.CreateStream(ctx, catalog.Stream{Spec: spec, Desired: graphmill.StateStopped, CreatedAt: now(), Owner: owner})
	if err != nil {
		return nil, err
	}
	if len(positions) > 0 {
		if err := s.catalog.MergePositions(context.WithoutCancel(ctx), spec.Name, positions); err != nil {
			return nil, errors.Join(err, s.catalog.DeleteStream(context.WithoutCancel(ctx), spec.Name))
		}
	}
	st := newStream(s, rec)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.streams[spec.Name] = st
	return st, nil
}

// forget removes a stream from the catalog and from the list.
func (s *Server) forget(st *stream) error {
	s.defining.Lock()
	defer s.defining.Unlock()
	if err := s.catalog.DeleteStream(context.Background(), st.name()); err != nil {
		return err
	}
	s.mu.Lock()
	delete(s.streams, st.name())
	s.metrics.forget(st.name())
	s.mu.Unlock()
	s.keepGates()
	return nil
}

func streamExists(name string) error {
	e := graphmill.Conflict("stream_exists", "there is a stream %q already", name)
	e.Next = fmt.Sprintf("to change it: graphmill stream edit %s; to begin anew: graphmill stream drop %s", name, name)
	return e
}

// Bounds of what any transformation can be run with, in bytes.
const (
	minMemoryLimit   = 64 << 10 // a page of WebAssembly memory
	minResponseLimit = 28       // the header of a response frame
)

// withinLimits refuses what a transformation could not or would not be given.
func (s *Server) withinLimits(spec graphmill.StreamSpec) error {
	limits := s.host.Limits()
	for _, l := range []struct {
		field              string
		value, least, most int64
	}{
		{"memory_limit", spec.MemoryLimit, minMemoryLimit, limits.MaxMemory},
		{"time_limit_ms", spec.TimeLimitMS, 1, limits.MaxTime.Milliseconds()},
		{"response_limit", spec.ResponseLimit, minResponseLimit, limits.MaxMemory},
	} {
		if l.value != 0 && (l.value < l.least || l.value > l.most) {
			return graphmill.Invalid(l.field, "%d is outside of %d to %d, what this server allows", l.value, l.least, l.most)
		}
	}
	return nil
}

// clientNotes checks CONFIGS and CREDENTIALS and tells what of them has no
// effect. What they name and what is not there yet, a secret or a file, refuses
// the definition only with check.
func (s *Server) clientNotes(spec graphmill.StreamSpec, told string, check bool) ([]string, error) {
	b := s.broker(spec)
	notes, err := b.notes()
	switch {
	case err == nil:
	case !check && graphmill.KindOf(err) == graphmill.KindConflict:
		notes = append(notes, fmt.Sprintf("the stream cannot start yet: %v", err))
	default:
		return nil, err
	}
	if setting, reset := b.startFrom(); told != "" && reset != "" && told != reset {
		notes = append(notes, fmt.Sprintf("%s has no effect: start_from says %s", setting, told))
	}
	return notes, nil
}

// probe looks for broker and topics.
func (s *Server) probe(ctx context.Context, spec graphmill.StreamSpec) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.CreateTimeout)
	defer cancel()
	return unlessUnchecked(s.broker(spec).probe(ctx))
}

// unlessUnchecked makes a fault the answer to a command that could be told not to
// look.
func unlessUnchecked(err error) error {
	f, ok := asFault(err)
	if !ok {
		return err
	}
	e := Refusal(f)
	if f.Code == codeTopicAbsent || f.Code == codeNamespaceAbsent {
		e.Kind = graphmill.KindNotFound // the caller has named it
	}
	if f.Class == graphmill.FaultTransient { // it may pass later
		e.Next = strings.TrimPrefix(e.Next+"; or do it all the same "+Unchecked, "; or ")
	}
	return e
}

// Unchecked ends the next step of an error that does not come where the caller asks
// for no check, as REST and commands have it. Statements have other words for it.
const Unchecked = `with --no-check ("check": false)`

// groupWarnings tells where a new stream will begin whose group has positions
// already: START_FROM does not count there.
func (s *Server) groupWarnings(ctx context.Context, spec graphmill.StreamSpec) []string {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.CreateTimeout)
	defer cancel()
	info, err := s.offsets(ctx, spec)
	if err != nil {
		return nil // the stream can be created all the same, and START tells
	}
	var at []graphmill.Position
	for _, p := range info.Partitions {
		if p.Origin == graphmill.OriginGroup {
			at = append(at, graphmill.Position{TopicPartition: p.TopicPartition, Offset: p.Offset, MessageID: p.MessageID})
		}
	}
	if len(at) == 0 {
		return nil
	}
	r := s.reads(spec)
	return []string{fmt.Sprintf("the %s %q has positions already: the stream begins at %s there, whatever start_from says; to begin elsewhere: graphmill stream offsets %s --set earliest",
		r.groupWord(), r.group, positionsText(at), spec.Name)}
}

// warnings tells what will not work as it is.
func (s *Server) warnings(ctx context.Context, spec graphmill.StreamSpec) []string {
	var ws []string
	err := s.canTransform(ctx, spec)
	if err == nil {
		err = s.tryTransformation(ctx, spec)
	}
	if err != nil {
		text, next := err.Error(), nextOf(err)
		if f, ok := asFault(err); ok {
			text, next = f.Text, nextStep(spec.Name, f)
		}
		text = fmt.Sprintf("the transformation %s cannot be used yet: %s", spec.Transform, text)
		if next != "" {
			text += "; " + next
		}
		ws = append(ws, text)
	}
	return append(ws, s.twinWarnings(spec)...)
}
