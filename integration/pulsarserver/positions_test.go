package pulsarserver

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	"github.com/stretchr/testify/require"
)

// nextMillisecond returns a time behind all that has been published: publish times
// are whole milliseconds.
func nextMillisecond() time.Time {
	before := time.Now().UnixMilli()
	for {
		if now := time.Now(); now.UnixMilli() > before {
			return now
		}
		runtime.Gosched()
	}
}

func claimSeek(t *testing.T, b broker) {
	client := connect(t, b)
	ids := send(t, client, "seek", numbered(0, 5)...)
	middle := nextMillisecond()
	send(t, client, "seek", numbered(5, 10)...)

	for name, seek := range map[string]struct {
		run  func(pulsar.Consumer) error
		want []string
	}{
		"id":       {func(c pulsar.Consumer) error { return c.Seek(ids[2]) }, numbered(3, 10)},
		"time":     {func(c pulsar.Consumer) error { return c.SeekByTime(middle) }, numbered(5, 10)},
		"earliest": {func(c pulsar.Consumer) error { return c.SeekByTime(time.UnixMilli(0)) }, numbered(0, 10)},
	} {
		c := subscribe(t, client, "seek", name)
		_, messages := take(t, c, 10)
		require.NoError(t, c.AckIDCumulative(messages[9].ID()))
		require.NoError(t, seek.run(c))
		texts, messages := take(t, c, len(seek.want))
		require.Equal(t, seek.want, texts, name)
		require.NoError(t, c.AckIDCumulative(messages[len(messages)-1].ID()))
		c.Close()
		require.Zero(t, statsOf(t, b, "seek", name).MsgBacklog, name)
	}

	c := subscribe(t, client, "seek", "future")
	require.NoError(t, c.SeekByTime(time.Now().Add(time.Hour)))
	send(t, client, "seek", "last")
	texts, _ := take(t, c, 1)
	require.Equal(t, []string{"last"}, texts)
}

func claimLastID(t *testing.T, b broker) {
	client := connect(t, b)
	createTopic(t, b, "last", 2)
	c := subscribe(t, client, "last", "s")
	lasts, err := c.GetLastMessageIDs()
	require.NoError(t, err)
	require.Len(t, lasts, 2)
	for _, id := range lasts {
		require.EqualValues(t, -1, id.LedgerID())
		require.EqualValues(t, -1, id.EntryID())
	}
	p := produceTo(t, client, pulsar.ProducerOptions{
		Topic: "last-partition-1", BatchingMaxMessages: 4, BatchingMaxPublishDelay: time.Hour,
	})
	for i := range 8 {
		p.SendAsync(t.Context(), &pulsar.ProducerMessage{Payload: fmt.Append(nil, i)}, nil)
	}
	require.NoError(t, p.FlushWithCtx(t.Context()))
	_, messages := take(t, c, 8)
	lasts, err = c.GetLastMessageIDs()
	require.NoError(t, err)
	i := slices.IndexFunc(lasts, func(id pulsar.TopicMessageID) bool { return id.EntryID() >= 0 })
	require.GreaterOrEqual(t, i, 0)
	require.Equal(t, "persistent://public/default/last-partition-1", lasts[i].Topic())
	want := messages[7].ID()
	require.Equal(t, want.LedgerID(), lasts[i].LedgerID())
	require.EqualValues(t, 1, lasts[i].EntryID())
	require.EqualValues(t, 3, lasts[i].BatchIdx())
}

func claimReader(t *testing.T, b broker) {
	client := connect(t, b)
	ids := send(t, client, "reader", numbered(0, 4)...)
	sendBatches(t, client, "reader", 4, numbered(4, 8)...)
	read := func(options pulsar.ReaderOptions) (texts []string, messages []pulsar.Message) {
		options.Topic = "reader"
		r, err := client.CreateReader(options)
		require.NoError(t, err)
		defer r.Close()
		for r.HasNext() {
			m, err := r.Next(t.Context())
			require.NoError(t, err)
			texts, messages = append(texts, string(m.Payload())), append(messages, m)
		}
		return texts, messages
	}
	texts, messages := read(pulsar.ReaderOptions{StartMessageID: pulsar.EarliestMessageID()})
	require.Equal(t, numbered(0, 8), texts)
	texts, _ = read(pulsar.ReaderOptions{StartMessageID: pulsar.LatestMessageID()})
	require.Empty(t, texts)
	texts, _ = read(pulsar.ReaderOptions{StartMessageID: ids[1]})
	require.Equal(t, numbered(2, 8), texts)
	texts, _ = read(pulsar.ReaderOptions{StartMessageID: messages[1].ID(), StartMessageIDInclusive: true})
	require.Equal(t, numbered(1, 8), texts)
	texts, _ = read(pulsar.ReaderOptions{StartMessageID: messages[5].ID()})
	require.Equal(t, numbered(6, 8), texts)
	texts, _ = read(pulsar.ReaderOptions{StartMessageID: messages[5].ID(), StartMessageIDInclusive: true})
	require.Equal(t, numbered(5, 8), texts)

	var names []string
	ask(t, b, "GET", publicDefault+"reader/subscriptions", nil, &names)
	require.Empty(t, names, "none is left behind")
}

func claimUnsubscribe(t *testing.T, b broker) {
	client := connect(t, b)
	send(t, client, "unsubscribe", numbered(0, 2)...)
	c := subscribe(t, client, "unsubscribe", "s")
	_, messages := take(t, c, 2)
	require.NoError(t, c.AckIDCumulative(messages[1].ID()))
	c.Close()

	// At the wire, since a consumer of the Go client that has unsubscribed leaves
	// goroutines behind.
	w := login(t, b)
	for id := 1; id <= 2; id++ {
		w.send(subscribeText("unsubscribe", "Failover", "same", id, id), nil)
		w.expect("ACTIVE_CONSUMER_CHANGE")
		if id == 2 {
			w.expect("ACTIVE_CONSUMER_CHANGE")
		}
		w.expect("SUCCESS")
	}
	w.send(`type: UNSUBSCRIBE unsubscribe { consumer_id: 1 request_id: 3 }`, nil)
	failure := w.expect("ERROR").get("error")
	require.Equal(t, "MetadataError", failure.enum("error"))
	require.Equal(t, "Unconnected or shared consumer attempting to unsubscribe", failure.text("message"))
	w.send(`type: CLOSE_CONSUMER close_consumer { consumer_id: 1 request_id: 4 }`, nil)
	require.EqualValues(t, 4, w.expect("SUCCESS").get("success").uint("request_id"))
	w.send(`type: UNSUBSCRIBE unsubscribe { consumer_id: 2 request_id: 5 }`, nil)
	require.EqualValues(t, 5, w.expect("SUCCESS").get("success").uint("request_id"))

	texts, _ := take(t, subscribe(t, client, "unsubscribe", "s"), 2)
	require.Equal(t, numbered(0, 2), texts)
}
