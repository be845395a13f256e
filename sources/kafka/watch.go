package kafka

import (
	"context"
	"slices"
	"time"

	"github.com/graphmill/graphmill"
)

const (
	// quietFor is after how long without a message of some topic the brokers
	// are asked whether all is well: the client says nothing of a topic that
	// has been deleted, nor of a connection on which nothing comes back.
	quietFor = 3 * time.Second

	// troubledFor is the pause between two looks while something is wrong.
	troubledFor = time.Second

	// lookGap is the shortest pause between two looks, however many
	// connections break.
	lookGap = 300 * time.Millisecond

	// readFaultLasts is how long an error of reading a partition counts.
	readFaultLasts = 5 * time.Second

	// slowLook is when one look counts as two: it has tried for long enough.
	slowLook = 2 * time.Second
)

// watch tells the Observer of outages and of their end, until Close. What the
// client knows of them comes late or not at all, so the watcher asks the
// brokers itself: at once when a connection breaks, and every few seconds while
// a topic is quiet. A fault must be seen twice in a row to be told, so that a
// broker that restarts quickly is not.
func (s *Source) watch() {
	w := watcher{s: s, partitions: map[string]int32{}}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-s.life.Done():
			return
		case <-s.links.wake:
			w.woken = true
			timer.Reset(max(0, lookGap-time.Since(w.looked)))
			continue
		case <-timer.C:
		}
		if w.woken || w.suspect != nil || w.told != nil || s.quiet() {
			w.woken = false
			w.look()
			w.report()
		}
		timer.Reset(w.pause())
	}
}

// watcher is the state of the goroutine that watches.
type watcher struct {
	s       *Source
	woken   bool
	looked  time.Time        // when the last look began
	suspect *graphmill.Fault // what the last look found, told or not
	seen    int              // how many looks in a row have found it
	sure    *graphmill.Fault // suspect, once it is sure
	told    *graphmill.Fault // what the Observer knows

	partitions map[string]int32 // by topic, at the last look
}

func (w *watcher) pause() time.Duration {
	if w.suspect != nil || w.told != nil {
		return troubledFor
	}
	return quietFor
}

// look asks the brokers for the topics.
func (w *watcher) look() {
	s := w.s
	w.looked = time.Now()
	infos, f := look(s.life, s.cl, s.links, s.cfg.Topics)
	if s.life.Err() != nil {
		return
	}
	if f == nil {
		f = s.anew(infos)
	}
	grown := w.grown(infos)
	if f == nil && (w.sure != nil || grown) {
		// The client may be in the middle of a long pause, and looks for new
		// partitions once a minute.
		s.cl.ForceMetadataRefresh()
	}
	w.judge(f)
	if infos != nil {
		s.noteAbsent(infos, w.sure)
	}
	switch {
	case w.sure != nil && w.sure.Class == graphmill.FaultSetup:
		s.fail(w.sure)
	case f == nil:
		s.explainOutOfRange()
	}
}

// grown tells whether a topic has more partitions than at the last look.
func (w *watcher) grown(infos map[string]topicInfo) bool {
	grown := false
	for topic, info := range infos {
		if info.err != nil {
			continue
		}
		if had, seen := w.partitions[topic]; seen && info.partitions > had {
			grown = true
		}
		w.partitions[topic] = info.partitions
	}
	return grown
}

// judge takes in what a look has found.
func (w *watcher) judge(f *graphmill.Fault) {
	switch {
	case f == nil:
		w.suspect, w.seen, w.sure = nil, 0, nil
		return
	case w.suspect == nil || w.suspect.Code != f.Code:
		w.seen = 0
	}
	w.suspect = f
	w.seen++
	// A login that was refused is not tried again: another look would tell the same.
	if time.Since(w.looked) >= slowLook || f.Code == codeAuth {
		w.seen++
	}
	w.sure = nil
	if w.seen >= 2 {
		w.sure = f
	}
}

// report tells the Observer what has changed.
func (w *watcher) report() {
	now := w.sure
	if now == nil && w.suspect == nil {
		now = w.s.standingFault()
	}
	switch {
	case now != nil:
		if w.told == nil || w.told.Code != now.Code || w.told.Text != now.Text {
			w.told = now
			w.s.tell(func() { w.s.obs.Waiting(now) })
		}
	case w.told != nil && w.suspect == nil:
		w.told = nil
		w.s.tell(w.s.obs.Recovered)
	}
}

// standingFault is what stands in the way although the brokers answer.
func (s *Source) standingFault() *graphmill.Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.groupFault != nil {
		return s.groupFault
	}
	// The client tries all the time, so an error that does not come again is
	// over, whether or not there has been a message since.
	if time.Since(s.readFaultAt) > readFaultLasts {
		s.readFault = nil
	}
	return s.readFault
}

