package query_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/api/query"
	"github.com/graphmill/graphmill/api/statement"
	"github.com/graphmill/graphmill/server"
)

// fake is an engine with one stream, s, that answers every command as it is told.
type fake struct {
	query.Engine // what is not set is a panic

	info    server.StreamInfo
	err     error // of every command
	changed []server.Changed
	batches []server.CheckBatch
	status  graphmill.StreamStatus
	modules []graphmill.Module

	got any // the last request
}

func (f *fake) CreateStream(_ context.Context, r server.CreateRequest) (server.StreamInfo, error) {
	f.got = r
	return f.info, f.err
}
func (f *fake) Streams(context.Context) ([]server.StreamInfo, error) {
	return []server.StreamInfo{f.info}, f.err
}
func (f *fake) Stream(_ context.Context, name string) (server.StreamInfo, error) {
	if name != "s" {
		return server.StreamInfo{}, graphmill.NotFound("stream_not_found", "there is no stream %q", name)
	}
	return f.info, nil
}
func (f *fake) DeleteStream(context.Context, string, server.DeleteRequest) error { return f.err }
func (f *fake) StartStream(_ context.Context, _ string, r server.StartRequest) (server.StartResult, error) {
	f.got = r
	return server.StartResult{}, f.err
}
func (f *fake) StopStream(context.Context, string) (server.StreamInfo, error) { return f.info, f.err }
func (f *fake) StartAll(context.Context) ([]server.Changed, error)            { return f.changed, f.err }
func (f *fake) StopAll(context.Context) ([]server.Changed, error)             { return f.changed, f.err }
func (f *fake) PatchStream(_ context.Context, _ string, r server.PatchRequest) (server.PatchResult, error) {
	f.got = r
	return server.PatchResult{StreamInfo: f.info}, f.err
}
func (f *fake) CheckStream(_ context.Context, _ string, r server.CheckRequest) ([]server.CheckBatch, error) {
	f.got = r
	return f.batches, f.err
}
func (f *fake) StreamStatus(context.Context, string) (graphmill.StreamStatus, error) {
	return f.status, f.err
}
func (f *fake) SetStreamOffsets(_ context.Context, _ string, r server.SetOffsetsRequest) (graphmill.OffsetsInfo, error) {
	f.got = r
	return graphmill.OffsetsInfo{}, f.err
}
func (f *fake) Modules(context.Context) ([]graphmill.Module, error) { return f.modules, f.err }
func (f *fake) DeleteModule(context.Context, string) error          { return f.err }
func (f *fake) RecheckModules(_ context.Context, name string) error {
	f.got = name
	return f.err
}

func newFake() *fake {
	return &fake{info: server.StreamInfo{
		Spec:  graphmill.StreamSpec{Name: "s", Topics: []string{"t"}, Transform: "m.f", ConsumerGroup: "mg_consumer"}.WithDefaults(),
		State: graphmill.StateStopped, Desired: graphmill.StateStopped, Brokers: []string{"b:1", "b:2"},
	}}
}

func run(f *fake, text string) (query.Result, error) {
	return query.Run(context.Background(), f, query.Request{Statement: text, Owner: "ana"})
}

