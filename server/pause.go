package server

import (
	"context"
	"math/rand/v2"
	"time"
)

// pauses are the growing pauses between attempts: each is drawn at random up to
// a bound that doubles, so that rivals do not meet again.
type pauses struct {
	bound, most time.Duration
}

// conflictPauses are for rivalry in the database: the first pause is 1 to 20
// ms, the bound doubles up to most.
func conflictPauses(most time.Duration) *pauses {
	return &pauses{bound: 20 * time.Millisecond, most: max(most, time.Millisecond)}
}

// outagePauses are for a broker or database that is away, and for a
// transformation that asks for another try.
func outagePauses() *pauses {
	return &pauses{bound: 200 * time.Millisecond, most: 5 * time.Second}
}

// compilePauses are for a module that could not be compiled: each attempt takes
// memory and processor time of a machine that may lack them.
func compilePauses() *pauses {
	return &pauses{bound: time.Second, most: time.Minute}
}

// next returns 1 ms at least, and the bound at most.
func (p *pauses) next() time.Duration {
	bound := min(p.bound, p.most)
	p.bound = min(2*p.bound, p.most)
	return max(time.Millisecond, bound/20+rand.N(bound-bound/20))
}

// sleep waits, or returns the cause of the context's end.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
