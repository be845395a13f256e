package server

import (
	"context"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/sources"
	"github.com/graphmill/graphmill/sources/pulsar"
)

// pulsarBroker is a Pulsar cluster, as a stream reads it.
type pulsarBroker struct {
	spec graphmill.StreamSpec
	srv  *Server
}

func (b *pulsarBroker) reads() reading {
	r := reading{source: graphmill.SourceNamePulsar, group: b.spec.Subscription}
	if url := b.serviceURL(); url != "" {
		r.addresses = []string{url}
		r.servers = pulsar.Servers(url)
	}
	for _, t := range b.spec.Topics {
		r.topics = append(r.topics, graphmill.PulsarTopic(t))
	}
	if b.spec.TopicsPattern != "" {
		r.pattern = newTopicPattern(b.spec.TopicsPattern)
	}
	return r
}

func (b *pulsarBroker) serviceURL() string {
	if b.spec.ServiceURL != "" {
		return b.spec.ServiceURL
	}
	return b.srv.cfg.PulsarServiceURL
}

func (b *pulsarBroker) validate() error {
	if b.serviceURL() != "" {
		return nil
	}
	e := graphmill.Invalid("service_url", "the stream names no Pulsar, and the server has no default")
	e.Next = "give --service-url pulsar://HOST:PORT, or start the server with --pulsar-service-url"
	return e
}

func (b *pulsarBroker) startFrom() (setting, start string) {
	return "subscriptionInitialPosition", pulsar.StartFrom(b.spec.Configs, b.spec.Credentials)
}

func (b *pulsarBroker) notes() ([]string, error) {
	_, notes, err := pulsar.ParseConfigs(b.spec.Configs, b.spec.Credentials, b.srv.cfg.Secrets)
	return notes, err
}

// config is how the stream reads Pulsar. The admin REST is that of the server's own
// Pulsar: of another one, that the definition names, there is none to ask.
func (b *pulsarBroker) config(known []graphmill.Position) (pulsar.Config, error) {
	if err := b.validate(); err != nil {
		return pulsar.Config{}, err
	}
	start, err := graphmill.ParseStart("start_from", b.spec.StartFrom)
	if err != nil {
		return pulsar.Config{}, err
	}
	client, _, err := pulsar.ParseConfigs(b.spec.Configs, b.spec.Credentials, b.srv.cfg.Secrets)
	if err != nil {
		return pulsar.Config{}, err
	}
	cfg := pulsar.Config{
		Client:       client,
		Stream:       b.spec.Name,
		ServiceURL:   b.serviceURL(),
		Topics:       b.spec.Topics,
		Pattern:      b.spec.TopicsPattern,
		Subscription: b.spec.Subscription,
		Exclusive:    b.spec.SubscriptionType == graphmill.SubscriptionExclusive,
		Start:        start,
		Known:        known,
		Logger:       b.srv.log.With("stream", b.spec.Name),
	}
	if b.spec.ServiceURL == "" || b.spec.ServiceURL == b.srv.cfg.PulsarServiceURL {
		cfg.AdminURL = b.srv.cfg.PulsarAdminURL
	}
	return cfg, nil
}

func (b *pulsarBroker) probe(ctx context.Context) error {
	cfg, err := b.config(nil)
	if err != nil {
		return err
	}
	return pulsar.Probe(ctx, cfg)
}

// prepare makes the subscription, since Pulsar keeps messages for those that there
// are only, and a new one begins behind what was sent before.
func (b *pulsarBroker) prepare(ctx context.Context) ([]graphmill.Position, error) {
	cfg, err := b.config(nil)
	if err != nil {
		return nil, err
	}
	return pulsar.Prepare(ctx, cfg)
}

func (b *pulsarBroker) source(known []graphmill.Position, _ StartRequest, obs sources.Observer) (sources.Source, error) {
	cfg, err := b.config(known)
	if err != nil {
		return nil, err
	}
	return pulsar.New(cfg, obs)
}

func (b *pulsarBroker) reader(known []graphmill.Position, from string) (reader, error) {
	cfg, err := b.config(known)
	if err != nil {
		return nil, err
	}
	return pulsar.NewReader(cfg, from)
}

func (b *pulsarBroker) offsets(ctx context.Context, known []graphmill.Position) (graphmill.OffsetsInfo, error) {
	cfg, err := b.config(known)
	if err != nil {
		return graphmill.OffsetsInfo{}, err
	}
	return pulsar.Offsets(ctx, cfg)
}

func (b *pulsarBroker) setOffsets(ctx context.Context, known []graphmill.Position, to graphmill.OffsetTarget, only *graphmill.TopicPartition) ([]graphmill.Position, error) {
	cfg, err := b.config(known)
	if err != nil {
		return nil, err
	}
	if only != nil { // people may give the topic as the definition has it
		only = &graphmill.TopicPartition{Topic: graphmill.PulsarTopic(only.Topic), Partition: only.Partition}
	}
	return pulsar.SetOffsets(ctx, cfg, to, only)
}

func (b *pulsarBroker) unsubscribe(ctx context.Context) error {
	cfg, err := b.config(nil)
	if err != nil {
		return err
	}
	return pulsar.Unsubscribe(ctx, cfg)
}
