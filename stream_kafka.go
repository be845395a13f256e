package graphmill

import (
	"regexp"
	"slices"
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
	return nil
}

var topicName = regexp.MustCompile(`^[a-zA-Z0-9._-]+$`)

// validateKafkaTopic applies Kafka's own rules for topic names.
func validateKafkaTopic(i int, t string) error {
	switch {
	case len(t) > maxTopicLength:
		return Invalid("topics", "the name of topic %d has %d characters, %d are the most", i+1, len(t), maxTopicLength)
	case t == "." || t == ".." || !topicName.MatchString(t):
		return Invalid("topics", "%s cannot be a topic: letters, digits, '.', '_' and '-' may stand in a name", clip(t))
	}
	return nil
}

// validateTopics checks a list of topics by the rules of the source. name is what
// makes two of them the same.
func validateTopics(topics []string, valid func(i int, topic string) error, name func(string) string) error {
	switch {
	case len(topics) == 0:
		return Invalid("topics", "at least one topic is needed")
	case len(topics) > maxTopics:
		return Invalid("topics", "%d topics, %d are the most", len(topics), maxTopics)
	}
	seen := make([]string, 0, len(topics))
	for i, t := range topics {
		if t == "" {
			return Invalid("topics", "topic %d is empty", i+1)
		}
		if err := valid(i, t); err != nil {
			return err
		}
		if slices.Contains(seen, name(t)) {
			return Invalid("topics", "%s is there twice", clip(t))
		}
		seen = append(seen, name(t))
	}
	return nil
}

// sourceOption is an option that streams of one source have.
type sourceOption struct{ name, value string }

// onlyOf refuses options that only streams of another source have.
func onlyOf(source string, options []sourceOption) error {
	for _, o := range options {
		if o.value != "" {
			return Invalid(o.name, "only a %s stream has this option", source)
		}
	}
	return nil
}
