package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/graphmill/graphmill"
)

// streamsAtOnce is how many streams are created, changed and started at once, as
// many as the server starts at once itself: each may wait for its broker.
const streamsAtOnce = 16

// do does what was planned: modules, then streams, then what is to be dropped. It
// ends where the server is not reached any more: what is left is not done. A stream
// that another one of its group keeps from starting is tried again: by then that
// one may be stopped or dropped.
func (p *applying) do(ctx context.Context) {
	var modules, streams, drops []*appliedItem
	for _, item := range p.items {
		switch {
		case item.Action == actionFail:
		case item.Action == actionUnchanged:
			item.Result = actionUnchanged
		case item.module != nil:
			modules = append(modules, item)
		case item.stream != nil:
			streams = append(streams, item)
		default:
			drops = append(drops, item)
		}
	}
	p.doEach(ctx, modules, 1)
	kept := p.doEach(ctx, streams, streamsAtOnce)
	var behind []*appliedItem // those whose turn is when what is to be dropped is
	kept = slices.DeleteFunc(kept, func(item *appliedItem) bool {
		waits := slices.ContainsFunc(drops, func(d *appliedItem) bool { return d.group == item.stream.group() })
		if waits {
			behind = append(behind, item)
		}
		return waits
	})
	p.tryAgain(ctx, kept)
	switch {
	case len(drops) == 0:
	case slices.ContainsFunc(p.items, func(item *appliedItem) bool { return item.Result == resultFailed }):
		fmt.Fprintln(plainText{p.app.err}, "nothing is pruned: not all else has succeeded")
		for _, item := range drops {
			item.Result = resultNotDone
		}
	default:
		p.doEach(ctx, drops, streamsAtOnce)
	}
	p.tryAgain(ctx, behind)
}

// attempt is the doing of a thing.
type attempt struct {
	done    chan struct{} // closed when the rest is set
	skipped bool          // the apply had ended
	err     error
}

// doEach does things, so many of them at once, and tells what has become of them in
// their order. It returns those that another stream of their group has kept from
// starting, of which nothing is told.
func (p *applying) doEach(ctx context.Context, items []*appliedItem, atOnce int) (kept []*appliedItem) {
	tried := make([]attempt, len(items))
	for i := range tried {
		tried[i].done = make(chan struct{})
	}
	before := inTurn(items)
	var next atomic.Int64
	var workers sync.WaitGroup
	defer workers.Wait()
	for range min(atOnce, len(items)) {
		workers.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(items)); i = next.Add(1) - 1 {
				for _, earlier := range before[i] { // a worker has it, or had
					<-tried[earlier].done
				}
				a := &tried[i]
				if a.skipped = p.ended.Load(); !a.skipped {
					a.err = p.doItem(ctx, items[i])
				}
				if a.err != nil && !ofOne(a.err) {
					p.ended.Store(true)
				}
				close(a.done)
			}
		})
	}
	for i, item := range items {
		progress := p.app.startProgress(fmt.Sprintf("applying %s %s (%d of %d)", item.Kind, item.Name, i+1, len(items)))
		<-tried[i].done
		progress.stop()
		switch a := &tried[i]; {
		case a.skipped:
			item.Result = resultNotDone
		case isCode(a.err, "group_shared"):
			item.kept = a.err
			kept = append(kept, item)
		default:
			p.tellItem(item, a.err)
		}
	}
	return kept
}

// inTurn returns, of each stream, the earlier ones that have to be done before it:
// where two that read one topic in one group cannot run together, the first is the
// one that runs.
func inTurn(items []*appliedItem) (before [][]int) {
	type reads struct{ group, topic string }
	before = make([][]int, len(items))
	last := map[reads]int{}
	for i, item := range items {
		if item.stream == nil {
			continue
		}
		topics := item.stream.wanted.spec.Topics
		if item.stream.wanted.spec.Source == graphmill.SourceNamePulsar {
			topics = []string{""} // the subscription tells: its default is the stream's own, and a pattern lists no topics
		}
		for _, topic := range topics {
			r := reads{item.stream.group(), topic}
			if earlier, ok := last[r]; ok && earlier != i {
				before[i] = append(before[i], earlier)
			}
			last[r] = i
		}
	}
	return before
}

// group is the consumer group, or subscription, that a stream is to have.
func (s *streamPlan) group() string { return groupOf(s.wanted.spec) }

// groupOf names a consumer group or a subscription, neither of which is the other.
func groupOf(spec graphmill.StreamSpec) string {
	spec = spec.WithDefaults()
	if spec.Source == graphmill.SourceNamePulsar {
		return "subscription " + spec.Subscription
	}
	return "consumer group " + spec.ConsumerGroup
}

// tryAgain does streams once more that were kept from starting.
func (p *applying) tryAgain(ctx context.Context, items []*appliedItem) {
	type planned struct {
		action  string
		changes []change
	}
	all := map[*appliedItem]planned{} // what is done to them, not what is left of it
	for _, item := range items {
		all[item] = planned{item.Action, item.Changes}
	}
	for _, item := range p.doEach(ctx, items, streamsAtOnce) {
		p.tellItem(item, item.kept)
	}
	for item, was := range all {
		item.Action, item.Changes = was.action, was.changes
	}
}

// tellItem tells what has become of a thing. What ends the apply is told once.
func (p *applying) tellItem(item *appliedItem, err error) {
	for _, w := range item.Warnings {
		fmt.Fprintf(plainText{p.app.err}, "warning: %s: %s\n", item.Name, w)
	}
	switch {
	case err == nil:
		p.showDone(item)
	case ofOne(err):
		p.failed(item, err)
	case p.endTold:
		item.fail(err)
	default:
		p.failed(item, err)
		p.endTold = true
	}
}

// doItem does one thing. It is called from several goroutines, for one thing each,
// and prints nothing.
func (p *applying) doItem(ctx context.Context, item *appliedItem) error {
	item.Warnings = nil // of the comparison; what was absent then may be there by now
	switch {
	case item.module != nil:
		item.Result = resultChanged
		if item.Action == actionCreate {
			item.Result = resultCreated
		}
		return item.module.wanted.located(p.doModule(ctx, item))
	case item.stream == nil:
		item.Result = resultDropped
		return p.doDrop(ctx, item)
	}
	created := item.kept != nil && item.Action == actionCreate // before, and not started
	err := item.stream.wanted.located(p.doStream(ctx, item))
	switch { // as it was found at last
	case created, item.Action == actionCreate:
		item.Result = resultCreated
	case item.Action == actionChange:
		item.Result = resultChanged
	default:
		item.Result = actionUnchanged
	}
	return err
}
