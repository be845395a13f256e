package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/server/catalog"
	"github.com/graphmill/graphmill/sources/kafka"
)

// CreateStream stores a definition, stopped. Unless check is false, broker and
// topics must be there within the create timeout. Warnings tell what will keep
// it from starting, such as a module that is not there yet.
//
// Errors: KindInvalid with the field, KindConflict (stream_exists),
// KindUnavailable (broker_unreachable, topic_absent).
func (s *Server) CreateStream(ctx context.Context, spec graphmill.StreamSpec, check bool) (StreamInfo, error) {
	spec = spec.WithDefaults()
	if err := spec.Validate(); err != nil {
		return StreamInfo{}, err
	}
	if err := s.withinLimits(spec); err != nil {
		return StreamInfo{}, err
	}
	if _, err := s.stream(spec.Name); err == nil {
		return StreamInfo{}, graphmill.Conflict("stream_exists", "there is a stream %q already", spec.Name)
	}
	cfg, err := s.kafkaConfig(spec)
	if err != nil {
		return StreamInfo{}, err
	}
	if check {
		if err := s.probe(ctx, cfg); err != nil {
			return StreamInfo{}, err
		}
	}
	warnings := s.warnings(ctx, spec)

	rec, err := s.catalog.CreateStream(ctx, catalog.Stream{Spec: spec, Desired: graphmill.StateStopped, CreatedAt: now()})
	if err != nil {
		return StreamInfo{}, err
	}
	st := newStream(s, rec)
	s.mu.Lock()
	s.streams[spec.Name] = st
	s.mu.Unlock()
	s.log.Info("stream created", "stream", spec.Name, "topics", spec.Topics, "transform", spec.Transform)
	info := st.info()
	info.Warnings = warnings
	return info, nil
}

// withinLimits refuses what a transformation would not be given.
func (s *Server) withinLimits(spec graphmill.StreamSpec) error {
	limits := s.host.Limits()
	if spec.MemoryLimit > limits.MaxMemory {
		return graphmill.Invalid("memory_limit", "%d bytes are over the server's maximum of %d", spec.MemoryLimit, limits.MaxMemory)
	}
	if most := limits.MaxTime.Milliseconds(); spec.TimeLimitMS > most {
		return graphmill.Invalid("time_limit_ms", "%d ms are over the server's maximum of %d", spec.TimeLimitMS, most)
	}
	return nil
}

// probe looks for broker and topics.
func (s *Server) probe(ctx context.Context, cfg kafka.Config) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.CreateTimeout)
	defer cancel()
	err := kafka.Probe(ctx, cfg)
	f, ok := asFault(err)
	if !ok {
		return err
	}
	next := f.Next
	if f.Class == graphmill.FaultTransient {
		next = strings.TrimPrefix(next+"; or create the stream all the same with --no-check (\"check\": false)", "; or ")
	}
	return &graphmill.Error{Kind: graphmill.KindUnavailable, Code: f.Code, Text: f.Text, Next: next, Err: f.Err}
}

// warnings tells what will not work as it is.
func (s *Server) warnings(ctx context.Context, spec graphmill.StreamSpec) []string {
	var ws []string
	if err := s.canTransform(ctx, spec); err != nil {
		ws = append(ws, fmt.Sprintf("the transformation %s cannot be used yet: %v", spec.Transform, err))
	}
	s.each(func(other *stream) {
		rec := other.record()
		if topic, shared := sharesGroup(spec, rec.Spec); shared {
			ws = append(ws, fmt.Sprintf("stream %q reads topic %q in the same consumer group %q: each would get a part of the messages, so they cannot run together",
				rec.Spec.Name, topic, spec.ConsumerGroup))
		}
	})
	return ws
}

// canTransform tells whether module and function are there.
func (s *Server) canTransform(ctx context.Context, spec graphmill.StreamSpec) error {
	ref, err := graphmill.ParseTransformationRef(spec.Transform)
	if err != nil {
		return err
	}
	m, err := s.activeModule(ctx, ref.Module)
	if err != nil {
		return err
	}
	return checkFunction(m, ref)
}

// sharesGroup names a topic that both read in one consumer group of the same
// brokers.
func sharesGroup(a, b graphmill.StreamSpec) (topic string, shared bool) {
	if a.Name == b.Name || a.ConsumerGroup != b.ConsumerGroup || !slices.Equal(a.BootstrapServers, b.BootstrapServers) {
		return "", false
	}
	for _, t := range a.Topics {
		if slices.Contains(b.Topics, t) {
			return t, true
		}
	}
	return "", false
}

