package graph

import (
	"context"
	"net/http/httptrace"
	"slices"
	"sync/atomic"
	"time"

	"github.com/graphmill/graphmill"
)

// pass accompanies the calls into the driver that are made by one context, and
// finds out whether they open a connection: only then do they log in. The driver
// asks for the password each time it hands out a connection, old or new, and has
// no hook of its own for new ones.
type pass struct {
	dialed atomic.Bool // since it was last asked for the password
	taken  time.Time   // when it got its permit; guarded by logins.mu
}

type passKey struct{}

// accompany makes a pass. The caller calls leave when the calls are over and
// what they have come to has been noted.
func (l *logins) accompany(ctx context.Context) (_ context.Context, leave func()) {
	p := &pass{}
	ctx = context.WithValue(ctx, passKey{}, p)
	// The hooks work for whatever is dialed by the context, not for HTTP alone.
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		ConnectStart: func(string, string) { p.dialed.Store(true) },
	})
	return ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.giveBack(p)
	}
}

func passOf(ctx context.Context) *pass {
	p, _ := ctx.Value(passKey{}).(*pass)
	return p
}

// withheld is the error of a login that is not tried, because others have just
// been refused.
type withheld struct{ fault *graphmill.Fault }

func (w *withheld) Error() string { return w.fault.Text }

// crowded is the error of a login that has waited for others in vain. It says nothing
// about the database.
type crowded struct{}

func (*crowded) Error() string { return "other logins are under way" }

// admit returns when whoever calls by ctx may tell the password: at once where
// that is no login (a connection that there was, and a password that is known to
// be right), else once it has a permit. All permits together cannot bring about
// more than maxRefusals refusals, and while nothing is known of the database there
// is one. The permit is given back by worked, or when the calls are over.
func (l *logins) admit(ctx context.Context, unproven bool) error {
	p := passOf(ctx)
	if p == nil || !p.dialed.Swap(false) && !unproven {
		return nil
	}
	// What is left of the time for a connection has to do for the login.
	ctx, cancel := context.WithTimeout(ctx, l.patience/2)
	defer cancel()
	for {
		got, changed, err := l.permit(p)
		if got || err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return &crowded{}
		}
	}
}

// permit gives p a permit where there is room. Else changed is closed when it is
// worth another try. The error is a *withheld.
func (l *logins) permit(p *pass) (got bool, changed <-chan struct{}, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refusals = slices.DeleteFunc(l.refusals, func(at time.Time) bool { return time.Since(at) > refusalWindow })
	// A connection that took this long to come has come, or never will.
	l.permits = slices.DeleteFunc(l.permits, func(other *pass) bool { return time.Since(other.taken) > l.patience })
	room := maxRefusals - len(l.refusals)
	if l.answered.IsZero() {
		room = min(room, 1)
	}
	switch {
	case slices.Contains(l.permits, p):
		return true, nil, nil
	case len(l.refusals) >= maxRefusals:
		return false, nil, &withheld{l.refused}
	case len(l.permits) >= room:
		return false, l.changed, nil
	}
	p.taken = time.Now()
	l.permits = append(l.permits, p)
	return true, nil, nil
}

// giveBack takes p's permit, and reports whether it had one. l.mu is held.
func (l *logins) giveBack(p *pass) bool {
	i := slices.Index(l.permits, p)
	if i < 0 {
		return false
	}
	l.permits = slices.Delete(l.permits, i, i+1)
	close(l.changed)
	l.changed = make(chan struct{})
	return true
}
