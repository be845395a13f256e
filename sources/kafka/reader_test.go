package kafka_test

import (
	"context"
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

func (b *broker) reader(cfg kafka.Config, from string) *kafka.Reader {
	b.t.Helper()
	r, err := kafka.NewReader(cfg, from)
	require.NoError(b.t, err)
	b.t.Cleanup(r.Close)
	return r
}

func TestReaderBeginsWhereItIsTold(t *testing.T) {
	t.Parallel()
	at := time.Now().Add(-time.Hour).Truncate(time.Second)
	for _, c := range []struct {
		name, from string
		prepare    func(b *broker, cfg *kafka.Config, topic string)
		want       []string
	}{
		{"earliest", "earliest", nil, []string{"0", "1", "2", "3"}},
		{"latest", "latest", nil, nil},
		{"a time", at.Add(2 * time.Minute).Format(time.RFC3339), nil, []string{"2", "3"}},
		{"committed: the group's commit", "committed", func(b *broker, cfg *kafka.Config, topic string) {
			b.commit(cfg.Group, topic, 0, 3, "")
			cfg.Known = []graphmill.Position{{TopicPartition: tp(topic, 0), Offset: 1}}
		}, []string{"3"}},
		{"committed: the known position", "committed", func(_ *broker, cfg *kafka.Config, topic string) {
			cfg.Known = []graphmill.Position{{TopicPartition: tp(topic, 0), Offset: 1}}
		}, []string{"1", "2", "3"}},
		{"committed: the stream's start option", "committed", func(_ *broker, cfg *kafka.Config, _ string) {
			cfg.Start.Earliest = true
		}, []string{"0", "1", "2", "3"}},
		{"earliest, though there is a commit", "earliest", func(b *broker, cfg *kafka.Config, topic string) {
			b.commit(cfg.Group, topic, 0, 3, "")
			cfg.Known = []graphmill.Position{{TopicPartition: tp(topic, 0), Offset: 1}}
		}, []string{"0", "1", "2", "3"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBroker(t)
			topic := b.topic(1)
			for i, v := range []string{"0", "1", "2", "3"} {
				r := &kgo.Record{Topic: topic, Value: []byte(v), Timestamp: at.Add(time.Duration(i) * time.Minute)}
				require.NoError(t, b.cl.ProduceSync(t.Context(), r).FirstErr())
			}
			cfg := b.config(topic)
			if c.prepare != nil {
				c.prepare(b, &cfg, topic)
			}
			r := b.reader(cfg, c.from)
			if c.want == nil {
				nothing(t, r, 300*time.Millisecond)
				b.produce(topic, 0, "later")
				c.want = []string{"later"}
			}
			got, _ := collect(t, r, len(c.want))
			require.Equal(t, c.want, payloads(got))
		})
	}
}

func TestReaderReadsAllTopicsAndPartitions(t *testing.T) {
	b := newBroker(t)
	one, two := b.topic(2), b.topic(1)
	b.produce(one, 0, "a")
	b.produce(one, 1, "b")
	b.produce(two, 0, "c")
	got, at := collect(t, b.reader(b.config(one, two), "earliest"), 3)
	require.ElementsMatch(t, []string{"a", "b", "c"}, payloads(got))
	require.Equal(t, b.id(two), at[tp(two, 0)].TopicID)
}

func TestReaderLeavesTheGroupAsItIs(t *testing.T) {
	b := newBroker(t)
	topic := b.topic(2)
	b.produce(topic, 0, "a", "b")

	cfg := b.config(topic)
	collect(t, b.reader(cfg, "earliest"), 2)
	collect(t, b.reader(kafka.Config{Brokers: cfg.Brokers, Topics: cfg.Topics, Group: cfg.Group, Start: graphmill.Start{Earliest: true}}, "committed"), 2)
	groups, err := b.adm.ListGroups(t.Context())
	require.NoError(t, err)
	require.NotContains(t, groups.Groups(), cfg.Group, "the group has not been created")
	require.Empty(t, b.commits(cfg.Group, topic))

	// Beside a member that is active.
	s, o := b.open(cfg)
	b.produce(topic, 1, "c")
	_, at := collect(t, s, 1)
	require.NoError(t, s.Acknowledge(t.Context(), positions(at)))
	before := b.commits(cfg.Group, topic)
	members := b.members(cfg.Group)
	collect(t, b.reader(cfg, "earliest"), 3)
	nothing(t, b.reader(cfg, "committed"), 300*time.Millisecond)
	require.Equal(t, before, b.commits(cfg.Group, topic))
	require.Equal(t, members, b.members(cfg.Group))
	require.Empty(t, o.Revocations())
}

func (b *broker) members(group string) kadm.DescribedGroup {
	b.t.Helper()
	all, err := b.adm.DescribeGroups(b.t.Context(), group)
	require.NoError(b.t, err)
	return all[group]
}

func TestReaderOfWhatIsNotThere(t *testing.T) {
	t.Parallel()
	b := newFake(t)
	topic := b.topic(1)
	for _, c := range []struct {
		name string
		cfg  kafka.Config
		code string
	}{
		{"a topic that does not exist", b.config("absent"), "topic_absent"},
		{"a position that is gone", b.config(topic), "position_lost"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.code == "position_lost" {
				b.commit(c.cfg.Group, topic, 0, 99, "")
			}
			began := time.Now()
			_, err := b.reader(c.cfg, "committed").Fetch(t.Context(), 1)
			require.Equal(t, c.code, fault(t, err).Code)
			require.Less(t, time.Since(began), 9*time.Second, "it does not wait as for a broker, for ten")
		})
	}
	t.Run("no broker", func(t *testing.T) {
		cfg := b.config(topic)
		cfg.Brokers = []string{"127.0.0.1:1"}
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		_, err := b.reader(cfg, "earliest").Fetch(ctx, 1)
		f := fault(t, err)
		require.Equal(t, "broker_unreachable", f.Code)
		require.Contains(t, f.Text, "127.0.0.1:1")
	})
}

