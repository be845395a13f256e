package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/twmb/franz-go/pkg/kfake"
)

// Bounds of what the embedded broker keeps, per partition.
const (
	devRetention     = 7 * 24 * time.Hour
	devRetentionSize = 1 << 30 // bytes
	devRetentionRun  = 10 * time.Minute
)

// devSettings are the settings of graphmill dev alone.
type devSettings struct {
	kafkaListen string
}

func (d *devSettings) add(fs *pflag.FlagSet) {
	fs.StringVar(&d.kafkaListen, "dev-kafka-listen", defaultBroker, "where the embedded broker listens; a free port where this one is taken")
}

func (a *app) devCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run a server with a broker built in, for trying and for authors",
		Long: `Runs a server together with a broker that speaks Kafka's protocol and creates topics
when messages are sent to them. Unless --graph-uri is given, nothing is stored in a graph:
statements are recorded in a file, one line a batch. Broker, streams and file are
kept under --data-dir. This broker is for development; it is not a Kafka.
A Pulsar is not among it: --pulsar-service-url names one for streams that read Pulsar.`,
		Example: `  graphmill dev
  graphmill dev --graph-uri bolt://127.0.0.1:7687`,
		Args: takes(),
	}
	var s serveSettings
	s.add(cmd.Flags())
	s.dev.add(cmd.Flags())
	const ownBroker = "kafka-bootstrap-servers"
	cmd.Flags().Lookup(ownBroker).Hidden = true // it may stand in a shared file or environment
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if cmd.Flags().Changed(ownBroker) {
			return wrongUsage("graphmill dev has a broker of its own; graphmill serve takes --%s, and so does a stream, as --bootstrap-servers", ownBroker)
		}
		if err := a.loadServeSettings(cmd, &s); err != nil {
			return err
		}
		if err := checkExposure("dev-kafka-listen", s.dev.kafkaListen, false); err != nil {
			return err
		}
		if err := os.MkdirAll(s.dataDir, 0o700); err != nil {
			return fmt.Errorf("make the data directory: %w", err)
		}
		if s.graph.uri == "" {
			s.graph.uri = ledgerScheme + filepath.Join(s.dataDir, "ledger.jsonl")
		}
		broker, err := newDevBroker(cmd.Context(), s.dev.kafkaListen)
		if err != nil {
			return err
		}
		defer broker.close() // where serve did not come as far
		s.kafkaServers = []string{broker.address()}
		return a.serve(cmd.Context(), &s, broker)
	}
	return cmd
}

// devBroker is the embedded broker. It listens from the beginning, since its
// address is a setting of the server, and works once the server owns the data
// directory: two processes must not write the same topics.
type devBroker struct {
	listener net.Listener
	wanted   string // the address that was taken; empty: none was
	cluster  *kfake.Cluster
	stop     chan struct{}
	done     sync.WaitGroup
	once     sync.Once
}

func newDevBroker(ctx context.Context, address string) (*devBroker, error) {
	b := &devBroker{stop: make(chan struct{})}
	var err error
	b.listener, err = new(net.ListenConfig).Listen(ctx, "tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		host, _, _ := net.SplitHostPort(address)
		b.wanted = address
		address = net.JoinHostPort(host, "0")
		b.listener, err = new(net.ListenConfig).Listen(ctx, "tcp", address)
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s for the embedded broker: %w", address, rootCause(err))
	}
	return b, nil
}

func (b *devBroker) address() string { return b.listener.Addr().String() }

// start begins to serve, with the topics of dir.
func (b *devBroker) start(dir string, log *slog.Logger) error {
	var err error
	b.cluster, err = kfake.NewCluster(
		kfake.NumBrokers(1),
		kfake.ListenFn(func(string, string) (net.Listener, error) { return b.listener, nil }),
		kfake.DataDir(dir),
		kfake.ClusterID("graphmill-dev"),
		kfake.AllowAutoTopicCreation(),
		kfake.DefaultNumPartitions(1),
		kfake.BrokerConfigs(map[string]string{
			"log.retention.ms":    fmt.Sprint(devRetention.Milliseconds()),
			"log.retention.bytes": fmt.Sprint(devRetentionSize),
		}),
		kfake.WithLogger(brokerLog{log}),
	)
	if err != nil {
		return fmt.Errorf("start the embedded broker with the topics of %s: %w", dir, err)
	}
	// The broker applies retention by itself only to topics that set it.
	b.done.Go(func() {
		tick := time.NewTicker(devRetentionRun)
		defer tick.Stop()
		for {
			b.cluster.ApplyRetention()
			select {
			case <-b.stop:
				return
			case <-tick.C:
			}
		}
	})
	return nil
}

// close stops the broker and stores what it has. Closing twice does nothing.
func (b *devBroker) close() {
	b.once.Do(func() {
		close(b.stop)
		b.done.Wait()
		if b.cluster != nil {
			b.cluster.Close()
		} else {
			_ = b.listener.Close()
		}
	})
}

func (b *devBroker) announce(w io.Writer, ledger bool) {
	fmt.Fprintf(w, "  broker      %s (embedded; topics are created when messages are sent to them)\n", b.address())
	if b.wanted != "" {
		fmt.Fprintf(w, "              %s is taken; for graphmill produce: export %s=%s\n", b.wanted, brokersVar, b.address())
	}
	if ledger {
		fmt.Fprintln(w, "Nothing is stored in a graph: statements are recorded, not executed. For a database: --graph-uri")
	}
}

// brokerLog hands the embedded broker's log on; its everyday lines are debug.
type brokerLog struct{ log *slog.Logger }

// Logf is kfake.Logger.
func (l brokerLog) Logf(level kfake.LogLevel, format string, args ...any) {
	to := slog.LevelDebug
	switch level {
	case kfake.LogLevelError:
		to = slog.LevelError
	case kfake.LogLevelWarn:
		to = slog.LevelWarn
	}
	if l.log.Enabled(context.Background(), to) {
		l.log.Log(context.Background(), to, "embedded broker: "+fmt.Sprintf(format, args...))
	}
}
