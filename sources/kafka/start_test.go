package kafka_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/sources/kafka"
	"github.com/graphmill/graphmill/sources/sourcetest"
)

func TestWhereReadingStarts(t *testing.T) {
	at := time.Now().Add(-time.Hour).Truncate(time.Millisecond)
	for _, c := range []struct {
		name    string
		prepare func(b *broker, cfg *kafka.Config, topic string)
		want    int64
		count   int // of partitions, in the note
	}{
		{"latest", func(*broker, *kafka.Config, string) {}, 4, 1},
		{"earliest", func(_ *broker, cfg *kafka.Config, _ string) { cfg.Start.Earliest = true }, 0, 1},
		{"a time: the first message at or after it", func(_ *broker, cfg *kafka.Config, _ string) { cfg.Start.Time = at.Add(2 * time.Minute) }, 2, 1},
		{"a time after the last message", func(_ *broker, cfg *kafka.Config, _ string) { cfg.Start.Time = at.Add(24 * time.Hour) }, 4, 1},
		{"the known position comes before the option", func(b *broker, cfg *kafka.Config, topic string) {
			cfg.Known = []graphmill.Position{{TopicPartition: tp(topic, 0), TopicID: b.id(topic), Offset: 3}}
		}, 3, 0},
		{"a known position without a topic id is adopted", func(_ *broker, cfg *kafka.Config, topic string) {
			cfg.Known = []graphmill.Position{{TopicPartition: tp(topic, 0), Offset: 3}}
		}, 3, 0},
		{"the group's commit comes before the known position", func(b *broker, cfg *kafka.Config, topic string) {
			b.commit(cfg.Group, topic, 0, 1, "")
			cfg.Known = []graphmill.Position{{TopicPartition: tp(topic, 0), TopicID: b.id(topic), Offset: 3}}
		}, 1, 0},
		{"a commit of another tool, whatever stands beside it", func(b *broker, cfg *kafka.Config, topic string) {
			b.commit(cfg.Group, topic, 0, 2, "kgo-1234:5")
		}, 2, 1},
		{"a commit of ours before the broker had topic ids", func(b *broker, cfg *kafka.Config, topic string) {
			b.commit(cfg.Group, topic, 0, 2, "gm1::1")
		}, 2, 1},
		{"a commit of ours wins over a known position of a topic that is gone", func(b *broker, cfg *kafka.Config, topic string) {
			b.commit(cfg.Group, topic, 0, 2, "gm1:"+b.id(topic)+":1")
			cfg.Known = []graphmill.Position{{TopicPartition: tp(topic, 0), TopicID: "00000000000000000000000000000001", Offset: 3}}
		}, 2, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBroker(t)
			topic := b.topic(1)
			for i := range 4 {
				r := &kgo.Record{Topic: topic, Value: []byte(fmt.Sprint(i)), Timestamp: at.Add(time.Duration(i) * time.Minute)}
				require.NoError(t, b.cl.ProduceSync(t.Context(), r).FirstErr())
			}
			cfg := b.config(topic)
			c.prepare(b, &cfg, topic)

			s, o := b.open(cfg)
			want := graphmill.Position{TopicPartition: tp(topic, 0), TopicID: b.id(topic), Offset: c.want}
			require.Equal(t, []graphmill.Position{want}, o.Owned())
			commit := b.commits(cfg.Group, topic)[0]
			require.Equal(t, c.want, commit.At)
			require.Equal(t, fmt.Sprintf("gm1:%s:%d", b.id(topic), c.count), commit.Metadata, "the note is there from the start, whoever made the commit")

			b.produce(topic, 0, "4")
			got, _ := collect(t, s, int(5-c.want))
			require.Equal(t, c.want, got[0].Offset)
			closeSource(t, s)
			if c.want < 4 {
				cfg.Start = graphmill.Start{} // what is settled does not depend on the option any more
			}
			_, o = b.open(cfg)
			require.Equal(t, []graphmill.Position{want}, o.Owned())
		})
	}
}

