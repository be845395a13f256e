//go:build unix

package wasmhost

import "syscall"

// mapMemory reserves size bytes that are zero and take no memory until touched.
func mapMemory(size int) ([]byte, error) {
	return syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE|mapNoReserve)
}

func unmapMemory(b []byte) error { return syscall.Munmap(b) }
