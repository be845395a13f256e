package sourcetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/sources"
)

// trial is a subtest with its broker.
type trial struct {
	t   *testing.T
	b   Broker
	can Abilities

	marks int // that have been produced
}

// markPrefix begins the payload of a mark (see rest).
const markPrefix = "mark-"

// topic makes a topic.
func (x *trial) topic(partitions int) string {
	x.t.Helper()
	topic := x.b.Name()
	x.b.Create(topic, partitions)
	return topic
}

// stream is one that reads topics from latest, as nobody else does.
func (x *trial) stream(topics ...string) Stream {
	return Stream{Name: x.b.Name(), Topics: topics}
}

// source makes a source that is closed at the end of the test.
func (x *trial) source(s Stream) (sources.Source, *Observer) {
	x.t.Helper()
	o := &Observer{}
	return x.sourceFor(s, o), o
}

func (x *trial) sourceFor(s Stream, o *Observer) sources.Source {
	x.t.Helper()
	src := x.b.Source(s, o)
	x.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), Patience)
		defer cancel()
		if err := src.Close(ctx); err != nil {
			x.t.Log("close:", err)
		}
	})
	return src
}

// open makes a source and opens it.
func (x *trial) open(s Stream) (sources.Source, *Observer) {
	x.t.Helper()
	src, o := x.source(s)
	ctx, cancel := context.WithTimeout(x.t.Context(), Patience)
	defer cancel()
	require.NoError(x.t, src.Open(ctx))
	return src, o
}

// begin opens a source beside the test.
func (x *trial) begin(src sources.Source) <-chan error {
	opened := make(chan error, 1)
	ctx, cancel := context.WithCancel(x.t.Context())
	x.t.Cleanup(cancel)
	go func() { opened <- src.Open(ctx) }()
	return opened
}

// join opens a source that reads and acknowledges by itself.
func (x *trial) join(s Stream) *Member {
	x.t.Helper()
	return Join(x.t, func(o *Observer) sources.Source { return x.sourceFor(s, o) })
}

func (x *trial) close(src sources.Source) {
	x.t.Helper()
	ctx, cancel := context.WithTimeout(x.t.Context(), Patience)
	defer cancel()
	require.NoError(x.t, src.Close(ctx))
}

func (x *trial) acknowledge(src sources.Source, at ...graphmill.Position) {
	x.t.Helper()
	ctx, cancel := context.WithTimeout(x.t.Context(), Patience)
	defer cancel()
	require.NoError(x.t, src.Acknowledge(ctx, at))
}

// produce appends payloads to a partition, each as a unit of its own.
func (x *trial) produce(topic string, partition int32, payloads ...string) {
	x.t.Helper()
	for _, p := range payloads {
		x.batch(topic, partition, p)
	}
}

// batch appends payloads to a partition as one unit.
func (x *trial) batch(topic string, partition int32, payloads ...string) {
	x.t.Helper()
	messages := make([]graphmill.Message, 0, len(payloads))
	for _, p := range payloads {
		messages = append(messages, graphmill.Message{Payload: []byte(p)})
	}
	x.b.Produce(topic, partition, messages...)
}

// rest appends a mark to each of the partitions and reads up to all of them. It
// returns the payloads that come before the marks: all that a source has to
// give, and no more, whatever time it takes.
func (x *trial) rest(f Fetcher, partitions ...graphmill.TopicPartition) map[graphmill.TopicPartition][]string {
	x.t.Helper()
	x.marks++
	mark := fmt.Sprintf("%s%d", markPrefix, x.marks)
	open := map[graphmill.TopicPartition]bool{}
	for _, tp := range partitions {
		x.produce(tp.Topic, tp.Partition, mark)
		open[tp] = true
	}
	ctx, cancel := context.WithTimeout(x.t.Context(), Patience)
	defer cancel()
	got := map[graphmill.TopicPartition][]string{}
	for len(open) > 0 {
		fetches, err := f.Fetch(ctx, 100)
		require.NoError(x.t, err, "after %v", got)
		for _, one := range fetches {
			tp := one.Next.TopicPartition
			for i := range one.Messages {
				require.Equal(x.t, tp, one.Messages[i].TopicPartition(), "a fetch is of one partition")
				payload := string(one.Messages[i].Payload)
				switch {
				case payload == mark:
					delete(open, tp)
					continue
				case strings.HasPrefix(payload, markPrefix):
					continue // of an earlier source, which did not acknowledge it
				}
				require.False(x.t, !open[tp] && slices.Contains(partitions, tp), "%q of %s comes after what was produced later", payload, tp)
				got[tp] = append(got[tp], payload)
			}
		}
	}
	return got
}

// eventually waits for what must happen.
func (x *trial) eventually(what string, is func() bool) {
	x.t.Helper()
	require.Eventually(x.t, is, Patience, 20*time.Millisecond, what)
}

// done waits for an answer.
func (x *trial) done(c <-chan error) error {
	x.t.Helper()
	select {
	case err := <-c:
		return err
	case <-time.After(Patience):
		x.t.Fatal("it has not come to an end")
		return nil
	}
}

// all are the partitions of a topic.
func all(topic string, n int) []graphmill.TopicPartition {
	tps := make([]graphmill.TopicPartition, 0, n)
	for p := range n {
		tps = append(tps, part(topic, p))
	}
	return tps
}

func part(topic string, p int) graphmill.TopicPartition {
	return graphmill.TopicPartition{Topic: topic, Partition: int32(p)}
}

// partitions are those of positions.
func partitions(at []graphmill.Position) []graphmill.TopicPartition {
	tps := make([]graphmill.TopicPartition, 0, len(at))
	for _, p := range at {
		tps = append(tps, p.TopicPartition)
	}
	return tps
}