// A message that comes while the start is being settled, at the time from which
// the stream is to read, is read: whether it came before the broker was asked for
// the time or after.
func TestMessageThatComesWhileATimeIsLookedForIsRead(t *testing.T) {
	b := newFake(t)
	topic := b.topic(1)
	b.produce(topic, 0, "before")
	at := time.Now().Add(time.Minute).Truncate(time.Millisecond)
	asked := false
	b.fake.ControlKey(int16(kmsg.ListOffsets), func(req kmsg.Request) (kmsg.Response, error, bool) {
		r := req.(*kmsg.ListOffsetsRequest)
		if r.Topics[0].Partitions[0].Timestamp == at.UnixMilli() {
			asked = true
		} else if asked { // the next question
			b.fake.SleepControl(func() {
				b.cl.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: []byte("meanwhile"), Timestamp: at})
			})
			return nil, nil, false
		}
		b.fake.KeepControl()
		return nil, nil, false
	})
	cfg := b.config(topic)
	cfg.Start.Time = at
	s, _ := b.open(cfg)
	b.produce(topic, 0, "after")
	got, _ := collect(t, s, 1)
	require.Equal(t, "meanwhile", payloads(got)[0])
}

func TestFieldsOfALaterVersionAreCarriedOn(t *testing.T) {
	b := newBroker(t)
	topic := b.topic(1)
	b.produce(topic, 0, "0", "1", "2")
	cfg := b.config(topic)
	noted := "gm1:" + b.id(topic) + ":1:checkpoint"
	b.commit(cfg.Group, topic, 0, 2, noted)
	s, _ := b.open(cfg)
	_, at := collect(t, s, 1)
	require.NoError(t, s.Acknowledge(t.Context(), positions(at)))
	require.EqualValues(t, 3, b.commits(cfg.Group, topic)[0].At)
	require.Equal(t, noted, b.commits(cfg.Group, topic)[0].Metadata)
}

func TestPartitionsThatAreAddedLaterBeginAtTheirStart(t *testing.T) {
	b := newBroker(t)
	topic := b.topic(2)
	b.produce(topic, 0, "before")
	cfg := b.config(topic)
	s, _ := b.open(cfg)
	closeSource(t, s)

	b.addPartitions(topic, 2)
	b.produce(topic, 2, "new-2")
	b.produce(topic, 3, "new-3")

	s, o := b.open(cfg)
	got, _ := collect(t, s, 2)
	require.ElementsMatch(t, []string{"new-2", "new-3"}, payloads(got))
	require.Len(t, o.Owned(), 4)
	for p, c := range b.commits(cfg.Group, topic) {
		require.Equal(t, "gm1:"+b.id(topic)+":2", c.Metadata, "partition %d: the number that decides what is new is never raised", p)
	}
}

// Brokers forget the commits of a group that nobody has been in for a week.
func TestPartitionThatIsAddedBeginsAtItsStartThoughTheCommitsHaveExpired(t *testing.T) {
	b := newBroker(t)
	topic := b.topic(2)
	b.produce(topic, 0, "before")
	cfg := b.config(topic)
	s, o := b.open(cfg)
	cfg.Known = o.Owned()
	closeSource(t, s)
	b.produce(topic, 0, "meanwhile")

	require.Eventually(t, func() bool {
		res, err := b.adm.DeleteGroups(b.t.Context(), cfg.Group)
		return err == nil && res.Error() == nil
	}, sourcetest.Patience, 50*time.Millisecond)
	require.Empty(t, b.commits(cfg.Group, topic))
	b.addPartitions(topic, 1)
	b.produce(topic, 2, "new")

	s, _ = b.open(cfg)
	got, _ := collect(t, s, 2)
	require.ElementsMatch(t, []string{"meanwhile", "new"}, payloads(got))
}

