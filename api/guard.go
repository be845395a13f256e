package api

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5/middleware"
)

type requestKey struct{}

func requestID(ctx context.Context) string {
	id, _ := ctx.Value(requestKey{}).(string)
	return id
}

// identify gives every request an id of its own, in the answer and the log,
// and logs what became of it.
func (s *service) identify(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var b [8]byte
		_, _ = rand.Read(b[:]) // never fails
		id := hex.EncodeToString(b[:])

		h := w.Header()
		h.Set("X-Request-Id", id)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store")

		began := time.Now()
		ww := middleware.NewWrapResponseWriter(w, r.ProtoMajor)
		ctx := context.WithValue(r.Context(), requestKey{}, id)
		next.ServeHTTP(ww, r.WithContext(ctx))
		s.log.LogAttrs(ctx, slog.LevelDebug, "request",
			slog.String("request_id", id), slog.String("method", r.Method), slog.String("path", r.URL.Path),
			slog.Int("status", ww.Status()), slog.Duration("took", time.Since(began)))
	})
}

// recoverPanics turns a panic of a handler into a logged 500: a defect ends
// one request, not the server.
func (s *service) recoverPanics(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			v := recover()
			if v == nil {
				return
			}
			if v == http.ErrAbortHandler {
				panic(v) // net/http's own way to cut a connection
			}
			err := fmt.Errorf("panic in the handler of %s: %v\n%s", r.URL.Path, v, debug.Stack())
			if ww, ok := w.(middleware.WrapResponseWriter); ok && ww.Status() != 0 {
				s.problem(r.Context(), err) // logged only: the answer has begun
				return
			}
			s.fail(w, r, err)
		}()
		next.ServeHTTP(w, r)
	})
}

// guard keeps web pages out. There is no login on loopback, and a browser on
// this machine would send any page's requests here: a request from another
// origin is refused, and so is a foreign host name pointed at this address.
func (s *service) guard(next http.Handler) http.Handler {
	origins := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.cfg.LocalOnly && !isLoopback(r.Host) {
			p := newProblem(http.StatusForbidden, "host", "this server answers to localhost and loopback addresses, not to the host %.80q", r.Host)
			p.NextStep = "call it by 127.0.0.1 or localhost"
			s.fail(w, r, p)
			return
		}
		if err := origins.Check(r); err != nil {
			s.fail(w, r, newProblem(http.StatusForbidden, "origin", "a web page of another origin may not send this request"))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// isLoopback tells whether a Host header names this machine to itself.
func isLoopback(host string) bool {
	if h, port, err := net.SplitHostPort(host); err == nil {
		if _, err := strconv.ParseUint(port, 10, 16); err != nil {
			return false
		}
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}
