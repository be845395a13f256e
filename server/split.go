package server

import (
	"slices"

	"github.com/graphmill/graphmill"
)

// A batch that is too big, for a transaction of the database or for one call of
// the transformation, is cut in two by its messages, and these again, down to
// one message, which is to blame then. The parts are executed and acknowledged
// one by one, each with its own positions. Batches stay as small for a while.

// growAfter is how many full batches of the smaller size are applied before it is
// doubled.
const growAfter = 16

// whole is a batch as it was collected, of which the jobs may be parts. It is done
// when the last of them is. The lane's goroutine owns it.
type whole struct {
	parts   int  // jobs that are left of it
	full    int  // those of them that have messages
	applied bool // one that had messages has been applied
}

// newJob is a batch that begins at first.
func newJob(batch graphmill.Batch, first []graphmill.Position) *job {
	j := &job{batch: batch, first: first, whole: &whole{parts: 1}}
	if len(batch.Messages) > 0 {
		j.whole.full = 1
	}
	return j
}

// partApplied notes that a job was applied and acknowledged.
func (l *lane) partApplied(j *job) {
	w := j.whole
	w.parts--
	if j.size > 0 {
		w.full, w.applied = w.full-1, true
	}
	if w.parts == 0 && !j.last {
		l.wholeDone(j) // the parts behind it were dropped meanwhile
	}
}

// partDropped notes that nothing is left of a job.
func (l *lane) partDropped(j *job) {
	j.whole.parts--
	switch {
	case j.whole.parts > 0:
		if before := l.executing; before != nil && before.whole == j.whole {
			before.orphaned.Store(true)
		}
	case j.whole.applied:
		l.wholeDone(j)
	default:
		l.batcher.Completed()
	}
}

// partEmptied notes that a job has lost all its messages. A batch of which none
// was applied and none is left does not count.
func (l *lane) partEmptied(j *job) {
	j.whole.full--
	if j.whole.full == 0 && !j.whole.applied {
		l.taken--
	}
}

// wholeDone completes a batch that did not end with a job's execution.
func (l *lane) wholeDone(j *job) {
	l.r.applied.Add(1)
	l.r.observed.countBatch(j.batch.Closed)
	l.batcher.Completed()
}

// tooBig is the end of an execution whose job has to be cut.
type tooBig struct{ fault *graphmill.Fault }

func (e *tooBig) Error() string { return e.fault.Error() }

// limitCodes are the codes by which a call of a transformation says that it came
// to a limit (see wasmhost's Instance.Transform). The other messages of the batch
// may have filled the time or the memory: it blames a message only when that
// comes to the full limit alone.
var limitCodes = []string{codeOutOfMemory, codeDeadline, "over_limit"}

const (
	codeDeadline    = "deadline"
	codeOutOfMemory = "out_of_memory" // batches before may be the reason
)

// overLimit returns the fault of a job that came to a limit of the transformation
// and can be cut; else nil.
func (j *job) overLimit() *graphmill.Fault {
	f, ok := asFault(j.refused)
	if !ok || f.Class != graphmill.FaultMessage || !slices.Contains(limitCodes, f.Code) || len(j.batch.Messages) < 2 {
		return nil
	}
	return f
}

// outOfMemory says whether a transformation had no memory left.
func outOfMemory(err error) bool {
	f, ok := asFault(err)
	return ok && f.Code == codeOutOfMemory
}

// halve cuts a job whose turn it was in two. They stand before rest, the jobs
// behind it, which are cut to the same size.
func (l *lane) halve(j *job, f *graphmill.Fault, rest []*job) {
	size := (len(j.batch.Messages) + 1) / 2
	l.r.observed.news.warn("a batch was too big and is cut in two", "reason", f.Code, "text", describe(f),
		"messages", len(j.batch.Messages), "first", positionsText(j.first), "messages_from_now_on", size)
	l.r.observed.split()
	l.resize(size)
	queue := l.fitting(j)
	for _, behind := range rest {
		queue = append(queue, l.fitting(behind)...)
	}
	l.queue = queue
}

// fitting cuts a job to the size that batches have for now.
func (l *lane) fitting(j *job) []*job {
	if l.size == 0 || j.committed || len(j.batch.Messages) <= l.size {
		return []*job{j}
	}
	parts, seen := j.cut(l.size)
	if seen {
		l.discardInstance()
	}
	return parts
}

// resize limits the batches that are collected from now on; 0: as the definition
// says.
func (l *lane) resize(size int) {
	if size >= l.r.spec.BatchSize {
		size = 0
	}
	l.size, l.good = size, 0
	l.batcher.Limit(size)
	l.r.observed.setBatchSize(size)
}

// grow notes that a job of so many messages was applied.
func (l *lane) grow(messages int) {
	if l.size == 0 || messages < l.size {
		return
	}
	if l.good++; l.good == growAfter {
		l.resize(2 * l.size)
	}
}

// cut parts the job into several of at most size messages. Statements are kept where each names its message. Else the parts have
// to be transformed again, and seen says that the instance has seen them.
func (j *job) cut(size int) (parts []*job, seen bool) {
	ofNone := func(s graphmill.Statement) bool { return s.Message == graphmill.WholeBatch }
	switch {
	case j.refused != nil:
		j.forget() // the instance is gone
	case slices.ContainsFunc(j.output.Statements, ofNone):
		j.forget()
		seen = true
	}
	for len(j.batch.Messages) > size {
		parts = append(parts, j.takeOff(size))
	}
	return append(parts, j), seen
}

// takeOff cuts the first n messages off the job, with their statements.
func (j *job) takeOff(n int) *job {
	head := &job{whole: j.whole, transformed: j.transformed, module: j.module}
	j.whole.parts++
	j.whole.full++
	head.batch.Closed = j.batch.Closed
	head.batch.Messages, j.batch.Messages = slices.Clip(j.batch.Messages[:n]), j.batch.Messages[n:]
	reached := map[graphmill.TopicPartition]*graphmill.Message{} // the last that is taken off
	for i := range head.batch.Messages {
		m := &head.batch.Messages[i]
		reached[m.TopicPartition()] = m
		head.batch.Bytes += m.Size()
	}
	j.batch.Bytes -= head.batch.Bytes
	goesOn := map[graphmill.TopicPartition]bool{}
	for i := range j.batch.Messages {
		goesOn[j.batch.Messages[i].TopicPartition()] = true
	}

	first, last := j.first, j.batch.Positions
	j.first, j.batch.Positions = nil, nil
	for _, p := range last {
		m, begun := reached[p.TopicPartition]
		if begun && !goesOn[p.TopicPartition] {
			head.batch.Positions = append(head.batch.Positions, p) // past control records behind the last message
			continue
		}
		j.batch.Positions = append(j.batch.Positions, p)
		if begun {
			p.Pass(m)
			head.batch.Positions = append(head.batch.Positions, p)
		}
	}
	for _, p := range first {
		m, begun := reached[p.TopicPartition]
		if begun {
			head.first = append(head.first, p)
			p.Pass(m)
		}
		if !begun || goesOn[p.TopicPartition] {
			j.first = append(j.first, p)
		}
	}

	statements := j.output.Statements
	j.output = graphmill.Output{}
	for _, s := range statements {
		if s.Message < n {
			head.output.Statements = append(head.output.Statements, s)
			continue
		}
		s.Message -= n
		j.output.Statements = append(j.output.Statements, s)
	}
	return head
}
