// Package server is the engine: it keeps modules and streams, and runs each
// stream's life: fetch, batch, transform, execute, acknowledge.
package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/server/catalog"
	"github.com/graphmill/graphmill/server/events"
	"github.com/graphmill/graphmill/server/secret"
	"github.com/graphmill/graphmill/wasmhost"
)

// Defaults of Config.
const (
	DefaultCreateTimeout   = 10 * time.Second
	DefaultStartTimeout    = 10 * time.Second
	DefaultDrainTimeout    = 30 * time.Second
	DefaultConflictRetries = 30
	DefaultRetryInterval   = 500 * time.Millisecond
	DefaultAnswerTimeout   = 5 * time.Second
)

// Config says what a server works with. Zero durations and counts mean the
// defaults above.
type Config struct {
	DataDir    string // owned by this process while the server is open
	PluginsDir string // ready modules, read only; empty or absent: none
	CacheDir   string // compiled modules, this process's own; empty: within DataDir
	CacheSize  int64  // bytes that they may take; 0: wasmhost.DefaultCacheSize

	Sink     graphmill.Sink // not closed by the server
	SinkName string         // for people: "the ledger FILE", "bolt://host:7687"

	BootstrapServers []string // Kafka brokers of streams that name none
	PulsarServiceURL string   // Pulsar of streams that name none
	PulsarAdminURL   string   // of its admin REST, http(s)://host:port; empty: what only that can tell is not told

	Limits   wasmhost.Limits
	Compiler []string // see wasmhost.Config; nil: modules are compiled in this process

	SecretKeyFile string            // seals credentials in the catalog; empty: one in DataDir, made when it is needed
	Secrets       secret.References // values of secret:NAME in credentials

	CreateTimeout   time.Duration // how long CREATE looks for broker and topics
	StartTimeout    time.Duration // how long START waits for assignment and positions
	DrainTimeout    time.Duration // how long STOP waits for the batches under way
	ConflictRetries int           // attempts after the first, for conflicts in the database; -1: none
	RetryInterval   time.Duration // the longest pause between such attempts

	// AnswerTimeout is how long a transaction takes before the database is asked
	// whether it answers at all, and how long it has for that.
	AnswerTimeout time.Duration

	LagInterval time.Duration // how often the brokers are asked for the ends of partitions, for the metrics

	Version string       // of the program, for the metrics
	Logger  *slog.Logger // nil: nothing is logged
}

