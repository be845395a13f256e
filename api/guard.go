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

// request is what is known of a request beside what it says.
type request struct {
	id    string
	owner string // name of the token that let it in; empty: none, or one without a name
}

func requestID(ctx context.Context) string {
	if r, ok := ctx.Value(requestKey{}).(*request); ok {
		return r.id
	}
	return ""
}

// caller returns the name of the token that let a request in; empty: there is none.
func caller(ctx context.Context) string {
	if r, ok := ctx.Value(requestKey{}).(*request); ok {
		return r.owner
	}
	return ""
}

// identify gives every request an id of its own, in the answer and the log,
// and logs what became of it.
func (s *service) identify(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var b [8]byte
		_, _ = rand.Read(b[:]) // never fails
		req := &request{id: hex.EncodeToString(b[:])}

		h := w.Header()
		h.Set("X-Request-Id", req.id)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store")

		began := time.Now()
		ww := middleware.NewWrapResponseWriter(w, r.ProtoMajor)
		ctx := context.WithValue(r.Context(), requestKey{}, req)
		next.ServeHTTP(ww, r.WithContext(ctx))
		s.log.LogAttrs(ctx, slog.LevelDebug, "request",
			slog.String("request_id", req.id), slog.String("caller", req.owner), slog.String("method", r.Method), slog.String("path", r.URL.Path),
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

// guard keeps strangers out: those without a token where there are tokens, and
// web pages. A server on loopback needs no token, and a browser on this machine
// would send any page's requests here: a request from another origin is refused,
// and so is a foreign host name pointed at this address.
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
		owner, err := s.authorize(r)
		if err != nil {
			w.Header().Set("WWW-Authenticate", "Bearer")
			s.refusals.tell(s.log, r.RemoteAddr)
			s.fail(w, r, err)
			return
		}
		if req, ok := r.Context().Value(requestKey{}).(*request); ok {
			req.owner = owner
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
