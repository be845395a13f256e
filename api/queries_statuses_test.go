package api_test

import (
	"fmt"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill/server"
)

// statusRow is a row of the table of statuses in docs/statements.md.
var statusRow = regexp.MustCompile("(?m)^\\| ([^|]+) \\| `(\\w+)` \\| (\\d{3}) \\|$")

// The page of statements says with which status each refusal comes; here each of
// them is brought about.
func TestStatusesOnThePageOfStatementsAreThoseOfTheServer(t *testing.T) {
	page, err := os.ReadFile("../docs/statements.md")
	require.NoError(t, err)
	documented := map[string]string{}
	for _, row := range statusRow.FindAllStringSubmatch(string(page), -1) {
		documented[row[1]+" "+row[2]] = row[3]
	}

	w := withStream(t, func(cfg *server.Config) { cfg.CreateTimeout, cfg.StartTimeout = 2*time.Second, time.Second })
	require.NoError(t, w.broker.CreateTopic("leaving", 1, nil))
	const create = "CREATE KAFKA STREAM %s TOPICS %s TRANSFORM %s CONSUMER_GROUP %s"
	for _, row := range [][]any{{"running", "events", "seen", "a"}, {"lame", "events", "gone.f", "b"}, {"halt", "events", "seen.f", "c"}, {"left", "leaving", "seen", "d"}} {
		w.query(t, 200, fmt.Sprintf(create, row...))
	}
	w.query(t, 200, "START STREAM running")
	require.NoError(t, w.broker.DeleteTopic("leaving"))

	refused := map[string]string{}
	for _, c := range []struct{ of, code, statement string }{
		{"every statement", "stream_not_found", "DROP STREAM x"},
		{"every statement", "stream_not_found", "START STREAM x"},
		{"CREATE", "stream_exists", createS},
		{"CREATE, ALTER", "topic_absent", fmt.Sprintf(create, "n", "absent", "seen", "n")},
		{"CREATE, ALTER", "topic_absent", "ALTER STREAM s SET TOPICS absent FROM latest"},
		{"CREATE, ALTER", "broker_unreachable", fmt.Sprintf(create, "n", "events", "seen", "n") + " BOOTSTRAP_SERVERS '127.0.0.1:1'"},
		{"CREATE, ALTER", "broker_unreachable", "ALTER STREAM s SET BOOTSTRAP_SERVERS '127.0.0.1:1' FROM latest"},
		{"CREATE, ALTER", "invalid", fmt.Sprintf(create, "n", "'a/b'", "seen", "n")},
		{"CREATE, ALTER", "invalid", "ALTER STREAM s SET TOPICS 'a/b' FROM latest"},
		{"START", "already_running", "START STREAM running"},
		{"START", "module_not_found", "START STREAM lame"},
		{"START", "function_not_found", "START STREAM halt"},
		{"START with BATCH_LIMIT", "start_timeout", "START STREAM s BATCH_LIMIT 1 TIMEOUT 300"},
		{"STOP", "already_stopped", "STOP STREAM s"},
		{"CHECK", "topic_absent", "CHECK STREAM left TIMEOUT 5000"},
		{"CHECK", "check_timeout", "CHECK STREAM s TIMEOUT 300"},
		{"`mg.kafka_set_stream_offset`", "stream_running", "CALL mg.kafka_set_stream_offset('running', -1)"},
		{"`mg.pulsar_stream_info`", "wrong_source", "CALL mg.pulsar_stream_info('s')"},
		{"`mg.get_module_file`", "module_not_found", "CALL mg.get_module_file('gone.wasm')"},
	} {
		status, _, answer := send(t, w.base, request{method: "POST", path: "/api/v1/query", contentType: jsonType, body: fmt.Sprintf(`{"statement":%q}`, c.statement)})
		require.Equal(t, c.code, answer["code"], "%s: %v", c.statement, answer)
		require.Equal(t, documented[c.of+" "+c.code], fmt.Sprint(status), "%s: %v", c.statement, answer)
		refused[c.of+" "+c.code] = fmt.Sprint(status)
	}
	require.Equal(t, documented, refused, "each row is brought about")
}