// What a statement tells when it is done: columns, rows and notifications.
func TestResults(t *testing.T) {
	none := []string{}
	info := func(code, title string) []query.Notification {
		return []query.Notification{{Severity: "INFO", Code: code, Title: title}}
	}
	for text, want := range map[string]query.Result{
		"CREATE KAFKA STREAM s TOPICS t TRANSFORM m.f": {Columns: none, Notifications: info("CreateStream", "Created stream s.")},
		"ALTER STREAM s SET BATCH_SIZE 2":              {Columns: none, Notifications: info("AlterStream", "Altered stream s.")},
		"START STREAM s":                               {Columns: none, Notifications: info("StartStream", "Started stream s.")},
		"START STREAM s BATCH_LIMIT 1":                 {Columns: none},
		"START ALL STREAMS":                            {Columns: none, Notifications: info("StartAllStreams", "Started all streams.")},
		"STOP STREAM s":                                {Columns: none, Notifications: info("StopStream", "Stopped stream s.")},
		"STOP ALL STREAMS":                             {Columns: none, Notifications: info("StopAllStreams", "Stopped all streams.")},
		"DROP STREAM s":                                {Columns: none, Notifications: info("DropStream", "Dropped stream s.")},
		"SHOW STREAMS": {
			Columns: []string{"name", "type", "batch_interval", "batch_size", "transformation_name", "owner", "is running"},
			Rows:    [][]graphmill.Value{{"s", "kafka", int64(100), int64(1000), "m.f", nil, false}},
		},
		"SHOW CREATE STREAM s": {
			Columns: []string{"name", "statement"},
			Rows:    [][]graphmill.Value{{"s", "CREATE KAFKA STREAM s\n  TOPICS t\n  TRANSFORM m.f\n  CONSUMER_GROUP mg_consumer\n  BATCH_INTERVAL 100\n  BATCH_SIZE 1000"}},
		},
		"CHECK STREAM s": {
			Columns: []string{"queries", "raw messages"},
			Rows: [][]graphmill.Value{{
				[]any{map[string]any{"query": "MERGE (n {a: $a})", "parameters": map[string]any{"a": int64(1)}}, map[string]any{"query": "RETURN 1", "parameters": nil}},
				[]any{"one", "\xff", ""},
			}},
			Notifications: info("CheckStream", "Checked stream s."),
		},
		"CALL mg.kafka_set_stream_offset('s', -1)": {Columns: none},
		"CALL mg.kafka_stream_info('s')": {
			Columns: []string{"bootstrap_servers", "configs", "consumer_group", "credentials", "topics"},
			Rows:    [][]graphmill.Value{{"b:1,b:2", map[string]any{}, "mg_consumer", map[string]any{}, []any{"t"}}},
		},
		"CALL mg.kafka_stream_info('s') YIELD topics AS t, consumer_group": {
			Columns: []string{"t", "consumer_group"}, Rows: [][]graphmill.Value{{[]any{"t"}, "mg_consumer"}},
		},
		"CALL mg.transformations() YIELD *": {
			Columns: []string{"is_editable", "name", "path"},
			Rows:    [][]graphmill.Value{{true, "m.f", "m.wasm"}, {true, "m.g", "m.wasm"}, {false, "cypher.event", "cypher.wasm"}},
		},
		"CALL mg.get_module_files() YIELD path":        {Columns: []string{"path"}, Rows: [][]graphmill.Value{{"m.wasm"}, {"cypher.wasm"}}},
		"CALL mg.procedures()":                         {Columns: []string{"is_editable", "is_write", "name", "path", "signature"}},
		"CALL mg.functions() YIELD name":               {Columns: []string{"name"}},
		"CALL mg.load('m')":                            {Columns: none},
		"CALL mg.load_all() YIELD *":                   {Columns: none},
		"CALL mg.delete_module_file('m.wasm') YIELD *": {Columns: none},
	} {
		t.Run(text, func(t *testing.T) {
			f := newFake()
			f.modules = []graphmill.Module{{Name: "m", Version: 2, Transformations: []string{"f", "g"}}, {Name: "cypher", ReadOnly: true, Transformations: []string{"event"}}}
			q, plain := &graphmill.Query{Text: "MERGE (n {a: $a})"}, &graphmill.Query{Text: "RETURN 1"}
			f.batches = []server.CheckBatch{{
				Messages: []graphmill.Message{{Payload: []byte("one")}, {Payload: []byte("\xff")}, {}},
				Output:   graphmill.Output{Statements: []graphmill.Statement{{Query: q, Params: map[string]any{"a": int64(1)}}, {Query: plain}}},
			}}
			got, err := run(f, text)
			require.NoError(t, err)
			require.Equal(t, want, got)
		})
	}
}

