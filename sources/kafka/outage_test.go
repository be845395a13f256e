package kafka_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/sources/kafka"
	"github.com/graphmill/graphmill/sources/sourcetest"
)

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	require.Eventually(t, is, sourcetest.Patience, 20*time.Millisecond, what)
}

// begin opens a source beside the test.
func begin(t *testing.T, s *kafka.Source) <-chan error {
	opened := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	go func() { opened <- s.Open(ctx) }()
	return opened
}

func done(t *testing.T, c <-chan error) error {
	t.Helper()
	select {
	case err := <-c:
		return err
	case <-time.After(sourcetest.Patience):
		t.Fatal("it has not come to an end")
		return nil
	}
}

func TestBrokerThatGoesAwayWhileReadingIsWaitedFor(t *testing.T) {
	t.Parallel()
	r := newRestartable(t)
	topic := r.topic(1)
	cfg := r.config(topic)
	s, o := r.open(cfg)
	r.produce(topic, 0, "a")
	_, at := collect(t, s, 1)

	fetched := make(chan error, 1)
	go func() {
		_, err := s.Fetch(t.Context(), 1)
		fetched <- err
	}()
	r.stop()
	eventually(t, "the outage is told", func() bool { return o.Code() == "broker_unreachable" })

	require.Eventually(t, func() bool { return len(o.Owned()) == 0 }, sourcetest.Patience, 20*time.Millisecond, "the client gives up what it cannot keep alive")
	require.NoError(t, s.Acknowledge(t.Context(), positions(at)), "kept until the group can be told")

	r.start()
	eventually(t, "its end is told", func() bool { return o.Code() == "" })
	r.produce(topic, 0, "b")
	require.NoError(t, done(t, fetched))
	waits, recovered := o.Told()
	require.Equal(t, 1, waits, "once: %v", o.Waits())
	require.Equal(t, 1, recovered)
	require.EqualValues(t, 1, r.commits(cfg.Group, topic)[0].At)
	require.EqualValues(t, 1, o.Owned()[0].Offset, "what was done is not read again")
}

func TestWhatWasDoneBeforeALossCountsUnlessTheGroupHasMoved(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		committed int64 // by somebody else meanwhile; -1: nobody
		want      string
	}{
		{"nobody else has read on", -1, "3"},
		{"another member has read on, less far", 2, "2"},
		{"another member has read on further", 4, "4"},
		{"somebody has moved the group back", 0, "0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newFake(t)
			topic := b.topic(1)
			cfg := b.config(topic)
			s, o := b.open(cfg)
			b.produce(topic, 0, "0")
			_, at := collect(t, s, 1)
			require.NoError(t, s.Acknowledge(t.Context(), positions(at)))
			b.produce(topic, 0, "1", "2", "3", "4")
			_, at = collect(t, s, 2)

			// The member is thrown out and kept out until all is prepared.
			joins := b.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.JoinGroup}, Err: kerr.CoordinatorLoadInProgress, Count: -1})
			b.forget(cfg.Group)
			require.Eventually(t, func() bool { return len(o.Owned()) == 0 }, sourcetest.Patience, 20*time.Millisecond)
			require.NoError(t, s.Acknowledge(t.Context(), positions(at)))
			if c.committed >= 0 {
				b.commit(cfg.Group, topic, 0, c.committed, "")
			}
			joins.Remove()
			got, _ := collect(t, s, 1)
			require.Equal(t, c.want, string(got[0].Payload))
		})
	}
}

func TestAcknowledgeOfAnOutageIsATransientFault(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for the limit of one attempt")
	}
	t.Parallel()
	b := newFake(t)
	topic := b.topic(1)
	s, _ := b.open(b.config(topic))
	b.produce(topic, 0, "a")
	_, at := collect(t, s, 1)
	h := b.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.CoordinatorNotAvailable, Count: -1})
	f := fault(t, s.Acknowledge(t.Context(), positions(at)))
	require.Equal(t, graphmill.FaultTransient, f.Class)
	require.True(t, f.Outage)
	require.Equal(t, "broker_error", f.Code, "it does answer")
	h.Remove()
	require.NoError(t, s.Acknowledge(t.Context(), positions(at)), "the same positions again")
	status, err := s.Partitions(t.Context())
	require.NoError(t, err)
	require.Zero(t, status[0].Lag)
}

