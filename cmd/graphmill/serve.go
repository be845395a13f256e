package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/api"
	"github.com/graphmill/graphmill/server"
	"github.com/graphmill/graphmill/server/secret"
)

func (a *app) serveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve --graph-uri URI",
		Short: "Run a server",
		Long: `Runs a server: it keeps modules and streams under --data-dir, serves the API, and
runs the streams that are to run, also after a restart. SIGINT or SIGTERM ends it
once the batches under way are in the graph; a second one ends it at once.

Every setting is a flag, or a variable (--data-dir is GRAPHMILL_DATA_DIR), or a
line of graphmill.yaml (data-dir: ...), in this order. The commands that work with
a server read the same file: its lines server and token-file are theirs.`,
		Example: `  graphmill serve --graph-uri bolt://127.0.0.1:7687 --graph-user neo4j \
      --graph-password-file password.txt --kafka-bootstrap-servers 127.0.0.1:9092

  # no database: statements are recorded in a file
  graphmill serve --graph-uri ledger:statements.jsonl`,
		Args: takes(),
	}
	var s serveSettings
	s.add(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := a.loadServeSettings(cmd, &s); err != nil {
			return err
		}
		if s.graph.uri == "" {
			return &usageError{
				text: "--graph-uri is needed: where do the statements go?",
				next: "name a database (--graph-uri bolt://127.0.0.1:7687) or a file (--graph-uri ledger:statements.jsonl); to try it out: graphmill dev",
			}
		}
		return a.serve(cmd.Context(), &s, nil)
	}
	return cmd
}

// newLogger writes to standard error.
func (a *app) newLogger(s *serveSettings) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(s.logLevel)) // oneOf has let only levels through
	opts := &slog.HandlerOptions{Level: level}
	if s.logFormat == "json" {
		return slog.New(slog.NewJSONHandler(a.err, opts))
	}
	return slog.New(slog.NewTextHandler(a.err, opts))
}

// serve runs a server until ctx ends. It listens before anything that takes
// long, so that /healthz answers from the first moment on. broker is the
// embedded one of graphmill dev; nil: there is none.
func (a *app) serve(ctx context.Context, s *serveSettings, broker *devBroker) (err error) {
	log := a.newLogger(s)
	s.warnOfSecrets(log)
	tokens, err := s.openTokens(log)
	if err != nil {
		return err
	}
	listener, err := listen(ctx, "listen", s.listen)
	if err != nil {
		return err
	}
	if tokens == nil && !s.noAuth && !isLocalAddr(listener.Addr()) { // localhost may be any address
		return errors.Join(exposed("listen", listener.Addr().String()), listener.Close())
	}
	apiConfig := api.Config{
		MetricsAuth:    s.metricsAuth,
		Version:        version(),
		MaxModuleBytes: s.limits.maxModuleBytes(),
		LocalOnly:      tokens == nil && isLocalAddr(listener.Addr()),
		Tokens:         tokens,
		Logger:         log,
	}
	web := startHTTP(listener, api.Starting(apiConfig))
	defer func() { err = errors.Join(err, web.stop()) }()

	sink, sinkName, err := s.graph.open(log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sink.Close(context.WithoutCancel(ctx))) }()

	if broker != nil {
		defer broker.close() // after the engine, whose last acknowledgements it takes
	}
	engine, err := server.Open(ctx, a.engineConfig(s, sink, sinkName, log))
	if err != nil {
		return asFlagOf(err)
	}
	defer func() {
		// The engine keeps the drain timeout itself; this is for what hangs.
		drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.drainTimeout+10*time.Second)
		defer cancel()
		err = errors.Join(err, engine.Close(drain))
	}()
	if broker != nil {
		if err := broker.start(filepath.Join(s.dataDir, "kafka"), log); err != nil {
			return err
		}
	}
	apiConfig.Metrics = engine.Metrics()
	handler, err := api.New(engine, apiConfig)
	if err != nil {
		return err
	}
	web.handle(handler)
	a.announce(s, listener.Addr(), sinkName, broker)

	select {
	case <-ctx.Done():
		fmt.Fprintln(a.out, "Stopping: the batches under way are being finished. Once more ends it at once.")
		web.cancel()
		return nil
	case err := <-web.failed:
		return fmt.Errorf("serve the API: %w", err)
	}
}

func (a *app) engineConfig(s *serveSettings, sink graphmill.Sink, sinkName string, log *slog.Logger) server.Config {
	retries := s.conflictRetries
	if retries == 0 {
		retries = -1 // none; 0 would be the default
	}
	return server.Config{
		DataDir:          s.dataDir,
		PluginsDir:       pluginsDir(s.pluginsDir),
		Sink:             sink,
		SinkName:         sinkName,
		BootstrapServers: s.kafkaServers,
		PulsarServiceURL: s.pulsarServiceURL,
		PulsarAdminURL:   s.pulsarAdminURL,
		CacheSize:        int64(s.moduleCache),
		Limits:           s.limits.limits(),
		SecretKeyFile:    s.secretKeyFile,
		Secrets:          secret.References{Dir: s.secretsDir, Variable: a.lookupEnv},
		Compiler:         a.compiler,
		CreateTimeout:    s.createTimeout,
		StartTimeout:     s.startTimeout,
		DrainTimeout:     s.drainTimeout,
		ConflictRetries:  retries,
		RetryInterval:    time.Duration(s.retryInterval),
		Version:          version(),
		Logger:           log,
	}
}

// announce tells people what runs.
func (a *app) announce(s *serveSettings, addr net.Addr, sinkName string, broker *devBroker) {
	dataDir, err := filepath.Abs(s.dataDir)
	if err != nil {
		dataDir = s.dataDir
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Graphmill %s\n", version())
	door := ""
	if s.tokenFile != "" {
		door = "; a token is needed"
	}
	fmt.Fprintf(&b, "  API         http://%s (documentation: /docs%s)\n", addr, door)
	fmt.Fprintf(&b, "  statements  %s\n", sinkName)
	fmt.Fprintf(&b, "  data        %s\n", dataDir)
	if broker != nil {
		broker.announce(&b, s.graph.isLedger())
	}
	fmt.Fprint(a.out, b.String())
}
