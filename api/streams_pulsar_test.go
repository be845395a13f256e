package api_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill/integration/pulsarserver"
	"github.com/graphmill/graphmill/server"
)

func TestADroppedPulsarStreamTellsOfItsSubscription(t *testing.T) {
	s := pulsarserver.Start(t, pulsarserver.Options{NoAutoCreate: true})
	require.NoError(t, s.CreateTopic("t", 0))
	w := newWorld(t, func(cfg *server.Config) { cfg.PulsarServiceURL = s.URL() })
	w.do(t, 201, "PUT", "/modules/seen", seenModule)
	create := func() {
		w.do(t, 201, "POST", "/streams", `{"name":"s","source":"pulsar","topics":["t"],"transform":"seen.transform","subscription":"loaders"}`)
		require.Len(t, s.Subscriptions(), 1)
	}
	create()
	dropped := w.do(t, 200, "DELETE", "/streams/s", "")
	require.Len(t, dropped, 1)
	notices := dropped["notices"].([]any)
	require.Len(t, notices, 1)
	require.Contains(t, notices[0], `the subscription "loaders" stays with Pulsar`)
	require.Len(t, s.Subscriptions(), 1)

	create()
	require.Empty(t, w.do(t, 204, "DELETE", "/streams/s?unsubscribe=true", ""), "nothing is left")
	require.Empty(t, s.Subscriptions())
	require.Equal(t, "stream_not_found", w.do(t, 404, "DELETE", "/streams/s?unsubscribe=true", "")["code"])
}

// What a Pulsar stream cannot be is refused alike by REST and by statements, which
// say what to do.
func TestWhatAPulsarStreamCannotBeIsRefusedWithTheNextStep(t *testing.T) {
	s := pulsarserver.Start(t, pulsarserver.Options{NoAutoCreate: true})
	require.NoError(t, s.CreateTopic("t", 0))
	w := newWorld(t, func(cfg *server.Config) {
		cfg.PulsarServiceURL, cfg.CreateTimeout = s.URL(), 5*time.Second
	})
	for name, c := range map[string]struct {
		rest, statement string // the options beside name, source and transformation
		status          int
		says, next      string
	}{
		"the group of Kafka's clients": {`"topics":["t"],"configs":{"group.id":"g"}`, "TOPICS t CONFIGS {'group.id': 'g'}", 422, "group.id is a name of Kafka's clients", ""},
		"NUL in a topic":               {`"topics":["t\u0000"]`, `TOPICS 't\u0000'`, 422, "unprintable character", "without it"},
		"NUL in a subscription":        {`"topics":["t"],"subscription":"s\u0000"`, `TOPICS t SUBSCRIPTION 's\u0000'`, 422, "unprintable character", "without it"},
		"an empty subscription":        {`"topics":["t"],"subscription":""`, `TOPICS t SUBSCRIPTION ''`, 422, "", ""},
		"Key_Shared":                   {`"topics":["t"],"subscription_type":"key_shared"`, `TOPICS t SUBSCRIPTION_TYPE Key_Shared`, 422, "do not keep the order", "use failover"},
		"the address of the admin":     {`"topics":["t"],"service_url":"http://h:8080"`, `TOPICS t SERVICE_URL 'http://h:8080'`, 422, "admin REST", "--pulsar-admin-url"},
		"a topic that is absent":       {`"topics":["absent"]`, `TOPICS absent`, 404, "persistent://public/default/absent", "create the topic"},
		"a namespace that is absent":   {`"topics":["no/where/t"]`, `TOPICS 'no/where/t'`, 404, "the namespace does not exist", "create it"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, answer := range []map[string]any{
				w.do(t, c.status, "POST", "/streams", `{"name":"s","source":"pulsar","transform":"seen.transform",`+c.rest+`}`),
				w.query(t, c.status, "CREATE PULSAR STREAM s TRANSFORM seen.transform "+c.statement),
			} {
				require.Contains(t, answer["detail"], c.says)
				next, _ := answer["next_step"].(string)
				require.Contains(t, next, c.next)
			}
		})
	}
	require.Empty(t, s.Subscriptions(), "nothing is made of what is refused")
	refused := w.query(t, 422, "CREATE KAFKA STREAM s TOPICS 'persistent://public/default/t' TRANSFORM seen.transform")
	require.Contains(t, refused["next_step"], "CREATE PULSAR STREAM")

	w.query(t, 200, "CREATE PULSAR STREAM s TOPICS t TRANSFORM seen.transform")
	refused = w.query(t, 422, "ALTER STREAM s SET TOPICS_PATTERN 't.*' FROM latest")
	require.Contains(t, refused["next_step"], "TOPICS NULL")
	w.query(t, 200, "ALTER STREAM s SET TOPICS NULL TOPICS_PATTERN 't.*' FROM latest")
	refused = w.do(t, 422, "POST", "/streams/s:check", `{"from":"12:5:0"}`)
	require.Contains(t, refused["next_step"], "graphmill stream offsets NAME --set ID")
	refused = w.query(t, 422, "CHECK STREAM s FROM '12:5:0'")
	require.Contains(t, refused["next_step"], "the time at which the message was published")
}
