package ports

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPortsAreFreeAndNoneThatClientsAreGiven(t *testing.T) {
	ports, err := Free(20)
	require.NoError(t, err)
	seen := map[int]bool{}
	for _, p := range ports {
		require.False(t, seen[p], "%d is there twice", p)
		seen[p] = true
		require.GreaterOrEqual(t, p, lowPort)
		require.Less(t, p, highPort)
		l, err := net.Listen("tcp", Loopback(p))
		require.NoError(t, err)
		require.NoError(t, l.Close())
	}
}
