package api

import (
	"context"
	"net/http"
	"net/url"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"
	"github.com/go-chi/chi/v5"
)

// routes is huma's way onto the router. It differs from huma's own adapter for
// chi in two things: an action such as {name}:start is a path segment of its
// own for the router (see actionPaths), and bodies are read by this package,
// before huma sees the request (see takeBody).
type routes struct {
	chi.Router
	service *service
}

// Handle registers one operation.
func (a *routes) Handle(op *huma.Operation, handle func(huma.Context)) {
	limit := op.MaxBodyBytes
	op.MaxBodyBytes, op.BodyReadTimeout = -1, 0 // takeBody sees to both
	a.MethodFunc(op.Method, actionPath(op.Path), func(w http.ResponseWriter, r *http.Request) {
		err := checkQuery(r.URL.RawQuery)
		if err == nil {
			var done func()
			r, done, err = a.service.takeBody(w, r, op, limit)
			defer done()
		}
		if err == nil {
			var done func()
			if done, err = a.service.admit(r, op); err == nil {
				defer done()
			}
		}
		if err != nil {
			a.service.fail(w, r, err)
			return
		}
		handle(humachi.NewContext(op, r, w))
	})
}

// checkQuery refuses a query that net/url would read in part, and a parameter
// that is given twice, of which only the first would count.
func checkQuery(raw string) error {
	query, err := url.ParseQuery(raw)
	if err != nil {
		return newProblem(http.StatusBadRequest, "malformed", "the query of the URL cannot be read: %s", cut(err.Error(), maxFieldBytes))
	}
	for name, values := range query {
		if len(values) > 1 {
			name = cut(name, maxFieldBytes)
			p := newProblem(http.StatusUnprocessableEntity, "invalid", "%s: is given twice", name)
			p.Field = name
			return p
		}
	}
	return nil
}

// actionPath parts the action from the last segment of a path: /streams/s:stop
// becomes /streams/s/:stop. The cut is at the last colon, since the name of a
// transformation may hold others.
func actionPath(path string) string {
	segment := strings.LastIndexByte(path, '/') + 1
	colon := strings.LastIndexByte(path[segment:], ':')
	width := 1
	if escaped := strings.LastIndex(strings.ToLower(path[segment:]), "%3a"); escaped > colon {
		colon, width = escaped, 3 // some clients escape the colon
	}
	if colon < 0 {
		return path
	}
	colon += segment
	return path[:colon] + "/:" + path[colon+width:]
}

// actionPaths makes the router see the paths of actionPath. A router that
// matches {name}:start by itself would cut at the first colon, and would take
// an unknown action for a part of the name.
func actionPaths(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.RawPath // as it came, where that is not the plain form
		if path == "" {
			path = r.URL.Path
		}
		chi.RouteContext(r.Context()).RoutePath = actionPath(path)
		next.ServeHTTP(w, r)
	})
}

// register adds an operation whose errors are answered by problemOf.
func register[I, O any](s *service, op huma.Operation, handle func(context.Context, *I) (*O, error)) {
	schema := s.huma.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[Problem](), true, "")
	if op.Responses == nil {
		op.Responses = map[string]*huma.Response{}
	}
	op.Responses["default"] = &huma.Response{
		Description: "What is wrong, and what to do.",
		Content:     map[string]*huma.MediaType{problemType: {Schema: schema}},
	}
	if op.MaxBodyBytes == 0 {
		op.MaxBodyBytes = maxJSONBytes
	}
	huma.Register(s.huma, op, func(ctx context.Context, in *I) (*O, error) {
		out, err := handle(ctx, in)
		if err != nil {
			return nil, s.problem(ctx, err)
		}
		return out, nil
	})
}

func (s *service) notFound(w http.ResponseWriter, r *http.Request) {
	p := newProblem(http.StatusNotFound, "no_such_path", "there is nothing at %s", cut(r.URL.Path, maxFieldBytes))
	p.NextStep = "/docs lists what there is"
	s.fail(w, r, p)
}

// methodNotAllowed answers a path that knows other methods, and names them.
func (s *service) methodNotAllowed(mux *chi.Mux) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		path := chi.RouteContext(r.Context()).RoutePath
		var allowed []string
		for _, m := range []string{http.MethodGet, http.MethodPut, http.MethodPost, http.MethodPatch, http.MethodDelete} {
			if mux.Match(chi.NewRouteContext(), m, path) {
				allowed = append(allowed, m)
			}
		}
		if len(allowed) == 0 { // CONNECT and a host, which is no path
			s.notFound(w, r)
			return
		}
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		p := newProblem(http.StatusMethodNotAllowed, "method_not_allowed",
			"%s takes %s, not %s", r.URL.Path, inWords(allowed), r.Method)
		s.fail(w, r, p)
	}
}

// inWords writes words as a person does: a, b and c.
func inWords(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " and " + words[last]
}
