package server_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/integration/boltserver"
	"github.com/graphmill/graphmill/server"
)

// stormTime is how long storms last; GRAPHMILL_STORM asks for more.
func stormTime(t *testing.T) time.Duration {
	t.Helper()
	if d := os.Getenv("GRAPHMILL_STORM"); d != "" {
		long, err := time.ParseDuration(d)
		require.NoError(t, err)
		return long
	}
	return 2 * time.Second
}

// place reads a payload of the form partition-number.
func place(payload string) (partition int32, n int64) {
	p, i, _ := strings.Cut(payload, "-")
	partition64, _ := strconv.ParseInt(p, 10, 32)
	n, _ = strconv.ParseInt(i, 10, 64)
	return int32(partition64), n
}

// progress is what has been applied of payloads that are named by their places.
type progress struct {
	mu   sync.Mutex
	seen map[string]bool
	next []int64 // by partition: all before it are applied
}

func (p *progress) applied(tx boltserver.Transaction) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, st := range tx.Statements {
		for _, row := range st.Rows() {
			p.seen[fmt.Sprint(row["payload"])] = true
		}
	}
	for i := range p.next {
		for p.seen[fmt.Sprintf("%d-%d", i, p.next[i])] {
			p.next[i]++
		}
	}
}

func (p *progress) upTo(partition int32) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.next[partition]
}

// TestNothingIsLostWhateverComesTogether lets two servers share four partitions
// while they are stopped, started, changed and given new versions of a module
// that traps when an instance sees a message twice, by a database that finds
// batches too big, has conflicts and is cut off at COMMIT.
func TestNothingIsLostWhateverComesTogether(t *testing.T) {
	const partitions = 4
	w := newWorld(t, partitions, boltserver.Options{})

	// What is acknowledged has been committed: each commit of offsets is held
	// against what the database has by then.
	done := progress{seen: map[string]bool{}, next: make([]int64, partitions)}
	w.kafka.ControlKey(int16(kmsg.OffsetCommit), func(req kmsg.Request) (kmsg.Response, error, bool) {
		w.kafka.KeepControl()
		for _, topic := range req.(*kmsg.OffsetCommitRequest).Topics {
			for _, p := range topic.Partitions {
				if next := done.upTo(p.Partition); p.Offset > next {
					t.Errorf("partition %d is acknowledged up to %d, and applied up to %d", p.Partition, p.Offset, next)
				}
			}
		}
		return nil, nil, false
	})
	var cuts atomic.Int32 // rows that were applied and may be applied again
	w.bolt.SetHooks(boltserver.Hooks{OnCommit: func(tx boltserver.Transaction) boltserver.Reply {
		dice := rand.IntN(100)
		switch {
		case dice < 15 && rowsOf(tx) > 1:
			return boltserver.Fail(outOfMemory, "the limit of the transaction")
		case dice < 25:
			return boltserver.Fail("Neo.TransientError.Transaction.DeadlockDetected", "a deadlock")
		case dice < 27:
			return boltserver.Reply{Cut: boltserver.CutBefore}
		}
		done.applied(tx)
		if dice < 29 {
			cuts.Add(int32(rowsOf(tx)))
			return boltserver.Reply{Cut: boltserver.CutAfter}
		}
		return boltserver.Reply{Wait: after(time.Duration(dice) * time.Millisecond)} // so that batches wait behind it
	}})

	servers := make([]*server.Server, 2)
	for i := range servers {
		servers[i] = w.open(func(c *server.Config) {
			if i > 0 {
				c.DataDir = t.TempDir()
			}
			c.ConflictRetries = 1_000_000
		})
		w.pushAs(servers[i], "obedient", vigilantVersion(1))
		w.create(servers[i], func(spec *graphmill.StreamSpec) { spec.BatchSize, spec.BatchIntervalMS = 8, 5 })
		w.start(servers[i])
	}
	over, end := context.WithTimeout(t.Context(), stormTime(t))
	defer end()
	var wg sync.WaitGroup
	var sent [partitions]int64
	wg.Go(func() {
		cl, err := kgo.NewClient(kgo.SeedBrokers(w.addrs...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
		assert.NoError(t, err)
		defer cl.Close()
		for over.Err() == nil {
			var records []*kgo.Record
			for p := range sent {
				for range rand.IntN(5) {
					records = append(records, &kgo.Record{Topic: "topic", Partition: int32(p), Value: fmt.Appendf(nil, "%d-%d", p, sent[p])})
					sent[p]++
				}
			}
			assert.NoError(t, cl.ProduceSync(context.Background(), records...).FirstErr())
			pauseFor(over, time.Duration(rand.IntN(50))*time.Millisecond)
		}
	})
	for i, s := range servers {
		wg.Go(func() {
			for n := 0; over.Err() == nil; n++ {
				pauseFor(over, time.Duration(rand.IntN(200))*time.Millisecond)
				var err error
				switch rand.IntN(5) {
				case 0, 1:
					err = stop(s)()
					pauseFor(over, time.Duration(rand.IntN(50))*time.Millisecond)
				case 2:
					_, err = patch(s, fmt.Sprintf(`{"batch_size":%d}`, 1+rand.IntN(8)), "")
				case 3:
					_, err = s.PushModule(context.Background(), server.PushRequest{Name: "obedient", ContentType: server.ContentTypeWasm, Bytes: vigilantVersion(100*i + n + 2)})
				case 4:
					_, err = s.StartStream(context.Background(), "s", server.StartRequest{BatchLimit: 1 + rand.IntN(3), Timeout: 100 * time.Millisecond})
					if graphmill.KindOf(err) == graphmill.KindTimeout {
						err = nil
					}
				}
				requireNoDefect(t, err)
				if err := start(s)(); err != nil {
					requireNoDefect(t, err)
				}
			}
		})
	}
	wg.Wait()
	w.bolt.SetHooks(boltserver.Hooks{OnCommit: func(tx boltserver.Transaction) boltserver.Reply {
		done.applied(tx)
		return boltserver.Reply{}
	}})
	for _, s := range servers {
		if err := start(s)(); err != nil {
			requireCode(t, err, "already_running")
		}
	}
	held := func() (held int) {
		for _, s := range servers {
			st := w.status(s)
			require.NotEqual(t, graphmill.StateFailed, st.State, "%+v", st.Reason)
			for _, p := range st.Partitions {
				if p.Lag == 0 {
					held++
				}
			}
		}
		return held
	}
	require.Eventually(t, func() bool { return held() == partitions }, patience, 20*time.Millisecond)

	times := map[string]int{}
	var order [partitions][]int64
	doubled := 0
	for _, payload := range w.applied() {
		p, n := place(payload)
		if times[payload]++; times[payload] == 1 {
			order[p] = append(order[p], n)
		} else {
			doubled++
		}
	}
	for p, ns := range order {
		require.Len(t, ns, int(sent[p]), "partition %d: nothing lost", p)
		require.True(t, slices.IsSorted(ns), "partition %d: in order", p)
	}
	t.Logf("%d messages, %d doubled, %d rows behind unknown commits, %d cuts in two", len(times), doubled, cuts.Load(), len(w.log.with("is cut in two")))
	require.LessOrEqual(t, doubled, int(cuts.Load()), "doubled only where a commit was not answered")
}

// after returns what is closed once d has passed.
func after(d time.Duration) <-chan struct{} {
	passed := make(chan struct{})
	time.AfterFunc(d, func() { close(passed) })
	return passed
}

// pauseFor waits, or until ctx ends.
func pauseFor(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
