//go:build e2e

package integration_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/graphmill/graphmill"
)

// What Memgraph's own end-to-end tests say of its streams, said of ours: through
// the statements, on a real broker.

// queried is the answer to a statement.
type queried struct {
	Columns       []string `json:"columns"`
	Rows          [][]any  `json:"rows"`
	Notifications []struct {
		Severity string `json:"severity"`
		Code     string `json:"code"`
		Title    string `json:"title"`
	} `json:"notifications"`
}

// query executes a statement that must succeed.
func (p *program) query(format string, args ...any) queried {
	p.t.Helper()
	var q queried
	p.do("POST", "/query", map[string]any{"statement": fmt.Sprintf(format, args...)}, &q)
	return q
}

// refused executes a statement that must fail, and returns what is said.
func (p *program) refused(format string, args ...any) string {
	p.t.Helper()
	status, answer := p.call("POST", "/api/v1/query", map[string]any{"statement": fmt.Sprintf(format, args...)}, nil)
	require.GreaterOrEqual(p.t, status, 400, answer)
	require.Less(p.t, status, 600)
	var problem struct{ Detail string }
	require.NoError(p.t, json.Unmarshal([]byte(answer), &problem))
	return problem.Detail
}

// running is what SHOW STREAMS says of a stream; nil: it is not in the list.
func (p *program) running(name string) any {
	p.t.Helper()
	for _, row := range p.query("SHOW STREAMS").Rows {
		if row[0] == name {
			return row[6]
		}
	}
	return nil
}

// shown are the messages that a CHECK has shown, by batch.
func shown(q queried) (batches []string) {
	for _, row := range q.Rows {
		var payloads []string
		for _, m := range row[1].([]any) {
			payloads = append(payloads, m.(string))
		}
		batches = append(batches, strings.Join(payloads, " "))
	}
	return batches
}

// send sends payloads to partition 0, in order.
func send(t *testing.T, topic string, payloads ...string) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(world.kafka.Brokers()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	require.NoError(t, err)
	defer cl.Close()
	for _, payload := range payloads {
		require.NoError(t, cl.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: []byte(payload)}).FirstErr())
	}
}

// fickle pushes the guest that does what a message says. It makes nodes of the label
// Message; each test has payloads of its own.
func (p *program) fickle() {
	p.t.Helper()
	module, err := os.ReadFile(filepath.Join(world.dir, "fickle.wasm"))
	require.NoError(p.t, err)
	p.do("PUT", "/modules/fickle", module, nil)
}

// stored returns the payloads in the graph that begin so, in the order of their
// offsets.
func stored(t *testing.T, prefix string) []string {
	t.Helper()
	return ask[string](t, fmt.Sprintf("MATCH (m:Message) WHERE m.payload STARTS WITH '%s' RETURN m.payload ORDER BY m.offset", prefix))
}

func awaitStored(t *testing.T, prefix string, want ...string) {
	t.Helper()
	require.Eventually(t, func() bool { return len(stored(t, prefix)) >= len(want) }, patience, 50*time.Millisecond)
	require.Equal(t, want, stored(t, prefix))
}

