package kafka_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/integration/ports"
	"github.com/graphmill/graphmill/integration/stack"
	"github.com/graphmill/graphmill/sources"
	"github.com/graphmill/graphmill/sources/kafka"
	"github.com/graphmill/graphmill/sources/sourcetest"
)

// server is the real Kafka that tests run against under the build tag e2e; those
// that need a broker of their own to break are skipped then. Without it every
// test starts a kfake, which speaks the protocol on a real port. The first test
// that wants it starts it.
var server = sync.OnceValues(func() (*stack.Kafka, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	k, err := stack.StartKafka(ctx, stack.KafkaConfig{Log: os.Stderr})
	if err == nil {
		closeServer = k.Close
	}
	return k, err
})

var closeServer = func() error { return nil }

func TestMain(m *testing.M) {
	// Most of these tests wait for the timers of clients and groups, not for a
	// processor. -parallel on the command line comes later and wins.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(withServer{m})
}

// withServer runs tests and ends the server before goroutines that are left are
// looked for.
type withServer struct{ tests *testing.M }

func (w withServer) Run() int {
	code := w.tests.Run()
	if err := closeServer(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// broker is a Kafka to test against, and a client of its own.
type broker struct {
	t    *testing.T
	addr string
	fake *kfake.Cluster // nil: a real one
	cl   *kgo.Client
	adm  *kadm.Client
}

// newBroker starts a kfake, or takes the real broker.
func newBroker(t *testing.T) *broker {
	t.Helper()
	if real {
		k, err := server()
		require.NoError(t, err)
		return (&broker{t: t, addr: k.Brokers()[0]}).connect()
	}
	return newFake(t)
}

// newBrokers starts a kfake of that many brokers; one may be a real one.
func newBrokers(t *testing.T, n int) *broker {
	t.Helper()
	if n == 1 {
		return newBroker(t)
	}
	return newFake(t, kfake.NumBrokers(n))
}

// newFake starts a kfake with options of its own.
func newFake(t *testing.T, opts ...kfake.Opt) *broker {
	t.Helper()
	if real {
		t.Skip("needs a broker of its own")
	}
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1)}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return (&broker{t: t, addr: c.ListenAddrs()[0], fake: c}).connect()
}

func (b *broker) connect() *broker {
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.addr), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MetadataMinAge(50*time.Millisecond))
	require.NoError(b.t, err)
	b.t.Cleanup(cl.Close)
	b.cl, b.adm = cl, kadm.NewClient(cl)
	return b
}

var notInNames = regexp.MustCompile(`[^a-zA-Z0-9]+`)

// name makes a name for a topic or group that no other test uses.
func (b *broker) name(kind string) string {
	return fmt.Sprintf("%s-%s-%d", kind, notInNames.ReplaceAllString(b.t.Name(), "-"), time.Now().UnixNano())
}

func (b *broker) topic(partitions int32) string {
	b.t.Helper()
	topic := b.name("t")
	b.create(topic, partitions, nil)
	return topic
}

func (b *broker) create(topic string, partitions int32, configs map[string]string) {
	b.t.Helper()
	ptrs := map[string]*string{}
	for k, v := range configs {
		ptrs[k] = kadm.StringPtr(v)
	}
	require.Eventually(b.t, func() bool {
		_, err := b.adm.CreateTopic(b.t.Context(), partitions, 1, ptrs, topic)
		return err == nil
	}, sourcetest.Patience, 50*time.Millisecond) // a topic of that name may still be going away
	require.Eventually(b.t, func() bool {
		td, err := b.adm.ListTopics(b.t.Context(), topic)
		return err == nil && td.Error() == nil && len(td[topic].Partitions) == int(partitions)
	}, sourcetest.Patience, 20*time.Millisecond)
}

func (b *broker) deleteTopic(topic string) {
	b.t.Helper()
	_, err := b.adm.DeleteTopic(b.t.Context(), topic)
	require.NoError(b.t, err)
	b.cl.PurgeTopicsFromClient(topic)
}

// produce writes values to one partition and returns when they are there.
func (b *broker) produce(topic string, partition int32, values ...string) {
	b.t.Helper()
	records := make([]*kgo.Record, 0, len(values))
	for _, v := range values {
		records = append(records, &kgo.Record{Topic: topic, Partition: partition, Value: []byte(v)})
	}
	ctx, cancel := context.WithTimeout(b.t.Context(), sourcetest.Patience)
	defer cancel()
	err := b.cl.ProduceSync(ctx, records...).FirstErr()
	for errors.Is(err, kerr.UnknownTopicID) && ctx.Err() == nil { // the client knows an earlier topic of the name
		b.connect()
		err = b.cl.ProduceSync(ctx, records...).FirstErr()
	}
	require.NoError(b.t, err)
}

// transact writes values to one partition in a transaction.
func (b *broker) transact(topic string, partition int32, commit kgo.TransactionEndTry, values ...string) {
	b.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.addr), kgo.TransactionalID(b.name("tx")), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	require.NoError(b.t, err)
	defer cl.Close()
	require.NoError(b.t, cl.BeginTransaction())
	for _, v := range values {
		require.NoError(b.t, cl.ProduceSync(b.t.Context(), &kgo.Record{Topic: topic, Partition: partition, Value: []byte(v)}).FirstErr())
	}
	require.NoError(b.t, cl.EndTransaction(b.t.Context(), commit))
}

