package kafka

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/graphmill/graphmill"
)

// readBit is where Read stands in the operations that a broker says are allowed
// (KIP-430).
const readBit = 1 << kmsg.ACLOperationRead

// lackingRight returns the fault of a right that reading the topics in the group
// needs and the client has not, or nil where none is known to be lacking. Topics
// may be described by who may not read them, so that a reader would fail only at
// its first fetch.
func lackingRight(ctx context.Context, cl *kgo.Client, links *links, cfg *Config) *graphmill.Fault {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	if f := lackingTopicRight(ctx, cl, links, cfg.Topics); f != nil {
		return f
	}
	if cfg.Group == "" {
		return nil
	}
	return lackingGroupRight(ctx, cl, links, cfg.Group)
}

func lackingTopicRight(ctx context.Context, cl *kgo.Client, links *links, topics []string) *graphmill.Fault {
	req := kmsg.NewPtrMetadataRequest()
	req.IncludeTopicAuthorizedOperations = true
	for _, t := range topics {
		rt := kmsg.NewMetadataRequestTopic()
		rt.Topic = kmsg.StringPtr(t)
		req.Topics = append(req.Topics, rt)
	}
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return nil // what is wrong with the brokers has been looked at before
	}
	for _, t := range resp.Topics {
		// Brokers that do not tell say so by the least integer, or by nothing.
		if t.Topic == nil || t.AuthorizedOperations == math.MinInt32 || t.AuthorizedOperations == 0 {
			continue
		}
		if t.AuthorizedOperations&readBit == 0 {
			return links.refused(fmt.Sprintf("read topic %q", *t.Topic), kerr.TopicAuthorizationFailed)
		}
	}
	return nil
}

// lackingGroupRight asks by a sign of life of no member: it needs the right that
// joining needs, and changes nothing.
func lackingGroupRight(ctx context.Context, cl *kgo.Client, links *links, group string) *graphmill.Fault {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group = group
	req.Generation = -1
	resp, err := req.RequestWith(ctx, cl)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if errors.Is(err, kerr.GroupAuthorizationFailed) {
		return links.refused(fmt.Sprintf("join group %q", group), err)
	}
	return nil
}
