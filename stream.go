package graphmill

import (
	"slices"
	"time"
)

// Values of StreamSpec fields that are one of a few words.
const (
	SourceNameKafka  = "kafka"
	SourceNamePulsar = "pulsar"

	DeliveryAtLeastOnce = "at_least_once"

	OnFailureStop = "stop"

	CoalesceOn  = "on"
	CoalesceOff = "off"

	AllowSchema  = "schema"   // statements that change indexes and constraints
	AllowLoadCSV = "load_csv" // statements that make the database read files or addresses

	StartEarliest = "earliest"
	StartLatest   = "latest"
)

// Defaults and bounds of a stream's options.
const (
	DefaultBatchSize     = 1000           // messages
	DefaultBatchBytes    = 16 << 20       // bytes of payload, key and headers
	DefaultBatchInterval = 100            // milliseconds
	MaxBatchSize         = 1_000_000      // messages
	MaxBatchBytes        = 256 << 20      // bytes
	MaxBatchInterval     = 60 * 60 * 1000 // milliseconds
	maxTimeLimit         = 10 * 60 * 1000 // milliseconds
	maxSettings          = 1000           // entries
	maxSettingBytes      = 1 << 20        // bytes of one value
	maxTopics            = 1000           // topics of one stream
	maxConfigs           = 200            // entries of CONFIGS, and of CREDENTIALS
	maxConfigBytes       = 64 << 10       // bytes of one value
)

// StreamSpec is the definition of a stream, in the snake_case of the
// statement's options. Zero values mean the default (see WithDefaults).
type StreamSpec struct {
	Name      string   `json:"name" yaml:"name"`
	Source    string   `json:"source,omitempty" yaml:"source,omitempty"` // kafka, pulsar
	Topics    []string `json:"topics,omitempty" yaml:"topics,omitempty"`
	Transform string   `json:"transform" yaml:"transform"` // module.function

	BatchSize       int   `json:"batch_size,omitempty" yaml:"batch_size,omitempty"`               // messages, 1 to MaxBatchSize
	BatchBytes      int64 `json:"batch_bytes,omitempty" yaml:"batch_bytes,omitempty"`             // bytes, 1 to MaxBatchBytes
	BatchIntervalMS int64 `json:"batch_interval_ms,omitempty" yaml:"batch_interval_ms,omitempty"` // 1 to MaxBatchInterval

	// Of Kafka only.
	BootstrapServers []string `json:"bootstrap_servers,omitempty" yaml:"bootstrap_servers,omitempty"` // host:port; default: the server's setting
	ConsumerGroup    string   `json:"consumer_group,omitempty" yaml:"consumer_group,omitempty"`       // default: graphmill.NAME

	// Of Pulsar only.
	ServiceURL       string `json:"service_url,omitempty" yaml:"service_url,omitempty"`             // pulsar://host:port; default: the server's setting
	TopicsPattern    string `json:"topics_pattern,omitempty" yaml:"topics_pattern,omitempty"`       // in place of topics; see SplitTopicsPattern
	Subscription     string `json:"subscription,omitempty" yaml:"subscription,omitempty"`           // default: NAME
	SubscriptionType string `json:"subscription_type,omitempty" yaml:"subscription_type,omitempty"` // failover, exclusive

	StartFrom string `json:"start_from,omitempty" yaml:"start_from,omitempty"` // earliest, latest, RFC 3339; only where no position is known

	// Configs and Credentials are settings of the broker's client by the names of
	// librdkafka, or of Pulsar's clients. Values of Credentials, and of names that
	// hold secrets (see SecretConfig), never leave the server: see Redacted.
	Configs     map[string]string `json:"configs,omitempty" yaml:"configs,omitempty"`
	Credentials map[string]string `json:"credentials,omitempty" yaml:"credentials,omitempty"`

	Delivery  string            `json:"delivery,omitempty" yaml:"delivery,omitempty"`     // at_least_once
	OnFailure string            `json:"on_failure,omitempty" yaml:"on_failure,omitempty"` // stop
	Database  string            `json:"database,omitempty" yaml:"database,omitempty"`     // default: the server's setting
	Coalesce  string            `json:"coalesce,omitempty" yaml:"coalesce,omitempty"`     // on, off
	Allow     []string          `json:"allow,omitempty" yaml:"allow,omitempty"`           // schema, load_csv
	Settings  map[string]string `json:"settings,omitempty" yaml:"settings,omitempty"`     // handed to graphmill_configure

	MemoryLimit   int64 `json:"memory_limit,omitempty" yaml:"memory_limit,omitempty"`     // bytes of linear memory; 0: the server's default
	TimeLimitMS   int64 `json:"time_limit_ms,omitempty" yaml:"time_limit_ms,omitempty"`   // for one batch; 0: the server's default
	ResponseLimit int64 `json:"response_limit,omitempty" yaml:"response_limit,omitempty"` // bytes of a response frame; 0: half of the memory limit
}

