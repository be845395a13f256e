package server

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/graphmill/graphmill"
)

// gates are the gates of all databases, made as they are asked for, and kept while
// a stream's definition names the database. Safe for concurrent use.
type gates struct {
	sink     graphmill.Sink
	patience time.Duration // with a look

	mu sync.Mutex
	by map[string]*gate
}

func newGates(sink graphmill.Sink, patience time.Duration) *gates {
	return &gates{sink: sink, patience: patience, by: map[string]*gate{}}
}

// of returns the gate of a database; empty: the sink's own default.
func (g *gates) of(database string) *gate {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.by[database] == nil {
		g.by[database] = &gate{sink: g.sink, patience: g.patience, database: database, turn: make(chan struct{}, 1), pause: outagePauses()}
	}
	return g.by[database]
}

// keep lets go of the gates of databases that no stream names any more. used is
// called while no gate can be made: a run asks for its gate after its stream names
// the database.
func (g *gates) keep(used func() map[string]bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	named := used()
	maps.DeleteFunc(g.by, func(database string, _ *gate) bool { return !named[database] })
}

// states tells of every database that has been asked whether it could be used.
func (g *gates) states() map[string]bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	up := make(map[string]bool, len(g.by))
	for database, gate := range g.by {
		if gate.answers() > 0 {
			up[database] = gate.lastAnswer() == nil
		}
	}
	return up
}

// gate is where all streams of one database wait while it is away: one of them
// asks, and the others get its answer. Safe for concurrent use.
type gate struct {
	sink     graphmill.Sink
	patience time.Duration
	database string

	turn chan struct{} // held by the one that asks

	mu     sync.Mutex
	asked  int // how many answers there have been
	answer error
	pause  *pauses   // between answers that it is away
	next   time.Time // not before this it is asked again
}

// await returns nil once the database can be used, and tells each fault that it
// waits out. Other faults, and the cause of ctx's end, are errors.
func (g *gate) await(ctx context.Context, tell func(*graphmill.Fault)) error {
	for {
		err := g.verify(ctx)
		f, ok := asFault(err)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !ok || f.Class != graphmill.FaultTransient:
			return err
		}
		tell(f)
	}
}

// verify asks the database, or waits for the answer to somebody who does. Between
// answers that it is away there are pauses.
func (g *gate) verify(ctx context.Context) error {
	return g.inTurn(ctx, func() error {
		if err := sleep(ctx, g.due()); err != nil {
			return err
		}
		err := g.sink.Verify(ctx, g.database)
		if ctx.Err() != nil {
			return ctx.Err() // no answer for the others
		}
		g.note(err)
		return err
	})
}

// inTurn lets one ask at a time. Whoever has waited for another gets his answer.
func (g *gate) inTurn(ctx context.Context, ask func() error) error {
	before := g.answers()
	select {
	case g.turn <- struct{}{}:
		defer func() { <-g.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if g.answers() != before {
		return g.lastAnswer()
	}
	return ask()
}

// look tells within the gate's patience whether the database answers, to somebody
// who has been waiting for it: a transaction may just take long. It asks by a
// connection beside that of the transaction. The error is a fault, or the cause of
// ctx's end.
func (g *gate) look(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, g.patience)
	defer cancel()
	err := g.inTurn(limited, func() error {
		err := g.judged(ctx, g.sink.Verify(limited, g.database))
		if f, ok := asFault(err); err == nil || ok && f.Code != codeExhausted { // of which there is an answer
			g.note(err)
		}
		return err
	})
	return g.judged(ctx, err)
}

// judged makes a fault of a look that had no answer in time.
func (g *gate) judged(ctx context.Context, err error) error {
	switch _, ok := asFault(err); {
	case err == nil || ok:
		return err
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return unresponsive(g.patience)
}

func (g *gate) answers() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.asked
}

func (g *gate) lastAnswer() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.answer
}

// due is how long it is until the database is asked again.
func (g *gate) due() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return time.Until(g.next)
}

// note keeps an answer of Verify for those who wait.
func (g *gate) note(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked++
	g.answer = err
	if f, ok := asFault(err); ok && f.Class == graphmill.FaultTransient {
		g.next = time.Now().Add(g.pause.next())
		return
	}
	g.pause, g.next = outagePauses(), time.Time{}
}