// What the engine is asked for.
func TestRequests(t *testing.T) {
	spec := graphmill.StreamSpec{Name: "s", Source: "kafka", Topics: []string{"t"}, Transform: "m.f", ConsumerGroup: "mg_consumer"}
	for text, want := range map[string]any{
		"CREATE KAFKA STREAM s TOPICS t TRANSFORM m.f": server.CreateRequest{Spec: spec, Check: true, Owner: "ana"},
		"ALTER STREAM s SET TOPICS a FROM earliest":    server.PatchRequest{Patch: []byte(`{"topics":["a"]}`), From: "earliest", Check: true},
		"START STREAM s":                                                         server.StartRequest{},
		"START STREAM s BATCH_LIMIT 3":                                           server.StartRequest{BatchLimit: 3, AtOnce: true},
		"START STREAM s BATCH_LIMIT 3 TIMEOUT 50":                                server.StartRequest{BatchLimit: 3, Timeout: 50 * time.Millisecond, AtOnce: true},
		"START STREAM s BATCH_LIMIT 1 TIMEOUT 18446744073711":                    server.StartRequest{BatchLimit: 1, Timeout: 9223372036854 * time.Millisecond, AtOnce: true},
		"CHECK STREAM s":                                                         server.CheckRequest{BatchLimit: 1, Timeout: 30 * time.Second, From: "committed", Alone: true, All: true},
		"CHECK STREAM s BATCH_LIMIT 2 TIMEOUT 1 FROM latest":                     server.CheckRequest{BatchLimit: 2, Timeout: time.Millisecond, From: "latest", Alone: true, All: true},
		"CHECK STREAM s TIMEOUT 9223372036854775807 FROM '2026-01-31T12:00:00Z'": server.CheckRequest{BatchLimit: 1, Timeout: 9223372036854 * time.Millisecond, From: "2026-01-31T12:00:00Z", Alone: true, All: true},
		"CALL mg.kafka_set_stream_offset('s', -1)":                               server.SetOffsetsRequest{To: "earliest"},
		"CALL mg.kafka_set_stream_offset('s', -2)":                               server.SetOffsetsRequest{To: "latest"},
		"CALL mg.kafka_set_stream_offset('s', 0)":                                server.SetOffsetsRequest{To: "0"},
		"CALL mg.kafka_set_stream_offset('s', 9223372036854775807)":              server.SetOffsetsRequest{To: "9223372036854775807"},
		"CALL mg.load('m')":                                                      "m",
		"CALL mg.load_all()":                                                     "",
	} {
		t.Run(text, func(t *testing.T) {
			f := newFake()
			_, err := run(f, text)
			require.NoError(t, err)
			require.Equal(t, want, f.got)
		})
	}
}

// refused is an error of the engine.
func refused(code, field string) *graphmill.Error {
	return &graphmill.Error{Kind: graphmill.KindConflict, Code: code, Field: field, Text: "why", Err: errors.New("cause"), Next: "next"}
}

