package pulsar_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	client "github.com/apache/pulsar-client-go/pulsar"
	"github.com/apache/pulsar-client-go/pulsar/crypto"
	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/integration/pulsarserver"
	"github.com/graphmill/graphmill/sources/patience"
	"github.com/graphmill/graphmill/sources/pulsar"
	"github.com/graphmill/graphmill/sources/sourcetest"
)

// open opens a source that is closed at the end of the test.
func (b *broker) open(cfg pulsar.Config) (*pulsar.Source, *sourcetest.Observer) {
	b.t.Helper()
	o := &sourcetest.Observer{}
	src, err := pulsar.New(cfg, o)
	require.NoError(b.t, err)
	b.t.Cleanup(func() { require.NoError(b.t, src.Close(context.Background())) })
	ctx, cancel := context.WithTimeout(b.t.Context(), sourcetest.Patience)
	defer cancel()
	require.NoError(b.t, src.Open(ctx))
	return src, o
}

func (b *broker) stream(topics ...string) pulsar.Config {
	return b.config(sourcetest.Stream{Name: b.Name(), Topics: topics})
}

func texts(payloads ...string) []graphmill.Message {
	var ms []graphmill.Message
	for _, p := range payloads {
		ms = append(ms, graphmill.Message{Payload: []byte(p)})
	}
	return ms
}

func (b *broker) acknowledge(src *pulsar.Source, at map[graphmill.TopicPartition]graphmill.Position) {
	b.t.Helper()
	require.NoError(b.t, src.Acknowledge(b.t.Context(), sourcetest.Positions(at)))
}

func TestTopicsOfAPatternAndNewPartitions(t *testing.T) {
	b := brokerOf(t, startServer(t))
	base := b.Name()
	first, other, later := base+"-orders", base+"-else", base+"-orders-later"
	b.Create(first, 1)
	b.Create(other, 1)
	cfg := b.stream()
	cfg.Topics, cfg.Pattern = nil, regexp.MustCompile(`/[^/]*$`).ReplaceAllString(base, "/")+base[len("persistent://public/default/"):]+"-orders.*"
	src, o := b.open(cfg)
	require.Equal(t, []graphmill.TopicPartition{{Topic: first, Partition: 0}}, tpsOf(o.Owned()))
	b.Create(later, 2)
	b.produce(later+"-partition-1", texts("of a new topic")...)
	require.Less(t, b.admin(http.MethodPost, path(first)+"/partitions", "2", nil), 300)
	b.produce(first+"-partition-1", texts("of a new partition")...)
	b.produce(other+"-partition-0", texts("of none of the stream's")...)
	got, _ := sourcetest.Collect(t, src, 2)
	require.ElementsMatch(t, []string{"of a new topic", "of a new partition"}, sourcetest.Payloads(got), "from their beginning")
}

func tpsOf(at []graphmill.Position) (tps []graphmill.TopicPartition) {
	for _, p := range at {
		tps = append(tps, p.TopicPartition)
	}
	return tps
}

func TestPrepareMakesSubscriptionsThatMissNothing(t *testing.T) {
	for name, admin := range map[string]bool{"with an admin URL": true, "without an admin URL": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := brokerOf(t, startServer(t))
			topic := b.Name()
			b.Create(topic, 2)
			b.produce(topic+"-partition-0", texts("before")...)
			cfg := b.stream(topic)
			if !admin {
				cfg.AdminURL = ""
			}
			at, err := pulsar.Prepare(t.Context(), cfg)
			require.NoError(t, err)
			require.Equal(t, []graphmill.TopicPartition{{Topic: topic, Partition: 0}, {Topic: topic, Partition: 1}}, tpsOf(at))
			b.produce(topic+"-partition-0", texts("after CREATE")...)
			again, err := pulsar.Prepare(t.Context(), cfg)
			require.NoError(t, err)
			require.Equal(t, at, again, "what exists is left where it is")

			require.Less(t, b.admin(http.MethodPost, path(topic)+"/partitions", "3", nil), 300)
			b.produce(topic+"-partition-2", texts("in a partition that CREATE has not seen")...)
			cfg.Known = at
			src, o := b.open(cfg)
			if admin {
				require.Len(t, o.Owned(), 3)
			}
			got, _ := sourcetest.Collect(t, src, 2)
			require.Equal(t, at[0], o.Owned()[0], "where Prepare has said")
			require.ElementsMatch(t, []string{"after CREATE", "in a partition that CREATE has not seen"}, sourcetest.Payloads(got))
			_, err = pulsar.Prepare(t.Context(), cfg)
			require.NoError(t, err, "others read")
			require.Empty(t, o.Revocations(), "and are left alone")
		})
	}
}

