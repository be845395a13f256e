package server

import (
	"context"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/sources"
	"github.com/graphmill/graphmill/sources/kafka"
)

// kafkaBroker is a Kafka cluster, as a stream reads it.
type kafkaBroker struct {
	spec graphmill.StreamSpec
	srv  *Server
}

func (b *kafkaBroker) reads() reading {
	brokers := b.spec.BootstrapServers
	if len(brokers) == 0 {
		brokers = b.srv.cfg.BootstrapServers
	}
	return reading{source: graphmill.SourceNameKafka, addresses: brokers, servers: brokers, group: b.spec.ConsumerGroup, topics: b.spec.Topics}
}

func (b *kafkaBroker) validate() error {
	if len(b.reads().addresses) > 0 {
		return nil
	}
	e := graphmill.Invalid("bootstrap_servers", "the stream names no broker, and the server has no default")
	e.Next = "give --bootstrap-servers HOST:PORT, or start the server with --kafka-bootstrap-servers"
	return e
}

func (b *kafkaBroker) startFrom() (setting, start string) {
	return "auto.offset.reset", kafka.StartFrom(b.spec.Configs, b.spec.Credentials)
}

func (b *kafkaBroker) notes() ([]string, error) {
	_, notes, err := kafka.ParseConfigs(b.spec.Configs, b.spec.Credentials, b.srv.cfg.Secrets)
	return notes, err
}

// config is how the stream reads Kafka.
func (b *kafkaBroker) config(known []graphmill.Position) (kafka.Config, error) {
	if err := b.validate(); err != nil {
		return kafka.Config{}, err
	}
	start, err := graphmill.ParseStart("start_from", b.spec.StartFrom)
	if err != nil {
		return kafka.Config{}, err
	}
	client, _, err := kafka.ParseConfigs(b.spec.Configs, b.spec.Credentials, b.srv.cfg.Secrets)
	if err != nil {
		return kafka.Config{}, err
	}
	return kafka.Config{
		Client:  client,
		Stream:  b.spec.Name,
		Brokers: b.reads().addresses,
		Topics:  b.spec.Topics,
		Group:   b.spec.ConsumerGroup,
		Start:   start,
		Known:   known,
		Logger:  b.srv.log.With("stream", b.spec.Name),
	}, nil
}

func (b *kafkaBroker) probe(ctx context.Context) error {
	cfg, err := b.config(nil)
	if err != nil {
		return err
	}
	return kafka.Probe(ctx, cfg)
}

// prepare has nothing to do: the positions of a group are settled when a member
// joins it, and Kafka keeps messages whether there is a group or not.
func (b *kafkaBroker) prepare(context.Context) ([]graphmill.Position, error) { return nil, nil }

func (b *kafkaBroker) source(known []graphmill.Position, accepted StartRequest, obs sources.Observer) (sources.Source, error) {
	cfg, err := b.config(known)
	if err != nil {
		return nil, err
	}
	cfg.AcceptRecreated, cfg.AcceptLost = accepted.AcceptRecreated, accepted.AcceptLost
	return kafka.New(cfg, obs)
}

func (b *kafkaBroker) reader(known []graphmill.Position, from string) (reader, error) {
	cfg, err := b.config(known)
	if err != nil {
		return nil, err
	}
	return kafka.NewReader(cfg, from)
}

func (b *kafkaBroker) offsets(ctx context.Context, known []graphmill.Position) (graphmill.OffsetsInfo, error) {
	cfg, err := b.config(known)
	if err != nil {
		return graphmill.OffsetsInfo{}, err
	}
	return kafka.Offsets(ctx, cfg)
}

func (b *kafkaBroker) setOffsets(ctx context.Context, known []graphmill.Position, to graphmill.OffsetTarget, only *graphmill.TopicPartition) ([]graphmill.Position, error) {
	cfg, err := b.config(known)
	if err != nil {
		return nil, err
	}
	return kafka.SetOffsets(ctx, cfg, to, only)
}

func (b *kafkaBroker) unsubscribe(context.Context) error {
	e := graphmill.Invalid("unsubscribe", "a Kafka stream has no subscription that could be ended: its consumer group %q keeps its positions until they expire", b.spec.ConsumerGroup)
	e.Next = "drop the stream without it"
	return e
}
