package kafka_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/sources/kafka"
	"github.com/graphmill/graphmill/sources/sourcetest"
)

func TestMemberThatTheGroupHasForgottenLosesItsPartitions(t *testing.T) {
	t.Parallel()
	b := newFake(t)
	topic := b.topic(1)
	cfg := b.config(topic)
	cfg.SessionTimeout = 6 * time.Second
	s, o := b.open(cfg)
	b.produce(topic, 0, "a")
	collect(t, s, 1) // not acknowledged
	b.forget(cfg.Group)
	require.Eventually(t, func() bool { return o.Losses() == 1 }, sourcetest.Patience, 20*time.Millisecond)
	got, _ := collect(t, s, 1)
	require.Equal(t, []string{"a"}, payloads(got), "it has joined again and begins at the group's commit")
}

func TestPartitionsGivenUpWhileACommitWaitsAreLeftOut(t *testing.T) {
	b := newBroker(t)
	one, two := b.topic(2), b.topic(1)
	cfg := b.config(one, two)
	s, o := b.open(cfg)
	at := o.Owned()
	for i := range at {
		at[i].Offset = 5
	}
	kept := tp(one, 1)
	require.NoError(t, kafka.Commit(t.Context(), s, at, func(p graphmill.TopicPartition) bool { return p == kept }))
	require.EqualValues(t, 0, b.commits(cfg.Group, one)[0].At)
	require.EqualValues(t, 5, b.commits(cfg.Group, one)[1].At)
	require.EqualValues(t, 0, b.commits(cfg.Group, two)[0].At)
	require.NoError(t, kafka.Commit(t.Context(), s, at, func(graphmill.TopicPartition) bool { return false }))
}

func TestCloseDuringARevocationEndsIt(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	topic := b.topic(2)
	cfg := b.config(topic)
	cfg.RebalanceTimeout = time.Hour
	s, o := b.source(cfg)
	entered := make(chan struct{})
	var once sync.Once
	o.WhenRevoked = func(ctx context.Context, _ []graphmill.TopicPartition, _ bool) {
		once.Do(func() { close(entered) })
		<-ctx.Done()
	}
	require.NoError(t, s.Open(t.Context()))
	b.join(cfg)
	<-entered
	closed := make(chan error, 1)
	go func() { closed <- s.Close(t.Context()) }()
	require.NoError(t, done(t, closed))
}
