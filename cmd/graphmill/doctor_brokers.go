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
)

// brokers asks those of the settings, or those of the stream that --stream names.
func (d *doctor) brokers(ctx context.Context) []finding {
	if d.stream != "" {
		stream, err := d.askStream(ctx)
		switch {
		case err != nil:
			return []finding{failed(fmt.Errorf("ask the server for the stream %s: %w", d.stream, err))}
		case stream.Source == graphmill.SourceNamePulsar:
			return append(d.withoutEffect(d.kafka, "Pulsar"), d.pulsarBrokers(ctx, &stream)...)
		}
		return append(d.withoutEffect(d.pulsar, "Kafka"), d.kafkaBrokers(ctx, &stream)...)
	}
	asksKafka := len(d.settings.kafkaServers) > 0 || d.kafka.given()
	asksPulsar := d.settings.pulsarServiceURL != "" || d.pulsar.given()
	switch {
	case asksKafka && asksPulsar:
		ofPulsar := make(chan []finding, 1)
		go func() { ofPulsar <- d.pulsarBrokers(ctx, nil) }()
		return append(d.kafkaBrokers(ctx, nil), <-ofPulsar...)
	case asksKafka:
		return d.kafkaBrokers(ctx, nil)
	case asksPulsar:
		return d.pulsarBrokers(ctx, nil)
	}
	return []finding{warn("give --kafka-bootstrap-servers HOST:PORT, or --pulsar-service-url pulsar://HOST:PORT", "no default brokers are set: each stream has to name its own")}
}

// withoutEffect warns of flags for the source that the stream does not read.
func (d *doctor) withoutEffect(client *clientFlags, source string) []finding {
	if !client.given() {
		return nil
	}
	return []finding{warn("", "--%[1]sconfig and --%[1]scredential have no effect: the stream %[2]s reads %[3]s", client.prefix, d.stream, source)}
}

// entries returns the configs and credentials that brokers are asked with: those of
// the flags, which go before, and those of a stream, which may be nil.
func (d *doctor) entries(client *clientFlags, stream *api.Stream) (configs, credentials map[string]string, err error) {
	givenConfigs, givenCredentials, err := client.read()
	if err != nil || stream == nil {
		return givenConfigs, givenCredentials, err
	}
	var hidden []string
	configs, hidden = underlay(givenConfigs, givenCredentials, stream.Configs, hidden)
	credentials, hidden = underlay(givenCredentials, givenConfigs, stream.Credentials, hidden)
	if len(hidden) == 0 {
		return configs, credentials, nil
	}
	next := make([]string, len(hidden))
	for i, name := range hidden {
		next[i] = "--" + client.prefix + "credential " + name + "=@FILE"
	}
	return nil, nil, &graphmill.Error{
		Kind: graphmill.KindInvalid, Code: "secrets_hidden",
		Text: fmt.Sprintf("the server does not tell the secrets of the stream %s: %s", d.stream, strings.Join(hidden, ", ")),
		Next: "give them again: " + strings.Join(next, " ") + "; what the stream itself meets: graphmill stream show " + d.stream,
	}
}

// vault are the secrets and files that a server with the settings would have.
func (d *doctor) vault() secret.References {
	return secret.References{Dir: d.settings.secretsDir, Variable: d.app.lookupEnv}
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
		told.Next = "start it, or give the stream's settings in place of --stream, as --kafka-bootstrap-servers, --kafka-config and --kafka-credential, or --pulsar-service-url, --pulsar-config and --pulsar-credential"
		return s, &told
	}
	return s, err
}
