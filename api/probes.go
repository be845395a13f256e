package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/graphmill/graphmill"
)

// Probe is the answer of a probe that is well.
type Probe struct {
	Status string `json:"status" enum:"ok" doc:"ok"`
}

type probeOutput struct{ Body Probe }

func (s *service) registerProbes() {
	register(s, huma.Operation{
		OperationID: "healthz", Method: http.MethodGet, Path: "/healthz", Tags: []string{"Probes"},
		Summary:     "Whether the process lives",
		Description: "Answers while transformations work, loop or wait: it asks nothing of them.",
	}, func(context.Context, *struct{}) (*probeOutput, error) {
		return &probeOutput{Body: Probe{Status: "ok"}}, nil
	})
	register(s, huma.Operation{
		OperationID: "readyz", Method: http.MethodGet, Path: "/readyz", Tags: []string{"Probes"},
		Summary:     "Whether the server can work",
		Description: "503 and the reason where it cannot.",
	}, func(ctx context.Context, _ *struct{}) (*probeOutput, error) {
		if err := s.engine.Ready(ctx); err != nil {
			return nil, err
		}
		return &probeOutput{Body: Probe{Status: "ok"}}, nil
	})
}

// Starting answers in the place of the API while the server opens its data
// directory: the process lives and is not ready yet.
func Starting(cfg Config) http.Handler {
	s := newService(nil, cfg)
	answer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/healthz" {
			w.Header().Set("Content-Type", jsonType)
			_, _ = w.Write([]byte("{\"status\":\"ok\"}\n"))
			return
		}
		w.Header().Set("Retry-After", "1")
		s.fail(w, r, &graphmill.Error{
			Kind: graphmill.KindUnavailable, Code: "starting", Text: "the server is starting", Next: "try again in a moment",
		})
	})
	return s.identify(s.recoverPanics(s.guard(answer)))
}
