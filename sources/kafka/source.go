package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/sources"
)

// closeTimeout is how long Close tries to leave the group. After it the group
// notices by the session's timeout.
const closeTimeout = 3 * time.Second

// Source is a member of a consumer group. It implements sources.Source.
type Source struct {
	cfg    Config
	obs    sources.Observer
	links  *links
	budget *budget

	cl      *kgo.Client        // from Open on
	abort   context.CancelFunc // ends everything the client does
	life    context.Context    // ends when Close begins
	end     context.CancelFunc
	opened  chan struct{} // closed once the first assignment is settled
	failed  chan struct{} // closed once the source cannot go on
	watcher sync.WaitGroup

	telling sync.Mutex // one call of the Observer at a time

	mu          sync.Mutex
	isOpen      bool
	closed      bool
	fault       *graphmill.Fault // set before failed is closed
	owned       map[graphmill.TopicPartition]*owned
	unsettled   map[graphmill.TopicPartition]struct{}  // assigned, no start position yet
	lately      map[graphmill.TopicPartition]*progress // of partitions that were lost
	begun       map[graphmill.TopicPartition]struct{}  // settled at least once
	poll        *poll
	heard       map[string]time.Time // by topic: when there last was something
	absent      map[string]struct{}  // topics seen absent since Open that had no position here
	groupFault  *graphmill.Fault     // why the group cannot be joined
	groupErrors int                  // rounds that failed in a row
	readFault   *graphmill.Fault     // why a partition cannot be read for now
	readFaultOf graphmill.TopicPartition
	readFaultAt time.Time                             // when it was last met
	outOfRange  map[graphmill.TopicPartition]struct{} // positions that the broker refused
}

// poll is one poll of the client under way.
type poll struct {
	cancel context.CancelFunc
	done   chan struct{} // closed when its result has been looked through
}

var _ sources.Source = (*Source)(nil)

// New makes a source. Nothing is dialled before Open. Errors are of
// KindInvalid. The Observer is not called any more once Close has begun.
func New(cfg Config, obs sources.Observer) (*Source, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if cfg.Group == "" {
		return nil, graphmill.Invalid("consumer_group", "a consumer group is needed")
	}
	life, end := context.WithCancel(context.Background())
	return &Source{
		cfg:        cfg,
		obs:        obs,
		links:      newLinks(&cfg),
		budget:     newBudget(cfg),
		life:       life,
		end:        end,
		opened:     make(chan struct{}),
		failed:     make(chan struct{}),
		owned:      map[graphmill.TopicPartition]*owned{},
		lately:     map[graphmill.TopicPartition]*progress{},
		begun:      map[graphmill.TopicPartition]struct{}{},
		unsettled:  map[graphmill.TopicPartition]struct{}{},
		heard:      map[string]time.Time{},
		absent:     map[string]struct{}{},
		outOfRange: map[graphmill.TopicPartition]struct{}{},
	}, nil
}

// Open implements sources.Source. Where some of the topics are absent it
// returns with the others; the absent ones are told to the Observer and join in
// when they are created, from their beginning.
func (s *Source) Open(ctx context.Context) error {
	if err := s.join(); err != nil {
		return err
	}
	select {
	case <-s.opened:
		return s.awaitGroup(ctx)
	case <-s.failed:
		return s.fault
	case <-s.life.Done():
		return errClosed()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// join makes the client, which begins to work at once, and the watcher.
func (s *Source) join() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosed()
	}
	// The context is the client's own: it lives beyond Open, until Close.
	life, abort := context.WithCancel(context.Background())
	cl, err := s.cfg.connect(life, s.links, append(s.cfg.reading(s.budget), s.membership()...)...)
	if err != nil {
		abort()
		return err
	}
	s.cl, s.abort = cl, abort
	s.budget.over(cl)
	s.watcher.Go(s.watch)
	return nil
}

func errClosed() *graphmill.Fault {
	return ends(codeClosed, "the source has been closed", "", nil)
}

// Fetch implements sources.Source.
func (s *Source) Fetch(ctx context.Context, max int) ([]graphmill.Fetch, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		pollCtx, p, err := s.beginPoll(ctx)
		if err != nil {
			return nil, err
		}
		fetched := s.cl.PollRecords(pollCtx, maxRecords(max))
		out := s.take(fetched)
		s.endPoll(p)
		if len(out) > 0 {
			return out, nil
		}
	}
}

// maxRecords keeps a caller's 0 from meaning "all" to the client.
func maxRecords(max int) int {
	if max < 1 {
		return 1
	}
	return max
}

// beginPoll registers a poll, so that a rebalance can wait for it. Its error is
// the fault by which the source has ended.
func (s *Source) beginPoll(ctx context.Context) (context.Context, *poll, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.fault != nil:
		return nil, nil, s.fault
	case s.closed:
		return nil, nil, errClosed()
	case s.cl == nil:
		return nil, nil, ends(codeClosed, "the source has not been opened", "", nil)
	}
	ctx, cancel := context.WithCancel(ctx)
	s.poll = &poll{cancel: cancel, done: make(chan struct{})}
	return ctx, s.poll, nil
}