func TestBrokerThatRestartsQuicklyIsNotTold(t *testing.T) {
	t.Parallel()
	r := newRestartable(t)
	topic := r.topic(1)
	s, o := r.open(r.config(topic))
	r.produce(topic, 0, "a")
	collect(t, s, 1)
	r.stop()
	r.start()
	r.produce(topic, 0, "b")
	got, _ := collect(t, s, 1)
	require.Equal(t, []string{"b"}, payloads(got))
	waits, _ := o.Told()
	require.Zero(t, waits)
}

func TestOneBrokerOfThreeThatGoesIsNoOutage(t *testing.T) {
	t.Parallel()
	b := newFake(t, kfake.NumBrokers(3))
	topic := b.topic(3)
	cfg := b.config(topic)
	s, o := b.open(cfg)
	b.produce(topic, 0, "a")
	_, at := collect(t, s, 1)
	require.NoError(t, b.fake.RemoveNode(b.fake.CoordinatorFor(cfg.Group)))

	require.NoError(t, s.Acknowledge(t.Context(), positions(at)), "the group has another coordinator now")
	for p := range int32(3) {
		b.produce(topic, p, "b")
	}
	collect(t, s, 3)
	waits, _ := o.Told()
	require.Zero(t, waits, o.Waits())
	require.Zero(t, o.Losses())
}

func TestTopicThatIsDeletedWhileReadingIsTold(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	topic := b.topic(1)
	s, o := b.open(b.config(topic))
	b.produce(topic, 0, "a")
	collect(t, s, 1)
	b.deleteTopic(topic)
	eventually(t, "the absence is told", func() bool { return o.Code() == "topic_absent" })
	nothing(t, s, 100*time.Millisecond)
}

func TestBrokerThatWantsALoginIsTold(t *testing.T) {
	b := newFake(t)
	closed := newFake(t, kfake.EnableSASL(), kfake.Superuser("PLAIN", "u", "p"))
	cfg := b.config("t")
	cfg.Brokers = []string{closed.addr}
	s, o := b.source(cfg)
	begin(t, s)
	eventually(t, "it is told", func() bool { return o.Code() == "sasl_missing" })
	require.Contains(t, o.LastWait().Text, "closes the connection at once")
	require.Contains(t, o.LastWait().Next, "login")
}

func TestBrokerThatGivesOutAnAddressThatCannotBeReached(t *testing.T) {
	t.Parallel()
	b := newFake(t)
	topic := b.topic(1)
	dead := freePort(t)
	b.fake.ControlKey(int16(kmsg.Metadata), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.fake.KeepControl()
		resp := req.ResponseKind().(*kmsg.MetadataResponse)
		br := kmsg.NewMetadataResponseBroker()
		br.NodeID, br.Host, br.Port = 0, "127.0.0.1", int32(dead)
		resp.Brokers = append(resp.Brokers, br)
		for _, rt := range req.(*kmsg.MetadataRequest).Topics {
			t := kmsg.NewMetadataResponseTopic()
			t.Topic = rt.Topic
			t.ErrorCode = kerr.LeaderNotAvailable.Code
			resp.Topics = append(resp.Topics, t)
		}
		return resp, nil, true
	})
	s, o := b.source(b.config(topic))
	begin(t, s)
	eventually(t, "the address is named", func() bool {
		f := o.LastWait()
		return f != nil && f.Code == "broker_unreachable"
	})
}

