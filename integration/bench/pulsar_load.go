package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/pprof"
	"strconv"
	"strings"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"

	"github.com/graphmill/graphmill"
	sourcepulsar "github.com/graphmill/graphmill/sources/pulsar"
)

// contenders in the order of a round; the first is the limit.
func (b *fromPulsar) contenders() []contender {
	return []contender{{"raw loop", b.raw}, {"source", b.source}, {"graphmill", b.stream}}
}

// raw is what one would write who wants the messages in order, and each of them at
// least once: it acknowledges a thousand at a time, and looks at the answer.
func (b *fromPulsar) raw(ctx context.Context, round int) (measured, error) {
	subscription := fmt.Sprintf("raw-%d", round)
	consumer, err := b.client.Subscribe(pulsar.ConsumerOptions{
		Topic: topic, SubscriptionName: subscription, Type: pulsar.Failover,
		SubscriptionInitialPosition: pulsar.SubscriptionPositionEarliest, AckWithResponse: true,
	})
	if err != nil {
		return measured{}, err
	}
	defer consumer.Close()
	began, cpu := time.Now(), cpuTime(os.Getpid())
	last := map[int32]pulsar.MessageID{} // by partition
	for n := 1; n <= b.rows; n++ {
		select {
		case m := <-consumer.Chan():
			last[m.ID().PartitionIdx()] = m.ID()
		case <-ctx.Done():
			return measured{}, fmt.Errorf("after %d of %d messages: %w", n-1, b.rows, ctx.Err())
		}
		if n%batchSize == 0 || n == b.rows {
			for _, id := range last {
				if err := consumer.AckIDCumulative(id); err != nil {
					return measured{}, err
				}
			}
			clear(last)
		}
	}
	return since(began, cpu, b.rows), b.settled(ctx, subscription)
}

// source reads as a stream does, and acknowledges when a batch is full.
func (b *fromPulsar) source(ctx context.Context, round int) (m measured, err error) {
	subscription := fmt.Sprintf("source-%d", round)
	source, err := sourcepulsar.New(sourcepulsar.Config{
		Stream: subscription, Subscription: subscription, Topics: []string{topic},
		ServiceURL: b.pulsar.ServiceURL(), AdminURL: b.pulsar.AdminURL(), Start: graphmill.Start{Earliest: true},
	}, onlooker{})
	if err != nil {
		return measured{}, err
	}
	defer func() { err = errors.Join(err, source.Close(ctx)) }()
	if err := source.Open(ctx); err != nil {
		return measured{}, err
	}
	stop, err := b.startProfile(round)
	if err != nil {
		return measured{}, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	began, cpu := time.Now(), cpuTime(os.Getpid())
	next := map[graphmill.TopicPartition]graphmill.Position{}
	rows, open := 0, 0
	for rows < b.rows {
		fetched, err := source.Fetch(ctx, batchSize-open)
		if err != nil {
			return measured{}, fmt.Errorf("after %d of %d messages: %w", rows, b.rows, err)
		}
		for _, f := range fetched {
			rows, open = rows+len(f.Messages), open+len(f.Messages)
			next[f.Next.TopicPartition] = f.Next
		}
		if open < batchSize && rows < b.rows {
			continue
		}
		done := make([]graphmill.Position, 0, len(next))
		for _, at := range next {
			done = append(done, at)
		}
		if err := source.Acknowledge(ctx, done); err != nil {
			return measured{}, err
		}
		clear(next)
		open = 0
	}
	m = since(began, cpu, rows)
	if rows != b.rows {
		return measured{}, fmt.Errorf("%d messages came for %d", rows, b.rows)
	}
	return m, b.settled(ctx, subscription)
}

// startProfile begins a profile, where one is wanted, in the first round that counts.
func (b *fromPulsar) startProfile(round int) (stop func() error, err error) {
	if b.profile == "" || round != 1 {
		return func() error { return nil }, nil
	}
	f, err := os.Create(b.profile)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() error { pprof.StopCPUProfile(); return f.Close() }, nil
}

// onlooker is told what happens to a source and does nothing.
type onlooker struct{}

func (onlooker) Waiting(*graphmill.Fault)                                  {}
func (onlooker) Recovered()                                                {}
func (onlooker) Absent([]graphmill.Position)                               {}
func (onlooker) Assigned([]graphmill.Position)                             {}
func (onlooker) Revoked(context.Context, []graphmill.TopicPartition, bool) {}

// stream runs a new stream over the topic until all is acknowledged, then counts
// the statements of the ledger, and drops it.
func (b *fromPulsar) stream(ctx context.Context, round int) (measured, error) {
	name := fmt.Sprintf("graphmill-%d", round)
	err := b.server.call(ctx, "POST", "/streams", map[string]any{
		"name": name, "source": "pulsar", "topics": []string{topic}, "start_from": "earliest", "transform": "movies",
	})
	if err != nil {
		return measured{}, err
	}
	if err := b.server.call(ctx, "POST", "/streams/"+name+":start", nil); err != nil {
		return measured{}, err
	}
	began, cpu := time.Now(), b.server.cpu()
	if err := b.awaitStream(ctx, name); err != nil {
		return measured{}, err
	}
	m := measured{elapsed: time.Since(began), cpu: b.server.cpu() - cpu}
	if m.rows, b.read, err = b.recorded(b.read); err != nil {
		return measured{}, err
	}
	if m.rows != b.rows {
		return measured{}, fmt.Errorf("%d statements are in the ledger for %d messages", m.rows, b.rows)
	}
	if err := b.settled(ctx, name); err != nil {
		return measured{}, err
	}
	return m, b.server.call(ctx, "DELETE", "/streams/"+name, nil)
}

// awaitStream returns once a stream has acknowledged as many messages as there are.
// It looks at /metrics, for which, unlike the status, no broker is asked.
func (b *fromPulsar) awaitStream(ctx context.Context, name string) error {
	var done float64
	var err error
	perr := poll(ctx, 10*time.Minute, func() bool {
		var samples string
		if samples, err = b.server.metrics(ctx); err != nil {
			return true
		}
		if sample(samples, `graphmill_stream_state{state="failed",stream="`+name+`"}`) > 0 {
			err = errors.New("the stream has failed")
		}
		done = sample(samples, `graphmill_acknowledged_messages_total{stream="`+name+`"}`)
		return err != nil || done >= float64(b.rows)
	})
	if err = errors.Join(err, perr); err != nil {
		return fmt.Errorf("after %.0f of %d messages: %w", done, b.rows, err)
	}
	return nil
}

// sample is the value of one series, 0 where there is none.
func sample(samples, series string) float64 {
	_, rest, _ := strings.Cut(samples, "\n"+series+" ")
	text, _, _ := strings.Cut(rest, "\n")
	value, _ := strconv.ParseFloat(text, 64)
	return value
}

// recorded counts the statements in the ledger behind an offset, and returns the
// ledger's length too.
func (b *fromPulsar) recorded(from int64) (statements int, end int64, err error) {
	f, err := os.Open(b.ledger())
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		return 0, 0, err
	}
	in := json.NewDecoder(bufio.NewReader(f))
	for in.More() {
		var line struct {
			Statements []struct{} `json:"statements"`
		}
		if err := in.Decode(&line); err != nil {
			return 0, 0, err
		}
		statements += len(line.Statements)
	}
	return statements, from + in.InputOffset(), nil
}
