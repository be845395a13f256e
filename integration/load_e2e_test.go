//go:build e2e

package integration_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// load produces events for one stream, always some more than the stream has
// acknowledged, so that whatever happens to it happens at work.
type load struct {
	t     *testing.T
	topic string
	group string
	quit  context.CancelFunc
	ended chan struct{}
	n     int // events produced; to be read once ended is closed
}

const (
	loadBacklog = 8_000 // events that are not acknowledged
	loadChunk   = 1_000 // events that are produced at once
	loadPause   = 50 * time.Millisecond
)

// startLoad begins a load, which outlives outages of the broker. It ends with
// stop, or with the test.
func startLoad(t *testing.T, topic, group string) *load {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(world.kafka.Brokers()...), kgo.DefaultProduceTopic(topic))
	require.NoError(t, err)
	ctx, quit := context.WithCancel(t.Context())
	l := &load{t: t, topic: topic, group: group, quit: quit, ended: make(chan struct{})}
	go func() {
		defer close(l.ended)
		defer cl.Close()
		l.run(ctx, cl)
	}()
	t.Cleanup(func() { l.quit(); <-l.ended })
	return l
}

func (l *load) run(ctx context.Context, cl *kgo.Client) {
	broker := kadm.NewClient(cl)
	var acknowledged int64
	for ctx.Err() == nil {
		asked, cancel := context.WithTimeout(ctx, time.Second)
		offsets, err := broker.FetchOffsets(asked, l.group)
		cancel()
		if err == nil {
			acknowledged = 0
			for _, o := range offsets[l.topic] {
				acknowledged += max(0, o.At)
			}
		}
		if int64(l.n)-acknowledged >= loadBacklog {
			select {
			case <-time.After(loadPause):
			case <-ctx.Done():
			}
			continue
		}
		// What has been begun is finished, so that n is what there is.
		if err := l.produce(context.WithoutCancel(ctx), cl); err != nil {
			l.t.Errorf("produce to %s: %v", l.topic, err)
			return
		}
	}
}

func (l *load) produce(ctx context.Context, cl *kgo.Client) error {
	ctx, cancel := context.WithTimeout(ctx, 3*patience)
	defer cancel()
	records := make([]*kgo.Record, loadChunk)
	for i := range records {
		e := event{ID: l.n + i, User: (l.n + i) % users}
		value, err := json.Marshal(e)
		if err != nil {
			return err
		}
		records[i] = &kgo.Record{Key: fmt.Append(nil, e.User), Value: value}
	}
	l.n += len(records)
	return cl.ProduceSync(ctx, records...).FirstErr()
}

// stop ends the load and returns how many events there are.
func (l *load) stop() int {
	l.quit()
	<-l.ended
	return l.n
}

// chance returns the random numbers of a test. Its seed is printed;
// GRAPHMILL_E2E_SEED sets it.
func chance(t *testing.T) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	if s := os.Getenv("GRAPHMILL_E2E_SEED"); s != "" {
		var err error
		seed, err = strconv.ParseUint(s, 10, 64)
		require.NoError(t, err)
	}
	t.Logf("GRAPHMILL_E2E_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// awaitAcknowledged waits until a group has acknowledged so many messages.
func awaitAcknowledged(t *testing.T, group, topic string, least int64) {
	t.Helper()
	cl := admin(t)
	require.Eventually(t, func() bool { return acknowledgedBy(t, cl, group, topic) >= least }, patience, 20*time.Millisecond,
		"%s acknowledges %d messages of %s", group, least, topic)
}

func acknowledgedBy(t *testing.T, cl *kadm.Client, group, topic string) (sum int64) {
	offsets, err := cl.FetchOffsets(t.Context(), group)
	if err != nil {
		return 0 // the broker is away
	}
	for _, o := range offsets[topic] {
		sum += max(0, o.At)
	}
	return sum
}

// awaitAllAcknowledged waits until a group, of whatever members, has nothing
// more to do.
func awaitAllAcknowledged(t *testing.T, group, topic string, n int) {
	t.Helper()
	awaitAcknowledged(t, group, topic, int64(n))
	require.EqualValues(t, n, sumOf(committed(t, group, topic)))
}
