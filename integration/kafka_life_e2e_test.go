//go:build e2e

package integration_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/sources/kafka"
	"github.com/graphmill/graphmill/sources/sourcetest"
)

// What a broker does in its life that a fake does otherwise or not at all, met
// with the source alone.

// join opens a source of the real broker; it is closed at the end of the test.
func join(t *testing.T, topic string) (*kafka.Source, *sourcetest.Observer) {
	t.Helper()
	o := &sourcetest.Observer{}
	s, err := kafka.New(kafka.Config{
		Stream: "s", Brokers: world.kafka.Brokers(), Topics: []string{topic}, Group: "g-" + topic,
		Start: graphmill.Start{Earliest: true},
	}, o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close(context.Background()) }) // the group may be gone with the broker
	require.NoError(t, s.Open(t.Context()))
	return s, o
}

// STOP leaves the group, and the members that stay hear of it with their next
// heartbeat.
func TestKafkaPartitionsOfAStoppedMemberMoveWithinAHeartbeat(t *testing.T) {
	topic := topicOf(t, 4)
	_, stays := join(t, topic)
	for range sized(2, 5) {
		goes, o := join(t, topic)
		require.Eventually(t, func() bool { return len(stays.Owned()) == 2 && len(o.Owned()) == 2 }, patience, 10*time.Millisecond)
		<-time.After(700 * time.Millisecond) // into the pause between two heartbeats
		began := time.Now()
		require.NoError(t, goes.Close(t.Context()))
		left := time.Since(began)
		require.Eventually(t, func() bool { return len(stays.Owned()) == 4 }, patience, 5*time.Millisecond)
		moved := time.Since(began)
		t.Logf("left after %v, the others own its partitions after %v", left, moved)
		require.Less(t, moved, 2*time.Second, "about a heartbeat (1 s), far from the session timeout (10 s)")
	}
	require.Zero(t, stays.Losses())
}

// The cleaner of a real log leaves gaps, removes tombstones at the end of closed
// segments and what is left of aborted transactions. It never touches the last
// segment, so there is always something to read at the end.
func TestKafkaACompactedTopicLeavesNoLag(t *testing.T) {
	topic := "compacted-" + fmt.Sprint(time.Now().UnixNano())
	configs := map[string]*string{}
	for k, v := range map[string]string{
		"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.0001", "delete.retention.ms": "0", "segment.ms": "200", "max.compaction.lag.ms": "300",
	} {
		configs[k] = kadm.StringPtr(v)
	}
	_, err := admin(t).CreateTopic(t.Context(), 1, 1, configs, topic)
	require.NoError(t, err)
	cl, err := kgo.NewClient(kgo.SeedBrokers(world.kafka.Brokers()...), kgo.DefaultProduceTopic(topic), kgo.TransactionalID("tx-"+topic))
	require.NoError(t, err)
	defer cl.Close()
	write := func(end kgo.TransactionEndTry, key string, values ...string) {
		require.NoError(t, cl.BeginTransaction())
		for _, v := range values {
			r := &kgo.Record{Key: []byte(key), Value: []byte(v)}
			if v == "" {
				r.Value = nil
			}
			require.NoError(t, cl.ProduceSync(t.Context(), r).FirstErr())
		}
		require.NoError(t, cl.EndTransaction(t.Context(), end))
	}
	write(kgo.TryCommit, "k", "0", "1", "2", "")
	s, _ := join(t, topic)
	require.Equal(t, []string{"0", "1", "2", ""}, readOut(t, s), "before the cleaner comes")

	// Each round closes a segment, which the cleaner then takes, until what the
	// first transaction wrote has been removed, its tombstone too.
	require.Eventually(t, func() bool {
		write(kgo.TryAbort, "k", "aborted")
		write(kgo.TryCommit, "gone", "x", "")
		readOut(t, s)
		return firstOffset(t, topic) >= 5
	}, patience, 500*time.Millisecond)

	// From the beginning, over the gaps, up to the end.
	require.NoError(t, s.Close(t.Context()))
	_, err = kafka.SetOffsets(t.Context(), kafka.Config{Stream: "s", Brokers: world.kafka.Brokers(), Topics: []string{topic}, Group: "g-" + topic}, graphmill.OffsetTarget{Start: graphmill.Start{Earliest: true}}, nil)
	require.NoError(t, err)
	s, _ = join(t, topic)
	require.NotContains(t, readOut(t, s), "aborted")
}

// firstOffset is the offset of the first message that a topic of one partition
// still has, which must not be empty.
func firstOffset(t *testing.T, topic string) int64 {
	t.Helper()
	r, err := kafka.NewReader(kafka.Config{Brokers: world.kafka.Brokers(), Topics: []string{topic}}, graphmill.StartEarliest)
	require.NoError(t, err)
	defer r.Close()
	for {
		fetches, err := r.Fetch(t.Context(), 1)
		require.NoError(t, err)
		if len(fetches[0].Messages) > 0 { // not a control record
			return fetches[0].Messages[0].Offset
		}
	}
}

// readOut reads and acknowledges until there is no lag.
func readOut(t *testing.T, s *kafka.Source) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var values []string
	for {
		short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		fetches, err := s.Fetch(short, 100)
		cancel()
		if err != nil {
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		var at []graphmill.Position
		for _, f := range fetches {
			for _, m := range f.Messages {
				values = append(values, string(m.Payload))
			}
			at = append(at, f.Next)
		}
		require.NoError(t, s.Acknowledge(ctx, at))
		status, err := s.Partitions(ctx)
		require.NoError(t, err, "there is still lag")
		var lag int64
		for _, p := range status {
			lag += p.Lag
		}
		if lag == 0 {
			return values
		}
	}
}
