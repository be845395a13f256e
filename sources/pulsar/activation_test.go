package pulsar_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/sources/patience"
	"github.com/graphmill/graphmill/sources/pulsar"
	"github.com/graphmill/graphmill/sources/sourcetest"
)

// chronicle is what has happened to the messages of all partitions, which are
// numbered from 0 in each.
type chronicle struct {
	t *testing.T

	mu       sync.Mutex
	produced map[graphmill.TopicPartition]int
	done     map[graphmill.TopicPartition]int // all before it have been acknowledged by somebody who had them
	times    int                              // partitions assigned
	fetched  int
	broken   []string
}

func (h *chronicle) wrong(format string, args ...any) {
	if len(h.broken) < 10 {
		h.broken = append(h.broken, fmt.Sprintf(format, args...))
	}
}

// rider is a stream with one lane: it fetches, works for a while, acknowledges, and
// lets go of a partition within Revoked. It is the Observer of its source.
type rider struct {
	h    *chronicle
	name string
	src  *pulsar.Source

	working  context.Context
	abandon  context.CancelFunc
	fetching context.Context
	stop     context.CancelFunc
	over     chan struct{}

	mu      sync.Mutex
	reading bool // Open has returned; before that there is nothing to let go of
	kick    context.CancelFunc
	letters []letter
	next    map[graphmill.TopicPartition]int // number to come, since the assignment; absent: any
}

type letter struct {
	tps  []graphmill.TopicPartition
	done chan struct{}
}

func (r *rider) Waiting(*graphmill.Fault)      {}
func (r *rider) Recovered()                    {}
func (r *rider) Absent([]graphmill.Position)   {}
func (r *rider) Assigned([]graphmill.Position) { r.h.mu.Lock(); defer r.h.mu.Unlock(); r.h.times++ }

func (r *rider) Revoked(ctx context.Context, tps []graphmill.TopicPartition, _ bool) {
	l := letter{tps, make(chan struct{})}
	r.mu.Lock()
	if !r.reading {
		r.mu.Unlock()
		return
	}
	r.letters = append(r.letters, l)
	if r.kick != nil {
		r.kick()
	}
	r.mu.Unlock()
	select {
	case <-l.done:
	case <-r.over:
	case <-ctx.Done():
	}
}

func (h *chronicle) join(b *broker, s sourcetest.Stream, name string) *rider {
	r := &rider{h: h, name: name, over: make(chan struct{}), next: map[graphmill.TopicPartition]int{}}
	src, err := pulsar.New(b.config(s), r)
	require.NoError(h.t, err)
	r.src = src
	r.working, r.abandon = context.WithCancel(context.Background())
	r.fetching, r.stop = context.WithCancel(r.working)
	go r.run()
	return r
}

func (r *rider) run() {
	defer close(r.over)
	if err := r.src.Open(r.fetching); err != nil {
		return
	}
	r.mu.Lock()
	r.reading = true
	r.mu.Unlock()
	for r.fetching.Err() == nil {
		ctx, cancel := context.WithCancel(r.fetching)
		r.mu.Lock()
		for _, l := range r.letters {
			for _, tp := range l.tps {
				delete(r.next, tp)
			}
			close(l.done)
		}
		r.letters, r.kick = nil, cancel
		r.mu.Unlock()
		fetches, err := r.src.Fetch(ctx, 1+rand.IntN(40))
		cancel()
		if err != nil {
			continue
		}
		r.take(fetches)
		if rand.IntN(3) == 0 {
			_ = patience.Pause(r.working, time.Duration(rand.IntN(20))*time.Millisecond)
		}
		var at []graphmill.Position
		for _, f := range fetches {
			at = append(at, f.Next)
		}
		r.h.acknowledge(fetches)
		for r.src.Acknowledge(r.working, at) != nil && r.working.Err() == nil {
		}
	}
}

// take checks that what comes of a partition follows what came before it since the
// assignment, and that the first of it leaves out nothing that nobody has done.
func (r *rider) take(fetches []graphmill.Fetch) {
	r.h.mu.Lock()
	defer r.h.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range fetches {
		tp := f.Next.TopicPartition
		for i := range f.Messages {
			n := number(&f.Messages[i])
			want, some := r.next[tp]
			switch {
			case some && n != want:
				r.h.wrong("%s: %s: %d comes where %d is to come", r.name, tp, n, want)
			case !some && n > r.h.done[tp]:
				r.h.wrong("%s: %s: begins with %d, and nobody has done %d", r.name, tp, n, r.h.done[tp])
			}
			r.next[tp] = n + 1
			r.h.fetched++
		}
	}
}