// A member that settles a new partition must not make another new one look old
// to the member that gets that one.
func TestNewPartitionBeginsAtItsStartAfterAnotherNewOneWasSettled(t *testing.T) {
	b := newBroker(t)
	topic := b.topic(3)
	for p := range int32(3) {
		b.produce(topic, p, "x")
	}
	cfg := b.config(topic)
	// Partition 0 is from before; 2 is new and another member has settled it.
	b.commit(cfg.Group, topic, 0, 1, "gm1:"+b.id(topic)+":1")
	b.commit(cfg.Group, topic, 2, 0, "gm1:"+b.id(topic)+":1")
	_, o := b.open(cfg)
	require.EqualValues(t, 0, o.Owned()[1].Offset)
}

// A member has settled the first partition of a topic that is younger than the
// stream, or that START accepted in place of another: the rest of it is younger
// too, whoever gets it.
func TestPartitionsOfAYoungerTopicBeginAtTheirStart(t *testing.T) {
	b := newBroker(t)
	topic := b.topic(3)
	for p := range int32(3) {
		b.produce(topic, p, "x")
	}
	cfg := b.config(topic)
	b.commit(cfg.Group, topic, 0, 1, "gm1:"+b.id(topic)+":0")
	_, o := b.open(cfg)
	require.EqualValues(t, 1, o.Owned()[0].Offset)
	require.EqualValues(t, 0, o.Owned()[1].Offset)
	require.EqualValues(t, 0, o.Owned()[2].Offset)
	require.Equal(t, "gm1:"+b.id(topic)+":0", b.commits(cfg.Group, topic)[2].Metadata)
}

func TestPositionThatIsLostEndsTheStream(t *testing.T) {
	for _, c := range []struct {
		name    string
		known   bool
		at      int64
		says    string
		deleted int64
	}{
		{"a commit before what there is", false, 1, "stands at offset 1, but the broker has 3 to 5", 3},
		{"a commit after what there is", false, 9, "stands at offset 9, but the broker has 0 to 5: the broker has lost messages", 0},
		{"a known position before what there is", true, 2, "stands at offset 2, but the broker has 3 to 5", 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBroker(t)
			topic := b.topic(1)
			b.produce(topic, 0, "0", "1", "2", "3", "4")
			cfg := b.config(topic)
			if c.known {
				cfg.Known = []graphmill.Position{{TopicPartition: tp(topic, 0), TopicID: b.id(topic), Offset: c.at}}
			} else {
				b.commit(cfg.Group, topic, 0, c.at, "")
			}
			b.deleteRecords(topic, 0, c.deleted)

			s, _ := b.source(cfg)
			f := fault(t, s.Open(t.Context()))
			require.Equal(t, graphmill.FaultSetup, f.Class)
			require.Equal(t, "position_lost", f.Code)
			require.Contains(t, f.Text, c.says)
			require.Contains(t, f.Next, "graphmill stream offsets s --set")
			closeSource(t, s)
			if !c.known {
				require.Equal(t, c.at, b.commits(cfg.Group, topic)[0].At, "nothing is reset")
			}

			b.commit(cfg.Group, topic, 0, 4, "") // as the next step says
			s, _ = b.open(cfg)
			got, _ := collect(t, s, 1)
			require.Equal(t, []string{"4"}, payloads(got))
		})
	}
}

func TestPositionThatIsLostWhileReadingEndsTheStream(t *testing.T) {
	b := newBroker(t)
	topic := b.topic(1)
	cfg := b.config(topic)
	cfg.Start.Earliest = true
	cfg.MaxBufferedMessages, cfg.MaxBufferedBytes = 1, 1 // so that the client has nothing in hand
	big := string(make([]byte, 2000))
	b.produce(topic, 0, "0")
	s, _ := b.open(cfg)
	collect(t, s, 1)
	b.produce(topic, 0, big)
	b.produce(topic, 0, big)
	b.produce(topic, 0, big)
	b.deleteRecords(topic, 0, 4)

	// One of them may have been on its way.
	ctx, cancel := context.WithTimeout(t.Context(), sourcetest.Patience)
	defer cancel()
	var err error
	for err == nil {
		_, err = s.Fetch(ctx, 1)
	}
	f := fault(t, err)
	require.Equal(t, "position_lost", f.Code)
	require.Contains(t, f.Text, "the broker has 4 to 4")
	_, err = s.Fetch(ctx, 1)
	require.ErrorIs(t, err, f, "it stays so")
}