// mayStart checks what START must not begin without.
func (s *Server) mayStart(ctx context.Context, st *stream) error {
	if err := s.Ready(ctx); err != nil {
		return err
	}
	rec := st.record()
	if err := s.canTransform(ctx, rec.Spec); err != nil {
		var e *graphmill.Error
		if errors.As(err, &e) {
			return &graphmill.Error{Kind: graphmill.KindConflict, Code: e.Code, Text: fmt.Sprintf("stream %q cannot start: %s", rec.Spec.Name, e.Text), Next: e.Next, Err: e.Err}
		}
		return err
	}
	var conflict error
	s.each(func(other *stream) {
		if other == st || other.current() == nil {
			return
		}
		if topic, shared := sharesGroup(rec.Spec, other.record().Spec); shared {
			conflict = &graphmill.Error{Kind: graphmill.KindConflict, Code: "group_shared",
				Text: fmt.Sprintf("stream %q is running and reads topic %q in the same consumer group %q; each would get a part of the messages",
					other.name(), topic, rec.Spec.ConsumerGroup),
				Next: "stop that stream, or create this one with a consumer group of its own"}
		}
	})
	return conflict
}

// kafkaConfig is how a stream reads Kafka.
func (s *Server) kafkaConfig(spec graphmill.StreamSpec) (kafka.Config, error) {
	brokers := spec.BootstrapServers
	if len(brokers) == 0 {
		brokers = s.cfg.BootstrapServers
	}
	if len(brokers) == 0 {
		e := graphmill.Invalid("bootstrap_servers", "the stream names no broker, and the server has no default")
		e.Next = "give --bootstrap-servers HOST:PORT, or start the server with --kafka-bootstrap-servers"
		return kafka.Config{}, e
	}
	start, err := graphmill.ParseStart("start_from", spec.StartFrom)
	if err != nil {
		return kafka.Config{}, err
	}
	return kafka.Config{
		Stream:  spec.Name,
		Brokers: brokers,
		Topics:  spec.Topics,
		Group:   spec.ConsumerGroup,
		Start:   start,
		Logger:  s.log.With("stream", spec.Name),
	}, nil
}

// Streams returns every stream by name.
func (s *Server) Streams(context.Context) ([]StreamInfo, error) {
	infos := []StreamInfo{}
	s.each(func(st *stream) { infos = append(infos, st.info()) })
	slices.SortFunc(infos, func(a, b StreamInfo) int { return strings.Compare(a.Spec.Name, b.Spec.Name) })
	return infos, nil
}

// Stream returns one stream.
func (s *Server) Stream(_ context.Context, name string) (StreamInfo, error) {
	st, err := s.stream(name)
	if err != nil {
		return StreamInfo{}, err
	}
	return st.info(), nil
}

// StartStream starts a stopped or failed stream; see stream.start.
func (s *Server) StartStream(ctx context.Context, name string) (StreamInfo, error) {
	st, err := s.stream(name)
	if err != nil {
		return StreamInfo{}, err
	}
	if err := st.start(ctx); err != nil {
		return StreamInfo{}, err
	}
	return st.info(), nil
}

// StopStream stops a stream once its batches under way are done; see
// stream.stop.
func (s *Server) StopStream(ctx context.Context, name string) (StreamInfo, error) {
	st, err := s.stream(name)
	if err != nil {
		return StreamInfo{}, err
	}
	if err := st.stop(ctx); err != nil {
		return StreamInfo{}, err
	}
	return st.info(), nil
}

// DeleteStream drops a stream in any state. The group's positions stay with the
// broker.
func (s *Server) DeleteStream(ctx context.Context, name string) error {
	st, err := s.stream(name)
	if err != nil {
		return s.deleteBroken(ctx, name, err)
	}
	if err := st.drop(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	if s.streams[name] == st {
		delete(s.streams, name)
	}
	s.mu.Unlock()
	s.log.Info("stream dropped", "stream", name)
	return nil
}

// deleteBroken removes an entry of the catalog that could not be read, of which
// there is no stream here.
func (s *Server) deleteBroken(ctx context.Context, name string, notFound error) error {
	if err := s.catalog.DeleteStream(ctx, name); err != nil {
		if graphmill.KindOf(err) == graphmill.KindNotFound {
			return notFound
		}
		return err
	}
	return nil
}
