package api

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill/server/events"
)

// readerAtRest is the connection of a reader; full after so many bytes.
type readerAtRest struct {
	bytes.Buffer
	room     int
	deadline time.Time
}

func (r *readerAtRest) Header() http.Header { return http.Header{} }
func (r *readerAtRest) WriteHeader(int)     {}
func (r *readerAtRest) Flush()              {}

func (r *readerAtRest) SetWriteDeadline(t time.Time) error {
	r.deadline = t
	return nil
}

func (r *readerAtRest) Write(p []byte) (int, error) {
	if r.Len()+len(p) > r.room { // the kernel takes no more: Write hangs until the deadline
		time.Sleep(time.Until(r.deadline))
		return 0, os.ErrDeadlineExceeded
	}
	return r.Buffer.Write(p)
}

func TestASilentConnectionIsKeptAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sub, err := events.NewHub().Subscribe(events.Filter{})
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute+time.Second)
		defer cancel()
		w := &readerAtRest{room: 1 << 20}
		sendEvents(ctx, w, sub)
		require.Equal(t, 4, strings.Count(w.String(), ": nothing new\n\n"))
		require.Equal(t, ctx.Err(), context.DeadlineExceeded, "it goes on until the reader has gone")
	})
}

func TestAReaderThatReadsNothingIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sub, err := events.NewHub().Subscribe(events.Filter{})
		require.NoError(t, err)
		began := time.Now()
		sendEvents(t.Context(), &readerAtRest{room: 20}, sub) // takes the first line, and no heartbeat
		require.Equal(t, heartbeat+eventWriteLimit, time.Since(began))
	})
}

// hubOnly is an engine that has events and nothing else.
type hubOnly struct {
	Engine
	hub *events.Hub
}

func (e hubOnly) Events(_ context.Context, f events.Filter) (*events.Subscription, error) {
	return e.hub.Subscribe(f)
}

func TestAPlaceIsGivenBackAlthoughNothingIsSent(t *testing.T) {
	hub := events.NewHub()
	s := newService(hubOnly{hub: hub}, Config{})
	ctx, cancel := context.WithCancel(t.Context())
	_, err := s.followEvents(ctx, &eventsInput{})
	require.NoError(t, err)
	require.Equal(t, 1, hub.Readers())
	cancel() // the request ends before its answer has begun
	require.Eventually(t, func() bool { return hub.Readers() == 0 }, time.Minute, time.Millisecond)
}
