package server_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	plog "github.com/apache/pulsar-client-go/pulsar/log"
	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/integration/boltserver"
	"github.com/graphmill/graphmill/integration/pulsarserver"
	"github.com/graphmill/graphmill/server"
)

// pulsarWorld is a world with a Pulsar beside its Kafka.
type pulsarWorld struct {
	*world
	pulsar *pulsarserver.Server
	admin  bool // servers know its admin URL
}

func newPulsarWorld(t *testing.T, opts boltserver.Options) *pulsarWorld {
	t.Helper()
	w := &pulsarWorld{world: newWorld(t, 1, opts), pulsar: pulsarserver.Start(t, pulsarserver.Options{NoAutoCreate: true}), admin: true}
	require.NoError(t, w.pulsar.CreateTopic("topic", 0))
	return w
}

// open opens a server that knows the Pulsar, with the module.
func (w *pulsarWorld) open(change func(*server.Config)) *server.Server {
	w.t.Helper()
	s := w.world.open(func(cfg *server.Config) {
		cfg.PulsarServiceURL = w.pulsar.URL()
		if w.admin {
			cfg.PulsarAdminURL = w.pulsar.AdminURL()
		}
		if change != nil {
			change(cfg)
		}
	})
	w.push(s)
	return s
}

// pulsarStream is the definition of the stream that most tests have.
func pulsarStream(change func(*graphmill.StreamSpec)) graphmill.StreamSpec {
	spec := graphmill.StreamSpec{Name: "s", Source: graphmill.SourceNamePulsar, Topics: []string{"topic"}, Transform: "obedient", BatchIntervalMS: 20}
	if change != nil {
		change(&spec)
	}
	return spec
}

func (w *pulsarWorld) create(s *server.Server, change func(*graphmill.StreamSpec)) server.StreamInfo {
	w.t.Helper()
	info, err := s.CreateStream(w.t.Context(), server.CreateRequest{Spec: pulsarStream(change), Check: true})
	require.NoError(w.t, err)
	return info
}

// send sends payloads to a topic, or a partition of one, each as an entry of its
// own.
func (w *pulsarWorld) send(topic string, payloads ...string) {
	w.t.Helper()
	w.sendBy(pulsar.ProducerOptions{Topic: topic, DisableBatching: true}, payloads...)
}

// sendEntry sends payloads as one entry.
func (w *pulsarWorld) sendEntry(topic string, payloads ...string) {
	w.t.Helper()
	w.sendBy(pulsar.ProducerOptions{Topic: topic, BatchingMaxMessages: uint(len(payloads) + 1), BatchingMaxPublishDelay: time.Minute}, payloads...)
}

func (w *pulsarWorld) sendBy(options pulsar.ProducerOptions, payloads ...string) {
	w.t.Helper()
	client, err := pulsar.NewClient(pulsar.ClientOptions{URL: w.pulsar.URL(), Logger: plog.NewLoggerWithSlog(slog.New(slog.DiscardHandler))})
	require.NoError(w.t, err)
	defer client.Close()
	options.SendTimeout = -1
	p, err := client.CreateProducer(options)
	require.NoError(w.t, err)
	defer p.Close()
	sent := make(chan error, len(payloads))
	for _, payload := range payloads {
		p.SendAsync(w.t.Context(), &pulsar.ProducerMessage{Payload: []byte(payload)}, func(_ pulsar.MessageID, _ *pulsar.ProducerMessage, err error) { sent <- err })
	}
	require.NoError(w.t, p.FlushWithCtx(w.t.Context()))
	for range payloads {
		require.NoError(w.t, <-sent)
	}
}

func (w *pulsarWorld) awaitApplied(want ...string) {
	w.t.Helper()
	require.Eventually(w.t, func() bool { return len(w.applied()) >= len(want) }, patience, 5*time.Millisecond)
	require.Equal(w.t, want, w.applied())
}

// awaitBacklog waits until so many entries of topic are unacknowledged.
func (w *pulsarWorld) awaitBacklog(want int) {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		sub, ok := w.pulsar.Subscription("topic", "s")
		return ok && sub.Backlog == want
	}, patience, 5*time.Millisecond)
}

