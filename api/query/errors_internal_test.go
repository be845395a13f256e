package query

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
)

// The texts that clients of Memgraph look for, to the letter: five of them, two of
// Pulsar's streams, which no statement makes yet.
func TestTheTextsThatClientsMatch(t *testing.T) {
	kafka := subject{name: "test_stream", source: "kafka"}
	pulsar := subject{name: "test_stream", source: "pulsar"}
	for _, tc := range []struct {
		about subject
		what  doing
		code  string
		want  string
	}{
		{kafka, creating, codeUnreachable, "Local: Broker transport failure"},
		{pulsar, creating, codeUnreachable, "Pulsar consumer test_stream : ConnectError"},
		{subject{name: "test_stream"}, starting, codeNotFound, "Couldn't find stream 'test_stream'"},
		{kafka, stopping, codeAlreadyStopped, "Kafka consumer test_stream is already stopped"},
		{pulsar, stopping, codeAlreadyStopped, "Pulsar consumer test_stream is already stopped"},
	} {
		err := tell(tc.about, tc.what, graphmill.Conflict(tc.code, "the engine's words"))
		require.Contains(t, err.Error(), tc.want)
	}
}
