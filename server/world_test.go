package server_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/integration/boltserver"
	"github.com/graphmill/graphmill/server"
	"github.com/graphmill/graphmill/server/graph"
)

const (
	// patience bounds what a test waits for; a busy machine may need some of it.
	patience = time.Minute

	// brief is a time limit that is to be over. A busy machine still does within it
	// what a test wants done before.
	brief = 3 * time.Second
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a broker, a database and servers that use them.
type world struct {
	t     *testing.T
	kafka *kfake.Cluster
	addrs []string // of its brokers; it does not tell once it is closed
	bolt  *boltserver.Server
	sink  *graph.Sink
	admin *kadm.Client
	dir   string // the first server's
	log   logLines
}

// newWorld makes a world of the test's own, beside those of other tests.
func newWorld(t *testing.T, partitions int32, opts boltserver.Options) *world {
	t.Helper()
	t.Parallel() // they wait more than they work
	return newLoneWorld(t, partitions, opts)
}

// newLoneWorld makes the only world there is meanwhile.
func newLoneWorld(t *testing.T, partitions int32, opts boltserver.Options) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir()}
	var err error
	w.kafka, err = kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(partitions, "topic"), kfake.SleepOutOfOrder())
	require.NoError(t, err)
	t.Cleanup(w.kafka.Close)
	w.addrs = w.kafka.ListenAddrs()
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(strings.Join(w.log.with(""), ""))
		}
	})
	w.bolt = boltserver.Start(t, opts)
	w.sink = w.connect("neo4j", opts.Password)
	w.admin, err = kadm.NewOptClient(kgo.SeedBrokers(w.addrs...))
	require.NoError(t, err)
	t.Cleanup(w.admin.Close)
	return w
}

func (w *world) connect(user, password string) *graph.Sink {
	w.t.Helper()
	sink, err := graph.Open(graph.Config{URI: w.bolt.URI(), User: user, Password: password})
	require.NoError(w.t, err)
	w.t.Cleanup(func() { sink.Close(context.Background()) })
	return sink
}

func (w *world) config(change func(*server.Config)) server.Config {
	cfg := server.Config{
		DataDir:          w.dir,
		Sink:             w.sink,
		SinkName:         "the recording server",
		BootstrapServers: w.addrs,
		StartTimeout:     patience,
		CreateTimeout:    patience,
		RetryInterval:    5 * time.Millisecond,
		Logger:           slog.New(slog.NewTextHandler(&w.log, nil)),
	}
	if change != nil {
		change(&cfg)
	}
	return cfg
}

// logLines keeps what servers log, and shows it when the test has failed.
type logLines struct {
	mu    sync.Mutex
	lines []string
}

func (l *logLines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, string(line))
	return len(line), nil
}

// with returns the lines that hold what.
func (l *logLines) with(what string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []string
	for _, line := range l.lines {
		if strings.Contains(line, what) {
			found = append(found, line)
		}
	}
	return found
}

// open opens a server on the world's data directory; it is closed with the
// test.
func (w *world) open(change func(*server.Config)) *server.Server {
	w.t.Helper()
	s, err := server.Open(w.t.Context(), w.config(change))
	require.NoError(w.t, err)
	wait := w.watchStates(s)
	w.t.Cleanup(func() {
		w.close(s)
		wait()
	})
	return s
}

// close closes a server; closing twice does no harm.
func (w *world) close(s *server.Server) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_ = s.Close(ctx) // a second Close reports that the catalog is closed
}

// push uploads the obedient module.
func (w *world) push(s *server.Server) {
	w.t.Helper()
	_, err := s.PushModule(w.t.Context(), server.PushRequest{Name: "obedient", ContentType: server.ContentTypeWasm, Bytes: obedient})
	require.NoError(w.t, err)
}

func (w *world) create(s *server.Server, change func(*graphmill.StreamSpec)) {
	w.t.Helper()
	spec := graphmill.StreamSpec{Name: "s", Topics: []string{"topic"}, Transform: "obedient", StartFrom: graphmill.StartEarliest, BatchIntervalMS: 20}
	if change != nil {
		change(&spec)
	}
	_, err := s.CreateStream(w.t.Context(), server.CreateRequest{Spec: spec, Check: true})
	require.NoError(w.t, err)
}

