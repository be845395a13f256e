package server_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/integration/boltserver"
	"github.com/graphmill/graphmill/server"
)

func TestStreamsOfOneGroupAndTopicDoNotRunTogether(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	s := w.open(nil)
	w.push(s)
	w.create(s, nil)
	info, err := s.CreateStream(t.Context(), graphmill.StreamSpec{Name: "twin", Topics: []string{"topic"}, Transform: "obedient", ConsumerGroup: "graphmill.s"}, true)
	require.NoError(t, err)
	require.Len(t, info.Warnings, 1)
	require.Contains(t, info.Warnings[0], `"graphmill.s"`)
	w.start(s)
	_, err = s.StartStream(t.Context(), "twin")
	requireCode(t, err, "group_shared")
}

func TestTwoServersShareAStreamAndLoseNothing(t *testing.T) {
	w := newWorld(t, 4, boltserver.Options{})
	one := w.open(nil)
	w.push(one)
	w.create(one, func(spec *graphmill.StreamSpec) { spec.BatchSize = 10 })
	w.start(one)
	produce := func(name string) {
		var records []*kgo.Record
		for i := range 400 {
			records = append(records, &kgo.Record{Topic: "topic", Partition: int32(i % 4), Value: []byte(name + strings.Repeat("x", i))})
		}
		w.produceRecords(records...)
	}
	produce("first")
	defer w.readStatus(one)() // partitions come and go under its eyes
	two := w.open(func(c *server.Config) { c.DataDir = t.TempDir() })
	w.push(two)
	w.create(two, func(spec *graphmill.StreamSpec) { spec.BatchSize = 10 })
	w.start(two)
	produce("second")
	w.await(two, "it has partitions", func(st graphmill.StreamStatus) bool { return len(st.Partitions) > 0 })
	_, err := one.StopStream(t.Context(), "s")
	require.NoError(t, err)
	produce("third")
	w.await(two, "everything is done", func(st graphmill.StreamStatus) bool {
		for _, p := range st.Partitions {
			if p.Lag != 0 {
				return false
			}
		}
		return len(st.Partitions) == 4
	})
	times := map[string]int{}
	for _, p := range w.applied() {
		times[p]++
	}
	require.Len(t, times, 1200)
	for p, n := range times {
		require.Equal(t, 1, n, "%.10s... was applied %d times", p, n)
	}
}
