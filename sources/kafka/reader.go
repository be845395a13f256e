package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/sources"
	"github.com/graphmill/graphmill/sources/patience"
)

// FromCommitted makes a Reader begin where START would.
const FromCommitted = sources.FromCommitted

// readerTimeout is how long a Reader tries to reach brokers and topics.
const readerTimeout = 10 * time.Second

// Reader reads the topics of a stream outside of its group: it does not join
// it, does not create it and commits nothing, so it disturbs nobody. It is for
// one goroutine.
type Reader struct {
	cfg    Config
	links  *links
	budget *budget

	cl    *kgo.Client // from the first Fetch on
	begun bool
	ids   map[string]string // topic ids by topic
	fault *graphmill.Fault  // set: it cannot go on
}

// NewReader makes a Reader over all partitions of cfg's topics. It begins where
// from says: FromCommitted (the group's commit, else the known position, else
// cfg.Start), "earliest", "latest" (what comes after the first Fetch has begun)
// or a time in RFC 3339. Errors are of KindInvalid.
func NewReader(cfg Config, from string) (*Reader, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if from == FromCommitted {
		if cfg.Group == "" {
			return nil, graphmill.Invalid("consumer_group", "a consumer group is needed to begin at its commits")
		}
	} else {
		start, err := graphmill.ParseStart("from", from)
		if err != nil {
			return nil, err
		}
		cfg.Start = start
		cfg.Group, cfg.Known = "", nil // no position counts
	}
	return &Reader{cfg: cfg, links: newLinks(&cfg), budget: newBudget(cfg)}, nil
}

// Fetch waits until there is something and returns at most max messages, in
// the form of sources.Source.Fetch. The first call looks for brokers and
// topics, for ten seconds at most. Errors are the context's or a
// *graphmill.Fault.
func (r *Reader) Fetch(ctx context.Context, max int) ([]graphmill.Fetch, error) {
	if !r.begun {
		if err := r.begin(ctx); err != nil {
			return nil, err
		}
		r.begun = true
	}
	for {
		if r.fault != nil {
			return nil, r.fault
		}
		fetched := r.cl.PollRecords(ctx, maxRecords(max))
		out := r.take(fetched)
		if len(out) > 0 {
			return out, nil
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
}

// begin decides where every partition starts.
func (r *Reader) begin(ctx context.Context) error {
	if r.cl == nil {
		cl, err := r.cfg.connect(context.WithoutCancel(ctx), r.links, r.cfg.reading(r.budget)...)
		if err != nil {
			return err
		}
		r.cl = cl
		r.budget.over(cl)
	}
	ctx, cancel := context.WithTimeout(ctx, readerTimeout)
	defer cancel()
	infos, err := awaitTopics(ctx, r.cl, r.links, r.cfg.Topics)
	if err != nil {
		return err
	}
	var tps []graphmill.TopicPartition
	leaders := map[int32]struct{}{}
	r.ids = make(map[string]string, len(infos))
	for topic, info := range infos {
		r.ids[topic] = info.id
		for p := range info.partitions {
			tps = append(tps, graphmill.TopicPartition{Topic: topic, Partition: p})
		}
		for id := range info.leaders {
			leaders[id] = struct{}{}
		}
	}
	r.budget.among(len(leaders))
	starts, err := r.awaitStarts(ctx, tps)
	if err != nil {
		return err
	}
	r.cl.AddConsumePartitions(starts)
	return nil
}

// awaitStarts asks where to begin until the brokers answer or ctx ends: a broker
// that has just started knows no coordinator of the group for a moment.
func (r *Reader) awaitStarts(ctx context.Context, tps []graphmill.TopicPartition) (map[string]map[int32]kgo.Offset, error) {
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		starts, err := r.starts(ctx, tps)
		if err == nil {
			return starts, nil
		}
		if ctx.Err() != nil && errors.Is(err, context.Canceled) {
			return nil, err
		}
		f := r.links.fault("find where to begin", err)
		if f.Class != graphmill.FaultTransient || patience.Pause(ctx, wait) != nil {
			return nil, f
		}
	}
}

func (r *Reader) starts(ctx context.Context, tps []graphmill.TopicPartition) (map[string]map[int32]kgo.Offset, error) {
	f, err := gather(ctx, r.cl, &r.cfg, tps)
	if err != nil {
		return nil, err
	}
	out := map[string]map[int32]kgo.Offset{}
	for _, tp := range tps {
		one, err := f.settle(&r.cfg, tp, false, r.cfg.accepted())
		if err != nil {
			return nil, err
		}
		if out[tp.Topic] == nil {
			out[tp.Topic] = map[int32]kgo.Offset{}
		}
		out[tp.Topic][tp.Partition] = kgo.NewOffset().At(one.Offset)
	}
	return out, nil
}

func (r *Reader) take(fetched kgo.Fetches) []graphmill.Fetch {
	var out []graphmill.Fetch
	for i := range fetched {
		for _, t := range fetched[i].Topics {
			for _, p := range t.Partitions {
				tp := graphmill.TopicPartition{Topic: t.Topic, Partition: p.Partition}
				switch err := p.Err; {
				case err == nil, passing(err):
				case errors.Is(err, kerr.OffsetOutOfRange):
					r.fault = ends(codePositionLost, fmt.Sprintf("messages of %s were deleted while they were being read", tp), "", err)
				default:
					r.fault = r.links.fault("read "+tp.String(), err)
				}
				if len(p.Records) > 0 {
					out = append(out, convert(tp, r.ids[t.Topic], p.Records))
				}
			}
		}
	}
	return out
}

// passing tells whether an error of a poll is of its context's end.
func passing(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// Close ends the reader.
func (r *Reader) Close() {
	if r.cl != nil {
		r.cl.Close()
	}
}