func TestPrepareByATime(t *testing.T) {
	for name, admin := range map[string]bool{"with an admin URL": true, "without an admin URL": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := brokerOf(t, startServer(t))
			topic := b.Name()
			b.Create(topic, 1)
			b.produce(topic+"-partition-0", texts("before")...)
			require.NoError(t, patience.Pause(t.Context(), 5*time.Millisecond))
			cfg := b.stream(topic)
			cfg.Start.Time = time.Now()
			if !admin {
				cfg.AdminURL = ""
			}
			require.NoError(t, patience.Pause(t.Context(), 5*time.Millisecond))
			b.produce(topic+"-partition-0", texts("after")...)
			at, err := pulsar.Prepare(t.Context(), cfg)
			require.NoError(t, err)
			src, _ := b.open(cfg)
			got, _ := sourcetest.Collect(t, src, 1)
			require.Equal(t, []string{"after"}, sourcetest.Payloads(got))
			require.Equal(t, got[0].MessageID, at[0].MessageID)
		})
	}
}

func TestPrepareTellsOfAnAbsentTopic(t *testing.T) {
	b := brokerOf(t, startServer(t))
	here, absent := b.Name(), b.Name()
	b.Create(here, 1)
	at, err := pulsar.Prepare(t.Context(), b.stream(here, absent))
	var f *graphmill.Fault
	require.ErrorAs(t, err, &f)
	require.Equal(t, "topic_absent", f.Code)
	require.Contains(t, f.Text, absent)
	require.Len(t, at, 1, "the other has its subscription")
}

func TestASubscriptionThatIsLostBeginsWhereItWas(t *testing.T) {
	b := brokerOf(t, startServer(t))
	topic := b.Name()
	b.Create(topic, 1)
	cfg := b.stream(topic)
	src, _ := b.open(cfg)
	b.produce(topic+"-partition-0", texts("a")...)
	_, at := sourcetest.Collect(t, src, 1)
	b.acknowledge(src, at)
	require.NoError(t, src.Close(t.Context()))
	b.produce(topic+"-partition-0", texts("b")...)
	require.Less(t, b.admin(http.MethodDelete, path(topic)+"-partition-0/subscription/"+cfg.Subscription, "", nil), 300)

	cfg.Known = sourcetest.Positions(at)
	src, _ = b.open(cfg)
	got, _ := sourcetest.Collect(t, src, 1)
	require.Equal(t, []string{"b"}, sourcetest.Payloads(got))
	require.NoError(t, src.Close(t.Context()))
	require.Less(t, b.admin(http.MethodDelete, path(topic)+"-partition-0/subscription/"+cfg.Subscription, "", nil), 300)
	cfg.AdminURL = ""
	src, _ = b.open(cfg)
	got, _ = sourcetest.Collect(t, src, 2)
	require.Equal(t, []string{"a", "b"}, sourcetest.Payloads(got), "nobody can tell that it has been lost: repeated, not left out")
}

func TestExclusiveWaitsForTheOther(t *testing.T) {
	b := brokerOf(t, startServer(t))
	topic := b.Name()
	b.Create(topic, 1)
	cfg := b.stream(topic)
	cfg.Exclusive = true
	one, _ := b.open(cfg)
	o := &sourcetest.Observer{}
	two, err := pulsar.New(cfg, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, two.Close(context.Background())) })
	opened := make(chan error, 1)
	go func() { opened <- two.Open(t.Context()) }()
	require.Eventually(t, func() bool { return o.Code() == "subscription_busy" }, sourcetest.Patience, 10*time.Millisecond)
	b.produce(topic+"-partition-0", texts("a")...)
	_, at := sourcetest.Collect(t, one, 1)
	b.acknowledge(one, at)
	require.NoError(t, one.Close(t.Context()))
	require.NoError(t, <-opened)
	b.produce(topic+"-partition-0", texts("b")...)
	got, _ := sourcetest.Collect(t, two, 1)
	require.Equal(t, []string{"b"}, sourcetest.Payloads(got))
	require.Empty(t, o.Code())
}

