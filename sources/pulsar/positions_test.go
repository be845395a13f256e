package pulsar_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	client "github.com/apache/pulsar-client-go/pulsar"
	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/sources/pulsar"
)

func setsPositions(t *testing.T, o outside) {
	topic := o.topic(t, 2)
	cfg := o.config(topic)
	set := func(to string, only *graphmill.TopicPartition) []graphmill.Position {
		t.Helper()
		target, err := graphmill.ParseOffsetTarget("set", to)
		require.NoError(t, err)
		positions, err := pulsar.SetOffsets(t.Context(), cfg, target, only)
		require.NoError(t, err)
		return positions
	}
	// A subscription that does not exist, on partitions that have never held anything.
	require.Equal(t, []graphmill.Position{
		{TopicPartition: graphmill.TopicPartition{Topic: topic, Partition: 0}, Offset: -1},
		{TopicPartition: graphmill.TopicPartition{Topic: topic, Partition: 1}, Offset: -1},
	}, set("latest", nil))

	first := o.send(t, part(topic, 0), "a")
	o.send(t, part(topic, 0), "b")
	other := o.send(t, part(topic, 1), "x")
	at := nextMillisecond()
	third := o.send(t, part(topic, 0), "c")

	positions := set("latest", nil)
	require.Equal(t, graphmill.MessageID{Ledger: third.Ledger, Entry: third.Entry + 1}, positions[0].MessageID)
	o.send(t, part(topic, 0), "d")
	require.Equal(t, []string{"d"}, o.comes(t, part(topic, 0), 1))

	positions = set(at.Format(time.RFC3339Nano), nil)
	require.Equal(t, third, positions[0].MessageID)
	require.Equal(t, graphmill.MessageID{Ledger: other.Ledger, Entry: other.Entry + 1}, positions[1].MessageID, "nothing is that late")
	require.Equal(t, []string{"c", "d"}, o.comes(t, part(topic, 0), 2))

	positions = set("earliest", &graphmill.TopicPartition{Topic: topic, Partition: 0})
	require.Equal(t, []graphmill.Position{{TopicPartition: graphmill.TopicPartition{Topic: topic}, Offset: -1, MessageID: first}}, positions)
	require.Equal(t, []string{"a", "b", "c", "d"}, o.comes(t, part(topic, 0), 4))
	positions = set("earliest", &graphmill.TopicPartition{Topic: part(topic, 0), Partition: -1})
	require.Equal(t, []graphmill.Position{{TopicPartition: graphmill.TopicPartition{Topic: topic}, Offset: -1, MessageID: first}}, positions, "as Pulsar calls it")
	positions = set(fmt.Sprintf("%d:%d:0:0", first.Ledger, first.Entry), nil)
	require.Equal(t, []graphmill.Position{{TopicPartition: graphmill.TopicPartition{Topic: topic}, Offset: -1, MessageID: first}}, positions, "an id that names its partition")
	o.send(t, part(topic, 1), "y")
	require.Equal(t, []string{"y"}, o.comes(t, part(topic, 1), 1), "the other partition has stayed")
}

func setsPositionsWithinEntries(t *testing.T, o outside) {
	topic := o.topic(t, 0)
	short := topic[len("persistent://public/default/"):]
	o.send(t, topic, "a")
	id := o.send(t, topic, "b", "c", "d")
	last := o.send(t, topic, "e")
	move := func(id graphmill.MessageID, only *graphmill.TopicPartition) []graphmill.Position {
		t.Helper()
		positions, err := pulsar.SetOffsets(t.Context(), o.config(short), graphmill.OffsetTarget{MessageID: &id}, only)
		require.NoError(t, err)
		return positions
	}
	tp := graphmill.TopicPartition{Topic: topic, Partition: -1}
	id.Index = 2
	require.Equal(t, []graphmill.Position{{TopicPartition: tp, Offset: -1, MessageID: id}}, move(id, nil))
	require.Equal(t, []string{"b", "c", "d", "e"}, o.comes(t, topic, 4), "the cursor is that of the entry")

	require.Equal(t, last, move(last, &graphmill.TopicPartition{Topic: short, Partition: 0})[0].MessageID)
	require.Equal(t, []string{"e"}, o.comes(t, topic, 1))

	other := int32(3)
	_, err := pulsar.SetOffsets(t.Context(), o.config(short), graphmill.OffsetTarget{MessageID: &last, Partition: &other}, nil)
	require.ErrorContains(t, err, "is of partition 3, not of "+topic)
	other = -1
	_, err = pulsar.SetOffsets(t.Context(), o.config(short), graphmill.OffsetTarget{MessageID: &last, Partition: &other}, nil)
	require.NoError(t, err, "the id as a transformation has it")

	behind := graphmill.MessageID{Ledger: last.Ledger, Entry: last.Entry + 1}
	require.Equal(t, behind, move(behind, &graphmill.TopicPartition{Topic: topic, Partition: -1})[0].MessageID)
	o.send(t, topic, "f")
	require.Equal(t, []string{"f"}, o.comes(t, topic, 1))
}

