package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/api"
	"github.com/graphmill/graphmill/server"
	"github.com/graphmill/graphmill/server/secret"
	"github.com/graphmill/graphmill/sources/pulsar"
	"github.com/graphmill/graphmill/wasmhost"
)

// serveSettings are the settings of a server.
type serveSettings struct {
	config  string
	listen  string
	dataDir string

	tokenFile     string
	noAuth        bool
	secretsDir    string
	secretKeyFile string

	metricsAuth bool

	graph graphSettings

	kafkaServers     []string
	pulsarServiceURL string
	pulsarAdminURL   string

	conflictRetries int
	retryInterval   millis
	createTimeout   time.Duration
	startTimeout    time.Duration
	drainTimeout    time.Duration

	pluginsDir  string
	moduleCache byteCount
	limits      limitSettings

	logFormat string
	logLevel  string

	dev devSettings // of graphmill dev alone
}

func (s *serveSettings) add(fs *pflag.FlagSet) {
	fs.SortFlags = false
	fs.StringVar(&s.config, "config", "", "file of settings (default "+settingsFile+", if there is one)")
	fs.StringVar(&s.listen, "listen", "127.0.0.1:7480", "where to serve the API")
	fs.StringVar(&s.dataDir, "data-dir", "./graphmill-data", "where streams, modules and positions are kept; owned by one process")
	s.graph.add(fs)
	fs.StringSliceVar(&s.kafkaServers, "kafka-bootstrap-servers", nil, "brokers of streams that name none, as host:port")
	fs.StringVar(&s.pulsarServiceURL, "pulsar-service-url", "", "Pulsar of streams that name none, as pulsar://host:port, more hosts behind commas")
	fs.StringVar(&s.pulsarAdminURL, "pulsar-admin-url", "", "admin REST of that Pulsar, as http://host:port: the position of subscriptions and the broker's own backlog are told by it alone")
	fs.IntVar(&s.conflictRetries, "stream-transaction-conflict-retries", server.DefaultConflictRetries, "how often a transaction that lost against another is tried again")
	s.retryInterval = millis(server.DefaultRetryInterval)
	fs.Var(&s.retryInterval, "stream-transaction-retry-interval", "the longest pause between such tries; a bare integer is milliseconds")
	fs.DurationVar(&s.createTimeout, "create-timeout", server.DefaultCreateTimeout, "how long creating a stream looks for broker and topics")
	fs.DurationVar(&s.startTimeout, "start-timeout", server.DefaultStartTimeout, "how long starting a stream waits for its start positions")
	fs.DurationVar(&s.drainTimeout, "drain-timeout", server.DefaultDrainTimeout, "how long stopping waits for the batches under way")
	addPluginsDir(fs, &s.pluginsDir)
	s.moduleCache = wasmhost.DefaultCacheSize
	fs.Var(&s.moduleCache, "module-cache-size", "what compiled modules may take of the data directory; what is not in use goes first")
	s.limits.add(fs)
	fs.StringVar(&s.tokenFile, "token-file", "", "file of tokens that let callers in, one a line, as TOKEN or NAME:TOKEN (default: none is needed, on loopback)")
	fs.StringVar(&s.secretsDir, "secrets-dir", "", "folder of the files that secret:NAME and *.location name in definitions (secret:NAME else the variable "+secretPrefix+"NAME)")
	fs.StringVar(&s.secretKeyFile, "secret-key-file", "", "file of the key that seals credentials in the data directory (default one made there)")
	fs.BoolVar(&s.noAuth, "insecure-no-auth", false, "serve beyond loopback, to everyone who can reach it")
	fs.BoolVar(&s.metricsAuth, "metrics-auth", false, "serve /metrics to callers with a token only")
	fs.Var(newOneOf(&s.logFormat, "text", "json"), "log-format", "how the log on standard error is written")
	fs.Var(newOneOf(&s.logLevel, "info", "debug", "warn", "error"), "log-level", "what is logged")
}

// settingNames lists every setting, those of dev and of other commands too.
func settingNames() []string {
	var s serveSettings
	fs := pflag.NewFlagSet("settings", pflag.ContinueOnError)
	s.add(fs)
	s.dev.add(fs)
	names := slices.DeleteFunc(slices.Clone(clientSettings), func(name string) bool { return fs.Lookup(name) != nil })
	fs.VisitAll(func(f *pflag.Flag) {
		if f.Name != "config" {
			names = append(names, f.Name)
		}
	})
	return names
}

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

// loadServeSettings reads variables and the settings file into s.
func (a *app) loadServeSettings(cmd *cobra.Command, s *serveSettings) error {
	config := s.config
	if config == "" {
		config = a.getenv(configVar)
	}
	warnings, err := loadSettings(cmd.Flags(), settingNames(), config, a.environ)
	for _, w := range warnings {
		fmt.Fprintf(a.err, "warning: %s\n", w)
	}
	if err != nil {
		return err
	}
	if err := refuseEmpty(cmd.Flags()); err != nil {
		return err
	}
	if err := s.check(); err != nil {
		return err
	}
	return s.checkExposed()
}

// refuseEmpty refuses settings of the doors that are given and say nothing, such
// as of a variable that was to be filled in: the server would be open, or use
// another key, without a word.
func refuseEmpty(flags *pflag.FlagSet) error {
	for _, name := range []string{"token-file", "secret-key-file", "secrets-dir"} {
		if f := flags.Lookup(name); f.Changed && f.Value.String() == "" {
			return wrongUsage("--%s (%s) is given and empty; name a file or folder, or leave it out", name, variableOf(name))
		}
	}
	return nil
}

