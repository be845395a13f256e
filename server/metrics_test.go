package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/integration/boltserver"
	"github.com/graphmill/graphmill/server"
)

// scrape returns all metrics by name.
func scrape(t *testing.T, s *server.Server) map[string]*dto.MetricFamily {
	t.Helper()
	families, err := s.Metrics().Gather()
	require.NoError(t, err)
	byName := map[string]*dto.MetricFamily{}
	for _, f := range families {
		byName[f.GetName()] = f
	}
	return byName
}

// value returns the series with these labels, given as name=value; ok says
// whether there is one. Of a histogram it is the count.
func value(families map[string]*dto.MetricFamily, name string, labels ...string) (v float64, ok bool) {
	for _, m := range families[name].GetMetric() {
		var have []string
		for _, l := range m.GetLabel() {
			have = append(have, l.GetName()+"="+l.GetValue())
		}
		slices.Sort(have)
		slices.Sort(labels)
		if !slices.Equal(have, labels) {
			continue
		}
		return m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount()), true
	}
	return 0, false
}

// lively is a world whose stream s has done, retried and failed whatever there
// is a metric of; it has failed at last, and r runs.
func lively(t *testing.T) (*world, *server.Server) {
	w := newWorld(t, 2, boltserver.Options{})
	conflicts := 1
	w.bolt.SetHooks(onStore(func() boltserver.Reply {
		if conflicts--; conflicts >= 0 {
			return boltserver.Fail("Neo.TransientError.Transaction.DeadlockDetected", "a deadlock")
		}
		return boltserver.Reply{}
	}))
	s := w.open(func(c *server.Config) { c.LagInterval = 20 * time.Millisecond; c.Version = "v1.2.3" })
	w.push(s)
	w.create(s, nil)
	_, err := w.admin.CreateTopic(t.Context(), 1, 1, nil, "other")
	require.NoError(t, err)
	w.create(s, func(spec *graphmill.StreamSpec) { spec.Name, spec.Topics = "r", []string{"other"} })
	w.start(s)
	w.produce("a", "drop")
	w.awaitAcknowledged(s, 2)
	_, err = s.StartStream(t.Context(), "r", server.StartRequest{})
	require.NoError(t, err)
	w.produceRecords(&kgo.Record{Topic: "topic", Partition: 1, Value: []byte("b")})
	w.await(s, "three messages are done", func(st graphmill.StreamStatus) bool { return st.Counters.Messages == 3 })
	return w, s
}