func TestKafkaStatementsMakeAStream(t *testing.T) {
	topic, label := topicOf(t, 1), labelOf(t)
	p := serve(t)
	created := p.query("CREATE KAFKA STREAM ratings TOPICS %s TRANSFORM cypher.event SETTINGS {'query': %s}", topic, quoted(traceQuery(label)))
	require.Empty(t, created.Columns)
	require.Empty(t, created.Rows)
	require.Equal(t, "Created stream ratings.", created.Notifications[0].Title)
	require.Equal(t, []string{"name", "type", "batch_interval", "batch_size", "transformation_name", "owner", "is running"}, p.query("SHOW STREAMS").Columns)
	require.Equal(t, [][]any{{"ratings", "kafka", 100.0, 1000.0, "cypher.event", nil, false}}, p.query("SHOW STREAMS").Rows)
	require.Equal(t, "Stream already exists with name 'ratings'", p.refused("CREATE KAFKA STREAM ratings TOPICS %s TRANSFORM cypher.event", topic))
	require.Contains(t, p.refused("CREATE KAFKA STREAM other TOPICS %s-absent TRANSFORM cypher.event", topic), "Kafka consumer other cannot find topic")
	require.Contains(t, p.refused("CREATE KAFKA STREAM other TOPICS %s TRANSFORM cypher.event BOOTSTRAP_SERVERS '127.0.0.1:1'", topic), "Local: Broker transport failure")

	require.Equal(t, "Started stream ratings.", p.query("START STREAM ratings").Notifications[0].Title)
	require.Equal(t, true, p.running("ratings"))
	require.Equal(t, "Kafka consumer ratings is already running", p.refused("START STREAM ratings"))
	require.NoError(t, produce(t.Context(), topic, 0, 2000))
	p.awaitDone("ratings", 1)
	require.Zero(t, requireAllApplied(t, label, 2000))
	require.EqualValues(t, 2000, committed(t, "mg_consumer", topic)[0], "statements have Memgraph's default group")

	require.Equal(t, "Stopped stream ratings.", p.query("STOP STREAM ratings").Notifications[0].Title)
	require.Equal(t, "Kafka consumer ratings is already stopped", p.refused("STOP STREAM ratings"))
	require.Equal(t, "Dropped stream ratings.", p.query("DROP STREAM ratings").Notifications[0].Title)
	require.Equal(t, "Couldn't find stream 'ratings'", p.refused("DROP STREAM ratings"))

	// The group goes on where it was.
	p.query("CREATE KAFKA STREAM again TOPICS %s TRANSFORM cypher.event SETTINGS {'query': %s}", topic, quoted(traceQuery(label)))
	require.NoError(t, produce(t.Context(), topic, 2000, 3000))
	p.query("START STREAM again")
	p.awaitDone("again", 1)
	require.Zero(t, requireAllApplied(t, label, 3000), "nothing is read again")
}

func quoted(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + "'"
}

func TestKafkaCheckShowsBatchesAndChangesNothing(t *testing.T) {
	topic := topicOf(t, 1)
	p := serve(t)
	p.fickle()
	p.query("CREATE KAFKA STREAM checked TOPICS %s TRANSFORM fickle.transform BATCH_SIZE 2 BATCH_INTERVAL 1000 CONSUMER_GROUP %s", topic, topic)
	why := p.refused("CHECK STREAM checked TIMEOUT 500")
	require.Contains(t, why, "Kafka consumer checked check failed: timeout reached")
	require.Contains(t, why, "a new group begins at latest", "it says why there was nothing")
	send(t, topic, "before")
	require.Contains(t, p.refused("CHECK STREAM checked TIMEOUT 500"), "timeout reached", "a new group begins at latest")
	require.Equal(t, []string{"before"}, shown(p.query("CHECK STREAM checked FROM earliest")))

	// START settles where it begins, and so does all that comes after.
	p.query("START STREAM checked")
	p.query("STOP STREAM checked")
	send(t, topic, "check-a", "drop", "twice", "check-b", "check-c")
	for range 3 {
		q := p.query("CHECK STREAM checked BATCH_LIMIT 3 TIMEOUT 60000")
		require.Equal(t, []string{"queries", "raw messages"}, q.Columns)
		require.Equal(t, []string{"check-a drop", "twice check-b", "check-c"}, shown(q), "CHECK can be repeated")
		var queries []int
		for _, row := range q.Rows {
			queries = append(queries, len(row[0].([]any)))
		}
		require.Equal(t, []int{1, 3, 1}, queries, "fewer and more queries than messages")
		first := q.Rows[0][0].([]any)[0].(map[string]any)
		require.Equal(t, "check-a", first["parameters"].(map[string]any)["payload"])
	}
	require.Contains(t, p.refused("CHECK STREAM checked BATCH_LIMIT 0"), "Batch limit has to be positive!")
	require.Contains(t, p.refused("CHECK STREAM checked TIMEOUT 0"), "Timeout has to be positive!")
	require.Empty(t, stored(t, "check-"), "nothing is executed")
	p.query("START STREAM checked")
	awaitStored(t, "check-", "check-a", "check-b", "check-c")
	require.Equal(t, "Kafka consumer checked is already running", p.refused("CHECK STREAM checked"))
}

