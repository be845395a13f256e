package graphmill_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
)

// What newcomers get wrong is told with what to do.
func TestWhatIsWrongWithAStreamIsToldWithTheNextStep(t *testing.T) {
	type spec = graphmill.StreamSpec
	url := func(u string) func(*spec) { return func(s *spec) { s.ServiceURL = u } }
	for name, c := range map[string]struct {
		source    string
		change    func(*spec)
		says, how string
	}{
		"a Pulsar topic of a Kafka stream":        {"kafka", func(s *spec) { s.Topics = []string{"persistent://public/default/t"} }, "is a name of Pulsar's", "--source pulsar"},
		"one that is not persistent":              {"kafka", func(s *spec) { s.Topics = []string{"non-persistent://public/default/t"} }, "is a name of Pulsar's", "CREATE PULSAR STREAM"},
		"NUL in a topic of Kafka":                 {"kafka", func(s *spec) { s.Topics = []string{"t\x00"} }, `topics: there is an unprintable character in "t\x00"`, "without it"},
		"NUL in a group":                          {"kafka", func(s *spec) { s.ConsumerGroup = "g\x00" }, `consumer_group: there is an unprintable character`, "without it"},
		"a line in a group":                       {"kafka", func(s *spec) { s.ConsumerGroup = "g\n" }, `consumer_group: there is an unprintable character`, "without it"},
		"NUL in a topic of Pulsar":                {"pulsar", func(s *spec) { s.Topics = []string{"t\x00"} }, `topics: there is an unprintable character in "t\x00"`, "without it"},
		"an escape in a full name":                {"pulsar", func(s *spec) { s.Topics = []string{"persistent://public/default/\x1b[1m"} }, "topics: there is an unprintable character", "without it"},
		"a topic that is no UTF-8":                {"pulsar", func(s *spec) { s.Topics = []string{"\xff"} }, "topics: there is an unprintable character", "without it"},
		"NUL in a pattern":                        {"pulsar", func(s *spec) { s.Topics, s.TopicsPattern = nil, "t\x00.*" }, "topics_pattern: there is an unprintable character", "without it"},
		"NUL in a subscription":                   {"pulsar", func(s *spec) { s.Subscription = "s\x00" }, "subscription: there is an unprintable character", "without it"},
		"Shared":                                  {"pulsar", func(s *spec) { s.SubscriptionType = "Shared" }, "do not keep the order", "use failover"},
		"Key_Shared":                              {"pulsar", func(s *spec) { s.SubscriptionType = "key_shared" }, "do not keep the order", "use failover"},
		"an address without a scheme":             {"pulsar", url("localhost:6650"), "service_url: an address is not of the form", "begin it with pulsar://"},
		"that of the admin REST":                  {"pulsar", url("http://localhost:8080"), "admin REST", "--pulsar-admin-url"},
		"a login in the address":                  {"pulsar", url("pulsar://u:pl4nted@h:6650"), "a login has no place there", "credentials"},
		"a path behind the host":                  {"pulsar", url("pulsar://h:6650/public"), "not of the form pulsar://host:port", "pulsar://HOST:PORT,HOST:PORT"},
		"a scheme at each of several hosts":       {"pulsar", url("pulsar+ssl://a:6651,pulsar+ssl://b:6651"), "not of the form", "pulsar+ssl://HOST:PORT,HOST:PORT"},
		"topics and a pattern":                    {"pulsar", func(s *spec) { s.TopicsPattern = "t.*" }, "only one of the two", "give topics, or the pattern"},
		"a message id as the beginning of Pulsar": {"pulsar", func(s *spec) { s.StartFrom = "12:5:0" }, "start_from: \"12:5:0\" is neither", "graphmill stream offsets NAME --set ID"},
		"an offset as the beginning of Kafka":     {"kafka", func(s *spec) { s.StartFrom = "1200" }, "start_from: \"1200\" is neither", "graphmill stream offsets NAME --set OFFSET"},
	} {
		t.Run(name, func(t *testing.T) {
			s := spec{Name: "s", Source: c.source, Topics: []string{"t"}, Transform: "m.f"}
			c.change(&s)
			s = s.WithDefaults()
			var e *graphmill.Error
			require.ErrorAs(t, s.Validate(), &e)
			require.Equal(t, graphmill.KindInvalid, e.Kind)
			require.Contains(t, e.Error(), c.says)
			require.Contains(t, e.Next, c.how)
			require.NotContains(t, e.Error()+e.Next, "pl4nted")
		})
	}
}

// A stream has topics or a pattern of them, and a change from one to the other takes
// the first one out.
func TestAPatchThatLeavesTopicsAndAPatternSaysWhatToTakeOut(t *testing.T) {
	topics := graphmill.StreamSpec{Name: "s", Source: "pulsar", Topics: []string{"t"}, Transform: "m.f"}.WithDefaults()
	pattern := graphmill.StreamSpec{Name: "s", Source: "pulsar", TopicsPattern: "t.*", Transform: "m.f"}.WithDefaults()
	for name, c := range map[string]struct {
		was              graphmill.StreamSpec
		patch            string
		field, says, how string
	}{
		"a pattern beside topics": {topics, `{"topics_pattern":"t.*"}`, "topics_pattern", "the stream has topics", "--unset topics "},
		"topics beside a pattern": {pattern, `{"topics":["t"]}`, "topics", "the stream has topics_pattern", "--unset topics-pattern "},
		"both":                    {topics, `{"topics":["t"],"topics_pattern":"t.*"}`, "topics_pattern", "only one of the two", "give topics, or the pattern"},
		"an empty text":           {topics, `{"subscription":""}`, "subscription", "null gives it its default", ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.was.Patched([]byte(c.patch))
			var e *graphmill.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, c.field, e.Field)
			require.Contains(t, e.Text, c.says)
			require.Contains(t, e.Next, c.how)
		})
	}
	patched, err := topics.Patched([]byte(`{"topics":null,"topics_pattern":"t.*"}`))
	require.NoError(t, err)
	require.Equal(t, pattern, patched)
}