// checkExposed refuses to serve the API beyond this machine by accident.
func (s *serveSettings) checkExposed() error {
	return checkExposure("listen", s.listen, s.noAuth || s.tokenFile != "")
}

// check refuses values that a flag's own parser takes and a server would take
// for its defaults, or for something that was not meant.
func (s *serveSettings) check() error {
	for _, d := range []struct {
		flag  string
		value time.Duration
	}{
		{"create-timeout", s.createTimeout}, {"start-timeout", s.startTimeout}, {"drain-timeout", s.drainTimeout},
		{"stream-transaction-retry-interval", time.Duration(s.retryInterval)},
	} {
		if d.value <= 0 {
			return wrongUsage("--%s %s is not more than 0", d.flag, d.value)
		}
	}
	switch {
	case s.conflictRetries < 0:
		return wrongUsage("--stream-transaction-conflict-retries %d is less than 0", s.conflictRetries)
	case s.metricsAuth && s.tokenFile == "":
		return wrongUsage("--metrics-auth needs --token-file: there is no token that could be asked for")
	case s.moduleCache == 0:
		return wrongUsage("--module-cache-size 0 is no size; name one, such as 100MiB")
	case s.dataDir == "":
		return wrongUsage("--data-dir is empty; it names a folder")
	}
	for _, address := range s.kafkaServers {
		if err := graphmill.ValidateBroker("kafka_bootstrap_servers", address); err != nil {
			return asFlag(err)
		}
	}
	return s.checkPulsar()
}

func (s *serveSettings) checkPulsar() error {
	if s.pulsarServiceURL != "" {
		if err := graphmill.ValidateServiceURL("pulsar_service_url", s.pulsarServiceURL); err != nil {
			return asFlag(err)
		}
	}
	if s.pulsarAdminURL == "" {
		return nil
	}
	if s.pulsarServiceURL == "" {
		return wrongUsage("--pulsar-admin-url needs --pulsar-service-url: it is the admin REST of that Pulsar")
	}
	_, err := pulsar.ParseAdminURL("pulsar_admin_url", s.pulsarAdminURL)
	return asFlag(err)
}

// checkExposure refuses to serve beyond this machine by accident, without a
// login.
func checkExposure(flag, address string, allowed bool) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return wrongUsage("--%s %q is no address such as 127.0.0.1:7480", flag, address)
	}
	if allowed || isLocal(host) {
		return nil
	}
	return exposed(flag, address)
}

func exposed(flag, address string) error {
	return &usageError{
		text: fmt.Sprintf("--%s %s would serve everyone who can reach this machine, without a login", flag, address),
		next: "let in callers with a token only (--token-file FILE), listen on 127.0.0.1, or say --insecure-no-auth where the network is closed",
	}
}

func isLocal(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.Unmap().IsLoopback()
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

// keyFile is the file of the key that seals credentials, if it is named or there
// already; else empty.
func (s *serveSettings) keyFile() string {
	if s.secretKeyFile != "" {
		return s.secretKeyFile
	}
	own := server.SecretKeyFile(s.dataDir)
	if _, err := os.Stat(own); err != nil {
		return "" // made when it is needed
	}
	return own
}

// readers says who can read a file of secrets and should not, and how that is
// mended; empty: nobody, or there is none. A file may be its group's, as files that
// are mounted are; the server's own key was made for its owner alone.
func (s *serveSettings) readers(path string) (who, next string) {
	info, err := os.Stat(path)
	switch {
	case err != nil: // told where it is read
	case info.Mode().Perm()&0o004 != 0:
		return "everybody on this machine", "chmod go-rwx " + path
	case info.Mode().Perm()&0o040 != 0 && path == server.SecretKeyFile(s.dataDir):
		return "its group", "chmod go-rwx " + path
	}
	return "", ""
}

// warnOfSecrets tells of files with secrets that others may read, and of a folder of them that nobody can.
func (s *serveSettings) warnOfSecrets(log *slog.Logger) {
	for _, f := range []struct{ flag, path string }{
		{"graph-password-file", s.graph.passwordFile}, {"token-file", s.tokenFile}, {"secret-key-file", s.keyFile()},
	} {
		if who, next := s.readers(f.path); who != "" {
			log.Warn(who+" can read a file of secrets", "setting", f.flag, "file", f.path, "next_step", next)
		}
	}
	if s.secretsDir == "" {
		return
	}
	// It may be mounted later; a wrong name would be told at the first START only.
	if _, err := os.ReadDir(s.secretsDir); err != nil {
		log.Warn("the folder of secrets cannot be read", "setting", "secrets-dir", "error", err)
	}
}

// openTokens reads the tokens that let callers in; nil: none is needed.
func (s *serveSettings) openTokens(log *slog.Logger) (*api.Tokens, error) {
	if s.tokenFile == "" {
		return nil, nil
	}
	tokens, err := api.OpenTokens(s.tokenFile, log)
	return tokens, asFlagOf(err)
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

func isLocalAddr(addr net.Addr) bool {
	host, _, err := net.SplitHostPort(addr.String())
	return err == nil && isLocal(host)
}

// passwordFrom reads a password of a file, without the newline at its end.
func passwordFrom(path string) (string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", wrongUsage("--graph-password-file: %s", err)
	}
	password := strings.TrimRight(string(b), "\r\n")
	if password == "" {
		return "", wrongUsage("--graph-password-file: %s is empty", path)
	}
	return password, nil
}
