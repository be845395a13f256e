package server

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/graphmill/graphmill"
)

// observedStates are the states of the metric graphmill_stream_state.
var observedStates = []graphmill.State{
	graphmill.StateStopped, graphmill.StateStarting, graphmill.StateRunning,
	graphmill.StateDraining, graphmill.StateWaiting, graphmill.StateFailed, graphmill.StateBroken,
}

// connectionCounter is a sink that can tell how many connections it uses.
type connectionCounter interface {
	Connections() (inUse, most int)
}

// liveMetrics are what a scrape looks at: the states of streams, how far they
// are, and the database. It asks nobody outside of this process, so a scrape
// takes no longer while a broker is away. It implements prometheus.Collector.
type liveMetrics struct {
	srv *Server

	state, desired, module         *prometheus.Desc
	lag, end, acknowledged         *prometheus.Desc
	memory, readers                *prometheus.Desc
	databaseUp                     *prometheus.Desc
	connections, connectionsAtMost *prometheus.Desc
}

func newLiveMetrics(srv *Server) *liveMetrics {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("graphmill_"+name, help, labels, nil)
	}
	partition := []string{"stream", "topic", "partition"}
	return &liveMetrics{
		srv:               srv,
		state:             desc("stream_state", "1 for the state that the stream is in, 0 for the others.", "stream", "state"),
		desired:           desc("stream_desired_running", "1 where the stream is meant to run, 0 where it is meant to be stopped.", "stream"),
		module:            desc("stream_module_info", "Always 1; the labels tell the version of the module that the stream transforms with.", "stream", "module", "version"),
		lag:               desc("partition_lag_messages", "Offsets, of Pulsar entries, between what is acknowledged and the end of a partition that is held here; as of the last look, absent while the broker does not answer.", partition...),
		end:               desc("partition_end_offset", "Kafka: the broker's end offset of a partition that is held here; as of the last look, absent while the broker does not answer.", partition...),
		acknowledged:      desc("partition_acknowledged_offset", "Kafka: the next offset after what is acknowledged, of a partition that is held here.", partition...),
		memory:            desc("transform_memory_bytes", "Linear memory of the stream's instance of the transformation after its last call.", "stream"),
		readers:           desc("event_readers", "Readers that follow the events of this server."),
		databaseUp:        desc("database_up", "1 where the database could be used when it was last looked at, else 0. An empty label means the default database.", "database"),
		connections:       desc("database_connections_in_use", "Connections to the database that a batch or a question is using."),
		connectionsAtMost: desc("database_connections_limit", "Connections to the database that may be used at once."),
	}
}

// Describe implements prometheus.Collector.
func (l *liveMetrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		l.state, l.desired, l.module, l.lag, l.end, l.acknowledged, l.memory, l.readers,
		l.databaseUp, l.connections, l.connectionsAtMost,
	} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (l *liveMetrics) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	l.srv.each(func(st *stream) {
		info := st.info()
		l.collectState(&info, gauge)
		l.collectRun(info.Spec.Name, st.current(), gauge)
	})
	for _, info := range l.srv.brokenStreams() {
		l.collectState(&info, gauge)
	}
	for database, up := range l.srv.gates.states() {
		gauge(l.databaseUp, one(up), database)
	}
	if c, ok := l.srv.cfg.Sink.(connectionCounter); ok {
		inUse, most := c.Connections()
		gauge(l.connections, float64(inUse))
		gauge(l.connectionsAtMost, float64(most))
	}
	gauge(l.readers, float64(l.srv.events.Readers()))
}

func (l *liveMetrics) collectState(info *StreamInfo, gauge func(d *prometheus.Desc, value float64, labels ...string)) {
	name := info.Spec.Name
	for _, s := range observedStates {
		gauge(l.state, one(s == info.State), name, string(s))
	}
	gauge(l.desired, one(info.Desired == graphmill.StateRunning), name)
}

// collectRun tells of the run under way; nil: there is none.
func (l *liveMetrics) collectRun(name string, r *run, gauge func(d *prometheus.Desc, value float64, labels ...string)) {
	if r == nil {
		return
	}
	if m := r.observed.usedModule(); m != nil {
		gauge(l.module, 1, name, m.Name, strconv.Itoa(m.Version))
	}
	if memory := r.observed.memory.Load(); memory > 0 {
		gauge(l.memory, float64(memory), name)
	}
	ends := r.ends.fresh()
	for _, p := range r.held.current() {
		labels := []string{name, p.Topic, strconv.Itoa(int(p.Partition))}
		if p.Offset >= 0 {
			gauge(l.acknowledged, float64(p.Offset), labels...)
		}
		if seen, ok := ends[p.TopicPartition]; ok {
			if seen.End >= 0 {
				gauge(l.end, float64(seen.End), labels...)
			}
			if seen.Lag >= 0 {
				gauge(l.lag, float64(seen.Lag), labels...)
			}
		}
	}
}

func one(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
