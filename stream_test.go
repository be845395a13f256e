package graphmill_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
)

func validSpec() graphmill.StreamSpec {
	return graphmill.StreamSpec{Name: "ratings", Topics: []string{"ratings"}, Transform: "movies.transform"}
}

func TestDefaultsMakeAValidDefinition(t *testing.T) {
	spec := validSpec().WithDefaults()
	require.NoError(t, spec.Validate())
	require.Equal(t, "graphmill.ratings", spec.ConsumerGroup)
	require.Equal(t, 1000, spec.BatchSize)
	require.Equal(t, 100*time.Millisecond, spec.BatchInterval())
	require.Equal(t, "latest", spec.StartFrom)
}

func TestDefaultsDoNotShareMemory(t *testing.T) {
	spec := validSpec()
	copied := spec.WithDefaults()
	copied.Topics[0] = "other"
	require.Equal(t, "ratings", spec.Topics[0])
}

func TestAWrongDefinitionNamesTheField(t *testing.T) {
	for field, change := range map[string]func(*graphmill.StreamSpec){
		"name":              func(s *graphmill.StreamSpec) { s.Name = "" },
		"name ":             func(s *graphmill.StreamSpec) { s.Name = "a/b" },
		"name  ":            func(s *graphmill.StreamSpec) { s.Name = ".hidden" },
		"name   ":           func(s *graphmill.StreamSpec) { s.Name = strings.Repeat("n", 201) },
		"name    ":          func(s *graphmill.StreamSpec) { s.Name = "größe" },
		"source":            func(s *graphmill.StreamSpec) { s.Source = "rabbit" },
		"topics":            func(s *graphmill.StreamSpec) { s.Topics = nil },
		"topics ":           func(s *graphmill.StreamSpec) { s.Topics = []string{"a", ""} },
		"topics  ":          func(s *graphmill.StreamSpec) { s.Topics = []string{"a", "a"} },
		"topics   ":         func(s *graphmill.StreamSpec) { s.Topics = []string{".."} },
		"topics    ":        func(s *graphmill.StreamSpec) { s.Topics = []string{"a b"} },
		"topics     ":       func(s *graphmill.StreamSpec) { s.Topics = []string{strings.Repeat("t", 250)} },
		"transform":         func(s *graphmill.StreamSpec) { s.Transform = "" },
		"transform ":        func(s *graphmill.StreamSpec) { s.Transform = "movies." },
		"transform  ":       func(s *graphmill.StreamSpec) { s.Transform = ".f" },
		"batch_size":        func(s *graphmill.StreamSpec) { s.BatchSize = -1 },
		"batch_size ":       func(s *graphmill.StreamSpec) { s.BatchSize = graphmill.MaxBatchSize + 1 },
		"batch_bytes":       func(s *graphmill.StreamSpec) { s.BatchBytes = -5 },
		"batch_interval_ms": func(s *graphmill.StreamSpec) { s.BatchIntervalMS = -1 },
		"memory_limit":      func(s *graphmill.StreamSpec) { s.MemoryLimit = -1 },
		"time_limit_ms":     func(s *graphmill.StreamSpec) { s.TimeLimitMS = -1 },
		"response_limit":    func(s *graphmill.StreamSpec) { s.ResponseLimit = -1 },
		"bootstrap_servers": func(s *graphmill.StreamSpec) { s.BootstrapServers = []string{""} },
		"consumer_group":    func(s *graphmill.StreamSpec) { s.ConsumerGroup = strings.Repeat("g", 256) },
		"start_from":        func(s *graphmill.StreamSpec) { s.StartFrom = "yesterday" },
		"delivery":          func(s *graphmill.StreamSpec) { s.Delivery = "maybe_once" },
		"on_failure":        func(s *graphmill.StreamSpec) { s.OnFailure = "cry" },
		"coalesce":          func(s *graphmill.StreamSpec) { s.Coalesce = "often" },
		"settings":          func(s *graphmill.StreamSpec) { s.Settings = map[string]string{"q": strings.Repeat("x", 1<<20+1)} },
	} {
		t.Run(field, func(t *testing.T) {
			spec := validSpec()
			change(&spec)
			spec = spec.WithDefaults()
			err := spec.Validate()
			require.Equal(t, graphmill.KindInvalid, graphmill.KindOf(err))
			var e *graphmill.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, strings.TrimSpace(field), e.Field)
			require.Less(t, len(e.Error()), 400, "what came from outside is cut short")
		})
	}
}

