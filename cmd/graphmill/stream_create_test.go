package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestANewStreamSaysWhereItBegins(t *testing.T) {
	require.Equal(t, "with the first message of the topics", beginning("kafka", "earliest"))
	require.Contains(t, beginning("kafka", "latest"), "with what is produced after its first start; with all that is there: --start-from earliest")
	require.Contains(t, beginning("pulsar", "latest"), "with what is sent from now on")
	require.Equal(t, "with what is of 2026-01-31T12:00:00Z or later", beginning("kafka", "2026-01-31T12:00:00Z"))
}
