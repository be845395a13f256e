package wasmhost

import "syscall"

// mapNoReserve keeps address space that is only reserved from being counted as
// memory in use.
const mapNoReserve = syscall.MAP_NORESERVE
