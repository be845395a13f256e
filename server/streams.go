package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/graphmill/graphmill"
)

// Streams returns every stream by name, those too whose entry in the catalog
// cannot be read: of them the name, and why, in the state broken.
func (s *Server) Streams(context.Context) ([]StreamInfo, error) {
	infos := []StreamInfo{}
	s.each(func(st *stream) { infos = append(infos, st.info()) })
	infos = append(infos, s.brokenStreams()...)
	slices.SortFunc(infos, func(a, b StreamInfo) int { return strings.Compare(a.Spec.Name, b.Spec.Name) })
	return infos, nil
}

// Stream returns one stream. Errors: KindNotFound.
func (s *Server) Stream(_ context.Context, name string) (StreamInfo, error) {
	if info, ok := s.brokenStream(name); ok {
		return info, nil
	}
	st, err := s.stream(name)
	if err != nil {
		return StreamInfo{}, err
	}
	return st.info(), nil
}

// StartStream starts a stopped or failed stream. It returns once the start
// positions are settled, so that nothing produced after it has returned is
// missed, or after the start timeout: the stream is waiting then, and goes on by
// itself. It goes on when ctx ends, too.
//
// With a BatchLimit it returns once so many batches with messages are applied
// and acknowledged, and the stream has stopped again; nothing beyond them is
// transformed. When the timeout is over or ctx ends, it ends after the batch that
// is being executed. What was committed by then is in the result, beside the
// error, and in the error's text.
//
// Errors: KindInvalid; KindNotFound; KindConflict with already_running,
// group_shared (a twin runs), stopped_meanwhile, what the transformation lacks
// (module_not_found, function_not_found), or the code of the fault that ended it;
// KindUnavailable (shutting_down); KindTimeout (start_timeout).
func (s *Server) StartStream(ctx context.Context, name string, r StartRequest) (StartResult, error) {
	if err := r.validate(); err != nil {
		return StartResult{}, err
	}
	st, err := s.stream(name)
	if err != nil {
		return StartResult{}, err
	}
	if err := canAccept(st.record().Spec, r); err != nil {
		return StartResult{}, err
	}
	if err := s.canTransform(ctx, st.record().Spec); err != nil {
		return StartResult{}, cannotStart(st.name(), "start", err)
	}
	if r.BatchLimit > 0 {
		return st.startLimited(ctx, r)
	}
	if err := st.start(ctx, r); err != nil {
		return StartResult{}, err
	}
	return StartResult{StreamInfo: st.info()}, nil
}

// StopStream stops a stream once its batches under way are done, within the
// drain timeout. Once begun it goes on when ctx ends.
//
// Errors: KindNotFound; KindConflict (already_stopped); KindUnavailable
// (not_stored) where the stream has been stopped and the catalog could not be
// written.
func (s *Server) StopStream(ctx context.Context, name string) (StreamInfo, error) {
	st, err := s.stream(name)
	if err != nil {
		return StreamInfo{}, err
	}
	hadFailed, err := st.stop(ctx)
	if err != nil {
		return StreamInfo{}, err
	}
	info := st.info()
	info.HadFailed = hadFailed
	return info, nil
}

// DeleteStream drops a stream in any state, once the batch that it is executing
// is done, and entries of the catalog that cannot be read. The group's positions
// stay with the broker, unless they are to be forgotten there, too; where that
// cannot be, the stream stays and goes on.
//
// Errors: KindNotFound; with Unsubscribe KindInvalid where there is no subscription,
// KindConflict where others use it (subscription_shared, subscription_busy) or the
// definition cannot be read, KindUnavailable while the broker is away.
func (s *Server) DeleteStream(ctx context.Context, name string, r DeleteRequest) error {
	st, err := s.stream(name)
	if err == nil {
		err = st.drop(ctx, r)
	} else if graphmill.KindOf(err) == graphmill.KindConflict && !r.Unsubscribe {
		err = s.deleteBroken(ctx, name)
	}
	if err == nil {
		s.log.Info("stream dropped", "stream", name)
	}
	return err
}

// canAccept refuses to accept what cannot befall a stream.
func canAccept(spec graphmill.StreamSpec, r StartRequest) error {
	if kindOf(spec) == graphmill.SourceKafka || !r.AcceptRecreated && r.AcceptLost == "" {
		return nil
	}
	e := graphmill.Invalid("accept", "a Pulsar stream has nothing to accept: where its subscription is lost, it reads what the topic still holds")
	e.Next = "start it without --accept; to begin elsewhere: graphmill stream offsets " + spec.Name + " --set"
	return e
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

// tryTransformation makes an instance of the transformation under a definition,
// and lets it go: what only the module can refuse, settings above all, is known
// before anything is stored. Messages are not needed for it.
func (s *Server) tryTransformation(ctx context.Context, spec graphmill.StreamSpec) error {
	ref, err := graphmill.ParseTransformationRef(spec.Transform)
	if err != nil {
		return err
	}
	t, err := s.loadTransformation(ctx, ref)
	if err != nil {
		return err
	}
	defer t.close(context.WithoutCancel(ctx))
	instance, err := t.wasm.Instantiate(ctx, instanceConfig(spec, ref.Function))
	if err != nil {
		return err
	}
	return instance.Close(context.WithoutCancel(ctx))
}

// cannotStart is the answer of START, and of a change, where the transformation is
// not there: the stream is, so it is a conflict.
func cannotStart(stream, doing string, err error) error {
	var e *graphmill.Error
	if !errors.As(err, &e) || e.Kind != graphmill.KindNotFound {
		return err
	}
	return &graphmill.Error{Kind: graphmill.KindConflict, Code: e.Code, Text: fmt.Sprintf("stream %q cannot %s: %s", stream, doing, e.Text), Next: e.Next, Err: e.Err}
}
