package server

import (
	"context"
	"slices"
	"sync"

	"github.com/graphmill/graphmill"
)

// job is one batch on its way through a lane.
type job struct {
	batch graphmill.Batch
	first []graphmill.Position // where the batch begins in each of its partitions

	// Set by the transformation.
	transformed bool
	output      graphmill.Output
	module      graphmill.ModuleVersion
	refused     error // why there is no output; told when the job's turn comes

	// Set once its transaction is committed: only the acknowledgement is left.
	committed bool
	executed  graphmill.Executed

	// Set while it is being executed.
	cancel    context.CancelCauseFunc
	hurry     chan struct{} // closed: do not sit out a pause
	hurryOnce sync.Once
	done      chan struct{} // closed when err is set
	err       error
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
	ofThem := func(p graphmill.Position) bool { return slices.Contains(partitions, p.TopicPartition) }
	j.batch.Positions = slices.DeleteFunc(j.batch.Positions, ofThem)
	j.first = slices.DeleteFunc(j.first, ofThem)
	j.batch.Messages = slices.DeleteFunc(j.batch.Messages, func(m graphmill.Message) bool {
		if !slices.Contains(partitions, graphmill.TopicPartition{Topic: m.Topic, Partition: m.Partition}) {
			return false
		}
		j.batch.Bytes -= m.Size()
		return true
	})
	if j.committed {
		return
	}
	j.transformed = false
	j.output = graphmill.Output{}
	j.refused = nil
}

// empty says that nothing is left to do.
func (j *job) empty() bool { return len(j.batch.Positions) == 0 }

// begun prepares the job for execution and returns its context.
func (j *job) begun(ctx context.Context) context.Context {
	ctx, j.cancel = context.WithCancelCause(ctx)
	j.hurry = make(chan struct{})
	j.hurryOnce = sync.Once{}
	j.done = make(chan struct{})
	j.err = nil
	return ctx
}

// hurryUp ends a pause between attempts, now or later: somebody waits for the
// job's end.
func (j *job) hurryUp() { j.hurryOnce.Do(func() { close(j.hurry) }) }
