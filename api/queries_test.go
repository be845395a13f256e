package api_test

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/graphmill/graphmill/api"
	"github.com/graphmill/graphmill/server"
)

// query executes a statement and requires its status. Params are names and values
// in turn.
func (w *world) query(t *testing.T, status int, text string, params ...any) map[string]any {
	t.Helper()
	body := map[string]any{"statement": text}
	if len(params) > 0 {
		values := map[string]any{}
		for i := 0; i < len(params); i += 2 {
			values[params[i].(string)] = params[i+1]
		}
		body["parameters"] = values
	}
	doc, err := json.Marshal(body)
	require.NoError(t, err)
	return w.do(t, status, "POST", "/query", string(doc))
}

// titles are what the notifications of an answer say.
func titles(answer map[string]any) []string {
	var all []string
	for _, n := range answer["notifications"].([]any) {
		all = append(all, n.(map[string]any)["title"].(string))
	}
	return all
}

// quick makes a world in which what is not there is soon told.
func quick(cfg *server.Config) {
	cfg.CreateTimeout, cfg.StartTimeout = 5*time.Second, time.Second
}

const createS = "CREATE KAFKA STREAM s TOPICS events TRANSFORM seen.transform BATCH_INTERVAL 20 START_FROM earliest"

// withStream makes a topic, the module seen and the stream s.
func withStream(t *testing.T, change ...func(*server.Config)) *world {
	t.Helper()
	w := newWorld(t, change...)
	w.do(t, 201, "PUT", "/modules/seen", seenModule)
	require.NoError(t, w.broker.CreateTopic("events", 1, nil))
	w.query(t, 200, createS)
	return w
}

func (w *world) isRunning(t *testing.T) bool {
	t.Helper()
	row := w.query(t, 200, "SHOW STREAMS")["rows"].([]any)[0].([]any)
	return row[6].(bool)
}

func TestAStreamLivesByStatements(t *testing.T) {
	w := newWorld(t, quick)
	w.do(t, 201, "PUT", "/modules/seen", seenModule)

	absent := w.query(t, 404, createS)
	require.Equal(t, "topic_absent", absent["code"])
	require.Contains(t, absent["detail"], "Kafka consumer s cannot find topic")
	unreachable := w.query(t, 503, createS+" BOOTSTRAP_SERVERS '127.0.0.1:1'")
	require.Contains(t, unreachable["detail"], "Failed to initialize Kafka consumer s : Local: Broker transport failure")
	require.Contains(t, unreachable["detail"], "127.0.0.1:1")
	require.Empty(t, w.query(t, 200, "SHOW STREAMS")["rows"], "nothing of it is stored")
	require.Equal(t, "Couldn't find stream 's'", w.query(t, 404, "START STREAM s")["detail"])

	require.NoError(t, w.broker.CreateTopic("events", 1, nil))
	require.Equal(t, map[string]any{
		"columns": []any{}, "rows": []any{},
		"notifications": []any{map[string]any{"severity": "INFO", "code": "CreateStream", "title": "Created stream s."}},
	}, w.query(t, 200, createS+";"))
	exists := w.query(t, 409, createS)
	require.Equal(t, "stream_exists", exists["code"])
	require.Equal(t, "Stream already exists with name 's'", exists["detail"])
	shown := w.query(t, 200, "SHOW STREAMS")
	require.Equal(t, []any{"name", "type", "batch_interval", "batch_size", "transformation_name", "owner", "is running"}, shown["columns"])
	require.Equal(t, []any{[]any{"s", "kafka", 20.0, 1000.0, "seen.transform", nil, false}}, shown["rows"])
	require.Equal(t, []any{}, shown["notifications"])
	require.Equal(t, "Kafka consumer s is already stopped", w.query(t, 409, "STOP STREAM s")["detail"])

	// CHECK is repeated as often as one likes, and START reads all of it.
	w.produce(t, "events", "a", "b\xff")
	var checked map[string]any
	for range 3 {
		checked = w.query(t, 200, "CHECK STREAM s BATCH_LIMIT 1 TIMEOUT 60000")
		require.Equal(t, []any{"queries", "raw messages"}, checked["columns"])
		require.Equal(t, []string{"Checked stream s."}, titles(checked))
		row := checked["rows"].([]any)[0].([]any)
		require.Equal(t, []any{map[string]any{"query": "MERGE (:Seen {n: $n})", "parameters": map[string]any{"n": 9007199254740993.0}}}, row[0])
		require.Equal(t, "a", row[1].([]any)[0])
	}
	require.Zero(t, w.sink.count())
	early := w.query(t, 504, "CHECK STREAM s BATCH_LIMIT 50 TIMEOUT 4000")
	require.Equal(t, "check_timeout", early["code"])
	require.Contains(t, early["detail"], "Kafka consumer s check failed: timeout reached; ")
	require.Contains(t, early["next_step"], "CHECK STREAM s FROM earliest")
	require.Equal(t, "Kafka consumer s check failed: Batch limit has to be positive!", w.query(t, 422, "CHECK STREAM s BATCH_LIMIT 0")["detail"])

	require.Equal(t, []string{"Started stream s."}, titles(w.query(t, 200, "START STREAM s")))
	require.Equal(t, "Kafka consumer s is already running", w.query(t, 409, "START STREAM s")["detail"])
	require.Equal(t, "Kafka consumer s is already running", w.query(t, 409, "START STREAM s BATCH_LIMIT 1")["detail"])
	require.Equal(t, "Kafka consumer s is already running", w.query(t, 409, "CHECK STREAM s")["detail"])
	require.True(t, w.isRunning(t))
	require.Eventually(t, func() bool { return w.sink.count() > 0 }, time.Minute, 10*time.Millisecond)

	require.Equal(t, []string{"Altered stream s."}, titles(w.query(t, 200, "ALTER STREAM s SET BATCH_SIZE 7 CONFIGS {'client.id': 'x'}")))
	require.True(t, w.isRunning(t), "a change does not stop it")
	statement := w.query(t, 200, "SHOW CREATE STREAM s")["rows"].([]any)[0].([]any)[1].(string)
	require.Contains(t, statement, "BATCH_SIZE 7\n  CONFIGS {'client.id': 'x'}")

	require.Equal(t, []string{"Stopped stream s."}, titles(w.query(t, 200, "STOP STREAM s")))
	require.False(t, w.isRunning(t))
	require.Equal(t, []string{"Dropped stream s."}, titles(w.query(t, 200, "DROP STREAM s")))
	require.Equal(t, "Couldn't find stream 's'", w.query(t, 404, "DROP STREAM s")["detail"])
	warned := titles(w.query(t, 200, statement))
	require.Equal(t, "Created stream s.", warned[0], "what is shown makes the stream again")
	require.Contains(t, warned[1], `the consumer group "mg_consumer" has positions already`)
}

