package server_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/integration/boltserver"
	"github.com/graphmill/graphmill/server"
)

func codeOf(err error) string {
	var e *graphmill.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// A check that wants the stream alone: it counts as running, START waits and then
// succeeds, STOP waits and then finds it stopped, what does not wait is refused.
func TestCommandsDuringACheckThatWantsTheStreamAlone(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	s := w.open(nil)
	w.push(s)
	w.create(s, nil)
	alone := server.CheckRequest{BatchLimit: 1, Timeout: 5 * patience, From: "committed", Alone: true}

	checked := make(chan error, 1)
	go func() {
		_, err := s.CheckStream(t.Context(), "s", alone)
		checked <- err
	}()
	busy := func() bool {
		info, err := s.Stream(t.Context(), "s")
		require.NoError(t, err)
		return info.Busy && info.Running() && info.State == graphmill.StateStopped
	}
	require.Eventually(t, busy, patience, time.Millisecond)

	_, err := s.StartStream(t.Context(), "s", server.StartRequest{BatchLimit: 1, AtOnce: true})
	requireCode(t, err, "already_running")
	_, err = s.CheckStream(t.Context(), "s", alone)
	requireCode(t, err, "already_running")

	stopped, started := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := s.StopStream(t.Context(), "s")
		stopped <- err
		_, err = s.StartStream(t.Context(), "s", server.StartRequest{})
		started <- err
	}()
	ordinary := alone
	ordinary.Alone, ordinary.Timeout = false, brief
	_, err = s.CheckStream(t.Context(), "s", ordinary)
	requireCode(t, err, "check_timeout") // an ordinary check disturbs nobody and is disturbed by nobody
	require.Empty(t, stopped, "STOP waits")

	w.produce("a")
	require.NoError(t, <-checked)
	requireCode(t, <-stopped, "already_stopped")
	require.NoError(t, <-started)
	require.Eventually(t, func() bool { return len(w.applied()) == 1 }, patience, time.Millisecond)

	_, err = s.CheckStream(t.Context(), "s", alone)
	requireCode(t, err, "already_running") // a stream that runs is not checked alone
	_, err = s.StopStream(t.Context(), "s")
	require.NoError(t, err)
	info, err := s.Stream(t.Context(), "s")
	require.NoError(t, err)
	require.False(t, info.Running())
}

// The end of the server does not wait for a check that holds the stream.
func TestTheServerEndsDuringACheckThatWantsTheStreamAlone(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	s := w.open(nil)
	w.push(s)
	w.create(s, nil)
	checked := make(chan error, 1)
	go func() {
		_, err := s.CheckStream(t.Context(), "s", server.CheckRequest{BatchLimit: 1, Timeout: 5 * time.Minute, From: "committed", Alone: true})
		checked <- err
	}()
	require.Eventually(t, func() bool {
		info, err := s.Stream(t.Context(), "s")
		return err == nil && info.Busy
	}, patience, time.Millisecond)
	w.close(s)
	require.Error(t, <-checked)
}

func TestAllAreStartedAndStoppedAndEachFailureIsTold(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	s := w.open(nil)
	w.push(s)
	for _, name := range []string{"a", "b", "c"} {
		w.create(s, func(spec *graphmill.StreamSpec) {
			spec.Name = name
			if name == "b" {
				spec.Transform = "absent"
			}
		})
	}
	_, err := s.StartStream(t.Context(), "c", server.StartRequest{})
	require.NoError(t, err)
	tell := func(all []server.Changed, err error) []string {
		require.NoError(t, err)
		var told []string
		for _, c := range all {
			told = append(told, c.Spec.Name+" "+string(c.State)+" "+codeOf(c.Err))
		}
		return told
	}
	require.Equal(t, []string{"a running ", "b stopped module_not_found", "c running "}, tell(s.StartAll(t.Context())))
	require.Equal(t, []string{"a stopped ", "b stopped ", "c stopped "}, tell(s.StopAll(t.Context())))
}

func TestTheOwnerOfAStreamIsKept(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	s := w.open(nil)
	spec := graphmill.StreamSpec{Name: "s", Topics: []string{"topic"}, Transform: "obedient"}
	_, err := s.CreateStream(t.Context(), server.CreateRequest{Spec: spec, Owner: "ana"})
	require.NoError(t, err)
	w.close(s)
	info, err := w.open(nil).Stream(t.Context(), "s")
	require.NoError(t, err)
	require.Equal(t, "ana", info.Owner)
}

// A check that wants all batches tells all or an error.
func TestACheckOfAllBatches(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	s := w.open(nil)
	w.push(s)
	w.create(s, func(spec *graphmill.StreamSpec) { spec.BatchSize = 1 })
	w.produce("a")
	request := server.CheckRequest{BatchLimit: 2, Timeout: brief, From: "earliest"}
	batches, err := s.CheckStream(t.Context(), "s", request)
	require.NoError(t, err)
	require.Len(t, batches, 1)
	request.All = true
	_, err = s.CheckStream(t.Context(), "s", request)
	requireCode(t, err, "check_timeout")
	require.ErrorContains(t, err, "1 of 2 batches")

	large := strings.Repeat("x", 900<<10)
	for range 80 { // more than a check tells at once
		w.produce(large)
	}
	request.BatchLimit, request.Timeout = 100, patience
	_, err = s.CheckStream(t.Context(), "s", request)
	requireCode(t, err, "check_too_large")
	require.Equal(t, graphmill.KindTooLarge, graphmill.KindOf(err))
	request.All = false
	batches, err = s.CheckStream(t.Context(), "s", request)
	require.NoError(t, err)
	require.Less(t, len(batches), 80)
}

// A STOP tells whether there was anything to stop.
func TestAStopOfAFailedStream(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	s := w.open(nil)
	w.push(s)
	w.create(s, nil)
	w.start(s)
	info, err := s.StopStream(t.Context(), "s")
	require.NoError(t, err)
	require.False(t, info.HadFailed)

	w.produce("panic")
	w.start(s)
	w.awaitState(s, graphmill.StateFailed)
	info, err = s.StopStream(t.Context(), "s")
	require.NoError(t, err)
	require.True(t, info.HadFailed)
	require.Equal(t, graphmill.StateStopped, info.Desired)
	require.Equal(t, graphmill.StateStopped, info.State)
	_, err = s.StopStream(t.Context(), "s")
	requireCode(t, err, "already_stopped")
}
