package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/api"
	"github.com/graphmill/graphmill/server/secret"
	"github.com/graphmill/graphmill/sources/kafka"
)

// brokers asks each address by itself, and the addresses that they give out for
// the cluster: a client that gets in by one has to reach all of them.
func (d *doctor) brokers(ctx context.Context) []finding {
	asked, settings, findings, err := d.brokerSettings(ctx)
	if err != nil {
		return append(findings, failed(err))
	}
	// What is no address has been told among the settings. It may hold a
	// password, and is not repeated.
	asked = slices.DeleteFunc(asked, func(address string) bool {
		return graphmill.ValidateBroker("kafka_bootstrap_servers", address) != nil
	})
	if len(asked) == 0 && len(d.settings.kafkaServers) == 0 {
		return append(findings, warn("give --kafka-bootstrap-servers HOST:PORT", "no default brokers are set: each stream has to name its own"))
	}
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

// brokerSettings returns which brokers are asked, and how: as the stream says
// that is named, and as the flags say, which go before.
func (d *doctor) brokerSettings(ctx context.Context) (brokers []string, settings kafka.ClientSettings, findings []finding, err error) {
	configs, credentials, err := d.client.read()
	if err != nil {
		return nil, settings, nil, err
	}
	brokers = slices.Clone(d.settings.kafkaServers)
	if d.stream != "" {
		stream, err := d.askStream(ctx)
		if err != nil {
			return nil, settings, nil, fmt.Errorf("ask the server for the stream %s: %w", d.stream, err)
		}
		if len(stream.BootstrapServers) > 0 {
			brokers = slices.Clone(stream.BootstrapServers)
		}
		var hidden []string
		givenConfigs := configs
		configs, hidden = underlay(givenConfigs, credentials, stream.Configs, hidden)
		credentials, hidden = underlay(credentials, givenConfigs, stream.Credentials, hidden)
		if len(hidden) > 0 {
			next := make([]string, len(hidden))
			for i, name := range hidden {
				next[i] = "--kafka-credential " + name + "=@FILE"
			}
			return nil, settings, nil, &graphmill.Error{
				Kind: graphmill.KindInvalid, Code: "secrets_hidden",
				Text: fmt.Sprintf("the server does not tell the secrets of the stream %s: %s", d.stream, strings.Join(hidden, ", ")),
				Next: "give them again: " + strings.Join(next, " ") + "; what the stream itself meets: graphmill stream show " + d.stream,
			}
		}
	}
	settings, notes, err := kafka.ParseConfigs(configs, credentials, secret.References{Dir: d.settings.secretsDir, Variable: d.app.lookupEnv})
	for _, n := range notes {
		findings = append(findings, warn("", "%s", n))
	}
	return brokers, settings, findings, err
}

// underlay adds entries of a definition to those that the command line gives, in
// either map. hidden gets the names of those whose value the server keeps back.
func underlay(given, other, definition map[string]string, hidden []string) (entries map[string]string, stillHidden []string) {
	entries = maps.Clone(given)
	for _, name := range slices.Sorted(maps.Keys(definition)) {
		_, here := given[name]
		_, there := other[name]
		switch {
		case here || there:
		case definition[name] == graphmill.RedactedValue:
			hidden = append(hidden, name)
		default:
			if entries == nil {
				entries = map[string]string{}
			}
			entries[name] = definition[name]
		}
	}
	return entries, hidden
}

// askStream returns the definition of the stream that --stream names.
func (d *doctor) askStream(ctx context.Context) (api.Stream, error) {
	var s api.Stream
	err := d.serverAt(cmp.Or(d.server, d.settings.listen)).call(ctx, http.MethodGet, apiPath("streams", d.stream), nil, &s)
	var unreachable *graphmill.Error
	if errors.As(err, &unreachable) && unreachable.Code == "server_unreachable" {
		told := *unreachable
		told.Next = "start it, or give the stream's settings by --kafka-bootstrap-servers, --kafka-config and --kafka-credential"
		return s, &told
	}
	return s, err
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
