package sourcetest

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/sources/patience"
)

// Reason codes that users see of every source.
const (
	codeTopicAbsent = "topic_absent"
	codeUnreachable = "broker_unreachable"
)

// awaitWait waits until a source says that it waits for something of that code,
// and returns what it says.
func (x *trial) awaitWait(o *Observer, code string) *graphmill.Fault {
	x.t.Helper()
	x.eventually(code+" is told", func() bool { return o.Code() == code })
	f := o.LastWait()
	require.Equal(x.t, graphmill.FaultTransient, f.Class)
	require.True(x.t, f.Outage)
	require.NotEmpty(x.t, f.Text)
	require.NotEmpty(x.t, f.Next)
	return f
}

// awaitRecovery waits until a source says that it waits no more.
func (x *trial) awaitRecovery(o *Observer) {
	x.t.Helper()
	x.eventually("the end is told", func() bool { return o.Code() == "" })
	_, recovered := o.Told()
	require.Equal(x.t, 1, recovered)
	waits := o.Waits()
	for i := range waits[1:] {
		require.False(x.t, waits[i].Code == waits[i+1].Code && waits[i].Text == waits[i+1].Text, "told twice: %v", waits[i])
	}
}

func waitsForATopic(x *trial) {
	topic := x.b.Name()
	src, o := x.source(x.stream(topic))
	opened := x.begin(src)
	require.Contains(x.t, x.awaitWait(o, codeTopicAbsent).Text, topic)
	x.b.Create(topic, 2)
	x.produce(topic, 1, "first")
	require.NoError(x.t, x.done(opened))
	got, _ := Collect(x.t, src, 1)
	require.Equal(x.t, []string{"first"}, Payloads(got), "it came after the start, so latest does not leave it out")
	x.awaitRecovery(o)
}

func readsBesideAnAbsentTopic(x *trial) {
	here, late := x.topic(1), x.b.Name()
	src, o := x.open(x.stream(here, late))
	x.produce(here, 0, "a")
	got, at := Collect(x.t, src, 1)
	require.Equal(x.t, []string{"a"}, Payloads(got))
	x.acknowledge(src, Positions(at)...)
	f := x.awaitWait(o, codeTopicAbsent)
	require.Contains(x.t, f.Text, late)
	require.NotContains(x.t, f.Text, here)

	x.b.Create(late, 1)
	x.produce(late, 0, "b")
	got, _ = Collect(x.t, src, 1)
	require.Equal(x.t, []string{"b"}, Payloads(got))
	require.Equal(x.t, late, got[0].Topic)
	x.awaitRecovery(o)
}

// The time between Open and the creation is when the stream has begun and there
// is nothing at the broker that says so.
func readsATopicCreatedMeanwhile(x *trial) {
	here, late := x.topic(1), x.b.Name()
	s := x.stream(here, late)
	src, o := x.open(s)
	absent := o.Absents()
	require.NotEmpty(x.t, absent, "told before Open returns")
	for _, p := range absent {
		require.Equal(x.t, late, p.Topic)
	}
	s.Known = append(o.Owned(), absent...)
	x.close(src)
	x.b.Create(late, 2)
	x.produce(late, 0, "first")
	x.produce(late, 1, "second")

	src, _ = x.open(s)
	require.Equal(x.t, map[graphmill.TopicPartition][]string{
		part(late, 0): {"first"},
		part(late, 1): {"second"},
	}, x.rest(src, append(all(late, 2), part(here, 0))...))
}

func waitsAtOpen(x *trial) {
	topic := x.topic(1)
	s := x.stream(topic)
	x.b.Stop()
	src, o := x.source(s)
	opened := x.begin(src)
	x.awaitWait(o, codeUnreachable)
	// A longer outage, for what a source says again and again (see awaitRecovery).
	require.NoError(x.t, patience.Pause(x.t.Context(), 3*time.Second))
	x.b.Start()
	require.NoError(x.t, x.done(opened))
	x.awaitRecovery(o)
	x.produce(topic, 0, "after")
	require.Equal(x.t, []string{"after"}, x.rest(src, part(topic, 0))[part(topic, 0)])
}

func waitsWhileReading(x *trial) {
	topic := x.topic(1)
	s := x.stream(topic)
	src, o := x.open(s)
	x.produce(topic, 0, "a")
	_, at := x.fetchOne(src, topic, 0)
	x.acknowledge(src, at)
	stored := x.b.Acknowledged(s)
	type answer struct {
		fetches []graphmill.Fetch
		err     error
	}
	fetched := make(chan answer, 1)
	go func() {
		fetches, err := src.Fetch(x.t.Context(), 1)
		fetched <- answer{fetches, err}
	}()
	x.b.Stop()
	x.awaitWait(o, codeUnreachable)
	x.b.Start()
	x.awaitRecovery(o)
	require.Equal(x.t, stored, x.b.Acknowledged(s))
	x.produce(topic, 0, "b")
	select {
	case a := <-fetched:
		require.NoError(x.t, a.err)
		require.Equal(x.t, []string{"b"}, Payloads(a.fetches[0].Messages), "what was acknowledged does not come again")
	case <-time.After(Patience):
		x.t.Fatal("nothing is read after the outage")
	}
}

// What was done and could not be acknowledged in time comes again or not, as the
// source can tell the broker of it afterwards or not; nothing else does.
func acknowledgesAfterAnOutage(x *trial) {
	topic := x.topic(1)
	tp := part(topic, 0)
	s := x.stream(topic)
	src, o := x.open(s)
	x.produce(topic, 0, "a", "b")
	_, at := Collect(x.t, src, 2)
	x.b.Stop()
	x.awaitWait(o, codeUnreachable)
	x.b.Start()
	x.awaitRecovery(o)
	x.eventually("the partition is back", func() bool { return len(o.Owned()) == 1 })
	x.acknowledge(src, Positions(at)...)
	x.produce(topic, 0, "c")
	got := x.rest(src, tp)[tp]
	require.Contains(x.t, [][]string{{"c"}, {"a", "b", "c"}}, got)
	x.close(src)
	src, _ = x.open(s)
	require.Equal(x.t, []string{"c"}, x.rest(src, tp)[tp], "the acknowledgement has been stored")
}

func closesWithoutABroker(x *trial) {
	src, _ := x.open(x.stream(x.topic(1)))
	x.b.Stop()
	closed := make(chan error, 1)
	go func() { closed <- src.Close(x.t.Context()) }()
	if err := x.done(closed); err != nil {
		x.t.Log("close:", err) // the broker could not be told
	}
	x.b.Start() // for those who come after
}
