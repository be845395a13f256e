package pulsar_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill/integration/pulsarserver"
	"github.com/graphmill/graphmill/sources/pulsar"
	"github.com/graphmill/graphmill/sources/sourcetest"
)

func settings(t *testing.T, configs map[string]string) pulsar.ClientSettings {
	t.Helper()
	settings, _, err := pulsar.ParseConfigs(configs, nil, nil)
	require.NoError(t, err)
	return settings
}

// TestCloseEndsWithItsContext closes a source whose broker hangs.
func TestCloseEndsWithItsContext(t *testing.T) {
	t.Parallel()
	s := startFake(t, pulsarserver.Options{NoAutoCreate: true})
	b := brokerOf(t, s)
	cfg, _ := b.fromBeginning(2)
	src, _ := b.open(cfg)
	thaw := s.Freeze()
	defer thaw()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	for range 2 {
		err := src.Close(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, cfg.Subscription)
	}
	_, err := src.Fetch(t.Context(), 1)
	require.ErrorContains(t, err, "closed")
	thaw()
	require.NoError(t, src.Close(t.Context()), "waits for the rest")
}

// TestAQuestionThatIsNotAnsweredHoldsNothing has the connection break under a question
// for the status. The client asks on until its operation timeout is over.
func TestAQuestionThatIsNotAnsweredHoldsNothing(t *testing.T) {
	t.Parallel()
	s := startFake(t, pulsarserver.Options{NoAutoCreate: true})
	b := brokerOf(t, s)
	cfg, topic := b.fromBeginning(1)
	cfg.Client = settings(t, map[string]string{"operationTimeoutMs": "8000"})
	b.produce(topic+"-partition-0", texted("a"))
	src, _ := b.open(cfg)
	sourcetest.Collect(t, src, 1)
	asked := make(chan struct{}, 100)
	s.SetHooks(pulsarserver.Hooks{OnCommand: func(c pulsarserver.Command) pulsarserver.Reply {
		if c.Type != "GET_LAST_MESSAGE_ID" {
			return pulsarserver.Reply{}
		}
		asked <- struct{}{}
		return pulsarserver.Reply{Ignore: true}
	}})
	answered := make(chan error, 1)
	go func() {
		_, err := src.Partitions(t.Context())
		answered <- err
	}()
	<-asked
	s.SetHooks(pulsarserver.Hooks{})
	pulsar.Cut(src)
	got, _ := sourcetest.Collect(t, src, 1)
	require.Equal(t, []string{"a"}, sourcetest.Payloads(got), "it comes again")
	select {
	case <-answered:
		t.Fatal("the partition has waited for the question to end")
	default:
	}
	require.NoError(t, <-answered)
}

// TestOpenOfAnExclusiveSubscription returns when the partitions are there.
func TestOpenOfAnExclusiveSubscription(t *testing.T) {
	for _, partitions := range []int{0, 1, 5} {
		for _, admin := range []bool{true, false} {
			t.Run(fmt.Sprintf("%d partitions, admin %v", partitions, admin), func(t *testing.T) {
				t.Parallel()
				s := startFake(t, pulsarserver.Options{NoAutoCreate: true})
				b := brokerOf(t, s)
				topic := b.Name()
				require.NoError(t, s.CreateTopic(topic, partitions))
				cfg := b.stream(topic)
				cfg.Exclusive = true
				cfg.DiscoveryInterval = time.Hour // each look for topics ends the wait, too
				if !admin {
					cfg.AdminURL = ""
				}
				src, o := b.open(cfg)
				require.Eventually(t, func() bool { return len(o.Owned()) == max(1, partitions) }, sourcetest.Patience, 10*time.Millisecond)
				b.Produce(topic, int32(partitions-1), texted("a"))
				got, at := sourcetest.Collect(t, src, 1)
				require.Equal(t, []string{"a"}, sourcetest.Payloads(got))
				b.acknowledge(src, at)
			})
		}
	}
}

// TestRecoveryIsToldOnce has a look for topics fail and succeed while a partition is
// trying for another connection, which fails after that.
func TestRecoveryIsToldOnce(t *testing.T) {
	t.Parallel()
	s := startFake(t, pulsarserver.Options{NoAutoCreate: true})
	b := brokerOf(t, s)
	cfg, _ := b.fromBeginning(1)
	cfg.DiscoveryInterval = 20 * time.Millisecond
	src, o := b.open(cfg)
	trying, refuse := make(chan struct{}), make(chan struct{})
	var looks, subscribes atomic.Int32
	var away atomic.Bool
	s.SetHooks(pulsarserver.Hooks{OnCommand: func(c pulsarserver.Command) pulsarserver.Reply {
		switch {
		case c.Type == "SUBSCRIBE" && subscribes.Add(1) == 1:
			close(trying)
			<-refuse
			return pulsarserver.Fail("ServiceNotReady", "it is beginning")
		case c.Type == "PARTITIONED_METADATA" && away.Load():
			return pulsarserver.Fail("ServiceNotReady", "it is beginning")
		case c.Type == "PARTITIONED_METADATA":
			looks.Add(1)
		}
		return pulsarserver.Reply{}
	}})
	pulsar.Cut(src)
	<-trying
	away.Store(true)
	require.Eventually(t, func() bool { return o.Code() == "broker_error" }, sourcetest.Patience, time.Millisecond)
	away.Store(false)
	before := looks.Load()
	require.Eventually(t, func() bool { return looks.Load() >= before+3 }, sourcetest.Patience, time.Millisecond)
	close(refuse)
	require.Eventually(t, func() bool { return o.Code() == "" && len(o.Owned()) == 1 && subscribes.Load() > 1 }, sourcetest.Patience, time.Millisecond)
	_, recovered := o.Told()
	require.Equal(t, 1, recovered)
}
