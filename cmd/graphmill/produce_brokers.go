package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/sources/kafka"
	"github.com/graphmill/graphmill/sources/pulsar"
)

// Where produce sends to unless it is told.
const (
	defaultBroker = "127.0.0.1:9092"
	brokersVar    = varPrefix + "KAFKA_BOOTSTRAP_SERVERS"
	defaultPulsar = "pulsar://127.0.0.1:6650"
	pulsarVar     = varPrefix + "PULSAR_SERVICE_URL"
)

// producer writes messages to one topic.
type producer interface {
	Send(ctx context.Context, key, payload []byte, headers []graphmill.Header) error
	Flush(ctx context.Context) (sent int, err error)
	Close()
}

// produceFlags say where messages go, and how they are read.
type produceFlags struct {
	app        *app
	source     string
	brokers    []string
	serviceURL string
	partitions int32
	client     clientFlags
	separator  string
	json       bool
}

// check refuses what cannot be meant.
func (p *produceFlags) check(cmd *cobra.Command, topic string) error {
	given := cmd.Flags().Changed
	switch {
	case topic == "":
		return wrongUsage("TOPIC is empty")
	case p.source != graphmill.SourceNameKafka && p.source != graphmill.SourceNamePulsar:
		return wrongUsage("--source %q is not known; kafka and pulsar are", clip(p.source, 60))
	case p.source == graphmill.SourceNamePulsar && (given("kafka-bootstrap-servers") || given("partitions")):
		return wrongUsage("--kafka-bootstrap-servers and --partitions are of Kafka, and --source is pulsar")
	case p.source == graphmill.SourceNameKafka && given("pulsar-service-url"):
		return &usageError{text: "--pulsar-service-url is of Pulsar, and --source is kafka", next: "to send to Pulsar: --source pulsar"}
	case p.json && p.separator != "":
		return wrongUsage("--key-separator has no meaning with --json, where key stands beside payload")
	case p.partitions < 1 && given("partitions"):
		return wrongUsage("--partitions %d is not at least 1", p.partitions)
	}
	if err := graphmill.ValidateTopic(p.source, topic); err != nil {
		var e *graphmill.Error
		if errors.As(err, &e) {
			return &usageError{text: "TOPIC: " + e.Text, next: e.Next}
		}
		return err
	}
	return nil
}

// open makes the producer of the topic.
func (p *produceFlags) open(ctx context.Context, topic string) (producer, error) {
	if p.source == graphmill.SourceNamePulsar {
		return p.openPulsar(ctx, topic)
	}
	settings, notes, err := p.client.settings(p.app)
	if err != nil {
		return nil, asFlagOf(err)
	}
	p.warn(notes)
	if len(p.brokers) == 0 { // a variable may be set, and empty
		p.brokers = []string{defaultBroker}
	}
	to, err := kafka.NewProducer(p.brokers, settings)
	if err != nil {
		return nil, &usageError{text: "--kafka-bootstrap-servers: " + err.Error()}
	}
	if err := to.EnsureTopic(ctx, topic, p.partitions); err != nil {
		to.Close()
		return nil, err
	}
	return kafkaTopic{to, topic}, nil
}

func (p *produceFlags) openPulsar(ctx context.Context, topic string) (producer, error) {
	settings, notes, err := p.client.pulsarSettings(p.app)
	if err != nil {
		return nil, asFlagOf(err)
	}
	p.warn(notes)
	serviceURL := cmp.Or(p.serviceURL, defaultPulsar)
	if err := graphmill.ValidateServiceURL("pulsar_service_url", serviceURL); err != nil {
		return nil, asFlag(err)
	}
	progress := p.app.startProgress("connecting to Pulsar")
	defer progress.stop()
	to, err := pulsar.NewProducer(ctx, serviceURL, topic, settings)
	if err != nil {
		return nil, err
	}
	return to, nil
}

func (p *produceFlags) warn(notes []string) {
	for _, n := range notes {
		fmt.Fprintf(p.app.err, "warning: %s\n", n)
	}
}

// kafkaTopic is a producer of Kafka, which may write to any topic.
type kafkaTopic struct {
	*kafka.Producer
	topic string
}

func (t kafkaTopic) Send(ctx context.Context, key, payload []byte, headers []graphmill.Header) error {
	return t.Producer.Send(ctx, t.topic, key, payload, headers)
}

// notProduced adds where the brokers are named to an outage of which no more is
// known.
func (p *produceFlags) notProduced(err error) error {
	var f *graphmill.Fault
	if !errors.As(err, &f) || f.Code != "broker_unreachable" {
		return err
	}
	told := *f
	told.Next = "name the brokers with --kafka-bootstrap-servers or " + brokersVar + "; graphmill dev prints where its own listens"
	if p.source == graphmill.SourceNamePulsar {
		told.Next = "name the brokers with --pulsar-service-url or " + pulsarVar + "; " + f.Next
	}
	return &told
}
