package graphmill_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
)

func patchable() graphmill.StreamSpec {
	return graphmill.StreamSpec{
		Name: "s", Topics: []string{"a", "b"}, Transform: "m.f", BatchSize: 500, ConsumerGroup: "own", StartFrom: "earliest",
		Settings:    map[string]string{"x": "1", "y": "2"},
		Credentials: map[string]string{"sasl.password": "hidden"},
		MemoryLimit: 1 << 20,
	}.WithDefaults()
}

func TestAPatchChangesWhatItNames(t *testing.T) {
	for name, c := range map[string]struct {
		patch   string
		want    func(*graphmill.StreamSpec)
		differs []string
	}{
		"nothing":                {`{}`, func(*graphmill.StreamSpec) {}, []string{}},
		"what it is already":     {`{"batch_size":500,"topics":["a","b"],"name":"s","source":"kafka"}`, func(*graphmill.StreamSpec) {}, []string{}},
		"a number":               {`{"batch_size":10}`, func(s *graphmill.StreamSpec) { s.BatchSize = 10 }, []string{"batch_size"}},
		"a default":              {`{"batch_size":null,"consumer_group":null}`, func(s *graphmill.StreamSpec) { s.BatchSize, s.ConsumerGroup = 1000, "graphmill.s" }, []string{"batch_size", "consumer_group"}},
		"a default of a server":  {`{"memory_limit": null }`, func(s *graphmill.StreamSpec) { s.MemoryLimit = 0 }, []string{"memory_limit"}},
		"a list is replaced":     {`{"topics":["c"]}`, func(s *graphmill.StreamSpec) { s.Topics = []string{"c"} }, []string{"topics"}},
		"entries":                {`{"settings":{"x":"3","y":null,"z":""}}`, func(s *graphmill.StreamSpec) { s.Settings = map[string]string{"x": "3", "z": ""} }, []string{"settings.x", "settings.y", "settings.z"}},
		"an entry that is none":  {`{"settings":{"absent":null}}`, func(*graphmill.StreamSpec) {}, []string{}},
		"all entries":            {`{"settings":null}`, func(s *graphmill.StreamSpec) { s.Settings = nil }, []string{"settings.x", "settings.y"}},
		"a map that was not":     {`{"configs":{"client.id":"c"}}`, func(s *graphmill.StreamSpec) { s.Configs = map[string]string{"client.id": "c"} }, []string{"configs.client.id"}},
		"a secret beside others": {`{"credentials":{"sasl.username":"u"}}`, func(s *graphmill.StreamSpec) { s.Credentials["sasl.username"] = "u" }, []string{"credentials.sasl.username"}},
	} {
		t.Run(name, func(t *testing.T) {
			before, want := patchable(), patchable()
			c.want(&want)
			got, err := before.Patched([]byte(c.patch))
			require.NoError(t, err)
			require.Equal(t, want, got)
			require.Equal(t, patchable(), before, "the definition itself stays as it is")
			require.Equal(t, c.differs, before.Differences(got))
		})
	}
}

func TestAPatchThatCannotBe(t *testing.T) {
	for name, c := range map[string]struct{ patch, field, text string }{
		"no object":         {`[]`, "", "JSON object"},
		"null":              {`null`, "", "JSON object"},
		"no JSON":           {`{`, "", "JSON object"},
		"nothing at all":    {``, "", "JSON object"},
		"unknown":           {`{"batchsize":1}`, "batchsize", "did you mean batch_size?"},
		"another case":      {`{"Topics":["a"]}`, "Topics", "did you mean topics?"},
		"a new name":        {`{"name":"t"}`, "name", "keeps its name"},
		"no name":           {`{"name":null}`, "name", "keeps its name"},
		"a new source":      {`{"source":"pulsar"}`, "source", "keeps its source"},
		"zero":              {`{"batch_size":0}`, "batch_size", "null gives it its default"},
		"too much":          {`{"batch_size":99999999}`, "batch_size", "outside of"},
		"a fraction":        {`{"batch_size":1.5}`, "batch_size", "a JSON number does not fit"},
		"a text":            {`{"batch_size":"7"}`, "batch_size", "a JSON string does not fit"},
		"no topics":         {`{"topics":null}`, "topics", "at least one"},
		"a null topic":      {`{"topics":["a",null]}`, "topics", "topic 2 is empty"},
		"no transformation": {`{"transform":null}`, "transform", "needed"},
		"a text for a map":  {`{"settings":"hidden"}`, "settings", "a JSON string does not fit"},
		"a number in a map": {`{"settings":{"x":1}}`, "settings", "a JSON number does not fit"},
		"what is shown":     {`{"credentials":{"sasl.password":"********"}}`, "credentials", "stands for a secret"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := patchable().Patched([]byte(c.patch))
			var e *graphmill.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, graphmill.KindInvalid, e.Kind)
			require.Equal(t, c.field, e.Field)
			require.Contains(t, e.Text, c.text)
			require.NotContains(t, e.Error(), "hidden")
		})
	}
}