// What is sent after CREATE is read, though START comes later, and the stream goes
// on there after a restart of the server.
func TestAPulsarStreamReadsFromItsCreationOn(t *testing.T) {
	for name, admin := range map[string]bool{"with an admin URL": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			w := newPulsarWorld(t, boltserver.Options{})
			w.admin = admin
			s := w.open(nil)
			w.send("topic", "before")
			info := w.create(s, nil)
			require.Empty(t, info.Warnings)
			require.Equal(t, []string{w.pulsar.URL()}, info.Brokers)
			w.send("topic", "a", "b")
			w.start(s)
			w.awaitApplied("a", "b")
			w.awaitBacklog(0)
			status := w.status(s)
			require.Len(t, status.Partitions, 1)
			p := status.Partitions[0]
			require.Equal(t, graphmill.TopicPartition{Topic: "persistent://public/default/topic", Partition: -1}, p.TopicPartition)
			require.Equal(t, [2]int64{-1, -1}, [2]int64{p.Acknowledged, p.End}, "there are no offsets")

			w.close(s)
			w.send("topic", "c")
			w.open(nil)
			w.awaitApplied("a", "b", "c")
			w.awaitBacklog(0)
		})
	}
}

func TestDroppingAPulsarStream(t *testing.T) {
	w := newPulsarWorld(t, boltserver.Options{})
	s := w.open(nil)
	ctx := t.Context()
	info := w.create(s, nil)
	w.start(s)
	require.Contains(t, info.Kept(), `the subscription "s" stays with Pulsar`)
	require.Contains(t, info.Kept(), "To end it now: pulsar-admin topics unsubscribe -s s persistent://public/default/topic. ")
	require.NoError(t, s.DeleteStream(ctx, "s", server.DeleteRequest{}))
	w.send("topic", "a")
	w.awaitBacklog(1)

	info = w.create(s, func(spec *graphmill.StreamSpec) { spec.StartFrom = graphmill.StartLatest })
	require.Len(t, info.Warnings, 1)
	require.Contains(t, info.Warnings[0], `the subscription "s" has positions already`)
	w.start(s)
	w.awaitApplied("a")

	_, err := s.CreateStream(ctx, server.CreateRequest{Spec: pulsarStream(func(spec *graphmill.StreamSpec) {
		spec.Name, spec.Subscription, spec.Topics, spec.TopicsPattern = "twin", "s", nil, "top.*"
	}), Check: true})
	require.NoError(t, err)
	requireCode(t, second(s.StartStream(ctx, "twin", server.StartRequest{})), "group_shared")
	shared := requireCode(t, s.DeleteStream(ctx, "s", server.DeleteRequest{Unsubscribe: true}), "subscription_shared")
	require.Contains(t, shared.Next, "to keep the subscription for it: graphmill stream drop s; ")
	require.Contains(t, shared.Next, "first graphmill stream drop twin, then graphmill stream drop s --unsubscribe")
	require.NoError(t, s.DeleteStream(ctx, "twin", server.DeleteRequest{}))

	require.NoError(t, s.DeleteStream(ctx, "s", server.DeleteRequest{Unsubscribe: true}))
	_, there := w.pulsar.Subscription("topic", "s")
	require.False(t, there)

	w.world.create(s, func(spec *graphmill.StreamSpec) { spec.Name = "kafka" })
	require.Equal(t, "unsubscribe", requireCode(t, s.DeleteStream(ctx, "kafka", server.DeleteRequest{Unsubscribe: true}), "invalid").Field)
	require.NoError(t, s.DeleteStream(ctx, "kafka", server.DeleteRequest{}))
}

func second[T any](_ T, err error) error { return err }

// Where the subscription cannot be ended, the stream goes on as it was.
func TestAPulsarStreamThatCannotBeUnsubscribedStays(t *testing.T) {
	w := newPulsarWorld(t, boltserver.Options{})
	s := w.open(func(cfg *server.Config) { cfg.CreateTimeout = brief })
	w.create(s, nil)
	w.start(s)
	w.pulsar.Stop()
	require.Equal(t, graphmill.KindUnavailable, graphmill.KindOf(s.DeleteStream(t.Context(), "s", server.DeleteRequest{Unsubscribe: true})))
	require.NoError(t, w.pulsar.Listen())
	w.send("topic", "a")
	w.awaitApplied("a")
}

// A failed batch stays unacknowledged, and START meets it again, in order.
func TestAPulsarStreamStopsBeforeAFailedBatch(t *testing.T) {
	refuse := true
	w := newPulsarWorld(t, boltserver.Options{Hooks: onStore(func() boltserver.Reply {
		if refuse {
			return boltserver.Fail("Neo.ClientError.Schema.ConstraintValidationFailed", "it is there already")
		}
		return boltserver.Reply{}
	})})
	s := w.open(nil)
	w.create(s, nil)
	w.send("topic", "a", "b", "c")
	w.start(s)
	status := w.awaitState(s, graphmill.StateFailed)
	require.Equal(t, "message", status.Reason.Code)
	require.Nil(t, status.LastFailure.Offset)
	w.awaitBacklog(3)
	refuse = false
	w.start(s)
	w.awaitApplied("a", "b", "c")
	w.awaitBacklog(0)
}

