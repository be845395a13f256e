package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/graphmill/graphmill"
)

// topicInfo is what the brokers say of a topic.
type topicInfo struct {
	id         string // as in graphmill.Position
	partitions int32
	leaders    map[int32]struct{} // brokers that lead a partition of it
	leaderless []int32            // partitions without a leader now
	err        error              // why there is nothing else: kerr.UnknownTopicOrPartition, a refusal
}

func (t topicInfo) absent() bool {
	return errors.Is(t.err, kerr.UnknownTopicOrPartition) || errors.Is(t.err, kerr.UnknownTopicID)
}

// describeTopics asks for the topics anew, past every cache of the client. It
// never makes the broker create one.
func describeTopics(ctx context.Context, cl *kgo.Client, topics []string) (map[string]topicInfo, error) {
	req := kmsg.NewPtrMetadataRequest()
	req.AllowAutoTopicCreation = false
	for _, t := range topics {
		rt := kmsg.NewMetadataRequestTopic()
		rt.Topic = kmsg.StringPtr(t)
		req.Topics = append(req.Topics, rt)
	}
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return nil, err
	}
	infos := make(map[string]topicInfo, len(topics))
	for _, t := range resp.Topics {
		if t.Topic == nil {
			continue
		}
		info := topicInfo{
			id:         formatID(t.TopicID),
			partitions: int32(len(t.Partitions)),
			leaders:    map[int32]struct{}{},
			err:        kerr.ErrorForCode(t.ErrorCode),
		}
		for _, p := range t.Partitions {
			if p.Leader < 0 {
				info.leaderless = append(info.leaderless, p.Partition)
				continue
			}
			info.leaders[p.Leader] = struct{}{}
		}
		slices.Sort(info.leaderless)
		infos[*t.Topic] = info
	}
	for _, t := range topics {
		if _, ok := infos[t]; !ok {
			infos[t] = topicInfo{err: kerr.UnknownTopicOrPartition}
		}
	}
	return infos, nil
}

// complaint returns what stands against reading the topics: a refusal first,
// then topics that are absent, then partitions without a leader. Nil: nothing.
func complaint(topics []string, infos map[string]topicInfo) *graphmill.Fault {
	var absent, leaderless []string
	var other error
	for _, t := range topics {
		info := infos[t]
		switch {
		case isRefusal(info.err):
			return forbidden(fmt.Sprintf("topic %q cannot be described", t), info.err)
		case info.absent():
			absent = append(absent, fmt.Sprintf("%q", t))
		case errors.Is(info.err, kerr.InvalidTopicException):
			return ends("topic_invalid", fmt.Sprintf("the broker takes no topic of the name %q", t), "", info.err)
		case info.err != nil:
			other = info.err
			leaderless = append(leaderless, fmt.Sprintf("topic %q", t))
		default:
			for _, p := range info.leaderless {
				leaderless = append(leaderless, graphmill.TopicPartition{Topic: t, Partition: p}.String())
			}
		}
	}
	switch {
	case len(absent) > 0:
		return absentTopics(absent)
	case len(leaderless) > 0:
		f := waits(codeUnreachable, "no broker leads "+strings.Join(leaderless, ", ")+" now", other)
		f.Next = "check that all brokers of the cluster run"
		return f
	}
	return nil
}

func absentTopics(quoted []string) *graphmill.Fault {
	is := "topic " + quoted[0] + " does not exist"
	if len(quoted) > 1 {
		is = "topics " + strings.Join(quoted, ", ") + " do not exist"
	}
	f := waits(codeTopicAbsent, is, nil)
	f.Next = "create it, or correct the name; a stream that waits for it notices within seconds"
	return f
}
