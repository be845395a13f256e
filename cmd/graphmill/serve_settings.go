package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/server"
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