// A broker that makes the topics that are asked for, as Pulsar does by default, would
// make it again, as loose partitions, where a consumer that was thrown out came back.
func TestATopicThatIsDeletedStaysDeleted(t *testing.T) {
	fake := startFake(t, pulsarserver.Options{})
	b := brokerOf(t, fake)
	cfg, topic := b.fromBeginning(2)
	src, o := b.open(cfg)
	b.Produce(topic, 0, texted("a"))
	sourcetest.Collect(t, src, 1)
	b.disconnect()
	var looks atomic.Int32
	fake.SetHooks(pulsarserver.Hooks{OnCommand: func(c pulsarserver.Command) pulsarserver.Reply {
		if c.Type == "GET_TOPICS_OF_NAMESPACE" {
			looks.Add(1)
		}
		return pulsarserver.Reply{}
	}})
	require.NoError(t, fake.DeleteTopic(topic))
	// Both partitions look for it before they subscribe again, and then, once a second,
	// the source.
	require.Eventually(t, func() bool { return looks.Load() >= 8 }, sourcetest.Patience, 10*time.Millisecond)
	require.Equal(t, "topic_absent", o.Code())
	require.Empty(t, fake.Topics())
}

// A broker closes a consumer right behind the answer to its subscribing, before the
// client listens to what becomes of it: when partitions are added, for one.
func TestAConsumerThatIsClosedAtOnceIsMadeAnew(t *testing.T) {
	fake := startFake(t, pulsarserver.Options{FailoverDelay: 100 * time.Millisecond})
	b := brokerOf(t, fake)
	cfg, topic := b.fromBeginning(1)
	cfg.Client = quick(t)
	b.Produce(topic, 0, texted("a"))
	var subscribed atomic.Int32
	fake.SetHooks(pulsarserver.Hooks{OnCommand: func(c pulsarserver.Command) pulsarserver.Reply {
		return pulsarserver.Reply{DropConsumers: c.Type == "SUBSCRIBE" && c.Consumer != "" && subscribed.Add(1) == 1}
	}})
	src, _ := b.open(cfg)
	got, _ := sourcetest.Collect(t, src, 1)
	require.Equal(t, []string{"a"}, sourcetest.Payloads(got))
	require.Greater(t, subscribed.Load(), int32(1))
}

func TestATopicThatIsDeletedAndMadeAnew(t *testing.T) {
	b := brokerOf(t, startServer(t))
	topic := b.Name()
	b.Create(topic, 2)
	src, o := b.open(b.stream(topic))
	b.produce(topic+"-partition-1", texts("old")...)
	sourcetest.Collect(t, src, 1)
	b.disconnect()
	require.Less(t, b.admin(http.MethodDelete, path(topic)+"/partitions?force=true", "", nil), 300)
	require.Eventually(t, func() bool { return o.Code() == "topic_absent" && len(o.Owned()) == 0 }, sourcetest.Patience, 10*time.Millisecond)
	b.Create(topic, 1)
	b.produce(topic+"-partition-0", texts("new")...)
	got, _ := sourcetest.Collect(t, src, 1)
	require.Equal(t, []string{"new"}, sourcetest.Payloads(got), "from its beginning")
	require.Eventually(t, func() bool { return o.Code() == "" && len(o.Owned()) == 1 }, sourcetest.Patience, 10*time.Millisecond)
}

func TestAnEncryptedMessageEndsTheStreamWhereItStands(t *testing.T) {
	b := brokerOf(t, startServer(t))
	topic := b.Name()
	b.Create(topic, 1)
	cfg := b.stream(topic)
	src, _ := b.open(cfg)
	b.produce(topic+"-partition-0", texts("a", "b")...)
	p, err := b.client().CreateProducer(client.ProducerOptions{
		Topic: topic + "-partition-0", SendTimeout: -1,
		Encryption: &client.ProducerEncryptionInfo{KeyReader: keyFiles(t), Keys: []string{"k"}},
	})
	require.NoError(t, err)
	defer p.Close()
	_, err = p.Send(t.Context(), &client.ProducerMessage{Payload: []byte("secret")})
	require.NoError(t, err)
	b.produce(topic+"-partition-0", texts("c")...)
	for range 2 {
		got, at := sourcetest.Collect(t, src, 2)
		require.Equal(t, []string{"a", "b"}, sourcetest.Payloads(got), "all before it is handed out")
		ctx, cancel := context.WithTimeout(t.Context(), sourcetest.Patience)
		_, err = src.Fetch(ctx, 10)
		cancel()
		var f *graphmill.Fault
		require.ErrorAs(t, err, &f)
		require.Equal(t, "message_encrypted", f.Code)
		require.Equal(t, graphmill.FaultSetup, f.Class)
		require.NotContains(t, f.Error(), "secret")
		require.NotEmpty(t, at)
		require.NoError(t, src.Close(t.Context()))
		src, _ = b.open(cfg)
	}
}

