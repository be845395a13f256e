package batching

import (
	"github.com/graphmill/graphmill"
)

// collection is the batch that is being collected.
type collection struct {
	messages  []graphmill.Message
	bytes     int64
	positions map[graphmill.TopicPartition]graphmill.Position

	lastLen int // messages of the batch before: what the next one is likely to need
}

func (c *collection) empty() bool { return len(c.messages) == 0 && len(c.positions) == 0 }

// take moves messages from f into the collection until f is exhausted or the
// collection is full, in which case it tells why. What it has taken is cut off
// f. A fetch without messages moves the position only.
func (c *collection) take(f *graphmill.Fetch, p Policy) (graphmill.CloseReason, bool) {
	n, bytes, reason, full := c.fitting(f.Messages, p)
	if full {
		n, bytes = c.toBorder(f.Messages, n, bytes)
	}
	c.add(f.Messages[:n], bytes, p.Size)
	switch {
	case n == len(f.Messages):
		c.reach(f.Next) // past the control records behind the last message
	case n > 0:
		cut := f.Next
		cut.Pass(&f.Messages[n-1])
		c.reach(cut)
	}
	f.Messages = f.Messages[n:]
	return reason, full
}

// fitting tells how many of messages still fit, their bytes, and whether the
// collection is full with them.
func (c *collection) fitting(messages []graphmill.Message, p Policy) (n int, bytes int64, reason graphmill.CloseReason, full bool) {
	for n < len(messages) {
		size := messages[n].Size()
		count := len(c.messages) + n
		if count > 0 && c.bytes+bytes+size > p.Bytes {
			return n, bytes, graphmill.ClosedByBytes, true
		}
		n++
		bytes += size
		if count+1 >= p.Size {
			return n, bytes, graphmill.ClosedBySize, true
		}
		if c.bytes+bytes >= p.Bytes {
			return n, bytes, graphmill.ClosedByBytes, true
		}
	}
	return n, bytes, 0, false
}

// toBorder shortens the n messages that fit to whole entries. Only an entry that
// no batch can hold is cut: the broker would deliver the part that is done again,
// and whoever reads it has to know that part.
func (c *collection) toBorder(messages []graphmill.Message, n int, bytes int64) (int, int64) {
	whole, left := n, bytes
	for whole > 0 && messages[whole-1].EntryRest > 0 {
		whole--
		left -= messages[whole].Size()
	}
	if whole == 0 && len(c.messages) == 0 {
		return n, bytes
	}
	return whole, left
}

func (c *collection) add(messages []graphmill.Message, bytes int64, size int) {
	if len(messages) == 0 {
		return
	}
	if c.messages == nil {
		// One allocation a batch once batches are of a like size.
		c.messages = make([]graphmill.Message, 0, min(max(len(messages), c.lastLen), size))
	}
	c.messages = append(c.messages, messages...)
	c.bytes += bytes
}

func (c *collection) reach(p graphmill.Position) {
	if c.positions == nil {
		c.positions = make(map[graphmill.TopicPartition]graphmill.Position)
	}
	c.positions[p.TopicPartition] = p
}

// batch hands the collection over and begins a new one.
func (c *collection) batch(reason graphmill.CloseReason) graphmill.Batch {
	b := graphmill.Batch{
		Messages:  c.messages,
		Positions: make([]graphmill.Position, 0, len(c.positions)),
		Bytes:     c.bytes,
		Closed:    reason,
	}
	for _, p := range c.positions {
		b.Positions = append(b.Positions, p)
	}
	graphmill.SortPositions(b.Positions)
	*c = collection{lastLen: len(b.Messages)}
	return b
}

// drop removes what belongs to gone partitions.
func (c *collection) drop(gone map[graphmill.TopicPartition]struct{}) {
	kept := c.messages[:0]
	c.bytes = 0
	for _, m := range c.messages {
		tp := graphmill.TopicPartition{Topic: m.Topic, Partition: m.Partition}
		if _, is := gone[tp]; !is {
			kept = append(kept, m)
			c.bytes += m.Size()
		}
	}
	clear(c.messages[len(kept):])
	c.messages = kept
	for tp := range gone {
		delete(c.positions, tp)
	}
}
