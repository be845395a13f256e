package graph

import (
	"context"
	"sync"
	"time"

	"github.com/graphmill/graphmill"
)

// Databases lock an account after a few wrong passwords (Neo4j: three, for 5 s
// after the last one), and whoever begins a batch may bring one: every connection
// logs in.
const (
	// maxRefusals is how many logins may be refused within refusalWindow, those
	// under way counted as if they were, before others are refused without asking:
	// one less than what locks. The second one is for whoever starts a stream again
	// right after having mended the password.
	maxRefusals   = 2
	refusalWindow = 5 * time.Second

	// freshness is how long after an answer it is taken for granted that the next
	// one comes, too. It is shorter than the driver lets a connection rest before
	// it tries it out, and perhaps opens another one.
	freshness = 30 * time.Second
)

// logins let everybody in while the database is known to answer. Else one goes
// ahead, and the others wait for what becomes of him. Whoever needs a connection
// of his own then logs in by permits (passes.go): what is known of connections
// that there are says nothing about a password. Safe for concurrent use.
type logins struct {
	patience time.Duration // a login is over after this long

	mu       sync.Mutex
	answered time.Time   // when the database answered last; zero: it has failed since
	refusals []time.Time // of logins, since the last one that was not refused
	refused  *graphmill.Fault
	trial    *trial        // not nil: somebody has gone ahead
	permits  []*pass       // those that are logging in
	changed  chan struct{} // closed when there may be room for others
}

func newLogins(patience time.Duration) *logins {
	return &logins{patience: patience, changed: make(chan struct{})}
}

// trial is one that has gone ahead. fault is set before done is closed.
type trial struct {
	began time.Time
	done  chan struct{}
	fault *graphmill.Fault // what the others get, too; nil: they ask again
}

// enter returns when the database may be asked. The caller calls leave when he
// has done so, whatever came of it.
func (l *logins) enter(ctx context.Context, closing <-chan struct{}) (leave func(), err error) {
	for {
		mine, other := l.begin()
		switch {
		case mine != nil:
			return func() { l.end(mine, nil) }, nil
		case other == nil:
			return func() {}, nil
		}
		select {
		case <-other.done:
			if other.fault != nil {
				return nil, copied(other.fault)
			}
		case <-time.After(time.Until(other.began.Add(l.patience))):
			// Nobody may answer its connection any more, where another one would be
			// answered.
			l.end(other, nil)
		case <-closing:
			return func() {}, nil // whoever asks next hears of it
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// copied is a fault of one's own: whoever gets one may change it.
func copied(f *graphmill.Fault) *graphmill.Fault {
	c := *f
	return &c
}

// begin decides about one that comes: he goes ahead (mine), waits for another, or
// neither.
func (l *logins) begin() (mine, other *trial) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.trial != nil:
		return nil, l.trial
	case !l.answered.IsZero() && time.Since(l.answered) < freshness:
		return nil, nil
	}
	l.trial = &trial{began: time.Now(), done: make(chan struct{})}
	return l.trial, nil
}

// end ends a trial, unless that has happened before.
func (l *logins) end(t *trial, fault *graphmill.Fault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conclude(t, fault)
}

// conclude is end. l.mu is held.
func (l *logins) conclude(t *trial, fault *graphmill.Fault) {
	if t == nil || l.trial != t {
		return
	}
	t.fault = fault
	l.trial = nil
	close(t.done)
}

// worked notes that the database has answered whoever calls by ctx. It reports
// whether he has just been let in.
func (l *logins) worked(ctx context.Context) (loggedIn bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answered = time.Now()
	l.conclude(l.trial, nil)
	if p := passOf(ctx); p != nil && l.giveBack(p) {
		l.refusals, l.refused = nil, nil
		return true
	}
	return false
}

// failed notes a fault of the database. Those that say nothing about being let in
// change nothing.
func (l *logins) failed(f *graphmill.Fault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case f.Code == codeAuth:
		l.refused = f
		l.refusals = append(l.refusals, time.Now())
	case f.Code == codeUnreachable || f.Code == codeTLS || f.Code == codeIncompatible:
	default:
		return
	}
	l.answered = time.Time{} // what comes back may see it otherwise
	l.conclude(l.trial, f)
}

// withheld passes on the fault of a login that was not tried.
func (l *logins) withheld(w *withheld) *graphmill.Fault {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conclude(l.trial, w.fault)
	return copied(w.fault)
}
