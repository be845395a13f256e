package graph

import (
	"encoding/hex"
	"sync"

	"github.com/graphmill/graphmill"
	"github.com/neo4j/neo4j-go-driver/v5/neo4j"
)

// Bounds of what is remembered of streams.
const (
	maxStreams     = 1000
	maxStreamTexts = 50
	maxShownText   = 200 // bytes of a text
	maxShownWhy    = 300 // bytes of a reason
)

// Forms of graphmill.TextStatus.
const (
	formCoalesced = "coalesced"
	formPlain     = "plain"
)

// whyNoRun is why a text is sent one by one that would be coalesced otherwise.
const whyNoRun = "it never stands twice in a row"

// streams remembers a little of each stream: how its texts were executed, where
// its last transaction ended, and whether its texts are worth examining.
type streams struct {
	mu    sync.Mutex
	known *lru[string, *stream]
}

type stream struct {
	texts *lru[textHash, graphmill.TextStatus]

	// bookmarks, a database, are handed to the next transaction, so that a
	// member of a cluster that takes over has seen what this stream wrote.
	bookmarks map[string]neo4j.Bookmarks

	// trials is how many more texts may be examined. It is earned back by texts
	// that come again. A stream that writes data into its texts runs out.
	trials int
}

const maxTrials = 32

func newStreams() *streams {
	return &streams{known: newLRU[string, *stream](maxStreams)}
}

// of returns the record of a stream. s.mu is held.
func (s *streams) of(name string) *stream {
	st, ok := s.known.get(name)
	if !ok {
		st = &stream{
			texts:     newLRU[textHash, graphmill.TextStatus](maxStreamTexts),
			bookmarks: map[string]neo4j.Bookmarks{},
			trials:    maxTrials,
		}
		s.known.put(name, st, 1)
	}
	return st
}

func (s *streams) texts(name string) []graphmill.TextStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := []graphmill.TextStatus{}
	if st, ok := s.known.get(name); ok {
		st.texts.each(func(t graphmill.TextStatus) { list = append(list, t) })
	}
	return list
}

// note remembers how the texts of a batch were executed.
func (s *streams) note(name string, uses []*use) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.of(name)
	for i := len(uses) - 1; i >= 0; i-- { // the first text of the batch is shown first
		u := uses[i]
		form, why := formCoalesced, u.why
		if why != "" {
			form = formPlain
		}
		if before, ok := st.texts.get(u.hash); ok && u.why == whyNoRun && before.Form == formCoalesced {
			// A small batch says nothing about how the text is sent.
			form, why = formCoalesced, "in the last batch it stood alone"
		}
		st.texts.put(u.hash, graphmill.TextStatus{
			Hash:  hex.EncodeToString(u.hash[:6]),
			Query: clip(u.text, maxShownText-len("...")),
			Form:  form,
			Why:   clip(why, maxShownWhy),
		}, 1)
	}
}

func (s *streams) bookmarks(name, database string) neo4j.Bookmarks {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.of(name).bookmarks[database]
}

// setBookmarks remembers where a stream's last transaction ended. Nil: a
// bookmark may be why a transaction cannot begin, as after the database has been
// restored from a backup.
func (s *streams) setBookmarks(name, database string, b neo4j.Bookmarks) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of(name).bookmarks[database] = b
}

// try takes one trial and reports whether there was one.
func (s *streams) try(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.of(name)
	if st.trials == 0 {
		return false
	}
	st.trials--
	return true
}

// earn gives a trial back.
func (s *streams) earn(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.of(name)
	st.trials = min(st.trials+1, maxTrials)
}
