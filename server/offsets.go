package server

import (
	"context"

	"github.com/graphmill/graphmill"
)

// StreamOffsets tells where a stream would begin if it were started, partition by
// partition, and who is in its group. It joins and changes nothing. Of a stream
// that runs it tells what is acknowledged.
//
// Errors: KindNotFound; KindUnavailable while the broker or a topic is not there;
// KindConflict where the broker does not let the server in.
func (s *Server) StreamOffsets(ctx context.Context, name string) (graphmill.OffsetsInfo, error) {
	st, err := s.stream(name)
	if err != nil {
		return graphmill.OffsetsInfo{}, err
	}
	spec, err := st.definition(ctx)
	if err != nil {
		return graphmill.OffsetsInfo{}, err
	}
	return s.offsets(ctx, spec)
}

func (s *Server) offsets(ctx context.Context, spec graphmill.StreamSpec) (graphmill.OffsetsInfo, error) {
	known, err := s.catalog.Positions(ctx, spec.Name)
	if err != nil {
		return graphmill.OffsetsInfo{}, err
	}
	info, err := s.broker(spec).offsets(ctx, known)
	return info, commandError(err)
}

// SetStreamOffsets moves the positions of a stopped or failed stream, and returns
// where it would begin then.
//
// The broker's group is written first and the catalog then: where a crash comes
// in between, the group's commit counts and the catalog follows it at the next
// start.
//
// Errors: those of StreamOffsets; KindInvalid with the fields set and partition;
// KindConflict with stream_running and group_active.
func (s *Server) SetStreamOffsets(ctx context.Context, name string, r SetOffsetsRequest) (graphmill.OffsetsInfo, error) {
	to, err := graphmill.ParseOffsetTarget("set", r.To)
	if err != nil {
		return graphmill.OffsetsInfo{}, err
	}
	st, err := s.stream(name)
	if err != nil {
		return graphmill.OffsetsInfo{}, err
	}
	return st.setOffsets(ctx, to, r.Partition)
}

func (st *stream) setOffsets(ctx context.Context, to graphmill.OffsetTarget, only *graphmill.TopicPartition) (graphmill.OffsetsInfo, error) {
	unlock, err := st.begin(ctx)
	if err != nil {
		return graphmill.OffsetsInfo{}, err
	}
	defer unlock()
	spec, err := st.definition(ctx)
	if err != nil {
		return graphmill.OffsetsInfo{}, err
	}
	if st.current() != nil {
		e := graphmill.Conflict("stream_running", "the positions of stream %q cannot be set while it is running", spec.Name)
		e.Next = "stop it: graphmill stream stop " + spec.Name
		return graphmill.OffsetsInfo{}, e
	}
	known, err := st.srv.catalog.Positions(ctx, spec.Name)
	if err != nil {
		return graphmill.OffsetsInfo{}, err
	}
	positions, err := st.srv.moveGroup(ctx, spec, known, to, only)
	if err != nil {
		return graphmill.OffsetsInfo{}, err
	}
	// The group has moved: the catalog follows, whoever still waits for that.
	if err := st.srv.catalog.MergePositions(context.WithoutCancel(ctx), spec.Name, positions); err != nil {
		return graphmill.OffsetsInfo{}, err
	}
	st.rest.forget()
	st.log.Info("positions set", "to", to.String(), "positions", positionsText(positions))
	return st.srv.offsets(ctx, spec)
}

// moveGroup sets positions of the definition's group. Those that the catalog
// knows tell what is new in a topic, where the group does not.
func (s *Server) moveGroup(ctx context.Context, spec graphmill.StreamSpec, known []graphmill.Position, to graphmill.OffsetTarget, only *graphmill.TopicPartition) ([]graphmill.Position, error) {
	ctx, stop := within(ctx, s.life)
	defer stop()
	positions, err := s.broker(spec).setOffsets(ctx, known, to, only)
	return positions, commandError(err)
}

// commandError makes a fault the answer to a command.
func commandError(err error) error {
	if f, ok := asFault(err); ok {
		return Refusal(f)
	}
	return err
}