// Errors of the engine, in the words of statements.
func TestErrors(t *testing.T) {
	unchecked := func(code string) *graphmill.Error {
		return &graphmill.Error{Kind: graphmill.KindUnavailable, Code: code, Text: "why", Next: "create it; or do it all the same " + server.Unchecked}
	}
	const create = "CREATE KAFKA STREAM s TOPICS t TRANSFORM m.f"
	const offset = "CALL mg.kafka_set_stream_offset('s', 1)"
	for _, tc := range []struct {
		text string
		err  error
		want string
		next string
	}{
		{create, refused("stream_exists", ""), "Stream already exists with name 's'", "to change it: ALTER STREAM s SET ...; to begin anew: DROP STREAM s"},
		{create, refused("broker_unreachable", ""), "Failed to initialize Kafka consumer s : Local: Broker transport failure: why: cause", "next"},
		{create, refused("topic_absent", ""), "Kafka consumer s cannot find topic: why: cause", "next"},
		{create, refused("invalid", "batch_interval_ms"), "Failed to initialize Kafka consumer s : BATCH_INTERVAL: why: cause", "next"},
		{create, refused("invalid", "settings.query"), "Failed to initialize Kafka consumer s : SETTINGS.query: why: cause", "next"},
		{create, refused("invalid", "elsewhere"), "Failed to initialize Kafka consumer s : elsewhere: why: cause", "next"},
		{create, refused("auth", ""), "Failed to initialize Kafka consumer s : why: cause", "next"},
		{create, unchecked("topic_absent"), "Kafka consumer s cannot find topic: why", "create it; or do it all the same with graphmill apply, which takes CREATE statements too"},
		{"ALTER STREAM s SET BATCH_SIZE 2", unchecked("topic_absent"), "why", "create it; or do it all the same with graphmill stream edit --no-check"},
		{"ALTER STREAM s SET BATCH_SIZE 2", refused("invalid", "batch_size"), "BATCH_SIZE: why: cause", "next"},
		{"START STREAM s", refused("already_running", ""), "Kafka consumer s is already running", "next"},
		{"START STREAM s", refused("module_not_found", ""), "Couldn't find transformation m.f for stream 's': why: cause", "next"},
		{"START STREAM s", refused("group_shared", ""), "why: cause", "next"},
		{"START STREAM 'nö'", graphmill.NotFound("stream_not_found", "x"), "Couldn't find stream 'nö'", "SHOW STREAMS tells which there are"},
		{"START STREAM s BATCH_LIMIT 1", refused("start_timeout", ""), "Starting Kafka consumer s failed: Timeout reached; why: cause", "next"},
		{"START STREAM s BATCH_LIMIT 1", refused("function_not_found", ""), "Couldn't find transformation m.f for stream 's': why: cause", "next"},
		{"START STREAM s BATCH_LIMIT 1", refused("already_running", ""), "Kafka consumer s is already running", "next"},
		{"START STREAM s BATCH_LIMIT 1", refused("invalid", "batch_limit"), "Starting Kafka consumer s failed: BATCH_LIMIT: why: cause", "next"},
		{"START STREAM s BATCH_LIMIT 0", nil, "Starting Kafka consumer s failed: Batch limit has to be greater than or equal to 1", ""},
		{"START STREAM s BATCH_LIMIT 1 TIMEOUT 0", nil, "Starting Kafka consumer s failed: Timeout has to be greater than or equal to 1 milliseconds", ""},
		{"STOP STREAM s", refused("already_stopped", ""), "Kafka consumer s is already stopped", "next"},
		{"DROP STREAM x", graphmill.NotFound("stream_not_found", "x"), "Couldn't find stream 'x'", "SHOW STREAMS tells which there are"},
		{"CHECK STREAM s BATCH_LIMIT 0", nil, "Kafka consumer s check failed: Batch limit has to be positive!", ""},
		{"CHECK STREAM s TIMEOUT 0", nil, "Kafka consumer s check failed: Timeout has to be positive!", ""},
		{"CHECK STREAM s", refused("check_timeout", ""), "Kafka consumer s check failed: timeout reached; why: cause", "wait longer with TIMEOUT, or look at old messages: CHECK STREAM s FROM earliest"},
		{"CHECK STREAM s", refused("transformation_failed", ""), "Kafka consumer s check failed: why: cause", "next"},
		{"CHECK STREAM s", refused("already_running", ""), "Kafka consumer s is already running", "next"},
		{"CHECK STREAM s", &graphmill.Fault{Class: graphmill.FaultTransient, Code: "x", Text: "why", Err: errors.New("cause")}, "Kafka consumer s check failed: why: cause", ""},
		{offset, refused("stream_running", ""), "Could not set offset of consumer: s. Error: Kafka consumer s is already running", "stop it: STOP STREAM s"},
		{offset, refused("group_active", ""), "Could not set offset of consumer: s. Error: why: cause", "next"},
		{offset, refused("invalid", "set"), "Could not set offset of consumer: s. Error: offset: why: cause", "give an offset that every partition has, -1 for the beginning or -2 for the end; in one partition: graphmill stream offsets s --set OFFSET --partition TOPIC/NUMBER"},
		{"CALL mg.kafka_set_stream_offset('s', -3)", nil, "Could not set offset of consumer: s. Error: -3 is no offset", "-1 is the beginning, -2 the end, a number from 0 on that offset of every partition"},
		{"CALL mg.kafka_set_stream_offset('x', 1)", nil, "Couldn't find stream 'x'", "SHOW STREAMS tells which there are"},
		{"CALL mg.pulsar_stream_info('s')", nil, "'mg.pulsar_stream_info' can be only used for Pulsar stream sources", ""},
		{"CALL mg.kafka_stream_info('x')", nil, "Couldn't find stream 'x'", "SHOW STREAMS tells which there are"},
		{"SHOW CREATE STREAM x", nil, "Couldn't find stream 'x'", "SHOW STREAMS tells which there are"},
		{"CALL mg.stream_status('x')", graphmill.NotFound("stream_not_found", "x"), "Couldn't find stream 'x'", "SHOW STREAMS tells which there are"},
		{"CALL mg.load('m')", refused("module_bytes_damaged", ""), "Failed to (re)load the module. why: cause", "next"},
		{"CALL mg.get_module_file('m.py')", nil, "The specified file isn't in the supported format.", "a module is a file NAME.wasm; modules in Python are not available yet"},
		{"CALL mg.delete_module_file('m.wasm')", graphmill.NotFound("module_not_found", "why"), "The specified file doesn't exist: why", ""},
		{"CALL mg.create_module_file('m.wasm', 'AGFzbQ==')", nil, "File with the same name already exists!", "CALL mg.update_module_file makes another version of it"},
		{"CALL mg.update_module_file('x.wasm', 'AGFzbQ==')", nil, `The specified file doesn't exist: there is no module "x"`, ""},
		{"CALL mg.create_module_file('x.wasm', 'import mgp')", nil, "content: the content is not a WebAssembly module in base64", "write base64 -w0 FILE; or push the file itself: graphmill module push x FILE"},
		{"CALL mg.create_module_file('../x.wasm', 'AGFzbQ==')", nil, "", ""},
		{"CALL mg.lod_all()", nil, "There is no procedure named 'mg.lod_all'", "did you mean mg.load_all?"},
		{"CALL mg.load_all(1)", nil, "'mg.load_all' takes 0 arguments, 1 are given: mg.load_all()", ""},
		{"CALL mg.kafka_set_stream_offset('s')", nil, "'mg.kafka_set_stream_offset' takes 2 arguments, 1 are given: mg.kafka_set_stream_offset(stream_name :: STRING, offset :: INTEGER)", ""},
		{"CALL mg.kafka_set_stream_offset('s', '1')", nil, "'mg.kafka_set_stream_offset' argument named 'offset' at position 1 must be of type INTEGER", ""},
		{"CALL mg.kafka_set_stream_offset('s', 1.0)", nil, "'mg.kafka_set_stream_offset' argument named 'offset' at position 1 must be of type INTEGER", ""},
		{"CALL mg.kafka_set_stream_offset(NULL, 1)", nil, "'mg.kafka_set_stream_offset' argument named 'stream_name' at position 0 must be of type STRING", ""},
		{"CALL mg.transformations() YIELD nme", nil, "'mg.transformations' does not yield a result named 'nme'", "it yields is_editable, name, path"},
		{"CALL mg.load_all() YIELD x", nil, "'mg.load_all' does not yield a result named 'x'", ""},
	} {
		t.Run(tc.text, func(t *testing.T) {
			f := newFake()
			f.err = tc.err
			f.modules = []graphmill.Module{{Name: "m"}}
			r, err := run(f, tc.text)
			require.Equal(t, query.Result{}, r, "an error comes alone")
			var e *graphmill.Error
			require.ErrorAs(t, err, &e)
			if tc.want != "" {
				require.Equal(t, tc.want, e.Error())
				require.Equal(t, tc.next, e.Next)
			}
			require.NotEqual(t, graphmill.KindInternal, e.Kind)
		})
	}
}

