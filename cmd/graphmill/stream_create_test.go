package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestANewStreamSaysWhereItBegins(t *testing.T) {
	require.Equal(t, "with the first message of the topics", beginning("earliest"))
	require.Contains(t, beginning("latest"), "with what is produced after its first start; with all that is there: --start-from earliest")
	require.Equal(t, "with what is of 2026-01-31T12:00:00Z or later", beginning("2026-01-31T12:00:00Z"))
}
