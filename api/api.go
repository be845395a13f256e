// Package api is Graphmill's HTTP interface: REST under /api/v1, its OpenAPI
// description and documentation made from the handlers, and the probes.
package api

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"
)

//go:generate go run openapi_gen.go

const prefix = "/api/v1"

// DefaultMaxModuleBytes is the largest module that is taken where Config does
// not say.
const DefaultMaxModuleBytes = 32 << 20

// Config says how the API is served.
type Config struct {
	Version string // of the program, for the OpenAPI description

	// MaxModuleBytes is the largest upload in bytes; 0: DefaultMaxModuleBytes.
	MaxModuleBytes int64

	// LocalOnly refuses requests whose Host is no loopback name, so that a web
	// page that has pointed its own name at 127.0.0.1 is kept out. Right where
	// the API is bound to loopback.
	LocalOnly bool

	// Metrics is what /metrics serves; nil: there is no such path.
	Metrics prometheus.Gatherer

	// MetricsAuth serves /metrics to callers with a token only, as all else. By
	// default it is open to whoever may reach the server at all: its labels
	// are names of streams and topics, and hold no data.
	MetricsAuth bool

	// Tokens let callers in; nil: everyone is let in who reaches the server. The
	// probes need none.
	Tokens *Tokens

	Logger *slog.Logger // nil: nothing is logged
}

// service is what the handlers share.
type service struct {
	engine Engine
	cfg    Config
	log    *slog.Logger
	huma   huma.API

	refusals  refusals
	largeJSON chan struct{}       // holds a value for each large JSON body in hand
	uploads   *semaphore.Weighted // bytes of uploads in hand
}

// New returns the handler of everything that Graphmill serves over HTTP. It
// is safe for concurrent use and owns nothing that must be closed.
func New(engine Engine, cfg Config) (http.Handler, error) {
	s := newService(engine, cfg)
	mux := chi.NewMux()
	mux.Use(s.identify, s.recoverPanics, s.guard, actionPaths, middleware.GetHead)
	mux.NotFound(s.notFound)
	mux.MethodNotAllowed(s.methodNotAllowed(mux))

	s.describe(mux)
	s.serveMetrics(mux)
	if err := s.serveDocs(mux); err != nil {
		return nil, fmt.Errorf("describe the API: %w", err)
	}
	return mux, nil
}

// OpenAPI returns the OpenAPI 3.1 description of the API as indented JSON.
func OpenAPI(version string) ([]byte, error) {
	s := newService(nil, Config{Version: version})
	s.describe(chi.NewMux())
	doc, err := json.MarshalIndent(s.huma.OpenAPI(), "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode the OpenAPI description: %w", err)
	}
	return append(doc, '\n'), nil
}

func newService(engine Engine, cfg Config) *service {
	if cfg.MaxModuleBytes == 0 {
		cfg.MaxModuleBytes = DefaultMaxModuleBytes
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &service{
		engine: engine, cfg: cfg, log: cfg.Logger,
		largeJSON: make(chan struct{}, maxLargeJSON),
		uploads:   semaphore.NewWeighted(uploadsAtOnce * cfg.MaxModuleBytes),
	}
}

// describe registers every operation on mux and completes the description.
func (s *service) describe(mux chi.Router) {
	schemas := huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer)
	s.huma = huma.NewAPI(huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{
				Title:   "Graphmill",
				Version: s.cfg.Version,
				Description: "Streams of messages into a graph: modules are uploaded transformations, " +
					"streams read topics through them. Errors are problem details (RFC 9457) with " +
					"a stable code, the field that is wrong, and the next step.",
			},
			Components: &huma.Components{Schemas: schemas},
			Tags: []*huma.Tag{
				{Name: "Modules", Description: "Uploaded transformations, in versions."},
				{Name: "Streams", Description: "Definitions: source, batching, transformation, delivery."},
				{Name: "Statements", Description: "The stream statements of Memgraph, and ours beside them."},
				{Name: "Events", Description: "What happens to the streams, as it happens."},
				{Name: "Probes", Description: "Whether the process lives and can work."},
			},
		},
		Formats:                      map[string]huma.Format{jsonType: strictJSON, "json": strictJSON},
		DefaultFormat:                jsonType,
		RejectUnknownQueryParameters: true,
		Transformers:                 []huma.Transformer{s.fromHuma},
	}, &routes{Router: mux, service: s})

	s.registerModules()
	s.registerRun()
	s.registerStreams()
	s.registerPatch()
	s.registerOffsets()
	s.registerCheck()
	s.registerQuery()
	s.registerEvents()
	s.registerProbes()
	s.completeSchemas()
}