// A defect is told by nobody but the log.
func TestInternalErrorsStayAsTheyAre(t *testing.T) {
	defect := errors.New("bbolt: page 7 is broken")
	for _, err := range []error{defect, &graphmill.Error{Kind: graphmill.KindInternal, Text: "page 7"}, context.Canceled} {
		for _, text := range []string{"START STREAM s", "CREATE KAFKA STREAM s TOPICS t TRANSFORM m.f", "SHOW STREAMS", "CALL mg.load_all()", "CALL mg.stream_status('s')", "CALL mg.transformations()", "START ALL STREAMS"} {
			f := newFake()
			f.err = err
			_, got := run(f, text)
			require.Same(t, err, got, text)
		}
	}
	f := newFake()
	f.changed = []server.Changed{{StreamInfo: f.info, Err: defect}}
	r, err := run(f, "START ALL STREAMS")
	require.NoError(t, err)
	require.Equal(t, []query.Notification{
		{Severity: "INFO", Code: "StartAllStreams", Title: "Started all streams."},
		{Severity: "WARNING", Code: "StartAllStreams", Title: "Stream s: internal error", Description: "the server's log tells more"},
	}, r.Notifications)
}

func TestAllTellsWhatFailed(t *testing.T) {
	f := newFake()
	running := f.info
	running.State, running.Spec.Name = graphmill.StateRunning, "r"
	f.changed = []server.Changed{{StreamInfo: running}, {StreamInfo: f.info, Err: &graphmill.Error{Kind: graphmill.KindConflict, Code: "module_not_found", Text: "there is no module", Next: "push it"}}}
	r, err := run(f, "START ALL STREAMS")
	require.NoError(t, err)
	require.Equal(t, []query.Notification{
		{Severity: "INFO", Code: "StartAllStreams", Title: "Started all streams."},
		{Severity: "WARNING", Code: "StartAllStreams", Title: "Stream s: Couldn't find transformation m.f for stream 's': there is no module", Description: "push it"},
	}, r.Notifications)
}

