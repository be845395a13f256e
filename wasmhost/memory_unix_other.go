//go:build unix && !linux

package wasmhost

// mapNoReserve is not needed where the kernel does not count reserved address
// space as memory in use.
const mapNoReserve = 0
