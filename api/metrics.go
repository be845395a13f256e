package api

import (
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Bounds of a scrape: it asks nothing of brokers or the database, so it takes
// milliseconds, and nobody needs several at a time.
const (
	scrapeTimeout = 10 * time.Second
	scrapesAtOnce = 4
	metricsPath   = "/metrics"
)

// serveMetrics serves what Config.Metrics gathers, in the formats of Prometheus
// and OpenMetrics.
func (s *service) serveMetrics(mux chi.Router) {
	if s.cfg.Metrics == nil {
		return
	}
	metrics := promhttp.HandlerFor(s.cfg.Metrics, promhttp.HandlerOpts{
		ErrorLog:            scrapeLog{s},
		ErrorHandling:       promhttp.ContinueOnError,
		MaxRequestsInFlight: scrapesAtOnce,
		Timeout:             scrapeTimeout,
	})
	mux.Method(http.MethodGet, metricsPath, metrics)
}

// scrapeLog is promhttp's logger.
type scrapeLog struct{ s *service }

// Println implements promhttp.Logger.
func (l scrapeLog) Println(v ...any) { l.s.log.Error("gather the metrics", "error", v) }
