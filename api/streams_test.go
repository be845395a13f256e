package api_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/api"
	"github.com/graphmill/graphmill/server"
)

func TestAStreamOfWhichOnlyTheNameIsKnownIsShown(t *testing.T) {
	broken := server.StreamInfo{
		Spec: graphmill.StreamSpec{Name: "s"}, Desired: graphmill.StateStopped, State: graphmill.StateBroken,
		Reason: &graphmill.Reason{Code: "entry_broken", Text: "it cannot be read", NextStep: "graphmill stream drop s"},
	}
	base := serve(t, &stub{stream: func(string) (server.StreamInfo, error) { return broken, nil }}, api.Config{})
	status, _, body := send(t, base, request{method: "GET", path: "/api/v1/streams/s"})
	require.Equal(t, 200, status)
	require.Equal(t, "broken", body["state"])
	require.Equal(t, []any{}, body["topics"])
	require.NotContains(t, body, "created_at", "it is not known")
	require.Equal(t, "graphmill stream drop s", body["reason"].(map[string]any)["next_step"])
}