// WithDefaults returns a copy in which every option that has a default of its
// own holds it. Options whose default is a setting of the server stay empty.
func (s StreamSpec) WithDefaults() StreamSpec {
	s.Topics = slices.Clone(s.Topics)
	s.BootstrapServers = slices.Clone(s.BootstrapServers)
	s.Allow = slices.Clone(s.Allow)
	for _, d := range s.defaults() {
		d.set()
	}
	return s
}

// WithoutDefaults returns a copy that says only what differs from the defaults:
// WithDefaults of it is WithDefaults of the definition.
func (s StreamSpec) WithoutDefaults() StreamSpec {
	for _, d := range s.defaults() {
		d.unset()
	}
	return s
}

// defaults are those of the options that have one of their own.
func (s *StreamSpec) defaults() []optionDefault {
	var ofSource []optionDefault
	switch s.Source {
	case "", SourceNameKafka:
		ofSource = []optionDefault{defaultOf(&s.ConsumerGroup, "graphmill."+s.Name)}
	case SourceNamePulsar:
		ofSource = []optionDefault{defaultOf(&s.Subscription, s.Name), defaultOf(&s.SubscriptionType, SubscriptionFailover)}
	}
	return append(ofSource,
		defaultOf(&s.Source, SourceNameKafka),
		defaultOf(&s.BatchSize, DefaultBatchSize),
		defaultOf(&s.BatchBytes, DefaultBatchBytes),
		defaultOf(&s.BatchIntervalMS, DefaultBatchInterval),
		defaultOf(&s.StartFrom, StartLatest),
		defaultOf(&s.Delivery, DeliveryAtLeastOnce),
		defaultOf(&s.OnFailure, OnFailureStop),
		defaultOf(&s.Coalesce, CoalesceOn),
	)
}

// optionDefault puts the default of an option where nothing is, and the other way
// round.
type optionDefault struct{ set, unset func() }

func defaultOf[T comparable](option *T, value T) optionDefault {
	replace := func(old, by T) {
		if *option == old {
			*option = by
		}
	}
	var nothing T
	return optionDefault{
		set:   func() { replace(nothing, value) },
		unset: func() { replace(value, nothing) },
	}
}

// BatchInterval returns BATCH_INTERVAL as a duration.
func (s *StreamSpec) BatchInterval() time.Duration {
	return time.Duration(s.BatchIntervalMS) * time.Millisecond
}

