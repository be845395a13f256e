package pulsar

import (
	"testing"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
)

// received is a message as the client has it.
type received struct {
	pulsar.Message
	id         pulsar.MessageID
	payload    []byte
	key        string
	properties map[string]string
	event      time.Time
	published  time.Time
	again      uint32
}

func (m received) ID() pulsar.MessageID          { return m.id }
func (m received) Payload() []byte               { return m.payload }
func (m received) Key() string                   { return m.key }
func (m received) Properties() map[string]string { return m.properties }
func (m received) EventTime() time.Time          { return m.event }
func (m received) PublishTime() time.Time        { return m.published }
func (m received) RedeliveryCount() uint32       { return m.again }

// batched is an id within a batch.
type batched struct {
	pulsar.MessageID
	size int32
}

func (id batched) BatchSize() int32 { return id.size }

func TestConvert(t *testing.T) {
	tp := graphmill.TopicPartition{Topic: "persistent://public/default/orders", Partition: 3}
	plain := graphmill.TopicPartition{Topic: tp.Topic, Partition: -1}
	at, none := time.UnixMilli(1_700_000_000_123), time.UnixMilli(0)
	for name, c := range map[string]struct {
		tp   graphmill.TopicPartition
		in   received
		want graphmill.Message
	}{
		"everything, within a batch": {
			tp: tp,
			in: received{id: batched{pulsar.NewMessageID(7, 5, 2, 3), 10}, payload: []byte("p"), key: "k",
				properties: map[string]string{"b": "2", "a": "\xff", "c": ""}, event: at, published: at.Add(time.Second), again: 4},
			want: graphmill.Message{Topic: tp.Topic, Partition: 3, Offset: -1, ID: "7:5:3:2",
				MessageID: graphmill.MessageID{Ledger: 7, Entry: 5, Index: 2}, EntryRest: 7, Payload: []byte("p"), Key: []byte("k"),
				Headers:   []graphmill.Header{{Key: "a", Value: []byte("\xff")}, {Key: "b", Value: []byte("2")}, {Key: "c", Value: []byte{}}},
				Timestamp: at.UnixMilli(), BrokerTime: at.UnixMilli() + 1000, Redeliveries: 4},
		},
		"nothing, its whole entry": {
			tp: plain,
			in: received{id: batched{pulsar.NewMessageID(7, 5, -1, 0), 1}, event: none, published: at},
			want: graphmill.Message{Topic: tp.Topic, Partition: -1, Offset: -1, ID: "7:5:-1:-1",
				MessageID: graphmill.MessageID{Ledger: 7, Entry: 5}, Payload: []byte{}, Timestamp: at.UnixMilli(), BrokerTime: at.UnixMilli()},
		},
		"the last of a batch": {
			tp: tp,
			in: received{id: batched{pulsar.NewMessageID(7, 5, 9, 3), 10}, event: none, published: at},
			want: graphmill.Message{Topic: tp.Topic, Partition: 3, Offset: -1, ID: "7:5:3:9",
				MessageID: graphmill.MessageID{Ledger: 7, Entry: 5, Index: 9}, Payload: []byte{}, Timestamp: at.UnixMilli(), BrokerTime: at.UnixMilli()},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := convert(nil, []incoming{{tp: c.tp, msg: c.in, rest: c.want.EntryRest}})
			require.Equal(t, []graphmill.Message{c.want}, got)
			read, err := graphmill.ParseMessageID("id", got[0].ID)
			require.NoError(t, err)
			require.Equal(t, got[0].MessageID, read)
		})
	}
}
