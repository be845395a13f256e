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
)

// broker is Kafka or Pulsar, in tests that both have to pass.
type broker interface {
	// serve starts a program that reads from the broker unless a stream says otherwise.
	serve(t *testing.T, args ...string) *program

	// topic makes a topic named for the test. A test with several gives each a suffix.
	topic(t *testing.T, partitions int, suffix ...string) string

	// stream is a definition that reads a topic from its beginning and leaves traces.
	stream(name, topic, label string) map[string]any

	// feed makes the feed of such a stream.
	feed(t *testing.T, stream, topic, label string) feed

	// standing is where the stream's group or subscription is, for comparison.
	standing(t *testing.T, stream, topic string) string

	// members returns how many members or consumers read for the stream.
	members(t *testing.T, stream, topic string) int

	// awaitShared waits until so many servers share the topic, each with a part of it
	// as far as partitions go round.
	awaitShared(t *testing.T, stream, topic string, servers, partitions int)

	// unacknowledged is what the stream has still to do, as the broker counts it:
	// messages or entries.
	unacknowledged(t *testing.T, stream, topic string) int64

	Kill() error
	Restart(ctx context.Context) error
}

// sendAll sends events first to last-1 to a topic of the broker, by a feed of its own.
func sendAll(t *testing.T, f feed, first, last int) {
	t.Helper()
	defer f.close()
	require.NoError(t, f.send(t.Context(), first, last))
}

// topicName is the name of a test's topic.
func topicName(t *testing.T, suffix ...string) string {
	return strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(t.Name() + strings.Join(suffix, "")))
}

// event is one message of the tests: id is its own, and several share a user,
// within which seq rises.
type event struct {
	ID   int `json:"id"`
	User int `json:"user"`
}

// users is how many keys the events are spread over.
const users = 997

// keyed returns event i as a message: its key is the user.
func keyed(i int) (key, value []byte, err error) {
	e := event{ID: i, User: i % users}
	value, err = json.Marshal(e)
	return fmt.Append(nil, e.User), value, err
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
