package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/graphmill/graphmill"
)

// What to list, as the protocol's timestamps, and the isolation it is seen
// with. A time in milliseconds may stand in their place.
const (
	firstOffset = int64(-2) // of what the broker still has
	lastOffset  = int64(-1) // the next that will be written

	readUncommitted = int8(0) // lastOffset is the high watermark
	readCommitted   = int8(1) // lastOffset is the last stable offset
)

// listing is an offset of each partition, or why there is none.
type listing map[graphmill.TopicPartition]listedOffset

type listedOffset struct {
	offset int64
	epoch  int32 // of the leader that wrote what is there; -1: not known
	err    error
}

var errNoAnswer = errors.New("the broker has not answered")

// at returns the offset listed for tp.
func (l listing) at(tp graphmill.TopicPartition) (int64, error) {
	o, err := l.of(tp)
	return o.offset, err
}

// of returns the offset listed for tp with its leader epoch.
func (l listing) of(tp graphmill.TopicPartition) (listedOffset, error) {
	o, ok := l[tp]
	switch {
	case !ok:
		return o, fmt.Errorf("list offsets of %s: %w", tp, errNoAnswer)
	case o.err != nil:
		return o, fmt.Errorf("list offsets of %s: %w", tp, o.err)
	}
	return o, nil
}

// listOffsets asks the leaders of the partitions. A leader that does not answer
// is an error of its partitions only. A time after the last message has the
// offset -1.
func listOffsets(ctx context.Context, cl *kgo.Client, tps []graphmill.TopicPartition, what int64, isolation int8) listing {
	req := kmsg.NewPtrListOffsetsRequest()
	req.IsolationLevel = isolation
	req.TimeoutMillis = int32(lookTimeout.Milliseconds())
	byTopic := map[string]int{}
	for _, tp := range tps {
		i, ok := byTopic[tp.Topic]
		if !ok {
			i = len(req.Topics)
			byTopic[tp.Topic] = i
			t := kmsg.NewListOffsetsRequestTopic()
			t.Topic = tp.Topic
			req.Topics = append(req.Topics, t)
		}
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition = tp.Partition
		p.Timestamp = what
		req.Topics[i].Partitions = append(req.Topics[i].Partitions, p)
	}
	out := make(listing, len(tps))
	if len(tps) == 0 {
		return out
	}
	for _, shard := range cl.RequestSharded(ctx, req) {
		resp, ok := shard.Resp.(*kmsg.ListOffsetsResponse)
		if shard.Err != nil || !ok {
			asked, _ := shard.Req.(*kmsg.ListOffsetsRequest)
			out.failed(asked, shard.Err)
			continue
		}
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				out[graphmill.TopicPartition{Topic: t.Topic, Partition: p.Partition}] = listedOffset{p.Offset, p.LeaderEpoch, kerr.ErrorForCode(p.ErrorCode)}
			}
		}
	}
	return out
}

func (l listing) failed(req *kmsg.ListOffsetsRequest, err error) {
	if req == nil {
		return // every partition lacks its answer
	}
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			l[graphmill.TopicPartition{Topic: t.Topic, Partition: p.Partition}] = listedOffset{err: err}
		}
	}
}
