package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	plog "github.com/apache/pulsar-client-go/pulsar/log"

	"github.com/graphmill/graphmill/integration/stack"
)

const (
	pulsarPartitions = 3
	pulsarPayload    = 200  // bytes
	batchSize        = 1000 // messages that are acknowledged at once, as BATCH_SIZE is by default
)

// fromPulsar is a Pulsar with the topic, and a server whose sink is the ledger, used
// by all rounds.
type fromPulsar struct {
	dir     string
	rows    int
	profile string
	pulsar  *stack.Pulsar
	client  pulsar.Client
	server  *program
	read    int64 // bytes of the ledger that have been counted
}

// openPulsar starts everything and fills the topic.
func openPulsar(ctx context.Context, out io.Writer, o options) (*fromPulsar, error) {
	b := &fromPulsar{rows: o.pulsarRows, profile: o.profile}
	if err := b.prepare(ctx, out); err != nil {
		return nil, errors.Join(err, b.close())
	}
	return b, nil
}

func (b *fromPulsar) prepare(ctx context.Context, out io.Writer) (err error) {
	if err := enough(b.rows); err != nil {
		return err
	}
	if b.dir, err = os.MkdirTemp("", "graphmill-bench-"); err != nil {
		return err
	}
	if b.pulsar, err = stack.StartPulsar(ctx, stack.PulsarConfig{Log: out}); err != nil {
		return err
	}
	if err := b.pulsar.CreateTopic(ctx, topic, pulsarPartitions); err != nil {
		return err
	}
	b.client, err = pulsar.NewClient(pulsar.ClientOptions{
		URL: b.pulsar.ServiceURL(), Logger: plog.NewLoggerWithSlog(slog.New(slog.DiscardHandler)),
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "producing %d ratings\n", b.rows)
	if err := b.produce(ctx); err != nil {
		return fmt.Errorf("produce ratings: %w", err)
	}
	b.server, err = serve(ctx, b.dir, "--pulsar-service-url", b.pulsar.ServiceURL(), "--pulsar-admin-url", b.pulsar.AdminURL(),
		"--graph-uri", "ledger:"+b.ledger())
	return err
}

func (b *fromPulsar) ledger() string { return filepath.Join(b.dir, "ledger.jsonl") }

// produce fills the topic with payloads of one length, in batches as the client
// makes them.
func (b *fromPulsar) produce(ctx context.Context) error {
	producer, err := b.client.CreateProducer(pulsar.ProducerOptions{Topic: topic, MaxPendingMessages: 10_000})
	if err != nil {
		return err
	}
	defer producer.Close()
	var failed struct {
		sync.Mutex
		first error
	}
	for i := range b.rows {
		r := ratingOf(i)
		value, err := json.Marshal(r)
		if err != nil {
			return err
		}
		const noteField = `,"note":""`
		r.Note = strings.Repeat(".", pulsarPayload-len(noteField)-len(value))
		if value, err = json.Marshal(r); err != nil {
			return err
		}
		producer.SendAsync(ctx, &pulsar.ProducerMessage{Key: fmt.Sprint(r.User), Payload: value}, func(_ pulsar.MessageID, _ *pulsar.ProducerMessage, err error) {
			failed.Lock()
			defer failed.Unlock()
			if failed.first == nil {
				failed.first = err
			}
		})
	}
	err = producer.FlushWithCtx(ctx)
	failed.Lock()
	defer failed.Unlock()
	return errors.Join(err, failed.first)
}

// settled fails where a subscription has not acknowledged everything.
func (b *fromPulsar) settled(ctx context.Context, subscription string) error {
	stats, err := b.pulsar.Stats(ctx, topic)
	if err != nil {
		return err
	}
	if n := stats.Subscriptions[subscription].Backlog; n != 0 {
		return fmt.Errorf("%d messages of %s are not acknowledged", n, subscription)
	}
	return nil
}

// close ends what was started.
func (b *fromPulsar) close() error {
	b.server.close()
	if b.client != nil {
		b.client.Close()
	}
	var errs []error
	if b.pulsar != nil {
		errs = append(errs, b.pulsar.Close())
	}
	if b.dir != "" {
		errs = append(errs, os.RemoveAll(b.dir))
	}
	return errors.Join(errs...)
}

// since is what has been done since a reader was told to read.
func since(began time.Time, cpu time.Duration, rows int) measured {
	return measured{rows: rows, elapsed: time.Since(began), cpu: cpuTime(os.Getpid()) - cpu}
}