// commits returns what a group has committed for a topic, by partition.
func (b *broker) commits(group, topic string) map[int32]kadm.Offset {
	b.t.Helper()
	var all kadm.OffsetResponses
	require.Eventually(b.t, func() bool {
		var err error
		all, err = b.adm.FetchOffsets(b.t.Context(), group)
		return err == nil || errors.Is(err, kerr.GroupIDNotFound)
	}, sourcetest.Patience, 50*time.Millisecond) // the connection may be one to a broker that has been stopped
	out := map[int32]kadm.Offset{}
	for p, o := range all[topic] {
		out[p] = o.Offset
	}
	return out
}

// commit writes a group's commit as another tool would.
func (b *broker) commit(group, topic string, partition int32, at int64, metadata string) {
	b.t.Helper()
	var os kadm.Offsets
	os.Add(kadm.Offset{Topic: topic, Partition: partition, At: at, LeaderEpoch: -1, Metadata: metadata})
	require.Eventually(b.t, func() bool {
		res, err := b.adm.CommitOffsets(b.t.Context(), group, os)
		return err == nil && res.Error() == nil
	}, sourcetest.Patience, 50*time.Millisecond) // the group may still be emptying
}

func (b *broker) id(topic string) string {
	b.t.Helper()
	td, err := b.adm.ListTopics(b.t.Context(), topic)
	require.NoError(b.t, err)
	return fmt.Sprintf("%x", [16]byte(td[topic].ID))
}

// forget makes a kfake throw the members of a group out, as after a session
// that has timed out.
func (b *broker) forget(group string) {
	b.t.Helper()
	info := b.fake.GroupInfo(group)
	require.NotNil(b.t, info)
	for _, m := range info.Members {
		req := kmsg.NewPtrLeaveGroupRequest()
		req.Group = group
		member := kmsg.NewLeaveGroupRequestMember()
		member.MemberID = m.MemberID
		req.Members = append(req.Members, member)
		_, err := req.RequestWith(b.t.Context(), b.cl)
		require.NoError(b.t, err)
	}
}

// config is a Config that reads topics in a group of its own.
func (b *broker) config(topics ...string) kafka.Config {
	return kafka.Config{Stream: "s", Brokers: []string{b.addr}, Topics: topics, Group: b.name("g")}
}

// open makes a source and opens it.
func (b *broker) open(cfg kafka.Config) (*kafka.Source, *sourcetest.Observer) {
	b.t.Helper()
	s, o := b.source(cfg)
	ctx, cancel := context.WithTimeout(b.t.Context(), sourcetest.Patience)
	defer cancel()
	require.NoError(b.t, s.Open(ctx))
	return s, o
}

// source makes a source that is closed at the end of the test.
func (b *broker) source(cfg kafka.Config) (*kafka.Source, *sourcetest.Observer) {
	b.t.Helper()
	o := &sourcetest.Observer{}
	return b.sourceFor(cfg, o), o
}

func (b *broker) sourceFor(cfg kafka.Config, o *sourcetest.Observer) *kafka.Source {
	b.t.Helper()
	s, err := kafka.New(cfg, o)
	require.NoError(b.t, err)
	b.t.Cleanup(func() { closeSource(b.t, s) })
	return s
}

// join opens a source that reads and acknowledges by itself.
func (b *broker) join(cfg kafka.Config) *sourcetest.Member {
	b.t.Helper()
	return sourcetest.Join(b.t, func(o *sourcetest.Observer) sources.Source { return b.sourceFor(cfg, o) })
}

func closeSource(t *testing.T, s sources.Source) {
	ctx, cancel := context.WithTimeout(context.Background(), sourcetest.Patience)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		t.Log("close:", err)
	}
}

// In the words of these tests.
var (
	collect   = sourcetest.Collect
	nothing   = sourcetest.Nothing
	payloads  = sourcetest.Payloads
	positions = sourcetest.Positions
)

func tp(topic string, partition int32) graphmill.TopicPartition {
	return graphmill.TopicPartition{Topic: topic, Partition: partition}
}

// restartable is a kfake that can be stopped and started again on the same
// port and data.
type restartable struct {
	*broker
	port int
	dir  string
}

func newRestartable(t *testing.T) *restartable {
	t.Helper()
	r := &restartable{port: freePort(t), dir: t.TempDir()}
	r.broker = newFake(t, kfake.Ports(r.port), kfake.DataDir(r.dir))
	t.Cleanup(func() { r.fake.Close() }) // after the sources that know the last one
	return r
}

func freePort(t *testing.T) int {
	t.Helper()
	free, err := ports.Free(1)
	require.NoError(t, err)
	return free[0]
}

func (r *restartable) stop() { r.fake.Close() }

func (r *restartable) start() {
	r.t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(r.port), kfake.DataDir(r.dir))
	require.NoError(r.t, err)
	r.fake = c
}