func crossesLedgers(t *testing.T, o outside) {
	topic := o.topic(t, 0)
	tp := graphmill.TopicPartition{Topic: topic, Partition: -1}
	o.send(t, topic, "a")
	old := o.send(t, topic, "b")
	// A subscription at the beginning keeps the broker from dropping the old ledger.
	cfg := o.config(topic)
	_, err := pulsar.SetOffsets(t.Context(), cfg, graphmill.OffsetTarget{Start: graphmill.Start{Earliest: true}}, nil)
	require.NoError(t, err)
	o.roll(t, topic)
	cfg.Known = []graphmill.Position{{TopicPartition: tp, Offset: -1, MessageID: graphmill.MessageID{Ledger: old.Ledger, Entry: old.Entry + 1}}}
	offsets := func() graphmill.PartitionOffsets {
		t.Helper()
		info, err := pulsar.Offsets(t.Context(), cfg)
		require.NoError(t, err)
		return info.Partitions[0]
	}
	require.Zero(t, offsets().Lag, "the new ledger is empty")
	require.Equal(t, old, offsets().LastMessageID)
	last := o.send(t, topic, "c")
	require.Greater(t, last.Ledger, old.Ledger)
	require.EqualValues(t, -1, offsets().Lag, "ids do not tell over ledgers")
	require.Equal(t, []string{"c"}, read(t, reader(t, cfg, pulsar.FromCommitted), 1)[tp])
	require.Equal(t, []string{"a", "b", "c"}, read(t, reader(t, cfg, graphmill.StartEarliest), 3)[tp])

	cfg.AdminURL = o.admin
	for _, to := range []graphmill.MessageID{old, cfg.Known[0].MessageID, last} {
		positions, err := pulsar.SetOffsets(t.Context(), cfg, graphmill.OffsetTarget{MessageID: &to}, nil)
		require.NoError(t, err)
		require.Equal(t, to, positions[0].MessageID)
		lag := offsets()
		require.Equal(t, graphmill.LagFromAdmin, lag.LagFrom)
		if to == old {
			require.EqualValues(t, 2, lag.Lag)
			require.Equal(t, []string{"b", "c"}, o.comes(t, topic, 2))
		} else {
			require.EqualValues(t, 1, lag.Lag)
			require.Equal(t, []string{"c"}, o.comes(t, topic, 1))
		}
	}
}

func refusesIDs(t *testing.T, o outside) {
	topic, parted := o.topic(t, 0), o.topic(t, 2)
	first := o.send(t, topic, "a", "b")
	last := o.send(t, topic, "c")
	_, err := o.subscribe(topic, client.Failover)
	require.NoError(t, err)
	for name, c := range map[string]struct {
		topic string
		to    graphmill.MessageID
		only  *graphmill.TopicPartition
		field string
		text  string
	}{
		"beyond the end": {topic, graphmill.MessageID{Ledger: last.Ledger, Entry: last.Entry + 2}, nil, "set",
			fmt.Sprintf("it has those from %s to %s", first, last)},
		"of a ledger before":       {topic, graphmill.MessageID{Ledger: first.Ledger - 1, Entry: 3}, nil, "set", "it has those from"},
		"of a ledger to come":      {topic, graphmill.MessageID{Ledger: last.Ledger + 1000}, nil, "set", "it has those from"},
		"an index beyond":          {topic, graphmill.MessageID{Ledger: first.Ledger, Entry: first.Entry, Index: 2}, nil, "set", "holds the indexes 0 to 1, 2 is not among them"},
		"of an empty partition":    {parted, first, &graphmill.TopicPartition{Topic: parted, Partition: 1}, "set", "holds no messages"},
		"of which partition?":      {parted, first, nil, "partition", "this stream reads 2"},
		"a partition too many":     {parted, first, &graphmill.TopicPartition{Topic: parted, Partition: 2}, "partition", "has the partitions 0 to 1"},
		"a partition without a":    {topic, first, &graphmill.TopicPartition{Topic: topic, Partition: 1}, "partition", "is not partitioned"},
		"a topic of other streams": {topic, first, &graphmill.TopicPartition{Topic: parted, Partition: 1}, "partition", "is not of this stream"},
	} {
		_, err := pulsar.SetOffsets(t.Context(), o.config(c.topic), graphmill.OffsetTarget{MessageID: &c.to}, c.only)
		var e *graphmill.Error
		require.ErrorAs(t, err, &e, name)
		require.Equal(t, graphmill.KindInvalid, e.Kind, name)
		require.Equal(t, c.field, e.Field, name)
		require.Contains(t, e.Text, c.text, name)
	}
}

