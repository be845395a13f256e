package pulsar

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/sources"
)

const (
	// noDiscovery keeps the client's consumers from looking for partitions: each is
	// of one alone.
	noDiscovery = time.Duration(math.MaxInt64)

	pipeLength     = 32 // messages that have come out of the client's consumers, on top of what they ask for
	subscribeNames = 4  // bytes of the random part of the consumer's name
)

// Reason codes of faults that only a Source has.
const (
	codeEncrypted  = "message_encrypted" // set-up: nobody here can read it
	codeUnreadable = "entry_unreadable"  // set-up: an entry that can never be read
	codeChunks     = "chunks_incomplete" // set-up: more messages in chunks are not whole than can be kept
	codeClosed     = "closed"            // set-up: the source has been closed
)

// Source is a consumer of a subscription in all partitions of its topics. It
// implements sources.Source.
type Source struct {
	cfg   Config
	obs   sources.Observer
	links *links
	name  string // of the consumers; the broker shares out partitions in the order of names

	cl       pulsar.Client
	admin    *admin                      // nil: no admin URL
	incoming chan pulsar.ConsumerMessage // of all consumers
	ready    chan struct{}               // a token when there may be something to hand out
	news     chan struct{}               // a token when there may be something to tell of troubles
	opened   chan struct{}               // closed once Open may return
	failed   chan struct{}               // closed once the source cannot go on

	life    context.Context // ends when Close begins
	end     context.CancelFunc
	over    chan struct{} // closed when nothing of it is left
	workers sync.WaitGroup

	telling sync.Mutex // one call of the Observer at a time

	scratch []pulsar.ConsumerMessage // Fetch's

	inChunks atomic.Int64 // bytes of messages that are not whole; see assembly

	mu         sync.Mutex
	begun      bool // Open has been called
	isOpen     bool
	closed     bool
	looked     bool             // all topics have been looked for
	fault      *graphmill.Fault // set before failed is closed
	partitions map[graphmill.TopicPartition]*partition
	order      []*partition // of partitions, by topic and number
	turn       int          // of order: whose messages are handed out first
	consumers  map[pulsar.Consumer]*consumer
	absent     map[string]struct{}         // topics seen absent since Open
	troubles   map[string]*graphmill.Fault // by what they are of
	weight     float64                     // bytes of a message, where messages have been large; else 0
}

var _ sources.Source = (*Source)(nil)

// New makes a source. Nothing is dialled before Open. Errors are of KindInvalid. The
// Observer is not called any more once Close has begun.
func New(cfg Config, obs sources.Observer) (*Source, error) {
	cfg, err := cfg.ofSubscription()
	if err != nil {
		return nil, err
	}
	links := newLinks(&cfg)
	admin, err := cfg.admin(links)
	if err != nil {
		return nil, err
	}
	life, end := context.WithCancel(context.Background())
	return &Source{
		cfg:        cfg,
		obs:        obs,
		links:      links,
		admin:      admin,
		name:       consumerName(cfg.Stream),
		incoming:   make(chan pulsar.ConsumerMessage, pipeLength),
		ready:      make(chan struct{}, 1),
		news:       make(chan struct{}, 1),
		opened:     make(chan struct{}),
		failed:     make(chan struct{}),
		over:       make(chan struct{}),
		life:       life,
		end:        end,
		partitions: map[graphmill.TopicPartition]*partition{},
		consumers:  map[pulsar.Consumer]*consumer{},
		absent:     map[string]struct{}{},
		troubles:   map[string]*graphmill.Fault{},
	}, nil
}

// consumerName is by what the broker's tools show a consumer. It is one for all
// partitions, so that the broker shares them out evenly, and keeps its place among
// the others when a consumer is made anew.
func consumerName(stream string) string {
	b := make([]byte, subscribeNames)
	_, _ = rand.Read(b) // never fails
	return "graphmill-" + stream + "-" + hex.EncodeToString(b)
}

// Open implements sources.Source. Where some of the topics are absent it returns
// with the others; the absent ones are told to the Observer and join in when they
// are created, from their beginning.
func (s *Source) Open(ctx context.Context) error {
	if err := s.startWorkers(); err != nil {
		return err
	}
	select {
	case <-s.opened:
		return nil
	case <-s.failed:
		return s.fault
	case <-s.life.Done():
		return errClosed()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// startWorkers makes the client and the workers, once.
func (s *Source) startWorkers() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return errClosed()
	case s.begun:
		return nil
	}
	s.links.onDiscard = s.discarded
	cl, err := s.cfg.connect(s.links)
	if err != nil {
		return err
	}
	s.cl, s.begun = cl, true
	s.workers.Go(s.discover)
	s.workers.Go(s.report)
	return nil
}

func errClosed() *graphmill.Fault {
	return ends(codeClosed, "the source has been closed", "", nil)
}

// openIfSettled lets Open return once all partitions that there are have their
// subscription and it is known which are ours. The lock is held.
func (s *Source) openIfSettled() {
	if s.isOpen || !s.looked || len(s.partitions) == 0 {
		return
	}
	for _, p := range s.partitions {
		if !p.settled || !p.told {
			return
		}
	}
	s.isOpen = true
	s.links.hasRun.Store(true)
	close(s.opened)
}

// kind is the type of the subscription.
func (s *Source) kind() pulsar.SubscriptionType {
	if s.cfg.Exclusive {
		return pulsar.Exclusive
	}
	return pulsar.Failover
}

// introduce makes a consumer known by what the client calls it.
func (s *Source) introduce(cl pulsar.Consumer, c *consumer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.cl == nil && c.p.current == c {
		c.cl = cl
		s.consumers[cl] = c
	}
}

func (s *Source) forget(c *consumer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.cl != nil {
		delete(s.consumers, c.cl)
	}
}

// fail ends the source: Open and Fetch return f from now on.
func (s *Source) fail(f *graphmill.Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failLocked(f)
}

func (s *Source) failLocked(f *graphmill.Fault) {
	if s.fault == nil {
		s.fault = f
		close(s.failed)
	}
}

func (s *Source) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// spawn starts a goroutine that Close waits for, unless Close has begun.
func (s *Source) spawn(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.workers.Go(f)
	return true
}

// tell calls the Observer, unless the source is being closed.
func (s *Source) tell(call func()) {
	s.telling.Lock()
	defer s.telling.Unlock()
	if !s.isClosed() {
		call()
	}
}

// Close implements sources.Source. Where brokers do not answer, what is asked of the
// client ends by the operation timeout; Close returns with its context before that, and
// may be called again to wait for the rest.
func (s *Source) Close(ctx context.Context) error {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		go s.finish(s.begun)
	}
	s.mu.Unlock()
	select {
	case <-s.over:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("leave subscription %q: %w", s.cfg.Subscription, ctx.Err())
	}
}

// finish ends all that has been begun.
func (s *Source) finish(begun bool) {
	defer close(s.over)
	s.end()
	if begun {
		s.workers.Wait() // they close the consumers
		s.cl.Close()
	}
}
