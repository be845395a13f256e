package api_test

import (
	"testing"

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
