package pulsar_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	client "github.com/apache/pulsar-client-go/pulsar"
	"github.com/apache/pulsar-client-go/pulsar/log"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/integration/pulsarserver"
	"github.com/graphmill/graphmill/sources/pulsar"
)

// outside is a Pulsar, in the process or a real one, that is asked from outside of
// subscriptions.
type outside struct {
	url, admin string
	create     func(t *testing.T, topic string, partitions int)
	cl         client.Client
}

func newOutside(t *testing.T, o outside) outside {
	cl, err := client.NewClient(client.ClientOptions{
		URL: o.url, Logger: log.NewLoggerWithSlog(slog.New(slog.DiscardHandler)), MetricsRegisterer: prometheus.NewRegistry(),
	})
	require.NoError(t, err)
	t.Cleanup(cl.Close)
	o.cl = cl
	return o
}

// fromOutside are the tests that a Pulsar of either kind has to pass.
var fromOutside = map[string]func(t *testing.T, o outside){
	"a reader reads all partitions of topics and patterns": readsEverything,
	"a reader begins where it is told":                     readerBegins,
	"positions go where they are set":                      setsPositions,
	"positions within entries and at their borders":        setsPositionsWithinEntries,
	"message ids that do not exist":                        refusesIDs,
	"positions of a subscription in use":                   refusesMembers,
	"positions without an admin URL":                       tellsOffsets,
	"a topic that is absent is not made":                   makesNoTopic,
}

func TestFromOutside(t *testing.T) {
	for name, test := range fromOutside {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := pulsarserver.Start(t, pulsarserver.Options{})
			test(t, newOutside(t, outside{url: s.URL(), admin: s.AdminURL(), create: func(t *testing.T, topic string, partitions int) {
				require.NoError(t, s.CreateTopic(topic, partitions))
			}}))
		})
	}
}

var topicNames atomic.Int64

// topic makes a topic and returns its full name.
func (o outside) topic(t *testing.T, partitions int) string {
	t.Helper()
	name := fmt.Sprintf("persistent://public/default/o%d-%d", topicNames.Add(1), time.Now().UnixNano())
	o.create(t, name, partitions)
	return name
}

// part is the name of one partition.
func part(topic string, n int) string { return fmt.Sprintf("%s-partition-%d", topic, n) }

// send appends one entry of the texts, and returns the id of its first message.
func (o outside) send(t *testing.T, name string, texts ...string) graphmill.MessageID {
	t.Helper()
	p, err := o.cl.CreateProducer(client.ProducerOptions{
		Topic: name, SendTimeout: -1, // a goroutine that looks after it outlives Close
		BatchingMaxPublishDelay: time.Hour, BatchingMaxMessages: 1000,
	})
	require.NoError(t, err)
	defer p.Close()
	ids := make(chan graphmill.MessageID, len(texts))
	for _, s := range texts {
		p.SendAsync(t.Context(), &client.ProducerMessage{Payload: []byte(s)}, func(id client.MessageID, _ *client.ProducerMessage, err error) {
			if err == nil {
				ids <- graphmill.MessageID{Ledger: id.LedgerID(), Entry: id.EntryID()}
			}
			if len(ids) == 0 {
				close(ids)
			}
		})
	}
	require.NoError(t, p.FlushWithCtx(t.Context()))
	id, ok := <-ids
	require.True(t, ok, "sending has failed")
	return id
}

func (o outside) config(topics ...string) pulsar.Config {
	return pulsar.Config{Stream: "orders", ServiceURL: o.url, Topics: topics, Subscription: "orders"}
}

// subscribe attaches a consumer as a Source would, or for itself alone.
func (o outside) subscribe(name string, kind client.SubscriptionType) (client.Consumer, error) {
	return o.cl.Subscribe(client.ConsumerOptions{
		Topic: name, SubscriptionName: "orders", Type: kind, ReceiverQueueSize: 1,
		SubscriptionInitialPosition: client.SubscriptionPositionEarliest,
	})
}

// comes returns what a consumer of the subscription gets, n messages and no more.
func (o outside) comes(t *testing.T, name string, n int) (texts []string) {
	t.Helper()
	c, err := o.subscribe(name, client.Failover)
	require.NoError(t, err)
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range n {
		m, err := c.Receive(ctx)
		require.NoError(t, err, "after %q", texts)
		texts = append(texts, string(m.Payload()))
	}
	return texts
}