// A stream that has failed counts as stopped: STOP is refused, and yet what it is
// for is done.
func TestStopOfAFailedStream(t *testing.T) {
	f := newFake()
	f.info.HadFailed = true
	_, err := run(f, "STOP STREAM s")
	require.ErrorContains(t, err, "Kafka consumer s is already stopped")
	require.Equal(t, graphmill.KindConflict, graphmill.KindOf(err))
}

func TestIsRunningInEachState(t *testing.T) {
	for state, running := range map[graphmill.State]bool{
		graphmill.StateStopped: false, graphmill.StateStarting: true, graphmill.StateRunning: true, graphmill.StateDraining: true,
		graphmill.StateWaiting: true, graphmill.StateFailed: false, graphmill.StateBroken: false,
	} {
		f := newFake()
		f.info.State = state
		for _, busy := range []bool{false, true} {
			f.info.Busy = busy
			r, err := run(f, "SHOW STREAMS")
			require.NoError(t, err)
			require.Equal(t, running || busy, r.Rows[0][6], state)
		}
	}
}

// Of a stream whose entry of the catalog cannot be read there is no definition.
func TestBrokenStreams(t *testing.T) {
	f := newFake()
	f.info = server.StreamInfo{Spec: graphmill.StreamSpec{Name: "s"}, State: graphmill.StateBroken, Reason: &graphmill.Reason{Code: "entry_broken", Text: "it cannot be read", NextStep: "drop it"}}
	for _, text := range []string{"SHOW CREATE STREAM s", "CALL mg.kafka_stream_info('s')", "CALL mg.pulsar_stream_info('s')"} {
		_, err := run(f, text)
		require.EqualError(t, err, "it cannot be read", text)
	}
	r, err := run(f, "SHOW STREAMS")
	require.NoError(t, err)
	require.Equal(t, "s", r.Rows[0][0])
}

// What is said of a Pulsar stream.
func TestPulsarStreams(t *testing.T) {
	f := newFake()
	f.info.Spec = graphmill.StreamSpec{Name: "s", Source: "pulsar", Topics: []string{"a", "persistent://x/y/z"}, Transform: "m.f"}.WithDefaults()
	f.info.Brokers = []string{"pulsar://one:6650,two:6650"}

	r, err := run(f, "SHOW STREAMS")
	require.NoError(t, err)
	require.Equal(t, "pulsar", r.Rows[0][1])

	r, err = run(f, "CALL mg.pulsar_stream_info('s') YIELD *")
	require.NoError(t, err)
	require.Equal(t, []string{"service_url", "topics"}, r.Columns)
	require.Equal(t, [][]graphmill.Value{{"pulsar://one:6650,two:6650", []any{"a", "persistent://x/y/z"}}}, r.Rows)

	r, err = run(f, "SHOW CREATE STREAM s")
	require.NoError(t, err)
	require.Equal(t, "CREATE PULSAR STREAM s\n  TOPICS a, 'persistent://x/y/z'\n  TRANSFORM m.f\n  SUBSCRIPTION s\n  BATCH_INTERVAL 100\n  BATCH_SIZE 1000", r.Rows[0][1])

	r, err = run(f, "DROP STREAM s")
	require.NoError(t, err)
	require.Len(t, r.Notifications, 2)
	require.Equal(t, query.SeverityWarning, r.Notifications[1].Severity)
	require.Contains(t, r.Notifications[1].Title, `the subscription "s" stays with Pulsar`)

	for _, c := range []struct {
		statement string
		err       error
		told      string
	}{
		{"CREATE PULSAR STREAM s TOPICS t TRANSFORM m.f", refused("broker_unreachable", ""), "Failed to initialize Pulsar consumer s : ConnectError: why: cause"},
		{"CREATE PULSAR STREAM s TOPICS t TRANSFORM m.f", refused("topic_absent", ""), "Pulsar consumer s cannot find topic: why: cause"},
		{"CREATE PULSAR STREAM s TOPICS t TRANSFORM m.f", refused("auth", ""), "Failed to initialize Pulsar consumer s : why: cause"},
		{"START STREAM s", refused("already_running", ""), "Pulsar consumer s is already running"},
		{"START STREAM s BATCH_LIMIT 1", refused("start_timeout", ""), "Starting Pulsar consumer s failed: Timeout reached; why: cause"},
		{"STOP STREAM s", refused("already_stopped", ""), "Pulsar consumer s is already stopped"},
		{"CHECK STREAM s", refused("check_timeout", ""), "Pulsar consumer s check failed: timeout reached; why: cause"},
		{"CALL mg.kafka_stream_info('s')", nil, "'mg.kafka_stream_info' can be only used for Kafka stream sources"},
		{"CALL mg.kafka_set_stream_offset('s', -1)", nil, "'mg.kafka_set_stream_offset' can be only used for Kafka stream sources"},
	} {
		f.err = c.err
		_, err := run(f, c.statement)
		require.EqualError(t, err, c.told, c.statement)
	}

	f.info.Spec.Topics, f.info.Spec.TopicsPattern = nil, "a.*"
	f.err = nil
	r, err = run(f, "CALL mg.pulsar_stream_info('s') YIELD topics")
	require.NoError(t, err)
	require.Equal(t, [][]graphmill.Value{{[]any{"a.*"}}}, r.Rows)
}