func (s *Source) endPoll(p *poll) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.poll = nil
	p.cancel()
	close(p.done)
}

// take makes messages of what was polled, and looks at the errors among it.
func (s *Source) take(fetched kgo.Fetches) []graphmill.Fetch {
	s.mu.Lock()
	defer s.mu.Unlock()
	fetched.EachError(func(topic string, partition int32, err error) {
		s.troubled(graphmill.TopicPartition{Topic: topic, Partition: partition}, err)
	})
	if s.fault != nil {
		return nil // with a message behind one that is lost the position would move past it
	}
	var out []graphmill.Fetch
	for i := range fetched {
		for _, t := range fetched[i].Topics {
			for _, p := range t.Partitions {
				tp := graphmill.TopicPartition{Topic: t.Topic, Partition: p.Partition}
				own := s.owned[tp]
				if len(p.Records) == 0 || own == nil || own.leaving {
					continue
				}
				if id := formatID(t.TopicID); differ(id, own.note.topicID) {
					s.failLocked(recreated(&s.cfg, tp, own.note.topicID, id))
					return nil
				}
				if s.readFaultOf == tp && s.readFault != nil {
					s.readFault = nil
					s.links.signal()
				}
				s.heard[t.Topic] = time.Now()
				f := convert(tp, own.note.topicID, p.Records)
				own.next, own.beyond = f.Next.Offset, false
				own.epochs.saw(p.Records)
				out = append(out, f)
			}
		}
	}
	return out
}

// troubled classes an error that the client met while fetching. The lock is
// held.
func (s *Source) troubled(tp graphmill.TopicPartition, err error) {
	var dataLoss *kgo.ErrDataLoss
	var tooLarge *kgo.ErrDecompressTooLarge
	var session *kgo.ErrGroupSession
	switch {
	case passing(err), errors.Is(err, kgo.ErrClientClosed):
		// The poll was ended.
	case errors.As(err, &session):
		// Told by groupHook.
	case isRefusal(err):
		s.failLocked(s.links.fault("read "+tp.String(), err))
	case errors.As(err, &dataLoss):
		s.failLocked(ends(codePositionLost, fmt.Sprintf("the broker has lost messages of %s from offset %d on, which had been read up to %d", tp, dataLoss.ResetTo, dataLoss.ConsumedTo),
			moveOn(&s.cfg, acceptLost), err))
	case errors.Is(err, kerr.OffsetOutOfRange):
		s.outOfRange[tp] = struct{}{} // the watcher finds out what there is
		s.links.signal()
	case errors.As(err, &tooLarge):
		s.failLocked(ends(codeBadBatch, fmt.Sprintf("a record batch of %s at offset %d grows beyond %d bytes when it is decompressed", tp, tooLarge.Offset, maxBatchBytes),
			fmt.Sprintf("stop the stream and set an offset behind it with graphmill stream offsets %s --set OFFSET --partition %s", s.cfg.Stream, tp), err))
	case errors.Is(err, kerr.UnknownTopicID), errors.Is(err, kerr.UnknownTopicOrPartition), kerr.IsRetriable(err):
		s.links.signal() // the watcher sees whether the topic is gone
	default:
		s.readFaultOf, s.readFaultAt = tp, time.Now()
		s.readFault = waits(codeFetchFailed, fmt.Sprintf("%s cannot be read", tp), err)
		s.links.signal()
	}
}

// fail ends the source: Open and Fetch return f from now on.
func (s *Source) fail(f *graphmill.Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failLocked(f)
}

func (s *Source) failLocked(f *graphmill.Fault) {
	if s.fault != nil {
		return
	}
	s.fault = f
	close(s.failed)
	if s.poll != nil {
		s.poll.cancel()
	}
}

func (s *Source) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// tell calls the Observer, unless the source is being closed.
func (s *Source) tell(call func()) {
	s.telling.Lock()
	defer s.telling.Unlock()
	if !s.isClosed() {
		call()
	}
}

// Close implements sources.Source. It takes at most a few seconds, whatever
// the brokers do; the error says that the group could not be told.
func (s *Source) Close(ctx context.Context) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	if s.poll != nil {
		s.poll.cancel()
	}
	opened := s.cl != nil
	s.mu.Unlock()
	s.end()
	if !opened {
		return nil
	}

	ctx, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	err := s.cl.LeaveGroupContext(ctx)
	if err != nil {
		err = fmt.Errorf("leave group %q: %w", s.cfg.Group, err)
		// A join that waits for other members, or a broker that does not
		// answer, would hold the client for longer.
		s.abort()
	}
	s.cl.Close()
	s.abort()
	s.watcher.Wait()
	return err
}