// keyFiles are the two halves of a new key.
func keyFiles(t *testing.T) crypto.KeyReader {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	require.NoError(t, err)
	dir := t.TempDir()
	one, two := filepath.Join(dir, "public.pem"), filepath.Join(dir, "private.pem")
	require.NoError(t, os.WriteFile(one, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}), 0o600))
	require.NoError(t, os.WriteFile(two, pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}), 0o600))
	return crypto.NewFileKeyReader(one, two)
}

// TestMessagesInChunksAreNotLostAmongEachOther sends big messages side by side, in
// chunks that lie between those of others. An acknowledgement of all before a message
// would take the first chunks of another one with it.
func TestMessagesInChunksAreNotLostAmongEachOther(t *testing.T) {
	b := brokerOf(t, startServer(t))
	topic := b.Name()
	b.Create(topic, 1)
	cfg := b.stream(topic)
	src, _ := b.open(cfg)
	const producers, each, chunk = 3, 10, 20_000
	var sending sync.WaitGroup
	for i := range producers {
		cl := brokerOf(t, b.server).client()
		t.Cleanup(cl.Close)
		p, err := cl.CreateProducer(client.ProducerOptions{
			Topic: topic + "-partition-0", SendTimeout: -1, DisableBatching: true, EnableChunking: true, ChunkMaxMessageSize: chunk,
		})
		require.NoError(t, err)
		t.Cleanup(p.Close)
		sending.Go(func() {
			for n := range each {
				head := fmt.Appendf(nil, "%d-%d ", i, n)
				if _, err := p.Send(t.Context(), &client.ProducerMessage{Payload: append(head, bytes.Repeat([]byte("x"), (1+n%8)*chunk)...)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	sending.Wait()
	seen := map[string]int{}
	among := 0
	var last graphmill.MessageID
	for len(seen) < producers*each {
		got, at := sourcetest.Collect(t, src, 1)
		var name string
		_, err := fmt.Sscan(string(got[0].Payload[:10]), &name)
		require.NoError(t, err)
		seen[name]++
		require.Positive(t, got[0].MessageID.Compare(last), "in order")
		last = got[0].MessageID
		b.acknowledge(src, at)
		if len(seen)%4 == 1 { // chunks have come of messages that are not whole yet
			require.NoError(t, src.Close(t.Context()))
			src, _ = b.open(cfg)
			among++
		}
	}
	for name, times := range seen {
		require.Equal(t, 1, times, name)
	}
	require.NoError(t, src.Close(t.Context()))
	b.produce(topic+"-partition-0", texts("the last")...)
	src, _ = b.open(cfg)
	got, _ := sourcetest.Collect(t, src, 1)
	require.Equal(t, []string{"the last"}, sourcetest.Payloads(got), "all chunks are acknowledged")
}

func TestBigMessagesMakeConsumersAskForFewer(t *testing.T) {
	b := brokerOf(t, startServer(t))
	topic := b.Name()
	b.Create(topic, 1)
	cfg := b.stream(topic)
	cfg.Start.Earliest = true
	cfg.MaxBufferedBytes = 1 << 20
	const n = 60
	for i := range n {
		b.produce(topic+"-partition-0", graphmill.Message{Payload: append(fmt.Appendf(nil, "%d ", i), make([]byte, 100_000)...)})
	}
	src, o := b.open(cfg)
	require.Eventually(t, func() bool { asked := pulsar.Asked(src); return asked > 0 && asked <= 20 }, sourcetest.Patience, 10*time.Millisecond,
		"it asks for a megabyte of them, or two")
	for next := 0; next < n; {
		got, at := sourcetest.Collect(t, src, 1)
		var i int
		_, err := fmt.Sscan(string(got[0].Payload[:8]), &i)
		require.NoError(t, err)
		require.LessOrEqual(t, i, next)
		next = max(next, i+1)
		b.acknowledge(src, at)
	}
	require.LessOrEqual(t, len(o.Revocations()), 1, "the consumer has been replaced once")
}