func TestWhatAStreamDoesIsMeasured(t *testing.T) {
	w, s := lively(t)
	got := scrape(t, s)
	for _, c := range []struct {
		name   string
		value  float64
		labels []string
	}{
		{"graphmill_consumed_messages_total", 3, nil},
		{"graphmill_consumed_bytes_total", 6, nil},
		{"graphmill_acknowledged_messages_total", 3, nil},
		{"graphmill_dropped_messages_total", 1, nil},
		{"graphmill_statements_executed_total", 2, nil},
		{"graphmill_retries_total", 1, []string{"kind=conflict"}},
		{"graphmill_retries_total", 0, []string{"kind=outage"}},
		{"graphmill_batches_closed_total", 0, []string{"reason=bytes"}},
		{"graphmill_stream_state", 1, []string{"state=running"}},
		{"graphmill_stream_state", 0, []string{"state=failed"}},
		{"graphmill_stream_desired_running", 1, nil},
		{"graphmill_stream_module_info", 1, []string{"module=obedient", "version=1"}},
	} {
		v, ok := value(got, c.name, append(c.labels, "stream=s")...)
		require.True(t, ok, "%s %v", c.name, c.labels)
		require.Equal(t, c.value, v, "%s %v", c.name, c.labels)
	}
	committed, _ := value(got, "graphmill_transactions_committed_total", "stream=s")
	require.GreaterOrEqual(t, committed, 1.0)
	for _, stage := range []string{"fetch", "batch", "transform", "execute", "acknowledge"} {
		n, _ := value(got, "graphmill_stage_duration_seconds", "stream=s", "stage="+stage)
		require.Positive(t, n, stage)
	}
	memory, _ := value(got, "graphmill_transform_memory_bytes", "stream=s")
	require.GreaterOrEqual(t, memory, float64(pages*64<<10))
	up, _ := value(got, "graphmill_database_up", "database=")
	require.Equal(t, 1.0, up)
	most, _ := value(got, "graphmill_database_connections_limit")
	require.Positive(t, most)
	build := got["graphmill_build_info"].GetMetric()[0].String()
	require.Contains(t, build, "v1.2.3")

	replaced, _ := value(got, "graphmill_transform_instances_replaced_total", "stream=s")
	require.Zero(t, replaced)
	w.pushAs(s, "obedient", obedientTwo)
	w.produce("another version's")
	w.await(s, "four messages are done", func(st graphmill.StreamStatus) bool { return st.Counters.Messages == 4 })
	replaced, _ = value(scrape(t, s), "graphmill_transform_instances_replaced_total", "stream=s")
	require.Equal(t, 1.0, replaced)

	w.produce("fail")
	w.awaitState(s, graphmill.StateFailed)
	got = scrape(t, s)
	failures, _ := value(got, "graphmill_failures_total", "stream=s", "class=message", "code=transformation")
	require.Equal(t, 1.0, failures)
	failed, _ := value(got, "graphmill_stream_state", "stream=s", "state=failed")
	require.Equal(t, 1.0, failed)
	_, there := value(got, "graphmill_stream_module_info", "stream=s", "module=obedient", "version=2")
	require.False(t, there, "nothing runs")

	// A stream that is made anew begins at 0; one that is gone leaves nothing.
	require.NoError(t, s.DeleteStream(t.Context(), "s", server.DeleteRequest{}))
	for name, family := range scrape(t, s) {
		for _, m := range family.GetMetric() {
			for _, l := range m.GetLabel() {
				require.False(t, l.GetName() == "stream" && l.GetValue() == "s", name)
			}
		}
	}
	w.create(s, nil)
	v, _ := value(scrape(t, s), "graphmill_acknowledged_messages_total", "stream=s")
	require.Zero(t, v)
}

