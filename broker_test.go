package graphmill_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
)

func TestBrokerAddresses(t *testing.T) {
	for _, good := range []string{"h:1", "127.0.0.1:9092", "[::1]:9092", "kafka.example", "my_broker-1:65535"} {
		require.NoError(t, graphmill.ValidateBroker("f", good), good)
	}
	for _, bad := range []string{
		"", ":", ":9092", "h:", "h:0", "h:65536", "h:-1", "h:kafka", "::1", "a b:1",
		"kafka://h:9092", "ann:hunter2@h:9092", "kafka://ann:hunter2@h", "hunter2@h", "h:1/hunter2",
	} {
		err := graphmill.ValidateBroker("f", bad)
		require.Equal(t, graphmill.KindInvalid, graphmill.KindOf(err), bad)
		require.NotContains(t, err.Error(), "hunter2")
	}
}