// acknowledge notes what is being acknowledged.
func (h *chronicle) acknowledge(fetches []graphmill.Fetch) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, f := range fetches {
		last := number(&f.Messages[len(f.Messages)-1])
		h.done[f.Next.TopicPartition] = max(h.done[f.Next.TopicPartition], last+1)
	}
}

func number(m *graphmill.Message) (n int) {
	_, _ = fmt.Sscan(string(m.Payload), &n)
	return n
}

func (r *rider) close(t *testing.T) {
	r.stop()
	<-r.over
	require.NoError(t, r.src.Close(context.Background()))
	r.abandon()
}

func (r *rider) crash() {
	r.abandon()
	pulsar.Crash(r.src)
	<-r.over
}

// TestPartitionsComeAndGoAndNothingIsLost lets several streams share a subscription
// while some join, leave, are cut off and die. Whoever is given a partition must read
// on where all before is done, in order: a message of an earlier time that is still
// somewhere in a client would be taken for the next one, and all before it would be
// acknowledged unread.
func TestPartitionsComeAndGoAndNothingIsLost(t *testing.T) {
	b := brokerOf(t, startServer(t))
	h := &chronicle{t: t, produced: map[graphmill.TopicPartition]int{}, done: map[graphmill.TopicPartition]int{}}
	several, one := b.Name(), b.Name()
	b.Create(several, 3)
	require.Less(t, b.admin("PUT", path(one), "", nil), 300)
	tps := []graphmill.TopicPartition{{Topic: several, Partition: 0}, {Topic: several, Partition: 1}, {Topic: several, Partition: 2}, {Topic: one, Partition: -1}}
	s := sourcetest.Stream{Name: b.Name(), Topics: []string{several, one}}
	s.Start.Earliest = true

	ending, end := context.WithTimeout(t.Context(), churn())
	defer end()
	var producing sync.WaitGroup
	producing.Go(func() {
		for ending.Err() == nil {
			for _, tp := range tps {
				var unit []graphmill.Message
				for range 1 + rand.IntN(5) {
					unit = append(unit, graphmill.Message{Payload: fmt.Append(nil, h.produced[tp])})
					h.produced[tp]++
				}
				b.Produce(tp.Topic, tp.Partition, unit...)
			}
			_ = patience.Pause(ending, time.Millisecond)
		}
	})

	var riders []*rider
	born := 0
	for ending.Err() == nil {
		switch act := rand.IntN(5); {
		case len(riders) < 2 || act == 0 && len(riders) < 4:
			born++
			riders = append(riders, h.join(b, s, fmt.Sprint("rider ", born)))
		case act == 1 || act == 2:
			pulsar.Cut(riders[rand.IntN(len(riders))].src)
		case act == 3 && len(riders) > 2:
			riders[0].close(t)
			riders = riders[1:]
		case act == 4 && len(riders) > 2:
			riders[0].crash()
			riders = riders[1:]
		}
		_ = patience.Pause(ending, time.Duration(rand.IntN(400))*time.Millisecond)
	}
	producing.Wait()
	h.await(tps)
	for _, r := range riders {
		r.close(t)
	}
	last := h.join(b, s, "the last")
	b.produceMarks(h, tps)
	h.await(tps)
	last.close(t)
	h.mu.Lock()
	defer h.mu.Unlock()
	require.Empty(t, h.broken, strings.Join(h.broken, "\n"))
	total := 0
	for _, n := range h.produced {
		total += n
	}
	t.Logf("%d messages, fetched %d times; %d sources; partitions assigned %d times", total, h.fetched, born, h.times)
}

// produceMarks appends one more message to each partition.
func (b *broker) produceMarks(h *chronicle, tps []graphmill.TopicPartition) {
	for _, tp := range tps {
		b.Produce(tp.Topic, tp.Partition, graphmill.Message{Payload: fmt.Append(nil, h.produced[tp])})
		h.produced[tp]++
	}
}

// await waits until all that was produced has been done.
func (h *chronicle) await(tps []graphmill.TopicPartition) {
	h.t.Helper()
	require.Eventually(h.t, func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, tp := range tps {
			if h.done[tp] < h.produced[tp] && len(h.broken) == 0 {
				return false
			}
		}
		return true
	}, sourcetest.Patience, 20*time.Millisecond, "something is not read")
}

// churn is how long sources come and go.
func churn() time.Duration {
	switch {
	case os.Getenv("GRAPHMILL_E2E_FULL") != "":
		return 2 * time.Minute
	case startReal != nil:
		return 20 * time.Second
	}
	return 4 * time.Second
}