func TestTransformationsAreCutAtTheLastDot(t *testing.T) {
	for text, want := range map[string]graphmill.TransformationRef{
		"movies":           {Module: "movies", Function: "transform"},
		"movies.rows":      {Module: "movies", Function: "rows"},
		"com.example.rows": {Module: "com.example", Function: "rows"},
	} {
		ref, err := graphmill.ParseTransformationRef(text)
		require.NoError(t, err)
		require.Equal(t, want, ref)
	}
}

func TestStartIsAWordOrATime(t *testing.T) {
	at := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]graphmill.Start{
		"earliest":             {Earliest: true},
		"latest":               {},
		"2026-01-31T12:00:00Z": {Time: at},
		"1970-01-01T00:00:00Z": {Time: time.Unix(0, 0).UTC()},

		// Before all messages.
		"1969-12-31T23:59:59.999Z":  {Earliest: true},
		"1970-01-01T00:59:59+01:00": {Earliest: true},
		"0001-01-01T00:00:00Z":      {Earliest: true},
	} {
		start, err := graphmill.ParseStart("start_from", text)
		require.NoError(t, err)
		require.Equal(t, want, start)
	}
}

func TestTheKindOfAnErrorIsFoundInItsChain(t *testing.T) {
	inner := graphmill.Conflict("stream_exists", "there is a stream %q already", "s")
	require.Equal(t, graphmill.KindConflict, graphmill.KindOf(fmt.Errorf("create: %w", inner)))
	require.Equal(t, graphmill.KindInternal, graphmill.KindOf(errors.New("disk")))
	require.Equal(t, graphmill.Kind(""), graphmill.KindOf(nil))
}

func TestParametersByPositionBecomeAMap(t *testing.T) {
	q := &graphmill.Query{Text: "RETURN $a, $b", Names: []string{"a", "b"}}
	s := graphmill.Statement{Query: q, Values: []any{int64(1), nil}}
	require.Equal(t, map[string]any{"a": int64(1), "b": nil}, s.Parameters())
	require.NotNil(t, (&graphmill.Statement{Query: &graphmill.Query{Text: "RETURN 1"}}).Parameters())
}

func TestPositionsAreSortedByTopicAndPartition(t *testing.T) {
	at := func(topic string, partition int32) graphmill.Position {
		return graphmill.Position{TopicPartition: graphmill.TopicPartition{Topic: topic, Partition: partition}}
	}
	ps := []graphmill.Position{at("b", 0), at("a", 10), at("a", 2)}
	graphmill.SortPositions(ps)
	require.Equal(t, []graphmill.Position{at("a", 2), at("a", 10), at("b", 0)}, ps)
}

func TestADefinitionWithoutItsDefaultsIsTheSame(t *testing.T) {
	full := graphmill.StreamSpec{Name: "s", Topics: []string{"t"}, Transform: "m"}.WithDefaults()
	require.Equal(t, graphmill.StreamSpec{Name: "s", Topics: []string{"t"}, Transform: "m"}, full.WithoutDefaults())
	other := graphmill.StreamSpec{Name: "s", Topics: []string{"t"}, Transform: "m", BatchSize: 7, BatchBytes: 8, BatchIntervalMS: 9, ConsumerGroup: "graphmill.other",
		StartFrom: "earliest", Coalesce: "off", Settings: map[string]string{"a": "b"}, MemoryLimit: 1 << 20}
	require.Equal(t, other.WithDefaults(), other.WithDefaults().WithoutDefaults().WithDefaults())
	require.Equal(t, other, other.WithDefaults().WithoutDefaults())
}