func TestMetricsAreAsPrometheusWantsThem(t *testing.T) {
	w, s := lively(t)
	w.produce("fail")
	w.awaitState(s, graphmill.StateFailed)
	// Lag is absent where a look at the broker took too long: once all is there.
	var families []*dto.MetricFamily
	require.Eventually(t, func() bool {
		var err error
		families, err = s.Metrics().Gather()
		require.NoError(t, err)
		return slices.ContainsFunc(families, func(f *dto.MetricFamily) bool { return f.GetName() == "graphmill_partition_lag_messages" })
	}, patience, 20*time.Millisecond)
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	require.NoError(t, err)
	require.Empty(t, problems)

	// The table in the documentation lists exactly what there is.
	doc, err := os.ReadFile("../docs/observability.md")
	require.NoError(t, err)
	documented := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(graphmill_[a-z_]+)` \\| (\\w+) \\| ([^|]*) \\| (.*) \\|$").FindAllStringSubmatch(string(doc), -1) {
		documented[row[1]] = fmt.Sprintf("%s|%s|%s", row[2], row[3], row[4])
	}
	have := map[string]string{}
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "graphmill_") {
			continue
		}
		var labels []string
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, l.GetName())
		}
		have[f.GetName()] = fmt.Sprintf("%s|%s|%s", strings.ToLower(f.GetType().String()), strings.Join(labels, ", "), f.GetHelp())
	}
	require.Equal(t, have, documented)
}

// awaitLag waits until the lag of partition 0 is measured as wanted.
func awaitLag(w *world, s *server.Server, stream, topic string, want float64) {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		lag, ok := value(scrape(w.t, s), "graphmill_partition_lag_messages", "stream="+stream, "topic="+topic, "partition=0")
		return ok && lag == want
	}, patience, 5*time.Millisecond)
}

func TestLagIsMeasuredWithoutScrapesThatWait(t *testing.T) {
	w, s, release := hanging(t, func(c *server.Config) { c.LagInterval = 20 * time.Millisecond })
	defer release()
	w.produce("c", "d", "e") // beside the two that hang
	awaitLag(w, s, "s", "topic", 5)

	w.kafka.Close()
	require.Eventually(t, func() bool {
		_, ok := value(scrape(t, s), "graphmill_partition_lag_messages", "stream=s", "topic=topic", "partition=0")
		return !ok
	}, patience, 5*time.Millisecond)
	acknowledged, ok := value(scrape(t, s), "graphmill_partition_acknowledged_offset", "stream=s", "topic=topic", "partition=0")
	require.True(t, ok, "what is known here is told all the same")
	require.Zero(t, acknowledged)
}

func TestADatabaseThatIsAwayIsMeasured(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	s := w.open(func(c *server.Config) { c.StartTimeout = time.Millisecond })
	w.push(s)
	w.create(s, nil)
	w.bolt.Stop()
	w.start(s)
	w.awaitState(s, graphmill.StateWaiting)
	require.Eventually(t, func() bool {
		up, ok := value(scrape(t, s), "graphmill_database_up", "database=")
		return ok && up == 0
	}, patience, 5*time.Millisecond)
	require.NoError(t, w.bolt.Listen())
	w.awaitState(s, graphmill.StateRunning)
	up, _ := value(scrape(t, s), "graphmill_database_up", "database=")
	require.Equal(t, 1.0, up)
}

// BenchmarkScrape tells what a scrape of many streams costs.
func BenchmarkScrape(b *testing.B) {
	s, err := server.Open(b.Context(), server.Config{DataDir: b.TempDir(), Sink: noSink{}, BootstrapServers: []string{"127.0.0.1:1"}})
	require.NoError(b, err)
	defer s.Close(context.Background())
	for i := range 200 {
		_, err := s.CreateStream(b.Context(), server.CreateRequest{Spec: graphmill.StreamSpec{Name: fmt.Sprintf("s%d", i), Topics: []string{"t"}, Transform: "m"}, Check: false})
		require.NoError(b, err)
	}
	for b.Loop() {
		if _, err := s.Metrics().Gather(); err != nil {
			b.Fatal(err)
		}
	}
}

// noSink is a sink of streams that never run.
type noSink struct{ graphmill.Sink }

func (noSink) Lanes(int) {}

func TestADatabaseThatNoStreamNamesIsForgotten(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	s := w.open(nil)
	w.push(s)
	for _, name := range []string{"s", "other"} {
		w.create(s, func(spec *graphmill.StreamSpec) { spec.Name, spec.Database = name, "one" })
		_, err := s.StartStream(t.Context(), name, server.StartRequest{})
		require.NoError(t, err)
	}
	known := func() (names []string) {
		for _, m := range scrape(t, s)["graphmill_database_up"].GetMetric() {
			names = append(names, m.GetLabel()[0].GetValue())
		}
		return names
	}
	require.Equal(t, []string{"one"}, known())
	patch := func(database string) {
		_, err := s.PatchStream(t.Context(), "s", server.PatchRequest{Patch: json.RawMessage(`{"database":"` + database + `"}`)})
		require.NoError(t, err)
	}
	patch("two")
	require.ElementsMatch(t, []string{"one", "two"}, known())
	require.NoError(t, s.DeleteStream(t.Context(), "other", server.DeleteRequest{}))
	require.Equal(t, []string{"two"}, known(), "its last stream was dropped")
	patch("three")
	require.Equal(t, []string{"three"}, known(), "its last stream has gone over to another")
	require.NoError(t, stop(s)())
	require.Equal(t, []string{"three"}, known(), "a stream that is stopped needs it again")
}

func TestABrokenStreamIsMeasured(t *testing.T) {
	w := newWorld(t, 1, boltserver.Options{})
	w.close(w.open(nil))
	w.damage("s", "{")
	v, _ := value(scrape(t, w.open(nil)), "graphmill_stream_state", "stream=s", "state=broken")
	require.EqualValues(t, 1, v)
}