func (w *world) start(s *server.Server) {
	w.t.Helper()
	_, err := s.StartStream(w.t.Context(), "s", server.StartRequest{})
	require.NoError(w.t, err)
}

// produce sends payloads to partition 0.
func (w *world) produce(payloads ...string) {
	w.t.Helper()
	records := make([]*kgo.Record, len(payloads))
	for i, p := range payloads {
		records[i] = &kgo.Record{Topic: "topic", Value: []byte(p)}
	}
	w.produceRecords(records...)
}

func (w *world) produceRecords(records ...*kgo.Record) {
	w.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.addrs...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	require.NoError(w.t, err)
	defer cl.Close()
	require.NoError(w.t, cl.ProduceSync(w.t.Context(), records...).FirstErr())
}

// applied returns the payloads that have been committed, in order.
func (w *world) applied() []string {
	payloads := []string{}
	for _, tx := range w.bolt.Committed() {
		for _, st := range tx.Statements {
			for _, row := range st.Rows() {
				payloads = append(payloads, fmt.Sprint(row["payload"]))
			}
		}
	}
	return payloads
}

// onStore makes hooks that are asked for the statements of streams only, not
// for those by which the database is looked at.
func onStore(f func() boltserver.Reply) boltserver.Hooks {
	return boltserver.Hooks{OnRun: func(st boltserver.Statement) boltserver.Reply {
		if !strings.Contains(st.Query, "CREATE (:Message") {
			return boltserver.Reply{}
		}
		return f()
	}}
}

// onCommit makes hooks that answer every COMMIT so.
func onCommit(r boltserver.Reply) boltserver.Hooks {
	return boltserver.Hooks{OnCommit: func(boltserver.Transaction) boltserver.Reply { return r }}
}

// committed returns the group's offset of partition 0; -1: none.
func (w *world) committed() int64 {
	w.t.Helper()
	offsets, err := w.admin.FetchOffsets(w.t.Context(), "graphmill.s")
	if errors.Is(err, kerr.GroupIDNotFound) {
		return -1
	}
	require.NoError(w.t, err)
	o, ok := offsets.Lookup("topic", 0)
	if !ok {
		return -1
	}
	return o.At
}

func (w *world) status(s *server.Server) graphmill.StreamStatus {
	w.t.Helper()
	status, err := s.StreamStatus(w.t.Context(), "s")
	require.NoError(w.t, err)
	return status
}

// await waits until the status is as wanted and returns it.
func (w *world) await(s *server.Server, what string, wanted func(graphmill.StreamStatus) bool) graphmill.StreamStatus {
	w.t.Helper()
	var status graphmill.StreamStatus
	require.Eventually(w.t, func() bool {
		status = w.status(s)
		return wanted(status)
	}, patience, 5*time.Millisecond, "waited in vain until %s", what)
	return status
}

func (w *world) awaitState(s *server.Server, state graphmill.State) graphmill.StreamStatus {
	w.t.Helper()
	return w.await(s, "the stream is "+string(state), func(st graphmill.StreamStatus) bool { return st.State == state })
}

// awaitAcknowledged waits until partition 0 is acknowledged up to offset.
func (w *world) awaitAcknowledged(s *server.Server, offset int64) graphmill.StreamStatus {
	w.t.Helper()
	return w.await(s, fmt.Sprintf("offset %d is acknowledged", offset), func(st graphmill.StreamStatus) bool {
		return len(st.Partitions) > 0 && st.Partitions[0].Acknowledged == offset && st.CurrentBatch == nil
	})
}

func requireCode(t *testing.T, err error, code string) *graphmill.Error {
	t.Helper()
	var e *graphmill.Error
	require.True(t, errors.As(err, &e), "%v", err)
	require.Equal(t, code, e.Code, "%v", err)
	return e
}
