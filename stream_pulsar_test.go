package graphmill_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
)

func pulsarSpec() graphmill.StreamSpec {
	return graphmill.StreamSpec{Name: "s", Source: "pulsar", Topics: []string{"t"}, Transform: "m.f"}
}

func TestAPulsarStream(t *testing.T) {
	spec := pulsarSpec().WithDefaults()
	require.NoError(t, spec.Validate())
	require.Equal(t, "s", spec.Subscription)
	require.Equal(t, "failover", spec.SubscriptionType)
	require.Equal(t, "latest", spec.StartFrom)
	require.Empty(t, spec.ConsumerGroup)
	require.Equal(t, pulsarSpec(), spec.WithoutDefaults())

	for name, change := range map[string]func(*graphmill.StreamSpec){
		"a full name":          func(s *graphmill.StreamSpec) { s.Topics = []string{"persistent://ten-ant/name.space/a-b"} },
		"tenant and namespace": func(s *graphmill.StreamSpec) { s.Topics = []string{"tenant/ns/topic", "topic"} },
		"a name with umlauts":  func(s *graphmill.StreamSpec) { s.Topics = []string{"größe"} },
		"a pattern":            func(s *graphmill.StreamSpec) { s.Topics, s.TopicsPattern = nil, "orders-.*" },
		"a full pattern":       func(s *graphmill.StreamSpec) { s.Topics, s.TopicsPattern = nil, "persistent://tenant/ns/(a|b)/?" },
		"exclusive":            func(s *graphmill.StreamSpec) { s.SubscriptionType = "exclusive" },
		"hosts":                func(s *graphmill.StreamSpec) { s.ServiceURL = "pulsar+ssl://a:6651,b:6651/" },
		"no port":              func(s *graphmill.StreamSpec) { s.ServiceURL = "pulsar://localhost" },
		"an IPv6 host":         func(s *graphmill.StreamSpec) { s.ServiceURL = "pulsar://[::1]:6650" },
	} {
		spec := pulsarSpec()
		change(&spec)
		spec = spec.WithDefaults()
		require.NoError(t, spec.Validate(), name)
	}
}

func TestWrongPulsarStreams(t *testing.T) {
	for name, c := range map[string]struct {
		field  string
		change func(*graphmill.StreamSpec)
	}{
		"no topic":              {"topics", func(s *graphmill.StreamSpec) { s.Topics = nil }},
		"an empty topic":        {"topics", func(s *graphmill.StreamSpec) { s.Topics = []string{""} }},
		"a topic twice":         {"topics", func(s *graphmill.StreamSpec) { s.Topics = []string{"t", "persistent://public/default/t"} }},
		"a partition":           {"topics", func(s *graphmill.StreamSpec) { s.Topics = []string{"t-partition-0"} }},
		"not persistent":        {"topics", func(s *graphmill.StreamSpec) { s.Topics = []string{"non-persistent://public/default/t"} }},
		"a long topic":          {"topics", func(s *graphmill.StreamSpec) { s.Topics = []string{strings.Repeat("t", 1025)} }},
		"half a name":           {"topics", func(s *graphmill.StreamSpec) { s.Topics = []string{"ns/t"} }},
		"a blank in a name":     {"topics", func(s *graphmill.StreamSpec) { s.Topics = []string{"a b"} }},
		"another scheme":        {"topics", func(s *graphmill.StreamSpec) { s.Topics = []string{"http://public/default/t"} }},
		"topics and a pattern":  {"topics_pattern", func(s *graphmill.StreamSpec) { s.TopicsPattern = "a.*" }},
		"no expression":         {"topics_pattern", func(s *graphmill.StreamSpec) { s.Topics, s.TopicsPattern = nil, "a(" }},
		"a pattern of tenants":  {"topics_pattern", func(s *graphmill.StreamSpec) { s.Topics, s.TopicsPattern = nil, "persistent://.*/default/a" }},
		"a long pattern":        {"topics_pattern", func(s *graphmill.StreamSpec) { s.Topics, s.TopicsPattern = nil, strings.Repeat("a", 1025) }},
		"Kafka's brokers":       {"bootstrap_servers", func(s *graphmill.StreamSpec) { s.BootstrapServers = []string{"a:9092"} }},
		"Kafka's group":         {"consumer_group", func(s *graphmill.StreamSpec) { s.ConsumerGroup = "g" }},
		"an address alone":      {"service_url", func(s *graphmill.StreamSpec) { s.ServiceURL = "localhost:6650" }},
		"an address of the web": {"service_url", func(s *graphmill.StreamSpec) { s.ServiceURL = "http://localhost:8080" }},
		"a password in it":      {"service_url", func(s *graphmill.StreamSpec) { s.ServiceURL = "pulsar://u:pl4nted@localhost:6650" }},
		"an empty host":         {"service_url", func(s *graphmill.StreamSpec) { s.ServiceURL = "pulsar://a:6650," }},
		"Shared":                {"subscription_type", func(s *graphmill.StreamSpec) { s.SubscriptionType = "shared" }},
		"a slash":               {"subscription", func(s *graphmill.StreamSpec) { s.Subscription = "a/b" }},
		"a line":                {"subscription", func(s *graphmill.StreamSpec) { s.Subscription = "a\nb" }},
		"a long subscription":   {"subscription", func(s *graphmill.StreamSpec) { s.Subscription = strings.Repeat("s", 256) }},
	} {
		spec := pulsarSpec()
		c.change(&spec)
		spec = spec.WithDefaults()
		err := spec.Validate()
		var e *graphmill.Error
		require.ErrorAs(t, err, &e, name)
		require.Equal(t, graphmill.KindInvalid, e.Kind, name)
		require.Equal(t, c.field, e.Field, name)
		require.NotContains(t, err.Error(), "pl4nted")
	}
	kafka := graphmill.StreamSpec{Name: "s", Topics: []string{"t"}, Transform: "m.f", ServiceURL: "pulsar://a:6650"}.WithDefaults()
	require.ErrorContains(t, kafka.Validate(), "pulsar stream")
}

func TestFullNamesOfPulsarTopics(t *testing.T) {
	for name, full := range map[string]string{
		"t":                             "persistent://public/default/t",
		"a/b/t":                         "persistent://a/b/t",
		"persistent://public/default/t": "persistent://public/default/t",
	} {
		require.Equal(t, full, graphmill.PulsarTopic(name))
	}
	namespace, expression, err := graphmill.SplitTopicsPattern("orders-(eu|us)")
	require.NoError(t, err)
	require.Equal(t, "public/default", namespace)
	require.True(t, expression.MatchString("orders-eu"))
	require.False(t, expression.MatchString("orders-eu2"), "the whole name")
}