func TestALimitedStart(t *testing.T) {
	w := withStream(t, quick)
	require.Equal(t, "Starting Kafka consumer s failed: Batch limit has to be greater than or equal to 1", w.query(t, 422, "START STREAM s BATCH_LIMIT 0")["detail"])
	require.Equal(t, "Parameter TIMEOUT can only be defined if BATCH_LIMIT is defined", w.query(t, 422, "START STREAM s TIMEOUT 5")["detail"])
	late := w.query(t, 504, "START STREAM s BATCH_LIMIT 1 TIMEOUT 300")
	require.Equal(t, "start_timeout", late["code"])
	require.Contains(t, late["detail"], "Starting Kafka consumer s failed: Timeout reached; ")
	require.False(t, w.isRunning(t))
	w.produce(t, "events", "a")
	done := w.query(t, 200, "START STREAM s BATCH_LIMIT 1")
	require.Equal(t, map[string]any{"columns": []any{}, "rows": []any{}, "notifications": []any{}}, done)
	require.Equal(t, 1, w.sink.count())
	require.False(t, w.isRunning(t))
}

func TestAllStreamsByStatements(t *testing.T) {
	w := withStream(t, quick)
	w.query(t, 200, "CREATE KAFKA STREAM lame TOPICS events TRANSFORM gone.f CONSUMER_GROUP other")
	w.query(t, 200, "CREATE KAFKA STREAM other TOPICS events TRANSFORM seen.transform CONSUMER_GROUP third")
	w.query(t, 200, "START STREAM other")
	told := titles(w.query(t, 200, "START ALL STREAMS"))
	require.Len(t, told, 2, "one that runs already is no news")
	require.Equal(t, "Started all streams.", told[0])
	require.Contains(t, told[1], "Stream lame: Couldn't find transformation gone.f for stream 'lame'")
	require.Equal(t, []string{"Stopped all streams."}, titles(w.query(t, 200, "STOP ALL STREAMS")))
	require.Equal(t, []string{"Stopped all streams."}, titles(w.query(t, 200, "STOP ALL STREAMS")))
}

