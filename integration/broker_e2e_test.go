//go:build e2e

package integration_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/neo4j/neo4j-go-driver/v5/neo4j"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// topicOf makes a topic named for the test. A test with several gives each a
// suffix.
func topicOf(t *testing.T, partitions int32, suffix ...string) string {
	t.Helper()
	topic := strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(t.Name() + strings.Join(suffix, "")))
	_, err := admin(t).CreateTopic(t.Context(), partitions, 1, nil, topic)
	require.NoError(t, err)
	return topic
}

func admin(t *testing.T) *kadm.Client {
	t.Helper()
	cl, err := kadm.NewOptClient(kgo.SeedBrokers(world.kafka.Brokers()...))
	require.NoError(t, err)
	t.Cleanup(cl.Close)
	return cl
}

// committed returns the group's offsets by partition; empty: it has none.
func committed(t *testing.T, group, topic string) map[int32]int64 {
	t.Helper()
	offsets, err := admin(t).FetchOffsets(t.Context(), group)
	require.NoError(t, err)
	at := map[int32]int64{}
	for _, o := range offsets[topic] {
		at[o.Partition] = o.At
	}
	return at
}

// endOf returns how many messages a topic has been given.
func endOf(t *testing.T, topic string) int64 {
	t.Helper()
	ends, err := admin(t).ListEndOffsets(t.Context(), topic)
	require.NoError(t, err)
	at := map[int32]int64{}
	ends.Each(func(o kadm.ListedOffset) { at[o.Partition] = o.Offset })
	return sumOf(at)
}

func sumOf(offsets map[int32]int64) (sum int64) {
	for _, at := range offsets {
		sum += at
	}
	return sum
}

// event is one message of the tests: id is its own, and several share a user,
// within which seq rises.
type event struct {
	ID   int `json:"id"`
	User int `json:"user"`
}

// users is how many keys the events are spread over.
const users = 997

// produce sends events first to last-1, keyed by user, so that those of one
// user keep their order. Every one is confirmed when it returns.
func produce(ctx context.Context, topic string, first, last int) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(world.kafka.Brokers()...), kgo.DefaultProduceTopic(topic))
	if err != nil {
		return err
	}
	defer cl.Close()
	failed := make(chan error, 1)
	for i := first; i < last; i++ {
		e := event{ID: i, User: i % users}
		value, err := json.Marshal(e)
		if err != nil {
			return err
		}
		cl.Produce(ctx, &kgo.Record{Key: fmt.Append(nil, e.User), Value: value}, func(_ *kgo.Record, err error) {
			if err != nil {
				select {
				case failed <- err:
				default:
				}
			}
		})
	}
	if err := cl.Flush(ctx); err != nil {
		return err
	}
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

// traceQuery is the model that the tests hold the graph against. It leaves a trace
// of each event, which counts how often the event was applied, keeps the last one
// of each user, and counts in early the events of a user that were applied for
// the first time after a later one. Labels are of one test.
func traceQuery(label string) string {
	return fmt.Sprintf(
		"MERGE (u:User%[1]s {id: $event.user}) MERGE (t:Trace%[1]s {id: $event.id}) "+
			"SET u.early = coalesce(u.early, 0) + CASE WHEN t.times IS NULL AND u.most > $event.id THEN 1 ELSE 0 END "+
			"SET u.last = $event.id, u.most = CASE WHEN u.most > $event.id THEN u.most ELSE $event.id END, "+
			"t.times = coalesce(t.times, 0) + 1", label)
}

// labelOf makes the labels of a test and their constraints. A test with several
// streams gives each a suffix.
func labelOf(t *testing.T, suffix ...string) string {
	t.Helper()
	label := strings.NewReplacer("/", "_", ",", "_").Replace(t.Name()) + strings.Join(suffix, "")
	for _, l := range []string{"User" + label, "Trace" + label} {
		ask[any](t, fmt.Sprintf("CREATE CONSTRAINT IF NOT EXISTS FOR (n:%s) REQUIRE n.id IS UNIQUE", l))
	}
	return label
}

// ask returns the one value of each row.
func ask[T any](t *testing.T, query string) []T {
	t.Helper()
	result, err := neo4j.ExecuteQuery(t.Context(), world.driver, query, nil, neo4j.EagerResultTransformer, neo4j.ExecuteQueryWithDatabase("neo4j"))
	require.NoError(t, err)
	values := make([]T, 0, len(result.Records))
	for _, r := range result.Records {
		v, ok := r.Values[0].(T)
		require.True(t, ok, "%T", r.Values[0])
		values = append(values, v)
	}
	return values
}

func askOne(t *testing.T, query string) int64 {
	t.Helper()
	values := ask[int64](t, query)
	require.Len(t, values, 1)
	return values[0]
}

// requireAllApplied checks the graph against events 0 to n-1: a trace of each,
// of each user the last one, and none that came for the first time after a later
// one of its user. It returns how many applications were repeats.
func requireAllApplied(t *testing.T, label string, n int) (repeats int64) {
	t.Helper()
	require.EqualValues(t, n, askOne(t, fmt.Sprintf("MATCH (t:Trace%s) RETURN count(DISTINCT t.id)", label)), "every event has left its trace")
	require.EqualValues(t, n-1, askOne(t, fmt.Sprintf("MATCH (t:Trace%s) RETURN max(t.id)", label)))
	wrong := askOne(t, fmt.Sprintf(
		"MATCH (u:User%[1]s) WITH u, %[2]d - 1 - (%[2]d - 1 - u.id) %% %[3]d AS last WHERE u.last <> last RETURN count(*)", label, n, users))
	require.Zero(t, wrong, "users whose last event is not the last value")
	require.EqualValues(t, min(n, users), askOne(t, fmt.Sprintf("MATCH (u:User%s) RETURN count(*)", label)))
	require.Zero(t, askOne(t, fmt.Sprintf("MATCH (u:User%s) RETURN sum(u.early)", label)), "events that were applied for the first time after a later one of their user")
	return repeatsIn(t, label)
}

// repeatsIn returns how many applications were repeats.
func repeatsIn(t *testing.T, label string) int64 {
	t.Helper()
	return askOne(t, fmt.Sprintf("MATCH (t:Trace%s) RETURN coalesce(sum(t.times) - count(*), 0)", label))
}
