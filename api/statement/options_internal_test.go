package statement

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// The grammar and the table of options know the same options.
func TestEveryOptionIsInTheGrammar(t *testing.T) {
	for _, o := range options {
		require.Contains(t, keywords, o.keyword)
	}
	statements := []string{"ALL", "ALTER", "AS", "BATCH_LIMIT", "CALL", "CHECK", "CREATE", "DROP", "FALSE", "FROM", "KAFKA", "NULL", "PULSAR", "SET", "SHOW", "START", "STOP", "STREAM", "STREAMS", "TIMEOUT", "TRUE", "YIELD"}
	for _, k := range keywords {
		require.True(t, slices.Contains(statements, k) || kindOf(k) >= 0, "%s is an option without an entry in options", k)
	}
}
