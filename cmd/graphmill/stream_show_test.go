package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
)

func TestAStreamThatHasFailedIsShownWhole(t *testing.T) {
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.Local)
	before := func(d time.Duration) *time.Time { t := now.Add(-d); return &t }
	offset := int64(17)
	retry := now.Add(1500 * time.Millisecond)
	var b strings.Builder
	printStatus(&b, graphmill.SourceNameKafka, &graphmill.StreamStatus{
		State:        graphmill.StateFailed,
		Reason:       &graphmill.Reason{Code: "message", Text: "a null key", Since: *before(3 * time.Minute), NextStep: "graphmill stream start s"},
		Module:       &graphmill.ModuleVersion{Name: "movies", Version: 2, SHA256: strings.Repeat("ab", 32)},
		CurrentBatch: &graphmill.BatchStatus{Messages: 1, Statements: 2, Attempt: 3, NextRetryAt: &retry, Since: *before(90 * time.Second)},
		Partitions: []graphmill.PartitionStatus{
			{TopicPartition: graphmill.TopicPartition{Topic: "ratings"}, Acknowledged: 17, End: 20, Lag: 3, Notice: "no ids"},
			{TopicPartition: graphmill.TopicPartition{Topic: "ratings", Partition: 1}, Acknowledged: -1, End: -1, Lag: -1, Lane: -1, Notice: "no ids"},
		},
		LastFailure: &graphmill.FailureStatus{At: *before(3 * time.Minute), Code: "message", Text: "a null key", Message: &graphmill.TopicPartition{Topic: "ratings"}, Offset: &offset},
		Counters:    graphmill.Counters{Since: before(26 * time.Hour), Messages: 17, Batches: 1, Statements: 17, StatementsSent: 1, Retries: 2, Failures: 1},
		Rates:       graphmill.Rates{MessagesPerSecond10s: 1234.5, MessagesPerSecond1m: 0.25},
	}, now)
	require.Equal(t, `state:           failed
reason:          message: a null key
since:           3 minutes ago, 2026-01-31 11:57:00
next step:       graphmill stream start s
module:          movies version 2, sha256 abababababab
current batch:   1 message, 2 statements, attempt 3, tried again in 1.5s; begun 1 minute ago
done:            17 messages in 1 batch, 17 statements sent as 1, 0 messages dropped
counted since:   its last start, 1 day ago, 2026-01-30 10:00:00
rate:            1234 messages/s over the last 10 s, 0.2 over the last minute
trouble:         2 retries, 1 failed batch
last failure:    message: a null key
failed:          3 minutes ago, 2026-01-31 11:57:00
look first at:   ratings/0 offset 17

PARTITION  POSITION  END  LAG  LANE
ratings/0  17        20   3    0
ratings/1  ?         ?    ?    ?
note: no ids
`, b.String())
}

func TestAgo(t *testing.T) {
	now := time.Now()
	for d, want := range map[time.Duration]string{
		-time.Hour:             "just now",
		0:                      "just now",
		999 * time.Millisecond: "just now",
		time.Second:            "1 second ago",
		119 * time.Second:      "1 minute ago",
		2 * time.Hour:          "2 hours ago",
		49 * time.Hour:         "2 days ago",
	} {
		require.Equal(t, want, agoText(now.Add(-d), now), d)
	}
}
