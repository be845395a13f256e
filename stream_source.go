package graphmill

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// What the rules for streams of each source have in common.

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

// ValidateTopic checks the name of a topic by the rules of a source,
// SourceNameKafka or SourceNamePulsar. The error is of KindInvalid, and names the
// field topics.
func ValidateTopic(source, topic string) error {
	valid := validateKafkaTopic
	if source == SourceNamePulsar {
		valid = validatePulsarTopic
	}
	return validateTopics([]string{topic}, valid, func(t string) string { return t })
}

// isPrintable tells whether a name is UTF-8 without control characters, such as NUL,
// which brokers take, and tools then cannot type.
func isPrintable(name string) bool {
	return utf8.ValidString(name) && !strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsGraphic(r) })
}

// printable refuses a name with unprintable characters.
func printable(field, name string) error {
	if isPrintable(name) {
		return nil
	}
	return Invalid(field, "there is an unprintable character in %s", clip(name)).
		advise("write the name without it; what is pasted may bring one along")
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