// read fetches until n messages have come, and returns the texts of each partition.
func read(t *testing.T, r *pulsar.Reader, n int) map[graphmill.TopicPartition][]string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	texts := map[graphmill.TopicPartition][]string{}
	for n > 0 {
		fetches, err := r.Fetch(ctx, 3)
		require.NoError(t, err, "after %v", texts)
		for _, f := range fetches {
			require.Zero(t, f.Messages[len(f.Messages)-1].EntryRest, "entries are whole")
			next := f.Messages[0].Position()
			for i := range f.Messages {
				next.Pass(&f.Messages[i])
				texts[next.TopicPartition] = append(texts[next.TopicPartition], string(f.Messages[i].Payload))
			}
			require.Equal(t, next, f.Next)
			n -= len(f.Messages)
		}
	}
	require.Zero(t, n)
	return texts
}

func reader(t *testing.T, cfg pulsar.Config, from string) *pulsar.Reader {
	t.Helper()
	r, err := pulsar.NewReader(cfg, from)
	require.NoError(t, err)
	t.Cleanup(r.Close)
	return r
}

func readsEverything(t *testing.T, o outside) {
	parted, plain := o.topic(t, 2), o.topic(t, 0)
	o.send(t, part(parted, 0), "a", "b", "c", "d", "e")
	o.send(t, part(parted, 0), "f")
	o.send(t, part(parted, 1), "g")
	o.send(t, plain, "", "h")
	want := map[graphmill.TopicPartition][]string{
		{Topic: parted, Partition: 0}: {"a", "b", "c", "d", "e", "f"},
		{Topic: parted, Partition: 1}: {"g"},
		{Topic: plain, Partition: -1}: {"", "h"},
	}
	require.Equal(t, want, read(t, reader(t, o.config(parted, plain), graphmill.StartEarliest), 9))

	cfg := o.config()
	cfg.Pattern = parted + "|" + plain[len("persistent://public/default/"):]
	require.Equal(t, want, read(t, reader(t, cfg, graphmill.StartEarliest), 9))
}

func readerBegins(t *testing.T, o outside) {
	topic := o.topic(t, 1)
	name, tp := part(topic, 0), graphmill.TopicPartition{Topic: topic}
	o.send(t, name, "a", "b")
	second := o.send(t, name, "c", "d", "e")
	time.Sleep(5 * time.Millisecond) // publish times are in milliseconds
	at := time.Now()
	o.send(t, name, "f")

	require.Equal(t, []string{"f"}, read(t, reader(t, o.config(topic), at.Format(time.RFC3339Nano)), 1)[tp])
	require.Equal(t, []string{"a", "b", "c", "d", "e", "f"}, read(t, reader(t, o.config(topic), "1960-01-01T00:00:00Z"), 6)[tp])

	cfg := o.config(topic)
	second.Index = 1
	cfg.Known = []graphmill.Position{{TopicPartition: tp, Offset: -1, MessageID: second}}
	require.Equal(t, []string{"d", "e", "f"}, read(t, reader(t, cfg, pulsar.FromCommitted), 3)[tp])
	cfg.Known[0].MessageID = graphmill.MessageID{Ledger: second.Ledger, Entry: second.Entry + 1}
	require.Equal(t, []string{"f"}, read(t, reader(t, cfg, pulsar.FromCommitted), 1)[tp])
	cfg.Known, cfg.Start = nil, graphmill.Start{Earliest: true}
	require.Equal(t, []string{"a", "b", "c", "d", "e", "f"}, read(t, reader(t, cfg, pulsar.FromCommitted), 6)[tp])

	late := reader(t, o.config(topic), graphmill.StartLatest)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := late.Fetch(ctx, 10)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	o.send(t, name, "g")
	require.Equal(t, []string{"g"}, read(t, late, 1)[tp])
}

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
	time.Sleep(5 * time.Millisecond) // publish times are in milliseconds
	at := time.Now()
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

	behind := graphmill.MessageID{Ledger: last.Ledger, Entry: last.Entry + 1}
	require.Equal(t, behind, move(behind, &graphmill.TopicPartition{Topic: topic, Partition: -1})[0].MessageID)
	o.send(t, topic, "f")
	require.Equal(t, []string{"f"}, o.comes(t, topic, 1))
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

	cfg.Known[0].MessageID = graphmill.MessageID{Ledger: last.Ledger, Entry: last.Entry + 1}
	p0.MessageID, p0.Lag = cfg.Known[0].MessageID, 0
	require.Equal(t, p0, offsets().Partitions[0])
}

func makesNoTopic(t *testing.T, o outside) {
	there := o.topic(t, 0)
	cfg := o.config(there, there+"-absent")
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second) // it is looked for until then
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
