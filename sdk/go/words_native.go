//go:build !wasip1

package graphmill

// word32 reads four bytes of a record or a table that open has found to lie within
// the frame.
func (b *Batch) word32(at int) uint32 { return le.Uint32(b.frame[at:]) }

// word64 reads eight of them.
func (b *Batch) word64(at int) uint64 { return le.Uint64(b.frame[at:]) }

// setCursor stores which message is in hand.
func (b *Batch) setCursor(i uint32) { le.PutUint32(b.frame[cursorAt:], i) }

// putEntries writes statement entries as the frame has them.
func putEntries(dst []byte, entries []entry) {
	for i, e := range entries {
		d := dst[i*statementSize:]
		le.PutUint32(d, e.query)
		le.PutUint32(d[4:], e.message)
		le.PutUint32(d[8:], e.start)
		le.PutUint32(d[12:], e.length)
	}
}