// The broker keeps no position inside an entry, so the catalog has it before the next
// batch is committed.
func TestAKillInTheMidstOfAnEntryRepeatsNothing(t *testing.T) {
	commits := make(chan struct{}, 100)
	held := make(chan struct{})
	w := newPulsarWorld(t, boltserver.Options{})
	s := w.open(nil)
	w.create(s, func(spec *graphmill.StreamSpec) { spec.BatchSize = 2 })
	w.sendEntry("topic", "a", "b", "c", "d", "e", "f")
	w.bolt.SetHooks(boltserver.Hooks{OnCommit: func(boltserver.Transaction) boltserver.Reply {
		commits <- struct{}{}
		if len(w.applied()) < 4 {
			return boltserver.Reply{}
		}
		reply := boltserver.Fail("Neo.ClientError.Schema.ConstraintValidationFailed", "it is there already")
		reply.Wait = held
		return reply
	}})
	w.start(s)
	for range 3 { // of (a, b), (c, d) and (e, f), which hangs
		<-commits
	}
	dir := w.killed()
	close(held)
	w.awaitState(s, graphmill.StateFailed)
	w.close(s)
	w.bolt.SetHooks(boltserver.Hooks{})
	w.world.open(func(cfg *server.Config) {
		cfg.DataDir, cfg.PulsarServiceURL, cfg.PulsarAdminURL = dir, w.pulsar.URL(), w.pulsar.AdminURL()
	})
	w.awaitApplied("a", "b", "c", "d", "e", "f")
	w.awaitBacklog(0)
}

func TestAPulsarStreamWhoseBrokerIsAway(t *testing.T) {
	w := newPulsarWorld(t, boltserver.Options{})
	s := w.open(func(cfg *server.Config) { cfg.CreateTimeout, cfg.StartTimeout = brief, time.Second })
	w.pulsar.Stop()
	spec := pulsarStream(nil)
	requireCode(t, second(s.CreateStream(t.Context(), server.CreateRequest{Spec: spec, Check: true})), "broker_unreachable")
	info, err := s.CreateStream(t.Context(), server.CreateRequest{Spec: spec})
	require.NoError(t, err)
	require.Len(t, info.Warnings, 1)
	require.Contains(t, info.Warnings[0], `the subscription "s" could not be made`)
	require.Contains(t, info.Warnings[0], "what is sent before that is not read")
	w.start(s)
	require.Equal(t, "broker_unreachable", w.awaitState(s, graphmill.StateWaiting).Reason.Code)
	require.NoError(t, w.pulsar.Listen())
	w.awaitState(s, graphmill.StateRunning)
	w.send("topic", "a")
	w.awaitApplied("a")
}

func TestWhatOfAPulsarDefinitionIsRefused(t *testing.T) {
	w := newPulsarWorld(t, boltserver.Options{})
	s := w.open(nil)
	for name, c := range map[string]struct {
		change func(*graphmill.StreamSpec)
		code   string
		field  string
	}{
		"a topic that is absent":        {func(s *graphmill.StreamSpec) { s.Topics = []string{"absent"} }, "topic_absent", ""},
		"a setting that is not known":   {func(s *graphmill.StreamSpec) { s.Configs = map[string]string{"tokn": "x"} }, "invalid", "configs"},
		"an option of Kafka":            {func(s *graphmill.StreamSpec) { s.ConsumerGroup = "g" }, "invalid", "consumer_group"},
		"topics beside a pattern":       {func(s *graphmill.StreamSpec) { s.TopicsPattern = "t.*" }, "invalid", "topics_pattern"},
		"a service URL of another kind": {func(s *graphmill.StreamSpec) { s.ServiceURL = "http://x" }, "invalid", "service_url"},
	} {
		t.Run(name, func(t *testing.T) {
			err := requireCode(t, second(s.CreateStream(t.Context(), server.CreateRequest{Spec: pulsarStream(c.change), Check: true})), c.code)
			require.Equal(t, c.field, err.Field)
		})
	}
	bare := w.world.open(func(cfg *server.Config) { cfg.DataDir = t.TempDir() })
	err := requireCode(t, second(bare.CreateStream(t.Context(), server.CreateRequest{Spec: pulsarStream(nil), Check: true})), "invalid")
	require.Equal(t, "service_url", err.Field)

	w.create(s, nil)
	err = requireCode(t, second(s.StartStream(t.Context(), "s", server.StartRequest{AcceptLost: graphmill.StartLatest})), "invalid")
	require.Equal(t, "accept", err.Field)
}

