package server

import (
	"cmp"
	"context"
	"regexp"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/sources"
)

// stage is a part of a batch's way through a lane, as metrics spell it.
type stage string

const (
	stageFetch       stage = "fetch"
	stageBatch       stage = "batch"
	stageTransform   stage = "transform"
	stageExecute     stage = "execute"
	stageAcknowledge stage = "acknowledge"
)

var stages = []stage{stageFetch, stageBatch, stageTransform, stageExecute, stageAcknowledge}

// retryKind says what is tried again, as metrics spell it.
type retryKind string

const (
	retryConflict       retryKind = "conflict"       // a transaction that lost against another
	retryOutage         retryKind = "outage"         // a transaction after the database had been away
	retryUnfamiliar     retryKind = "unfamiliar"     // an error of the database that nobody knows
	retryTransformation retryKind = "transformation" // failures that the transformation calls worth another try
	retryAcknowledge    retryKind = "acknowledge"    // an acknowledgement that the broker did not take
)

var retryKinds = []retryKind{retryConflict, retryOutage, retryUnfamiliar, retryTransformation, retryAcknowledge}

// Buckets of the histograms. There is one series a bucket, stage and stream, so
// they are few.
var (
	stageBuckets = []float64{.001, .005, .01, .05, .1, .5, 1, 5, 10, 30, 120} // seconds
	batchBuckets = []float64{1, 10, 100, 500, 1000, 5000, 10_000, 100_000}    // messages
)

// metrics are what a server counts, in a registry of its own. What is not
// counted but looked at is in liveMetrics. Safe for concurrent use.
//
// Names are a promise to dashboards and alerts: docs/observability.md lists
// them, and a test holds it to the registry.
type metrics struct {
	registry *prometheus.Registry

	consumedMessages, consumedBytes *prometheus.CounterVec
	acknowledged, dropped           *prometheus.CounterVec
	closed, splits                  *prometheus.CounterVec
	sizes                           *prometheus.HistogramVec
	statements, sent, transactions  *prometheus.CounterVec
	unknownCommits                  *prometheus.CounterVec
	retries, failures, replaced     *prometheus.CounterVec
	durations                       *prometheus.HistogramVec

	codes failureCodes
}

func newMetrics(version string) *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "graphmill_" + name, Help: help}, append([]string{"stream"}, labels...))
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "graphmill_" + name, Help: help, Buckets: buckets}, append([]string{"stream"}, labels...))
	}
	m := &metrics{
		registry: prometheus.NewRegistry(),

		consumedMessages: counter("consumed_messages_total", "Messages taken from the broker into batches; those read again after a failure count again."),
		consumedBytes:    counter("consumed_bytes_total", "Bytes of payload, key and headers of the consumed messages."),
		acknowledged:     counter("acknowledged_messages_total", "Messages whose effects are in the graph and whose positions are acknowledged."),
		dropped:          counter("dropped_messages_total", "Acknowledged messages for which the transformation returned no statement."),
		closed:           counter("batches_closed_total", "Batches by why they were closed: size, bytes, interval, stop or limit.", "reason"),
		splits:           counter("batches_split_total", "Batches that were cut in two, being too big for a transaction or a call of the transformation."),
		sizes:            histogram("batch_messages", "Messages of a batch.", batchBuckets),
		statements:       counter("statements_executed_total", "Statements of transformations that were executed and committed."),
		sent:             counter("statements_sent_total", "Statements that were sent for them after coalescing, and committed."),
		transactions:     counter("transactions_committed_total", "Transactions committed in the database."),
		unknownCommits:   counter("unknown_commits_total", "Commits whose outcome was not known: their batches were executed again, and may be in the graph twice."),
		retries:          counter("retries_total", "Repeated attempts by kind: conflict, outage, unfamiliar, transformation or acknowledge.", "kind"),
		failures:         counter("failures_total", "Batches that failed and runs that ended, by class and reason code.", "class", "code"),
		replaced:         counter("transform_instances_replaced_total", "Instances of the transformation made anew during a run: after an error, for a batch that is handed over again, or for another version of the module."),
		durations:        histogram("stage_duration_seconds", "Time of each stage: fetch (waiting for the broker), batch (from when the lane begins to wait for one to its close), transform, execute (a transaction, also one that fails), acknowledge.", stageBuckets, "stage"),
	}
	for _, v := range m.vecs() {
		m.registry.MustRegister(v)
	}
	m.registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		buildInfo(version),
	)
	return m
}

// vec is a metric with a series for each stream.
type vec interface {
	prometheus.Collector
	DeletePartialMatch(prometheus.Labels) int
}

func (m *metrics) vecs() []vec {
	return []vec{
		m.consumedMessages, m.consumedBytes, m.acknowledged, m.dropped, m.closed, m.splits, m.sizes, m.statements,
		m.sent, m.transactions, m.unknownCommits, m.retries, m.failures, m.replaced, m.durations,
	}
}