func TestKafkaABatchIsClosedBySizeOrInterval(t *testing.T) {
	first, second := topicOf(t, 1, "-a"), topicOf(t, 1, "-b")
	p := serve(t)
	p.fickle()
	p.query("CREATE KAFKA STREAM several TOPICS %s, '%s' TRANSFORM fickle.transform BATCH_SIZE 3 BATCH_INTERVAL 1500 CONSUMER_GROUP %s START_FROM earliest", first, second, first)
	p.query("START STREAM several")
	began := time.Now()
	send(t, first, "several-1", "several-2")
	send(t, second, "several-3")
	require.Eventually(t, func() bool { return len(stored(t, "several-")) == 3 }, patience, 20*time.Millisecond, "a full batch does not wait for its interval")
	bySize := time.Since(began)
	began = time.Now()
	send(t, first, "several-4")
	require.Eventually(t, func() bool { return len(stored(t, "several-")) == 4 }, patience, 20*time.Millisecond)
	t.Logf("by size after %v, by interval after %v", bySize, time.Since(began))
	s := p.status("several")
	require.EqualValues(t, 1, s.Counters.BatchesClosed["size"])
	require.EqualValues(t, 1, s.Counters.BatchesClosed["interval"])
	for _, statement := range []string{"BATCH_SIZE 0", "BATCH_INTERVAL 0"} {
		require.Contains(t, p.refused("CREATE KAFKA STREAM bad TOPICS %s TRANSFORM fickle.transform %s", first, statement), "has to be positive!")
	}
}

func TestKafkaALimitedStartIsSynchronous(t *testing.T) {
	topic := topicOf(t, 1)
	p := serve(t)
	p.fickle()
	p.query("CREATE KAFKA STREAM limited TOPICS %s TRANSFORM fickle.transform BATCH_SIZE 2 CONSUMER_GROUP %s START_FROM earliest", topic, topic)
	send(t, topic, "limited-1", "limited-2", "limited-3", "limited-4", "limited-5")
	q := p.query("START STREAM limited BATCH_LIMIT 1 TIMEOUT 60000")
	require.Empty(t, q.Notifications, "Memgraph sends none")
	require.Equal(t, []string{"limited-1", "limited-2"}, stored(t, "limited-"), "it answers when it is done")
	require.Equal(t, false, p.running("limited"))
	require.EqualValues(t, 2, committed(t, topic, topic)[0])

	require.Contains(t, p.refused("START STREAM limited BATCH_LIMIT 100 TIMEOUT 2000"), "Starting Kafka consumer limited failed: Timeout reached")
	require.Equal(t, []string{"limited-1", "limited-2", "limited-3", "limited-4", "limited-5"}, stored(t, "limited-"), "what was committed by then stays")
	require.Equal(t, false, p.running("limited"))
	require.Contains(t, p.refused("START STREAM limited TIMEOUT 5"), "TIMEOUT can only be defined if BATCH_LIMIT is defined")
	require.Contains(t, p.refused("START STREAM limited BATCH_LIMIT 0"), "Batch limit has to be greater than or equal to 1")

	// It is not what is desired: a server that is killed meanwhile does not go on.
	var wg sync.WaitGroup
	wg.Go(func() {
		_, _ = p.tryQuery("START STREAM limited BATCH_LIMIT 1 TIMEOUT 60000") // the server ends under it
	})
	p.await("limited", "it runs", inState(graphmill.StateRunning))
	require.Equal(t, true, p.running("limited"))
	require.Equal(t, "Kafka consumer limited is already running", p.refused("CHECK STREAM limited"), "at once")
	p.kill()
	wg.Wait()
	p.start()
	require.Equal(t, false, p.running("limited"))
}