// On a broker that has just started, groups have no coordinator for a moment.
func TestReaderWaitsForTheGroupsCoordinator(t *testing.T) {
	t.Parallel()
	for name, key := range map[string]kmsg.Key{"to be found": kmsg.FindCoordinator, "to answer": kmsg.OffsetFetch} {
		t.Run(name, func(t *testing.T) {
			b := newFake(t)
			topic := b.topic(1)
			require.NoError(t, b.cl.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: []byte("a")}).FirstErr())
			cfg := b.config(topic)
			cfg.Start.Earliest = true
			r := b.reader(cfg, kafka.FromCommitted)
			b.fake.Fault(kfake.Fault{Keys: []kmsg.Key{key}, Err: kerr.CoordinatorNotAvailable, Count: 5})
			fetches, err := r.Fetch(t.Context(), 10)
			require.NoError(t, err)
			require.Len(t, fetches, 1)
			require.Len(t, fetches[0].Messages, 1)
		})
	}
}

func TestReaderRefusesAnUnknownBeginning(t *testing.T) {
	_, err := kafka.NewReader(kafka.Config{Brokers: []string{"h:1"}, Topics: []string{"t"}, Group: "g"}, "yesterday")
	require.Equal(t, graphmill.KindInvalid, graphmill.KindOf(err))
	_, err = kafka.NewReader(kafka.Config{Brokers: []string{"h:1"}, Topics: []string{"t"}}, "committed")
	require.Equal(t, graphmill.KindInvalid, graphmill.KindOf(err))
}

func TestProbe(t *testing.T) {
	t.Parallel()
	b := newFake(t)
	topic := b.topic(1)
	for _, c := range []struct {
		name, broker string
		topics       []string
		code, says   string
	}{
		{"all is there", b.addr, []string{topic}, "", ""},
		{"a topic is not", b.addr, []string{topic, "absent"}, "topic_absent", `topic "absent" does not exist`},
		{"two topics are not", b.addr, []string{"absent", topic, "also"}, "topic_absent", `topics "absent", "also" do not exist`},
		{"the broker is not", "127.0.0.1:1", []string{topic}, "broker_unreachable", "no broker of 127.0.0.1:1 answers"},
		{"the name cannot be found", "no-such-host.invalid:9092", []string{topic}, "broker_unreachable", "no broker of no-such-host.invalid:9092 answers"},
	} {
		t.Run(c.name, func(t *testing.T) {
			limit := sourcetest.Patience
			switch c.code {
			case "topic_absent":
				limit = 5 * time.Second
			case "broker_unreachable":
				limit = 300 * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			err := kafka.Probe(ctx, kafka.Config{Brokers: []string{c.broker}, Topics: c.topics})
			if c.code == "" {
				require.NoError(t, err)
				return
			}
			f := fault(t, err)
			require.Equal(t, c.code, f.Code)
			require.Equal(t, c.says, f.Text)
			require.Equal(t, graphmill.FaultTransient, f.Class)
			require.NotEmpty(t, f.Next)
		})
	}
}
