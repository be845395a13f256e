package server_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/integration/boltserver"
	"github.com/graphmill/graphmill/server"
)

// limited is a world with a stream in batches of two.
func limited(t *testing.T) (*world, *server.Server) {
	w := newWorld(t, 1, boltserver.Options{})
	s := w.open(nil)
	w.push(s)
	w.create(s, func(spec *graphmill.StreamSpec) { spec.BatchSize = 2 })
	return w, s
}

// startLimited starts in the background and returns where the answer comes.
func startLimited(ctx context.Context, s *server.Server, r server.StartRequest) (<-chan server.StartResult, <-chan error) {
	results := make(chan server.StartResult, 1)
	errs := begun(func() error {
		result, err := s.StartStream(ctx, "s", r)
		results <- result
		return err
	})
	return results, errs
}

func TestALimitedStartAppliesSoManyBatchesAndStops(t *testing.T) {
	w, s := limited(t)
	w.produce("a", "b", "drop", "drop", "e", "f", "g")
	result, err := s.StartStream(t.Context(), "s", server.StartRequest{BatchLimit: 2, Timeout: patience})
	require.NoError(t, err)
	require.EqualValues(t, 2, result.Batches, "one of which nothing came is one")
	require.EqualValues(t, 4, result.Messages)
	require.EqualValues(t, 2, result.Statements)
	require.Len(t, result.Positions, 1)
	require.EqualValues(t, 4, result.Positions[0].Offset)
	require.Equal(t, graphmill.StateStopped, result.State)
	require.Equal(t, graphmill.StateStopped, result.Desired)
	require.Equal(t, []string{"a", "b"}, w.applied())
	require.Len(t, w.log.with(greeting), 2, "nothing beyond the limit is transformed")
	require.EqualValues(t, 4, w.committed())

	result, err = s.StartStream(t.Context(), "s", server.StartRequest{BatchLimit: 2, Timeout: patience})
	require.NoError(t, err, "it goes on where it was")
	require.EqualValues(t, 3, result.Messages)
	require.Equal(t, []string{"a", "b", "e", "f", "g"}, w.applied())
}

func TestALimitedStartWhoseTimeIsOverTellsWhatWasCommitted(t *testing.T) {
	w, s := limited(t)
	w.produce("a", "b")
	result, err := s.StartStream(t.Context(), "s", server.StartRequest{BatchLimit: 3, Timeout: brief})
	e := requireCode(t, err, "start_timeout")
	require.Equal(t, graphmill.KindTimeout, e.Kind)
	require.Contains(t, e.Text, "committed: 1 batch of 2 messages, up to topic/0@2")
	require.EqualValues(t, 1, result.Batches)
	require.Equal(t, graphmill.StateStopped, w.status(s).State)
	require.EqualValues(t, 2, w.committed())

	w.bolt.Stop()
	w.produce("c")
	_, err = s.StartStream(t.Context(), "s", server.StartRequest{BatchLimit: 1, Timeout: brief})
	e = requireCode(t, err, "start_timeout")
	require.Contains(t, e.Text, "committed: nothing; it was waiting")
	require.EqualValues(t, 2, w.committed())
}

func TestALimitedStartWhoseClientHasGoneEndsAfterTheBatchUnderWay(t *testing.T) {
	w, s := limited(t)
	held := make(chan struct{})
	w.bolt.SetHooks(onCommit(boltserver.Reply{Wait: held}))
	w.produce("a", "b", "c", "d", "e")
	ctx, leave := context.WithCancel(t.Context())
	results, errs := startLimited(ctx, s, server.StartRequest{BatchLimit: 10, Timeout: time.Hour})
	w.awaitExecuting(s)
	leave()
	w.awaitState(s, graphmill.StateDraining)
	close(held)
	require.ErrorIs(t, <-errs, context.Canceled)
	require.EqualValues(t, 1, (<-results).Batches)
	require.Equal(t, []string{"a", "b"}, w.applied())
	require.EqualValues(t, 2, w.committed())
	require.Equal(t, graphmill.StateStopped, w.status(s).State)
}

func TestCommandsDuringALimitedStart(t *testing.T) {
	for name, c := range map[string]struct {
		command func(*server.Server) error
		code    string
	}{
		"STOP":                  {func(s *server.Server) error { return stop(s)() }, "stopped_meanwhile"},
		"DROP":                  {func(s *server.Server) error { return s.DeleteStream(context.Background(), "s", server.DeleteRequest{}) }, "stopped_meanwhile"},
		"the end of the server": {func(s *server.Server) error { return s.Close(context.Background()) }, "shutting_down"},
	} {
		t.Run(name, func(t *testing.T) {
			w, s := limited(t)
			w.produce("a", "b")
			_, errs := startLimited(t.Context(), s, server.StartRequest{BatchLimit: 10, Timeout: time.Hour})
			w.awaitAcknowledged(s, 2)
			st := w.status(s)
			require.Equal(t, graphmill.StateRunning, st.State)
			require.Equal(t, graphmill.StateStopped, st.Desired, "a restart of the server does not resume it")
			requireCode(t, start(s)(), "already_running")
			_, err := s.CheckStream(t.Context(), "s", server.CheckRequest{BatchLimit: 1, Timeout: patience, From: "earliest"})
			require.NoError(t, err)
			promptly(t, name, func() { require.NoError(t, c.command(s)) })
			require.Contains(t, requireCode(t, <-errs, c.code).Text, "committed: 1 batch of 2 messages")
		})
	}
}

func TestALimitedStartThatAppliesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		payloads []string
		timeout  time.Duration
		code     string
	}{
		"there is no message":            {nil, brief, "start_timeout"},
		"the first batch of three fails": {[]string{"fail", "a", "b", "c", "d", "e"}, patience, "transformation"},
	} {
		t.Run(name, func(t *testing.T) {
			w, s := limited(t)
			if len(c.payloads) > 0 {
				w.produce(c.payloads...)
			}
			result, err := s.StartStream(t.Context(), "s", server.StartRequest{BatchLimit: 3, Timeout: c.timeout})
			require.Contains(t, requireCode(t, err, c.code).Text, "committed: nothing")
			require.Zero(t, result.Batches)
			require.Empty(t, result.Positions)
			require.Empty(t, w.applied())
			require.EqualValues(t, 0, w.committed(), "where it began")
			require.Equal(t, graphmill.StateStopped, result.State)
		})
	}
}

func TestALimitedStartTellsOfABatchThatIsCommittedAndNotAcknowledged(t *testing.T) {
	w, s := limited(t)
	w.start(s) // the positions where it begins are stored before
	require.NoError(t, stop(s)())
	w.produce("a", "b")
	w.kafka.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.CoordinatorLoadInProgress, Count: -1})
	_, errs := startLimited(t.Context(), s, server.StartRequest{BatchLimit: 1, Timeout: brief})
	require.Contains(t, requireCode(t, <-errs, "start_timeout").Text, "committed: nothing; one more batch is in the graph")
	require.Equal(t, []string{"a", "b"}, w.applied())
}

func TestALimitedStartThatFailsReportsTheFaultAndLeavesTheStreamStopped(t *testing.T) {
	w, s := limited(t)
	w.produce("a", "b", "fail")
	result, err := s.StartStream(t.Context(), "s", server.StartRequest{BatchLimit: 5, Timeout: patience})
	e := requireCode(t, err, "transformation")
	require.Contains(t, e.Text, "told to fail")
	require.Contains(t, e.Text, "committed: 1 batch of 2 messages")
	require.EqualValues(t, 1, result.Batches)
	st := w.status(s)
	require.Equal(t, graphmill.StateStopped, st.State)
	require.Equal(t, "transformation", st.LastFailure.Code)
	w.close(s)
	s = w.open(nil)
	require.Equal(t, graphmill.StateStopped, w.status(s).State)
}

func TestStartsThatCannotBeMeant(t *testing.T) {
	_, s := limited(t)
	for field, r := range map[string]server.StartRequest{
		"batch_limit": {BatchLimit: -1},
		"timeout_ms":  {Timeout: time.Second},
	} {
		_, err := s.StartStream(t.Context(), "s", r)
		require.Equal(t, field, requireCode(t, err, "invalid").Field)
	}
	_, err := s.StartStream(t.Context(), "s", server.StartRequest{BatchLimit: 1, Timeout: -1})
	require.Equal(t, "timeout_ms", requireCode(t, err, "invalid").Field)
}

func TestALimitedStartAmidAHalvedBatchWhosePartitionsGo(t *testing.T) {
	// The first half is being executed when another server takes a partition: of
	// the second half, or of both.
	for name, share := range map[string]func(i int) int32{
		"each half is of a partition": func(i int) int32 { return int32(i / 2) },
		"each half is of both":        func(i int) int32 { return int32(i % 2) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 2, boltserver.Options{})
			held, executing := make(chan struct{}), make(chan struct{}, 100)
			w.bolt.SetHooks(boltserver.Hooks{OnCommit: func(tx boltserver.Transaction) boltserver.Reply {
				if rowsOf(tx) > 2 {
					return boltserver.Fail(outOfMemory, "the limit of the transaction")
				}
				executing <- struct{}{}
				return boltserver.Reply{Wait: held}
			}})
			one := w.open(nil)
			w.push(one)
			w.create(one, func(spec *graphmill.StreamSpec) { spec.BatchSize, spec.BatchIntervalMS = 4, 60_000 })
			var want []string
			for i := range 4 {
				want = append(want, fmt.Sprintf("p%d", i))
				w.produceRecords(&kgo.Record{Topic: "topic", Partition: share(i), Value: []byte(want[i])})
			}
			results, errs := startLimited(t.Context(), one, server.StartRequest{BatchLimit: 1, Timeout: patience})
			<-executing
			for i := range 8 {
				want = append(want, fmt.Sprintf("later%d", i))
				w.produceRecords(&kgo.Record{Topic: "topic", Partition: share(i % 4), Value: []byte(want[4+i])})
			}
			two := w.open(func(c *server.Config) { c.DataDir = t.TempDir() })
			w.push(two)
			w.create(two, func(spec *graphmill.StreamSpec) { spec.BatchSize = 2 })
			started := begun(start(two))
			w.awaitLog("partitions revoked", 1)
			close(held)
			require.NoError(t, <-errs)
			result := <-results
			require.EqualValues(t, 1, result.Batches)
			for _, p := range result.Positions {
				require.LessOrEqual(t, p.Offset, int64(2), "nothing beyond the limit")
			}
			require.NoError(t, <-started)
			w.await(two, "all is done", func(st graphmill.StreamStatus) bool { return len(st.Partitions) == 2 && lag(st) == 0 })
			require.ElementsMatch(t, want, w.applied(), "nothing lost or doubled")
		})
	}
}
