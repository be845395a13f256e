package graphmill_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
)

func TestOffsetTargetsThatAreRead(t *testing.T) {
	at := func(n int64) graphmill.OffsetTarget { return graphmill.OffsetTarget{Offset: &n} }
	part := func(n int32) *int32 { return &n }
	for s, want := range map[string]graphmill.OffsetTarget{
		"earliest":                 {Start: graphmill.Start{Earliest: true}},
		"latest":                   {},
		"0":                        at(0),
		"1200":                     at(1200),
		"9223372036854775807":      at(9223372036854775807),
		"12:5:3":                   {MessageID: &graphmill.MessageID{Ledger: 12, Entry: 5, Index: 3}},
		"12:5:4:3":                 {MessageID: &graphmill.MessageID{Ledger: 12, Entry: 5, Index: 3}, Partition: part(4)},
		"12:5:-1:3":                {MessageID: &graphmill.MessageID{Ledger: 12, Entry: 5, Index: 3}, Partition: part(-1)},
		"2026-01-31T12:00:00Z":     {Start: graphmill.Start{Time: time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)}},
		"2026-01-31T12:00:00.123Z": {Start: graphmill.Start{Time: time.Date(2026, 1, 31, 12, 0, 0, 123e6, time.UTC)}},
	} {
		t.Run(s, func(t *testing.T) {
			got, err := graphmill.ParseOffsetTarget("to", s)
			require.NoError(t, err)
			require.Equal(t, want, got)
			require.Equal(t, s, got.String(), "and back")
		})
	}
}

func TestOffsetTargetsThatAreRefused(t *testing.T) {
	for name, s := range map[string]string{
		"nothing":              "",
		"a sign alone":         "-",
		"a negative offset":    "-1",
		"an offset beyond all": "9223372036854775808",
		"a fraction":           "1.5",
		"an exponent":          "1e3",
		"another case":         "Latest",
		"a date without time":  "2026-01-31",
		"space around":         " 7",
		"digits of a script":   "٣",
		"a long word":          strings.Repeat("x", 1000),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := graphmill.ParseOffsetTarget("to", s)
			var e *graphmill.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, graphmill.KindInvalid, e.Kind)
			require.Equal(t, "to", e.Field)
			require.Less(t, len(e.Text), 200)
		})
	}
}

func TestPartitionOffsetsAsJSON(t *testing.T) {
	for doc, p := range map[string]graphmill.PartitionOffsets{
		`{"topic":"t","partition":1,"topic_id":"a","offset":3,"origin":"group","first":0,"end":9,"lag":6}`: {
			TopicPartition: graphmill.TopicPartition{Topic: "t", Partition: 1}, TopicID: "a", Offset: 3, Origin: graphmill.OriginGroup, End: 9, Lag: 6,
		},
		`{"topic":"t","partition":0,"offset":7,"origin":"catalog","first":null,"end":null,"lag":null,"problem":{"code":"position_lost","text":"x"}}`: {
			TopicPartition: graphmill.TopicPartition{Topic: "t"}, Offset: 7, Origin: graphmill.OriginCatalog, First: -1, End: -1, Lag: -1,
			Problem: &graphmill.OffsetProblem{Code: "position_lost", Text: "x"},
		},
	} {
		got, err := json.Marshal(p)
		require.NoError(t, err)
		require.JSONEq(t, doc, string(got))
		var back graphmill.PartitionOffsets
		require.NoError(t, json.Unmarshal(got, &back))
		require.Equal(t, p, back)
	}
}
