package server_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/integration/boltserver"
	"github.com/graphmill/graphmill/server"
)

func TestCheckDisturbsNothing(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	s := w.open(nil)
	w.push(s)
	w.create(s, nil)
	w.produce("a", "drop", "fail")
	request := server.CheckRequest{BatchLimit: 1, Timeout: patience, From: "committed"}
	for range 2 {
		batches, err := s.CheckStream(t.Context(), "s", request)
		require.NoError(t, err)
		require.Len(t, batches, 1)
		require.Len(t, batches[0].Messages, 3)
		require.Len(t, batches[0].Output.Statements, 1)
		require.Equal(t, map[string]any{"payload": "a", "offset": int64(0)}, batches[0].Output.Statements[0].Parameters())
		require.Equal(t, []graphmill.Failure{{Message: 2, Text: "told to fail"}}, batches[0].Output.Failures)
	}
	require.EqualValues(t, -1, w.committed(), "nothing is settled in the group")
	require.Empty(t, w.bolt.Committed())
	groups, err := w.admin.ListGroups(t.Context())
	require.NoError(t, err)
	require.Empty(t, groups, "no group was made")

	request.From, request.Timeout = "latest", brief
	_, err = s.CheckStream(t.Context(), "s", request)
	e := requireCode(t, err, "check_timeout")
	require.Contains(t, e.Next, "earliest")
}

func TestCheckTellsABadRequestFromABadTransformation(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	s := w.open(nil)
	w.push(s)
	w.create(s, nil)
	w.produce("panic")
	for _, c := range []struct {
		name, code string
		request    server.CheckRequest
	}{
		{"no batch", "invalid", server.CheckRequest{Timeout: time.Second, From: "earliest"}},
		{"too many batches", "invalid", server.CheckRequest{BatchLimit: 5000, Timeout: time.Second, From: "earliest"}},
		{"no time", "invalid", server.CheckRequest{BatchLimit: 1, From: "earliest"}},
		{"an unknown start", "invalid", server.CheckRequest{BatchLimit: 1, Timeout: time.Second, From: "sometime"}},
		{"a panic", "transformation_failed", server.CheckRequest{BatchLimit: 1, Timeout: patience, From: "earliest"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := s.CheckStream(t.Context(), "s", c.request)
			requireCode(t, err, c.code)
		})
	}
}

func TestCheckHoldsABoundedAmount(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	s := w.open(nil)
	w.push(s)
	w.create(s, func(spec *graphmill.StreamSpec) { spec.BatchSize = 20 })
	big := []byte(strings.Repeat("x", 900_000))
	for range 50 {
		w.produceRecords(&kgo.Record{Topic: "topic", Value: []byte("drop")}, &kgo.Record{Topic: "topic", Value: big})
	}
	request := server.CheckRequest{BatchLimit: 1000, Timeout: 5 * patience, From: "earliest"}
	var batches []server.CheckBatch
	promptly(t, "a check that has enough", func() {
		var err error
		batches, err = s.CheckStream(t.Context(), "s", request)
		require.NoError(t, err)
	})
	require.NotEmpty(t, batches)
	var bytes int64
	for _, b := range batches {
		for i := range b.Messages {
			bytes += b.Messages[i].Size()
		}
	}
	require.Less(t, bytes, int64(42<<20), "messages and their statements are bounded together")
}

func TestCheckEndsWithTheServer(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	s := w.open(nil)
	w.push(s)
	w.create(s, nil)
	checked := begun(func() error {
		_, err := s.CheckStream(context.Background(), "s", server.CheckRequest{BatchLimit: 1, Timeout: 5 * patience, From: "latest"})
		return err
	})
	require.NoError(t, s.Close(t.Context()))
	promptly(t, "a check", func() { requireCode(t, <-checked, "shutting_down") })
}

func TestCheckTellsWhatStoodInItsWay(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	s := w.open(nil)
	w.push(s)
	w.create(s, func(spec *graphmill.StreamSpec) { spec.BatchSize = 1 })
	w.produce("a", "panic")
	request := server.CheckRequest{BatchLimit: 2, Timeout: patience, From: "earliest"}
	_, err := s.CheckStream(t.Context(), "s", request)
	e := requireCode(t, err, "transformation_failed")
	require.Contains(t, e.Text, "topic/0@1", "the message is named")

	w.kafka.Close()
	request.Timeout = brief
	_, err = s.CheckStream(t.Context(), "s", request)
	e = requireCode(t, err, "broker_unreachable")
	require.Equal(t, graphmill.KindUnavailable, e.Kind)
}

func TestCheckTellsWhatStartWouldRefuse(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	s := w.open(nil)
	w.pushAs(s, "obedient", obedientModule("CREATE INDEX IF NOT EXISTS FOR (n:Message) ON (n.offset)").Bytes())
	w.create(s, nil)
	w.produce("a", "drop", "fail", "b")
	request := server.CheckRequest{BatchLimit: 1, Timeout: patience, From: "earliest"}
	batches, err := s.CheckStream(t.Context(), "s", request)
	require.NoError(t, err)
	failures := batches[0].Output.Failures
	require.Len(t, failures, 3)
	require.Equal(t, graphmill.Failure{Message: 2, Text: "told to fail"}, failures[0])
	for i, message := range []int{0, 3} {
		require.Equal(t, message, failures[i+1].Message)
		require.Contains(t, failures[i+1].Text, "may not use CREATE INDEX")
		require.Contains(t, failures[i+1].Text, "graphmill stream edit s --allow schema")
	}
	require.Len(t, batches[0].Output.Statements, 2, "they are shown all the same")

	w.create(s, func(spec *graphmill.StreamSpec) {
		spec.Name, spec.Allow, spec.ConsumerGroup = "allowing", []string{graphmill.AllowSchema}, "another"
	})
	batches, err = s.CheckStream(t.Context(), "allowing", request)
	require.NoError(t, err)
	require.Len(t, batches[0].Output.Failures, 1)
}

func TestACheckThatSawNothingSaysWhy(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	s := w.open(nil)
	w.push(s)
	w.create(s, func(spec *graphmill.StreamSpec) { spec.StartFrom = graphmill.StartLatest })
	why := func() string {
		_, err := s.CheckStream(t.Context(), "s", server.CheckRequest{BatchLimit: 1, Timeout: brief, From: "committed"})
		return requireCode(t, err, "check_timeout").Text
	}
	w.produce("before")
	require.Contains(t, why(), `the group "graphmill.s" has no position yet, and a new group begins at latest`)
	w.start(s)
	w.produce("a")
	w.awaitAcknowledged(s, 2)
	_, err := s.StopStream(t.Context(), "s")
	require.NoError(t, err)
	require.Contains(t, why(), `the group "graphmill.s" has read everything that there is`)
}