func refusesMembers(t *testing.T, o outside) {
	topic := o.topic(t, 2)
	o.send(t, part(topic, 0), "a")
	o.send(t, part(topic, 1), "x")
	for _, kind := range []client.SubscriptionType{client.Failover, client.Exclusive} {
		c, err := o.subscribe(part(topic, 1), kind)
		require.NoError(t, err)
		_, err = pulsar.SetOffsets(t.Context(), o.config(topic), graphmill.OffsetTarget{}, nil)
		var e *graphmill.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, graphmill.KindConflict, e.Kind)
		require.Equal(t, "group_active", e.Code)
		c.Close()
	}
	require.Equal(t, []string{"a"}, o.comes(t, part(topic, 0), 1), "nothing was moved")
	require.Equal(t, []string{"x"}, o.comes(t, part(topic, 1), 1))
	_, err := pulsar.SetOffsets(t.Context(), o.config(topic), graphmill.OffsetTarget{}, nil)
	require.NoError(t, err, "idle again")
	c, err := o.subscribe(part(topic, 1), client.Failover)
	require.NoError(t, err, "the type is not stuck")
	c.Close()
}

func tellsOffsets(t *testing.T, o outside) {
	topic := o.topic(t, 2)
	first := o.send(t, part(topic, 0), "a", "b")
	last := o.send(t, part(topic, 0), "c")
	cfg := o.config(topic)
	offsets := func() graphmill.OffsetsInfo {
		t.Helper()
		info, err := pulsar.Offsets(t.Context(), cfg)
		require.NoError(t, err)
		require.Equal(t, "orders", info.Group)
		require.Equal(t, []graphmill.GroupMember{}, info.Members)
		require.Len(t, info.Partitions, 2)
		return info
	}
	p0 := graphmill.PartitionOffsets{TopicPartition: graphmill.TopicPartition{Topic: topic}, Offset: -1, First: -1, End: -1, Lag: -1,
		LastMessageID: last, LagFrom: graphmill.LagFromClient, Origin: graphmill.OriginStartFrom}
	require.Equal(t, p0, offsets().Partitions[0], "the subscription may have a cursor, of which nobody tells")
	require.EqualValues(t, -1, offsets().Partitions[1].Lag)

	cfg.Start = graphmill.Start{Earliest: true}
	p0.MessageID, p0.Lag = first, 2
	require.Equal(t, p0, offsets().Partitions[0])
	require.Zero(t, offsets().Partitions[1].Lag)

	first.Index = 1
	cfg.Known = []graphmill.Position{{TopicPartition: p0.TopicPartition, Offset: -1, MessageID: first}}
	p0.MessageID, p0.Origin = first, graphmill.OriginCatalog
	require.Equal(t, p0, offsets().Partitions[0])

	cfg.Start = graphmill.Start{}
	cfg.Known[0].MessageID = graphmill.MessageID{Ledger: last.Ledger, Entry: last.Entry + 1}
	p0.MessageID, p0.Lag = cfg.Known[0].MessageID, 0
	require.Equal(t, p0, offsets().Partitions[0])
	require.Equal(t, graphmill.OriginNewPartition, offsets().Partitions[1].Origin)
	require.Zero(t, offsets().Partitions[1].Lag)

	first.Index = 0
	cfg.Known[0].MessageID = graphmill.MessageID{} // the beginning
	p0.MessageID, p0.Lag = first, 2
	require.Equal(t, p0, offsets().Partitions[0])
}

