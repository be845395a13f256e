// Package patience waits for brokers: between two tries, and for a set-up that may
// come right by itself in a moment.
package patience

import (
	"context"
	"errors"
	"time"

	"github.com/graphmill/graphmill"
)

const (
	// lookAgain is the pause between two looks of somebody who is waiting.
	lookAgain = 250 * time.Millisecond

	// steadyAfter is how long a topic must be absent to be called so, and a broker
	// must close connections: a broker may take a moment to hear of a topic that
	// has just been created, and one that is starting may not be itself yet.
	steadyAfter = time.Second
)

// Pause waits for d, or returns the context's error when ctx ends before.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Until looks again and again until look finds no fault. A fault of the set-up is
// returned at once; one that is steady, which waiting for a moment longer will most
// likely not change, once it has been found for a second; any other when the time of
// ctx is over. It returns the context's error where ctx is cancelled while it waits.
func Until(ctx context.Context, look func(context.Context) *graphmill.Fault, isSteady func(*graphmill.Fault) bool) error {
	var before *graphmill.Fault
	var steady string // code
	var since time.Time
	for {
		f := look(ctx)
		if f == nil {
			return nil
		}
		if ctx.Err() != nil && before != nil {
			f = before // a look that is cut off says only that it was
		}
		before = f
		switch {
		case f.Class == graphmill.FaultSetup:
			return f
		case !isSteady(f):
			steady = ""
		case steady != f.Code:
			steady, since = f.Code, time.Now()
		case time.Since(since) >= steadyAfter:
			return f
		}
		if err := Pause(ctx, lookAgain); err != nil {
			if errors.Is(err, context.Canceled) {
				return err
			}
			return f
		}
	}
}