// Validate checks a definition that has its defaults. The error is of
// KindInvalid and names the first field that is wrong.
func (s *StreamSpec) Validate() error {
	if err := ValidateName("name", s.Name); err != nil {
		return err
	}
	switch s.Source {
	case SourceNameKafka:
		if err := s.validateKafka(); err != nil {
			return err
		}
	case SourceNamePulsar:
		if err := s.validatePulsar(); err != nil {
			return err
		}
	default:
		return Invalid("source", "the source %s is not known; kafka and pulsar are", clip(s.Source))
	}
	if s.Transform == "" {
		return Invalid("transform", "a transformation is needed, as MODULE.FUNCTION")
	}
	if _, err := ParseTransformationRef(s.Transform); err != nil {
		return err
	}
	for _, r := range []struct {
		field            string
		value, low, high int64
	}{
		{"batch_size", int64(s.BatchSize), 1, MaxBatchSize},
		{"batch_bytes", s.BatchBytes, 1, MaxBatchBytes},
		{"batch_interval_ms", s.BatchIntervalMS, 1, MaxBatchInterval},
		{"memory_limit", s.MemoryLimit, 0, 4 << 30},
		{"time_limit_ms", s.TimeLimitMS, 0, maxTimeLimit},
		{"response_limit", s.ResponseLimit, 0, 4 << 30},
	} {
		if r.value < r.low || r.value > r.high {
			return Invalid(r.field, "%d is outside of %d to %d", r.value, r.low, r.high)
		}
	}
	if _, err := ParseStart("start_from", s.StartFrom); err != nil {
		return err
	}
	for _, w := range []struct {
		field, value string
		known        []string
	}{
		{"delivery", s.Delivery, []string{DeliveryAtLeastOnce}},
		{"on_failure", s.OnFailure, []string{OnFailureStop}},
		{"coalesce", s.Coalesce, []string{CoalesceOn, CoalesceOff}},
	} {
		if !slices.Contains(w.known, w.value) {
			return Invalid(w.field, "%s is not one of %q", clip(w.value), w.known)
		}
	}
	for i, a := range s.Allow {
		switch {
		case a != AllowSchema && a != AllowLoadCSV:
			return Invalid("allow", "%s is not one of %q", clip(a), []string{AllowSchema, AllowLoadCSV})
		case slices.Contains(s.Allow[:i], a):
			return Invalid("allow", "%s is there twice", a)
		}
	}
	for _, c := range []struct {
		field   string
		entries map[string]string
	}{{"configs", s.Configs}, {"credentials", s.Credentials}} {
		if err := validateConfigs(c.field, c.entries); err != nil {
			return err
		}
	}
	if len(s.Settings) > maxSettings {
		return Invalid("settings", "%d entries, %d are the most", len(s.Settings), maxSettings)
	}
	for k, v := range s.Settings {
		if len(v) > maxSettingBytes {
			return Invalid("settings", "the value of %s has %d bytes, %d are the most", clip(k), len(v), maxSettingBytes)
		}
	}
	return nil
}

// validateConfigs bounds a map of settings of a broker's client. Which names
// there are is the source's business. No value stands in an error.
func validateConfigs(field string, entries map[string]string) error {
	if len(entries) > maxConfigs {
		return Invalid(field, "%d entries, %d are the most", len(entries), maxConfigs)
	}
	for name, value := range entries {
		switch {
		case name == "":
			return Invalid(field, "an entry has no name")
		case len(value) > maxConfigBytes:
			return Invalid(field, "the value of %s has %d bytes, %d are the most", clip(name), len(value), maxConfigBytes)
		case value == RedactedValue:
			return Invalid(field, "the value of %s is %s, which stands for a secret that is not shown; give the value, or secret:NAME", clip(name), RedactedValue)
		}
	}
	return nil
}

// startNext is what to do about what is a place, and no start: offsets and message ids
// are places in one partition, and a start is one in all of them.
func startNext(s string) string {
	_, _, err := parseMessageID("", s)
	switch {
	case err == nil:
		return "give the time at which the message was published; a stream that is stopped is set to a message id: graphmill stream offsets NAME --set ID --partition TOPIC/NUMBER"
	case isInteger(s):
		return "give the time of the message; a stream that is stopped is set to an offset: graphmill stream offsets NAME --set OFFSET --partition TOPIC/NUMBER"
	}
	return ""
}

// Start is where reading begins where no position is known.
type Start struct {
	Earliest bool
	Time     time.Time // not zero: the first message at or after it; from 1970 on
}

// ParseStart reads "earliest", "latest" or a time in RFC 3339. A time before 1970
// is earliest: no message is older, brokers take negative times for something
// else, and the year 1 is Go's way to write that no time is given, which would be
// latest. The error is of KindInvalid and names field.
func ParseStart(field, s string) (Start, error) {
	switch s {
	case StartEarliest:
		return Start{Earliest: true}, nil
	case StartLatest:
		return Start{}, nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return Start{}, Invalid(field, "%s is neither earliest, latest nor a time such as 2026-01-31T12:00:00Z", clip(s)).advise(startNext(s))
	}
	if t.Before(time.Unix(0, 0)) {
		return Start{Earliest: true}, nil
	}
	return Start{Time: t}, nil
}