func TestWhatTheBrokerForbidsEndsTheStream(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		fault kfake.Fault
		code  string
		says  string
	}{
		{"the topic may not be described", kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Err: kerr.TopicAuthorizationFailed}, "forbidden", "cannot be described"},
		{"the group may not be joined", kfake.Fault{Keys: []kmsg.Key{kmsg.JoinGroup}, Err: kerr.GroupAuthorizationFailed}, "forbidden", "join group"},
		{"the group's commits may not be read", kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetFetch}, Err: kerr.GroupAuthorizationFailed}, "forbidden", "does not allow it"},
		{"the group's commits may not be written", kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.GroupAuthorizationFailed}, "forbidden", "settle the start positions"},
		{"the login is wrong", kfake.Fault{Keys: []kmsg.Key{kmsg.FindCoordinator}, Err: kerr.SaslAuthenticationFailed}, "auth", "refuses the login"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newFake(t)
			topic := b.topic(1)
			c.fault.Count = -1
			b.fake.Fault(c.fault)
			s, _ := b.source(b.config(topic))
			f := fault(t, done(t, begin(t, s)))
			require.Equal(t, graphmill.FaultSetup, f.Class)
			require.Equal(t, c.code, f.Code)
			require.Contains(t, f.Text, c.says)
		})
	}
}

func TestTopicThatMayNotBeReadEndsTheStream(t *testing.T) {
	b := newFake(t)
	topic := b.topic(1)
	s, _ := b.open(b.config(topic))
	b.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.TopicAuthorizationFailed, Count: -1})
	ctx, cancel := context.WithTimeout(t.Context(), sourcetest.Patience)
	defer cancel()
	_, err := s.Fetch(ctx, 1)
	require.Equal(t, "forbidden", fault(t, err).Code)
}

func TestPartitionThatCannotBeReadForNowIsTold(t *testing.T) {
	t.Parallel()
	b := newFake(t)
	topic := b.topic(1)
	s, o := b.open(b.config(topic))
	h := b.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.UnknownServerError, Count: -1})
	fetched := make(chan error, 1)
	go func() {
		_, err := s.Fetch(t.Context(), 1)
		fetched <- err
	}()
	eventually(t, "it is told", func() bool { return o.Code() == "fetch_failed" })
	require.Contains(t, o.LastWait().Text, topic+"/0")
	h.Remove()
	b.produce(topic, 0, "a")
	require.NoError(t, done(t, fetched))
	eventually(t, "its end is told", func() bool { return o.Code() == "" })
}

func TestPartitionThatCanBeReadAgainIsToldWithoutAMessage(t *testing.T) {
	t.Parallel()
	b := newFake(t)
	topic := b.topic(1)
	s, o := b.open(b.config(topic))
	b.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.UnknownServerError, Count: 1})
	fetched := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, err := s.Fetch(ctx, 1)
		fetched <- err
	}()
	eventually(t, "it is told", func() bool { return o.Code() == "fetch_failed" })
	eventually(t, "its end is told", func() bool { return o.Code() == "" })
	cancel()
	require.ErrorIs(t, done(t, fetched), context.Canceled)
}

func TestGroupWithMembersOfAnotherKindIsWaitedFor(t *testing.T) {
	t.Parallel()
	b := newFake(t)
	topic := b.topic(1)
	h := b.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.JoinGroup}, Err: kerr.InconsistentGroupProtocol, Count: -1})
	s, o := b.source(b.config(topic))
	opened := begin(t, s)
	eventually(t, "it is told", func() bool { return o.Code() == "group_refused" })
	require.Contains(t, o.LastWait().Text, "another kind")
	h.Remove()
	require.NoError(t, done(t, opened))
	eventually(t, "its end is told", func() bool { return o.Code() == "" })
}

func TestGroupThatCannotBeJoinedForLongIsTold(t *testing.T) {
	t.Parallel()
	b := newFake(t)
	topic := b.topic(1)
	h := b.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.JoinGroup}, Err: kerr.UnknownServerError, Count: -1})
	s, o := b.source(b.config(topic))
	opened := begin(t, s)
	eventually(t, "it is told", func() bool { return o.Code() == "group_refused" })
	require.Contains(t, o.LastWait().Text, "cannot be joined")
	h.Remove()
	require.NoError(t, done(t, opened))
	eventually(t, "its end is told", func() bool { return o.Code() == "" })
}

func TestGroupThatTheBrokerDoesNotTakeEndsTheStream(t *testing.T) {
	b := newFake(t)
	topic := b.topic(1)
	b.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.JoinGroup}, Err: kerr.InvalidSessionTimeout, Count: -1})
	s, _ := b.source(b.config(topic))
	require.Equal(t, "group_invalid", fault(t, done(t, begin(t, s))).Code)
}