// quiet tells whether some topic has had nothing to say for a while.
func (s *Source) quiet() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.cfg.Topics {
		if time.Since(s.heard[t]) >= quietFor {
			return true
		}
	}
	return false
}

// anew returns the fault of a topic that is not the one that is being read. A
// topic whose id was not known is taken for the same: the broker has learned to
// give ids.
func (s *Source) anew(infos map[string]topicInfo) *graphmill.Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	for tp, own := range s.owned {
		id := infos[tp.Topic].id
		if differ(own.note.topicID, id) {
			return recreated(&s.cfg, tp, own.note.topicID, id)
		}
		if own.note.topicID == "" {
			own.note.topicID = id
		}
	}
	return nil
}

// noteAbsent remembers topics that are surely absent and have never been read:
// whatever they will hold once they are created is later than this stream's
// start. Open returns once that is remembered, so the Observer is told before.
func (s *Source) noteAbsent(infos map[string]topicInfo, sure *graphmill.Fault) {
	if sure == nil || sure.Code != codeTopicAbsent {
		return
	}
	var noted []string
	var begin []graphmill.Position
	s.mu.Lock()
	for topic, info := range infos {
		if _, known := s.absent[topic]; known || !info.absent() {
			continue
		}
		noted = append(noted, topic)
		known := slices.ContainsFunc(s.cfg.Known, func(k graphmill.Position) bool { return k.Topic == topic })
		if !known && s.startsLatest() {
			begin = append(begin, graphmill.Position{TopicPartition: graphmill.TopicPartition{Topic: topic}})
		}
	}
	s.mu.Unlock()
	if len(begin) > 0 {
		graphmill.SortPositions(begin)
		s.tell(func() { s.obs.Absent(begin) })
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, topic := range noted {
		s.absent[topic] = struct{}{}
	}
}

// wasAbsent tells whether a topic has been created since Open, so that latest
// would leave out messages that came after the stream's start.
func (s *Source) wasAbsent(topic string) bool {
	return s.isAbsent(topic) && s.startsLatest()
}

// isAbsent tells whether a topic has surely been absent at some time since Open
// began.
func (s *Source) isAbsent(topic string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, was := s.absent[topic]
	return was
}

func (s *Source) startsLatest() bool { return !s.cfg.Start.Earliest && s.cfg.Start.Time.IsZero() }

// explainOutOfRange looks at positions that the broker has refused, and ends the
// source with what there is in place of those that are gone. A position that is in
// range by now needs nothing: the client asks for it again and again. One beyond
// the end may lie before it in a moment, since a leader that was just elected knows
// late how far its followers are; it must be found there twice. What cannot be
// looked at now is left to the next look.
func (s *Source) explainOutOfRange() {
	refused := s.refused()
	if len(refused) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(s.life, lookTimeout)
	defer cancel()
	tps := make([]graphmill.TopicPartition, 0, len(refused))
	for _, p := range refused {
		tps = append(tps, p.TopicPartition)
	}
	firsts := listOffsets(ctx, s.cl, tps, firstOffset, readUncommitted)
	lasts := listOffsets(ctx, s.cl, tps, lastOffset, readUncommitted)

	s.mu.Lock()
	defer s.mu.Unlock()
	var faults []*graphmill.Fault
	for _, p := range refused {
		own := s.owned[p.TopicPartition]
		if own == nil || own.next != p.Offset {
			continue // given up, or read on, meanwhile
		}
		first, ferr := firsts.at(p.TopicPartition)
		last, lerr := lasts.at(p.TopicPartition)
		switch {
		case ferr != nil || lerr != nil:
			s.outOfRange[p.TopicPartition] = struct{}{}
		case p.Offset < first, p.Offset > last && own.beyond:
			faults = append(faults, lost(&s.cfg, p, first, last))
		case p.Offset > last:
			own.beyond = true
			s.outOfRange[p.TopicPartition] = struct{}{}
		default:
			own.beyond = false
		}
	}
	switch {
	case len(faults) > 0:
		s.failLocked(together(&s.cfg, faults))
	case len(s.outOfRange) > 0:
		s.links.signal()
	}
}

// refused takes the positions that the broker has refused since the last look.
func (s *Source) refused() []graphmill.Position {
	s.mu.Lock()
	defer s.mu.Unlock()
	var at []graphmill.Position
	for tp := range s.outOfRange {
		if own := s.owned[tp]; own != nil {
			at = append(at, graphmill.Position{TopicPartition: tp, Offset: own.next})
		}
		delete(s.outOfRange, tp)
	}
	graphmill.SortPositions(at)
	return at
}
