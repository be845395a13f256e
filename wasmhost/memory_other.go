//go:build !unix

package wasmhost

// mapMemory takes the memory from Go's heap.
func mapMemory(size int) ([]byte, error) { return make([]byte, size), nil }

func unmapMemory([]byte) error { return nil }
