package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/graphmill/graphmill"
)

// A leader that was elected though it lacked messages (unclean election) goes
// on from where its log ends, with offsets that the old leader had given to
// other messages. By its range alone a position looks valid then. Every leader
// therefore writes with an epoch of its own; a position carries the epoch of
// the message before it, and a broker can tell where that epoch ended: before
// the position means that messages which were read are lost (KIP-320).

// epochs tells which leader epoch wrote what, of what has been handed out and
// is not acknowledged. Epochs never fall within a partition, and hardly ever
// change.
type epochs []epochStart

type epochStart struct {
	from  int64 // the first offset seen of the epoch
	epoch int32
}

// saw takes in records in order of offset.
func (e *epochs) saw(records []*kgo.Record) {
	for _, r := range records {
		if n := len(*e); n == 0 || (*e)[n-1].epoch != r.LeaderEpoch {
			*e = append(*e, epochStart{r.Offset, r.LeaderEpoch})
		}
	}
}

// before returns the epoch of the record before offset; -1: not known.
func (e epochs) before(offset int64) int32 {
	for i := len(e) - 1; i >= 0; i-- {
		if e[i].from < offset {
			return e[i].epoch
		}
	}
	return -1
}

// forget drops what is needed only for positions up to offset.
func (e *epochs) forget(offset int64) {
	n := 0
	for n+1 < len(*e) && (*e)[n+1].from < offset {
		n++
	}
	*e = (*e)[n:]
}

// epochEnds asks the leaders where the epochs of the commits ended. What has no
// epoch is not asked for; where a leader does not answer, or does not know the
// epoch, there is nothing to say.
func epochEnds(ctx context.Context, cl *kgo.Client, commits kadm.OffsetResponses, tps []graphmill.TopicPartition) listing {
	req := kmsg.NewPtrOffsetForLeaderEpochRequest()
	byTopic := map[string]int{}
	for _, tp := range tps {
		c, ok := commits.Lookup(tp.Topic, tp.Partition)
		if !ok || c.At < 0 || c.LeaderEpoch < 0 {
			continue
		}
		i, ok := byTopic[tp.Topic]
		if !ok {
			i = len(req.Topics)
			byTopic[tp.Topic] = i
			t := kmsg.NewOffsetForLeaderEpochRequestTopic()
			t.Topic = tp.Topic
			req.Topics = append(req.Topics, t)
		}
		p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
		p.Partition = tp.Partition
		p.LeaderEpoch = c.LeaderEpoch
		req.Topics[i].Partitions = append(req.Topics[i].Partitions, p)
	}
	out := listing{}
	if len(req.Topics) == 0 {
		return out
	}
	for _, shard := range cl.RequestSharded(ctx, req) {
		resp, ok := shard.Resp.(*kmsg.OffsetForLeaderEpochResponse)
		if shard.Err != nil || !ok {
			continue
		}
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				if kerr.ErrorForCode(p.ErrorCode) == nil && p.EndOffset >= 0 {
					out[graphmill.TopicPartition{Topic: t.Topic, Partition: p.Partition}] = listedOffset{offset: p.EndOffset, epoch: p.LeaderEpoch}
				}
			}
		}
	}
	return out
}
