package wasmhost

import (
	"fmt"

	"github.com/tetratelabs/wazero/experimental"
)

// guestMemory is the linear memory of one instance. Its address space is
// reserved at once and up to the limit, outside of Go's heap; pages cost
// something only once the guest touches them, and growing moves nothing.
//
// wazero frees a memory when its module is closed, which a guest can bring about
// in the middle of a call. What wazero still reads then must not be gone: Free
// does nothing, and the instance's owner releases the memory once no call can
// follow.
type guestMemory struct {
	reserved []byte // nil once released
	refused  bool   // the guest asked for more than the limit
}

var (
	_ experimental.MemoryAllocator = (*guestMemory)(nil)
	_ experimental.LinearMemory    = (*guestMemory)(nil)
)

// reserveMemory reserves limit bytes of zeros. The caller releases them.
func reserveMemory(limit int64) (*guestMemory, error) {
	b, err := mapMemory(int(limit))
	if err != nil {
		return nil, fmt.Errorf("reserve %d bytes of memory for a module: %w", limit, err)
	}
	return &guestMemory{reserved: b}, nil
}

// Allocate is called once, at instantiation.
func (m *guestMemory) Allocate(_, _ uint64) experimental.LinearMemory { return m }

// Reallocate returns nil where the limit does not allow the size, which fails
// the guest's memory.grow.
func (m *guestMemory) Reallocate(size uint64) []byte {
	if size > uint64(len(m.reserved)) {
		m.refused = true
		return nil
	}
	return m.reserved[:size:size]
}

// Free does nothing, see above.
func (m *guestMemory) Free() {}

// release gives the memory back. No call into the instance may follow.
func (m *guestMemory) release() error {
	b := m.reserved
	m.reserved = nil
	if b == nil {
		return nil
	}
	if err := unmapMemory(b); err != nil {
		return fmt.Errorf("release the memory of a module: %w", err)
	}
	return nil
}
