package server

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"

	"github.com/graphmill/graphmill"
)

// maxAtOnce is how many streams are started or stopped at once: each may wait for
// its broker or its batches.
const maxAtOnce = 16

// Codes of the errors that tell that a stream is in the wanted state already.
const (
	codeAlreadyRunning = "already_running"
	codeAlreadyStopped = "already_stopped"
)

// StartAll starts every stream that does not run, also those that have failed. It
// tells all streams, sorted by name; what keeps one from starting is told of it,
// and the others are started all the same.
func (s *Server) StartAll(ctx context.Context) ([]Changed, error) {
	return s.changeAll(ctx, codeAlreadyRunning, func(name string) (StreamInfo, error) {
		r, err := s.StartStream(ctx, name, StartRequest{})
		return r.StreamInfo, err
	})
}

// StopAll stops every stream that runs or has failed. It tells all streams, like
// StartAll.
func (s *Server) StopAll(ctx context.Context) ([]Changed, error) {
	return s.changeAll(ctx, codeAlreadyStopped, func(name string) (StreamInfo, error) { return s.StopStream(ctx, name) })
}

// changeAll does something to every stream. One that is in the wanted state
// already, as the code of its error tells, is as wanted; one that was dropped
// meanwhile is left out.
func (s *Server) changeAll(ctx context.Context, already string, do func(name string) (StreamInfo, error)) ([]Changed, error) {
	infos, err := s.Streams(ctx)
	if err != nil {
		return nil, err
	}
	results := make([]*Changed, len(infos))
	var work errgroup.Group
	work.SetLimit(maxAtOnce)
	for n, before := range infos {
		if before.State == graphmill.StateBroken && already == codeAlreadyStopped { // it does not run
			results[n] = &Changed{StreamInfo: before}
			continue
		}
		work.Go(func() error {
			now, err := do(before.Spec.Name)
			if isNotFound(err, "stream_not_found") {
				return nil
			}
			c := &Changed{StreamInfo: before}
			if e, ok := errors.AsType[*graphmill.Error](err); !ok || e.Code != already {
				c.Err = err
			}
			if err != nil {
				now, err = s.Stream(ctx, before.Spec.Name)
			}
			if err == nil {
				c.StreamInfo = now
			}
			results[n] = c
			return nil
		})
	}
	err = work.Wait()
	all := make([]Changed, 0, len(results))
	for _, c := range results {
		if c != nil {
			all = append(all, *c)
		}
	}
	return all, err
}
