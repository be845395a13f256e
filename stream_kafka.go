package graphmill

import (
	"regexp"
	"strings"
)

const (
	maxTopicLength = 249 // Kafka's own limit
	maxBrokers     = 100 // addresses that a stream begins with
	maxGroupLength = 255 // bytes
)

// validateKafka checks what only a Kafka stream has.
func (s *StreamSpec) validateKafka() error {
	if err := onlyOf(SourceNamePulsar, []sourceOption{
		{"service_url", s.ServiceURL}, {"topics_pattern", s.TopicsPattern},
		{"subscription", s.Subscription}, {"subscription_type", s.SubscriptionType},
	}); err != nil {
		return err
	}
	if err := validateTopics(s.Topics, validateKafkaTopic, func(t string) string { return t }); err != nil {
		return err
	}
	if len(s.BootstrapServers) > maxBrokers {
		return Invalid("bootstrap_servers", "%d addresses, %d are the most", len(s.BootstrapServers), maxBrokers)
	}
	for _, b := range s.BootstrapServers {
		if err := ValidateBroker("bootstrap_servers", b); err != nil {
			return err
		}
	}
	if len(s.ConsumerGroup) > maxGroupLength {
		return Invalid("consumer_group", "the name has %d bytes, %d are the most", len(s.ConsumerGroup), maxGroupLength)
	}
	return printable("consumer_group", s.ConsumerGroup)
}

var topicName = regexp.MustCompile(`^[a-zA-Z0-9._-]+$`)

// validateKafkaTopic applies Kafka's own rules for topic names.
func validateKafkaTopic(i int, t string) error {
	switch {
	case len(t) > maxTopicLength:
		return Invalid("topics", "the name of topic %d has %d characters, %d are the most", i+1, len(t), maxTopicLength)
	case strings.HasPrefix(t, pulsarDomain), strings.HasPrefix(t, "non-"+pulsarDomain):
		return Invalid("topics", "%s is a name of Pulsar's, and this stream reads Kafka", clip(t)).
			advise(`to read Pulsar: --source pulsar ("source": "pulsar"), or CREATE PULSAR STREAM`)
	case !isPrintable(t):
		return printable("topics", t)
	case t == "." || t == ".." || !topicName.MatchString(t):
		return Invalid("topics", "%s cannot be a topic: letters, digits, '.', '_' and '-' may stand in a name", clip(t))
	}
	return nil
}
