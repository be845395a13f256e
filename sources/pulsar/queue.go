package pulsar

// mostQueued is how many messages a consumer asks for beforehand at the most: as many
// as the client does by default.
const mostQueued = 1000

// queueSize is how many messages a consumer asks for beforehand, so that all of them
// keep within what may be buffered. The protocol counts messages; that they are large
// is known once some have come. The lock is held.
func (s *Source) queueSize() int {
	n := max(1, len(s.partitions))
	most := min(mostQueued, s.cfg.MaxBufferedMessages/n)
	if s.weight > 0 {
		most = min(most, int(float64(s.cfg.MaxBufferedBytes)/float64(n)/s.weight))
	}
	return s.cfg.Client.queue(n, most)
}

// queueBytes is how many bytes of messages may be on their way through a consumer
// before it is replaced by one that asks for fewer. The lock is held.
func (s *Source) queueBytes() int64 {
	return 2 * s.cfg.MaxBufferedBytes / int64(max(1, len(s.partitions)))
}

// heavier notes how many bytes a message has where messages are large, and returns how
// many a new consumer would ask for.
func (s *Source) heavier(bytes float64) (queue int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.weight = max(s.weight, bytes)
	return s.queueSize()
}