// tryQuery is query for a statement that may fail in any way.
func (p *program) tryQuery(format string, args ...any) (string, error) {
	out, err := p.command("", "query", fmt.Sprintf(format, args...)).CombinedOutput()
	return string(out), err
}

func TestKafkaCommandsDuringACheck(t *testing.T) {
	topic := topicOf(t, 1)
	p := serve(t)
	p.fickle()
	p.query("CREATE KAFKA STREAM busy TOPICS %s TRANSFORM fickle.transform CONSUMER_GROUP %s START_FROM earliest", topic, topic)
	checked := make(chan string, 1)
	go func() {
		out, err := p.tryQuery("CHECK STREAM busy TIMEOUT 60000")
		checked <- fmt.Sprint(out, err)
	}()
	require.Eventually(t, func() bool { return p.running("busy") == true }, patience, 20*time.Millisecond, "it is shown as running meanwhile")
	require.Contains(t, p.refused("START STREAM busy BATCH_LIMIT 1"), "is already running", "a limited start fails at once")
	require.Contains(t, p.refused("CHECK STREAM busy"), "is already running")
	stopped, started := make(chan string, 1), make(chan error, 1)
	go func() {
		out, _ := p.tryQuery("STOP STREAM busy")
		stopped <- out
		_, err := p.tryQuery("START STREAM busy")
		started <- err
	}()
	send(t, topic, "busy-1")
	require.Contains(t, <-checked, "busy-1")
	require.Contains(t, <-stopped, "Kafka consumer busy is already stopped", "STOP waits, and then finds it stopped")
	require.NoError(t, <-started)
	awaitStored(t, "busy-", "busy-1")
	require.Equal(t, true, p.running("busy"))
}

func TestKafkaOffsetsAreSetByProcedure(t *testing.T) {
	topic := topicOf(t, 1)
	p := serve(t)
	p.fickle()
	p.query("CREATE KAFKA STREAM moved TOPICS %s TRANSFORM fickle.transform CONSUMER_GROUP %s START_FROM earliest BATCH_SIZE 100", topic, topic)
	var payloads []string
	for i := range 20 {
		payloads = append(payloads, fmt.Sprintf("moved-%02d", i+1))
	}
	send(t, topic, payloads...)
	next := func() string { return strings.Split(shown(p.query("CHECK STREAM moved"))[0], " ")[0] }
	p.query("CALL mg.kafka_set_stream_offset('moved', 10)")
	require.Equal(t, "moved-11", next())
	require.EqualValues(t, 10, committed(t, topic, topic)[0], "in the group at once")
	p.kill()
	p.start()
	p.query("START STREAM moved")
	awaitStored(t, "moved-", payloads[10:]...)
	require.Contains(t, p.refused("CALL mg.kafka_set_stream_offset('moved', -1)"), "is already running")
	p.query("STOP STREAM moved")
	p.query("CALL mg.kafka_set_stream_offset('moved', -1)")
	require.Equal(t, "moved-01", next(), "-1 is the beginning")
	p.query("CALL mg.kafka_set_stream_offset('moved', -2)")
	require.Contains(t, p.refused("CHECK STREAM moved TIMEOUT 500"), "timeout reached", "-2 is the end")
	send(t, topic, "moved-21")
	require.Equal(t, "moved-21", next())
	require.Contains(t, p.refused("CALL mg.kafka_set_stream_offset('absent', -1)"), "Couldn't find stream 'absent'")

	// Somebody else in the group keeps it from being moved, and is named.
	cl, err := kgo.NewClient(kgo.SeedBrokers(world.kafka.Brokers()...), kgo.ConsumerGroup(topic), kgo.ConsumeTopics(topic), kgo.ClientID("somebody-else"), kgo.DisableAutoCommit())
	require.NoError(t, err)
	defer cl.Close()
	awaitMembers(t, topic, 1, 1)
	require.Contains(t, p.refused("CALL mg.kafka_set_stream_offset('moved', -1)"), "somebody-else")
}