// A broker may refuse a position that it has: while a leader takes over, or
// because it has come back by the time that somebody looks.
func TestPositionThatIsRefusedAndIsThereIsReadOn(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		ends int // answers that say that the log ends before the position
	}{
		{"it is there when it is looked for", 0},
		{"the leader knows its end late", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newFake(t)
			topic := b.topic(1)
			cfg := b.config(topic)
			cfg.Start.Earliest = true
			b.produce(topic, 0, "0", "1")
			s, _ := b.open(cfg)
			collect(t, s, 2)
			ended, looks := 0, make(chan struct{}, 100)
			b.fake.ControlKey(int16(kmsg.ListOffsets), func(req kmsg.Request) (kmsg.Response, error, bool) {
				b.fake.KeepControl()
				asked := req.(*kmsg.ListOffsetsRequest)
				if asked.Topics[0].Partitions[0].Timestamp != -1 {
					return nil, nil, false
				}
				looks <- struct{}{}
				if ended++; ended > c.ends {
					return nil, nil, false
				}
				resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
				answer := kmsg.NewListOffsetsResponseTopic()
				answer.Topic = topic
				p := kmsg.NewListOffsetsResponseTopicPartition()
				p.Offset = 1
				answer.Partitions = append(answer.Partitions, p)
				resp.Topics = append(resp.Topics, answer)
				return resp, nil, true
			})
			b.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: topic, Err: kerr.OffsetOutOfRange, Count: 1})
			ctx, cancel := context.WithTimeout(t.Context(), sourcetest.Patience)
			defer cancel()
			read := make(chan error, 1)
			go func() {
				_, err := s.Fetch(ctx, 1)
				read <- err
			}()
			for range c.ends + 1 {
				select {
				case <-looks:
				case err := <-read:
					t.Fatal(err)
				}
			}
			b.produce(topic, 0, "2")
			require.NoError(t, <-read)
		})
	}
}

func TestAllPositionsThatAreLostAreNamed(t *testing.T) {
	lose := func(b *broker, topic string) {
		for p := range int32(3) {
			b.produce(topic, p, "0", "1")
		}
		b.deleteRecords(topic, 0, 2)
		b.deleteRecords(topic, 2, 2)
	}
	named := func(t *testing.T, err error, topic string) {
		t.Helper()
		f := fault(t, err)
		require.Equal(t, "position_lost", f.Code)
		require.Contains(t, f.Text, topic+"/0 stands at offset 0, but the broker has 2 to 2")
		require.Contains(t, f.Text, topic+"/2 stands at offset 0, but the broker has 2 to 2")
		require.NotContains(t, f.Text, topic+"/1")
		require.Contains(t, f.Next, "--accept lost=earliest")
	}
	t.Run("at the start", func(t *testing.T) {
		b := newBroker(t)
		topic := b.topic(3)
		cfg := b.config(topic)
		s, _ := b.open(cfg)
		closeSource(t, s)
		lose(b, topic)
		s, _ = b.source(cfg)
		named(t, s.Open(t.Context()), topic)
	})
	t.Run("while reading", func(t *testing.T) {
		b := newFake(t)
		topic := b.topic(3)
		s, _ := b.open(b.config(topic))
		h := b.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: topic, Err: kerr.NotLeaderForPartition, Count: -1})
		require.NoError(t, h.Wait(t.Context(), 1), "the fetch under way is over")
		lose(b, topic)
		h.Remove()
		ctx, cancel := context.WithTimeout(t.Context(), sourcetest.Patience)
		defer cancel()
		var err error
		for err == nil {
			_, err = s.Fetch(ctx, 100)
		}
		named(t, err, topic)
	})
}

