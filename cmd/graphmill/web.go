package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/graphmill/graphmill"
)

// webServer is the HTTP server, whose handler is exchanged once the engine is
// open.
type webServer struct {
	server  *http.Server
	handler atomic.Pointer[http.Handler]
	cancel  context.CancelFunc // of every request
	failed  chan error         // at most one
	ended   chan struct{}
}

func startHTTP(l net.Listener, first http.Handler) *webServer {
	requests, cancel := context.WithCancel(context.Background())
	w := &webServer{cancel: cancel, failed: make(chan error, 1), ended: make(chan struct{})}
	w.handle(first)
	w.server = &http.Server{
		Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			(*w.handler.Load()).ServeHTTP(rw, r)
		}),
		BaseContext:       func(net.Listener) context.Context { return requests },
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
	}
	go func() {
		defer close(w.ended)
		if err := w.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			w.failed <- err
		}
	}()
	return w
}

func (w *webServer) handle(h http.Handler) { w.handler.Store(&h) }

// stop ends the requests under way and waits a moment for their answers.
func (w *webServer) stop() error {
	w.cancel()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	err := w.server.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = w.server.Close()
	}
	<-w.ended
	return err
}

// listen opens an address, and tells in plain words why it cannot be.
func listen(ctx context.Context, flag, address string) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err == nil {
		return l, nil
	}
	e := &graphmill.Error{Kind: graphmill.KindUnavailable, Code: "listen", Text: fmt.Sprintf("cannot listen on %s", address), Err: rootCause(err)}
	if errors.Is(err, syscall.EADDRINUSE) {
		e.Text, e.Err = fmt.Sprintf("another program listens on %s already", address), nil
		e.Next = fmt.Sprintf("end it, or choose another port with --%s", flag)
	}
	return nil, e
}
