package pulsarserver

import (
	"cmp"
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
	"strconv"
)

// ringReplicas is how often each consumer stands in the ring.
const ringReplicas = 100

// pick returns the consumer that the broker makes the active one, and sorts the
// consumers as it does on the way: by priority level, 0 first, then by name. In a
// partition it is the one whose place is the partition's number, modulo those of
// the best level, so that consumers share the partitions of a topic; elsewhere a
// consistent hash of the topic's name chooses.
// The rule is that of AbstractDispatcherSingleActiveConsumer in Pulsar 4.0.
func pick(consumers []*consumer, topic string, partition int) *consumer {
	if len(consumers) == 0 {
		return nil
	}
	slices.SortStableFunc(consumers, func(a, b *consumer) int {
		return cmp.Or(cmp.Compare(a.priority, b.priority), cmp.Compare(a.name, b.name))
	})
	best := len(consumers)
	if i := slices.IndexFunc(consumers, func(c *consumer) bool { return c.priority != consumers[0].priority }); i > 0 {
		best = i
	}
	if partition >= 0 {
		return consumers[partition%best]
	}
	return fromRing(consumers[:best], murmur3(topic))
}

// RunAhead makes a Failover subscription of a topic do what the broker does where the
// active consumer changes, and changes again before the delay of the failover is over,
// while a write to the first one is under way: when that is done, the broker reads on
// for the one that is active then, without going back. The next n entries have gone to
// somebody else; those behind them go to the active consumer, which is told nothing.
// When the delay is over, the consumers are told which is the active one, and all that
// is not acknowledged is sent again.
func (s *Server) RunAhead(topic, subscription string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sub := s.topics[topic].subs[subscription]
	sub.turning, sub.lost = false, n
	sub.dispatch()
	sub.turnAfter(s.opts.FailoverDelay)
}

// ReadBeforeTurn makes a subscription of a topic do what the broker does where a read
// for a new active consumer is under way when it goes back to what is not acknowledged,
// and tells that consumer: once that has been told, what was read is sent, and then all
// that is not acknowledged. It is the entry that is n behind the first of that. It
// happens once.
func (s *Server) ReadBeforeTurn(topic, subscription string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.topics[topic].subs[subscription].early = n
}

// fromRing returns the consumer whose point is the first at or behind hash, going
// around. Of equal points the last consumer's counts.
func fromRing(consumers []*consumer, hash uint32) *consumer {
	var next, first *consumer
	nextAt, firstAt := uint32(math.MaxUint32), uint32(math.MaxUint32)
	for _, c := range consumers {
		for i := range ringReplicas {
			at := murmur3(c.name + strconv.Itoa(i))
			if at <= firstAt {
				first, firstAt = c, at
			}
			if at >= hash && at <= nextAt {
				next, nextAt = c, at
			}
		}
	}
	return cmp.Or(next, first)
}

// murmur3 is MurmurHash3_x86_32 with the seed 0 and the sign bit off, as Pulsar
// hashes keys and names.
func murmur3(s string) uint32 {
	const c1, c2 = 0xcc9e2d51, 0x1b873593
	mix := func(k uint32) uint32 { return bits.RotateLeft32(k*c1, 15) * c2 }
	b := []byte(s)
	var h uint32
	for len(b) >= 4 {
		h ^= mix(binary.LittleEndian.Uint32(b))
		h = bits.RotateLeft32(h, 13)*5 + 0xe6546b64
		b = b[4:]
	}
	var tail uint32
	for i, c := range b {
		tail |= uint32(c) << (8 * i)
	}
	h ^= mix(tail) // mix(0) is 0
	h ^= uint32(len(s))
	h ^= h >> 16
	h *= 0x85ebca6b
	h ^= h >> 13
	h *= 0xc2b2ae35
	h ^= h >> 16
	return h & math.MaxInt32
}
