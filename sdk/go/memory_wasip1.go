package graphmill

import (
	"runtime"
	"runtime/debug"
)

// bufferGrown is told when one of the two buffers has been replaced by a larger one.
//
// Go begins a collection when the heap has grown to twice of what was in use after the
// last one. Buffers count for that, and so it would begin beyond the end of the memory:
// it is told to begin when what is in use besides them may have doubled.
func bufferGrown(old int) {
	buffers := len(instance.input) + len(instance.response.buf)
	const besides = 8 << 20 // bytes, a guess
	debug.SetGCPercent(100 * besides / (besides + buffers))
	if old >= 1<<20 {
		runtime.GC() // of the old one
	}
}
