package server

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/graphmill/graphmill"
)

// A broker may keep messages only for those that have subscribed, and as long as
// they have: then a subscription is made by CREATE, long before the first START, and
// outlives the stream unless it is ended with it.

// uncheckedPatience is how long a definition that is stored unseen waits for the
// broker: many of them may come at once while it is away.
const uncheckedPatience = 5 * time.Second

// prepare makes the subscription of a definition that does not run, and returns
// where it begins, for the catalog. Where the definition is taken unseen, a broker that
// is away is a warning only.
//
// A creation prepares before it stores the definition. What it has made stays where
// it fails then: nobody can tell whether the subscription was there before, with
// positions that somebody still wants.
func (s *Server) prepare(ctx context.Context, spec graphmill.StreamSpec, check bool) (begins []graphmill.Position, warnings []string, err error) {
	limit := s.cfg.CreateTimeout
	if !check {
		limit = min(limit, uncheckedPatience)
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	begins, err = s.broker(spec).prepare(limited)
	switch {
	case err == nil:
		return begins, nil, nil
	case ctx.Err() != nil:
		return nil, nil, ctx.Err()
	case check:
		return nil, nil, unlessUnchecked(err)
	}
	reads := s.reads(spec)
	warning := fmt.Sprintf("the %s %q could not be made: %s; START makes it", reads.groupWord(), reads.group, errorText(err))
	if spec.StartFrom == graphmill.StartLatest {
		warning += ", and what is sent before that is not read"
	} else {
		warning += ", and until then Pulsar may delete messages that it keeps for nobody else"
	}
	return begins, []string{warning}, nil
}

// subscribe makes the subscription to what the patch brings to a stream that does
// not run, where no position has been set there. It returns where that begins.
func (st *stream) subscribe(ctx context.Context, p *patch) ([]graphmill.Position, error) {
	if len(p.brought) == 0 || kindOf(p.spec) == graphmill.SourceKafka {
		return nil, nil
	}
	spec, err := st.srv.bringing(ctx, p)
	switch {
	case err != nil && p.check:
		return nil, err
	case err != nil:
		spec = &p.spec // it will not get further, and tells what START will do
	case spec == nil:
		return nil, nil
	}
	begins, warnings, err := st.srv.prepare(ctx, *spec, p.check)
	p.warnings = append(p.warnings, warnings...)
	return begins, err
}

// bringing is the definition with nothing but what the patch brings; nil: it brings
// nothing. Of a pattern only the broker can tell which topics those are.
func (s *Server) bringing(ctx context.Context, p *patch) (*graphmill.StreamSpec, error) {
	spec := p.spec
	if spec.TopicsPattern == "" {
		spec.Topics = p.brought
		return &spec, nil
	}
	if p.moved {
		return &spec, nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.CreateTimeout)
	defer cancel()
	info, err := s.offsets(ctx, spec)
	if err != nil {
		return nil, err
	}
	for _, at := range info.Partitions {
		if !p.old.covers(at.Topic) && !slices.Contains(spec.Topics, at.Topic) {
			spec.Topics = append(spec.Topics, at.Topic)
		}
	}
	if len(spec.Topics) == 0 {
		return nil, nil
	}
	spec.TopicsPattern = ""
	return &spec, nil
}

// errorText is an error with its cause, for a sentence.
func errorText(err error) string {
	if f, ok := asFault(err); ok {
		return describe(f)
	}
	return err.Error()
}

// canUnsubscribe refuses to end a subscription that another stream here uses, too:
// it would lose its position.
func (s *Server) canUnsubscribe(st *stream) error {
	spec := st.record().Spec
	var refused *graphmill.Error
	var others []string
	s.each(func(other *stream) {
		what, are := s.twins(spec, other.record().Spec)
		if are && refused == nil {
			refused = &graphmill.Error{Kind: graphmill.KindConflict, Code: "subscription_shared",
				Text: fmt.Sprintf("stream %q reads %s by the same subscription %q, which it would lose", other.name(), what, spec.Subscription)}
		}
		if are {
			others = append(others, "graphmill stream drop "+other.name())
		}
	})
	if refused == nil {
		return nil
	}
	slices.Sort(others)
	refused.Next = fmt.Sprintf("to keep the subscription for it: graphmill stream drop %s; to end it with all who use it, first %s, then graphmill stream drop %s --unsubscribe",
		spec.Name, strings.Join(others, ", "), spec.Name)
	return refused
}

// unsubscribe ends the subscription of a stream that does not run.
func (st *stream) unsubscribe(ctx context.Context) error {
	spec, err := st.definition(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), st.srv.cfg.CreateTimeout)
	defer cancel()
	err = commandError(st.srv.broker(spec).unsubscribe(ctx))
	if err == nil {
		st.log.Info("subscription ended", "subscription", spec.Subscription)
	}
	return err
}
