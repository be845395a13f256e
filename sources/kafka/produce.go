package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/graphmill/graphmill"
)

const (
	// produceTimeout is how long a message may wait for its confirmation, and
	// how long a topic is looked for.
	produceTimeout = 10 * time.Second

	maxUnsent      = 20_000 // messages
	maxUnsentBytes = 32 << 20
)

// Producer writes messages: for the command line's produce, for
// demonstrations and tests. It is safe for concurrent use.
type Producer struct {
	cl    *kgo.Client
	links *links

	mu    sync.Mutex
	known map[string]struct{} // topics that exist
	sent  int
	err   error // the first
}

// NewProducer makes a producer. Nothing is dialled yet; addresses that cannot
// be parsed are an error of KindInvalid.
func NewProducer(brokers []string, client ClientSettings) (*Producer, error) {
	cfg := Config{Brokers: brokers, Client: client, Topics: []string{"-"}}.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	links := newLinks(&cfg)
	cl, err := cfg.connect(context.Background(), links,
		kgo.MaxBufferedRecords(maxUnsent),
		kgo.MaxBufferedBytes(maxUnsentBytes),
		kgo.RecordDeliveryTimeout(produceTimeout),
		// The time limit holds for messages in flight, too. One that is given
		// up may have been written all the same.
		kgo.AllowIdempotentProduceCancellation(),
	)
	if err != nil {
		return nil, err
	}
	return &Producer{cl: cl, links: links, known: map[string]struct{}{}}, nil
}

// EnsureTopic creates the topic with that many partitions, and the broker's
// default of replicas, unless it exists already, as it is. Errors are the
// context's or a *graphmill.Fault, within ten seconds.
func (p *Producer) EnsureTopic(ctx context.Context, topic string, partitions int32) error {
	ctx, cancel := context.WithTimeout(ctx, produceTimeout)
	defer cancel()
	_, err := kadm.NewClient(p.cl).CreateTopic(ctx, partitions, -1, nil, topic)
	switch {
	case err == nil, errors.Is(err, kerr.TopicAlreadyExists):
		return p.find(ctx, topic)
	case errors.Is(err, kerr.InvalidTopicException), errors.Is(err, kerr.InvalidPartitions), errors.Is(err, kerr.PolicyViolation):
		return ends("topic_invalid", fmt.Sprintf("topic %q with %d partitions cannot be created", topic, partitions), "", err)
	}
	return p.links.fault(fmt.Sprintf("create topic %q", topic), err)
}

// find returns nil once the topic exists.
func (p *Producer) find(ctx context.Context, topic string) error {
	p.mu.Lock()
	_, known := p.known[topic]
	p.mu.Unlock()
	if known {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, produceTimeout)
	defer cancel()
	if _, err := awaitTopics(ctx, p.cl, p.links, []string{topic}); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known[topic] = struct{}{}
	return nil
}

// Send hands a message over to be written, and waits only while too much is
// unsent. A nil key or value is null. Messages with the same key go to the same
// partition, in the order of the calls. The slices must not be changed until
// Flush.
//
// Errors are the context's, those of this topic (a *graphmill.Fault within ten
// seconds where it does not exist or no broker answers), or the first of an
// earlier message: there is no use in going on then.
func (p *Producer) Send(ctx context.Context, topic string, key, value []byte, headers []graphmill.Header) error {
	if err := p.find(ctx, topic); err != nil {
		return err
	}
	if err := p.firstError(); err != nil {
		return err
	}
	r := &kgo.Record{Topic: topic, Key: key, Value: value}
	for _, h := range headers {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
	}
	p.cl.Produce(ctx, r, p.confirmed)
	return nil
}

func (p *Producer) firstError() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// confirmed takes the broker's word on one message.
func (p *Producer) confirmed(r *kgo.Record, err error) {
	var fault error
	switch {
	case err == nil:
	case errors.Is(err, kerr.UnknownTopicOrPartition), errors.Is(err, kerr.UnknownTopicID):
		fault = absentTopics([]string{fmt.Sprintf("%q", r.Topic)})
	case errors.Is(err, kerr.MessageTooLarge):
		fault = ends("message_too_large", fmt.Sprintf("topic %q takes no message of %d bytes", r.Topic, len(r.Key)+len(r.Value)),
			"raise max.message.bytes of the topic, or send less at once", err)
	case errors.Is(err, context.Canceled):
		fault = err
	default:
		fault = p.links.fault(fmt.Sprintf("write to topic %q", r.Topic), err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		p.sent++
		return
	}
	if p.err == nil {
		p.err = fault
	}
}

// Flush waits until every message has been confirmed or given up, and tells
// how many have been confirmed since the producer was made. The error is the
// first of any message, or the context's.
func (p *Producer) Flush(ctx context.Context) (sent int, err error) {
	err = p.cl.Flush(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		err = p.err
	}
	return p.sent, err
}

// Close gives up what has not been confirmed; call Flush before.
func (p *Producer) Close() { p.cl.Close() }
