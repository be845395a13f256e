package kafka

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/graphmill/graphmill"
)

func TestTimesOfARecord(t *testing.T) {
	when := time.UnixMilli(1_700_000_000_123)
	tp := graphmill.TopicPartition{Topic: "t", Partition: 3}
	f := convert(tp, "id", []*kgo.Record{
		{Offset: 7, Timestamp: when},
		{Offset: 9, Timestamp: when, Attrs: kgo.NewRecordAttrs(kgo.RecordAttrsOpts{TimestampType: 1})},
		{Offset: 12, Attrs: kgo.NewRecordAttrs(kgo.RecordAttrsOpts{Control: true})},
	})
	require.Equal(t, graphmill.Position{TopicPartition: tp, TopicID: "id", Offset: 13}, f.Next)
	require.Equal(t, []graphmill.Message{
		{Topic: "t", Partition: 3, Offset: 7, Timestamp: when.UnixMilli(), BrokerTime: -1},
		{Topic: "t", Partition: 3, Offset: 9, Timestamp: when.UnixMilli(), BrokerTime: when.UnixMilli()},
	}, f.Messages)
}

func TestNotes(t *testing.T) {
	const id = "0123456789abcdef0123456789abcdef"
	require.Equal(t, "gm1:"+id+":12", note{id, 12, ""}.String())
	for _, c := range []struct {
		metadata string
		want     note
		ok       bool
	}{
		{"gm1:" + id + ":12", note{id, 12, ""}, true},
		{"gm1::1", note{"", 1, ""}, true},
		{"gm1:" + id + ":12:more:fields", note{id, 12, "more:fields"}, true},
		{"", note{}, false},
		{"gm1", note{}, false},
		{"gm1:" + id, note{}, false},
		{"gm1:" + id[1:] + ":1", note{}, false},
		{"gm1:" + id + ":0", note{id, 0, ""}, true},
		{"gm1:" + id + ":-1", note{}, false},
		{"gm1:" + id + ":99999999999", note{}, false},
		{"gm2:" + id + ":1", note{}, false},
		{"kgo-7f1c:2:3", note{}, false},
	} {
		got, ok := parseNote(c.metadata)
		require.Equal(t, c.ok, ok, c.metadata)
		require.Equal(t, c.want, got, c.metadata)
		if ok {
			require.Equal(t, c.metadata, got.String())
		}
	}
}