func tellsOffsetsOfAdmin(t *testing.T, o outside) {
	topic := o.topic(t, 2)
	tp := graphmill.TopicPartition{Topic: topic}
	first := o.send(t, part(topic, 0), "a")
	second := o.send(t, part(topic, 0), "b", "c", "d")
	last := o.send(t, part(topic, 0), "e")
	cfg := o.config(topic)
	cfg.AdminURL, cfg.Start = o.admin, graphmill.Start{Earliest: true}
	cfg.Known = []graphmill.Position{{TopicPartition: tp, Offset: -1, MessageID: last}}
	offsets := func() graphmill.OffsetsInfo {
		t.Helper()
		info, err := pulsar.Offsets(t.Context(), cfg)
		require.NoError(t, err)
		require.Len(t, info.Partitions, 2)
		return info
	}
	none := offsets()
	require.Equal(t, graphmill.OriginCatalog, none.Partitions[0].Origin, "there is no subscription")
	require.Equal(t, last, none.Partitions[0].MessageID)
	require.EqualValues(t, 1, none.Partitions[0].Lag)
	require.Equal(t, graphmill.OriginNewPartition, none.Partitions[1].Origin)

	_, err := pulsar.SetOffsets(t.Context(), cfg, graphmill.OffsetTarget{MessageID: &second}, &tp)
	require.NoError(t, err)
	want := graphmill.PartitionOffsets{TopicPartition: tp, Offset: -1, First: -1, End: -1, Lag: 2, LagFrom: graphmill.LagFromAdmin,
		MessageID: second, LastMessageID: last, Origin: graphmill.OriginGroup}
	require.Equal(t, want, offsets().Partitions[0], "the cursor counts, not the catalog")
	require.Equal(t, []string{"b", "c", "d", "e"}, read(t, reader(t, cfg, pulsar.FromCommitted), 4)[tp])

	second.Index = 2
	cfg.Known[0].MessageID, want.MessageID = second, second
	require.Equal(t, want, offsets().Partitions[0], "but where the catalog knows how much of the entry is done")
	require.Equal(t, []string{"d", "e"}, read(t, reader(t, cfg, pulsar.FromCommitted), 2)[tp])
	cfg.Known[0].MessageID, want.MessageID = first, graphmill.MessageID{Ledger: second.Ledger, Entry: second.Entry}
	require.Equal(t, want, offsets().Partitions[0])

	require.Empty(t, offsets().Members)
	c, err := o.cl.Subscribe(client.ConsumerOptions{Topic: topic, SubscriptionName: "orders", Name: "reads", Type: client.Failover, ReceiverQueueSize: 1})
	require.NoError(t, err)
	defer c.Close()
	members := offsets().Members
	require.Len(t, members, 1, "of both partitions")
	require.Equal(t, "reads", members[0].ClientID)
	require.Contains(t, members[0].Host, "127.0.0.1")
	_, err = pulsar.SetOffsets(t.Context(), cfg, graphmill.OffsetTarget{}, nil)
	require.ErrorContains(t, err, "reads at 127.0.0.1")
}

func doesWithoutAdmin(t *testing.T, o outside) {
	topic := o.topic(t, 0)
	first := o.send(t, topic, "a", "b")
	first.Index = 1
	cfg := o.config(topic)
	cfg.AdminURL = "http://127.0.0.1:1"
	cfg.Known = []graphmill.Position{{TopicPartition: graphmill.TopicPartition{Topic: topic, Partition: -1}, Offset: -1, MessageID: first}}
	info, err := pulsar.Offsets(t.Context(), cfg)
	require.NoError(t, err)
	require.Equal(t, graphmill.OriginCatalog, info.Partitions[0].Origin)
	require.Equal(t, graphmill.LagFromClient, info.Partitions[0].LagFrom)
	require.Equal(t, first, info.Partitions[0].MessageID)
	require.EqualValues(t, 1, info.Partitions[0].Lag)
}

func makesNoTopic(t *testing.T, o outside) {
	there := o.topic(t, 0)
	cfg := o.config(there, there+"-absent")
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second) // it is looked for until then
		_, err := pulsar.Offsets(ctx, cfg)
		cancel()
		var f *graphmill.Fault
		require.ErrorAs(t, err, &f)
		require.Equal(t, "topic_absent", f.Code)
		require.Equal(t, "topic "+there+"-absent does not exist", f.Text)
	}
}

func TestCommandsThatCannotBe(t *testing.T) {
	const url = "pulsar://127.0.0.1:1"
	offset := int64(5)
	good := pulsar.Config{ServiceURL: url, Topics: []string{"t"}, Subscription: "s"}
	nobody := good
	nobody.Subscription = ""
	for name, c := range map[string]struct {
		do    func() error
		field string
	}{
		"a reader from nowhere":            {func() error { _, err := pulsar.NewReader(good, "now"); return err }, "from"},
		"a reader at nobody's cursor":      {func() error { _, err := pulsar.NewReader(nobody, pulsar.FromCommitted); return err }, "subscription"},
		"a reader of nothing":              {func() error { _, err := pulsar.NewReader(pulsar.Config{ServiceURL: url}, "earliest"); return err }, "topics"},
		"offsets without a broker":         {func() error { _, err := pulsar.Offsets(t.Context(), pulsar.Config{Topics: good.Topics}); return err }, "service_url"},
		"offsets of nobody's subscription": {func() error { _, err := pulsar.Offsets(t.Context(), nobody); return err }, "subscription"},
		"an offset of Kafka's": {func() error {
			_, err := pulsar.SetOffsets(t.Context(), good, graphmill.OffsetTarget{Offset: &offset}, nil)
			return err
		}, "set"},
	} {
		var e *graphmill.Error
		require.ErrorAs(t, c.do(), &e, name)
		require.Equal(t, graphmill.KindInvalid, e.Kind, name)
		require.Equal(t, c.field, e.Field, name)
	}
}
