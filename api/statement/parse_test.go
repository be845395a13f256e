package statement_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/api/statement"
)

func ptr(n int64) *int64 { return &n }

func kafka(change func(s *graphmill.StreamSpec)) *statement.Create {
	spec := graphmill.StreamSpec{Name: "s", Source: "kafka", Topics: []string{"t"}, Transform: "m.f", ConsumerGroup: "mg_consumer"}
	change(&spec)
	return &statement.Create{Spec: spec}
}

// What Memgraph accepts, and what is accepted beyond it on purpose.
func TestAccepted(t *testing.T) {
	params := map[string]any{
		"name": "s", "topic": "t", "topics": []any{"t", "u"}, "f": "m.f", "n": int64(7), "empty": map[string]any{},
		"configs": map[string]any{"a": "b"}, "word": "LATEST", "a b": "x", "0": "zero",
	}
	group := func(g string) func(*graphmill.StreamSpec) {
		return func(s *graphmill.StreamSpec) { s.ConsumerGroup = g }
	}
	topics := func(names ...string) func(*graphmill.StreamSpec) {
		return func(s *graphmill.StreamSpec) { s.Topics = names }
	}
	servers := func(names ...string) func(*graphmill.StreamSpec) {
		return func(s *graphmill.StreamSpec) { s.BootstrapServers = names }
	}
	for text, want := range map[string]statement.Statement{
		// The verbs, as Memgraph's unit tests have them.
		"CREATE KAFKA STREAM s TOPICS t TRANSFORM m.f":  kafka(func(*graphmill.StreamSpec) {}),
		"CREATE KAFKA STREAM s TOPICS t TRANSFORM m.f;": kafka(func(*graphmill.StreamSpec) {}),
		"DROP STREAM s":                               &statement.Drop{Name: "s"},
		"drop stream s":                               &statement.Drop{Name: "s"},
		"DrOp StReAm Stream":                          &statement.Drop{Name: "Stream"},
		"START STREAM s":                              &statement.Start{Name: "s"},
		"START STREAM s BATCH_LIMIT 1":                &statement.Start{Name: "s", Limits: statement.Limits{BatchLimit: ptr(1)}},
		"START STREAM s BATCH_LIMIT 0x10 TIMEOUT 010": &statement.Start{Name: "s", Limits: statement.Limits{BatchLimit: ptr(16), TimeoutMS: ptr(8)}},
		"START STREAM s BATCH_LIMIT 0":                &statement.Start{Name: "s", Limits: statement.Limits{BatchLimit: ptr(0)}},
		"START STREAM all BATCH_LIMIT $n":             &statement.Start{Name: "all", Limits: statement.Limits{BatchLimit: ptr(7)}},
		"START ALL STREAMS":                           &statement.StartAll{},
		"STOP STREAM s":                               &statement.Stop{Name: "s"},
		"STOP ALL STREAMS ;":                          &statement.StopAll{},
		"SHOW STREAMS":                                &statement.Show{},
		"CHECK STREAM s":                              &statement.Check{Name: "s"},
		"CHECK STREAM s BATCH_LIMIT 2":                &statement.Check{Name: "s", Limits: statement.Limits{BatchLimit: ptr(2)}},
		"CHECK STREAM s TIMEOUT 30":                   &statement.Check{Name: "s", Limits: statement.Limits{TimeoutMS: ptr(30)}},
		"CHECK STREAM s BATCH_LIMIT 2 TIMEOUT 30":     &statement.Check{Name: "s", Limits: statement.Limits{BatchLimit: ptr(2), TimeoutMS: ptr(30)}},

		// Names: keywords, backticks, strings, parameters.
		"DROP STREAM kafka":             &statement.Drop{Name: "kafka"},
		"DROP STREAM `a ``b`":           &statement.Drop{Name: "a `b"},
		"DROP STREAM 's'":               &statement.Drop{Name: "s"},
		"DROP STREAM $name":             &statement.Drop{Name: "s"},
		"DROP STREAM $`a b`":            &statement.Drop{Name: "x"},
		"DROP STREAM $0":                &statement.Drop{Name: "zero"},
		"DROP STREAM größe":             &statement.Drop{Name: "größe"},
		"DROP STREAM my-stream.v2-beta": &statement.Drop{Name: "my-stream.v2-beta"},

		// White space and comments.
		"/* c */ SHOW // to the end\n\t STREAMS /**/": &statement.Show{},
		"SHOW\u00a0STREAMS":                           &statement.Show{},

		// Topics.
		"CREATE KAFKA STREAM s TOPICS topic1_name.with_multiple.dots TRANSFORM m.f":           kafka(topics("topic1_name.with_multiple.dots")),
		"CREATE KAFKA STREAM s TOPICS topic-name.with-multiple.dots-and-dashes TRANSFORM m.f": kafka(topics("topic-name.with-multiple.dots-and-dashes")),
		"CREATE KAFKA STREAM s TOPICS a, b-c ,d.e TRANSFORM m.f":                              kafka(topics("a", "b-c", "d.e")),
		"CREATE KAFKA STREAM s TOPICS 'a,b' TRANSFORM m.f":                                    kafka(topics("a", "b")),
		"CREATE KAFKA STREAM s TOPICS 'a, b' TRANSFORM m.f":                                   kafka(topics("a", "b")),
		"CREATE KAFKA STREAM s TOPICS 'a', \"b\" TRANSFORM m.f":                               kafka(topics("a", "b")),
		"CREATE KAFKA STREAM s TOPICS `2nd`.`3`, '4th' TRANSFORM m.f":                         kafka(topics("2nd.3", "4th")),
		"CREATE KAFKA STREAM s TOPICS $topic TRANSFORM m.f":                                   kafka(topics("t")),
		"CREATE KAFKA STREAM s TOPICS $topics TRANSFORM m.f":                                  kafka(topics("t", "u")),
		"CREATE KAFKA STREAM s TOPICS ['t', 'u'] TRANSFORM m.f":                               kafka(topics("t", "u")),
		"CREATE KAFKA STREAM s TRANSFORM m.f TOPICS TRANSFORM":                                kafka(topics("TRANSFORM")),
		"CREATE KAFKA STREAM topics TOPICS topics TRANSFORM transform": kafka(func(s *graphmill.StreamSpec) {
			s.Name, s.Topics, s.Transform = "topics", []string{"topics"}, "transform"
		}),

		// The other options, in any order.
		"CREATE KAFKA STREAM s TOPICS t TRANSFORM m.f CONSUMER_GROUP my-group.first": kafka(group("my-group.first")),
		"CREATE KAFKA STREAM s TOPICS t TRANSFORM m.f CONSUMER_GROUP '1st group'":    kafka(group("1st group")),
		"CREATE KAFKA STREAM s TOPICS t TRANSFORM $f CONSUMER_GROUP $name":           kafka(group("s")),
		"CREATE KAFKA STREAM s TOPICS t TRANSFORM m.f BATCH_INTERVAL 324 BATCH_SIZE 1": kafka(func(s *graphmill.StreamSpec) {
			s.BatchIntervalMS, s.BatchSize = 324, 1
		}),
		"CREATE KAFKA STREAM s BATCH_SIZE 0x1F BATCH_INTERVAL 0o17 TRANSFORM m.f TOPICS t": kafka(func(s *graphmill.StreamSpec) {
			s.BatchIntervalMS, s.BatchSize = 15, 31
		}),
		"CREATE KAFKA STREAM s TOPICS t TRANSFORM m.f BATCH_SIZE $n":                      kafka(func(s *graphmill.StreamSpec) { s.BatchSize = 7 }),
		"CREATE KAFKA STREAM s TOPICS t TRANSFORM m.f BOOTSTRAP_SERVERS 'localhost:9092'": kafka(servers("localhost:9092")),
		"CREATE KAFKA STREAM s TOPICS t TRANSFORM m.f BOOTSTRAP_SERVERS 'h1:1, h2:2'":     kafka(servers("h1:1", "h2:2")),
		"CREATE KAFKA STREAM s TOPICS t TRANSFORM m.f BOOTSTRAP_SERVERS ['h1:1', 'h2:2']": kafka(servers("h1:1", "h2:2")),
		"CREATE KAFKA STREAM s TOPICS t TRANSFORM m.f BOOTSTRAP_SERVERS 'h1:1', 'h2:2'":   kafka(servers("h1:1", "h2:2")),
		"CREATE KAFKA STREAM s TOPICS t TRANSFORM m.f BOOTSTRAP_SERVERS $topics":          kafka(servers("t", "u")),
		"CREATE KAFKA STREAM s TOPICS t TRANSFORM m.f CONFIGS {}":                         kafka(func(s *graphmill.StreamSpec) { s.Configs = map[string]string{} }),
		"CREATE KAFKA STREAM s TOPICS t TRANSFORM m.f CONFIGS $empty":                     kafka(func(s *graphmill.StreamSpec) { s.Configs = map[string]string{} }),
		"CREATE KAFKA STREAM s TOPICS t TRANSFORM m.f CONFIGS {'a': 'b', 'c.d': $name} CREDENTIALS $configs": kafka(func(s *graphmill.StreamSpec) {
			s.Configs, s.Credentials = map[string]string{"a": "b", "c.d": "s"}, map[string]string{"a": "b"}
		}),
		`CREATE KAFKA STREAM s TOPICS t TRANSFORM m.f SETTINGS {'query': "MERGE (n {a: 'b\n\u00e4\U0001F600\uD83D\uDE00'}) // 'x'; y"}`: kafka(func(s *graphmill.StreamSpec) {
			s.Settings = map[string]string{"query": "MERGE (n {a: 'b\nä😀😀'}) // 'x'; y"}
		}),
		"CREATE KAFKA STREAM s TOPICS t TRANSFORM m.f START_FROM EARLIEST DELIVERY AT_LEAST_ONCE ON_FAILURE stop COALESCE Off ALLOW schema, LOAD_CSV DATABASE movies BATCH_BYTES 1 MEMORY_LIMIT 2 TIME_LIMIT 3 RESPONSE_LIMIT 4": kafka(func(s *graphmill.StreamSpec) {
			s.StartFrom, s.Delivery, s.OnFailure, s.Coalesce, s.Allow, s.Database = "earliest", "at_least_once", "stop", "off", []string{"schema", "load_csv"}, "movies"
			s.BatchBytes, s.MemoryLimit, s.TimeLimitMS, s.ResponseLimit = 1, 2, 3, 4
		}),
		"CREATE KAFKA STREAM s TOPICS t TRANSFORM m.f START_FROM '2026-01-31T12:00:00Z'": kafka(func(s *graphmill.StreamSpec) { s.StartFrom = "2026-01-31T12:00:00Z" }),

		// As clients and examples write them.
		"CREATE KAFKA STREAM s TOPICS a,b TRANSFORM m.f CONSUMER_GROUP g BATCH_INTERVAL 9999 BATCH_SIZE 99 BOOTSTRAP_SERVERS 'localhost:9092';": kafka(func(s *graphmill.StreamSpec) {
			s.Topics, s.ConsumerGroup, s.BatchIntervalMS, s.BatchSize, s.BootstrapServers = []string{"a", "b"}, "g", 9999, 99, []string{"localhost:9092"}
		}),
		"CREATE KAFKA STREAM s TOPICS t TRANSFORM m.f BATCH_SIZE 99;":                   kafka(func(s *graphmill.StreamSpec) { s.BatchSize = 99 }),
		"CREATE KAFKA STREAM s TOPICS t TRANSFORM m.f BOOTSTRAP_SERVERS 'h1', 'h2';":    kafka(servers("h1", "h2")),
		"CREATE KAFKA STREAM s TOPICS t TRANSFORM m.f BOOTSTRAP_SERVERS \"kafka:9092\"": kafka(servers("kafka:9092")),
		"START STREAM comment_stream;":                                                  &statement.Start{Name: "comment_stream"},
		"SHOW STREAMS;":                                                                 &statement.Show{},
		"DROP STREAM comment_stream;":                                                   &statement.Drop{Name: "comment_stream"},
		"CREATE KAFKA STREAM s TOPICS t TRANSFORM m.f BOOTSTRAP_SERVERS 'get.memgraph.com:9093' CREDENTIALS {'sasl.username':'public','sasl.password':'public','security.protocol':'SASL_PLAINTEXT','sasl.mechanism':'PLAIN'};": kafka(func(s *graphmill.StreamSpec) {
			s.BootstrapServers = []string{"get.memgraph.com:9093"}
			s.Credentials = map[string]string{"sasl.username": "public", "sasl.password": "public", "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
		}),
		"CREATE KAFKA STREAM s\nTOPICS 'a.b-v0'\nTRANSFORM m.f\nCONSUMER_GROUP mg_consumer\nBATCH_INTERVAL 10000\nBATCH_SIZE 1000\nBOOTSTRAP_SERVERS 'pkc.cloud:9092'\nCONFIGS {\"security.protocol\": \"SASL_SSL\", \"sasl.mechanism\": \"PLAIN\"}": kafka(func(s *graphmill.StreamSpec) {
			s.Topics, s.BatchIntervalMS, s.BatchSize, s.BootstrapServers = []string{"a.b-v0"}, 10000, 1000, []string{"pkc.cloud:9092"}
			s.Configs = map[string]string{"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}
		}),
		"CALL mg.create_module_file('m.wasm', $topic) YIELD *;": &statement.Call{Procedure: "mg.create_module_file", Arguments: []any{"m.wasm", "t"}},
		"CALL mg.get_module_files() YIELD path;":                &statement.Call{Procedure: "mg.get_module_files", Yield: []statement.Yield{{Name: "path", As: "path"}}},
		"CALL mg.delete_module_file('m.wasm') YIELD *;":         &statement.Call{Procedure: "mg.delete_module_file", Arguments: []any{"m.wasm"}},

		// Ours.
		"SHOW CREATE STREAM s":                &statement.ShowCreate{Name: "s"},
		"CHECK STREAM s FROM earliest":        &statement.Check{Name: "s", From: "earliest"},
		"CHECK STREAM s TIMEOUT 1 FROM $word": &statement.Check{Name: "s", Limits: statement.Limits{TimeoutMS: ptr(1)}, From: "latest"},
		"ALTER STREAM s SET TOPICS a, b BATCH_SIZE NULL COALESCE NULL CONFIGS {'a': NULL, 'b': 'c'} CREDENTIALS NULL": &statement.Alter{
			Name: "s", Patch: json.RawMessage(`{"batch_size":null,"coalesce":null,"configs":{"a":null,"b":"c"},"credentials":null,"topics":["a","b"]}`),
		},

		// Procedures.
		"CALL mg.load_all()":                                  &statement.Call{Procedure: "mg.load_all"},
		"CALL mg.kafka_set_stream_offset('s', -1)":            &statement.Call{Procedure: "mg.kafka_set_stream_offset", Arguments: []any{"s", int64(-1)}},
		"call `mg`.kafka_stream_info($name) yield *;":         &statement.Call{Procedure: "mg.kafka_stream_info", Arguments: []any{"s"}},
		"CALL mg.transformations() YIELD name, path AS `a b`": &statement.Call{Procedure: "mg.transformations", Yield: []statement.Yield{{Name: "name", As: "name"}, {Name: "path", As: "a b"}}},
		"CALL x(1.5, .5, 1e3, TRUE, false, null, [1, ['a']], {'k': -2})": &statement.Call{Procedure: "x", Arguments: []any{
			1.5, 0.5, 1000.0, true, false, nil, []any{int64(1), []any{"a"}}, map[string]any{"k": int64(-2)},
		}},
	} {
		t.Run(text, func(t *testing.T) {
			got, err := statement.Parse(text, params)
			require.NoError(t, err)
			require.Equal(t, want, got)
		})
	}
}

// Every keyword is a name where a name stands, in whatever case.
func TestKeywordsAreNames(t *testing.T) {
	keywords := slices.Concat(statement.Complete("").Keywords, statement.Complete("CREATE KAFKA STREAM s TOPICS t ").Keywords, statement.Complete("CHECK STREAM s ").Keywords,
		[]string{"ALL", "AS", "FALSE", "FROM", "KAFKA", "NULL", "PULSAR", "SET", "STREAM", "STREAMS", "TRUE", "YIELD", "MATCH", "RETURN", "null", "Stream"})
	require.Greater(t, len(keywords), 40)
	for _, k := range keywords {
		for _, verb := range []string{"DROP STREAM ", "STOP STREAM ", "START STREAM ", "CHECK STREAM ", "SHOW CREATE STREAM ", "ALTER STREAM "} {
			text := verb + k
			if strings.HasPrefix(verb, "ALTER") {
				text += " SET BATCH_SIZE 1"
			}
			got, err := statement.Parse(text, nil)
			require.NoError(t, err, text)
			require.Contains(t, statement.Print(got), k[1:], text)
		}
		text := fmt.Sprintf("CREATE KAFKA STREAM %s TOPICS %[1]s, a.%[1]s-%[1]s TRANSFORM %[1]s.%[1]s CONSUMER_GROUP %[1]s", k)
		got, err := statement.Parse(text, nil)
		require.NoError(t, err, text)
		want := graphmill.StreamSpec{Name: k, Source: "kafka", Topics: []string{k, "a." + k + "-" + k}, Transform: k + "." + k, ConsumerGroup: k}
		require.Equal(t, &statement.Create{Spec: want}, got)
	}
}

// Options come in any order.
func TestOptionsInAnyOrder(t *testing.T) {
	options := []string{"TOPICS t, u", "TRANSFORM m.f", "CONSUMER_GROUP g", "BATCH_INTERVAL 1", "BATCH_SIZE 2", "BOOTSTRAP_SERVERS 'a:1', 'b:2'", "CONFIGS {'a': 'b'}", "CREDENTIALS {}"}
	want, err := statement.Parse("CREATE KAFKA STREAM s "+strings.Join(options, " "), nil)
	require.NoError(t, err)
	for step := 1; step < len(options); step += 2 { // coprime to their number
		for first := range options {
			text := "CREATE KAFKA STREAM s"
			for i := range options {
				text += " " + options[(first+i*step)%len(options)]
			}
			got, err := statement.Parse(text, nil)
			require.NoError(t, err, text)
			require.Equal(t, want, got, text)
		}
	}
}

// Statements of Pulsar are those of Memgraph, and more.
func TestCreatePulsar(t *testing.T) {
	with := func(change func(*graphmill.StreamSpec)) graphmill.StreamSpec {
		spec := graphmill.StreamSpec{Name: "s", Source: "pulsar", Topics: []string{"t"}, Transform: "m.f"}
		change(&spec)
		return spec
	}
	const create = "CREATE PULSAR STREAM s TOPICS t TRANSFORM m.f "
	for text, want := range map[string]graphmill.StreamSpec{
		create: with(func(*graphmill.StreamSpec) {}),
		"create pulsar stream s topics t transform m.f": with(func(*graphmill.StreamSpec) {}),
		"CREATE PULSAR STREAM s TOPICS 'persistent://a/b/c', d TRANSFORM m.f BATCH_INTERVAL 1 BATCH_SIZE 2": with(func(s *graphmill.StreamSpec) {
			s.Topics, s.BatchIntervalMS, s.BatchSize = []string{"persistent://a/b/c", "d"}, 1, 2
		}),
		"CREATE PULSAR STREAM s TOPICS a,b TRANSFORM m.f BATCH_INTERVAL 9 BATCH_SIZE 9 SERVICE_URL 'pulsar://x';": with(func(s *graphmill.StreamSpec) {
			s.Topics, s.BatchIntervalMS, s.BatchSize, s.ServiceURL = []string{"a", "b"}, 9, 9, "pulsar://x"
		}),
		create + "SERVICE_URL 'pulsar+ssl://a:1,b:2'": with(func(s *graphmill.StreamSpec) { s.ServiceURL = "pulsar+ssl://a:1,b:2" }),
		create + "SERVICE_URL $url":                   with(func(s *graphmill.StreamSpec) { s.ServiceURL = "pulsar://p" }),
		create + "SUBSCRIPTION x SUBSCRIPTION_TYPE FAILOVER CONFIGS {'a': 'b'} CREDENTIALS {'token': 'secret:t'}": with(func(s *graphmill.StreamSpec) {
			s.Subscription, s.SubscriptionType = "x", "failover"
			s.Configs, s.Credentials = map[string]string{"a": "b"}, map[string]string{"token": "secret:t"}
		}),
		create + "SUBSCRIPTION 'my sub' SUBSCRIPTION_TYPE exclusive START_FROM earliest DATABASE d": with(func(s *graphmill.StreamSpec) {
			s.Subscription, s.SubscriptionType, s.StartFrom, s.Database = "my sub", "exclusive", "earliest", "d"
		}),
		"CREATE PULSAR STREAM s TRANSFORM m.f TOPICS_PATTERN 'persistent://a/b/c.*'": with(func(s *graphmill.StreamSpec) {
			s.Topics, s.TopicsPattern = nil, "persistent://a/b/c.*"
		}),
	} {
		t.Run(text, func(t *testing.T) {
			got, err := statement.Parse(text, map[string]any{"url": "pulsar://p"})
			require.NoError(t, err)
			require.Equal(t, &statement.Create{Spec: want}, got)
			full := want.WithDefaults()
			require.NoError(t, full.Validate())

			printed := statement.Print(got)
			require.Contains(t, printed, "CREATE PULSAR STREAM s")
			require.Contains(t, printed, "\n  SUBSCRIPTION ")
			require.NotContains(t, printed, "CONSUMER_GROUP")
			again, err := statement.Parse(printed, nil)
			require.NoError(t, err, printed)
			require.Equal(t, full, again.(*statement.Create).Spec.WithDefaults())
		})
	}
}

// What is right is told to be for a later version, what is wrong to be wrong.
func TestNotAvailableYet(t *testing.T) {
	for text, what := range map[string]string{
		"CREATE PULSAR STREAM s TOPICS t TRANSFORM m.f PARALLELISM 2":                               "PARALLELISM",
		"CREATE KAFKA STREAM s TOPICS t TRANSFORM m.f DELIVERY exactly_once":                        "DELIVERY exactly_once",
		"CREATE KAFKA STREAM s TOPICS t TRANSFORM m.f ON_FAILURE SKIP":                              "ON_FAILURE skip",
		"CREATE KAFKA STREAM s TOPICS t TRANSFORM m.f ON_FAILURE dead_letter DEAD_LETTER_TOPIC 'x'": "DEAD_LETTER_TOPIC",
		"CREATE KAFKA STREAM s TOPICS t TRANSFORM m.f PARALLELISM 2":                                "PARALLELISM",
		"ALTER STREAM s SET ISOLATION_LIMIT 2":                                                      "ISOLATION_LIMIT",
		"ALTER STREAM s SET CHECKPOINT_ID x":                                                        "CHECKPOINT_ID",
	} {
		t.Run(text, func(t *testing.T) {
			_, err := statement.Parse(text, nil)
			var e *statement.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, statement.CodeNotAvailableYet, e.Code)
			require.Equal(t, what+" is not available yet", e.Text)
		})
	}
}

// What Memgraph rejects as no statement, with what is told of it.
func TestSyntaxErrors(t *testing.T) {
	const create = "CREATE KAFKA STREAM s TOPICS t TRANSFORM m.f "
	for text, want := range map[string]string{
		"":                                        "1:1 there is no statement",
		" ; ":                                     "1:2 there is no statement",
		"// nothing":                              "1:11 there is no statement",
		"CREATE STREAM s TOPICS t TRANSFORM m.f":  `1:8 found "STREAM", expected KAFKA or PULSAR | write CREATE KAFKA STREAM; the form without KAFKA ended with Memgraph 2.1`,
		"DROP STREAM":                             "1:12 found the end, expected a name, a string or a parameter",
		"START STREAM":                            "1:13 found the end, expected a name, a string or a parameter",
		"STOP STREAM":                             "1:12 found the end, expected a name, a string or a parameter",
		"CHECK STREAM;":                           `1:13 found ";", expected a name, a string or a parameter`,
		"START STREAMS":                           `1:7 found "STREAMS", expected ALL or STREAM | did you mean STREAM?`,
		"STOP STREAMS":                            `1:6 found "STREAMS", expected ALL or STREAM | did you mean STREAM?`,
		"DROP STREAMS":                            `1:6 found "STREAMS", expected STREAM | did you mean STREAM?`,
		"CHECK STREAMS x":                         `1:7 found "STREAMS", expected STREAM | did you mean STREAM?`,
		"START ALL":                               "1:10 found the end, expected STREAMS",
		"STOP ALL":                                "1:9 found the end, expected STREAMS",
		"START ALL STREAM":                        `1:11 found "STREAM", expected STREAMS | did you mean STREAMS?`,
		"STOP ALL STREAM":                         `1:10 found "STREAM", expected STREAMS | did you mean STREAMS?`,
		"START STREAMS ALL":                       `1:7 found "STREAMS", expected ALL or STREAM | did you mean STREAM?`,
		"STOP STREAMS ALL":                        `1:6 found "STREAMS", expected ALL or STREAM | did you mean STREAM?`,
		"SHOW STREAM":                             `1:6 found "STREAM", expected CREATE or STREAMS | did you mean STREAMS?`,
		"SHOW STREAMS ALL":                        `1:14 found "ALL", expected the end`,
		"SHOW ALL":                                `1:6 found "ALL", expected CREATE or STREAMS`,
		"SHOW ALL STREAMS":                        `1:6 found "ALL", expected CREATE or STREAMS`,
		"CHECK STREAM a,b":                        `1:15 found ",", expected BATCH_LIMIT, FROM, TIMEOUT or the end`,
		"CHECK STREAM a FROM latest TIMEOUT 5":    `1:28 found "TIMEOUT", expected the end | the order is BATCH_LIMIT, TIMEOUT, FROM`,
		"START STREAM a TIMEOUT 5 BATCH_LIMIT 1":  `1:26 found "BATCH_LIMIT", expected the end | the order is BATCH_LIMIT, TIMEOUT`,
		"CHECK STREAM a BATCH LIMIT 1":            `1:16 found "BATCH", expected BATCH_LIMIT, FROM, TIMEOUT or the end | did you mean BATCH_LIMIT? It is one word`,
		"CHECK STREAM a TIMEOUT 1 BATCH_LIMIT 1":  `1:26 found "BATCH_LIMIT", expected FROM or the end | the order is BATCH_LIMIT, TIMEOUT, FROM`,
		"CHECK STREAM a BATCH_LIMIT":              "1:27 found the end, expected an integer or a parameter",
		"CHECK STREAM a TIMEOUT":                  "1:23 found the end, expected an integer or a parameter",
		"CHECK STREAM a BATCH_LIMIT -1":           "1:28 found '-', expected a number without a sign",
		"START STREAM a BATCH_LIMIT TIMEOUT 1":    `1:28 found "TIMEOUT", expected an integer or a parameter`,
		"STOP STREAM invalid stream name":         `1:21 found "stream", expected the end`,
		"DROP STREAM invalid stream name":         `1:21 found "stream", expected the end`,
		"START STREAM invalid stream name":        `1:22 found "stream", expected BATCH_LIMIT, TIMEOUT or the end`,
		"CHECK STREAM invalid stream name":        `1:22 found "stream", expected BATCH_LIMIT, FROM, TIMEOUT or the end`,
		"CREATE KAFKA STREAM invalid stream name": `1:29 found "stream", expected an option or the end | the options are `,
		"CREATE KAFKA STREAM s TOPICS":            "1:29 found the end, expected a name, a string, a parameter or a list",
		"CREATE KAFKA STREAM s TOPICS invalid topic name TRANSFORM m.f": `1:38 found "topic", expected an option, ',' or the end | the options are `,
		"CREATE KAFKA STREAM s TOPICS t, TRANSFORM m.f":                 `1:43 found "m", expected an option, ',' or the end | TRANSFORM is read as a name there: leave out the ',' before it`,
		"CREATE KAFKA STREAM s TOPICS TRANSFORM transform":              "1:49 found the end, expected a name, a string or a parameter",
		"CREATE KAFKA STREAM s TOPICS t,":                               "1:32 found the end, expected a name, a string, a parameter or a list",
		"CREATE KAFKA STREAM s TOPICS t TRANSFORM":                      "1:41 found the end, expected a name, a string or a parameter",
		create + "CONSUMER_GROUP":                                       "1:60 found the end, expected a name, a string or a parameter",
		create + "CONSUMER_GROUP invalid group":                         `1:69 found "group", expected an option or the end | the options are `,
		create + "CONSUMER_GROUP 1st":                                   `1:61 found "1st", expected a name, a string or a parameter | a name of which a part begins with a digit is written in quotes, as in 'topic-2'`,
		create + "BATCH_INTERVAL":                                       "1:60 found the end, expected an integer or a parameter",
		create + "BATCH_INTERVAL invalid":                               `1:61 found "invalid", expected an integer or a parameter`,
		create + "BATCH_SIZE":                                           "1:56 found the end, expected an integer or a parameter",
		create + "BATCH_SIZE -1":                                        "1:57 found '-', expected a number without a sign",
		create + "BATCH_SIZE 1x":                                        `1:57 "1x" is no number`,
		create + "BATCH_SIZE 1_000":                                     `1:57 "1_000" is no number`,
		create + "BOOTSTRAP_SERVERS":                                    "1:63 found the end, expected a string or a parameter | an address is a string: put it into quotes, as in 'localhost:9092'",
		create + "BOOTSTRAP_SERVERS localhost:9092":                     `1:64 found "localhost", expected a string or a parameter | an address is a string: put it into quotes, as in 'localhost:9092'`,
		create + "SERVICE_URL 'pulsar://x'":                             "1:46 SERVICE_URL is an option of a Pulsar stream, not of a Kafka stream",
		create + "CONFIGS":                                              "1:53 found the end, expected a map or a parameter",
		create + "CONFIGS 2":                                            `1:54 found "2", expected a map or a parameter`,
		create + "CREDENTIALS 2":                                        `1:58 found "2", expected a map or a parameter`,
		create + "BATCH_SIZE 0b11":                                      `1:57 "0b11" is no number`,
		create + "BOOTSTRAP_SERVERS ''kafka:9092''":                     `1:66 found "kafka", expected an option, ',' or the end | the quotes are doubled`,
		"CREATE PULSAR STREAM s TOPICS persistent://a/b TRANSFORM m.f":  `1:41 found ":", expected an option, ',' or the end | the whole name of a topic is a string: put it into quotes`,
		"DROP STREAM s UNSUBSCRIBE":                                     `1:15 found "UNSUBSCRIBE", expected the end | the statement keeps the subscription; a command ends both: graphmill stream drop NAME --unsubscribe`,
		"CREATE PULSAR STREAM s TOPICS t TRANSFORM m.f SERVICE_URL pulsar://localhost:6650": `1:59 found "pulsar", expected a string or a parameter | an address is a string: put it into quotes, as in 'pulsar://localhost:6650'`,
		create + "CONFIGS {key: 'v'}":                                         "1:55 found a word, expected a string or '}' | the keys of a map are strings: put it into quotes",
		create + "CREDENTIALS {'sasl.password': s3cret}":                      "1:76 found a word, expected a string or a parameter",
		create + "CREDENTIALS {'sasl.password': 's3cret' 'x'}":                "1:85 found a string, expected ',' or '}'",
		create + "CREDENTIALS {'sasl.password': 's3cret":                      "1:76 found a string without its end, expected a string or a parameter",
		"CREATE PULSAR STREAM s TOPICS t TRANSFORM m.f SERVICE_URL":           "1:58 found the end, expected a string or a parameter | an address is a string: put it into quotes, as in 'pulsar://localhost:6650'",
		"CREATE \u212aAFKA STREAM s TOPICS t TRANSFORM m.f SERVICE_URL 'x'":   "1:46 SERVICE_URL is an option of a Pulsar stream, not of a Kafka stream", // the sign of Kelvin is a k to whoever folds cases
		"CREATE PULSAR STREAM s TOPICS t TRANSFORM m.f BOOTSTRAP_SERVERS 'x'": "1:47 BOOTSTRAP_SERVERS is an option of a Kafka stream, not of a Pulsar stream",
		"CREATE PULSAR STREAM s TOPICS t TRANSFORM m.f CONSUMER_GROUP x":      "1:47 CONSUMER_GROUP is an option of a Kafka stream, not of a Pulsar stream",
		"CREATE KAFKA STREAM s TOPICS topic-2 TRANSFORM m.f":                  `1:36 found "2", expected a name | a name of which a part begins with a digit is written in quotes, as in 'topic-2'`,
		"CREATE KAFKA STREAM s TOPICS logs.2024 TRANSFORM m.f":                `1:34 found ".2024", expected an option, ',' or the end | a name of which a part begins with a digit is written in quotes, as in 'topic-2'`,
		"CREATE KAFKA STREAM s TOPICS 1.2.x TRANSFORM m.f":                    `1:30 found "1.2", expected a name, a string, a parameter or a list | a name of which a part begins with a digit is written in quotes, as in 'topic-2'`,
		"CREATE KAFKA STREAM s TOPICS 2nd TRANSFORM m.f":                      `1:30 found "2nd", expected a name, a string, a parameter or a list | a name of which a part begins with a digit is written in quotes, as in 'topic-2'`,
		"CREATE KAFKA STREAM s\n  TOPICS t\n  TRANSFROM m.f":                  `3:3 found "TRANSFROM", expected an option, ',' or the end | did you mean TRANSFORM?`,
		"CRAETE KAFKA STREAM s":                                               `1:1 found "CRAETE", expected ALTER, CALL, CHECK, CREATE, DROP, SHOW, START or STOP | did you mean CREATE?`,
		"MATCH (n) RETURN n":                                                  `1:1 found "MATCH", expected ALTER, CALL, CHECK, CREATE, DROP, SHOW, START or STOP | this takes the stream statements; queries are for the database itself`,
		"EXPLAIN SHOW STREAMS":                                                "1:1 EXPLAIN goes before the queries of a database; a stream statement has no plan",
		"profile START STREAM s":                                              "1:1 PROFILE goes before the queries of a database; a stream statement has no plan",
		"SHOW STREAMS; SHOW STREAMS":                                          `1:15 found "SHOW", expected the end | one statement is executed at a time; graphmill query takes several on standard input`,
		"ALTER STREAM s":                                                      "1:15 found the end, expected SET",
		"ALTER STREAM s SET":                                                  "1:19 found the end, expected an option | the options are ",
		"CALL mg.load_all":                                                    "1:17 found the end, expected '('",
		"CALL mg.load_all() YIELD":                                            "1:25 found the end, expected a name or '*'",
		"CALL mg.transformations() YIELD name RETURN name":                    `1:38 found "RETURN", expected AS, ',' or the end | the results of a procedure are chosen and named by YIELD: YIELD name AS column`,
		`DROP STREAM 'a\x'`:                                                   `1:13 a backslash in a string begins an escape, one of \\ \' \" \` + "`" + ` \b \f \n \r \t \u \U; a backslash itself is written \\`,
		`DROP STREAM '\u12'`:                                                  `1:13 \u needs 4 hexadecimal digits`,
		`DROP STREAM '\ud800'`:                                                `1:13 the digits behind a \u of the string stand for no character`,
		"DROP STREAM `a":                                                      "1:13 found a name in backticks without its end, expected a name, a string or a parameter",
		"DROP STREAM /* a":                                                    "1:13 found a comment without its end, expected a name, a string or a parameter",
		"DROP STREAM \xff":                                                    "1:1 the statement is not text in UTF-8",
		"CALL x(" + strings.Repeat("[", 33):                                   "1:40 lists and maps are nested deeper than 32",
		strings.Repeat("x", 2_000_000):                                        "1:1 the statement has 2000000 bytes, 1048576 are the most",
		strings.Repeat("[]", 100_000):                                         "1:10001 the statement has more than 10000 words and signs",
		"CALL x(" + strings.Repeat("1,", 4_000):                               "1:8007 found \",\", which does not fit there",
		"CALL x(1,":                                                           "1:10 found the end, expected FALSE, NULL, TRUE, a string, a number, a parameter, a list or a map",
		"CALL x() YIELD a, ;":                                                 "1:19 found \";\", expected a name",
		create + "CONFIGS {'a': 'b',}":                                        "1:64 found \"}\", expected a string",
	} {
		t.Run(text[:min(len(text), 100)], func(t *testing.T) {
			requireError(t, text, nil, statement.CodeSyntax, want)
		})
	}
}

func TestABriefErrorTellsThePlaceAndWhatIsFound(t *testing.T) {
	_, err := statement.ParseBriefly("DROP STREAMS x", nil)
	require.EqualError(t, err, `found "STREAMS", which does not fit there (line 1, column 6)`)
	_, err = statement.ParseBriefly("START STREAM s TIMEOUT 1", nil)
	require.ErrorContains(t, err, "Parameter TIMEOUT can only be defined if BATCH_LIMIT is defined")
	s, err := statement.ParseBriefly("DROP STREAM s;", nil)
	require.NoError(t, err)
	require.Equal(t, &statement.Drop{Name: "s"}, s)
}

// Statements that cannot be executed, in Memgraph's words where it has some.
func TestSemanticErrors(t *testing.T) {
	const create = "CREATE KAFKA STREAM s TOPICS t TRANSFORM m.f "
	params := map[string]any{"i": int64(1), "minus": int64(-1), "list": []any{int64(1)}, "map": map[string]any{"a": int64(1)}, "null": nil, "s": "x"}
	for text, want := range map[string]string{
		"CREATE KAFKA STREAM s TRANSFORM m.f":                             "1:21 Config TOPICS is required.",
		"CREATE KAFKA STREAM s TOPICS t":                                  "1:21 Config TRANSFORM is required.",
		"CREATE PULSAR STREAM s TRANSFORM m.f":                            "1:22 Config TOPICS is required.",
		"CREATE PULSAR STREAM s TOPICS t":                                 "1:22 Config TRANSFORM is required.",
		create + "topics u":                                               "1:46 TOPICS defined multiple times in the query",
		create + "TRANSFORM x":                                            "1:46 TRANSFORM defined multiple times in the query",
		"CREATE KAFKA STREAM s TOPICS t TRANSFORM invalid transform name": "1:50 TRANSFORM defined multiple times in the query",
		create + "BATCH_SIZE 1 BATCH_SIZE 1":                              "1:59 BATCH_SIZE defined multiple times in the query",
		create + "CONFIGS {} CONFIGS {}":                                  "1:57 CONFIGS defined multiple times in the query",
		create + "BATCH_INTERVAL '324'":                                   "1:61 Batch interval must be an integer literal!",
		create + "BATCH_INTERVAL 32.4":                                    "1:61 Batch interval must be an integer literal!",
		create + "BATCH_INTERVAL 0":                                       "1:61 Batch interval has to be positive!",
		create + "BATCH_SIZE 'x'":                                         "1:57 Batch size must be an integer literal!",
		create + "BATCH_SIZE 1.5":                                         "1:57 Batch size must be an integer literal!",
		create + "BATCH_SIZE 0":                                           "1:57 Batch size has to be positive!",
		create + "BATCH_SIZE $minus":                                      "1:57 Batch size has to be positive!",
		create + "BATCH_SIZE $s":                                          "1:57 Batch size must be an integer literal!",
		create + "BATCH_SIZE NULL":                                        "1:57 Batch size must be an integer literal!",
		create + "BATCH_SIZE 99999999999999999999":                        `1:57 "99999999999999999999" is outside of the integers of 64 bits`,
		create + "BATCH_SIZE $absent":                                     "1:57 Parameter $absent not provided.",
		create + "BOOTSTRAP_SERVERS ''":                                   "1:64 Bootstrap servers must not be an empty string!",
		create + "BOOTSTRAP_SERVERS []":                                   "1:64 Bootstrap servers must not be an empty string!",
		create + "BOOTSTRAP_SERVERS 9092":                                 "1:64 Bootstrap servers should be a string!",
		create + "BOOTSTRAP_SERVERS ['a', 1]":                             "1:64 Bootstrap servers should be a string!",
		create + "CONSUMER_GROUP ''":                                      "1:61 Consumer group must not be an empty string!",
		create + "CONFIGS {'a': 1}":                                       "1:54 Configs must contain only string keys and values!",
		create + "CONFIGS {1: 'a'}":                                       "1:55 Configs must contain only string keys and values!",
		create + "CONFIGS {'a': NULL}":                                    "1:54 Configs must contain only string keys and values!",
		create + "CONFIGS NULL":                                           "1:54 Configs must contain only string keys and values!",
		create + "CONFIGS $map":                                           "1:54 Configs must contain only string keys and values!",
		create + "CONFIGS {'a': $i}":                                      "1:54 Configs must contain only string keys and values!",
		create + "CONFIGS $s":                                             "1:54 Configs must contain only string keys and values!",
		create + "CREDENTIALS {'sasl.password': 1}":                       "1:58 Credentials must contain only string keys and values!",
		create + "CREDENTIALS {'a': 'b', 'a': 'c'}":                       "1:69 the key is in the map twice",
		"CREATE PULSAR STREAM s TOPICS t TRANSFORM m.f SERVICE_URL 1":     "1:59 Service URL must be a string!",
		"CREATE PULSAR STREAM s TOPICS t TRANSFORM m.f SERVICE_URL ''":    "1:59 Service URL must not be an empty string!",
		"CREATE KAFKA STREAM s TOPICS $i TRANSFORM m.f":                   "1:30 Topic names should be defined as a string literal or as symbolic names",
		"CREATE KAFKA STREAM s TOPICS $list TRANSFORM m.f":                "1:30 Topic names should be defined as a string literal or as symbolic names",
		"CREATE KAFKA STREAM s TOPICS t TRANSFORM $i":                     "1:42 Transform must be a name!",
		"DROP STREAM $i":                                                  "1:13 a name is a string",
		"DROP STREAM $list":                                               "1:13 one name stands there, not a list",
		"START STREAM s TIMEOUT 5":                                        "1:24 Parameter TIMEOUT can only be defined if BATCH_LIMIT is defined",
		"START STREAM s BATCH_LIMIT 'x'":                                  "1:28 Batch limit should be an integer literal!",
		"START STREAM s BATCH_LIMIT $minus":                               "1:28 Parameter BATCH_LIMIT cannot hold negative value",
		"CHECK STREAM s BATCH_LIMIT 1.5":                                  "1:28 Batch limit should be an integer literal!",
		"CHECK STREAM s TIMEOUT 'x'":                                      "1:24 Timeout should be an integer literal!",
		"CHECK STREAM s FROM yesterday":                                   "1:21 FROM is committed, earliest, latest or a time such as '2026-01-31T12:00:00Z'",
		"CALL x({1: 2})":                                                  "1:9 the keys of a map are strings",
		"CALL x() YIELD a, b AS a":                                        `1:19 "a" is there twice: columns have names of their own`,
	} {
		t.Run(text, func(t *testing.T) {
			requireError(t, text, params, statement.CodeSemantic, want)
		})
	}
}

// requireError asks for an error written as line:column text, and perhaps
// | advice, of which the beginning is enough.
func requireError(t *testing.T, text string, params map[string]any, code, want string) {
	t.Helper()
	got, err := statement.Parse(text, params)
	require.Nil(t, got)
	var e *statement.Error
	require.True(t, errors.As(err, &e), "%v", err)
	wanted, advice, _ := strings.Cut(want, " | ")
	require.Equal(t, wanted, strings.TrimSpace(place(e)+" "+e.Text))
	require.Equal(t, code, e.Code)
	require.True(t, strings.HasPrefix(e.Next, advice), e.Next)
	if advice == "" {
		require.Empty(t, e.Next)
	}
}

func place(e *statement.Error) string {
	return strconv.Itoa(e.Line) + ":" + strconv.Itoa(e.Column)
}