func TestIsRunning(t *testing.T) {
	w := newWorld(t, quick)
	w.do(t, 201, "PUT", "/modules/loop", loopModule)
	require.NoError(t, w.broker.CreateTopic("events", 1, nil))
	w.query(t, 200, "CREATE KAFKA STREAM s TOPICS events TRANSFORM loop.transform TIME_LIMIT 20 START_FROM earliest")
	require.False(t, w.isRunning(t), "stopped")
	w.query(t, 200, "START STREAM s")
	require.True(t, w.isRunning(t), "running")

	// A stream that has failed counts as stopped, and START tries again.
	failed := func() {
		require.Eventually(t, func() bool { return !w.isRunning(t) }, time.Minute, 20*time.Millisecond)
		require.Equal(t, "failed", w.do(t, 200, "GET", "/streams/s", "")["state"])
	}
	w.produce(t, "events", "a")
	failed()
	w.query(t, 200, "START STREAM s")
	failed()
	row := w.query(t, 200, "CALL mg.stream_status('s') YIELD state, reason, last_error")["rows"].([]any)[0].([]any)
	require.Equal(t, "failed", row[0])
	require.NotEmpty(t, row[1])
	require.NotEmpty(t, row[2])
	require.Contains(t, w.query(t, 422, "CHECK STREAM s")["detail"], "Kafka consumer s check failed: ", "it may be checked")
	require.Equal(t, "Kafka consumer s is already stopped", w.query(t, 409, "STOP STREAM s")["detail"])
	shown := w.do(t, 200, "GET", "/streams/s", "")
	require.Equal(t, "stopped", shown["desired"], "and yet a restart of the server does not start it")
	require.Equal(t, "stopped", shown["state"])
	w.query(t, 200, "DROP STREAM s")

	// One that waits counts as running.
	w.do(t, 201, "POST", "/streams", `{"name":"s","topics":["absent"],"transform":"loop","check":false}`)
	w.query(t, 200, "START STREAM s")
	require.Eventually(t, func() bool { return w.do(t, 200, "GET", "/streams/s", "")["state"] == "waiting" }, time.Minute, 20*time.Millisecond)
	require.True(t, w.isRunning(t), "waiting")
	require.Equal(t, "Kafka consumer s is already running", w.query(t, 409, "START STREAM s")["detail"])
	w.query(t, 200, "DROP STREAM s")

	// And so does one that is being checked.
	w.query(t, 200, "CREATE KAFKA STREAM s TOPICS events TRANSFORM loop.transform")
	checked := make(chan map[string]any, 1)
	go func() {
		_, _, answer := send(t, w.base, request{method: "POST", path: "/api/v1/query", contentType: jsonType, body: `{"statement":"CHECK STREAM s TIMEOUT 5000 FROM latest"}`})
		checked <- answer
	}()
	require.Eventually(t, func() bool { return w.isRunning(t) }, time.Minute, time.Millisecond)
	require.Equal(t, "Kafka consumer s is already running", w.query(t, 409, "START STREAM s BATCH_LIMIT 1")["detail"], "a limited start does not wait")
	require.Equal(t, "Kafka consumer s is already stopped", w.query(t, 409, "STOP STREAM s")["detail"], "STOP waits, and then there is nothing to stop")
	require.Equal(t, "check_timeout", (<-checked)["code"])
	require.False(t, w.isRunning(t))
}

func TestTheOwnerIsTheNameOfTheToken(t *testing.T) {
	w := withStream(t)
	tokens := filepath.Join(t.TempDir(), "tokens")
	require.NoError(t, os.WriteFile(tokens, []byte("ana:0123456789abcdef0\n0123456789abcdef1\n"), 0o600))
	known, err := api.OpenTokens(tokens, nil)
	require.NoError(t, err)
	base := serve(t, w.engine, api.Config{Tokens: known})
	create := func(token, stream string) int {
		status, _, _ := send(t, base, request{
			method: "POST", path: "/api/v1/query", contentType: jsonType, header: map[string]string{"Authorization": "Bearer " + token},
			body: `{"statement":"CREATE KAFKA STREAM ` + stream + ` TOPICS events TRANSFORM seen"}`,
		})
		return status
	}
	require.Equal(t, 200, create("0123456789abcdef0", "ofAna"))
	require.Equal(t, 200, create("0123456789abcdef1", "ofNobody"))
	require.Equal(t, 401, create("0123456789abcdef2", "ofAStranger"))
	owners := map[string]any{}
	for _, row := range w.query(t, 200, "SHOW STREAMS")["rows"].([]any) {
		owners[row.([]any)[0].(string)] = row.([]any)[5]
	}
	require.Equal(t, map[string]any{"s": nil, "ofAna": "ana", "ofNobody": nil}, owners)
	w.query(t, 200, "ALTER STREAM ofAna SET BATCH_SIZE 2")
	w.query(t, 200, "START STREAM ofAna")
	require.Equal(t, "ana", w.query(t, 200, "SHOW STREAMS")["rows"].([]any)[0].([]any)[5], "whoever changes or starts it")
}

func TestPositionsAreSetByStatements(t *testing.T) {
	w := withStream(t, quick)
	w.produce(t, "events", "0", "1", "2", "3", "4")
	position := func() any {
		return w.query(t, 200, "CALL mg.stream_status('s') YIELD position")["rows"].([]any)[0].([]any)[0]
	}
	next := func() any {
		raw := w.query(t, 200, "CHECK STREAM s")["rows"].([]any)[0].([]any)[1].([]any)
		return raw[0]
	}
	for _, step := range []struct {
		offset int
		next   any
	}{{3, "3"}, {-1, "0"}, {0, "0"}, {4, "4"}} {
		answer := w.query(t, 200, "CALL mg.kafka_set_stream_offset('s', $n)", "n", step.offset)
		require.Equal(t, []any{}, answer["columns"])
		require.Equal(t, step.next, next())
	}
	w.query(t, 200, "CALL mg.kafka_set_stream_offset('s', -2)")
	require.EqualValues(t, 5, position())
	require.Equal(t, "check_timeout", w.query(t, 504, "CHECK STREAM s TIMEOUT 300")["code"])
	w.query(t, 200, "CALL mg.kafka_set_stream_offset('s', 5)")
	for _, n := range []string{"6", "-3", "9223372036854775807"} {
		refused := w.query(t, 422, "CALL mg.kafka_set_stream_offset('s', "+n+")")
		require.Contains(t, refused["detail"], "Could not set offset of consumer: s. Error: ")
	}
	require.EqualValues(t, 5, position(), "what is refused moves nothing")

	w.query(t, 200, "START STREAM s")
	running := w.query(t, 409, "CALL mg.kafka_set_stream_offset('s', -1)")
	require.Equal(t, "Could not set offset of consumer: s. Error: Kafka consumer s is already running", running["detail"])
	require.Equal(t, "stop it: STOP STREAM s", running["next_step"])
	w.query(t, 200, "STOP STREAM s")

	member, err := kgo.NewClient(kgo.SeedBrokers(w.broker.ListenAddrs()...), kgo.ConsumerGroup("mg_consumer"), kgo.ConsumeTopics("events"), kgo.ClientID("a-stranger"))
	require.NoError(t, err)
	defer member.Close()
	var refused map[string]any
	require.Eventually(t, func() bool {
		_, _, refused = send(t, w.base, request{method: "POST", path: "/api/v1/query", contentType: jsonType, body: `{"statement":"CALL mg.kafka_set_stream_offset('s', -1)"}`})
		return refused["code"] == "group_active"
	}, time.Minute, 20*time.Millisecond)
	require.Contains(t, refused["detail"], "Could not set offset of consumer: s. Error: ")
	require.Contains(t, refused["detail"], "a-stranger", "it names who is in the group")
}

func TestInfoOfAStream(t *testing.T) {
	w := withStream(t)
	w.query(t, 200, "ALTER STREAM s SET CONFIGS {'client.id': 'x'}")
	answer := w.query(t, 200, "CALL mg.kafka_stream_info('s') YIELD *")
	require.Equal(t, []any{"bootstrap_servers", "configs", "consumer_group", "credentials", "topics"}, answer["columns"])
	require.Equal(t, []any{[]any{strings.Join(w.broker.ListenAddrs(), ","), map[string]any{"client.id": "x"}, "mg_consumer", map[string]any{}, []any{"events"}}}, answer["rows"], "the server's brokers where it names none")
	w.query(t, 200, "CREATE KAFKA STREAM c TOPICS events TRANSFORM seen CREDENTIALS {'sasl.username': 'u', 'client.id': $p} CONSUMER_GROUP c", "p", "s3cr3t")
	answer = w.query(t, 200, "CALL mg.kafka_stream_info('c') YIELD credentials AS c")
	require.Equal(t, []any{"c"}, answer["columns"])
	require.Equal(t, []any{[]any{map[string]any{"sasl.username": "<REDUCTED>", "client.id": "<REDUCTED>"}}}, answer["rows"])
	require.Equal(t, "'mg.pulsar_stream_info' can be only used for Pulsar stream sources", w.query(t, 409, "CALL mg.pulsar_stream_info('s')")["detail"])
	require.Equal(t, "Couldn't find stream 'x'", w.query(t, 404, "CALL mg.kafka_stream_info('x')")["detail"])
}

func TestModulesByStatements(t *testing.T) {
	w := newWorld(t)
	content := base64.StdEncoding.EncodeToString([]byte(seenModule))
	require.Empty(t, w.query(t, 200, "CALL mg.transformations()")["rows"])

	made := w.query(t, 200, "CALL mg.create_module_file('seen.wasm', $content) YIELD *", "content", content)
	require.Equal(t, []any{"path"}, made["columns"])
	require.Equal(t, []any{[]any{"seen.wasm"}}, made["rows"])
	require.Equal(t, "File with the same name already exists!", w.query(t, 409, "CALL mg.create_module_file('seen.wasm', $content)", "content", content)["detail"])
	require.Equal(t, []any{[]any{true, "seen.transform", "seen.wasm"}}, w.query(t, 200, "CALL mg.transformations() YIELD *")["rows"])
	files := w.query(t, 200, "CALL mg.get_module_files()")
	require.Equal(t, []any{"is_editable", "path", "sha256", "version"}, files["columns"])
	require.Equal(t, []any{[]any{"seen.wasm"}}, w.query(t, 200, "CALL mg.get_module_files() YIELD path")["rows"])
	require.Equal(t, []any{[]any{content}}, w.query(t, 200, "CALL mg.get_module_file('/seen.wasm')")["rows"])

	other := base64.StdEncoding.EncodeToString([]byte(loopModule))
	w.query(t, 200, "CALL mg.update_module_file('seen.wasm', $content) YIELD *", "content", other[:76]+"\n"+other[76:])
	require.Equal(t, []any{[]any{2.0}}, w.query(t, 200, "CALL mg.get_module_files() YIELD version")["rows"])
	require.Contains(t, w.query(t, 404, "CALL mg.update_module_file('new.wasm', $content)", "content", content)["detail"], "The specified file doesn't exist")
	for text, params := range map[string][]any{
		"CALL mg.create_module_file('new.wasm', 'AGFzbQ==')":        nil, // the magic number alone
		"CALL mg.create_module_file('new.wasm', 'no base64')":       nil,
		"CALL mg.create_module_file('new.py', 'import mgp')":        nil,
		"CALL mg.create_module_file('../new.wasm', $content)":       {"content", content},
		"CALL mg.create_module_file('/etc/a/new.wasm', $content)":   {"content", content},
		"CALL mg.create_module_file('new\\u0000.wasm', $content)":   {"content", content},
		"CALL mg.create_module_file('.wasm', $content)":             {"content", content},
		"CALL mg.create_module_file($name, $content)":               {"content", content, "name", strings.Repeat("x", 1<<20) + ".wasm"},
		"CALL mg.get_module_file('../../etc/passwd')":               nil,
		"CALL mg.get_module_file('')":                               nil,
		"CALL mg.load('../x')":                                      nil,
		"CALL mg.create_module_file('a.wasm', $content) YIELD what": {"content", content},
	} {
		refused := w.query(t, 422, text, params...)
		require.NotEmpty(t, refused["detail"])
		require.Less(t, len(refused["detail"].(string)), 1000)
	}
	require.Len(t, w.query(t, 200, "CALL mg.get_module_files()")["rows"], 1)

	w.query(t, 200, "CALL mg.load('seen')")
	w.query(t, 200, "CALL mg.load_all()")
	require.Contains(t, w.query(t, 404, "CALL mg.load('gone')")["detail"], "Failed to (re)load the module. ")
	damage(t, filepath.Join(w.data, "modules"))
	for _, text := range []string{"CALL mg.load('seen')", "CALL mg.load_all()"} {
		refused := w.query(t, 409, text)
		require.Contains(t, refused["detail"], "Failed to (re)load the module. ", text)
		require.Contains(t, refused["detail"], "seen")
		require.NotEmpty(t, refused["next_step"])
	}

	require.Equal(t, []any{}, w.query(t, 200, "CALL mg.delete_module_file('seen.wasm') YIELD *")["columns"])
	require.Contains(t, w.query(t, 404, "CALL mg.delete_module_file('seen.wasm')")["detail"], "The specified file doesn't exist")
	w.query(t, 200, "CALL mg.load_all()")
}

// damage changes a byte of every file of a folder.
func damage(t *testing.T, dir string) {
	t.Helper()
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	n := 0
	for _, f := range files {
		if f.IsDir() {
			continue
		}
		path := filepath.Join(dir, f.Name())
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		content[len(content)-1] ^= 1
		require.NoError(t, os.Chmod(path, 0o600))
		require.NoError(t, os.WriteFile(path, content, 0o600))
		n++
	}
	require.Positive(t, n)
}

func TestAModuleInUseIsNotDeletedByStatements(t *testing.T) {
	w := withStream(t)
	require.Equal(t, "module_in_use", w.query(t, 409, "CALL mg.delete_module_file('seen.wasm')")["code"])
}

func TestStatusByStatements(t *testing.T) {
	w := withStream(t)
	w.produce(t, "events", "a", "b")
	w.query(t, 200, "START STREAM s")
	require.Eventually(t, func() bool {
		row := w.query(t, 200, "CALL mg.stream_status('s') YIELD topic, partition, position, end, lag, state, module, messages_per_second")["rows"].([]any)[0].([]any)
		return row[4] == 0.0 && row[0] == "events" && row[1] == 0.0 && row[2] == 2.0 && row[3] == 2.0 && row[5] == "running" && row[6] == "seen version 1"
	}, time.Minute, 20*time.Millisecond)
}

// Parameters of every type, right and wrong.
func TestParameters(t *testing.T) {
	w := withStream(t, quick)
	w.query(t, 200, "CREATE KAFKA STREAM $name TOPICS $topics TRANSFORM $f CONSUMER_GROUP $group BATCH_SIZE $size BATCH_INTERVAL $interval BOOTSTRAP_SERVERS $servers CONFIGS $configs CREDENTIALS {'fetch.wait.max.ms': $`a b`} START_FROM $from",
		"name", "p", "topics", []string{"events"}, "f", "seen", "group", "2nd group", "size", 7, "interval", 8, "servers", w.broker.ListenAddrs(),
		"configs", map[string]string{"client.id": "x"}, "a b", "100", "from", "EARLIEST", "not used", nil)
	shown := w.do(t, 200, "GET", "/streams/p", "")
	for field, want := range map[string]any{"batch_size": 7.0, "batch_interval_ms": 8.0, "consumer_group": "2nd group", "transform": "seen", "start_from": "earliest"} {
		require.Equal(t, want, shown[field], field)
	}
	w.produce(t, "events", "a")
	w.query(t, 200, "CHECK STREAM $0 BATCH_LIMIT $n TIMEOUT $t FROM $f", "0", "p", "n", 1, "t", 20000, "f", "2020-01-01T00:00:00Z")

	const create = "CREATE KAFKA STREAM q TOPICS events TRANSFORM seen "
	for _, tc := range []struct {
		text   string
		value  string // JSON
		detail string
	}{
		{create + "BATCH_SIZE $p", `"7"`, "Batch size must be an integer literal!"},
		{create + "BATCH_SIZE $p", `7.5`, "Batch size must be an integer literal!"},
		{create + "BATCH_SIZE $p", `7.0`, "Batch size must be an integer literal!"},
		{create + "BATCH_SIZE $p", `true`, "Batch size must be an integer literal!"},
		{create + "BATCH_SIZE $p", `null`, "Batch size must be an integer literal!"},
		{create + "BATCH_SIZE $p", `[7]`, "Batch size must be an integer literal!"},
		{create + "BATCH_SIZE $p", `{"$type":"Date","_value":"2026-01-31"}`, "Batch size must be an integer literal!"},
		{create + "BATCH_SIZE $p", `99999999999999999999`, "Batch size must be an integer literal!"},
		{create + "BATCH_SIZE $p", `9223372036854775807`, "BATCH_SIZE: "},
		{create + "BATCH_SIZE $p", `-1`, "Batch size has to be positive!"},
		{create + "CONFIGS $p", `{"client.id": 7}`, "Configs must contain only string keys and values!"},
		{create + "CONFIGS $p", `["client.id"]`, "Configs must contain only string keys and values!"},
		{create + "CREDENTIALS {'client.id': $p}", `{"a": "b"}`, "Credentials must contain only string keys and values!"},
		{create + "CREDENTIALS $p", `null`, "Credentials must contain only string keys and values!"},
		{create + "BOOTSTRAP_SERVERS $p", `[]`, "Bootstrap servers must not be an empty string!"},
		{create + "BOOTSTRAP_SERVERS $p", `[null]`, "Bootstrap servers should be a string!"},
		{create + "BOOTSTRAP_SERVERS $p", `""`, "Bootstrap servers must not be an empty string!"},
		{create + "ALLOW $p", `["schema", "schema"]`, "ALLOW: "},
		{"DROP STREAM $p", `["s"]`, "one name stands there, not a list"},
		{"DROP STREAM $p", `7`, "a name is a string"},
		{"DROP STREAM $absent", `7`, "Parameter $absent not provided."},
		{"START STREAM s BATCH_LIMIT $p", `-1`, "Parameter BATCH_LIMIT cannot hold negative value"},
		{"CHECK STREAM s FROM $p", `"yesterday"`, "FROM is committed"},
		{"CALL mg.load($p)", `7`, "must be of type STRING"},
	} {
		answer := w.do(t, 422, "POST", "/query", `{"statement":`+jsonText(t, tc.text)+`,"parameters":{"p":`+tc.value+`}}`)
		require.Contains(t, answer["detail"], tc.detail, "%s with %s", tc.text, tc.value)
	}
	for _, number := range []string{"1e999", strings.Repeat("9", 1<<20)} {
		answer := w.do(t, 400, "POST", "/query", `{"statement":"DROP STREAM $p","parameters":{"p":`+number+`}}`)
		require.Equal(t, "a number is beyond what a float of 64 bits holds", answer["detail"])
	}
	require.Equal(t, "invalid", w.do(t, 422, "POST", "/query", `{"statement":"DROP STREAM $p","parameters":{"p":"a","p":"s"}}`)["code"], "a name given twice")
	require.Equal(t, "invalid", w.do(t, 422, "POST", "/query", `{"statement":"DROP STREAM $p","parameters":{"p":{"a":1,"a":2}}}`)["code"])
	w.query(t, 200, "SHOW CREATE STREAM s")
}

func jsonText(t *testing.T, s string) string {
	t.Helper()
	doc, err := json.Marshal(s)
	require.NoError(t, err)
	return string(doc)
}

// What is wrong with a statement is told with its place.
func TestWhatIsWrongWithAStatementIsToldWithItsPlace(t *testing.T) {
	w := newWorld(t)
	wrong := w.query(t, 422, "CREATE KAFKA STREAM s\n  TOPICS größe\n  TRANSFROM m.f")
	require.Equal(t, "syntax_error", wrong["code"])
	require.Equal(t, map[string]any{"line": 3.0, "column": 3.0, "length": 9.0}, wrong["position"])
	require.Equal(t, "did you mean TRANSFORM?", wrong["next_step"])
	require.Equal(t, "semantic_error", w.query(t, 422, "CREATE KAFKA STREAM s TRANSFORM m.f")["code"])
	require.Equal(t, "not_available_yet", w.query(t, 501, "CREATE PULSAR STREAM s TOPICS t TRANSFORM m.f SERVICE_URL 'pulsar://x' PARALLELISM 2")["code"])
	for _, text := range []string{";", " ", "EXPLAIN SHOW STREAMS", "PROFILE START STREAM s", "SHOW STREAMS; SHOW STREAMS", "BEGIN"} {
		require.Equal(t, "syntax_error", w.query(t, 422, text)["code"], text)
	}
	w.query(t, 422, "")
	w.do(t, 422, "POST", "/query", `{}`)
	w.do(t, 400, "POST", "/query", "{\"statement\":\"SHOW \xff\"}")
	w.do(t, 422, "POST", "/query", `{"statement":"`+strings.Repeat("x", 1<<20+1)+`"}`)
}
