package graphmill

import "unsafe"

// WebAssembly is little-endian and takes any alignment, as the frames do: words are
// read and written as they are, and where open has looked at the bounds once, they are
// not looked at again. See words_native.go for what each function does.

func (b *Batch) word32(at int) uint32 { return *(*uint32)(unsafe.Add(b.base(), at)) }

func (b *Batch) word64(at int) uint64 { return *(*uint64)(unsafe.Add(b.base(), at)) }

func (b *Batch) setCursor(i uint32) { *(*uint32)(unsafe.Add(b.base(), cursorAt)) = i }

func (b *Batch) base() unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(b.frame)) }

func putEntries(dst []byte, entries []entry) {
	if len(entries) > 0 {
		copy(dst, unsafe.Slice((*byte)(unsafe.Pointer(&entries[0])), len(entries)*statementSize))
	}
}
