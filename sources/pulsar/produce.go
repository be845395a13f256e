package pulsar

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"

	"github.com/graphmill/graphmill"
)

// produceTimeout is how long a message may wait for the broker's receipt.
const produceTimeout = 10 * time.Second

// Producer writes messages to one topic: for the command line's produce. It is safe
// for concurrent use.
type Producer struct {
	topic    string // in full
	links    *links
	client   pulsar.Client
	producer pulsar.Producer
	quiet    chan struct{} // holds one when nothing is unconfirmed any more

	mu          sync.Mutex
	sent        int
	unconfirmed int
	err         error // the first
}

// NewProducer connects a producer to a topic, which the broker makes where it is
// absent, if it is set up so. It takes the operation timeout at most (10 seconds by
// default), whatever ctx says. Errors are of KindInvalid for an address that
// is none, else a *graphmill.Fault.
func NewProducer(ctx context.Context, serviceURL, topic string, client ClientSettings) (*Producer, error) {
	if err := graphmill.ValidateServiceURL("service_url", serviceURL); err != nil {
		return nil, err
	}
	cfg := Config{ServiceURL: serviceURL, Topics: []string{topic}, Client: client}.withDefaults()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	p := &Producer{topic: cfg.Topics[0], links: newLinks(&cfg), quiet: make(chan struct{}, 1)}
	var err error
	if p.client, err = cfg.connect(p.links); err != nil {
		return nil, err
	}
	p.producer, err = p.client.CreateProducer(pulsar.ProducerOptions{Topic: p.topic, SendTimeout: produceTimeout})
	if err != nil {
		p.client.Close()
		return nil, p.fault(err)
	}
	return p, nil
}

// fault tells what keeps messages from being written. What a role needs is other than
// of streams.
func (p *Producer) fault(err error) error {
	switch {
	case errors.Is(err, pulsar.ErrMessageTooLarge), errors.Is(err, pulsar.ErrMetaTooLarge):
		return ends("message_too_large", "topic "+p.topic+" takes no message of this size", "raise maxMessageSize of the broker, or send less at once", err)
	case errors.Is(err, context.Canceled):
		return err
	}
	f := *p.links.fault("write to topic "+p.topic, err)
	switch f.Code {
	case codeForbidden:
		f.Next = "allow the role to produce (pulsar-admin namespaces grant-permission TENANT/NAMESPACE --role ROLE --actions produce, or topics grant-permission TOPIC)"
	case codeTopicAbsent:
		f.Next = "create it: pulsar-admin topics create " + p.topic + "; the broker is set up not to make topics by itself"
	}
	return &f
}

// Send hands a message over to be written, and waits only while too much is unsent.
// A nil key is none; of headers with one name the last counts, since Pulsar's
// properties have each name once. Messages with the same key go to the same
// partition, in the order of the calls. The payload must not be changed until Flush.
//
// The error is the context's, or the first of an earlier message: there is no use in
// going on then.
func (p *Producer) Send(ctx context.Context, key, payload []byte, headers []graphmill.Header) error {
	m := &pulsar.ProducerMessage{Payload: payload, Key: string(key)}
	for _, h := range headers {
		if m.Properties == nil {
			m.Properties = map[string]string{}
		}
		m.Properties[h.Key] = string(h.Value)
	}
	p.mu.Lock()
	err := p.err
	if err == nil {
		p.unconfirmed++
	}
	p.mu.Unlock()
	if err != nil {
		return err
	}
	p.producer.SendAsync(ctx, m, func(_ pulsar.MessageID, _ *pulsar.ProducerMessage, err error) { p.confirmed(err) })
	return nil
}

// confirmed takes the broker's word on one message.
func (p *Producer) confirmed(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		p.sent++
	} else if p.err == nil {
		p.err = p.fault(err)
	}
	if p.unconfirmed--; p.unconfirmed == 0 {
		select {
		case p.quiet <- struct{}{}:
		default:
		}
	}
}

// Flush waits until every message has been confirmed or given up, and tells how many
// have been confirmed since the producer was made. The error is the first of any
// message, or the context's.
func (p *Producer) Flush(ctx context.Context) (sent int, err error) {
	flushed := p.producer.FlushWithCtx(ctx)
	for {
		p.mu.Lock()
		sent, err = p.sent, p.err
		done := p.unconfirmed == 0
		p.mu.Unlock()
		if done && err == nil && flushed != nil {
			err = fmt.Errorf("write to topic %s: %w", p.topic, flushed)
		}
		if done {
			return sent, err
		}
		select {
		case <-p.quiet:
		case <-ctx.Done():
			return sent, ctx.Err()
		}
	}
}

// Close gives up what has not been confirmed; call Flush before.
func (p *Producer) Close() {
	p.producer.Close()
	p.client.Close()
}