func TestSecretsAreReducted(t *testing.T) {
	f := newFake()
	f.info.Spec.Configs = map[string]string{"client.id": "x", "ssl.key.password": "s3cr3t", "sasl.password": "secret:broker"}
	f.info.Spec.Credentials = map[string]string{"sasl.username": "s3cr3t", "sasl.password": "secret:broker"}
	r, err := run(f, "CALL mg.kafka_stream_info('s') YIELD configs, credentials")
	require.NoError(t, err)
	require.Equal(t, []graphmill.Value{
		map[string]any{"client.id": "x", "ssl.key.password": "<REDUCTED>", "sasl.password": "secret:broker"},
		map[string]any{"sasl.username": "<REDUCTED>", "sasl.password": "<REDUCTED>"},
	}, r.Rows[0])
	r, err = run(f, "SHOW CREATE STREAM s")
	require.NoError(t, err)
	require.NotContains(t, r.Rows[0][1], "s3cr3t")
	require.Contains(t, r.Rows[0][1], "CREDENTIALS {'sasl.password': 'secret:broker', 'sasl.username': '********'}")
}

func TestFailuresOfMessagesAreToldWithinBounds(t *testing.T) {
	f := newFake()
	b := server.CheckBatch{Messages: make([]graphmill.Message, 100)}
	for i := range b.Messages {
		b.Messages[i].Topic, b.Messages[i].Offset = "t", int64(i)
		b.Output.Failures = append(b.Output.Failures, graphmill.Failure{Message: i, Text: "no JSON"})
	}
	f.batches = []server.CheckBatch{b}
	r, err := run(f, "CHECK STREAM s")
	require.NoError(t, err)
	require.Len(t, r.Notifications, 22)
	require.Equal(t, "The transformation could not handle message t/0@0: no JSON", r.Notifications[1].Title)
	require.Equal(t, "80 more messages failed", r.Notifications[21].Title)
}

func TestErrorsRepeatLittleOfAName(t *testing.T) {
	_, err := run(newFake(), "SHOW CREATE STREAM '"+strings.Repeat("x", 100_000)+"'")
	require.Error(t, err)
	require.Less(t, len(err.Error()), 300)
}

func TestStatus(t *testing.T) {
	f := newFake()
	f.status = graphmill.StreamStatus{State: graphmill.StateStopped}
	r, err := run(f, "CALL mg.stream_status('s')")
	require.NoError(t, err)
	require.Equal(t, []string{"end", "lag", "last_error", "messages_per_second", "module", "next_step", "partition", "position", "reason", "state", "topic"}, r.Columns)
	require.Equal(t, [][]graphmill.Value{{nil, nil, nil, nil, nil, nil, nil, nil, nil, "stopped", nil}}, r.Rows, "a row without a partition where none is known")

	f.status = graphmill.StreamStatus{State: graphmill.StateFailed, Reason: &graphmill.Reason{Code: "message", Text: "why", NextStep: "mend it"}}
	r, err = run(f, "CALL mg.stream_status('s') YIELD reason, next_step")
	require.NoError(t, err)
	require.Equal(t, [][]graphmill.Value{{"message: why", "mend it"}}, r.Rows)
}

func TestWhatIsNoStatement(t *testing.T) {
	_, err := run(newFake(), "MATCH (n) RETURN n")
	var e *statement.Error
	require.ErrorAs(t, err, &e)
}