func buildInfo(version string) prometheus.Collector {
	revision := ""
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				revision = s.Value
			}
		}
	}
	g := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "graphmill_build_info", Help: "Always 1; the labels tell which program runs.",
		ConstLabels: prometheus.Labels{"version": cmp.Or(version, "devel"), "revision": revision, "goversion": runtime.Version()},
	})
	g.Set(1)
	return g
}

// forget removes the series of a stream.
func (m *metrics) forget(stream string) {
	for _, v := range m.vecs() {
		v.DeletePartialMatch(prometheus.Labels{"stream": stream})
	}
}

// streamMetrics are one stream's series, found once so that counting costs no
// look-up.
type streamMetrics struct {
	consumedMessages, consumedBytes prometheus.Counter
	acknowledged, dropped           prometheus.Counter
	statements, sent, transactions  prometheus.Counter
	unknownCommits, splits          prometheus.Counter
	replaced                        prometheus.Counter
	sizes                           prometheus.Observer
	closed                          map[graphmill.CloseReason]prometheus.Counter
	retries                         map[retryKind]prometheus.Counter
	durations                       map[stage]prometheus.Observer

	failures *prometheus.CounterVec
	codes    *failureCodes
}

// of makes the series of a stream, all that are known beforehand at 0, so that
// an increase is seen from the first one on.
func (m *metrics) of(stream string) *streamMetrics {
	s := &streamMetrics{
		consumedMessages: m.consumedMessages.WithLabelValues(stream),
		consumedBytes:    m.consumedBytes.WithLabelValues(stream),
		acknowledged:     m.acknowledged.WithLabelValues(stream),
		dropped:          m.dropped.WithLabelValues(stream),
		statements:       m.statements.WithLabelValues(stream),
		sent:             m.sent.WithLabelValues(stream),
		transactions:     m.transactions.WithLabelValues(stream),
		unknownCommits:   m.unknownCommits.WithLabelValues(stream),
		splits:           m.splits.WithLabelValues(stream),
		replaced:         m.replaced.WithLabelValues(stream),
		sizes:            m.sizes.WithLabelValues(stream),
		closed:           map[graphmill.CloseReason]prometheus.Counter{},
		retries:          map[retryKind]prometheus.Counter{},
		durations:        map[stage]prometheus.Observer{},
		failures:         m.failures.MustCurryWith(prometheus.Labels{"stream": stream}),
		codes:            &m.codes,
	}
	for _, r := range graphmill.CloseReasons {
		s.closed[r] = m.closed.WithLabelValues(stream, r.String())
	}
	for _, k := range retryKinds {
		s.retries[k] = m.retries.WithLabelValues(stream, string(k))
	}
	for _, st := range stages {
		s.durations[st] = m.durations.WithLabelValues(stream, string(st))
	}
	return s
}

func (s *streamMetrics) took(st stage, d time.Duration) { s.durations[st].Observe(d.Seconds()) }

func (s *streamMetrics) batchClosed(b *graphmill.Batch, took time.Duration) {
	s.took(stageBatch, took)
	s.closed[b.Closed].Inc()
	s.sizes.Observe(float64(len(b.Messages)))
	s.consumedMessages.Add(float64(len(b.Messages)))
	s.consumedBytes.Add(float64(b.Bytes))
}

func (s *streamMetrics) committed(e graphmill.Executed) {
	s.transactions.Inc()
	s.statements.Add(float64(e.Statements))
	s.sent.Add(float64(e.Sent))
}

func (s *streamMetrics) failed(f *graphmill.Fault) {
	s.failures.WithLabelValues(string(f.Class), s.codes.label(f.Code)).Inc()
}

// timedFetcher measures how long a lane waits for messages.
type timedFetcher struct {
	sources.Source
	metrics *streamMetrics
}

// Fetch implements batching.Fetcher.
func (t timedFetcher) Fetch(ctx context.Context, max int) ([]graphmill.Fetch, error) {
	began := time.Now()
	fetches, err := t.Source.Fetch(ctx, max)
	if err == nil {
		t.metrics.took(stageFetch, time.Since(began))
	}
	return fetches, err
}

// maxFailureCodes bounds the values of the label code. There are some forty.
const maxFailureCodes = 100

// otherCode stands for codes that are none, or beyond the bound.
const otherCode = "other"

var failureCode = regexp.MustCompile(`^[a-z][a-z0-9_]{0,39}$`)

// failureCodes keeps whatever a fault may call its code from making series
// without end.
type failureCodes struct {
	mu    sync.Mutex
	known map[string]struct{}
}

func (c *failureCodes) label(code string) string {
	if !failureCode.MatchString(code) {
		return otherCode
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.known[code]; ok {
		return code
	}
	if len(c.known) == maxFailureCodes {
		return otherCode
	}
	if c.known == nil {
		c.known = map[string]struct{}{}
	}
	c.known[code] = struct{}{}
	return code
}
