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
		return StreamInfo{}, streamExists(spec.Name)
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
	st, err := s.define(ctx, spec)
	if err != nil {
		return StreamInfo{}, err
	}
	s.log.Info("stream created", "stream", spec.Name, "topics", spec.Topics, "transform", spec.Transform)
	info := st.info()
	info.Warnings = warnings
	return info, nil
}

// define stores a new stream and adds it to the list.
func (s *Server) define(ctx context.Context, spec graphmill.StreamSpec) (*stream, error) {
	s.defining.Lock()
	defer s.defining.Unlock()
	rec, err := s.catalog.CreateStream(ctx, catalog.Stream{Spec: spec, Desired: graphmill.StateStopped, CreatedAt: now()})
	if err != nil {
		return nil, err
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
	defer s.mu.Unlock()
	delete(s.streams, st.name())
	return nil
}

func streamExists(name string) error {
	return graphmill.Conflict("stream_exists", "there is a stream %q already", name)
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

// probe looks for broker and topics.
func (s *Server) probe(ctx context.Context, cfg kafka.Config) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.CreateTimeout)
	defer cancel()
	err := kafka.Probe(ctx, cfg)
	f, ok := asFault(err)
	if !ok {
		return err
	}
	e := refusal(f)
	if e.Kind == graphmill.KindUnavailable {
		e.Next = strings.TrimPrefix(e.Next+"; or create the stream all the same with --no-check (\"check\": false)", "; or ")
	}
	return e
}

// warnings tells what will not work as it is.
func (s *Server) warnings(ctx context.Context, spec graphmill.StreamSpec) []string {
	var ws []string
	if err := s.canTransform(ctx, spec); err != nil {
		ws = append(ws, fmt.Sprintf("the transformation %s cannot be used yet: %v", spec.Transform, err))
	}
	return append(ws, s.twinWarnings(spec)...)
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

// cannotStart is START's answer where the transformation is not there: the
// stream is, so it is a conflict.
func cannotStart(stream string, err error) error {
	var e *graphmill.Error
	if !errors.As(err, &e) || e.Kind != graphmill.KindNotFound {
		return err
	}
	return &graphmill.Error{Kind: graphmill.KindConflict, Code: e.Code, Text: fmt.Sprintf("stream %q cannot start: %s", stream, e.Text), Next: e.Next, Err: e.Err}
}

// kafkaConfig is how a stream reads Kafka.
func (s *Server) kafkaConfig(spec graphmill.StreamSpec) (kafka.Config, error) {
	brokers := s.brokers(spec)
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
	if err == nil {
		err = st.drop(ctx)
	} else {
		err = s.deleteBroken(ctx, name)
	}
	if err == nil {
		s.log.Info("stream dropped", "stream", name)
	}
	return err
}

// deleteBroken removes an entry of the catalog that could not be read, of which
// there is no stream here.
func (s *Server) deleteBroken(ctx context.Context, name string) error {
	s.defining.Lock()
	defer s.defining.Unlock()
	if _, err := s.stream(name); err == nil { // made this very moment
		return streamNotFound(name)
	}
	return s.catalog.DeleteStream(ctx, name)
}
