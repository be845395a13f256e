package wasmhost_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill/wasmhost"
	. "github.com/graphmill/graphmill/wasmhost/wasmtest"
)

// TestMemoryIsGivenBack makes and closes instances and looks at the address
// space of the process.
func TestMemoryIsGivenBack(t *testing.T) {
	addressSpace := func() (pages int) {
		b, err := os.ReadFile("/proc/self/statm")
		require.NoError(t, err)
		_, err = fmt.Sscan(string(b), &pages)
		require.NoError(t, err)
		return pages
	}
	m := load(t, newHost(t, wasmhost.Config{}), Guest(Unreachable).Bytes())
	cycle := func() {
		i, err := m.Instantiate(t.Context(), wasmhost.InstanceConfig{Function: "transform", MemoryLimit: 128 << 20})
		require.NoError(t, err)
		fault(t, i, 1)
		require.NoError(t, i.Close(t.Context()))
	}
	cycle()
	before := addressSpace()
	const cycles = 100
	for range cycles {
		cycle()
	}
	grown := int64(addressSpace()-before) * int64(os.Getpagesize())
	require.Less(t, grown, int64(cycles*128<<20/10))
}
