package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill/integration/pulsarserver"
)

// What produce sends to Pulsar arrives with keys and properties, as a stream's check
// shows it.
func TestProduceToPulsar(t *testing.T) {
	c := newCLI(t)
	p, s := devWithPulsar(t, c)
	produce := func(input string, args ...string) result {
		return c.run(t, input, append([]string{"produce", "--source", "pulsar", "--pulsar-service-url", s.URL()}, args...)...)
	}
	require.Equal(t, result{out: "2 messages sent to plain\n"}, produce(rating+"\n\n"+rating+"\n", "plain"))
	require.Equal(t, "1 message sent to persistent://public/default/plain\n", produce("7:"+rating, "persistent://public/default/plain", "--key-separator", ":").out)
	require.Equal(t, "1 message sent to plain\n", produce(`{"payload": "third", "key": "k", "headers": [["kind", "test"]]}`, "plain", "--json").out)
	require.Equal(t, "3000 messages sent to parted\n", produce(keyedLines(3000), "parted", "--key-separator", "-").out)

	c.must(t, "stream", "create", "s", "--source", "pulsar", "--topics", "plain", "--transform", "movies", "--start-from", "earliest")
	checked := c.run(t, "", "stream", "check", "s", "-o", "json", "--from", "earliest", "--batch-limit", "1").out
	require.Contains(t, checked, `"key": "7"`)
	require.Contains(t, checked, `"key": "k"`)
	require.Regexp(t, `"kind",\s*"test"`, checked)

	for name, tc := range map[string]struct {
		input  string
		args   []string
		status int
		says   string
	}{
		"a topic that is absent":        {rating, []string{"absent"}, exitFailed, "pulsar-admin topics create persistent://public/default/absent"},
		"a line that is no object":      {"{\"payload\":\"a\"}\nno\n", []string{"plain", "--json"}, exitFailed, "message 2 is no object such as"},
		"a line without the separator":  {"a\n", []string{"plain", "--key-separator", ":"}, exitFailed, `message 1 has no ":"`},
		"partitions, which are Kafka's": {"", []string{"plain", "--partitions", "2"}, exitUsage, "are of Kafka"},
		"half a name":                   {"", []string{"a/b"}, exitUsage, "TOPIC: "},
		"a setting of Kafka's":          {"", []string{"plain", "--credential", "sasl.password=hunter2"}, exitUsage, "here it is password"},
		"the address of the admin":      {"", []string{"plain", "--pulsar-service-url", s.AdminURL()}, exitUsage, "--pulsar-admin-url"},
		"no broker":                     {rating, []string{"plain", "--pulsar-service-url", "pulsar://127.0.0.1:1", "--config", "operationTimeoutMs=1000"}, exitFailed, "--pulsar-service-url or GRAPHMILL_PULSAR_SERVICE_URL"},
	} {
		t.Run(name, func(t *testing.T) {
			r := produce(tc.input, tc.args...)
			require.Equal(t, tc.status, r.status, "%s%s", r.out, r.err)
			require.Contains(t, r.err, tc.says)
			require.NotContains(t, r.err, "hunter2")
		})
	}
	wrong := c.run(t, rating, "produce", "persistent://public/default/plain")
	require.Equal(t, exitUsage, wrong.status)
	require.Contains(t, wrong.err, "--source pulsar")

	s.Authorize(func(_, _ string, action pulsarserver.Action) bool { return action != pulsarserver.Produce })
	refused := produce(rating, "plain")
	require.Equal(t, exitFailed, refused.status)
	require.Contains(t, refused.err, "--actions produce")
	p.stop(t)
}

// The same form of messages goes to Kafka.
func TestProduceObjectsToKafka(t *testing.T) {
	c := newCLI(t)
	p := c.dev(t)
	c.must(t, "module", "push", "movies", moviesFile)
	require.Equal(t, "1 message sent to t\n", c.run(t, `{"payload": "x", "key": "k", "headers": [["kind", "test"]]}`, "produce", "t", "--json").out)
	c.must(t, "stream", "create", "s", "--topics", "t", "--transform", "movies")
	require.Regexp(t, `"kind",\s*"test"`, c.run(t, "", "stream", "check", "s", "-o", "json", "--from", "earliest").out)
	p.stop(t)
}

// keyedLines are n lines, each a key, "-" and a payload.
func keyedLines(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%d-message %d\n", i%7, i)
	}
	return b.String()
}
