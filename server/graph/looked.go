package graph

import "sync"

// maxLooked bounds what is remembered of texts: a text counts 1, and what it does
// beside reading and writing data as many as it is.
const maxLooked = 10_000

// looked remembers what texts do beside reading and writing data, so that a text
// that comes with every batch is not taken apart each time. The tokens alone
// decide, so nothing is ever out of date. Safe for concurrent use.
type looked struct {
	mu    sync.Mutex
	known *lru[textHash, []need]
}

func newLooked() *looked { return &looked{known: newLRU[textHash, []need](maxLooked)} }

// needs is needsOf. What it returns is not to be changed.
func (l *looked) needs(u *use) []need {
	if needs, ok := l.get(u.hash); ok {
		return needs
	}
	needs := needsOf(u.text) // it may take long: the others do not wait for it
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known.put(u.hash, needs, 1+len(needs))
	return needs
}

func (l *looked) get(hash textHash) ([]need, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.known.get(hash)
}
