package server

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
)

// readingOf is what a Pulsar stream of this subscription reads.
func readingOf(topics []string, pattern string) reading {
	r := reading{source: graphmill.SourceNamePulsar, servers: []string{"a:6650"}, group: "s"}
	for _, t := range topics {
		r.topics = append(r.topics, graphmill.PulsarTopic(t))
	}
	if pattern != "" {
		r.pattern = newTopicPattern(pattern)
	}
	return r
}

func TestWhatTwoDefinitionsBothRead(t *testing.T) {
	const none = ""
	for name, c := range map[string]struct {
		a, b reading
		want string
	}{
		"a topic, in two spellings":        {readingOf([]string{"x", "t"}, ""), readingOf([]string{"persistent://public/default/t"}, ""), `topic "persistent://public/default/t"`},
		"other topics":                     {readingOf([]string{"t"}, ""), readingOf([]string{"u"}, ""), none},
		"one name in two namespaces":       {readingOf([]string{"t"}, ""), readingOf([]string{"a/b/t"}, ""), none},
		"a topic that a pattern matches":   {readingOf([]string{"clicks-eu"}, ""), readingOf(nil, "clicks-.*"), `topic "persistent://public/default/clicks-eu"`},
		"a pattern matches the whole name": {readingOf([]string{"my-clicks-eu"}, ""), readingOf(nil, "clicks-.*"), none},
		"a pattern in another namespace":   {readingOf([]string{"clicks-eu"}, ""), readingOf(nil, "persistent://a/b/clicks-.*"), none},
		"the same pattern":                 {readingOf(nil, "clicks-.*"), readingOf(nil, "clicks-.*"), `topics of the pattern "clicks-.*"`},
		"patterns of which one is wider":   {readingOf(nil, "clicks-eu-.*"), readingOf(nil, "clicks-.*"), `topics of the pattern "clicks-.*"`},
		"patterns that begin differently":  {readingOf(nil, "clicks-.*"), readingOf(nil, "views-.*"), none},
		"patterns of choices":              {readingOf(nil, "clicks|views"), readingOf(nil, "views"), `topics of the pattern "views"`},
		"patterns of two namespaces":       {readingOf(nil, ".*"), readingOf(nil, "persistent://a/b/.*"), none},
	} {
		t.Run(name, func(t *testing.T) {
			what, ok := c.a.meets(&c.b)
			require.Equal(t, c.want, what)
			require.Equal(t, c.want != none, ok)
			_, back := c.b.meets(&c.a)
			require.Equal(t, ok, back)
		})
	}
}
