package server

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/graphmill/graphmill"
)

// job is one batch on its way through a lane. The lane's goroutine owns it, but
// for the time from begin to end, when the one that executes it does. Slices
// that a status has been given are replaced and never changed.
type job struct {
	batch graphmill.Batch
	first []graphmill.Position // where the batch begins in each of its partitions

	whole *whole // what it is, or is a part of

	// Set by the transformation.
	transformed bool
	output      graphmill.Output
	module      graphmill.ModuleVersion // that made it
	refused     error                   // why there is no output; told when the job's turn comes
	tries       int                     // transformations that have ended in failures worth another try
	retryAt     time.Time               // when that is due; zero: it is not worth it
	retryPause  *pauses

	// Set once its transaction is committed: only the acknowledgement is left.
	committed bool
	executed  graphmill.Executed

	// Set while it is being executed.
	ctx    context.Context // of everything that is done for it
	cancel context.CancelCauseFunc
	idle   context.Context // within ctx: of pauses, and of waiting for somebody who is away
	hurry  context.CancelCauseFunc
	size   int  // its messages
	last   bool // the whole is done with it, as far as is known when it begins
	counts bool // and is a batch with messages

	// orphaned says that the parts behind it have been dropped since, so that the
	// lane may be waiting for messages, and has to complete the whole.
	orphaned atomic.Bool
	done     chan struct{} // closed when err is set
	err      error
}

// touches says whether the batch holds anything of the partitions.
func (j *job) touches(partitions []graphmill.TopicPartition) bool {
	return slices.ContainsFunc(j.batch.Positions, func(p graphmill.Position) bool {
		return slices.Contains(partitions, p.TopicPartition)
	})
}

// without takes out all that is of the partitions. What was transformed and is
// not committed has to be transformed again, by an instance that has not seen
// it.
func (j *job) without(partitions []graphmill.TopicPartition) {
	gone := make(map[graphmill.TopicPartition]bool, len(partitions))
	for _, tp := range partitions {
		gone[tp] = true
	}
	j.batch.Positions = positionsWithout(j.batch.Positions, gone)
	j.first = positionsWithout(j.first, gone)
	kept := make([]int, len(j.batch.Messages)) // the new index of each message
	n := 0
	for i, m := range j.batch.Messages {
		if gone[m.TopicPartition()] {
			j.batch.Bytes -= m.Size()
			kept[i] = -1
			continue
		}
		j.batch.Messages[n] = m
		kept[i] = n
		n++
	}
	clear(j.batch.Messages[n:])
	j.batch.Messages = j.batch.Messages[:n]
	if j.committed {
		j.renumber(kept)
		return
	}
	j.forget()
}

func positionsWithout(positions []graphmill.Position, gone map[graphmill.TopicPartition]bool) []graphmill.Position {
	kept := make([]graphmill.Position, 0, len(positions))
	for _, p := range positions {
		if !gone[p.TopicPartition] {
			kept = append(kept, p)
		}
	}
	return kept
}

// renumber lets the statements name the messages that are left, for the counts.
func (j *job) renumber(kept []int) {
	j.output.Statements = slices.DeleteFunc(j.output.Statements, func(s graphmill.Statement) bool {
		return s.Message != graphmill.WholeBatch && kept[s.Message] < 0
	})
	for i := range j.output.Statements {
		if s := &j.output.Statements[i]; s.Message != graphmill.WholeBatch {
			s.Message = kept[s.Message]
		}
	}
}

// refuse keeps why there are no statements.
func (j *job) refuse(err error) {
	j.transformed = true
	j.refused = err
}

// retryLater makes a refusal one that is worth another try.
func (j *job) retryLater() {
	if j.retryPause == nil {
		j.retryPause = outagePauses()
	}
	j.tries++
	j.retryAt = time.Now().Add(j.retryPause.next())
}

// forget drops what the transformation has made of the batch.
func (j *job) forget() {
	j.transformed = false
	j.output = graphmill.Output{}
	j.refused = nil
	j.retryAt = time.Time{}
}

// release lets go of messages and statements: the lane may hold the job that was
// done last for as long as no message comes.
func (j *job) release() {
	j.batch.Messages = nil
	j.output = graphmill.Output{}
}

// empty says that nothing is left to do.
func (j *job) empty() bool { return len(j.batch.Positions) == 0 }

// dropped counts the messages of which nothing came. A statement of the batch as
// a whole stands for all of them.
func (j *job) dropped() int {
	used := make([]bool, len(j.batch.Messages))
	n := len(used)
	for i := range j.output.Statements {
		switch m := j.output.Statements[i].Message; {
		case m == graphmill.WholeBatch:
			return 0
		case !used[m]:
			used[m] = true
			n--
		}
	}
	return n
}

// begin hands the job to the goroutine that executes it.
func (j *job) begin(ctx context.Context) {
	j.ctx, j.cancel = context.WithCancelCause(ctx)
	j.idle, j.hurry = context.WithCancelCause(j.ctx)
	j.size = len(j.batch.Messages)
	j.last = j.whole.parts == 1
	j.orphaned.Store(false)
	j.counts = j.last && (j.size > 0 || j.whole.applied)
	j.done = make(chan struct{})
	j.err = nil
}

// end gives it back.
func (j *job) end(err error) {
	j.hurry(nil)
	j.cancel(nil)
	j.err = err
	close(j.done)
}

// hurryUp ends what the job waits for, now or later: somebody waits for its end.
func (j *job) hurryUp() { j.hurry(errAbandoned) }
