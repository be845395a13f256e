package batching_test

import (
	"context"
	"sync"

	"github.com/graphmill/graphmill"
)

// feed is a Fetcher that hands over what a test pushes into it, as a broker's
// client does: in order, at most max messages, the rest later.
type feed struct {
	// whole makes it ignore max, so that leftovers arise in the batcher.
	whole bool

	mu     sync.Mutex
	queue  []graphmill.Fetch
	err    error
	more   chan struct{}
	max    []int // what the calls asked for
	paused chan struct{}
}

func newFeed() *feed { return &feed{more: make(chan struct{}, 1)} }

func (f *feed) push(fetches ...graphmill.Fetch) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.queue = append(f.queue, fetches...)
	f.signal()
}

// fail makes the next call return err, with what is in the queue.
func (f *feed) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
	f.signal()
}

func (f *feed) signal() {
	select {
	case f.more <- struct{}{}:
	default:
	}
}

func (f *feed) Fetch(ctx context.Context, max int) ([]graphmill.Fetch, error) {
	f.mu.Lock()
	f.max = append(f.max, max)
	f.mu.Unlock()
	for {
		if out, err := f.take(max); len(out) > 0 || err != nil {
			if f.paused != nil {
				<-f.paused
			}
			return out, err
		}
		select {
		case <-f.more:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (f *feed) take(max int) ([]graphmill.Fetch, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.err
	f.err = nil
	var out []graphmill.Fetch
	for len(f.queue) > 0 {
		head := f.queue[0]
		if f.whole || len(head.Messages) <= max {
			out = append(out, head)
			max -= len(head.Messages)
			f.queue = f.queue[1:]
			continue
		}
		if max == 0 {
			break
		}
		part := graphmill.Fetch{Next: head.Next, Messages: head.Messages[:max:max]}
		part.Next.Offset = part.Messages[max-1].Offset + 1
		f.queue[0].Messages = head.Messages[max:]
		return append(out, part), err
	}
	return out, err
}

const topic = "t"

// messages makes a fetch of n messages of the given payload size from offset on.
func messages(partition int32, offset int64, n, size int) graphmill.Fetch {
	f := graphmill.Fetch{Next: position(partition, offset+int64(n))}
	for i := range n {
		f.Messages = append(f.Messages, graphmill.Message{
			Topic:     topic,
			Partition: partition,
			Offset:    offset + int64(i),
			Payload:   make([]byte, size),
		})
	}
	return f
}

// control makes a fetch that only moves the position, as control records do.
func control(partition int32, next int64) graphmill.Fetch {
	return graphmill.Fetch{Next: position(partition, next)}
}

func position(partition int32, next int64) graphmill.Position {
	return graphmill.Position{TopicPartition: tp(partition), TopicID: "id", Offset: next}
}

func tp(partition int32) graphmill.TopicPartition {
	return graphmill.TopicPartition{Topic: topic, Partition: partition}
}
