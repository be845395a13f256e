package frame

import "strings"

// Bounds of one generation of an interner.
const (
	internCount = 4096    // strings
	internBytes = 1 << 20 // bytes of all strings
)

// interner hands out one copy of strings that come again and again, query texts
// and parameter names, from one batch to the next. It is bounded: what is full
// becomes the old generation, and what is not asked for again before the next
// one is full goes. So its memory is at most two generations, whatever a guest
// sends, and it follows a stream whose texts change.
type interner struct {
	young, old map[string]string
	bytes      int // of young
}

// get returns a string equal to s that does not share its memory.
func (in *interner) get(s string) string {
	if c, ok := in.young[s]; ok {
		return c
	}
	c, ok := in.old[s]
	if !ok {
		c = strings.Clone(s)
	}
	if len(c) > internBytes/16 {
		return c
	}
	if len(in.young) >= internCount || in.bytes+len(c) > internBytes {
		in.old, in.young, in.bytes = in.young, nil, 0
	}
	if in.young == nil {
		in.young = make(map[string]string)
	}
	in.young[c] = c
	in.bytes += len(c)
	return c
}
