package kafka

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/graphmill/graphmill"
)

const (
	oldID = "0000000000000000000000000000000a"
	newID = "0000000000000000000000000000000b"
)

// polled is what a poll of the client returns with one record of a partition.
func polled(topic string, partition int32, id byte, err error) kgo.Fetches {
	var topicID [16]byte
	topicID[15] = id
	p := kgo.FetchPartition{Partition: partition, Err: err}
	if err == nil {
		p.Records = []*kgo.Record{{Topic: topic, Partition: partition, Offset: 7}}
	}
	return kgo.Fetches{{Topics: []kgo.FetchTopic{{Topic: topic, TopicID: topicID, Partitions: []kgo.FetchPartition{p}}}}}
}

func ownerOf(t *testing.T, own *owned) *Source {
	t.Helper()
	s, err := New(Config{Brokers: []string{"127.0.0.1:1"}, Topics: []string{"t"}, Group: "g"}, nil)
	require.NoError(t, err)
	if own != nil {
		s.owned[graphmill.TopicPartition{Topic: "t"}] = own
	}
	return s
}

func TestOnlyRecordsOfOwnedPartitionsAreHandedOut(t *testing.T) {
	for _, c := range []struct {
		name string
		own  *owned
		id   byte
		want int
		code string
	}{
		{"owned", &owned{progress: progress{note: note{topicID: oldID}}}, 0xa, 1, ""},
		{"owned, and the broker gives no topic ids", &owned{}, 0, 1, ""},
		{"not owned", nil, 0xa, 0, ""},
		{"being revoked", &owned{progress: progress{note: note{topicID: oldID}}, leaving: true}, 0xa, 0, ""},
		{"of another topic of the same name", &owned{progress: progress{note: note{topicID: oldID}}}, 0xb, 0, codeTopicRecreate},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := ownerOf(t, c.own)
			out := s.take(polled("t", 0, c.id, nil))
			require.Len(t, out, c.want)
			if c.want > 0 {
				require.EqualValues(t, 8, out[0].Next.Offset)
			}
			if c.code != "" {
				require.Equal(t, c.code, s.fault.Code)
				return
			}
			require.Nil(t, s.fault)
		})
	}
}

func TestErrorsOfFetchingThatEndTheStream(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		code string
	}{
		{"the broker has lost messages", &kgo.ErrDataLoss{Topic: "t", ConsumedTo: 9, ResetTo: 5}, codePositionLost},
		{"a batch is a bomb", &kgo.ErrDecompressTooLarge{Topic: "t", Offset: 9}, codeBadBatch},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := ownerOf(t, &owned{})
			require.Empty(t, s.take(polled("t", 0, 0, c.err)))
			require.Equal(t, c.code, s.fault.Code)
			require.Equal(t, graphmill.FaultSetup, s.fault.Class)
			require.NotEmpty(t, s.fault.Next)
		})
	}
}

// told is an Observer that writes down what it is told.
type told struct{ lines []string }

func (o *told) Waiting(f *graphmill.Fault)    { o.lines = append(o.lines, f.Code+" "+f.Text) }
func (o *told) Recovered()                    { o.lines = append(o.lines, "recovered") }
func (o *told) Absent([]graphmill.Position)   {}
func (o *told) Assigned([]graphmill.Position) {}
func (o *told) Revoked(context.Context, []graphmill.TopicPartition, bool) {
}

func TestOutagesAreToldOnceTheyAreSure(t *testing.T) {
	away := waits(codeUnreachable, "away", errors.New("refused"))
	alsoAway := waits(codeUnreachable, "away", errors.New("timed out"))
	absent := waits(codeTopicAbsent, "absent", nil)
	standing := waits(codeGroupRefused, "full", nil)
	for _, c := range []struct {
		name  string
		looks []*graphmill.Fault
		group *graphmill.Fault
		want  []string
	}{
		{"all is well", []*graphmill.Fault{nil, nil}, nil, nil},
		{"a fault that is seen once", []*graphmill.Fault{away, nil, away, nil}, nil, nil},
		{"a fault that is seen twice", []*graphmill.Fault{away, away}, nil, []string{"broker_unreachable away"}},
		{"its cause changes", []*graphmill.Fault{away, alsoAway, away}, nil, []string{"broker_unreachable away"}},
		{"another follows it", []*graphmill.Fault{away, away, absent, absent}, nil, []string{"broker_unreachable away", "topic_absent absent"}},
		{"it ends", []*graphmill.Fault{away, away, nil, nil}, nil, []string{"broker_unreachable away", "recovered"}},
		{"two take turns", []*graphmill.Fault{away, absent, away, absent}, nil, nil},
		{"what stands in the way though the brokers answer", []*graphmill.Fault{nil, nil}, standing, []string{"group_refused full"}},
		{"an outage hides it", []*graphmill.Fault{nil, away, away}, standing, []string{"group_refused full", "broker_unreachable away"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := ownerOf(t, nil)
			o := &told{}
			s.obs, s.groupFault = o, c.group
			w := watcher{s: s}
			for _, f := range c.looks {
				w.looked = time.Now()
				w.judge(f)
				w.report()
			}
			require.Equal(t, c.want, o.lines)
		})
	}
}

func TestLimitsFollowTheWorstOfTheData(t *testing.T) {
	newOne := func() *budget { return newBudget(Config{MaxBufferedMessages: 10_000, MaxBufferedBytes: 8 << 20}) }
	batch := func(records, compressed, uncompressed int) kgo.FetchBatchMetrics {
		return kgo.FetchBatchMetrics{NumRecords: records, CompressedBytes: compressed, UncompressedBytes: uncompressed}
	}
	read := func(b *budget, times int, m kgo.FetchBatchMetrics) int32 {
		for range times {
			b.OnFetchBatchRead(kgo.BrokerMetadata{}, "t", 0, m)
		}
		total, partition := b.limits()
		require.LessOrEqual(t, partition, total)
		return total
	}
	plain, packed, tiny := batch(100, 100_000, 100_000), batch(100, 1000, 100_000), batch(1000, 39, 1000)

	b := newOne()
	require.EqualValues(t, 2*100_061, read(b, 1, plain), "no more than twice of what has been seen")
	require.EqualValues(t, 1<<20, read(b, 100, plain), "an eighth of the budget")
	after := read(b, 1, packed)
	require.InDelta(t, (8<<20)*1061/100_000, after, 1, "data that compress better count at once")
	soon := read(b, 10, plain)
	require.Less(t, soon, 2*after, "and are not forgotten soon")
	require.InDelta(t, 1<<20, read(b, 2000, plain), 1, "but in the end")

	b = newOne()
	read(b, 100, plain)
	require.EqualValues(t, 1000, read(b, 1, tiny), "ten thousand messages of a tenth of a byte")
	b.among(4)
	require.EqualValues(t, 250, read(b, 0, tiny), "divided among the brokers")
}
