//go:build e2e

package integration_test

import (
	"context"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// feed is a topic that one stream reads, as a load sees it.
type feed interface {
	// send sends events first to last-1, keyed by user. Every one is confirmed when it
	// returns.
	send(ctx context.Context, first, last int) error

	// done returns how many of them the stream has behind it.
	done(ctx context.Context) (int64, error)

	close()
}

// confirmations keeps the first error of what is sent without waiting.
type confirmations chan error

func newConfirmations() confirmations { return make(confirmations, 1) }

func (c confirmations) note(err error) {
	if err == nil {
		return
	}
	select {
	case c <- err:
	default:
	}
}

// err is to be asked once everything is confirmed.
func (c confirmations) err() error {
	select {
	case err := <-c:
		return err
	default:
		return nil
	}
}

// load produces events for one stream, always some more than the stream has
// behind it, so that whatever happens to it happens at work.
type load struct {
	t     *testing.T
	feed  feed
	quit  context.CancelFunc
	ended chan struct{}
	n     int // events produced; to be read once ended is closed
}

const (
	loadBacklog = 8_000 // events that are not done
	loadChunk   = 1_000 // events that are produced at once
	loadPause   = 50 * time.Millisecond
)

// startLoad begins a load, which outlives outages of the broker. It ends with
// stop, or with the test.
func startLoad(t *testing.T, to feed) *load {
	t.Helper()
	ctx, quit := context.WithCancel(t.Context())
	l := &load{t: t, feed: to, quit: quit, ended: make(chan struct{})}
	go func() {
		defer close(l.ended)
		defer to.close()
		l.run(ctx)
	}()
	t.Cleanup(func() { l.quit(); <-l.ended })
	return l
}

func (l *load) run(ctx context.Context) {
	var done int64
	for ctx.Err() == nil {
		asked, cancel := context.WithTimeout(ctx, time.Second)
		if n, err := l.feed.done(asked); err == nil {
			done = n
		}
		cancel()
		if int64(l.n)-done >= loadBacklog {
			select {
			case <-time.After(loadPause):
			case <-ctx.Done():
			}
			continue
		}
		// What has been begun is finished, so that n is what there is.
		sending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*patience)
		l.n += loadChunk
		err := l.feed.send(sending, l.n-loadChunk, l.n)
		cancel()
		if err != nil {
			l.t.Errorf("produce: %v", err)
			return
		}
	}
}

// stop ends the load and returns how many events there are.
func (l *load) stop() int {
	l.quit()
	<-l.ended
	return l.n
}

// chance returns the random numbers of a test. Its seed is printed;
// GRAPHMILL_E2E_SEED sets it.
func chance(t *testing.T) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	if s := os.Getenv("GRAPHMILL_E2E_SEED"); s != "" {
		var err error
		seed, err = strconv.ParseUint(s, 10, 64)
		require.NoError(t, err)
	}
	t.Logf("GRAPHMILL_E2E_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// awaitDone waits until a stream has so many events behind it.
func awaitDone(t *testing.T, f feed, least int64) {
	t.Helper()
	require.Eventually(t, func() bool { return doneOf(t, f) >= least }, patience, 20*time.Millisecond, "the stream does %d events", least)
}

// doneOf returns how many events a stream has behind it.
func doneOf(t *testing.T, f feed) int64 {
	n, err := f.done(t.Context())
	if err != nil {
		return 0 // the broker is away
	}
	return n
}

// awaitAllAcknowledged waits until the servers of a stream have nothing more to do,
// all of them together.
func awaitAllAcknowledged(t *testing.T, b broker, stream, topic string) {
	t.Helper()
	require.Eventually(t, func() bool { return b.unacknowledged(t, stream, topic) == 0 }, patience, 50*time.Millisecond, "%s has everything behind it", stream)
}
