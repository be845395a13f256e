package server

import (
	"cmp"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/wasmhost"
)

// side is what a stream may be waiting for.
type side int

const (
	sourceSide  side = iota // messages of the broker
	commitsSide             // the broker, to take an acknowledgement
	sinkSide                // the database
	moduleSide              // the module, to be compiled
	sides
)

// observed is what a run tells of itself. It outlives the run, so it holds on
// to no message and no connection. Safe for concurrent use; what it hands out
// is the receiver's or is never changed.
type observed struct {
	tell    func() // the state, where it is another one; called without mu
	news    *news
	metrics *streamMetrics
	memory  atomic.Int64 // bytes of the instance's linear memory; 0: there is none

	mu          sync.Mutex
	opened      bool
	waits       [sides]*graphmill.Reason
	module      *graphmill.ModuleVersion
	instances   int // made since the run began
	batch       *graphmill.BatchStatus
	lastFailure *graphmill.FailureStatus
	batchSize   int // for now; 0: as the definition says
	counters    graphmill.Counters
}

func newObserved(st *stream) *observed {
	since := now()
	return &observed{
		tell: st.tell, news: st.news, metrics: st.metrics,
		counters: graphmill.Counters{Since: &since, BatchesClosed: map[string]int64{}},
	}
}

// describe adds what is known to a status.
func (o *observed) describe(status *graphmill.StreamStatus) {
	o.mu.Lock()
	defer o.mu.Unlock()
	status.Module = o.module
	status.LastFailure = o.lastFailure
	status.BatchSize = o.batchSize
	status.Counters = o.counters
	status.Counters.BatchesClosed = maps.Clone(o.counters.BatchesClosed)
	if o.batch != nil {
		batch := *o.batch
		status.CurrentBatch = &batch
	}
}

// state returns what the run is doing while nobody has asked it to end.
func (o *observed) state() (graphmill.State, *graphmill.Reason) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, reason := range o.waits {
		if reason != nil {
			return graphmill.StateWaiting, reason
		}
	}
	if !o.opened {
		return graphmill.StateStarting, nil
	}
	return graphmill.StateRunning, nil
}

// setOpened says that the start positions are settled and the database is
// there.
func (o *observed) setOpened() {
	o.mu.Lock()
	o.opened = true
	o.mu.Unlock()
	o.tell()
}

func (o *observed) isOpened() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.opened
}

// waiting notes that one side of the stream is away.
func (o *observed) waiting(s side, f *graphmill.Fault) {
	o.setWait(s, &graphmill.Reason{
		Code: f.Code, Text: describe(f), Since: now(),
		NextStep: cmp.Or(f.Next, "it goes on by itself"),
	})
	o.tell()
}

// setWait notes what a side is waited for; nil: it is there.
func (o *observed) setWait(s side, reason *graphmill.Reason) (changed bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	old := o.waits[s]
	if old != nil && reason != nil && old.Code == reason.Code {
		reason.Since = old.Since
	}
	o.waits[s] = reason
	return old != nil || reason != nil
}

// recovered notes that it is there.
func (o *observed) recovered(s side) {
	if o.setWait(s, nil) {
		o.tell()
	}
}

// codeUnreachable is a source's reason while no broker answers.
const codeUnreachable = "broker_unreachable"

// Sources' reasons while what a stream reads is not there.
const (
	codeTopicAbsent     = "topic_absent"
	codeNamespaceAbsent = "namespace_absent"
)

// commitsAway says that the broker is known to take no acknowledgement now. A
// source may wait for other reasons, such as one of several topics.
func (o *observed) commitsAway() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	source := o.waits[sourceSide]
	return o.waits[commitsSide] != nil || source != nil && source.Code == codeUnreachable
}

func (o *observed) setModule(v graphmill.ModuleVersion) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.module = &v
	o.news.module(&v)
}

// usedModule returns what the run transforms with; nil: nothing yet.
func (o *observed) usedModule() *graphmill.ModuleVersion {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.module
}

// instantiated notes that there is a fresh instance of the transformation.
func (o *observed) instantiated(i *wasmhost.Instance) {
	o.memory.Store(i.Memory())
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.instances++; o.instances > 1 {
		o.metrics.replaced.Inc()
	}
}

// transformed notes a call of the transformation, whatever came of it.
func (o *observed) transformed(i *wasmhost.Instance, took time.Duration) {
	o.metrics.took(stageTransform, took)
	if i != nil {
		o.memory.Store(i.Memory())
	}
}

// moduleVersion returns the version in use; 0: none yet.
func (o *observed) moduleVersion() int {
	if m := o.usedModule(); m != nil {
		return m.Version
	}
	return 0
}

// failed notes that a batch has failed.
func (o *observed) failed(f *graphmill.Fault, failure graphmill.FailureStatus) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.failedLocked(f, failure)
	o.counters.Failures++
}

// failedAtLast notes what ended the run, unless that was a batch which has been
// noted already.
func (o *observed) failedAtLast(f *graphmill.Fault) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.lastFailure == nil {
		o.failedLocked(f, graphmill.FailureStatus{At: now(), Code: f.Code, Text: describe(f)})
	}
}

func (o *observed) failedLocked(f *graphmill.Fault, failure graphmill.FailureStatus) {
	o.lastFailure = &failure
	o.metrics.failed(f)
	o.news.failed(&failure)
}

func (o *observed) beginBatch(j *job) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.batch = &graphmill.BatchStatus{
		First: j.first, Last: j.batch.Positions,
		Messages: len(j.batch.Messages), Statements: len(j.output.Statements), Attempt: 1, Since: now(),
	}
}

func (o *observed) endBatch() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.batch = nil
}

// retryIn tells when the batch is tried again.
func (o *observed) retryIn(d time.Duration) {
	at := now().Add(d)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.batch != nil {
		o.batch.NextRetryAt = &at
	}
}

// retried notes that the batch is executed again.
func (o *observed) retried(kind retryKind) {
	o.metrics.retries[kind].Inc()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.counters.Retries++
	if o.batch != nil {
		o.batch.Attempt++
		o.batch.NextRetryAt = nil
	}
}

// unknownCommit notes a commit of which nobody knows whether it was done.
func (o *observed) unknownCommit() {
	o.metrics.unknownCommits.Inc()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.counters.UnknownCommits++
}

// split notes that a batch was cut in two.
func (o *observed) split() {
	o.metrics.splits.Inc()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.counters.Splits++
}

// setBatchSize notes how many messages close a batch for now.
func (o *observed) setBatchSize(n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.batchSize = n
}

// counted returns the counters, but for batches by reason.
func (o *observed) counted() graphmill.Counters {
	o.mu.Lock()
	defer o.mu.Unlock()
	c := o.counters
	c.BatchesClosed = nil
	return c
}

// count adds an acknowledged batch to the counters.
func (o *observed) count(j *job) {
	dropped := int64(j.dropped())
	o.metrics.acknowledged.Add(float64(len(j.batch.Messages)))
	o.metrics.dropped.Add(float64(dropped))
	o.news.batch(j, dropped)
	o.mu.Lock()
	defer o.mu.Unlock()
	c := &o.counters
	if j.last {
		c.Batches++
		c.BatchesClosed[j.batch.Closed.String()]++
	}
	c.Messages += int64(len(j.batch.Messages))
	c.Statements += int64(j.executed.Statements)
	c.StatementsSent += int64(j.executed.Sent)
	c.Dropped += dropped
}

// countBatch counts a batch whose parts have been counted.
func (o *observed) countBatch(closed graphmill.CloseReason) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.counters.Batches++
	o.counters.BatchesClosed[closed.String()]++
}

func now() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }
