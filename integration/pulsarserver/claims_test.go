package pulsarserver

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	"github.com/stretchr/testify/require"
)

func claimInitialPosition(t *testing.T, b broker) {
	client := connect(t, b)
	send(t, client, "position", "before")
	latest := subscribe(t, client, "position", "latest", func(o *pulsar.ConsumerOptions) {
		o.SubscriptionInitialPosition = pulsar.SubscriptionPositionLatest
	})
	earliest := subscribe(t, client, "persistent://public/default/position", "earliest")
	send(t, client, "public/default/position", "after")
	texts, _ := take(t, latest, 1)
	require.Equal(t, []string{"after"}, texts)
	texts, _ = take(t, earliest, 2)
	require.Equal(t, []string{"before", "after"}, texts)
}

func claimVerbatim(t *testing.T, b broker) {
	client := connect(t, b)
	codecs := map[string]pulsar.CompressionType{"none": pulsar.NoCompression, "lz4": pulsar.LZ4, "zlib": pulsar.ZLib, "zstd": pulsar.ZSTD}
	at := time.UnixMilli(1_700_000_000_123)
	for name, codec := range codecs {
		p := produceTo(t, client, pulsar.ProducerOptions{
			Topic: "verbatim-" + name, CompressionType: codec, BatchingMaxMessages: 3, BatchingMaxPublishDelay: time.Hour,
		})
		for i, payload := range [][]byte{[]byte("one"), {}, {0, 0xff}} {
			p.SendAsync(t.Context(), &pulsar.ProducerMessage{
				Payload: payload, Key: fmt.Sprint("k", i), Properties: map[string]string{"p": fmt.Sprint(i), "é": "ü"}, EventTime: at,
			}, nil)
		}
		require.NoError(t, p.FlushWithCtx(t.Context()))
		_, messages := take(t, subscribe(t, client, "verbatim-"+name, "s"), 3)
		require.Equal(t, []byte("one"), messages[0].Payload(), name)
		require.Empty(t, messages[1].Payload())
		require.Equal(t, []byte{0, 0xff}, messages[2].Payload())
		for i, m := range messages {
			require.Equal(t, fmt.Sprint("k", i), m.Key())
			require.Equal(t, map[string]string{"p": fmt.Sprint(i), "é": "ü"}, m.Properties())
			require.True(t, at.Equal(m.EventTime()))
			require.WithinDuration(t, time.Now(), m.PublishTime(), time.Hour)
			require.Equal(t, "persistent://public/default/verbatim-"+name, m.Topic())
			require.EqualValues(t, 0, m.ID().EntryID())
			require.EqualValues(t, i, m.ID().BatchIdx())
			require.EqualValues(t, 3, m.ID().BatchSize())
			require.Zero(t, m.RedeliveryCount())
		}
	}
}

func claimRedelivery(t *testing.T, b broker) {
	client := connect(t, b)
	send(t, client, "redelivery", numbered(0, 10)...)
	c := subscribe(t, client, "redelivery", "s")
	texts, messages := take(t, c, 10)
	require.Equal(t, numbered(0, 10), texts)
	require.NoError(t, c.AckIDCumulative(messages[4].ID()))
	require.NoError(t, c.AckID(messages[6].ID()))
	require.NoError(t, c.AckIDList([]pulsar.MessageID{messages[8].ID(), messages[6].ID()}))
	c.Close()
	c = subscribe(t, client, "redelivery", "s")
	texts, messages = take(t, c, 3)
	require.Equal(t, []string{"m5", "m7", "m9"}, texts)
	for _, m := range messages {
		require.Zero(t, m.RedeliveryCount(), "nobody counts on a failover subscription")
	}
	// One that is behind what is acknowledged changes nothing.
	require.NoError(t, c.AckIDCumulative(messages[0].ID()))
	c.Close()
	texts, _ = take(t, subscribe(t, client, "redelivery", "s"), 2)
	require.Equal(t, []string{"m7", "m9"}, texts)
}

func claimPartialBatch(t *testing.T, b broker) {
	client := connect(t, b)
	sendBatches(t, client, "partial", 5, numbered(0, 10)...)
	c := subscribe(t, client, "partial", "individual", func(o *pulsar.ConsumerOptions) { o.EnableBatchIndexAcknowledgment = true })
	_, messages := take(t, c, 10)
	require.NoError(t, c.AckID(messages[0].ID()))
	require.NoError(t, c.AckID(messages[7].ID()))
	for _, m := range messages[5:7] {
		require.NoError(t, c.AckID(m.ID()))
	}
	c.Close()
	texts, _ := take(t, subscribe(t, client, "partial", "individual"), 10)
	require.Equal(t, numbered(0, 10), texts)

	c = subscribe(t, client, "partial", "cumulative", func(o *pulsar.ConsumerOptions) { o.EnableBatchIndexAcknowledgment = true })
	_, messages = take(t, c, 10)
	require.NoError(t, c.AckIDCumulative(messages[7].ID()))
	c.Close()
	c = subscribe(t, client, "partial", "cumulative")
	texts, messages = take(t, c, 5)
	require.Equal(t, numbered(5, 10), texts)
	for _, m := range messages {
		require.NoError(t, c.AckID(m.ID()))
	}
	c.Close()
	require.Zero(t, statsOf(t, b, "partial", "cumulative").MsgBacklog)
}

func claimAdminPositions(t *testing.T, b broker) {
	client := connect(t, b)
	createTopic(t, b, "positions", 0)
	c := subscribe(t, client, "positions", "s", func(o *pulsar.ConsumerOptions) { o.Name = "me" })
	cursor, last := cursorOf(t, b, "positions", "s")
	require.Regexp(t, `^\d+:-1$`, last)
	require.Equal(t, last, cursor.MarkDeletePosition)

	sendBatches(t, client, "positions", 5, numbered(0, 20)...)
	_, messages := take(t, c, 20)
	require.Equal(t, 4, statsOf(t, b, "positions", "s").MsgBacklog, "entries, not messages")
	require.NoError(t, c.AckIDCumulative(messages[4].ID()))
	for _, m := range messages[10:15] {
		require.NoError(t, c.AckID(m.ID()))
	}
	ledger := messages[0].ID().LedgerID()
	st := statsOf(t, b, "positions", "s")
	require.Equal(t, 2, st.MsgBacklog)
	require.Equal(t, "Failover", st.Type)
	require.Equal(t, "me", st.ActiveConsumerName)
	require.True(t, st.Durable)
	require.Len(t, st.Consumers, 1)
	require.EqualValues(t, 980, st.Consumers[0].AvailablePermits)
	cursor, last = cursorOf(t, b, "positions", "s")
	require.Equal(t, fmt.Sprint(ledger, ":3"), last)
	require.Equal(t, fmt.Sprint(ledger, ":0"), cursor.MarkDeletePosition)
	require.Equal(t, fmt.Sprint(ledger, ":4"), cursor.ReadPosition)
	require.Equal(t, fmt.Sprintf("[(%d:1..%d:2]]", ledger, ledger), cursor.IndividuallyDeletedMessages)
}

func claimExclusive(t *testing.T, b broker) {
	client := connect(t, b)
	exclusive := func(o *pulsar.ConsumerOptions) { o.Type = pulsar.Exclusive }
	first := subscribe(t, client, "exclusive", "s", exclusive)
	other := connect(t, b)
	_, err := other.Subscribe(pulsar.ConsumerOptions{Topic: "exclusive", SubscriptionName: "s", Type: pulsar.Exclusive})
	require.ErrorContains(t, err, "ConsumerBusy: Exclusive consumer is already connected")
	_, err = other.Subscribe(pulsar.ConsumerOptions{Topic: "exclusive", SubscriptionName: "s", Type: pulsar.Failover})
	require.ErrorContains(t, err, "ConsumerBusy: Subscription is of different type")
	first.Close()
	send(t, other, "exclusive", "m0")
	texts, _ := take(t, subscribe(t, other, "exclusive", "s"), 1) // of another type, now that nobody is there
	require.Equal(t, []string{"m0"}, texts)
}

// listener remembers of which partitions a consumer became the active one.
type listener struct {
	mu     sync.Mutex
	active map[int32]bool
}

func (l *listener) set(p int32, active bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.active == nil {
		l.active = map[int32]bool{}
	}
	l.active[p] = active
}
func (l *listener) BecameActive(_ pulsar.Consumer, _ string, p int32)   { l.set(p, true) }
func (l *listener) BecameInactive(_ pulsar.Consumer, _ string, p int32) { l.set(p, false) }

func (l *listener) is(p int32) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.active[p]
}

// failoverChoices are what Pulsar 4.0.7 chooses, whoever subscribed first.
var failoverChoices = map[string]string{
	"choice-0": "a", "choice-1": "b", "choice-2": "b", "choice-3": "a", "choice-4": "a", "choice-5": "a",
}

func claimFailoverTopic(t *testing.T, b broker) {
	client := connect(t, b)
	got := map[string]string{}
	for topic := range failoverChoices {
		for _, name := range []string{"b", "c", "a"} {
			subscribe(t, client, topic, "s", func(o *pulsar.ConsumerOptions) { o.Name = name })
		}
		got[topic] = statsOf(t, b, topic, "s").ActiveConsumerName
	}
	require.Equal(t, failoverChoices, got)
}

func claimFailoverPartitions(t *testing.T, b broker) {
	client := connect(t, b)
	createTopic(t, b, "shared", 5)
	listeners := map[string]*listener{}
	for _, name := range []string{"b", "a"} { // the names' order counts, not this
		l := &listener{}
		listeners[name] = l
		subscribe(t, client, "shared", "s", func(o *pulsar.ConsumerOptions) { o.Name, o.EventListener = name, l })
	}
	for p := range 5 {
		want := []string{"a", "b"}[p%2]
		require.Equal(t, want, statsOf(t, b, fmt.Sprint("shared-partition-", p), "s").ActiveConsumerName, p)
	}
	subscribe(t, client, "shared", "s", func(o *pulsar.ConsumerOptions) { o.Name = "c" })
	for p := range 5 {
		want := []string{"a", "b", "c"}[p%3]
		require.Equal(t, want, statsOf(t, b, fmt.Sprint("shared-partition-", p), "s").ActiveConsumerName, p)
	}
	require.Eventually(t, func() bool { return !listeners["b"].is(3) && listeners["b"].is(4) }, patience, 10*time.Millisecond)
}

func claimTakeover(t *testing.T, b broker) {
	createTopic(t, b, "takeover", 1)
	send(t, connect(t, b), "takeover", numbered(0, 6)...)
	old := subscribe(t, connect(t, b), "takeover", "s", func(o *pulsar.ConsumerOptions) { o.Name = "b" })
	_, messages := take(t, old, 6)
	require.NoError(t, old.AckIDCumulative(messages[1].ID()))
	next := subscribe(t, connect(t, b), "takeover", "s", func(o *pulsar.ConsumerOptions) { o.Name = "a" })
	texts, _ := take(t, next, 4)
	require.Equal(t, numbered(2, 6), texts)
	// The old one still may acknowledge what it has in hand.
	require.NoError(t, old.AckIDCumulative(messages[3].ID()))
	next.Close()
	texts, _ = take(t, old, 2)
	require.Equal(t, numbered(4, 6), texts)
}

func claimNack(t *testing.T, b broker) {
	client := connect(t, b)
	send(t, client, "nack", numbered(0, 6)...)
	c := subscribe(t, client, "nack", "s", func(o *pulsar.ConsumerOptions) { o.NackRedeliveryDelay = 10 * time.Millisecond })
	_, messages := take(t, c, 6)
	require.NoError(t, c.AckID(messages[0].ID()))
	require.NoError(t, c.AckID(messages[3].ID()))
	c.Nack(messages[4])
	texts, messages := take(t, c, 4)
	require.Equal(t, []string{"m1", "m2", "m4", "m5"}, texts)
	for _, m := range messages {
		require.Zero(t, m.RedeliveryCount())
	}
}

func claimPattern(t *testing.T, b broker) {
	client := connect(t, b)
	createTopic(t, b, "pattern-a", 0)
	createTopic(t, b, "pattern-b", 2)
	createTopic(t, b, "other-pattern", 0)
	c, err := client.Subscribe(pulsar.ConsumerOptions{
		TopicsPattern: "public/default/pattern-.*", SubscriptionName: "s", Type: pulsar.Failover,
		AutoDiscoveryPeriod:         time.Hour, // a consumer that is closed while it discovers leaves goroutines behind
		SubscriptionInitialPosition: pulsar.SubscriptionPositionEarliest,
	})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	send(t, client, "other-pattern", "no")
	send(t, client, "pattern-a", "a")
	send(t, client, "pattern-b", "b")
	texts, _ := take(t, c, 2)
	require.ElementsMatch(t, []string{"a", "b"}, texts)

	createTopic(t, b, "pattern-c", 0)
	w := login(t, b)
	w.send(`type: GET_TOPICS_OF_NAMESPACE getTopicsOfNamespace { namespace: "public/default" request_id: 1 mode: PERSISTENT }`, nil)
	answer := w.expect("GET_TOPICS_OF_NAMESPACE_RESPONSE").get("getTopicsOfNamespaceResponse")
	list := answer.m.Get(answer.field("topics")).List()
	var topics []string
	for i := range list.Len() {
		topics = append(topics, list.Get(i).String())
	}
	for _, name := range []string{"pattern-a", "pattern-b-partition-0", "pattern-b-partition-1", "pattern-c", "other-pattern"} {
		require.Contains(t, topics, "persistent://public/default/"+name)
	}
	require.NotContains(t, topics, "persistent://public/default/pattern-b")
}

func claimAddPartitions(t *testing.T, b broker) {
	client := connect(t, b)
	createTopic(t, b, "grow", 2)
	c := subscribe(t, client, "grow", "s", func(o *pulsar.ConsumerOptions) {
		o.SubscriptionInitialPosition = pulsar.SubscriptionPositionLatest
		o.AutoDiscoveryPeriod = 50 * time.Millisecond
	})
	require.Equal(t, 204, ask(t, b, "POST", publicDefault+"grow/partitions", 3, nil))
	statsOf(t, b, "grow-partition-2", "s")
	send(t, connect(t, b), "grow-partition-2", "new")
	texts, _ := take(t, c, 1)
	require.Equal(t, []string{"new"}, texts)
}

func claimDelete(t *testing.T, b broker) {
	client := connect(t, b)
	c := subscribe(t, client, "deleted", "s")
	require.Equal(t, 412, ask(t, b, "DELETE", publicDefault+"deleted", nil, nil))
	ids := send(t, client, "deleted", "old")
	texts, _ := take(t, c, 1)
	require.Equal(t, []string{"old"}, texts)
	require.Equal(t, 204, ask(t, b, "DELETE", publicDefault+"deleted?force=true", nil, nil))
	// The consumer comes back by itself, and makes the topic anew.
	require.Eventually(t, func() bool {
		return ask(t, b, "GET", publicDefault+"deleted/stats", nil, nil) == 200
	}, patience, 10*time.Millisecond)
	again := send(t, client, "deleted", "new")
	texts, _ = take(t, c, 1)
	require.Equal(t, []string{"new"}, texts)
	require.Greater(t, again[0].LedgerID(), ids[0].LedgerID())
	require.EqualValues(t, 0, again[0].EntryID())
}

func claimNoNamespace(t *testing.T, b broker) {
	client := connect(t, b)
	for _, topic := range []string{"public/nowhere/t", "nobody/nowhere/t"} {
		_, err := client.Subscribe(pulsar.ConsumerOptions{Topic: topic, SubscriptionName: "s"})
		require.EqualError(t, err, "TopicNotFound")
		_, err = client.CreateProducer(pulsar.ProducerOptions{Topic: topic, SendTimeout: -1})
		require.EqualError(t, err, "TopicNotFound")
	}
	c, err := client.Subscribe(pulsar.ConsumerOptions{TopicsPattern: "public/nowhere/t.*", SubscriptionName: "s"})
	require.NoError(t, err, "there are no such topics yet")
	c.Close()
	createTopic(t, b, "three", 3)
	_, err = client.Subscribe(pulsar.ConsumerOptions{Topic: "three-partition-3", SubscriptionName: "s"})
	require.EqualError(t, err, "TopicNotFound")
}

func claimAckBeyondEnd(t *testing.T, b broker) {
	client := connect(t, b)
	ids := send(t, client, "beyond", numbered(0, 2)...)
	c := subscribe(t, client, "beyond", "s")
	take(t, c, 2)
	require.NoError(t, c.AckIDCumulative(pulsar.NewMessageID(ids[0].LedgerID(), 100, -1, 0)), "which does nothing")
	cursor, _ := cursorOf(t, b, "beyond", "s")
	require.Equal(t, fmt.Sprint(ids[0].LedgerID(), ":-1"), cursor.MarkDeletePosition)
	require.Equal(t, 2, statsOf(t, b, "beyond", "s").MsgBacklog)
}