func (c Config) withDefaults() Config {
	c.CacheDir = cmp.Or(c.CacheDir, filepath.Join(c.DataDir, "cache", "wasm"))
	c.CreateTimeout = cmp.Or(c.CreateTimeout, DefaultCreateTimeout)
	c.StartTimeout = cmp.Or(c.StartTimeout, DefaultStartTimeout)
	c.DrainTimeout = cmp.Or(c.DrainTimeout, DefaultDrainTimeout)
	c.ConflictRetries = max(0, cmp.Or(c.ConflictRetries, DefaultConflictRetries))
	c.RetryInterval = cmp.Or(c.RetryInterval, DefaultRetryInterval)
	c.AnswerTimeout = cmp.Or(c.AnswerTimeout, DefaultAnswerTimeout)
	c.LagInterval = cmp.Or(c.LagInterval, DefaultLagInterval)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// keys are those that seal credentials.
func (c *Config) keys() *secret.Keys {
	if c.SecretKeyFile != "" {
		return secret.NewKeys(c.SecretKeyFile, false)
	}
	return secret.NewKeys(SecretKeyFile(c.DataDir), true)
}

// SecretKeyFile is where the key of a data directory lies, unless another file is
// named.
func SecretKeyFile(dataDir string) string { return filepath.Join(dataDir, "secret.key") }

// Server keeps modules and streams and runs the streams. Safe for concurrent
// use.
type Server struct {
	cfg     Config
	log     *slog.Logger
	catalog catalog.Catalog
	host    *wasmhost.Host
	plugins *plugins
	gates   *gates
	life    context.Context // until Close
	end     context.CancelFunc

	asking   chan struct{} // holds a value for each stream at rest whose broker is being asked
	events   *events.Hub
	metrics  *metrics
	opened   chan struct{}  // a token when a run has been opened
	watching sync.WaitGroup // what works beside the streams, until life ends

	// defining is held while a stream is added or removed, in the catalog and in
	// the list.
	defining sync.Mutex

	// starting is held by one START at a time, while it looks for a twin.
	starting sync.Mutex

	counting sync.Mutex
	running  int // lanes of all runs; guarded by counting, so that the sink is told in order

	// mu guards what follows, for moments only.
	mu      sync.Mutex
	streams map[string]*stream
	broken  map[string]StreamInfo // whose entries in the catalog cannot be read
	closing bool
}

// Open opens the data directory and resumes every stream that is to run, but
// those that had failed. It does not wait for brokers or the database: a stream
// whose broker is away is waiting, and says so in its status.
func Open(ctx context.Context, cfg Config) (*Server, error) {
	cfg = cfg.withDefaults()
	keys := cfg.keys()
	if err := keys.Check(); err != nil {
		return nil, err
	}
	store, err := catalog.Open(cfg.DataDir, keys, cfg.Logger)
	if err != nil {
		return nil, err
	}
	host, err := wasmhost.New(ctx, wasmhost.Config{
		CacheDir:  cfg.CacheDir,
		CacheSize: cfg.CacheSize,
		Limits:    cfg.Limits,
		Compiler:  cfg.Compiler,
		Logger:    cfg.Logger,
	})
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	life, end := context.WithCancel(context.Background())
	s := &Server{
		cfg:     cfg,
		log:     cfg.Logger,
		catalog: store,
		host:    host,
		gates:   newGates(cfg.Sink, cfg.AnswerTimeout),
		life:    life,
		end:     end,
		asking:  make(chan struct{}, endsAtOnce),
		events:  events.NewHub(),
		metrics: newMetrics(cfg.Version),
		opened:  make(chan struct{}, 1),
		streams: map[string]*stream{},
		broken:  map[string]StreamInfo{},
	}
	s.metrics.registry.MustRegister(newLiveMetrics(s))
	s.plugins, err = openPlugins(cfg.PluginsDir, host, cfg.Logger)
	if err == nil {
		err = s.resume(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close(ctx))
	}
	s.watching.Go(s.tellNews)
	s.watching.Go(s.watchEnds)
	return s, nil
}

// resume loads the stored streams and starts those that are to run.
func (s *Server) resume(ctx context.Context) error {
	stored, broken, err := s.catalog.Streams(ctx)
	if err != nil {
		return err
	}
	_, brokenModules, err := s.catalog.Modules(ctx)
	if err != nil {
		return err
	}
	for _, b := range brokenModules {
		s.log.Error("an entry of the catalog cannot be read; it is left as it is", "kind", b.Kind, "name", b.Name, "error", b.Err,
			"next_step", cmp.Or(nextOf(b.Err), "put the data directory back from a backup, or remove the entry: graphmill module rm "+b.Name))
	}
	for _, b := range broken {
		info := s.brokenInfo(b, now())
		s.broken[b.Name] = info
		s.log.Error("stream broken", "stream", b.Name, "text", info.Reason.Text, "next_step", info.Reason.NextStep)
	}
	lost, err := s.catalog.LostModules(ctx)
	if err != nil {
		return err
	}
	for _, m := range lost {
		s.log.Error("the bytes of a module's version are gone from the data directory, or damaged", "module", m.Name, "version", m.Version,
			"active", m.Active, "sha256", m.SHA256, "next_step", "put the folder modules back from a backup, or "+pushAgain(m.Name))
	}
	for _, rec := range stored {
		s.streams[rec.Spec.Name] = newStream(s, rec)
	}
	resumed := 0
	for _, rec := range stored {
		st := s.streams[rec.Spec.Name]
		switch {
		case rec.Locked != nil:
			st.tell()
		case rec.Desired == graphmill.StateRunning && rec.Failed == nil:
			s.resumeStream(st)
			resumed++
		}
	}
	s.log.Info("streams loaded", "streams", len(stored)+len(broken), "resumed", resumed, "statements_go_to", s.cfg.SinkName)
	return nil
}

// resumeStream begins a run. A twin that runs already can only be there because
// a failure could not be stored.
func (s *Server) resumeStream(st *stream) {
	if err := s.runningTwin(st, st.record().Spec); err != nil {
		st.storeFailure(reasonOf(st.name(), setupFault(err)))
		return
	}
	st.launch(StartRequest{})
}

// lanes notes that lanes have come (1) or gone (-1), for the sink's pool.
func (s *Server) lanes(more int) {
	s.counting.Lock()
	defer s.counting.Unlock()
	s.running += more
	s.cfg.Sink.Lanes(s.running)
}

// Ready returns nil while the server takes work.
func (s *Server) Ready(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return &graphmill.Error{Kind: graphmill.KindUnavailable, Code: "shutting_down", Text: "the server is shutting down"}
	}
	return nil
}

// Close stops every stream after the batch that it is executing, within the
// drain timeout or until ctx ends, ends checks and dry runs, and lets go of the
// data directory. Desired states stay: the next Open resumes. Closing twice does
// nothing.
func (s *Server) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closing = true
	s.mu.Unlock()
	s.end()

	var wg sync.WaitGroup
	s.each(func(st *stream) { wg.Go(func() { st.halt(ctx) }) })
	wg.Wait()
	s.watching.Wait()
	s.events.Close()
	if s.plugins != nil {
		s.plugins.close()
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout) // ctx may have ended with the drain
	defer cancel()
	return errors.Join(s.host.Close(closing), s.catalog.Close())
}

// Metrics returns everything that is measured, for Prometheus.
func (s *Server) Metrics() prometheus.Gatherer { return s.metrics.registry }

// stream returns the running representation of a stored stream.
func (s *Server) stream(name string) (*stream, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if st := s.streams[name]; st != nil {
		return st, nil
	}
	if info, ok := s.broken[name]; ok {
		return nil, &graphmill.Error{Kind: graphmill.KindConflict, Code: info.Reason.Code, Text: info.Reason.Text, Next: info.Reason.NextStep}
	}
	return nil, s.noSuchStreamLocked(name)
}

// noSuchStreamLocked names the stream that was meant, where that can be guessed.
// mu is held.
func (s *Server) noSuchStreamLocked(name string) error {
	e := streamNotFound(name)
	e.Next = "graphmill stream list shows what there is"
	if near := graphmill.Nearest(name, slices.Collect(maps.Keys(s.streams))); near != "" {
		e.Next = fmt.Sprintf("did you mean %q? %s", near, e.Next)
	}
	return e
}

// keepGates lets go of the gates of databases that were left by their last stream.
func (s *Server) keepGates() {
	s.gates.keep(func() map[string]bool {
		used := map[string]bool{}
		s.each(func(st *stream) { used[st.record().Spec.Database] = true })
		return used
	})
}

// each calls f for every stream, without holding mu.
func (s *Server) each(f func(*stream)) {
	s.mu.Lock()
	streams := make([]*stream, 0, len(s.streams))
	for _, st := range s.streams {
		streams = append(streams, st)
	}
	s.mu.Unlock()
	for _, st := range streams {
		f(st)
	}
}
