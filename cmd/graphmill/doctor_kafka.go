package main

import (
	"context"
	"slices"
	"strings"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/api"
	"github.com/graphmill/graphmill/sources/kafka"
)

// kafkaBrokers asks each address by itself, and the addresses that they give out for
// the cluster: a client that gets in by one has to reach all of them. stream may be
// nil.
func (d *doctor) kafkaBrokers(ctx context.Context, stream *api.Stream) []finding {
	configs, credentials, err := d.entries(d.kafka, stream)
	if err != nil {
		return []finding{failed(err)}
	}
	var findings []finding
	settings, notes, err := kafka.ParseConfigs(configs, credentials, d.vault())
	for _, n := range notes {
		findings = append(findings, warn("", "%s", n))
	}
	if err != nil {
		return append(findings, failed(err))
	}
	named := d.settings.kafkaServers
	if stream != nil && len(stream.BootstrapServers) > 0 {
		named = stream.BootstrapServers
	}
	if len(named) == 0 {
		return append(findings, warn("give --kafka-bootstrap-servers HOST:PORT", "no default brokers are set: each stream has to name its own"))
	}
	// What is no address has been told among the settings. It may hold a
	// password, and is not repeated.
	asked := slices.DeleteFunc(slices.Clone(named), func(address string) bool {
		return graphmill.ValidateBroker("kafka_bootstrap_servers", address) != nil
	})
	facts := diagnoseAll(ctx, asked, settings)
	var others []string
	for _, f := range facts {
		for _, a := range f.Advertised {
			if !slices.Contains(asked, a) && !slices.Contains(others, a) {
				others = append(others, a)
			}
		}
	}
	for _, f := range facts {
		findings = append(findings, brokerFinding(f))
	}
	for _, f := range diagnoseAll(ctx, others, settings) {
		if f.Fault != nil {
			findings = append(findings, fail("set the broker's advertised listener to an address that can be reached from here",
				"%s, which the brokers give out as an address of theirs: %s", f.Address, faultText(f.Fault)))
			continue
		}
		findings = append(findings, brokerFinding(f))
	}
	return findings
}

// diagnoseAll asks addresses at once, and returns in their order.
func diagnoseAll(ctx context.Context, addresses []string, settings kafka.ClientSettings) []kafka.BrokerFacts {
	answers := make([]chan kafka.BrokerFacts, len(addresses))
	for i, address := range addresses {
		answers[i] = make(chan kafka.BrokerFacts, 1)
		go func() { answers[i] <- kafka.Diagnose(ctx, address, settings) }()
	}
	facts := make([]kafka.BrokerFacts, len(addresses))
	for i := range answers {
		facts[i] = <-answers[i]
	}
	return facts
}

func brokerFinding(f kafka.BrokerFacts) finding {
	const giveSettings = "to ask more, give a stream's settings: --stream NAME, or --kafka-config and --kafka-credential; "
	switch {
	case f.Fault != nil:
		return fail(f.Fault.Next, "%s: %s", f.Address, faultText(f.Fault))
	case f.TLS:
		return warn(giveSettings+"streams need the config security.protocol ssl or sasl_ssl", "%s wants TLS", f.Address)
	case f.Login:
		return warn(giveSettings+"streams need the configs security.protocol, sasl.mechanism and sasl.username, and the credential sasl.password",
			"%s wants a login", f.Address)
	case !f.TopicIDs:
		return warn("", "%s answers (protocol of Kafka %s); it has no topic ids, so a topic that is deleted and made anew is noticed only where its offsets are out of range", f.Address, f.Version)
	}
	return ok("%s answers (protocol of Kafka %s); brokers of the cluster: %s", f.Address, f.Version, strings.Join(f.Advertised, ", "))
}