func TestKafkaARestartKeepsWhatRunsAndWhatIsStopped(t *testing.T) {
	topic := topicOf(t, 1)
	p := serve(t)
	p.fickle()
	for _, name := range []string{"on", "off", "failing"} {
		p.query("CREATE KAFKA STREAM %s TOPICS %s TRANSFORM fickle.transform CONSUMER_GROUP %s", name, topic, topic+"."+name)
	}
	p.query("START STREAM on")
	p.query("START STREAM failing")
	p.query("STOP STREAM on")
	p.query("START STREAM on")
	require.Equal(t, [3]any{true, false, true}, [3]any{p.running("on"), p.running("off"), p.running("failing")})
	p.kill()
	p.start()
	require.Equal(t, [3]any{true, false, true}, [3]any{p.running("on"), p.running("off"), p.running("failing")})
	p.await("failing", "it runs", inState(graphmill.StateRunning))
	p.await("on", "it runs", inState(graphmill.StateRunning))
	send(t, topic, "restart-1", "fail")
	p.await("failing", "it has failed", inState(graphmill.StateFailed))
	require.Equal(t, false, p.running("failing"), "one that has failed counts as stopped")
	p.terminate()
	p.start()
	require.Equal(t, false, p.running("failing"))
	require.Equal(t, "Kafka consumer failing is already stopped", p.refused("STOP STREAM failing"))

	all := p.query("START ALL STREAMS")
	require.Equal(t, "Started all streams.", all.Notifications[0].Title)
	require.Equal(t, true, p.running("off"))
	require.Equal(t, "Stopped all streams.", p.query("STOP ALL STREAMS").Notifications[0].Title)
	require.Equal(t, false, p.running("off"))
}

func TestKafkaTheProceduresTellOfStreams(t *testing.T) {
	topic := topicOf(t, 2)
	p := serve(t)
	p.query("CREATE KAFKA STREAM told TOPICS %s TRANSFORM cypher.event SETTINGS {'query': 'RETURN $event'} CONSUMER_GROUP %s CONFIGS {'client.id': 'me'} CREDENTIALS {'client.rack': 'planted-secret'}", topic, topic)
	info := p.query("CALL mg.kafka_stream_info('told') YIELD *")
	require.Equal(t, []string{"bootstrap_servers", "configs", "consumer_group", "credentials", "topics"}, info.Columns)
	require.Equal(t, []any{map[string]any{"client.id": "me"}, topic, map[string]any{"client.rack": "<REDUCTED>"}, []any{topic}}, info.Rows[0][1:])
	require.Contains(t, p.refused("CALL mg.pulsar_stream_info('told')"), "'mg.pulsar_stream_info' can be only used for Pulsar stream sources")
	named := p.query("CALL mg.transformations() YIELD name AS transformation, is_editable")
	require.Equal(t, []string{"transformation", "is_editable"}, named.Columns)
	require.Contains(t, named.Rows, []any{"cypher.event", false})
	p.query("CALL mg.load_all()")

	p.query("START STREAM told")
	require.NoError(t, produce(t.Context(), topic, 0, 10))
	p.awaitDone("told", 2)
	status := p.query("CALL mg.stream_status('told') YIELD partition, position, end, lag, state")
	require.Len(t, status.Rows, 2)
	sum := 0.0
	for _, row := range status.Rows {
		require.Equal(t, []any{0.0, "running"}, row[3:])
		sum += row[1].(float64)
	}
	require.EqualValues(t, 10, sum)
}
