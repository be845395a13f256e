package server_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/integration/boltserver"
	"github.com/graphmill/graphmill/server"
)

func (w *world) setOffsets(s *server.Server, to string, partition *graphmill.TopicPartition) (graphmill.OffsetsInfo, error) {
	return s.SetStreamOffsets(w.t.Context(), "s", server.SetOffsetsRequest{To: to, Partition: partition})
}

func TestAMessageIsPassedBySettingTheOffsetBehindIt(t *testing.T) {
	w := newWorld(t, 2, boltserver.Options{})
	s := w.open(nil)
	w.push(s)
	w.create(s, func(spec *graphmill.StreamSpec) { spec.BatchSize = 1 })
	w.produceRecords(
		&kgo.Record{Topic: "topic", Partition: 1, Value: []byte("other")},
		&kgo.Record{Topic: "topic", Value: []byte("a")},
		&kgo.Record{Topic: "topic", Value: []byte("fail")},
		&kgo.Record{Topic: "topic", Value: []byte("b")},
	)
	w.start(s)
	st := w.awaitState(s, graphmill.StateFailed)
	require.Contains(t, st.Reason.NextStep, "graphmill stream offsets s --set 2 --partition topic/0", "the reason tells how to go past it")
	before, err := s.StreamOffsets(t.Context(), "s")
	require.NoError(t, err)
	require.EqualValues(t, 1, before.Partitions[0].Offset)
	require.EqualValues(t, 2, before.Partitions[0].Lag)

	info, err := w.setOffsets(s, "2", &graphmill.TopicPartition{Topic: "topic"})
	require.NoError(t, err)
	require.EqualValues(t, 2, info.Partitions[0].Offset)
	require.Equal(t, before.Partitions[1], info.Partitions[1], "the other partition stays")
	require.Equal(t, graphmill.StateFailed, w.status(s).State)
	require.EqualValues(t, 2, w.status(s).Partitions[0].Acknowledged, "the catalog has followed")
	w.start(s)
	w.await(s, "all is done", func(st graphmill.StreamStatus) bool { return lag(st) == 0 && st.CurrentBatch == nil })
	require.ElementsMatch(t, []string{"other", "a", "b"}, w.applied())
}

func TestPositionsThatCannotBeSet(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	s := w.open(nil)
	w.push(s)
	w.create(s, nil)
	w.produce("a", "b")
	w.start(s)
	w.awaitAcknowledged(s, 2)
	_, err := w.setOffsets(s, "earliest", nil)
	e := requireCode(t, err, "stream_running")
	require.Contains(t, e.Next, "graphmill stream stop s")
	info, err := s.StreamOffsets(t.Context(), "s")
	require.NoError(t, err, "they can be looked at")
	require.Len(t, info.Members, 1)
	require.EqualValues(t, 2, info.Partitions[0].Offset)
	require.NoError(t, stop(s)())

	for _, c := range []struct {
		to        string
		partition *graphmill.TopicPartition
		field     string
	}{
		{"sometime", nil, "set"},
		{"-1", nil, "set"},
		{"3", nil, "set"},
		{"1", &graphmill.TopicPartition{Topic: "topic", Partition: 7}, "partition"},
		{"1", &graphmill.TopicPartition{Topic: "other"}, "partition"},
	} {
		_, err := w.setOffsets(s, c.to, c.partition)
		require.Equal(t, c.field, requireCode(t, err, "invalid").Field, c.to)
	}
	require.EqualValues(t, 2, w.committed())

	two := w.open(func(c *server.Config) { c.DataDir = t.TempDir() })
	w.push(two)
	w.create(two, nil)
	w.start(two)
	_, err = w.setOffsets(s, "earliest", nil)
	requireCode(t, err, "group_active")
	require.NoError(t, stop(two)())
	_, err = w.setOffsets(s, "earliest", nil)
	require.NoError(t, err)
	w.start(s)
	w.awaitAcknowledged(s, 2)
	require.Equal(t, []string{"a", "b", "a", "b"}, w.applied())
	_, err = s.StreamOffsets(t.Context(), "absent")
	requireCode(t, err, "stream_not_found")
}

func TestStartBeginsExactlyWhereThePositionWasSet(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	s := w.open(nil)
	w.push(s)
	w.create(s, nil)
	w.produce("a", "b")
	for _, c := range []struct {
		to    string
		later string
		want  []string
	}{
		{"2", "c", []string{"c"}}, // the end
		{time.Now().Add(time.Hour).Format(time.RFC3339), "d", []string{"d"}},
		{"latest", "e", []string{"e"}},
		{"1", "f", []string{"b", "c", "d", "e", "f"}},
		{"2001-01-01T00:00:00Z", "g", []string{"a", "b", "c", "d", "e", "f", "g"}},
	} {
		_, err := w.setOffsets(s, c.to, nil)
		require.NoError(t, err)
		before := len(w.applied())
		w.produce(c.later)
		w.start(s)
		w.await(s, "all is done", func(st graphmill.StreamStatus) bool { return lag(st) == 0 && st.CurrentBatch == nil })
		require.NoError(t, stop(s)())
		require.Equal(t, c.want, w.applied()[before:], c.to)
	}
}

func TestAGroupThatWasMovedBeforeACrashCounts(t *testing.T) {
	// The group was written, and the server ended before the catalog was.
	w := newWorld(t, 1, boltserver.Options{})
	s := w.open(nil)
	w.push(s)
	w.create(s, nil)
	w.produce("a", "b")
	w.start(s)
	w.awaitAcknowledged(s, 2)
	require.NoError(t, stop(s)())
	var offsets kadm.Offsets
	offsets.Add(kadm.Offset{Topic: "topic", At: 1, LeaderEpoch: -1})
	_, err := w.admin.CommitOffsets(t.Context(), "graphmill.s", offsets)
	require.NoError(t, err)
	w.close(s)
	s = w.open(nil)
	info, err := s.StreamOffsets(t.Context(), "s")
	require.NoError(t, err)
	require.EqualValues(t, 1, info.Partitions[0].Offset)
	w.start(s)
	w.awaitAcknowledged(s, 2)
	require.Equal(t, []string{"a", "b", "b"}, w.applied())
}

func TestCreationTellsWhereAGroupHasPositionsAlready(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	s := w.open(nil)
	w.push(s)
	w.create(s, nil)
	w.produce("a", "b")
	w.start(s)
	w.awaitAcknowledged(s, 2)
	require.NoError(t, s.DeleteStream(t.Context(), "s", server.DeleteRequest{}))
	spec := graphmill.StreamSpec{Name: "s", Topics: []string{"topic"}, Transform: "obedient.absent", StartFrom: graphmill.StartEarliest}
	info, err := s.CreateStream(t.Context(), server.CreateRequest{Spec: spec, Check: true})
	require.NoError(t, err)
	require.Len(t, info.Warnings, 2)
	require.Contains(t, info.Warnings[0], "it has: loop, transform", "a wrong function is told with what there is")
	require.Contains(t, info.Warnings[1], "the stream begins at topic/0@2")
	require.Contains(t, info.Warnings[1], "graphmill stream offsets s --set")
}
