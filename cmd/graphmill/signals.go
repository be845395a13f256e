package main

import (
	"context"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
)

// interrupts lets a part of the program take ^C for itself: at the prompt it ends
// the statement under way, and not the program. A nil one leaves ^C to the program.
// Safe for concurrent use.
type interrupts struct {
	taker atomic.Pointer[context.CancelFunc]
}

// take makes ^C end the context that it returns, until release is called.
func (i *interrupts) take(ctx context.Context) (limited context.Context, release func()) {
	limited, cancel := context.WithCancel(ctx)
	if i == nil {
		return limited, cancel
	}
	i.taker.Store(&cancel)
	return limited, func() {
		i.taker.CompareAndSwap(&cancel, nil)
		cancel()
	}
}

// taken ends what has taken ^C, and says whether there was such.
func (i *interrupts) taken() bool {
	cancel := i.taker.Load()
	if cancel != nil {
		(*cancel)()
	}
	return cancel != nil
}

// untilSignal returns a context that the first signal ends which asks the program to
// end. That one also gives the signals back to the system, so that a second one ends
// the process at once.
func (i *interrupts) untilSignal() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() { // as long as the process
		for s := range signals {
			if s == os.Interrupt && i.taken() {
				continue
			}
			signal.Stop(signals)
			cancel()
			return
		}
	}()
	return ctx
}