// A change that brings topics says where reading begins there, and moves nothing of
// what was read before.
func TestAChangeBringsTopicsToAPulsarStream(t *testing.T) {
	w := newPulsarWorld(t, boltserver.Options{})
	s := w.open(nil)
	require.NoError(t, w.pulsar.CreateTopic("topic-2", 2))
	require.NoError(t, w.pulsar.CreateTopic("topic-3", 0))
	w.create(s, nil)
	w.send("topic", "a")
	w.send("topic-2-partition-1", "b")
	w.send("topic-3", "c")
	w.start(s)
	w.awaitApplied("a")
	patch := func(doc, from string) (server.PatchResult, error) {
		return s.PatchStream(t.Context(), "s", server.PatchRequest{Patch: []byte(doc), From: from, Check: true})
	}
	requireCode(t, second(patch(`{"topics":["topic","topic-2"]}`, "")), "invalid")
	r, err := patch(`{"topics":["persistent://public/default/topic","topic-2"]}`, graphmill.StartEarliest)
	require.NoError(t, err)
	require.Equal(t, []string{"topic-2"}, r.Brings, "the other is the same in another spelling")
	w.awaitApplied("a", "b")

	_, err = s.StopStream(t.Context(), "s")
	require.NoError(t, err)
	r, err = patch(`{"topics":[],"topics_pattern":"topic.*"}`, graphmill.StartEarliest)
	require.NoError(t, err)
	require.Equal(t, []string{"topic.*"}, r.Brings)
	w.start(s)
	w.awaitApplied("a", "b", "c")
}

// A check reads all partitions beside the subscription, which does not notice.
func TestCheckOfAPulsarStream(t *testing.T) {
	w := newPulsarWorld(t, boltserver.Options{})
	s := w.open(nil)
	require.NoError(t, w.pulsar.CreateTopic("parts", 2))
	w.create(s, func(spec *graphmill.StreamSpec) { spec.Topics = []string{"topic", "parts"} })
	w.send("topic", "a")
	w.send("parts-partition-0", "b")
	w.send("parts-partition-1", "c")
	before := w.pulsar.Subscriptions()
	seen := map[string]graphmill.TopicPartition{}
	batches, err := s.CheckStream(t.Context(), "s", server.CheckRequest{BatchLimit: 3, Timeout: brief, From: server.DefaultCheckFrom})
	require.NoError(t, err)
	for _, b := range batches {
		for _, m := range b.Messages {
			seen[string(m.Payload)] = m.TopicPartition()
			require.EqualValues(t, -1, m.Offset)
			require.NotEmpty(t, m.ID)
		}
	}
	require.Equal(t, map[string]graphmill.TopicPartition{
		"a": {Topic: "persistent://public/default/topic", Partition: -1},
		"b": {Topic: "persistent://public/default/parts", Partition: 0},
		"c": {Topic: "persistent://public/default/parts", Partition: 1},
	}, seen)
	require.Eventually(t, func() bool { return len(w.pulsar.Subscriptions()) == len(before) }, patience, 5*time.Millisecond, "the readers' own are gone")
	require.Equal(t, before, w.pulsar.Subscriptions())
}

func TestPositionsOfAPulsarStreamAreSet(t *testing.T) {
	w := newPulsarWorld(t, boltserver.Options{})
	s := w.open(nil)
	w.create(s, nil)
	w.send("topic", "a", "b", "c")
	w.start(s)
	w.awaitApplied("a", "b", "c")
	w.awaitBacklog(0)
	set := func(to string) (graphmill.OffsetsInfo, error) {
		return s.SetStreamOffsets(t.Context(), "s", server.SetOffsetsRequest{To: to, Partition: &graphmill.TopicPartition{Topic: "topic", Partition: -1}})
	}
	requireCode(t, second(set("earliest")), "stream_running")
	_, err := s.StopStream(t.Context(), "s")
	require.NoError(t, err)
	requireCode(t, second(set("3")), "invalid")
	id := w.pulsar.Entries("topic")[1]
	info, err := set(graphmill.MessageID{Ledger: id.Ledger, Entry: id.Entry}.String())
	require.NoError(t, err)
	require.Equal(t, "s", info.Group)
	require.Equal(t, graphmill.MessageID{Ledger: id.Ledger, Entry: id.Entry}, info.Partitions[0].MessageID)
	w.start(s)
	w.awaitApplied("a", "b", "c", "b", "c")
}