func TestTopicThatWasCreatedAnewEndsTheStream(t *testing.T) {
	for _, known := range []bool{false, true} {
		t.Run(fmt.Sprintf("position known to the catalog %v", known), func(t *testing.T) {
			b := newBroker(t)
			topic := b.topic(1)
			old := b.id(topic)
			cfg := b.config(topic)
			s, _ := b.open(cfg)
			b.produce(topic, 0, "a", "b")
			_, at := collect(t, s, 2)
			require.NoError(t, s.Acknowledge(t.Context(), positions(at)))
			closeSource(t, s)

			b.deleteTopic(topic)
			b.create(topic, 1, nil)
			b.produce(topic, 0, "c", "d", "e")
			if known {
				cfg.Known = positions(at)
			} else {
				// A broker forgets the commits of a topic with the topic. One
				// that does not must not lead astray either.
				b.commit(cfg.Group, topic, 0, 2, "gm1:"+old+":1")
			}
			s, _ = b.source(cfg)
			f := fault(t, s.Open(t.Context()))
			require.Equal(t, "topic_recreated", f.Code)
			require.Contains(t, f.Text, old)
			require.Contains(t, f.Text, b.id(topic))
		})
	}
}

func TestTopicThatIsCreatedAnewWhileItIsReadEndsTheStream(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	topic := b.topic(1)
	s, _ := b.open(b.config(topic))
	b.produce(topic, 0, "a")
	collect(t, s, 1)
	b.deleteTopic(topic)
	b.create(topic, 1, nil)
	b.produce(topic, 0, "b", "c", "d")

	ctx, cancel := context.WithTimeout(t.Context(), sourcetest.Patience)
	defer cancel()
	_, err := s.Fetch(ctx, 10)
	require.Equal(t, "topic_recreated", fault(t, err).Code)
}

// A broker forgets a group's commits with the topic. If the group has a round
// before the new topic is noticed, nothing but what the source remembers tells
// that there was another.
func TestTopicThatIsCreatedAnewBeforeARebalanceEndsTheStream(t *testing.T) {
	t.Parallel()
	b := newFake(t)
	topic := b.topic(1)
	cfg := b.config(topic)
	cfg.SessionTimeout = 6 * time.Second
	s, o := b.open(cfg)
	b.produce(topic, 0, "a")
	collect(t, s, 1)
	require.NoError(t, b.fake.DeleteTopic(topic))
	require.NoError(t, b.fake.CreateTopic(topic, 1, nil))
	b.forget(cfg.Group)
	require.Eventually(t, func() bool { return o.Losses() > 0 }, sourcetest.Patience, 10*time.Millisecond)
	require.Empty(t, b.commits(cfg.Group, topic))
	b.connect()
	b.produce(topic, 0, "b", "c", "d")

	ctx, cancel := context.WithTimeout(t.Context(), sourcetest.Patience)
	defer cancel()
	_, err := s.Fetch(ctx, 10)
	require.Equal(t, "topic_recreated", fault(t, err).Code)
}

func (b *broker) addPartitions(topic string, more int) {
	b.t.Helper()
	td, err := b.adm.ListTopics(b.t.Context(), topic)
	require.NoError(b.t, err)
	had := len(td[topic].Partitions)
	_, err = b.adm.CreatePartitions(b.t.Context(), more, topic)
	require.NoError(b.t, err)
	require.Eventually(b.t, func() bool {
		td, err := b.adm.ListTopics(b.t.Context(), topic)
		return err == nil && len(td[topic].Partitions) == had+more
	}, sourcetest.Patience, 20*time.Millisecond)
	b.connect() // a client that knows them
}

func (b *broker) deleteRecords(topic string, partition int32, before int64) {
	b.t.Helper()
	if before == 0 {
		return
	}
	var os kadm.Offsets
	os.Add(kadm.Offset{Topic: topic, Partition: partition, At: before})
	res, err := b.adm.DeleteRecords(b.t.Context(), os)
	require.NoError(b.t, err)
	require.NoError(b.t, res.Error())
}

func fault(t *testing.T, err error) *graphmill.Fault {
	t.Helper()
	var f *graphmill.Fault
	require.ErrorAs(t, err, &f)
	return f
}
