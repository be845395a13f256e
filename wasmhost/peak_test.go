package wasmhost_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// peakMemory returns how much more resident memory this process had at most while
// f ran than before, in bytes; 0 where the system does not tell.
func peakMemory(t testing.TB, f func()) int64 {
	t.Helper()
	if runtime.GOOS != "linux" {
		f()
		return 0
	}
	debug.FreeOSMemory()
	require.NoError(t, os.WriteFile("/proc/self/clear_refs", []byte("5"), 0), "reset the peak")
	before := residentPeak(t)
	f()
	return residentPeak(t) - before
}

func residentPeak(t testing.TB) int64 {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	var kib int64
	_, err = fmt.Sscan(rest, &kib)
	require.NoError(t, err)
	return kib << 10
}

// contextWithCancel is a context that the test may end early.
func contextWithCancel(t testing.TB) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	return ctx, cancel
}
