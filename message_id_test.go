package graphmill_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
)

func TestMessageIDs(t *testing.T) {
	for text, want := range map[string]graphmill.MessageID{
		"12:5":       {Ledger: 12, Entry: 5},
		"12:5:3":     {Ledger: 12, Entry: 5, Index: 3},
		"12:5:-1":    {Ledger: 12, Entry: 5},
		"12:5:0:3":   {Ledger: 12, Entry: 5, Index: 3},
		"12:5:-1:3":  {Ledger: 12, Entry: 5, Index: 3},
		"12:5:-1:-1": {Ledger: 12, Entry: 5},
		"0:0:0":      {},
		"9223372036854775807:9223372036854775807:2147483647": {Ledger: 1<<63 - 1, Entry: 1<<63 - 1, Index: 1<<31 - 1},
	} {
		got, err := graphmill.ParseMessageID("set", text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
		again, err := graphmill.ParseMessageID("set", got.String())
		require.NoError(t, err)
		require.Equal(t, got, again)
	}
	for _, text := range []string{"", "12", "12:", ":5", "12:x", "-1:5", "12:-1", "12:5:-2", "12:5:0:0:0", "12:5:2147483648", "12:5:0:", " 12:5", "12:5\n", "1e3:5"} {
		_, err := graphmill.ParseMessageID("set", text)
		require.Error(t, err, text)
		require.Equal(t, graphmill.KindInvalid, graphmill.KindOf(err), text)
	}
}

func TestMessageIDsAreOrderedAsTheirMessages(t *testing.T) {
	ids := []graphmill.MessageID{{}, {Index: 1}, {Entry: 1}, {Ledger: 3}, {Ledger: 3, Entry: 4, Index: 2}, {Ledger: 3, Entry: 5}}
	for i, a := range ids {
		for j, b := range ids {
			want := 0
			if i < j {
				want = -1
			} else if i > j {
				want = 1
			}
			require.Equal(t, want, a.Compare(b), "%v %v", a, b)
		}
	}
}

func TestAPositionSurvivesJSON(t *testing.T) {
	for _, p := range []graphmill.Position{
		{TopicPartition: graphmill.TopicPartition{Topic: "t", Partition: 1}, TopicID: "0f", Offset: 7},
		{TopicPartition: graphmill.TopicPartition{Topic: "persistent://public/default/t", Partition: -1}, Offset: -1, MessageID: graphmill.MessageID{Ledger: 3, Entry: 4, Index: 5}},
		{TopicPartition: graphmill.TopicPartition{Topic: "persistent://public/default/t"}, Offset: -1},
	} {
		doc, err := json.Marshal(p)
		require.NoError(t, err)
		var got graphmill.Position
		require.NoError(t, json.Unmarshal(doc, &got))
		require.Equal(t, p, got, string(doc))
	}
}

func TestAPositionBehindAMessage(t *testing.T) {
	kafka := graphmill.Position{TopicPartition: graphmill.TopicPartition{Topic: "t"}, TopicID: "0f", Offset: 3}
	kafka.Pass(&graphmill.Message{Topic: "t", Offset: 9})
	require.Equal(t, graphmill.Position{TopicPartition: graphmill.TopicPartition{Topic: "t"}, TopicID: "0f", Offset: 10}, kafka)
	require.Equal(t, "t/0@10", kafka.String())

	pulsar := graphmill.Position{TopicPartition: graphmill.TopicPartition{Topic: "t"}, Offset: -1}
	pulsar.Pass(&graphmill.Message{Topic: "t", Offset: -1, MessageID: graphmill.MessageID{Ledger: 3, Entry: 4, Index: 1}, EntryRest: 2})
	require.Equal(t, "t/0@3:4:2", pulsar.String())
	pulsar.Pass(&graphmill.Message{Topic: "t", Offset: -1, MessageID: graphmill.MessageID{Ledger: 3, Entry: 4, Index: 3}})
	require.Equal(t, "t/0@3:5:0", pulsar.String(), "behind the last of an entry comes the next entry")
}
